"""Set-up calls that fail, as whoever calls `caisson exec` sees it; all of them: test_matrix.py."""

import json
import os
import shutil
import subprocess
import unittest

from wire import SANITIZED

BUILD = os.environ.get("CAISSON_BUILD", os.path.join(os.getcwd(), "build"))
RUN = os.path.join(BUILD, "test", "program", "chamber_run")
CAISSON = os.path.join(BUILD, "bin", "caisson")


# A call that only a launch makes, for each layer.
CALLS = (
    ("pivot_root", "pivot_root"),
    ("openat2", "sources"),
    ("move_mount", "mounts"),
    ("fsopen", ("proc", "mounts")),
    ("sethostname", "namespaces"),
    ("capset", "capabilities"),
    ("setresgid", "uid"),
    ("landlock_restrict_self", "landlock"),
)


@unittest.skipUnless(shutil.which("strace"), "strace is not installed")
class Faults(unittest.TestCase):
    def setUp(self):
        if SANITIZED:
            self.skipTest("LeakSanitizer and strace cannot both trace")

    def launch(self, call, when, error):
        done = subprocess.run(
            ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}",
             "-e", f"inject={call}:error={error}:when={when}", RUN, "--", "/bin/echo", "it ran"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
        return done.stdout.decode(), json.loads(done.stderr.decode().splitlines()[-1])

    def test_the_command_says_so_in_one_line_with_status_125(self):
        for call, layers in CALLS:
            with self.subTest(call=call):
                done = subprocess.run(
                    ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}",
                     "-e", f"inject={call}:error=ENOMEM", CAISSON, "exec", "--",
                     "/bin/echo", "it ran"],
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                    timeout=120)
                said = done.stderr.decode()
                self.assertEqual((done.returncode, done.stdout), (125, b""), said)
                self.assertEqual(said.count("\n"), 1, said)
                named = [f"{layer}: " in said
                         for layer in ((layers,) if isinstance(layers, str) else layers)]
                self.assertTrue(any(named), said)
                self.assertIn("Cannot allocate memory", said)

    def test_the_filter_cannot_be_loaded(self):
        # libseccomp asks the kernel too, with calls that fail anyway; the last one loads.
        for when in range(1, 4):
            out, end = self.launch("seccomp", when, "EINVAL")
            if end["event"] == "refused":
                self.assertEqual((out, end["layer"]), ("", "seccomp"))
                return
        self.fail("no injection reached the load")

    def test_no_listener_means_a_filter_that_kills(self):
        # Within a supervisor that listens already: the kernel's answer is EBUSY.
        done = subprocess.run(
            ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=seccomp",
             "-e", "inject=seccomp:error=EBUSY:when=1", RUN, "--", "/usr/bin/unshare", "-U", "true"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
        end = json.loads(done.stderr.decode().splitlines()[-1])
        self.assertEqual((end["event"], end["kind"], end["status"], end["cause"]),
                         ("exit", 2, 31, "seccomp"))


if __name__ == "__main__":
    unittest.main()
