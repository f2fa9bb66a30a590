"""The runtime SDKs and the examples, against a scripted broker without a chamber."""

import base64
import gzip
import math
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

import wire
from wire import Broker, Denied, Failed, caisson

EXAMPLES = wire.ROOT / "examples"


class Size(unittest.TestCase):
    def test_whoever_copies_an_sdk_can_read_it(self):
        for path in wire.SDK.glob("caisson*.*"):
            with self.subTest(path=path.name):
                self.assertLess(len(path.read_text(encoding="utf-8").splitlines()), 400)


class Values(unittest.TestCase):
    """Canonical MessagePack, the same table as common/walk reads."""

    def test_every_value_has_one_encoding(self):
        for value, encoded in [
                (None, "c0"), (False, "c2"), (True, "c3"), (0, "00"), (127, "7f"), (128, "cc80"),
                (256, "cd0100"), (65536, "ce00010000"), (1 << 32, "cf0000000100000000"),
                (-1, "ff"), (-32, "e0"), (-33, "d0df"), (-129, "d1ff7f"),
                (-32769, "d2ffff7fff"), (-(1 << 63), "d38000000000000000"),
                (1.5, "cb3ff8000000000000"), ("", "a0"), ("é", "a2c3a9"), (b"", "c400"),
                ([], "90"), ({}, "80"), ({"b": 1, "a": [None]}, "82a16201a16191c0")]:
            with self.subTest(value=value):
                self.assertEqual(caisson.pack(value).hex(), encoded)
                self.assertEqual(caisson.unpack(bytes.fromhex(encoded)), value)

    def test_lengths_at_every_border_come_back(self):
        for n in (15, 16, 31, 32, 255, 256, 32767, 32768, 65535, 65536):
            for value in ("x" * n, b"x" * n, [None] * min(n, 65000),
                          {str(i): i for i in range(min(n, 30000))}):
                self.assertEqual(caisson.unpack(caisson.pack(value)), value)

    def test_what_cannot_travel_is_refused(self):
        deep = 1
        for _ in range(caisson.DEPTH_MAX + 1):
            deep = [deep]
        for value in (math.nan, math.inf, 1 << 64, -(1 << 63) - 1, {1: 2}, {b"a": 1}, object(),
                      "\ud800", [None] * (caisson.NODES_MAX + 1), deep, {"a": {1}}):
            with self.subTest(value=repr(value)[:40]), self.assertRaises(caisson.ProtocolError):
                caisson.pack(value)

    def test_what_is_not_canonical_is_refused(self):
        for text in ("", "c1", "cc01", "cd00ff", "ce0000ffff", "cf00000000ffffffff", "d0e0", "d001",
                     "d1ff80", "ca3fc00000", "cb7ff8000000000000", "cb7ff0000000000000",
                     "d90161", "da000161", "c5000161", "dc0000", "de0000", "81a161",
                     "82a16101a16102", "810101", "810001", "81c0c0", "c70100", "d40000", "a1ff", "0000",
                     "dfffffffff", "ddffffffff", "dbffffffff", "91", "c4", "cb00", "91" * 33 + "c0"):
            with self.subTest(bytes=text[:20]), self.assertRaises(caisson.ProtocolError):
                caisson.unpack(bytes.fromhex(text))


