"""What each program links is what docs/ARCHITECTURE.md says, and nothing else."""

import os
import pathlib
import re
import shutil
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["CAISSON_BUILD"])
PAGE = ROOT / "docs" / "ARCHITECTURE.md"
ROW = re.compile(r"^\| `(caisson[a-z-]*)` \| ([^|]+) \|$", re.M)
NEEDED = re.compile(r"\(NEEDED\)\s+Shared library: \[([^]]+)\]")


def documented():
    """{program: set of library names, as in `libyaml`}"""
    section = PAGE.read_text(encoding="utf-8").partition("\n## Dependencies\n")[2]
    return {name: set() if libraries == "static" else set(libraries.split(", "))
            for name, libraries in ROW.findall(section)}


def linked(program):
    said = subprocess.run(["readelf", "-d", program], env={"LC_ALL": "C", "PATH": os.environ["PATH"]},
                          stdout=subprocess.PIPE, check=True, text=True).stdout
    # libevent_core-2.1.so.7, libyaml-0.so.2
    names = {re.sub(r"(-[0-9.]+)?\.so\.[0-9.]+$", "", name) for name in NEEDED.findall(said)}
    return {name for name in names if not name.startswith("ld-linux")} - {"libc", "libm"}


@unittest.skipUnless(shutil.which("readelf"), "needs readelf (binutils)")
class Dependencies(unittest.TestCase):
    def setUp(self):
        self.programs = sorted([*(BUILD / "bin").iterdir(), *(BUILD / "libexec").iterdir()])
        if any("libasan" in name for path in self.programs for name in linked(path)):
            self.skipTest("a sanitizer build links more")

    def test_each_program_links_what_the_page_says(self):
        page = documented()
        self.assertEqual([path.name for path in self.programs if path.name not in page], [])
        for path in self.programs:
            with self.subTest(program=path.name):
                self.assertEqual(linked(path), page[path.name])

    def test_the_page_names_no_program_that_is_not_there(self):
        self.assertEqual(sorted(documented()), sorted(path.name for path in self.programs))

    def test_what_has_a_list_of_its_own_sorts_without_asking_the_kernel(self):
        """glibc's qsort() calls sysinfo() over 1 KiB, which would end the broker."""
        for name in ("caisson-broker", "caisson-ledger"):
            said = subprocess.run(["readelf", "-W", "--dyn-syms", BUILD / "libexec" / name],
                                  stdout=subprocess.PIPE, check=True, text=True).stdout
            self.assertIn("heapsort", said)
            self.assertNotIn("qsort", said)


if __name__ == "__main__":
    unittest.main()
