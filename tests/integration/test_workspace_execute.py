"""What a workspace lets be executed: nothing, or, where its runtime is configured so, what lies there."""

import os
import signal
import unittest

import real
from daemon_lab import Daemon
from real import wait_for
from test_workspace import Life

SHELL = "version: 1\nruntimes: [{ id: shell, builtin: command, workspace_execute: %s }]\n"

# What a program of the workspace sees of its own rights.
STATUS = "cp /bin/grep g && ./g -E '^(Uid|Gid|CapEff|CapPrm|NoNewPrivs)' /proc/self/status"

MAPS = """import ctypes, mmap, os, sys
fd = os.open("code", os.O_RDWR | os.O_CREAT, 0o600)
os.write(fd, b"\\xc3" * 4096)  # ret
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
def tried(prot, flags, fd):
    p = libc.mmap(None, ctypes.c_size_t(4096), prot, flags, fd, ctypes.c_long(0))
    return os.strerror(ctypes.get_errno()) if p == ctypes.c_void_p(-1).value else "mapped"
R, W, X = mmap.PROT_READ, mmap.PROT_WRITE, mmap.PROT_EXEC
with open("told", "w") as f:
    print("file", tried(R | X, mmap.MAP_PRIVATE, fd), file=f)
    print("shared", tried(R | X, mmap.MAP_SHARED, fd), file=f)
    print("writable", tried(R | W | X, mmap.MAP_PRIVATE, fd), file=f)
    print("anonymous", tried(R | W | X, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1), file=f)
    p = libc.mmap(None, ctypes.c_size_t(4096), R | W, mmap.MAP_PRIVATE, fd, ctypes.c_long(0))
    r = libc.mprotect(ctypes.c_void_p(p), ctypes.c_size_t(4096), R | X)
    print("changed", os.strerror(ctypes.get_errno()) if r else "mapped", file=f)
"""


