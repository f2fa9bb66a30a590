"""Many spawns and kills, warm, cold, refused and half-way: everything is back where it was.

CAISSON_SOAK=10000 (`make soak`) is what is claimed; without it a few hundred.
"""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import wire
from real import IS_ROOT

SPAWNS = int(os.environ.get("CAISSON_SOAK", "300"))
TIMEOUT = 120 + SPAWNS // 10  # of this file, for run.py
SOAK = wire.BUILD / "test" / "program" / "soak"
NOBODY = 65534


class Soak(unittest.TestCase):
    def setUp(self):
        if wire.SANITIZED:
            self.skipTest("a sanitizer keeps what was freed")
        if not SOAK.exists():
            self.skipTest("the program is not built")

    def soak(self, seed, **popen):
        with tempfile.TemporaryDirectory(prefix="caisson-soak-") as folder:
            pathlib.Path(folder).chmod(0o777)
            done = subprocess.run([SOAK, str(SPAWNS), str(seed)], cwd=folder, text=True,
                                  env={**os.environ, "TMPDIR": folder}, capture_output=True,
                                  stdin=subprocess.DEVNULL, check=False, **popen)
        report = done.stdout or done.stderr
        self.assertEqual(done.returncode, 0, report)
        if "CAISSON_SOAK" in os.environ:
            print(report, flush=True)
        r = json.loads(done.stdout)
        self.assertEqual((r["spawns"], r["same"]), (SPAWNS, True))
        # Each has one end, and every way was gone.
        self.assertEqual(r["exits"] + r["refused"], SPAWNS)
        self.assertEqual(r["exits"], r["started"])
        for way in ("started", "refused", "capped", "killed"):
            self.assertGreater(r[way], 0, way)
        return r

    def test_as_who_runs_this(self):
        self.soak(1)

    @unittest.skipUnless(IS_ROOT, "only root can be somebody else")
    def test_as_nobody(self):
        there = subprocess.run(["test", "-x", SOAK], user=NOBODY, group=NOBODY, extra_groups=[],
                               check=False)
        if there.returncode:
            self.skipTest("nobody else can reach the build")
        self.soak(2, user=NOBODY, group=NOBODY, extra_groups=[])


if __name__ == "__main__":
    unittest.main()
