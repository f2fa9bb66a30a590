"""`caisson config check`: all that a starting daemon would have against a file, and nothing started.

What a JSON Schema says is judged by a confined broker; supervisor and client know no schema.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

import real
from wire import BUILD, TIMEOUT, program, said

CAISSON, CAISSOND = program("caisson"), program("caissond")

TOOL = {"name": "t", "provider": "p", "effect": "read", "namespace": "n", "description": "d",
        "input": {"type": "object", "properties": {"a": {"type": "string"}}},
        "requires": {"action": "read", "resource": {"namespace": "w", "path": "x/{a}"}}}


def tool(**more):
    return dict(TOOL, **more)


def schema(**a):
    return {"type": "object", "properties": {"a": a}}


@unittest.skipUnless(CAISSON and CAISSOND and program("caisson-broker"), "it is not built")
class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="caisson-check-")
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)
        self.file = self.dir / "f.yaml"
        self.env = dict(os.environ, HOME=str(self.dir / "home"),
                        XDG_STATE_HOME=str(self.dir / "state"),
                        XDG_RUNTIME_DIR=str(self.dir / "run"))

    def write(self, *tools, **more):
        """One tool a line, from line 4 on."""
        lines = ["version: 1", "providers: [{ id: p, command: [/bin/cat] }]", "tools:",
                 *(f"  - {json.dumps(t)}" for t in tools or (TOOL,)),
                 *(f"{key}: {json.dumps(value)}" for key, value in more.items())]
        self.file.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def check(self, argv=None):
        done = subprocess.run(argv or [CAISSON, "config", "check", self.file], env=self.env,
                              capture_output=True, text=True, timeout=TIMEOUT, check=False)
        return done.returncode, done.stdout, said(done.stderr)

    def refused(self, why, where, argv=None):
        status, out, err = self.check(argv)
        self.assertEqual((status, out), (125, ""), err)
        lines = err.splitlines()
        self.assertEqual(len(lines), 2, err)
        self.assertIn(why, lines[0])
        self.assertIn(f"{self.file}:{where}", lines[1])


class Broker(Case):
    def test_what_it_takes_is_valid(self):
        self.write(TOOL, tool(name="u", output={"type": "string"}))
        for argv in (None, [CAISSOND, "--check", self.file]):
            self.assertEqual(self.check(argv), (0, f"{self.file}: valid: runtimes 0, providers 1, "
                                                "tools 2, grants 0\n", ""))

    def test_what_it_has_against_a_tool_is_said_with_its_line(self):
        for bad, why in (
                (tool(input=schema(type="strong")), "input: /properties/a/type"),
                (tool(input=schema(pattern="(")), "input: /properties/a/pattern"),
                (tool(input=schema(minLength=-1)), "input: /properties/a/minLength"),
                (tool(input=schema(**{"$ref": "#/definitions/none"})), "input: "),
                (tool(output={"type": "nothing"}), "output: /type")):
            with self.subTest(why=why):
                self.write(tool(name="first"), dict(bad, name="second"))
                self.refused(f"config.tool 2 (second): {why}", "5:5: tools[1]: refused")

    def test_what_the_supervisor_finds_comes_first_and_starts_nothing(self):
        self.write(tool(provider="none", input=schema(type="strong")))
        status, out, err = self.check()
        self.assertEqual((status, out, err.count("\n")), (125, "", 1))
        self.assertIn("tools[0].provider", err)

    def test_a_missing_file_is_said_by_what_was_called(self):
        for argv, name in ((None, "caisson config"), ([CAISSOND, "--check", self.file], "caissond")):
            self.assertEqual(self.check(argv), (
                125, "", f"{name}: error: {self.file}: cannot open: No such file or directory; "
                         "caisson.yaml(5) shows what one looks like\n"))

    def test_the_system_s_programs_are_not_shown_writable(self):
        mounts = ("mounts: [{ source: /usr/bin, target: /b },\n"
                  "        { source: %s, target: /w, writable: true }] }]")
        for text, key, where in (
                ("runtimes: [{ id: r, command: [/bin/true],\n\n        " + mounts,
                 "runtimes[0]", "5:19: "),
                ("providers: [{ id: p, command: [/bin/cat],\n\n        " + mounts,
                 "providers[0]", "5:19: "),
                ("providers: [{ id: p, builtin: files,\n     root: %s }]",
                 "providers[0]", "3:12: ")):
            with self.subTest(key=key, where=where):
                self.file.write_text("version: 1\n" + text % "/", encoding="utf-8")
                for argv in (None, [CAISSOND, "-c", self.file]):
                    status, out, err = self.check(argv)
                    self.assertEqual((status, out), (125, ""), err)
                    self.assertIn(f"{self.file}:{where}{key}: /, shown writable, holds", err)
                self.file.write_text("version: 1\n" + text % self.dir, encoding="utf-8")
                self.assertEqual(self.check()[0], 0)

    def test_a_run_without_a_file_may_stand_anywhere(self):
        done = subprocess.run([CAISSON, "run", "--", "/bin/true"], cwd="/", env=self.env,
                              capture_output=True, text=True, timeout=TIMEOUT, check=False)
        self.assertIn("the worker exited before its outcome", done.stderr)

    def test_it_needs_no_state_and_leaves_none(self):
        self.write()
        self.assertEqual(self.check()[0], 0)
        self.assertEqual(os.listdir(self.dir), [self.file.name])

    def test_supervisor_and_client_have_no_schema_compiler(self):
        def functions(path):
            said = subprocess.run(["nm", path], capture_output=True, text=True, check=False)
            return {line.split()[-1] for line in said.stdout.splitlines()}
        if not shutil.which("nm"):
            self.skipTest("nm is not installed")
        if "main" not in functions(program("caisson-broker")):
            self.skipTest("the programs are stripped")
        self.assertIn("schema_compile", functions(program("caisson-broker")))
        for path in (CAISSON, CAISSOND):
            self.assertIn("main", functions(path))
            self.assertEqual([f for f in functions(path) if f.startswith("schema_")], [])


class Without(Case):
    """Never weaker: what was not checked is not called valid."""

    def setUp(self):
        super().setUp()
        (self.dir / "tree/bin").mkdir(parents=True)
        shutil.copy(CAISSOND, self.dir / "tree/bin")
        shutil.copytree(BUILD / "libexec", self.dir / "tree/libexec")
        self.broker = self.dir / "tree/libexec/caisson-broker"
        self.argv = [self.dir / "tree/bin/caissond", "--check", self.file]

    def unchecked(self, why):
        status, out, err = self.check(self.argv)
        self.assertEqual((status, out, err.count("\n")), (125, "", 1), err)
        self.assertIn(f"{self.file}: tools, grants and principals are unchecked: ", err)
        self.assertIn(why, err)

    def test_no_launcher_no_broker_none_that_runs(self):
        self.write()
        self.assertEqual(self.check(self.argv)[0], 0)
        self.broker.chmod(0o644)
        self.unchecked("cannot start the broker: exec")
        self.broker.unlink()
        self.unchecked("cannot start the broker: exec")
        (self.dir / "tree/libexec/caisson-worker").unlink()
        self.unchecked("cannot start the broker: handshake")

    def test_a_broker_that_says_nothing(self):
        shutil.copy(shutil.which("true"), self.broker)
        self.write()
        self.unchecked("ended without a word (status 0)")

    @unittest.skipUnless(program("program/hostile_broker"), "its program is not built")
    def test_a_broker_that_says_what_nobody_asked(self):
        shutil.copy(program("program/hostile_broker"), self.broker)
        for attack in ("ready-twice", "config-unasked", "half-a-struct", "spawn-index", "no-verb"):
            with self.subTest(attack=attack):
                self.write(namespace=attack)
                self.unchecked("said what nobody asked it")

    @unittest.skipUnless(program("program/hostile_broker") and program("program/check_within"),
                         "its programs are not built")
    def test_a_broker_that_never_answers_has_a_bounded_time(self):
        within = shutil.copy(program("program/check_within"), self.dir / "tree/bin")
        self.write()
        self.assertEqual(self.check([within, "60000", self.file]), (0, "valid\n", ""))
        shutil.copy(program("program/hostile_broker"), self.broker)
        self.write(namespace="waits")  # for an order that does not come
        status, out, err = self.check([within, "300", self.file])
        self.assertEqual((status, out, err.count("\n")), (2, "", 1), err)
        self.assertIn(f"{self.file}: tools, grants and principals are unchecked: "
                      "the broker has not answered within 300 ms", err)
        self.assertEqual(real.below(os.getpid()), set())  # and nothing is left of it

    @unittest.skipUnless(program("program/hostile_broker"), "its program is not built")
    def test_an_interrupt_leaves_nothing(self):
        shutil.copy(program("program/hostile_broker"), self.broker)
        self.write(namespace="waits")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number=number):
                check = subprocess.Popen(self.argv, env=self.env, stderr=subprocess.DEVNULL,
                                         preexec_fn=lambda n=number: signal.signal(n, signal.SIG_DFL))
                try:
                    pids = real.wait_for(
                        lambda: [p for p in real.below(check.pid)
                                 if (real.proc_text(p, "cmdline") or "").startswith("/libexec/")],
                        "the broker")
                    check.send_signal(number)
                    self.assertEqual(check.wait(TIMEOUT), -number)
                finally:
                    check.kill()
                    check.wait()
                real.wait_for(lambda: not [p for p in pids if real.proc_text(p, "cmdline")],
                              "its end")
                self.assertEqual(sorted(os.listdir(self.dir)), [self.file.name, "tree"])

    @unittest.skipUnless(program("program/hostile_broker"), "its program is not built")
    def test_it_goes_with_a_supervisor_that_is_killed(self):
        shutil.copy(program("program/hostile_broker"), self.broker)
        self.write(namespace="waits")  # for an order that does not come
        check = subprocess.Popen(self.argv, env=self.env, stderr=subprocess.DEVNULL)
        try:
            pids = real.wait_for(
                lambda: [p for p in real.below(check.pid)
                         if (real.proc_text(p, "cmdline") or "").startswith("/libexec/")],
                "the broker")
        finally:
            check.kill()
            check.wait()
        real.wait_for(lambda: not [p for p in pids if real.proc_text(p, "cmdline")], "its end")


if __name__ == "__main__":
    unittest.main()