class Executes(Life):
    def start(self, execute=True):
        self.config.write_text(SHELL % str(execute).lower())
        self.daemon = Daemon(self)
        self.session_of(self.daemon)
        return self.daemon

    def session_of(self, d):
        self.client = d.client()
        self.session = self.acquire(self.client)
        self.here = self.place / self.session[2:]

    def run_line(self, line):
        """Exit code, and what it wrote into `out`."""
        event = self.command(self.client, self.session, "{ " + line + "\n} >out 2>&1")
        self.assertEqual(event["type"], "completed", event)
        return event["body"]["command"]["exitCode"], (self.here / "out").read_text()

    def program(self, line):
        code, out = self.run_line(line)
        self.assertEqual(code, 0, out)
        return out

    def test_programs_scripts_and_libraries_that_were_written_there_run(self):
        self.start()
        self.assertEqual(self.program("cp /bin/echo e; ./e a"), "a\n")
        self.assertEqual(self.program("printf '#!/bin/sh\\necho b' >s; chmod u+x s; ./s"), "b\n")
        self.program("cp /usr/bin/true t; mkdir d; mv t d; d/t; ln -s d/t l; ./l")
        self.program("cp /lib/*/libm.so.6 m.so; python3 -c 'import ctypes; "
                     "print(ctypes.CDLL(\"/workspace/m.so\").abs(-3))'")

    def test_without_the_key_none_of_it_does(self):
        self.start(execute=False)
        for line in ("cp /bin/echo e; ./e a",
                     "printf '#!/bin/sh\\necho b' >s; chmod u+x s; ./s",
                     "cp /bin/echo e; /lib64/ld-linux-x86-64.so.2 ./e a",
                     "cp /lib/*/libm.so.6 m.so; python3 -c 'import ctypes; "
                     "ctypes.CDLL(\"/workspace/m.so\")'"):
            with self.subTest(line=line):
                code, out = self.run_line(line)
                self.assertNotEqual(code, 0)
                self.assertRegex(out, "ermission denied|not permitted|failed to map")
        self.program("printf 'echo b' >s; sh s")  # read, not executed

    def test_a_file_system_that_executes_nothing_is_told_of(self):
        if os.geteuid() != 0:
            self.skipTest("needs a mount")
        self.config.write_text(SHELL % "true")
        self.state.mkdir(exist_ok=True)
        d = Daemon(self, runner=["unshare", "-m", "sh", "-c", 'mount --bind "$0" "$0" && '
                                 'mount -o remount,bind,noexec "$0" && exec "$@"', self.state])
        self.assertIn("runtimes[0].workspace_execute: ", d.stderr())
        self.assertIn("mounted noexec", d.stderr())
        self.session_of(d)
        self.assertEqual(self.run_line("cp /bin/echo e; ./e a")[0], 126)

    def test_nothing_else_becomes_executable(self):
        self.start()
        for at in ("/tmp", "/dev/shm"):
            with self.subTest(at=at):
                code, out = self.run_line(f"cp /bin/echo {at}/e; {at}/e a")
                self.assertEqual(code, 126, out)
        code, out = self.run_line("cp /bin/echo e; cp e /tmp/e; ln -s /tmp/e l; ./l")
        self.assertEqual(code, 126, out)
        self.assertNotEqual(self.run_line("ln /tmp/e h")[0], 0)  # another file system

    def test_a_set_uid_bit_can_neither_be_made_nor_helps(self):
        self.start()
        before = self.program(STATUS)
        for line in ("chmod 4755 g", "chmod 2755 g", "chmod u+s g", "install -m 4755 g h",
                     "cp g h; python3 -c 'import os; os.chmod(\"h\", 0o6755)'",
                     "python3 -c 'import os; os.open(\"n\", os.O_CREAT | os.O_WRONLY, 0o4755)'",
                     "mkdir -m 2777 m"):
            with self.subTest(line=line):
                self.command(self.client, self.session, line)
                self.assertEqual(
                    [p.name for p in self.here.iterdir() if p.stat().st_mode & 0o6000], [])
        # Somebody of the host makes one, of root's if he can.
        for owner in (os.geteuid(), (self.here / "g").stat().st_uid):
            with self.subTest(owner=owner):
                os.chown(self.here / "g", owner, -1)
                os.chmod(self.here / "g", 0o6755)
                code, after = self.run_line("./g -E '^(Uid|Gid|CapEff|CapPrm|NoNewPrivs)' "
                                            "/proc/self/status")
                self.assertEqual((code, after), (0, before))

    def test_no_device_comes_into_it_or_works_there(self):
        self.start()
        for line in ("mknod n c 1 3", "mknod n b 7 0",
                     "python3 -c 'import os; os.mknod(\"n\", 0o20666, os.makedev(1, 3))'"):
            with self.subTest(line=line):
                event = self.command(self.client, self.session, line)
                self.assertNotEqual((event["body"].get("command") or {}).get("exitCode"), 0)
                self.assertFalse((self.here / "n").exists())
        if os.geteuid() != 0:
            self.skipTest("only root could put a device there")
        os.mknod(self.here / "n", 0o20666, os.makedev(1, 3))
        os.chmod(self.here / "n", 0o666)
        code, out = self.run_line("cat n")
        self.assertNotEqual(code, 0)
        self.assertIn("ermission denied", out)

    def test_files_become_code_and_memory_does_not(self):
        """What the key gives up, and what it does not (docs/CONFINEMENT.md)."""
        for execute, of_file in ((True, "mapped"), (False, os.strerror(1))):
            with self.subTest(execute=execute):
                d = self.start(execute)
                if "not on this machine: mdwe" in d.stderr():
                    self.skipTest("this kernel keeps no memory from becoming code (Linux 6.3)")
                (self.here / "maps.py").write_text(MAPS)
                os.chmod(self.here / "maps.py", 0o644)
                self.program("python3 maps.py")
                told = dict(line.split(" ", 1)
                            for line in (self.here / "told").read_text().splitlines())
                denied = os.strerror(13)
                self.assertEqual(told["file"], of_file)
                # Memory that a second mapping could write, which MDWE would not see.
                self.assertEqual(told["shared"], denied)
                self.assertEqual((told["anonymous"], told["changed"]), (denied, denied))
                self.assertNotEqual(told["writable"], "mapped")
                d.close()

    def test_who_serves_its_files_can_execute_nothing_of_it(self):
        self.start()
        self.assertEqual(self.program("cp /bin/echo e; grep ' /workspace ' /proc/self/mountinfo "
                                      "| grep -v noexec | grep -c nosuid,nodev"), "1\n")
        self.client.call("file.list", session=self.session, limit=5)
        served = [pid for pid in real.below(self.daemon.process.pid)
                  if (real.proc_text(pid, "cmdline") or "").startswith("/libexec/caisson-files")]
        self.assertTrue(served)
        for pid in served:
            table = real.proc_text(pid, "mountinfo")
            if table is None:
                self.skipTest("the mounts of a chamber are root's to see")
            row = next(line for line in table.splitlines() if " /srv " in line)
            self.assertIn("noexec", row)

    def test_a_reload_takes_it_away_from_what_starts_afterwards(self):
        d = self.start()
        self.program("cp /bin/echo e; ./e a")
        self.config.write_text(SHELL % "false")
        d.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "in force from now on: runtimes[shell]" in d.stderr(), "the reload")
        wait_for(lambda: self.run_line("./e a")[0] == 126, "the next chamber to refuse it")


if __name__ == "__main__":
    unittest.main()
