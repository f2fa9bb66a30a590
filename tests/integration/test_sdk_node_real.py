"""caisson.mjs with the real broker, and its values."""

import hashlib
import json
import signal
import subprocess
import textwrap
import unittest

import wire
from node_lab import EXAMPLES, NODE, WHY_NOT
from real import WAIT, Case, ending, output_of
from wire import caisson

TIMEOUT = 600  # of this file, for run.py


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
