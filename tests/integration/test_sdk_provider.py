"""The provider half of the SDKs: one table of cases, against a scripted broker, for each."""

import shutil
import tempfile
import unittest

import wire
from wire import Broker

TABLE = wire.ROOT / "tests" / "programs"


class Table:
    """What every provider SDK does; its subclass says how the program is started."""

    def setUp(self):
        self.calls = 0
        self.broker = self.start()
        self.addCleanup(self.end)
        self.broker.answer_hello()

    def end(self):
        if self.broker.fileno() != -1:
            self.broker.close()

    def ask(self, tool, arguments=None):
        """(msgid, id) of a call that is on its way."""
        self.calls += 1
        call = f"c-{self.calls}"
        return self.broker.request(
            "tool.call", call=call, tool=tool, arguments=arguments or {}, action="read",
            namespace="workspace", path=["docs", "a"], timeoutMs=30000), call

    def answer(self, asked):
        msgid, call = asked
        error, result = self.broker.expect_reply(msgid)
        self.assertIsNone(error)
        self.assertEqual(result.pop("callId"), call)
        return result

    def call(self, tool, arguments=None):
        return self.answer(self.ask(tool, arguments))

    def failed(self, tool, code, arguments=None):
        result = self.call(tool, arguments)
        self.assertEqual((result["status"], result["error"]["code"]), ("failed", code), result)
        self.assertNotIn("output", result)
        return result["error"]

    def still_serves(self):
        self.assertEqual(self.call("t.mine", {"path": "docs/a"}),
                         {"status": "succeeded", "output": ["docs", "a"]})

    def test_a_handler_sees_what_was_decided(self):
        arguments = {"path": "docs/a", "n": [1, -2, 2.5, None, True, "é", b"\x00"]}
        self.assertEqual(self.call("t.echo", arguments), {
            "status": "succeeded", "output": {
                "tool": "t.echo", "arguments": arguments, "action": "read",
                "namespace": "workspace", "path": ["docs", "a"]}})

    def test_an_error_has_its_code(self):
        error = self.failed("t.fail", "not_found")
        self.assertEqual((error["message"], error["retryable"]), ("there is none", True))
        self.failed("t.none", "tool_unavailable")
        self.still_serves()

    def test_a_result_that_cannot_travel_fails_the_call_only(self):
        for tool in ("t.big", "t.deep"):
            self.failed(tool, "invalid_tool_result")
        self.still_serves()

    def test_an_argument_that_names_another_resource_is_refused(self):
        for path in ("docs/b", "docs", "docs/a/b", "", "docs/../docs/a", 7, None):
            with self.subTest(path=path):
                self.failed("t.mine", "invalid_tool_arguments", {"path": path})
        self.failed("t.mine", "invalid_tool_arguments")
        self.still_serves()

    def test_what_it_prints_breaks_nothing(self):
        self.assertEqual(self.call("t.print"), {"status": "succeeded", "output": "said"})
        self.still_serves()
        status, _, err = self.broker.close()
        self.assertEqual(status, 0, err)
        self.assertIn(b"to standard error", err)

    def test_calls_overlap_and_are_cancelled_one_by_one(self):
        waiting = [self.ask("t.wait") for _ in range(3)]
        self.still_serves()
        for asked in reversed(waiting):
            self.broker.notify("tool.cancel", call=asked[1])
            self.assertEqual(self.answer(asked), {"status": "succeeded", "output": "stopped"})
        self.broker.notify("tool.cancel", call="c-77")  # nobody's: its answer was on its way
        self.still_serves()

    def test_more_than_it_runs_at_once_wait(self):
        waiting = [self.ask("t.wait") for _ in range(4)]
        more = self.ask("t.echo")
        self.broker.notify("tool.cancel", call=waiting[0][1])
        self.answer(waiting[0])
        self.assertEqual(self.answer(more)["status"], "succeeded")

    def test_the_end_of_the_link_is_its_end(self):
        self.still_serves()
        self.assertEqual(self.broker.close()[0], 0)

    def test_the_end_of_the_link_ends_what_runs(self):
        self.ask("t.wait")
        self.still_serves()
        self.assertEqual(self.broker.close()[0], 0)

    def test_whatever_no_broker_says_ends_it(self):
        sound = {"call": "c", "tool": "t.echo", "arguments": {}, "action": "a", "namespace": "n",
                 "path": [], "timeoutMs": 1}
        for message in ([0, 9, "tool.invoke", [sound]], [2, "tool.call", [sound]],
                        [0, 9, "tool.call", [{**sound, "more": 1}]],
                        [0, 9, "tool.call", [{k: v for k, v in sound.items() if k != "path"}]],
                        [0, 9, "tool.call", [{**sound, "arguments": []}]], [1, 9, None, {}],
                        [0, 9, "tool.call", [sound, sound]], [3], {}, 7, [2, "tool.cancel", [{}]]):
            with self.subTest(message=message):
                self.setUp()
                self.broker.send(message)
                self.assertTrue(self.broker.closed())
                self.assertNotEqual(self.broker.close()[0], 0)
        for data in (b"\x00\x00\x00\x01\xc1", b"\xff\xff\xff\xff" + b"x" * 64):
            with self.subTest(data=data):
                self.setUp()
                self.broker.send_raw(data)
                self.assertTrue(self.broker.closed())
                self.assertNotEqual(self.broker.close()[0], 0)


class Crashes:
    """Of languages in which a handler can throw what it likes."""

    def test_a_crash_fails_the_call_and_its_text_stays_inside(self):  # D-12
        error = self.failed("t.crash", "tool_execution_failed", {"secret": "a secret word"})
        self.assertNotIn("secret", error["message"])
        self.still_serves()
        _, out, err = self.broker.close()
        self.assertNotIn(b"a secret word", out + err)
        self.assertIn(b"t.crash", err)


class Gone:
    """A broker that ends before its provider has begun."""

    def test_a_link_that_is_closed_already_is_no_error(self):
        broker = self.start()
        broker.sock.shutdown(2)
        self.assertEqual(broker.close()[0::2], (0, b""))


class Python(Gone, Crashes, Table, unittest.TestCase):
    def start(self):
        folder = tempfile.mkdtemp(prefix="caisson-provider-")
        self.addCleanup(shutil.rmtree, folder)
        for source in (wire.SDK / "caisson.py", wire.SDK / "caisson_provider.py",
                       TABLE / "provider_table.py"):
            shutil.copy(source, folder)
        return Broker(["/usr/bin/python3", "provider_table.py"], cwd=folder)


NODE = shutil.which("node")


@unittest.skipUnless(NODE, "node is not installed")
class JavaScript(Gone, Crashes, Table, unittest.TestCase):
    def start(self):
        folder = tempfile.mkdtemp(prefix="caisson-provider-")
        self.addCleanup(shutil.rmtree, folder)
        for source in (wire.SDK / "caisson.mjs", wire.SDK / "caisson_provider.mjs",
                       TABLE / "provider_table.mjs"):
            shutil.copy(source, folder)
        return Broker([NODE, "provider_table.mjs"], cwd=folder)


PROGRAM = wire.program("program/provider_table")


@unittest.skipUnless(PROGRAM, "program/provider_table is not built")
class C(Gone, Table, unittest.TestCase):
    def start(self):
        return Broker([PROGRAM])

    def test_what_a_handler_gets_wrong_fails_its_call(self):
        self.failed("t.crash", "tool_execution_failed")
        self.failed("t.half", "invalid_tool_result")
        self.still_serves()


if __name__ == "__main__":
    unittest.main()
