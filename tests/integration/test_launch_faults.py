"""Every set-up call fails once, in turn: the program must never run, and the reason is told."""

import json
import os
import shutil
import subprocess
import unittest

from wire import SANITIZED

BUILD = os.environ.get("CAISSON_BUILD", os.path.join(os.getcwd(), "build"))
RUN = os.path.join(BUILD, "test", "program", "chamber_run")


# Call, how often it is made at most, and the layers that may be named for it.  libseccomp
# and the supervisor make some of them too: then nothing starts, which is as good.
CALLS = (
    ("clone3", 2, {"user namespace", "namespaces", "rlimits", "uid"}),
    ("unshare", 4, {"user namespace", "namespaces", "network"}),
    ("fchmodat", 2, {"network"}),
    ("setresgid", 1, {"uid"}),
    ("setresuid", 1, {"uid"}),
    ("sethostname", 1, {"namespaces"}),
    ("openat2", 4, {"sources"}),
    ("open_tree", 4, {"mounts"}),
    ("mount_setattr", 10, {"mounts", "uid"}),
    ("move_mount", 10, {"mounts"}),
    ("fsopen", 4, {"mounts", "proc"}),
    ("fsconfig", 12, {"mounts", "proc"}),
    ("fsmount", 4, {"mounts", "proc"}),
    ("mount", 1, {"mounts"}),
    ("pivot_root", 1, {"pivot_root"}),
    ("umount2", 1, {"pivot_root"}),
    ("capset", 1, {"capabilities"}),
    ("dup3", 2, {"descriptors"}),
    ("close_range", 3, {"descriptors"}),
    ("landlock_create_ruleset", 2, {"landlock"}),
    ("landlock_add_rule", 4, {"landlock"}),
    ("landlock_restrict_self", 1, {"landlock"}),
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

    def check(self, error):
        for call, most, layers in CALLS:
            hit = False
            for when in sorted({1, 2, (most + 1) // 2, most} & set(range(1, most + 1))):
                with self.subTest(call=call, when=when, error=error):
                    out, end = self.launch(call, when, error)
                    if end["event"] == "exit":
                        # Not called so often on this machine.
                        self.assertGreater(when, 1)
                        continue
                    hit = True
                    self.assertEqual(out, "")
                    self.assertIn(end["layer"], layers)
                    self.assertGreater(len(end["why"]), 20)
            self.assertTrue(hit, call)

    def test_forbidden(self):
        self.check("EPERM")

    def test_no_memory(self):
        self.check("ENOMEM")

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
