"""caisson.mjs and its example: a scripted broker without a chamber, then the real one."""

import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import textwrap
import unittest

import wire
from real import WAIT, Case, ending, output_of
from wire import Broker, Denied, Failed, caisson

EXAMPLES = wire.ROOT / "examples"
TIMEOUT = 600  # of this file, for run.py
NODE = "/usr/bin/node"


def why_not():
    """Why there is no Node.js to test with, or None."""
    if shutil.which(NODE) is None:
        return "there is no /usr/bin/node (Debian's package nodejs)"
    version = subprocess.run([NODE, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.lstrip("v").split(".")[0]) < 18:
        return f"Node.js {version.strip()} is older than 18"
    return None


WHY_NOT = why_not()


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Values(unittest.TestCase):
    """Canonical MessagePack, against the same tables as caisson.py."""

    def script(self, body, data):
        """What `body` makes of `data`, which crosses as JSON."""
        text = (f"import * as c from {json.dumps(str(wire.SDK / 'caisson.mjs'))};\n"
                "import fs from 'node:fs';\n"
                "const data = JSON.parse(fs.readFileSync(0, 'utf8'));\n"
                "const refused = (f) => { try { f(); return null; } catch (e) { return e.name; } };\n"
                + textwrap.dedent(body))
        p = subprocess.run([NODE, "--input-type=module", "-e", text], input=json.dumps(data),
                           capture_output=True, text=True, check=False, timeout=4 * wire.TIMEOUT)
        self.assertEqual((p.returncode, p.stderr), (0, ""))
        return json.loads(p.stdout)

    def test_every_value_has_one_encoding(self):
        table = [
            ("null", "c0"), ("false", "c2"), ("true", "c3"), ("0", "00"), ("127", "7f"),
            ("128", "cc80"), ("256", "cd0100"), ("65535", "cdffff"), ("65536", "ce00010000"),
            ("2 ** 32", "cf0000000100000000"), ("-1", "ff"), ("-32", "e0"), ("-33", "d0df"),
            ("-128", "d080"), ("-129", "d1ff7f"), ("-32768", "d18000"), ("-32769", "d2ffff7fff"),
            ("-(2 ** 31)", "d280000000"), ("-(2 ** 31) - 1", "d3ffffffff7fffffff"),
            ("2 ** 53 - 1", "cf001fffffffffffff"), ("2n ** 53n", "cf0020000000000000"),
            ("2n ** 64n - 1n", "cfffffffffffffffff"), ("-(2n ** 63n)", "d38000000000000000"),
            ("-(2n ** 53n)", "d3ffe0000000000000"),
            ("1.5", "cb3ff8000000000000"), ("2 ** 53", "cb4340000000000000"),
            ("1e300", "cb7e37e43c8800759c"), ("-0", "cb8000000000000000"), ("''", "a0"),
            ("'\u00e9'", "a2c3a9"), ("'\ufeffx'", "a4efbbbf78"), ("'\U0001f600'", "a4f09f9880"),
            ("new Uint8Array(0)", "c400"), ("new Uint8Array([1, 255])", "c40201ff"), ("[]", "90"),
            ("{}", "80"), ("{ b: 1, a: [null] }", "82a16201a16191c0"),
            ("{ ['__proto__']: 1 }", "81a95f5f70726f746f5f5f01")]
        got = self.script("""
            console.log(JSON.stringify(data.map(([source]) => {
              const packed = c.pack(eval(`(${source})`));
              return [Buffer.from(packed).toString('hex'),
                      Buffer.from(c.pack(c.unpack(packed))).toString('hex')];
            })));""", table)
        for (source, encoded), (packed, again) in zip(table, got):
            with self.subTest(value=source):
                self.assertEqual(packed, encoded)
                # a float that is a safe integer cannot be told from one
                self.assertEqual(again, encoded)

    def test_what_comes_has_the_types_of_the_language(self):
        got = self.script("""
            const is = (hex, f) => f(c.unpack(Buffer.from(hex, 'hex')));
            console.log(JSON.stringify([
              is('cf001fffffffffffff', (v) => v === Number.MAX_SAFE_INTEGER),
              is('cf0020000000000000', (v) => v === 2n ** 53n),
              is('d3ffe0000000000001', (v) => v === -Number.MAX_SAFE_INTEGER),
              is('d38000000000000000', (v) => v === -(2n ** 63n)),
              is('c40201ff', (v) => v.constructor === Uint8Array && v[1] === 255 && v.length === 2),
              is('81a95f5f70726f746f5f5f01', (v) => Object.getPrototypeOf(v) === null
                && v['__proto__'] === 1 && !('toString' in v)),
              is('a4efbbbf78', (v) => v === '\\ufeffx'),
            ]));""", None)
        self.assertEqual(got, [True] * len(got))

    def test_lengths_at_every_border_are_as_python_packs_them(self):
        lengths = [15, 16, 31, 32, 255, 256, 32767, 32768, 65535, 65536]
        got = self.script("""
            const { createHash } = await import('node:crypto');
            const hash = (v) => {
              const packed = c.pack(v), again = c.pack(c.unpack(packed));
              return createHash('sha256').update(packed).update(again).digest('hex');
            };
            console.log(JSON.stringify(data.map((n) => [
              hash('x'.repeat(n)), hash(new Uint8Array(n).fill(120)),
              hash(Array(Math.min(n, 65000)).fill(null)),
              hash(Object.fromEntries(Array.from(Array(Math.min(n, 30000)), (_, i) => [`k${i}`, i])))
            ])));""", lengths)
        for n, hashes in zip(lengths, got):
            for value, digest in zip(("x" * n, b"x" * n, [None] * min(n, 65000),
                                      {f"k{i}": i for i in range(min(n, 30000))}), hashes):
                packed = caisson.pack(value)
                with self.subTest(n=n, type=type(value).__name__):
                    self.assertEqual(digest, hashlib.sha256(packed * 2).hexdigest())

    def test_what_cannot_travel_is_refused(self):
        sources = ["NaN", "Infinity", "2n ** 64n", "-(2n ** 63n) - 1n", "undefined", "[undefined]",
                   "[,1]", "new Map()", "new Date()", "() => 1", "Symbol('x')", "'\\ud800'",
                   "{ '\\udfff': 1 }", "new Float64Array(1)", "Array(c.NODES_MAX).fill(null)",
                   "Array(c.DEPTH_MAX + 1).fill().reduce((v) => [v], 1)",
                   "(() => { const loop = {}; loop.loop = loop; return loop; })()"]
        got = self.script("""
            console.log(JSON.stringify(data.map((s) => refused(() => c.pack(eval(`(${s})`))))));""",
                          sources)
        for source, name in zip(sources, got):
            with self.subTest(value=source):
                self.assertEqual(name, "ProtocolError")

    def test_what_is_left_undefined_is_left_out(self):
        self.assertEqual(self.script("""
            console.log(JSON.stringify(Buffer.from(c.pack({ a: undefined, b: 1 })).toString('hex')));
            """, None), "81a16201")

    def test_what_is_not_canonical_is_refused(self):
        texts = ["", "c1", "cc01", "cc7f", "cd00ff", "ce0000ffff", "cf00000000ffffffff", "d0e0",
                 "d001", "d07f", "d1ff80", "d10001", "d2ffff8000", "d3ffffffff80000000",
                 "ca3fc00000", "cb7ff8000000000000", "cb7ff0000000000000", "cbfff0000000000000",
                 "d90161", "da000161", "db0000000161", "c5000161", "c60000000161", "dc0000",
                 "dd00000000", "de0000", "df00000000", "81a161", "82a16101a16102", "810101", "810001",
                 "81c0c0", "81c4016101", "8190c0", "c70100", "d40000", "c8000100", "a1ff",
                 "a3eda080", "a2c080", "a4f4908080", "0000", "dfffffffff", "ddffffffff",
                 "dbffffffff", "c6ffffffff", "91", "c4", "cb00", "cc", "d300", "91" * 33 + "c0",
                 "dd00010000" + "c0" * 65536]
        got = self.script("""
            console.log(JSON.stringify(data.map((s) => refused(() => c.unpack(Buffer.from(s, 'hex'))))));
            """, texts)
        for text, name in zip(texts, got):
            with self.subTest(bytes=text[:20]):
                self.assertEqual(name, "ProtocolError")
        self.assertEqual(self.script("""
            const ok = (s) => refused(() => c.unpack(Buffer.from(s, 'hex')));
            console.log(JSON.stringify(data.map(ok)));""",
                                     ["91" * 32 + "c0", "dc" + "ffff" + "c0" * 65535]), [None, None])


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


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Real(Case):
    """In a chamber of profile jit, through the real broker, with the real files provider."""

    AGENT = """
        import { run, Fail, ToolDenied } from '../sdk/caisson.mjs';
        const modes = {
          async reads(turn) {
            const paths = Array.from(Array(32), (_, i) => `docs/${i}`);
            const all = await Promise.allSettled(paths.map((path) => turn.call('files.read', { path })));
            return all.map(({ value, reason }) => value?.text ?? reason.code);
          },
          async tells(turn) {
            await turn.emit('note', { big: 2n ** 60n });
            await turn.annotate('k', [1]);
            await turn.output('seen\\n');
            console.log('printed');
          },
          async fails() { throw new Fail('my_code', 'why'); },
          async throws() { throw new RangeError('a secret'); },
          async escalates(turn) { await turn.call('sharedos.escalate', {}); },
          async drains(turn) {
            await new Promise((resolve) => turn.draining.addEventListener('abort', resolve));
            return turn.call('files.read', { path: 'docs/1' }).catch((e) => [e.name, e.code]);
          },
          async stays() {
            console.log('ready');
            await new Promise(() => setInterval(() => {}, 1000));
          },
        };
        await run((turn) => modes[turn.message](turn));
        """

    def setUp(self):
        super().setUp()
        self.app, self.root = self.dir / "app", self.dir / "root"
        self.app.mkdir()
        (self.app / "agent.mjs").write_text(textwrap.dedent(self.AGENT))
        (self.root / "docs").mkdir(parents=True)
        for i in range(31):
            (self.root / "docs" / str(i)).write_text(f"text {i}")

    def turn(self, message, *words):
        return self.events("run", "--profile", "jit", "--app", self.app, "--ro", f"{wire.SDK}:/sdk",
                           "--root", self.root, "--allow", "read:docs", "--max-tool-calls", "64",
                           *words, "-m", json.dumps(message), "--", "node", "/app/agent.mjs")

    def configured(self, limit):
        file = self.dir / "f.yaml"
        file.write_text(f"""
version: 1
limits: {{ turn_timeout: 30s, {limit} }}
runtimes:
  - id: a
    command: [node, /app/agent.mjs]
    profile: jit
    app: {self.app}
    mounts: [{{ source: {wire.SDK}, target: /sdk }}]
providers: [{{ id: files, builtin: files, root: {self.root} }}]
""")
        return file

    def test_calls_in_flight(self):
        status, events = self.turn("reads")
        self.assertEqual(status, 0)
        self.assertEqual(ending(events)["turn"]["output"],
                         [f"text {i}" for i in range(31)] + ["not_found"])

    def test_what_a_turn_tells(self):
        status, events = self.turn("tells")
        self.assertEqual(status, 0)
        self.assertIn(b"seen\n", output_of(events))
        self.assertIn(b"printed\n", output_of(events))
        self.assertIn('"big": 1152921504606846976', json.dumps(events))
        self.assertEqual(ending(events)["turn"]["metadata"]["k"], [1])

    def test_how_a_turn_fails(self):
        for mode, code, message in (("fails", "my_code", "why"),
                                    ("throws", "runtime_failed", "RangeError"),
                                    ("escalates", "runtime_failed", "ToolDenied")):
            with self.subTest(mode=mode):
                status, events = self.turn(mode)
                self.assertEqual(status, 1)
                error = ending(events)["turn"]["error"]
                self.assertEqual((error["code"], error["message"]), (code, message))
                self.assertNotIn("a secret", json.dumps(ending(events)))

    def test_a_turn_that_is_told_to_finish_does(self):
        status, events = self.events("run", "-c", self.configured("drain_grace: 29s"),
                                     "-m", '"drains"')
        self.assertEqual(status, 0, ending(events))
        self.assertEqual(ending(events)["turn"]["output"], ["ToolDenied", "turn_draining"])

    def test_a_turn_that_is_cancelled_ends_whatever_it_does(self):
        p = self.start("run", "-c", self.configured("kill_grace: 1s"), "-m", '"stays"')
        self.assertEqual(p.stdout.readline(), b"ready\n")
        p.send_signal(signal.SIGINT)
        _, err = p.communicate(timeout=WAIT)
        self.assertEqual(p.returncode, 4, err)

    def test_the_example(self):
        status, out, err = self.caisson("run", "-c", EXAMPLES / "node.yaml", "-m", '{"path": "docs"}')
        self.assertEqual((status, err), (0, ""))
        out = json.loads(out)
        self.assertEqual(out["pages"], len(list((wire.ROOT / "docs").glob("*.md"))))
        # A page may link to what the grant does not cover; nothing else may be wrong.
        leaves = {path for path in out["broken"] if not path.startswith("docs/")}
        self.assertEqual(out["broken"], dict.fromkeys(leaves, "no_matching_grant"))
        self.assertGreater(out["links"], 0)


if __name__ == "__main__":
    unittest.main()
