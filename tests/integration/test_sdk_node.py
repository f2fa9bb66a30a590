"""caisson.mjs and its example: a scripted broker without a chamber, then the real one."""

import os
import pathlib
import shutil
import tempfile
import textwrap
import unittest

import wire
from node_lab import EXAMPLES, NODE, WHY_NOT
from wire import Broker, Denied, Failed, caisson

TIMEOUT = 600  # of this file, for run.py


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Runtime(unittest.TestCase):
    """caisson.mjs in a process of its own."""

    def runtime(self, body, tail="", **kw):
        """A broker whose runtime's turn is `body`."""
        folder = tempfile.mkdtemp(prefix="caisson-sdk-")
        self.addCleanup(shutil.rmtree, folder)
        shutil.copy(wire.SDK / "caisson.mjs", folder)
        with open(os.path.join(folder, "agent.mjs"), "w", encoding="utf-8") as f:
            f.write("import * as caisson from './caisson.mjs';\n"
                    "import { readlinkSync } from 'node:fs';\n"
                    "const link = readlinkSync(`/proc/self/fd/${process.env.CAISSON_LINK_FD}`);\n"
                    "const once = (signal) => new Promise((r) => signal.aborted ? r()\n"
                    "  : signal.addEventListener('abort', r));\n"
                    "caisson.run(async (turn) => {\n"
                    + textwrap.dedent(body) + f"\n}});\n{tail}\n")
        broker = Broker([NODE, "agent.mjs"], cwd=folder, **kw)
        self.addCleanup(self.end, broker)
        broker.answer_hello()
        return broker

    def end(self, broker):
        if broker.fileno() != -1:
            broker.close()

    def test_a_turn_sees_what_it_is_asked_and_its_output_arrives(self):
        b = self.runtime("""
            return { message: turn.message, tools: [...turn.tools.keys()].sort(), agent: turn.agent,
                     limits: [turn.limits.maxSteps, turn.limits.maxToolCalls],
                     left: turn.limits.deadline > performance.now(), trace: turn.context.traceId };""")
        out = b.turn({"n": 1}, {"t.x": None}, max_steps=3, max_tool_calls=9)
        self.assertEqual(out, {"status": "complete", "output": {
            "message": {"n": 1}, "tools": ["t.x"], "agent": "agent:test", "limits": [3, 9],
            "left": True, "trace": "t-1"}})
        self.assertEqual(b.turn(2)["output"]["message"], 2)  # the same process, the next turn
        self.assertEqual(b.close(), (0, b"", b""))

    def test_denied_and_failed_are_errors_with_a_code(self):
        b = self.runtime("""
            const codes = [];
            for (const tool of ['t.ok', 't.denied', 't.failed', 't.missing']) {
              try {
                codes.push(await turn.call(tool, { a: 1 }, { step: 0 }));
              } catch (e) {
                codes.push([e.name, e.code, e instanceof caisson.Refused, e.retryable, e.details]);
              }
            }
            return codes;""")

        def fail(kind):
            raise kind

        out = b.turn(None, {"t.ok": lambda a: a, "t.denied": lambda a: fail(Denied("no_matching_grant")),
                            "t.failed": lambda a: fail(Failed("not_found"))})
        self.assertEqual(out["output"], [
            {"a": 1}, ["ToolDenied", "no_matching_grant", True, False, None],
            ["ToolFailed", "not_found", True, False, None],
            ["ToolDenied", "tool_unavailable", True, False, None]])

    def test_calls_overlap_and_results_come_in_any_order(self):
        b = self.runtime("""
            return Promise.all(Array.from(Array(32), (_, i) => turn.call('t', { i })));""")
        run, _ = b.start_turn(None, ["t"])
        asked = [b.expect("tool.invoke") for _ in range(32)]  # all before any answer
        self.assertEqual(len({params["id"] for _, params in asked}), 32)
        for msgid, params in reversed(asked):
            b.reply(msgid, callId=params["id"], tool="t", status="succeeded",
                    output=params["arguments"]["i"])
        error, outcome = b.expect_reply(run)
        self.assertEqual((error, outcome["output"]), (None, list(range(32))))

    def test_a_call_that_is_awaited_late_may_fail_early(self):
        b = self.runtime("""
            const calls = [turn.call('t.denied', {}), turn.call('t.ok', {})];
            await turn.call('t.ok', {});
            return (await Promise.allSettled(calls)).map(({ status }) => status);""")

        def denied(_):
            raise Denied("no_matching_grant")

        out = b.turn(None, {"t.denied": denied, "t.ok": lambda a: 1})
        self.assertEqual(out["output"], ["rejected", "fulfilled"])

    def test_full_sockets_do_not_block_each_other(self):
        b = self.runtime("""
            const x = new Uint8Array(200 << 10);
            const all = await Promise.all(Array.from(Array(24), () => turn.call('t', { x })));
            return all.map((got) => got.length);""")
        run, _ = b.start_turn(None, ["t"])
        big = b"y" * (512 << 10)
        asked = [b.expect("tool.invoke")]
        for i in range(24):  # an answer before the next question is read
            msgid, params = asked[i]
            b.reply(msgid, callId=params["id"], tool="t", status="succeeded", output=big)
            if i < 23:
                asked.append(b.expect("tool.invoke"))
        self.assertEqual(b.expect_reply(run)[1]["output"], [512 << 10] * 24)

    def test_events_annotations_and_output_arrive(self):
        b = self.runtime("""
            await turn.emit('note', { n: 1 });
            await turn.annotate('k', [1, 2]);
            await turn.output('x'.repeat(70000));
            await turn.output(new Uint8Array([101, 114, 114]), 'stderr');""")
        self.assertEqual(b.turn(None), {"status": "complete", "output": None})
        self.assertEqual((b.events, b.annotations), ([("note", {"n": 1})], {"k": [1, 2]}))
        self.assertEqual(b.written, {"stdout": b"x" * 70000, "stderr": b"err"})

    def test_fail_and_escalate_are_outcomes(self):
        b = self.runtime("""
            if (turn.message) throw new caisson.Escalate('may I?');
            throw new caisson.Fail('bad_day', 'nothing worked', true);""")
        self.assertEqual(b.turn(0), {"status": "fail", "error": {
            "code": "bad_day", "message": "nothing worked", "retryable": True}})
        self.assertEqual(b.turn(1), {"status": "escalate", "reason": "may I?"})

    def test_an_error_tells_its_class_and_nothing_else(self):
        # TU-16: the error itself goes to the runtime's own standard error.
        b = self.runtime("""throw turn.message ? 'the secret' : new TypeError('the secret');""")
        self.assertEqual(b.turn(0), {"status": "fail", "error": {
            "code": "runtime_failed", "message": "TypeError"}})
        self.assertEqual(b.turn(1)["error"]["message"], "String")
        _, out, err = b.close()
        self.assertEqual(out, b"")
        self.assertIn(b"the secret", err)

    def test_what_would_end_the_link_is_an_error_instead(self):
        b = self.runtime("""
            let refused = 0;
            for (const act of [() => turn.call('t', { x: 'y'.repeat(256 << 10) }),
                               () => turn.call('', {}), () => turn.call('t', { x: NaN }),
                               () => turn.call('t', [1]), () => turn.call('t', null),
                               () => turn.call('t\\0', {}), () => turn.call(7, {}),
                               () => turn.call('t', new Map()), () => turn.call('t', {}, { step: -1 }),
                               () => turn.call('t', {}, { idempotencyKey: '' }),
                               () => turn.emit('e', 'y'.repeat(64 << 10)),
                               () => turn.annotate('k'.repeat(129), 1),
                               () => turn.output('x', 'stdin')]) {
              await act().catch((e) => { refused += e instanceof caisson.ProtocolError; });
            }
            return turn.message ? refused : 'y'.repeat(768 << 10);""")
        self.assertEqual(b.turn(True), {"status": "complete", "output": 13})
        self.assertEqual(b.turn(False)["error"]["message"], "ProtocolError")

    def test_drain_is_seen_and_cancel_ends_every_wait(self):
        b = self.runtime("""
            await once(turn.draining);
            await turn.emit('draining');
            try {
              await turn.call('t', {});
            } catch (e) {
              if (!(e instanceof caisson.Cancelled)) throw e;
              const late = await turn.call('t', {}).catch((again) => again.name);
              throw new caisson.Fail('stopped', `${e.message} ${turn.cancelled.aborted} ${late} `
                + `${turn.cancelled.reason === e}`);
            }""")
        run, operation = b.start_turn(None, ["t"])
        b.notify("operation.drain", operation="another", graceMs=1)  # not this turn's
        b.notify("operation.drain", operation=operation, graceMs=1000)
        msgid, _ = b.expect("event.emit")
        b.reply(msgid, sequence=1)
        msgid, params = b.expect("tool.invoke")
        b.notify("operation.cancel", operation=operation, cause="deadline")
        _, outcome = b.expect_reply(run)
        self.assertEqual(outcome["error"]["message"], "deadline true Cancelled true")
        # An answer that was under way is no answer to nothing.
        b.reply(msgid, callId=params["id"], tool="t", status="succeeded", output=1)
        self.assertEqual(b.close()[0], 0)

    def test_a_refusal_as_a_whole_is_an_error(self):
        b = self.runtime("""
            return turn.emit('late').catch((e) => [e.name, e.code, e.message]);""")
        run, _ = b.start_turn(None)
        msgid, _ = b.expect("event.emit")
        b.refuse(msgid, "failed_precondition", "host is closed")
        self.assertEqual(b.expect_reply(run)[1]["output"],
                         ["Refused", "failed_precondition", "host is closed"])

    def test_the_link_is_not_inherited(self):
        b = self.runtime("""
            const { execFileSync } = await import('node:child_process');
            const links = execFileSync('ls', ['-l', '/proc/self/fd']).toString();
            return [links.includes(link), 'CAISSON_LINK_FD' in process.env];""")
        self.assertEqual(b.turn(None)["output"], [False, False])

    def test_a_closed_link_ends_the_runtime_also_in_the_middle_of_a_call(self):
        b = self.runtime("""await turn.call('t', {});""")
        b.start_turn(None, ["t"])
        b.expect("tool.invoke")
        status, _, err = b.close()
        self.assertEqual(status, 0)
        self.assertIn(b"LinkClosed", err)

    def test_a_closed_link_ends_a_runtime_that_waits_for_something_else(self):
        b = self.runtime("""
            turn.emit('waiting');
            await new Promise((resolve) => setTimeout(resolve, 2 ** 31 - 1));""")
        b.start_turn(None)
        b.expect("event.emit")
        self.assertEqual(b.close()[0], 0)

    def test_a_field_that_nobody_knows_changes_nothing(self):
        b, evil = self.runtime("""return [await turn.call('t', {}), turn instanceof Object,
            turn.x ?? null, ({}).x ?? null, Object.keys(turn.context)];"""), {"x": 1}
        msgid = b.request("operation.run", **{
            "operation": "o", "executionId": "e", "agent": "a", "message": {"__proto__": evil},
            "tools": [{"name": "t"}], "context": {"__proto__": evil}, "maxSteps": 1, "timeoutMs": 9,
            "maxToolCalls": 1, "__proto__": evil, "constructor": evil, "call": 1, "emit": None})
        b.serve(b.receive(), {"t": lambda a: {"__proto__": evil}})
        self.assertEqual(b.receive()[1:], [msgid, None, {"status": "complete", "output": [
            {"__proto__": evil}, True, None, None, ["__proto__"]]}])

    def test_garbage_from_the_broker_ends_the_runtime_with_an_error(self):
        run = {"operation": "o", "executionId": "e", "agent": "agent:a", "message": 1, "tools": [],
               "context": {}, "maxSteps": 1, "maxToolCalls": 1, "timeoutMs": 1}

        def without(name):
            return {k: v for k, v in run.items() if k != name}

        for data in (b"\0\0\0\1\xc1", b"\0\0\0\2\x91\xc0", b"\0\0\0\0", b"\xff\xff\xff\xff",
                     b"\0\x10\0\1", caisson.frame(7), caisson.frame([]), caisson.frame({"a": 1}),
                     caisson.frame([3, 1, None, {}]), caisson.frame([2, "x", [{}]]),
                     caisson.frame([0, 1, "operation.run", [{}]]),
                     *(caisson.frame([0, 1, "operation.run", [without(k)]]) for k in run),
                     caisson.frame([0, 1, "operation.run", [{**run, "tools": [1]}]]),
                     caisson.frame([0, 1, "operation.run", [{**run, "maxSteps": -1}]]),
                     caisson.frame([0, 1, "operation.run", [run, run]]),
                     caisson.frame([0, 1, "operation.run", run]),
                     caisson.frame([0, "x", "operation.run", [run]]),
                     caisson.frame([2, "operation.run", [run]]),
                     caisson.frame([0, 1, "operation.drain", [{"operation": "o"}]]),
                     caisson.frame([2, "operation.cancel", [{"operation": "o"}]]),
                     caisson.frame([2, "operation.drain", [{}]]),
                     caisson.frame([1, 99, None, {}]), caisson.frame([1, "x", None, {}])):
            with self.subTest(data=data):
                b = self.runtime("""return 1;""")
                b.send_raw(data)
                self.assertTrue(b.closed())
                status, _, err = b.close()
                self.assertEqual(status, 1)
                self.assertIn(b"ProtocolError: ", err)

    def test_an_answer_that_is_none_ends_the_runtime_with_an_error(self):
        ok = {"callId": "c1", "tool": "t", "status": "succeeded", "output": 1}
        error = {"code": "x", "message": ""}
        for reply in ([None, None], [error, ok], [7, None], [{}, None], [None, 7], [None, {}],
                      [None, {**ok, "status": "great"}], [None, {**ok, "status": "denied"}],
                      [None, {**ok, "status": "failed", "error": {"code": 1}}]):
            with self.subTest(reply=reply):
                # The runtime that swallows the error ends all the same.
                b = self.runtime("""await turn.call('t', {}).catch(() => {});
                    await new Promise(() => {});""")
                b.start_turn(None, ["t"])
                msgid, _ = b.expect("tool.invoke")
                b.send([1, msgid, *reply])
                self.assertTrue(b.closed())
                status, _, err = b.close()
                self.assertEqual(status, 1)
                self.assertIn(b"ProtocolError: ", err)

    def test_another_protocol_or_none_is_an_error(self):
        other = {"protocol": caisson.PROTOCOL + 1, "frameMax": 1}
        for env, answer in (({}, other), ({"CAISSON_LINK_FD": "x"}, None)):
            with self.subTest(answer=answer):
                b = Broker([NODE, "--input-type=module", "-e",
                            f"import {{ run }} from '{wire.SDK}/caisson.mjs'; run(() => 1);"], env=env)
                self.addCleanup(self.end, b)
                if answer:
                    msgid, _ = b.expect("hello")
                    b.reply(msgid, **answer)
                self.assertTrue(b.closed())
                status, _, err = b.close()
                self.assertEqual(status, 1)
                self.assertIn(b"ProtocolError: ", err)

    def test_a_fault_is_run_s_to_handle(self):
        b = self.runtime("""return 1;""", tail="")
        b.close()
        folder = tempfile.mkdtemp(prefix="caisson-sdk-")
        self.addCleanup(shutil.rmtree, folder)
        agent = pathlib.Path(folder, "agent.mjs")
        agent.write_text(f"import {{ run }} from '{wire.SDK}/caisson.mjs';\n"
                         "await run(() => 1).then(() => console.log('closed'),\n"
                         "  (e) => console.log(`told ${e.name}`));\n", encoding="utf-8")
        for data, status, told in ((b"\0\0\0\1\xc1", 1, b"told ProtocolError\n"),
                                   (b"", 0, b"closed\n")):
            b = Broker([NODE, agent])
            b.answer_hello()
            b.send_raw(data)
            if data:
                self.assertTrue(b.closed())
            self.assertEqual(b.close(), (status, told, b""))


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Example(unittest.TestCase):
    FILES = {"docs/a.md": "[b](b.md) and [away](https://example.org/x.md), [part](#here)",
             "docs/b.md": "[a](a.md#top), [gone](sub/gone.md), [out](../README.md)", "docs/c": "[](x)"}

    def test_links(self):
        folder = tempfile.mkdtemp(prefix="caisson-sdk-")
        self.addCleanup(shutil.rmtree, folder)
        for name, source in (("app", EXAMPLES / "node" / "links.mjs"),
                             ("sdk", wire.SDK / "caisson.mjs")):
            os.mkdir(f"{folder}/{name}")
            shutil.copy(source, f"{folder}/{name}")

        def listing(a):  # a page has one entry
            at = int(a.get("cursor", "0"))
            names = sorted(p.split("/")[1] for p in self.FILES)
            last = at + 1 == len(names)
            return {"entries": [{"name": names[at], "type": "file", "size": 1}], "complete": last,
                    **({} if last else {"cursor": str(at + 1)})}

        def stat(a):
            if not a["path"].startswith("docs/"):
                raise Denied("no_matching_grant")
            if a["path"] not in self.FILES:
                raise Failed("not_found")
            return {"type": "file"}

        b = Broker([NODE, f"{folder}/app/links.mjs"])
        b.answer_hello()
        out = b.turn({"path": "docs"}, {
            "files.list": listing, "files.stat": stat,
            "files.read": lambda a: {"text": self.FILES[a["path"]]}})
        self.assertEqual(out["output"], {"pages": 2, "links": 4, "broken": {
            "docs/sub/gone.md": "not_found", "README.md": "no_matching_grant"}})
        out = b.turn({"path": "docs"}, {})
        self.assertEqual((out["status"], out["error"]["code"]), ("fail", "tool_unavailable"))
        self.assertEqual(b.close(), (0, b"", b""))


if __name__ == "__main__":
    unittest.main()
