"""The units of systemd: installed, understood, and a bounding set that chambers are made with."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

from daemon_lab import Case, Daemon, ending, submit
from real import IS_ROOT, wait_for

BUILD = pathlib.Path(os.environ["CAISSON_BUILD"])
ROOT = pathlib.Path(__file__).resolve().parents[2]
UNITS = ("system/caissond.service", "system/caissond.socket", "user/caissond.service")


def values(unit, key):
    return re.findall(rf"^{key}=(.*)$", (ROOT / "dist" / unit).read_text(), re.M)


class Units(unittest.TestCase):
    @unittest.skipUnless(shutil.which("make"), "make is not installed")
    def test_installed_they_name_the_programs_there(self):
        with tempfile.TemporaryDirectory() as folder:
            make = ["make", "-s", "-C", ROOT, f"B={BUILD}", f"DESTDIR={folder}", "PREFIX=/opt/x"]
            subprocess.run([*make, "--old-file=all", "install"], check=True, timeout=60,
                           stdout=subprocess.DEVNULL)
            for unit in UNITS:
                text = (pathlib.Path(folder) / "opt/x/lib/systemd" / unit).read_text()
                self.assertNotIn("/usr/local", text)
                if unit.endswith(".service"):
                    self.assertIn("\nExecStart=/opt/x/bin/caissond -f -c ", text)

    @unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not installed")
    def test_systemd_understands_them(self):
        with tempfile.TemporaryDirectory() as folder:
            for unit in UNITS:
                kind, name = unit.split("/")
                text = (ROOT / "dist" / unit).read_text().replace("/usr/local/bin", str(BUILD / "bin"))
                (pathlib.Path(folder) / kind).mkdir(exist_ok=True)
                (pathlib.Path(folder) / kind / name).write_text(text)
            for kind in ("system", "user"):
                result = subprocess.run(
                    ["systemd-analyze", f"--{kind}", "verify", "--man=no",
                     *(pathlib.Path(folder) / kind).iterdir()],
                    capture_output=True, text=True, timeout=60, check=False,
                    env={**os.environ, "XDG_RUNTIME_DIR": folder})
                found = [line for line in result.stderr.splitlines() if "caissond" in line
                         # older than systemd 253; the unit says so
                         and not line.endswith("ignoring: notify-reload")]
                self.assertEqual((found, result.returncode), ([], 0), result.stderr)

    def test_reload_stop_and_socket_are_those_of_the_daemon(self):
        for unit in UNITS:
            if unit.endswith(".service"):
                self.assertEqual(values(unit, "Type"), ["notify", "notify-reload"])
                self.assertEqual(values(unit, "KillMode"), ["mixed"])
                self.assertEqual(values(unit, "Delegate"), ["yes"])
        self.assertEqual(values(UNITS[1], "FileDescriptorName"), ["local"])
        self.assertEqual(values(UNITS[1], "ListenStream"), ["/run/caisson/default.sock"])


@unittest.skipUnless(IS_ROOT, "capabilities are root's")
@unittest.skipUnless(shutil.which("setpriv"), "setpriv is not installed")
class Bounds(Case):
    def test_chambers_are_made_within_the_units_capabilities(self):
        names = " ".join(values(UNITS[0], "CapabilityBoundingSet")).split()
        caps = ",".join("+" + name.removeprefix("CAP_").lower() for name in names)
        d = Daemon(self, runner=["setpriv", "--no-new-privs", "--bounding-set", "-all," + caps])
        peer = d.client()
        for _ in range(3):  # the first chamber of its kind is made in another way than the next
            submit(peer, {"say": "inside"})
            self.assertEqual(ending(peer)["type"], "completed")
        os.kill(d.service("broker"), signal.SIGKILL)
        wait_for(lambda: d.stderr().count("is served at") == 2, "the next broker")
        self.assertEqual(d.end(), 0)

    def test_they_could_not_be_made_with_less(self):
        d = Daemon(self, ready=False, runner=["setpriv", "--bounding-set", "-sys_admin"])
        self.assertFalse(d.ready)


if __name__ == "__main__":
    unittest.main()
