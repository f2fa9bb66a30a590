"""What a workspace may hold: `sessions.workspace_size`, a project quota of its file system.

Where the kernel has such quotas each test has a small ext4 of its own, on a loop device, in a mount
namespace of this process.
"""

import ctypes
import errno
import fcntl
import os
import pathlib
import signal
import struct
import subprocess
import unittest

import wire
from daemon_lab import Daemon
from real import IS_ROOT, wait_for
from test_workspace import STOPS, Life
from wire import Closed, TIMEOUT

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 1 << 18
QUOTACTL_FD, Q_GETQUOTA, PRJQUOTA = 443, 0x800007, 2
FSGETXATTR, FSSETXATTR = 0x801c581f, 0x401c5820
FIRST, COUNT = 1 << 30, 1 << 24  # supervisor/quota.h

SHELL = ("version: 1\nruntimes: [{{ id: shell, builtin: command{more} }}]\n"
         "sessions: {{ max: 50{size} }}\n")
PROFILED = ("version: 1\nprofiles: [{ id: p, base: interpreter, syscalls: [{ name: ioctl, action: "
            "base }, { name: ioctl, action: allow, when: [{ argument: 1, equals: %d }] }, "
            "{ name: ioctl, action: allow, when: [{ argument: 1, equals: %d }] }] }]\n"
            "runtimes: [{ id: shell, builtin: command, profile: p }]\n"
            "sessions: { workspace_size: 1MiB }\n")

FILL = """import errno, os, sys
n = 0
try:
    while n < 5000:
        os.close(os.open(f"f{n}", os.O_CREAT | os.O_WRONLY, 0o600))
        n += 1
except OSError as e:
    print(errno.errorcode[e.errno], n)
"""
SPARSE = """import errno, os
fd = os.open("s", os.O_CREAT | os.O_RDWR, 0o600)
os.ftruncate(fd, 1 << 28)
def tried(do):
    try:
        for i in range(1000):
            do(i)
        print("all of it")
    except OSError as e:
        print(errno.errorcode[e.errno], i < 300)
tried(lambda i: os.pwrite(fd, b"x" * 4096, (i + 1) << 17))
os.ftruncate(fd, 0)
tried(lambda i: os.posix_fallocate(fd, i << 14, 4096))
"""
# The id of its directory, without it, and of a file; each flag of both that there is.
CHANGE = """import errno, fcntl, os, struct
open("f", "w").close()
for path in (".", "f"):
    fd = os.open(path, os.O_RDONLY)
    was = bytearray(fcntl.ioctl(fd, 0x801c581f, bytes(28)))
    flags, _, _, project = struct.unpack_from("IIII", was)
    for new in ((flags, 0), (flags, project + 1), (flags & ~0x200, project), (0, 0)):
        if new == (flags, project):
            continue  # a file has nothing that would be inherited
        struct.pack_into("I", was, 0, new[0])
        struct.pack_into("I", was, 12, new[1])
        try:
            fcntl.ioctl(fd, 0x401c5820, bytes(was))
            print("done", path, new)
        except OSError as e:
            print("refused", errno.errorcode[e.errno])
"""


def own_mounts():
    if LIBC.unshare(CLONE_NEWNS) or LIBC.mount(None, b"/", None, MS_REC | MS_PRIVATE, None):
        raise unittest.SkipTest(f"no mount namespace: {os.strerror(ctypes.get_errno())}")


def bounds_of(fd, project):
    """(KiB, files) that it may have, and how many it has."""
    d = ctypes.create_string_buffer(72)
    if LIBC.syscall(QUOTACTL_FD, fd, ctypes.c_uint((Q_GETQUOTA << 8 | PRJQUOTA) & 0xffffffff),
                    ctypes.c_uint(project), d) < 0:
        raise OSError(ctypes.get_errno(), "quotactl_fd")
    kib, _, _, files, _, has = struct.unpack_from("6Q", d)
    return kib, files, has


