"""Ordinary programs where it gets rough: the paths that a library takes once in a while.

What they do on a good day is in test_profiles.py.  A filter that forgets one of these ends a
program at random, and hides why it ended.
"""

import shutil
import signal
import unittest

from real import SANITIZED, Case, ending
from wire import program

PROFILES = ("native", "interpreter", "jit")
ROUGH, ORDINARY = program("program/rough"), program("program/ordinary")
WORKED = "threads\nspawn\npipes\nlookup\ntimers\nfiles\n"

# How a C library can be told to go about its memory, threads and start.
SETTINGS = (
    "MALLOC_ARENA_MAX=1", "MALLOC_ARENA_MAX=64", "MALLOC_TOP_PAD_=1048576",
    "MALLOC_MMAP_THRESHOLD_=4096", "MALLOC_TRIM_THRESHOLD_=0", "MALLOC_PERTURB_=165",
    "GLIBC_TUNABLES=glibc.malloc.tcache_count=0",
    "GLIBC_TUNABLES=glibc.malloc.arena_test=1:glibc.malloc.mmap_max=100000",
    "GLIBC_TUNABLES=glibc.malloc.hugetlb=1", "GLIBC_TUNABLES=glibc.malloc.hugetlb=2",
    "GLIBC_TUNABLES=glibc.pthread.rseq=0",
    "GLIBC_TUNABLES=glibc.pthread.mutex_spin_count=0",
    "GLIBC_TUNABLES=glibc.pthread.stack_cache_size=0",
    "GLIBC_TUNABLES=glibc.rtld.optional_static_tls=4096",
    "LD_BIND_NOW=1", "TZ=Europe/Berlin", "LC_ALL=en_US.UTF-8",
)


@unittest.skipUnless(ROUGH and ORDINARY, "the programs are not built")
class Libraries(Case):
    def rough(self, profile, what):
        """(exit status, output, errors)"""
        status, out, errors = self.caisson("exec", "--profile", profile, "--ro",
                                           f"{ROUGH}:/app/it", "--", "/app/it", what)
        return status, out.decode(), errors

    @unittest.skipIf(SANITIZED, "a sanitizer ends programs its own way")
    def test_a_library_that_gives_up_says_why_and_ends_by_abort(self):
        said = {
            "abort": "",
            "smash": "*** stack smashing detected ***: terminated\n",
            "fortify": "*** buffer overflow detected ***: terminated\n",
            "free": "free(): double free detected in tcache 2\n"}
        for profile in PROFILES:
            for how in said:
                with self.subTest(profile=profile, how=how):
                    status, events = self.events("exec", "--profile", profile, "--ro",
                                                 f"{ROUGH}:/app/it", "--", "/app/it", how)
                    self.assertEqual(status, 128 + signal.SIGABRT)
                    self.assertEqual(ending(events)["command"]["cause"]["kind"], "signaled")
                    self.assertEqual(self.rough(profile, how)[2], said[how])

    @unittest.skipIf(SANITIZED, "a sanitizer has an allocator of its own")
    def test_it_goes_on_when_memory_is_low(self):
        for profile in PROFILES:
            with self.subTest(profile):
                status, out, errors = self.caisson(
                    "exec", "--profile", profile, "--memory", "64MiB", "--ro", f"{ROUGH}:/app/it",
                    "--", "sh", "-c", "ulimit -v 40000; exec /app/it memory")
                self.assertEqual((status, out), (0, b"done\n"), errors)

    def test_many_threads_times_and_faults(self):
        for profile in PROFILES:
            for what in ("arenas", "time", "fault"):
                with self.subTest(profile=profile, what=what):
                    if what == "fault" and SANITIZED:
                        continue
                    self.assertEqual(self.rough(profile, what), (0, "done\n", ""))

    @unittest.skipIf(SANITIZED, "a sanitizer has an allocator of its own")
    def test_whatever_it_is_set_to(self):
        script = "/app/rough arenas && /app/ordinary"
        mounts = ["--ro", f"{ROUGH}:/app/rough", "--ro", f"{ORDINARY}:/app/ordinary"]
        for i, setting in enumerate(SETTINGS):
            with self.subTest(setting):
                status, out, errors = self.caisson(
                    "exec", "--profile", PROFILES[i % 2], *mounts, "--env", setting, "--", "sh",
                    "-c", script)
                self.assertEqual((status, out.decode()), (0, "done\n" + WORKED), errors)


class Interpreters(Case):
    def says(self, profile, *command):
        status, out, errors = self.caisson("exec", "--profile", profile, "--", *command)
        self.assertEqual(status, 0, errors)
        return out.decode()

    def test_python_catches_its_memory_errors(self):
        code = ("import resource as r; r.setrlimit(r.RLIMIT_AS, (120 << 20,) * 2)\n"
                "n = 0\n"
                "try: x = bytearray(400 << 20)\n"
                "except MemoryError: n += 1\n"
                "import threading; t = threading.Thread(target=print, args=('thread', n))\n"
                "t.start(); t.join()")
        for profile in ("interpreter", "native"):
            self.assertEqual(self.says(profile, "/usr/bin/python3", "-c", code), "thread 1\n")

    def test_python_dumps_its_stacks_on_a_fault(self):
        status, _, errors = self.caisson(
            "exec", "--", "/usr/bin/python3", "-X", "faulthandler", "-c",
            "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
        self.assertEqual(status, 128 + signal.SIGSEGV)
        self.assertIn("Fatal Python error: Segmentation fault", errors)

    @unittest.skipUnless(shutil.which("node"), "no node here")
    def test_node_whatever_it_is_set_to(self):
        for flags in ((), ("--jitless",), ("--max-old-space-size=64",), ("--single-threaded",),
                      ("--no-opt",), ("--expose-gc",), ("--stack-size=500",)):
            with self.subTest(flags):
                said = self.says("jit", "node", *flags, "-e",
                                 "let a = []; for (let i = 0; i < 2e5; i++) a.push({i});"
                                 "setTimeout(() => console.log(a.length), 1)")
                self.assertEqual(said, "200000\n")

    @unittest.skipUnless(shutil.which("node"), "no node here")
    def test_node_out_of_memory_aborts_and_says_so(self):
        status, _, errors = self.caisson(
            "exec", "--profile", "jit", "--", "node", "--max-old-space-size=32", "-e",
            "const a = []; for (;;) a.push(new Array(1000).fill(a.length))")
        self.assertEqual(status, 128 + signal.SIGABRT)
        self.assertIn("heap out of memory", errors)

    def test_a_shell_with_what_shells_have(self):
        script = ("set -e; f() { return 3; }; f || echo $?; (ulimit -n 20; exec 3>&1; echo fds >&3); "
                  "echo $(seq 1000 | wc -l); cat <<'E'\nhere\nE\n"
                  "(sleep 1000 & kill $!; wait $! || echo gone); time -p true 2>/dev/null || true; "
                  "mkfifo /tmp/p; (echo through >/tmp/p) & read x </tmp/p; echo $x; wait; umask 077; "
                  ": >/tmp/private; stat -c %a /tmp/private")
        for profile in PROFILES:
            self.assertEqual(self.says(profile, "/bin/sh", "-c", script),
                             "3\nfds\n1000\nhere\ngone\nthrough\n600\n")


if __name__ == "__main__":
    unittest.main()