class Python(unittest.TestCase):
    """caisson.py in a process of its own."""

    def runtime(self, body, **kw):
        """A broker whose runtime's `run(turn)` is `body`."""
        folder = tempfile.mkdtemp(prefix="caisson-sdk-")
        self.addCleanup(shutil.rmtree, folder)
        shutil.copy(wire.SDK / "caisson.py", folder)
        with open(os.path.join(folder, "agent.py"), "w", encoding="utf-8") as f:
            f.write("import caisson, threading, os, sys\n\ndef run(turn):\n"
                    + textwrap.indent(textwrap.dedent(body), "    ")
                    + "\n\ncaisson.serve(run)\n")
        broker = Broker([sys.executable, "agent.py"], cwd=folder, **kw)
        self.addCleanup(self.end, broker)
        broker.answer_hello()
        return broker

    def end(self, broker):
        if broker.fileno() != -1:
            broker.close()

    def test_a_turn_sees_what_it_is_asked_and_its_output_arrives(self):
        b = self.runtime("""
            return {"message": turn.message, "tools": sorted(turn.tools), "agent": turn.agent,
                    "limits": [turn.limits.max_steps, turn.limits.max_tool_calls],
                    "trace": turn.context["traceId"]}""")
        out = b.turn({"n": 1}, {"t.x": None}, max_steps=3, max_tool_calls=9)
        self.assertEqual(out, {"status": "complete", "output": {
            "message": {"n": 1}, "tools": ["t.x"], "agent": "agent:test", "limits": [3, 9],
            "trace": "t-1"}})
        self.assertEqual(b.turn(2)["output"]["message"], 2)  # the same process, the next turn
        self.assertEqual(b.close()[0], 0)

    def test_denied_and_failed_are_exceptions_with_a_code(self):
        b = self.runtime("""
            codes = []
            for tool in ("t.ok", "t.denied", "t.failed", "t.missing"):
                try:
                    codes.append(turn.invoke(tool, {"a": 1}, step=0))
                except (caisson.ToolDenied, caisson.ToolFailed) as e:
                    codes.append([type(e).__name__, e.code])
            return codes""")

        def fail(kind):
            raise kind

        out = b.turn(None, {"t.ok": lambda a: a, "t.denied": lambda a: fail(Denied("no_matching_grant")),
                            "t.failed": lambda a: fail(Failed("not_found"))})
        self.assertEqual(out["output"], [
            {"a": 1}, ["ToolDenied", "no_matching_grant"], ["ToolFailed", "not_found"],
            ["ToolDenied", "tool_unavailable"]])

    def test_calls_overlap_and_results_come_in_any_order(self):
        b = self.runtime("""return turn.invoke_all([("t", {"i": i}) for i in range(32)])""")
        run, _ = b.start_turn(None, ["t"])
        asked = [b.expect("tool.invoke") for _ in range(32)]  # all before any answer
        self.assertEqual(len({params["id"] for _, params in asked}), 32)
        for msgid, params in reversed(asked):
            b.reply(msgid, callId=params["id"], tool="t", status="succeeded",
                    output=params["arguments"]["i"])
        error, outcome = b.expect_reply(run)
        self.assertEqual((error, outcome["output"]), (None, list(range(32))))

    def test_a_call_may_have_a_step_and_a_key(self):
        b = self.runtime("""
            turn.invoke("t", {})
            turn.invoke("t", {}, step=3)
            turn.invoke("t", {}, idempotency_key="k")
            turn.start("t", {}, 4, "k" * 128).result()""")
        run, _ = b.start_turn(None, ["t"])
        for wanted in ({}, {"step": 3}, {"idempotencyKey": "k"},
                       {"step": 4, "idempotencyKey": "k" * 128}):
            msgid, params = b.expect("tool.invoke")
            self.assertEqual({name: params[name] for name in params
                              if name in ("step", "idempotencyKey")}, wanted)
            b.reply(msgid, callId=params["id"], tool="t", status="succeeded", output=1)
        self.assertEqual(b.expect_reply(run)[1]["status"], "complete")

    def test_what_a_turn_can_do_is_on_one_page(self):  # TU-3
        b = self.runtime("""return sorted(n for n in dir(turn) if not n.startswith("_"))""")
        self.assertEqual(b.turn(None)["output"], [
            "agent", "annotate", "cancelled", "context", "draining", "emit", "execution_id", "invoke",
            "invoke_all", "limits", "message", "operation", "output", "over", "start", "tools"])

    def test_threads_share_a_turn(self):
        b = self.runtime("""
            got = []
            threads = [threading.Thread(target=lambda i=i: got.append(turn.invoke("t", {"i": i})))
                       for i in range(8)]
            [t.start() for t in threads], [t.join() for t in threads]
            return sorted(got)""")
        self.assertEqual(b.turn(None, {"t": lambda a: a["i"]})["output"], list(range(8)))

    def test_events_annotations_and_output_arrive(self):
        b = self.runtime("""
            turn.emit("note", {"n": 1})
            turn.annotate("k", [1, 2])
            turn.output(b"x" * 70000)
            turn.output(b"err", stream="stderr")""")
        self.assertEqual(b.turn(None), {"status": "complete", "output": None})
        self.assertEqual((b.events, b.annotations), ([("note", {"n": 1})], {"k": [1, 2]}))
        self.assertEqual(b.written, {"stdout": b"x" * 70000, "stderr": b"err"})

    def test_fail_and_escalate_are_outcomes(self):
        b = self.runtime("""
            if turn.message:
                raise caisson.Escalate("may I?")
            raise caisson.Fail("bad_day", "nothing worked", retryable=True)""")
        self.assertEqual(b.turn(0), {"status": "fail", "error": {
            "code": "bad_day", "message": "nothing worked", "retryable": True}})
        self.assertEqual(b.turn(1), {"status": "escalate", "reason": "may I?"})

    def test_an_exception_tells_its_class_and_nothing_else(self):
        # TU-16: the error itself goes to the runtime's own standard error.
        b = self.runtime("""raise KeyError("the secret")""")
        self.assertEqual(b.turn(None), {"status": "fail", "error": {
            "code": "runtime_failed", "message": "KeyError"}})
        _, out, err = b.close()
        self.assertEqual(out, b"")
        self.assertIn(b"the secret", err)

    def test_what_would_end_the_link_is_an_exception_instead(self):
        b = self.runtime("""
            refused = 0
            for act in (lambda: turn.invoke("t", {"x": "y" * (256 << 10)}),
                        lambda: turn.invoke("", {}),
                        lambda: turn.invoke("t", {"x": float("nan")}),
                        lambda: turn.invoke("t", {1: 2}),
                        lambda: turn.invoke("t", [1]),
                        lambda: turn.invoke("t\\0", {}),
                        lambda: turn.invoke(7, {}),
                        lambda: turn.invoke("t", {}, step=-1),
                        lambda: turn.invoke("t", {}, step=0.5),
                        lambda: turn.invoke("t", {}, step=True),
                        lambda: turn.invoke("t", {}, step=1 << 32),
                        lambda: turn.invoke("t", {}, idempotency_key=""),
                        lambda: turn.invoke("t", {}, idempotency_key="k" * 129),
                        lambda: turn.emit("\\ud800"),
                        lambda: turn.emit("e", "y" * (64 << 10)),
                        lambda: turn.annotate("k" * 129, 1)):
                try:
                    act()
                except caisson.ProtocolError:
                    refused += 1
            return refused if turn.message else "y" * (768 << 10)""")
        self.assertEqual(b.turn(True), {"status": "complete", "output": 16})
        self.assertEqual(b.turn(False)["error"]["message"], "ProtocolError")

    def test_drain_is_seen_and_cancel_ends_every_wait(self):
        b = self.runtime("""
            turn.draining.wait()
            turn.emit("draining")
            try:
                turn.invoke("t", {})
            except caisson.Cancelled as e:
                raise caisson.Fail("stopped", str(e) + str(turn.cancelled.is_set()))""")
        run, operation = b.start_turn(None, ["t"])
        b.notify("operation.drain", operation="another", graceMs=1)  # not this turn's
        b.notify("operation.drain", operation=operation, graceMs=1000)
        msgid, _ = b.expect("event.emit")
        b.reply(msgid, sequence=1)
        b.expect("tool.invoke")
        b.notify("operation.cancel", operation=operation, cause="deadline")
        _, outcome = b.expect_reply(run)
        self.assertEqual(outcome["error"]["message"], "deadlineTrue")

    def test_a_refusal_as_a_whole_is_an_exception(self):
        b = self.runtime("""
            try:
                turn.emit("late")
            except caisson.Refused as e:
                return [type(e).__name__, e.code, e.message]""")
        run, _ = b.start_turn(None)
        msgid, _ = b.expect("event.emit")
        b.refuse(msgid, "failed_precondition", "host is closed")
        self.assertEqual(b.expect_reply(run)[1]["output"],
                         ["Refused", "failed_precondition", "host is closed"])

    def test_the_link_is_not_inherited(self):
        b = self.runtime("""
            import subprocess
            return subprocess.run(["ls", "-l", "/proc/self/fd"], stdout=-1, close_fds=False,
                                  text=True).stdout.count("socket:"), "CAISSON_LINK_FD" in os.environ""")
        self.assertEqual(b.turn(None)["output"], [0, False])

    def test_a_closed_link_ends_the_runtime_also_in_the_middle_of_a_call(self):
        b = self.runtime("""turn.invoke("t", {})""")
        b.start_turn(None, ["t"])
        b.expect("tool.invoke")
        self.assertEqual(b.close()[0], 0)

    def test_garbage_from_the_broker_ends_the_runtime_with_an_error(self):
        for data in (b"\0\0\0\1\xc1", b"\0\0\0\2\x91\xc0", b"\0\0\0\0", b"\xff\xff\xff\xff",
                     b"\0\x10\0\1", caisson.frame([2, "x", [{}]]),
                     caisson.frame([0, 1, "operation.run", [{}]])):
            with self.subTest(data=data):
                b = self.runtime("""pass""")
                b.send_raw(data)
                self.assertTrue(b.closed())
                self.assertEqual(b.close()[0], 1)


