"""The escape suite: every technique of tests/escape/ in a chamber of every profile (TU-9).

What each does without one is its control (tests/escape/table.tsv); the sum of it all, with
bubblewrap's beside it, is in docs/CONFINEMENT.md (`make escape-table`).
"""

import os
import pathlib
import subprocess
import sys
import unittest

import wire

wire.keep_low_descriptors()

import escape_lab as lab  # noqa: E402

TIMEOUT = 600  # of this file, for run.py
COUNTED = 100  # techniques that prove something, on any machine
HERE = pathlib.Path(__file__).resolve().parent


def left_out():
    """Names of techniques that these programs are built to allow."""
    # LeakSanitizer needs it
    return {"ptrace_attach", "ptrace_own_child"} if wire.SANITIZED else set()


@unittest.skipUnless(lab.PROGRAM.exists() and lab.CAISSON, "the escape suite is not built")
class Suite(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.techniques = lab.techniques()

    def in_chambers(self, profile, attack=lab.attack, at=None):
        wanted = [t for t in self.techniques
                  if t.expects(profile) != {"-"} and t.name not in left_out()]
        with lab.World(at) as world:
            outcomes = attack(world, profile, wanted)
            traces = world.traces()
        self.assertEqual(traces, [])
        if attack is lab.attack:
            self.assertEqual(set(outcomes), {t.name for t in wanted})
        wanted = [t for t in wanted if t.name in outcomes]
        self.assertGreaterEqual(len(wanted), COUNTED)
        for t in wanted:
            self.assertNotEqual(outcomes[t.name], "ESCAPED", f"{t.kind}/{t.name}: {t.title}")
        self.assertEqual(
            {t.name: (outcomes[t.name], t.expected) for t in wanted
             if outcomes[t.name] not in t.expects(profile)}, {})

    def test_native(self):
        self.in_chambers("native")

    def test_interpreter(self):
        self.in_chambers("interpreter")

    def test_native_that_stood_by(self):
        self.in_chambers("native", lab.attack_from_one_that_stood_by, "/var/tmp")

    def test_interpreter_that_stood_by(self):
        self.in_chambers("interpreter", lab.attack_from_one_that_stood_by, "/var/tmp")

    def test_jit(self):
        self.in_chambers("jit")

    def test_provider(self):
        self.in_chambers("provider")

    def test_they_succeed_without_a_chamber(self):
        with lab.World() as world:
            outcomes = lab.controls(world, self.techniques)
            traces = world.traces()
        # What is looked for afterwards can be found.
        self.assertGreater(len(traces), 20)
        for name in ("port", "stream", "datagram", "abstract"):
            self.assertIn(f"somebody came to {name}", traces)
        succeeded = [t for t in self.techniques if outcomes[t.name] == "ESCAPED"]
        self.assertGreaterEqual(len(succeeded), COUNTED)
        for t in self.techniques:
            self.assertNotEqual(outcomes[t.name], "BROKEN", t.name)
            if t not in succeeded:
                with self.subTest(t.name):
                    self.skipTest(f"no control on this machine: {outcomes[t.name]}")

    def test_every_technique_has_its_row(self):
        for t in self.techniques:
            with self.subTest(t.name):
                self.assertTrue(t.expected, "no row in tests/escape/table.tsv")
                self.assertIn(t.control, (*lab.CONTROLS, "root"))
                self.assertTrue(t.title and t.where, "its comment: what it is. Where it bit.")
        listed = subprocess.run([lab.PROGRAM, "--list"], stdout=subprocess.PIPE, check=True)
        self.assertEqual(sorted(listed.stdout.decode().split()),
                         sorted(t.name for t in self.techniques))

    def test_the_page_has_every_row(self):
        page = (wire.ROOT / "docs" / "CONFINEMENT.md").read_text(encoding="utf-8")
        table = page.partition(lab.BEGIN)[2].partition(lab.END)[0]
        rows = [line.split(" | ")[:3] for line in table.splitlines() if line.startswith("| `")]
        self.assertEqual(rows, [lab.cells(t) for t in self.techniques],
                         "docs/CONFINEMENT.md is stale: run 'make escape-table'")


@unittest.skipUnless(lab.ROOT, "runs already as a user without privileges")
class Unprivileged(unittest.TestCase):
    def test_the_same_as_a_user_without_privileges(self):
        as_nobody = {"user": lab.NOBODY, "group": lab.NOBODY, "extra_groups": []}
        try:
            subprocess.run([lab.CAISSON, "--version"], stdout=subprocess.DEVNULL, check=True,
                           **as_nobody)
        except OSError:
            self.skipTest("where it was built, no other user may run it")
        done = subprocess.run(
            [sys.executable, "-B", "-W", "ignore", "-m", "unittest", "test_escape.Suite"],
            cwd=HERE, env={**os.environ, "HOME": "/nonexistent"}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **as_nobody)
        self.assertEqual(done.returncode, 0, done.stdout.decode())


if __name__ == "__main__":
    unittest.main()
