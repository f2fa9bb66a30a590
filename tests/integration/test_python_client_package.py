"""The Python client's example, and its package as pip sees it."""

import base64
import hashlib
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

import wire
from python_client_kinds import SANDBOX, Lab
from python_client_lab import PACKAGE, accepted, completed, output

EXAMPLES = wire.ROOT / "examples" / "client"


class Example(Lab):
    def test_the_example_takes_up_what_was_lost(self):
        events = [accepted("op-1"), output(2, b"one\n"), output(3, b"err\n", "stderr"),
                  output(4, b"two\n"), completed(5, 7)]

        def requests(c):
            self.assertEqual(c.request().headers["authorization"], "Bearer secret")
            c.answer(201, {**SANDBOX, "leaseMs": 60000})
            self.assertEqual(c.request().method, "DELETE")
            c.answer(202, SANDBOX)

        def cut(c):
            c.upgrade()
            self.assertEqual(c.json()["operation"], {"command": {"shell": "a line"}})
            c.say(*events[:3])

        def whole(c):
            c.upgrade()
            c.say(*events[c.json()["after"]:])
            c.hang_up()

        gateway = self.serve(requests, cut, whole)
        done = subprocess.run(
            [sys.executable, "-B", str(EXAMPLES / "run.py"), gateway.url, "a line"],
            env={**os.environ, "PYTHONPATH": str(PACKAGE), "CAISSON_TOKEN": "secret"},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            timeout=wire.TIMEOUT)
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (7, b"one\ntwo\n", b"err\n"))


class Package(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.dir)

    def build(self, kind):
        subprocess.run(
            [sys.executable, "-B", "-c", "import sys; sys.path.insert(0, sys.argv[1]); import _build; "
             f"_build.build_{kind}(sys.argv[2])", str(PACKAGE), str(self.dir)],
            check=True, timeout=wire.TIMEOUT, stdin=subprocess.DEVNULL)
        [path] = self.dir.iterdir()
        return path

    def sources(self):
        return {p.relative_to(PACKAGE).as_posix(): p.read_bytes()
                for p in (PACKAGE / "caisson_client").rglob("*")
                if p.is_file() and p.suffix != ".pyc"}

    def test_a_wheel_holds_the_package_and_says_so(self):
        with zipfile.ZipFile(self.build("wheel")) as z:
            content = {name: z.read(name) for name in z.namelist()}
        info = "caisson_client-0.1.0.dist-info/"
        record = content.pop(info + "RECORD").decode().split()
        said = {line.split(",")[0]: line.split(",")[1:] for line in record}
        for name, data in content.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
            self.assertEqual(said.pop(name), [f"sha256={digest}", str(len(data))])
        self.assertEqual(said, {info + "RECORD": ["", ""]})
        self.assertEqual({n: d for n, d in content.items() if not n.startswith(info)},
                         self.sources())
        project = (PACKAGE / "pyproject.toml").read_text()
        for name, value in (("name", "Name"), ("version", "Version"), ("requires-python",
                                                                       "Requires-Python")):
            stated = re.search(rf'^{name} = "(.*)"$', project, re.M)[1]
            self.assertIn(f"{value}: {stated}\n", content[info + "METADATA"].decode())

    def test_a_source_archive_holds_all_that_builds_it(self):
        with tarfile.open(self.build("sdist")) as t:
            content = {m.name.partition("/")[2]: t.extractfile(m).read() for m in t.getmembers()}
        for name in ("pyproject.toml", "README.md", "_build.py"):
            self.assertEqual(content.pop(name), (PACKAGE / name).read_bytes())
        self.assertTrue(content.pop("PKG-INFO"))
        self.assertEqual(content, self.sources())

    @unittest.skipUnless(importlib.util.find_spec("pip"), "needs pip")
    def test_pip_installs_it_and_fetches_nothing(self):
        source = self.dir / "source"
        shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("__pycache__"))
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-cache-dir",
             "--disable-pip-version-check", "--target", str(self.dir / "there"), str(source)],
            check=True, timeout=4 * wire.TIMEOUT, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        done = subprocess.run(
            [sys.executable, "-I", "-c", "import sys; sys.path.insert(0, sys.argv[1]); "
             "import caisson_client.aio; print(caisson_client.aio.__file__)",
             str(self.dir / "there")],
            check=True, timeout=wire.TIMEOUT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            text=True)
        self.assertEqual(done.stdout.strip(), f"{self.dir}/there/caisson_client/aio/__init__.py")


if __name__ == "__main__":
    unittest.main()
