"""The broker's own filter, attacked from within with the broker's own descriptors.

broker_filter.c tries everything once without and once under the filter (broker/confine.h);
the running broker of a real run is then looked at from outside.
"""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import real
import wire

TIMEOUT = 180
PROGRAM = wire.program("program/broker_filter")
NOBODY = 65534

# What the kernel refuses here without any filter; everything else must succeed without it,
# or its refusal under the filter would prove nothing.
REFUSED_ANYWAY = {
    "try_connect": "ECONNREFUSED", "try_listen": "EINVAL", "try_accept": "EINVAL",
    "try_sendto": "EISCONN",  # a connected pair; the address alone is the crime
    "try_splice": "EINVAL", "try_sendfile": "EINVAL", "try_copy": "EBADF",
    "try_clone_range": "EBADF",  # an append-only descriptor, says the kernel too
    "try_map_shared": "EACCES",  # a write-only descriptor; the filter allows the call
}
# Of these the outcome depends on kernel, file system and rights.
DEPENDS = {"try_handle", "try_io_uring", "try_setflags", "try_getflags", "try_xattr",
           "try_pwritev2_noappend", "try_vm_write", "try_vm_read", "try_ptrace",
           "try_punch", "try_extend", "try_io_setup", "try_io_submit", "try_tgkill",
           "try_personality", "try_inotify", "try_socket_inet", "try_clone_range",
           "try_copy", "try_unshare"}
# uretprobe and uprobe, which new kernels show to no filter: they exist for the kernel's own
# trampolines, and refuse or end whoever else makes them.
UNFILTERED = {("native", number, how) for number in ("335", "336")
              for how in ("SIGILL", "done")}


@unittest.skipUnless(PROGRAM, "broker_filter is not built")
@unittest.skipIf(real.SANITIZED, "the sanitizers need more than the broker's list")
class Attacks(unittest.TestCase):
    def attempts(self, **popen):
        with tempfile.TemporaryDirectory(prefix="caisson-filter-") as folder:
            os.chmod(folder, 0o777)
            done = subprocess.run([PROGRAM, "attacks", folder], capture_output=True, text=True,
                                  timeout=wire.TIMEOUT * 2, **popen)
        self.assertEqual(done.returncode, 0, done.stderr)
        return {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}

    def check(self, results):
        self.assertGreater(len(results), 80)
        for name, (plain, plain_bytes, under, under_bytes) in results.items():
            with self.subTest(attack=name):
                if name.startswith("may_"):
                    self.assertEqual((plain, under), ("done", "done"))
                    self.assertEqual(under_bytes, "appended" if name.startswith("may_append")
                                     else "same")
                    continue
                expected = "EACCES" if name == "try_map_shared" else "SIGSYS"
                self.assertEqual(under, expected)
                self.assertEqual(under_bytes, "same")
                if name not in DEPENDS:
                    self.assertEqual(plain, REFUSED_ANYWAY.get(name, "done"))

    def test_each_is_killed_and_the_record_stands(self):
        results = self.attempts()
        self.check(results)
        # The comparison of bytes sees a change where there is one.
        for name in ("try_ftruncate", "try_truncate", "try_setfl", "try_rename"):
            self.assertEqual(results[name][1], "changed", name)
        for name in ("try_pwrite", "try_lseek"):  # O_APPEND alone helps against these
            self.assertEqual(results[name][1], "appended", name)

    @unittest.skipUnless(real.IS_ROOT, "is what the test above does")
    def test_so_it_is_for_an_unprivileged_broker(self):
        self.check(self.attempts(user=NOBODY, group=NOBODY, extra_groups=[]))

    def test_no_other_number_of_any_architecture_lives(self):
        done = subprocess.run([PROGRAM, "numbers"], capture_output=True, text=True,
                              timeout=wire.TIMEOUT * 4)
        self.assertEqual(done.returncode, 0, done.stderr)
        *lived, tried = done.stdout.splitlines()
        # About 40 of the 3 * 1024 are the broker's own.
        self.assertGreater(int(tried.split()[1]), 3000)
        lived = {tuple(line.split()) for line in lived} - UNFILTERED
        # A kernel without 32-bit calls faults on the instruction, whatever the number.
        lived -= {("i386", str(n), "SIGSEGV") for n in range(1024)}
        self.assertEqual(lived, set())


class Running(real.Case):
    """The broker of a real run, from outside."""

    def broker(self, client):
        def found():
            return [p for p in real.below(client.pid)
                    if (real.proc_text(p, "comm") or "").startswith("caisson-broker")]
        return real.wait_for(found, "caisson-broker")[0]

    def setUp(self):
        super().setUp()
        # A provider and a worker both have their links while this waits for its input.
        self.client = self.start("exec", "--", "/bin/sh", "-c", "echo up; read x")
        self.assertEqual(self.client.stdout.readline(), b"up\n")
        self.addCleanup(self.client.communicate, b"\n", timeout=wire.TIMEOUT)
        self.pid = self.broker(self.client)

    def test_it_is_confined(self):
        if real.SANITIZED:
            self.skipTest("the sanitizers need more than the broker's list")
        status = dict(line.split(":\t", 1) for line in
                      real.proc_text(self.pid, "status").splitlines() if ":\t" in line)
        self.assertEqual(status["Seccomp"], "2")
        self.assertEqual(status["NoNewPrivs"], "1")
        for name in ("CapEff", "CapPrm", "CapInh", "CapAmb"):
            self.assertEqual(int(status[name], 16), 0, name)
        for task in pathlib.Path("/proc", str(self.pid), "task").iterdir():
            self.assertIn("Seccomp:\t2", (task / "status").read_text())

    def test_it_holds_what_it_needs_and_nothing_else(self):
        folder = pathlib.Path("/proc", str(self.pid), "fd")
        try:
            held = {int(p.name): os.readlink(p) for p in folder.iterdir()}
        except PermissionError:
            self.skipTest("its descriptors are hidden from its own uid")
        kinds = {
            "control and links": r"socket:\[\d+\]",
            "streams": r"pipe:\[\d+\]",
            "the loop": r"anon_inode:\[eventpoll\]",
            "the sync thread": r"anon_inode:\[eventfd\]",
            "alarms": r"anon_inode:\[timerfd\]",
            "nothing": r"/dev/null",
            "the journal": r".*/journal\.\d{8}",
        }
        count = dict.fromkeys(kinds, 0)
        for fd, target in held.items():
            matching = [k for k, pattern in kinds.items() if re.fullmatch(pattern, target)]
            self.assertEqual(len(matching), 1, (fd, target, held))
            count[matching[0]] += 1
            if matching == ["nothing"]:
                self.assertLess(fd, 3)
            if matching == ["the journal"]:
                flags = int(re.search(r"flags:\s*(\d+)", real.proc_text(
                    self.pid, f"fdinfo/{fd}"))[1], 8)
                self.assertEqual(flags & os.O_ACCMODE, os.O_WRONLY)
                self.assertTrue(flags & os.O_APPEND)
        self.assertRegex(held[3], kinds["control and links"])
        self.assertEqual(count["the loop"], 1)
        self.assertEqual(count["the sync thread"], 1)
        self.assertIn(count["the journal"], (1, 2))
        # The ledger, the client, the supervisor: a command has no link of its own.
        self.assertLessEqual(count["control and links"], 3 + 1)


if __name__ == "__main__":
    unittest.main()
