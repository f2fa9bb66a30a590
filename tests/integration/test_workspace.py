"""Sessions' workspaces: what a daemon says at its start, and where there are none."""

import shutil
import subprocess
import unittest

from daemon_lab import CAISSON, Case, Daemon
from real import WAIT
from wire import said

SHELL = "version: 1\nruntimes: [{ id: shell, builtin: command }]\n"
FILES = ("version: 1\nruntimes: [{ id: a, command: [/bin/true] }]\n"
         "providers: [{ id: files, builtin: files, workspace: true }]\n")


class Starts(Case):
    def test_too_few_descriptors_for_all_sessions_are_told_of(self):
        if not shutil.which("prlimit"):
            self.skipTest("needs prlimit")
        for most, told in ((1000, True), (10, False)):
            with self.subTest(most=most):
                self.config.write_text(SHELL + f"sessions: {{ max: {most} }}\n")
                d = Daemon(self, runner=["prlimit", "--nofile=4096:4096"])
                self.assertEqual(told, "sessions.max: 1000 sessions at work may need 25024 "
                                 "descriptors, and the hard limit is 4096" in d.stderr(),
                                 d.stderr())
                self.assertTrue((self.state / "namespaces/default/workspaces").is_dir())
                d.close()


class Private(Case):
    """A run of its own has no session."""

    def refused(self, config, *words):
        self.config.write_text(config)
        r = subprocess.run([CAISSON, "run", "--state", self.state, "-c", self.config, *words],
                           stdin=subprocess.DEVNULL, capture_output=True, timeout=WAIT)
        self.assertEqual(r.returncode, 125)
        return said(r.stderr.decode())

    def test_the_runtime_for_commands_is_a_daemon_s(self):
        self.assertIn("the runtime \"shell\" of ", self.refused(SHELL))
        self.assertIn("works in a session's workspace", self.refused(SHELL, "--runtime", "shell"))

    def test_files_of_a_workspace_are_a_daemon_s(self):
        self.assertIn("the provider \"files\" of ", self.refused(FILES))
        self.assertIn("serves a session's workspace", self.refused(FILES, "--", "/bin/true"))


if __name__ == "__main__":
    unittest.main()