class Refused(Life):
    """Where nothing can enforce it, nobody is told that something does."""

    def setUp(self):
        super().setUp()
        # What every machine has, and no quota of projects.
        if IS_ROOT and subprocess.run(["mountpoint", "-q", "/dev/shm"], check=False).returncode:
            self.skipTest("needs a tmpfs at /dev/shm")
        if IS_ROOT:
            self.state = pathlib.Path("/dev/shm", self.dir.name)
            self.addCleanup(self.remove, self.state)
        self.state.mkdir()
        self.why = "has no project quotas" if IS_ROOT else "only root can bound a workspace"

    def test_the_daemon_does_not_start(self):
        self.config.write_text(SHELL.format(more="", size=",\n  workspace_size: 1MiB"))
        d = Daemon(self, ready=False)
        self.assertEqual(d.process.wait(TIMEOUT), 125)
        self.assertFalse(d.ready)
        self.assertIn(f"{self.config}:4:19: sessions.workspace_size: nothing would enforce it: ",
                      d.stderr())
        self.assertIn(self.why, d.stderr())
        self.assertIn("run caissond as root" if not IS_ROOT else "-O quota,project", d.stderr())

    def test_a_reload_changes_nothing(self):
        self.config.write_text(SHELL.format(more="", size=""))
        d = Daemon(self)
        self.config.write_text(SHELL.format(more="", size=", workspace_size: 1MiB, queue: 3"))
        d.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "nothing has changed" in d.stderr(), "the refusal")
        self.assertIn(self.why, d.stderr())
        self.assertNotIn("in force", d.stderr())
        client = d.client()
        s = self.acquire(client)
        self.assertEqual(self.command(client, s, "head -c 2M /dev/zero >x")["body"]["command"]
                         ["exitCode"], 0)


class Quota(Life):
    @classmethod
    def setUpClass(cls):
        if not IS_ROOT:
            raise unittest.SkipTest("only root mounts")
        own_mounts()

    def setUp(self):
        super().setUp()
        image = self.dir / "image"
        with open(image, "wb") as f:
            f.truncate(96 << 20)
        try:
            subprocess.run(["mkfs.ext4", "-q", "-O", "quota,project", image], check=True,
                           capture_output=True)
        except (OSError, subprocess.CalledProcessError) as e:
            self.skipTest(f"mkfs.ext4: {e}")
        self.state.mkdir()
        done = subprocess.run(["mount", "-o", "loop,prjquota", image, self.state], check=False,
                              capture_output=True, text=True)
        if done.returncode:
            self.skipTest("no ext4 with project quotas can be mounted (CONFIG_QFMT_V2, loop "
                          "devices): " + done.stderr.splitlines()[0])
        self.addCleanup(subprocess.run, ["umount", self.state], check=True)
        (self.state / "lost+found").rmdir()
        self.bound("1MiB")

    def bound(self, size, more=""):
        size = f", workspace_size: {size}" if size else ""
        self.config.write_text(SHELL.format(more=more, size=size))

    def run_line(self, line, session=None):
        """Exit code, and what it said."""
        self.client.call("operation.submit", session=session or self.session, kind="command",
                         shell=line)
        said = b""
        while True:
            event = self.client.expect("operation.event")[1]
            if event["type"] == "output":
                said += event["data"]
            if event["type"] in ("completed", "failed"):
                self.assertEqual(event["type"], "completed", event)
                return event["body"]["command"]["exitCode"], said.decode()

    def start(self, **more):
        self.daemon = Daemon(self, **more)
        self.client = self.daemon.client()
        return self.daemon

    def acquired(self):
        self.session = self.acquire(self.client)
        self.here = self.place / self.session[2:]
        return self.here

    def project(self, path):
        fd = os.open(path, os.O_RDONLY)
        try:
            return struct.unpack_from("IIII", fcntl.ioctl(fd, FSGETXATTR, bytes(28)))[3]
        finally:
            os.close(fd)

    def bounds(self, project):
        fd = os.open(self.place, os.O_RDONLY)
        try:
            return bounds_of(fd, project)
        finally:
            os.close(fd)

    def full(self, line, session=None):
        code, said = self.run_line(line, session)
        self.assertNotEqual(code, 0, said)
        self.assertIn("quota exceeded", said)

    def fits(self, line, session=None):
        code, said = self.run_line(line, session)
        self.assertEqual(code, 0, said)
        return said


