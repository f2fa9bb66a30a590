"""What the kernel counts per user, used up by a chamber of the same user's: without root all
chambers are one user.  The next chamber starts all the same."""

import resource
import unittest

from real import CAISSON, WAIT, Case

TIMEOUT = 120  # of this file, for run.py
OPEN_FILES, SOFT, AT_ONCE = 64, 100, 60  # 120 get under way before the 64 are noticed

CONFIG = f"""version: 1
profiles:
  - {{ id: few, base: interpreter, open_files: {OPEN_FILES} }}
"""

# As many descriptors under way in sockets as its limit allows.
FLOOD = f"""
import array, socket, sys
null, n = open("/dev/null"), 0
rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [null.fileno()] * {AT_ONCE}))]
try:
    a, b = socket.socketpair()
    while True:
        n += a.sendmsg([b"x"], rights)
except OSError as e:
    print(e.errno, n * {AT_ONCE}, flush=True)
sys.stdin.read()
"""


def low():
    """The limit of a login shell; others of this user are not disturbed by so few."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (SOFT, hard))


@unittest.skipIf(CAISSON is None, "caisson is not built")
class OneUser(Case):
    def test_descriptors_under_way_keep_no_chamber_from_starting(self):
        config = self.dir / "c.yaml"
        config.write_text(CONFIG)
        words = ["-c", config, "--profile", "few", "--"]
        flood = self.start("exec", *words, "python3", "-c", FLOOD)
        self.assertEqual(flood.stdout.readline(), b"109 120\n")  # ETOOMANYREFS
        for _ in range(2):
            status, out, err = self.caisson("exec", *words, "sh", "-c", "ulimit -n",
                                            preexec_fn=low)
            self.assertEqual((status, out), (0, b"64\n"), err)
        flood.stdin.close()
        self.assertEqual(flood.wait(WAIT), 0)


if __name__ == "__main__":
    unittest.main()