class Examples(unittest.TestCase):
    FILES = {"docs/a": "one two three", "docs/b": "four", "docs/c": "five six"}

    def tools(self, denied=()):
        def listing(a):
            names = sorted(p.split("/")[1] for p in self.FILES if p.startswith(a["path"] + "/"))
            return {"entries": [{"name": n, "type": "file", "size": 1} for n in names]
                    + [{"name": "sub", "type": "directory", "size": 0}], "complete": True}

        def content(a):
            if a["path"] in denied:
                raise Denied("no_matching_grant")
            return self.FILES[a["path"]]

        return {"files.list": listing,
                "files.read": lambda a: {"text": content(a), "size": len(content(a))},
                "files.stat": lambda a: {"type": "file", "size": len(content(a))}}

    def run_turn(self, argv, message, tools, **kw):
        b = Broker(argv, **kw)
        try:
            b.answer_hello()
            return b.turn(message, tools)
        finally:
            status, _, err = b.close()
            self.assertEqual((status, err), (0, b""))

    def test_python_agent(self):
        out = self.run_turn([sys.executable, EXAMPLES / "python" / "agent.py"], {"path": "docs"},
                            self.tools(denied=["docs/b"]), env={"PYTHONPATH": str(wire.SDK)})
        self.assertEqual(out["output"], {"words": {"a": 3, "c": 2}, "complete": True,
                                         "denied": {"b": "no_matching_grant"}})
        out = self.run_turn([sys.executable, EXAMPLES / "python" / "agent.py"], {"path": "docs"},
                            {}, env={"PYTHONPATH": str(wire.SDK)})
        self.assertEqual((out["status"], out["error"]["code"]), ("fail", "tool_unavailable"))

    def test_the_demo_s_indexer(self):
        files = {"docs/one/copyright": b"License: ISC\nLicense: GPL-2+\n",
                 "docs/one/changelog.gz": gzip.compress(b"fix CVE-2024-12345, see package-two\n"),
                 "docs/package-two/copyright": b"License: ISC\r\n",
                 "docs/package-two/NEWS": "caf\u00e9".encode("latin-1")}
        written = {}

        def listing(a):
            below = [p[len(a["path"]) + 1:] for p in files if p.startswith(a["path"] + "/")]
            names = sorted({n.split("/")[0] for n in below})
            at = int(a.get("cursor", "0"))  # a page has one entry
            kind = "file" if a["path"] + "/" + names[at] in files else "directory"
            page = {"entries": [{"name": names[at], "type": kind, "size": 0}]}
            last = at + 1 == len(names)
            return {**page, "complete": last, **({} if last else {"cursor": str(at + 1)})}

        def read(a):
            data = files[a["path"]]
            try:
                return {"text": data.decode(), "size": len(data), "complete": True}
            except UnicodeDecodeError:
                return {"base64": base64.b64encode(data).decode(), "size": len(data),
                        "complete": True}

        def write(a):
            written[a["path"]] = a["text"]
            return {"size": len(a["text"])}

        out = self.run_turn([sys.executable, EXAMPLES / "demo" / "indexer.py"], {"source": "here"},
                            {"files.list": listing, "files.read": read, "files.write": write},
                            env={"PYTHONPATH": str(wire.SDK)})["output"]
        self.assertEqual((out["packages"], out["files"], out["licences"], out["cves"],
                          out["mentions"], out["odd"]), (2, 4, 2, 1, 1, 2))
        for line in ("* **ISC** (2): one, package-two", "* **one**: 1, last CVE-2024-12345",
                     "* **package-two** ← one",
                     "* odd encoding: `docs/package-two/NEWS`: not UTF-8 (byte 3)"):
            self.assertIn(line, written["out/index.md"].splitlines())

    def test_a_runtime_without_the_sdk(self):
        raw = EXAMPLES / "python" / "raw.py"
        self.assertNotIn("import caisson", raw.read_text(encoding="utf-8"))
        out = self.run_turn([sys.executable, raw], "docs/a", self.tools())
        self.assertEqual(out, {"status": "complete", "output": 13})
        out = self.run_turn([sys.executable, raw], "docs/a", self.tools(denied=["docs/a"]))
        self.assertEqual(out["output"]["code"], "no_matching_grant")
        self.assertIs(out["output"]["retryable"], False)

    def test_c_agent(self):
        library = wire.BUILD / "lib" / "libcaisson-runtime.a"
        compiler = shutil.which(os.environ.get("CC", "cc"))
        if compiler is None or not library.exists():
            self.skipTest("no C compiler, or the runtime library is not built")
        folder = tempfile.mkdtemp(prefix="caisson-sdk-")
        self.addCleanup(shutil.rmtree, folder)
        sanitize = ["-fsanitize=address,undefined"] if b"__asan_" in library.read_bytes() else []
        subprocess.run([compiler, "-Wall", "-Wextra", "-Werror", *sanitize, f"-I{wire.ROOT}", "-o",
                        f"{folder}/agent", EXAMPLES / "c" / "agent.c", library], check=True)
        out = self.run_turn([f"{folder}/agent"], {"path": "docs"}, self.tools(denied=["docs/b"]))
        self.assertEqual(out["output"], {"files": 2, "denied": 1, "bytes": 21})


if __name__ == "__main__":
    unittest.main()