class Bounds(Quota):
    def test_bytes_are_bounded_for_each_workspace_alone(self):
        self.start()
        first = self.acquired(), self.session
        second = self.acquired(), self.session
        self.fits("head -c 900K /dev/zero >a", first[1])
        self.full("head -c 900K /dev/zero >b", first[1])
        self.fits("mkdir d; head -c 900K /dev/zero >d/a", second[1])
        self.full("cd d; head -c 900K /dev/zero >b", second[1])
        self.fits("rm a b; head -c 900K /dev/zero >c", first[1])
        self.assertNotEqual(self.project(first[0]), self.project(second[0]))
        for here, _ in (first, second):
            self.assertIn(self.project(here), range(FIRST, FIRST + COUNT))
            self.assertEqual(self.bounds(self.project(here))[:2], (1024, 1024 + 256))

    def test_files_that_hold_nothing_are_bounded(self):
        self.start()
        self.acquired()
        (self.here / "fill.py").write_text(FILL)
        os.chmod(self.here / "fill.py", 0o644)
        # This directory and the program are among them.
        self.assertEqual(self.fits("python3 fill.py"), f"EDQUOT {1024 + 256 - 2}\n")
        self.fits("rm f1 f2; touch g1 g2")
        self.assertNotEqual(self.run_line("ln -s x l")[0], 0)
        self.assertNotEqual(self.run_line("mkfifo l")[0], 0)
        self.assertNotEqual(self.run_line("mkdir l")[0], 0)

    def test_holes_cost_nothing_and_what_fills_them_does(self):
        self.start()
        self.acquired()
        (self.here / "sparse.py").write_text(SPARSE)
        os.chmod(self.here / "sparse.py", 0o644)
        self.assertEqual(self.fits("python3 sparse.py"), "EDQUOT True\nEDQUOT True\n")

    def test_no_name_is_moved_or_made_across(self):
        """As root, with all of them in sight: a chamber sees its own alone."""
        self.start()
        first, second = self.acquired(), self.acquired()
        self.fits("mkdir d; head -c 500K /dev/zero >d/f")
        for do in (lambda: os.link(second / "d/f", first / "f"),
                   lambda: os.rename(second / "d/f", first / "f"),
                   lambda: os.rename(second / "d", first / "d")):
            with self.assertRaises(OSError) as e:
                do()
            self.assertEqual(e.exception.errno, errno.EXDEV)
        before = self.bounds(self.project(second))[2]
        self.fits("ln d/f g; mkdir e; mv d/f e/f; mv e d/e")
        self.assertEqual(self.bounds(self.project(second))[2], before + 1)
        self.full("head -c 600K /dev/zero >h")

    def test_a_chamber_cannot_change_what_it_counts_for(self):
        """Not with a list that lets it ask for it: the kernel refuses; and the usual list ends it."""
        self.config.write_text(PROFILED % (FSGETXATTR, FSSETXATTR))
        d = self.start()
        self.acquired()
        (self.here / "change.py").write_text(CHANGE)
        os.chmod(self.here / "change.py", 0o644)
        self.assertEqual(self.fits("python3 change.py"), "refused EINVAL\n" * 7)
        self.assertIn(self.project(self.here), range(FIRST, FIRST + COUNT))
        self.assertEqual(self.project(self.here / "f"), self.project(self.here))
        self.full("head -c 2M /dev/zero >b")
        d.close()
        self.bound("1MiB")
        self.start()
        self.session = self.acquire(self.client)
        here = self.place / self.session[2:]
        (here / "change.py").write_text(CHANGE)
        os.chmod(here / "change.py", 0o644)
        event = self.command(self.client, self.session, "python3 change.py")
        self.assertEqual((event["type"], event["body"]["cause"]["syscall"]), ("failed", "ioctl"))

    def test_a_change_by_the_files_provider_is_whole_or_refused(self):
        self.start()
        self.acquired()

        def change(kind, **what):
            self.client.call("operation.submit", session=self.session, kind=kind, **what)
            while True:
                event = self.client.expect("operation.event")[1]
                if event["type"] in ("completed", "failed"):
                    return event["body"].get("code")

        def write(path, content, append=False):
            return change("writeFile", path=path, content=content, append=append)

        self.assertIsNone(write("kept", b"k" * 300000))
        self.fits("head -c 600K /dev/zero >ballast")
        for path, content, append in (("kept", b"n" * 400000, False), ("new", b"n" * 400000, False),
                                      ("kept", b"n" * 400000, True)):
            with self.subTest(path=path, append=append):
                self.assertEqual(write(path, content, append), "resource_exhausted")
                self.assertEqual((self.here / "kept").read_bytes(), b"k" * 300000)
                self.assertEqual(sorted(os.listdir(self.here)), ["ballast", "kept"])
        self.assertIsNone(write("kept", b"small"))
        self.assertIsNone(change("deleteFile", path="ballast"))
        self.assertIsNone(write("new", b"n" * 400000))

    def test_one_that_is_full_can_be_emptied_by_its_client(self):
        self.start()
        self.acquired()
        (self.here / "fill.py").write_text(FILL)
        os.chmod(self.here / "fill.py", 0o644)
        # No bytes are left, and then no room for a name in its directory's only block.
        said = self.fits("mkdir -p d/e; echo x >d/e/f; head -c 2M /dev/zero >ballast 2>/dev/null; "
                         "python3 fill.py")
        self.assertRegex(said, r"^EDQUOT [1-9]\d\d?$")
        self.client.call("operation.submit", session=self.session, kind="deleteFile", path="d",
                         recursive=True)
        while (event := self.client.expect("operation.event")[1])["type"] != "completed":
            self.assertNotEqual(event["type"], "failed", event)
        self.assertFalse((self.here / "d").exists())


