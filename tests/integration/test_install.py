"""Installed programs find each other wherever their tree stands (DESTDIR, another PREFIX)."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["CAISSON_BUILD"])


class Installed(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="caisson-install-"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.dir.chmod(0o755)
        for source, target in (("bin", "usr/bin"), ("libexec", "usr/libexec/caisson")):
            (self.dir / target).mkdir(parents=True)
            for program in (BUILD / source).iterdir():
                shutil.copy(program, self.dir / target)

    def caisson(self, command, *words):
        return subprocess.run([self.dir / "usr/bin/caisson", command, "--state",
                               self.dir / "state", *words], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=60, check=False)

    def test_a_command_runs_and_its_record_verifies(self):
        done = self.caisson("exec", "--", "echo", "hello")
        self.assertEqual((done.stdout, done.returncode), ("hello\n", 0), done.stderr)
        done = self.caisson("audit", "verify")
        self.assertIn("chain ok", done.stdout, done.stderr)
        self.assertEqual(done.returncode, 0)

    @unittest.skipUnless(shutil.which("make"), "make is not installed")
    def test_make_installs_what_a_runtime_is_written_with(self):
        root = pathlib.Path(__file__).resolve().parents[2]
        make = ["make", "-s", "-C", root, f"B={BUILD}", f"DESTDIR={self.dir}/there", "PREFIX=/usr"]
        subprocess.run([*make, "--old-file=all", "install"], check=True, timeout=60,
                       stdout=subprocess.DEVNULL)
        copied = [f"caisson{part}.{kind}" for part in ("", "_loop", "_provider") for kind in ("py", "mjs")]
        client = [p.relative_to(root / "client/python") for p in
                  (root / "client/python/caisson_client").rglob("*.py")]
        self.assertIn(pathlib.Path("caisson_client/aio/client.py"), client)
        for source, target in (*((f"worker/sdk/{name}", f"share/caisson/{name}") for name in copied),
                               *((f"client/python/{name}", f"share/caisson/python/{name}")
                                 for name in (*client, "pyproject.toml", "_build.py")),
                               ("worker/sdk/caisson.h", "include/caisson.h"),
                               ("worker/sdk/caisson_loop.h", "include/caisson_loop.h"),
                               ("worker/sdk/caisson_provider.h", "include/caisson_provider.h"),
                               (BUILD / "lib/libcaisson-runtime.a", "lib/libcaisson-runtime.a")):
            self.assertEqual((self.dir / "there/usr" / target).read_bytes(),
                             (root / source).read_bytes())
        package = (self.dir / "there/usr/lib/pkgconfig/caisson.pc").read_text()
        self.assertIn("libdir=/usr/lib\nincludedir=/usr/include\n", package)
        self.assertNotIn("@", package)
        subprocess.run([*make, "uninstall"], check=True, timeout=60, stdout=subprocess.DEVNULL)
        left = [p for p in (self.dir / "there").rglob("*") if not p.is_dir()]
        self.assertEqual(left, [])


if __name__ == "__main__":
    unittest.main()
