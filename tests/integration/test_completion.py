"""Completion on the command line: what the shell offers is what the table of options has."""

import os
import pathlib
import re
import shutil
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPLETION = ROOT / "dist/completion"
TABLE = (ROOT / "common/options.def").read_text()

ASK = """source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_caisson "$1"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@unittest.skipUnless(shutil.which("bash"), "bash is not installed")
class Bash(unittest.TestCase):
    def offered(self, *words):
        result = subprocess.run(["bash", "-c", ASK, "ask", COMPLETION / "caisson.bash", *words],
                                capture_output=True, text=True, timeout=60, check=False, cwd=ROOT,
                                env={**os.environ, "LC_ALL": "C"})
        self.assertEqual(result.stderr, "")
        return set(result.stdout.split())

    def test_all_commands_are_offered(self):
        wanted = set(re.findall(r'^COMMAND\(\w+, "(\w+)"', TABLE, re.M)) - {"caissond"}
        self.assertEqual(self.offered("caisson", ""), wanted | {"--help", "--version"})
        self.assertEqual(self.offered("caisson", "ru"), {"run"})

    def test_options_are_those_of_the_command(self):
        offered = self.offered("caisson", "exec", "--")
        self.assertLessEqual({"--app", "--profile", "--help"}, offered)
        self.assertNotIn("--message", offered)
        self.assertIn("--message", self.offered("caisson", "run", "--"))
        self.assertLessEqual({"--log", "--pid-file", "--config"}, self.offered("caissond", "--"))
        self.assertEqual(self.offered("/usr/bin/caissond", "--pid"), {"--pid-file"})

    def test_values_are_words_or_files(self):
        self.assertEqual(self.offered("caissond", "--log", ""), {"text", "json"})
        self.assertEqual(self.offered("caisson", "ps", "-o", "j"), {"jsonl"})
        self.assertEqual(self.offered("caissond", "-c", "READ"), {"README.md"})
        self.assertEqual(self.offered("caisson", "run", "--runtime", ""), set())
        self.assertEqual(self.offered("caisson", "exec", "--", "--app"), set())


@unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
class Zsh(unittest.TestCase):
    def test_it_is_read_without_an_error(self):
        result = subprocess.run(["zsh", "-n", COMPLETION / "_caisson"], capture_output=True,
                                text=True, timeout=60, check=False)
        self.assertEqual((result.returncode, result.stderr), (0, ""))


class Table(unittest.TestCase):
    def test_both_have_every_option(self):
        for name in re.findall(r'^[A-Z]+\s*\(\w+, "([a-z-]+)", (?:0|\'.\')', TABLE, re.M):
            for path in COMPLETION.iterdir():
                self.assertIn(f"--{name}", path.read_text(), path.name)


if __name__ == "__main__":
    unittest.main()