class Ids(Quota):
    def only_free(self, project):
        wait_for(lambda: self.there() == [], "the workspace to go")
        wait_for(lambda: self.bounds(project) == (0, 0, 0), "the project to be given back")

    def test_one_that_is_full_goes_and_its_project_is_given_back(self):
        d = self.start()
        self.acquired()
        project = self.project(self.here)
        self.run_line("mkdir a; chmod 0 a; head -c 2M /dev/zero >b")
        self.run_line("i=0; while : >$i; do i=$((i+1)); done")
        self.client.call("session.release", session=self.session, wait=True)
        self.only_free(project)
        self.assertNotIn("cannot remove", d.stderr())

    def test_the_next_daemon_finds_what_is_bounded(self):
        d = self.start()
        self.acquired()
        project = self.project(self.here)
        self.fits("head -c 900K /dev/zero >a")
        d.close()
        d = self.start()
        self.full("head -c 900K /dev/zero >b")
        first, second = self.session, self.acquired()
        self.assertNotEqual(self.project(second), project)
        d.close()
        self.bound("4MiB")  # by the file that is there then
        self.start()
        self.assertEqual(self.bounds(project)[0], 4096)
        self.fits("head -c 900K /dev/zero >b", first)
        for s in (first, self.session):
            self.client.call("session.release", session=s, wait=True)
        self.only_free(project)

    def test_a_reload_bounds_those_that_are_there(self):
        d = self.start()
        self.acquired()
        project = self.project(self.here)

        def reload(size, count):
            self.bound(size)
            d.process.send_signal(signal.SIGHUP)
            wait_for(lambda: d.stderr().count("in force from now on: sessions.workspace_size")
                     == count, "the reload")

        reload("3MiB", 1)
        self.fits("head -c 2M /dev/zero >a")
        reload("1MiB", 2)
        self.full("head -c 1 /dev/zero >b; head -c 8K /dev/zero >c")
        self.assertEqual((self.here / "a").stat().st_size, 2 << 20)
        reload(None, 3)
        self.fits("head -c 2M /dev/zero >b")
        self.assertEqual(self.bounds(project)[:2], (0, 0))
        unbounded = self.acquired()
        self.assertEqual(self.project(unbounded), 0)
        reload("1MiB", 4)
        self.assertIn("1 workspaces were made while there was none", d.stderr())
        self.assertEqual(self.bounds(project)[0], 1024)

    def test_an_id_that_something_has_is_nobody_s(self):
        """Whatever has it: the next one is tried, and what is in it stays as it was bounded."""
        self.start()
        other = self.state / "operator's"
        other.mkdir()
        taken = set()
        for _ in range(3):
            self.acquired()
            taken.add(self.project(self.here))
            fd = os.open(other, os.O_RDONLY)
            x = bytearray(fcntl.ioctl(fd, FSGETXATTR, bytes(28)))
            struct.pack_into("I", x, 12, self.project(self.here) + 1)
            fcntl.ioctl(fd, FSSETXATTR, bytes(x))
            os.close(fd)
        self.assertEqual(len(taken), 3)
        self.assertNotIn(self.project(other), taken)

    @unittest.skipUnless(STOPS.exists(), "build/stops is not built (make stops)")
    def test_nothing_is_bounded_or_counted_after_a_death_at_any_step(self):
        for point in ("workspace_made", "workspace_bound", "workspace_empty", "workspace_goes",
                      "workspace_removed"):
            with self.subTest(point=point):
                d = Daemon(self, program=STOPS, env={"CAISSON_STOP": "supervisor." + point})
                self.client, project = d.client(), None
                try:
                    self.acquired()
                    project = self.project(self.here)
                    self.run_line("mkdir a; head -c 2M /dev/zero >b")
                    self.client.call("session.release", session=self.session, wait=True)
                    while self.client.receive():
                        pass
                except (Closed, ConnectionError):
                    pass
                self.assertEqual(d.process.wait(TIMEOUT), -signal.SIGKILL)
                d.close()
                d = self.start()
                self.only_the_open_ones_are_there(d)
                if project:
                    wait_for(lambda p=project: self.bounds(p)[2] == 0, "the id to be free")
                d.close()


if __name__ == "__main__":
    unittest.main()
