"""The README's first commands, and those of its clients, as they stand there."""

import os
import re
import shutil
import signal
import subprocess
import unittest

import real
import wire

README = (wire.ROOT / "README.md").read_text(encoding="utf-8")


def commands(after):
    """The lines of the next block behind these words."""
    text = README.partition(after)[2]
    return re.sub(r"^    ", "", re.search(r"(?:^    .*\n)+", text, re.M)[0], flags=re.M)


class Readme(real.Case):
    def setUp(self):
        super().setUp()
        for name in ("examples", "worker/sdk", "docs"):
            shutil.copytree(wire.ROOT / name, self.dir / name)
        (self.dir / "tests").mkdir()
        (self.dir / "build").mkdir()
        (self.dir / "build/bin").symlink_to(wire.BUILD / "bin")

    def shell(self, script):
        """All that it writes."""
        done = subprocess.run(
            ["bash", "-c", script], cwd=self.dir, stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=wire.TIMEOUT, check=False,
            env=real.environment(CAISSON_STATE=str(self.state)))
        return done.stdout

    def stop(self):
        pid = self.dir / "shell.pid"
        if pid.exists():
            os.kill(int(pid.read_text()), signal.SIGTERM)

    def test_what_is_tried_first(self):
        lines = commands("Then try it:").replace("\\\n", "").splitlines()
        words, counts, refused, command, audit, learn, doctor, _ = lines
        self.assertRegex(self.shell(f"{words}\n{counts}"), r'"API.md": [1-9]\d+')
        self.assertIn("no_matching_grant", self.shell(f"{words}\n{refused}"))
        out = self.shell(command)
        self.assertRegex(out, r"uid=0|uid=\d+")
        self.assertRegex(out, r"shadow: (No such file|Permission denied)")
        self.assertIn("turn", self.shell(audit))
        self.shell(learn)
        self.assertRegex((self.dir / "mine.yaml").read_text(), r"(?m)^profiles:")
        self.assertRegex(self.shell(doctor), r"(?m)^landlock$")

    def test_a_client(self):
        self.addCleanup(self.stop)
        out = self.shell(commands("## Clients"))
        self.assertRegex(out, r"(?s)3\n2\n1\n.*1\n2\n3\n")


if __name__ == "__main__":
    unittest.main()
