"""Attacks on the real thing: hostile programs in a chamber, hostile peers at a broker.

A chamber's techniques are those of attack_calls.c (system calls) and attack_effects.c (what
they would be for); each must be held, and the harmless neighbours work.  A broker's are
Python, against the real broker under a scripted supervisor (broker_host.py); each must end
as the table says, and cost the broker a bounded amount of memory.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

import wire

PROGRAMS = wire.BUILD / "test" / "program"
SOURCES = pathlib.Path(__file__).resolve().parents[1] / "programs"
ROOT = os.geteuid() == 0


def chamber(*command, options=()):
    """Output and ending of one of our programs in a chamber."""
    done = subprocess.run(
        [PROGRAMS / "chamber_run", *options, "-m", f"{PROGRAMS}:/app", "--",
         f"/app/{command[0]}", *command[1:]], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    end = json.loads(done.stderr.decode().strip().splitlines()[-1])
    return done.stdout.decode().strip(), end


# Calls that honest libraries try: refused with an errno, and the program goes on.
REFUSED = {
    "pidfd-open": "ENOSYS", "clone3": "ENOSYS", "io-uring-setup": "ENOSYS",
    "io-uring-register": "ENOSYS", "inotify-init": "ENOSYS", "memfd-create": "ENOSYS",
    "execveat": "ENOSYS", "shmget": "ENOSYS", "msgget": "ENOSYS", "mq-open": "ENOSYS",
    "sched-fifo": "EPERM", "prctl-ambient": "EPERM", "fcntl-pipe-size": "EPERM",
    "socket-unix": "EACCES", "socket-inet": "EACCES", "socket-netlink": "EACCES",
    "send-oob": "EOPNOTSUPP", "send-oob-high-half": "EOPNOTSUPP", "recv-oob": "EOPNOTSUPP",
    "setsockopt": "EPERM", "setuid": "EPERM", "setgroups": "EPERM", "capset": "EPERM",
    "openat2-hides-its-mode": "ENOSYS",
}


@unittest.skipIf(wire.SANITIZED or not (PROGRAMS / "chamber_run").exists(),
                 "needs the programs, and filters that a sanitizer does not widen")
class Calls(unittest.TestCase):
    def test_every_call_is_refused_or_ends_the_chamber(self):
        text = (SOURCES / "attack_calls.c").read_text()
        names = re.findall(r'^\t\{ "([\w-]+)",', text, re.M) + ["i386-getpid"]
        self.assertGreater(len(names), 100)
        for name in names:
            with self.subTest(name):
                out, end = chamber("attack_calls", name)
                if name.startswith("neighbour-"):
                    self.assertEqual((out.split()[0], end["status"]), ("done", 0))
                elif name in REFUSED:
                    self.assertEqual((out, end["status"]), (f"errno {REFUSED[name]}", 0))
                else:
                    self.assertEqual((out, end["cause"], end["status"]),
                                     ("", "seccomp", signal.SIGKILL))
                    self.assertTrue(end["syscall"])

    def test_a_providers_list_hides_no_mode_either(self):
        out, _ = chamber("attack_calls", "openat2-hides-its-mode", options=("-p", "provider"))
        self.assertEqual(out, "errno ENOSYS")
        out, _ = chamber("attack_calls", "openat2-hides-its-mode", options=("-p", "files"))
        self.assertNotEqual(out, "errno ENOSYS")


# technique, its path, what the program may say; a second word if the number matters
EFFECTS = [
    *[("read", p, "held ENOENT") for p in (
        "/etc/shadow", "/proc/1/environ", "/proc/1/mem", "/proc/kcore", "/proc/sysrq-trigger",
        "/proc/sys/kernel/core_pattern", "/proc/timer_list", "/sys/kernel", "/dev/mem",
        "/dev/tty", "/dev/ptmx", "/dev/kmsg", "/run/caisson", "/var/run/docker.sock")],
    *[("write", p, "held (EACCES|EROFS)") for p in (
        "/proc/self/mem", "/proc/self/oom_score_adj", "/proc/self/uid_map",
        "/proc/self/attr/current", "/proc/self/comm", "/proc/self/clear_refs",
        "/proc/self/timerslack_ns", "/etc/passwd", "/usr/bin/env", "/ro/file",
        "/app/attack_calls")],
    ("hunt", "", r"writable /+(tmp|dev/shm|rw)$"),
    ("climb", "/etc/shadow", "held"),
    ("climb", "{host}/secret", "held"),
    ("link-out", "/ro/file", "held"),
    ("set-uid", "/rw/tool", "held"),
    ("set-uid-open", "/rw/tool2", "openat"),
    ("set-uid-temporary", "/rw", "openat"),
    ("run-own", "/tmp", "held EACCES"),
    ("run-own", "/dev/shm", "held EACCES"),
    ("run-own", "/rw", "held EACCES"),
    ("map-own", "/tmp", "held EPERM"),
    ("map-own", "/dev/shm", "held EPERM"),
    ("touch-read-only", "/ro/file", "held"),
    ("touch-read-only", "/usr/bin/env", "held"),
    ("rename-over", "/rw", "held"),
    ("fork-bomb", "", "held EAGAIN (1[012][0-9]|[0-9]{1,2})$"),
    ("signal-others", "-1", "held"),
    ("kill-init", "", "held"),
    ("see-others", "", "held processes 1"),
    ("inherited", "", "held descriptors 0"),
    ("raise-limits", "", "held limits 0"),
    ("many-descriptors", "", "held EMFILE"),
    ("many-timers", "", "held EAGAIN"),
    ("fill", "/tmp", "held ENOSPC 64"),
    ("fill", "/dev/shm", "held ENOSPC 16"),
    ("fill-files", "/tmp", "held ENOSPC"),
    ("fill-files", "/dev/shm", "held ENOSPC"),
    ("outlive", "", "held"),
    ("core", "/rw", "held signal 6"),
    ("send-descriptor", "", "held ENOTSOCK"),
]
# The same programs outside: that they get in there says that they try.
CONTROLS = [("read", "/proc/1/stat"), ("write", "/dev/null"), ("climb", "/etc/passwd"),
            ("set-uid", "{host}/tool"), ("set-uid-open", "{host}/tool2"),
            ("set-uid-temporary", "{host}"), ("run-own", "{host}"), ("map-own", "{host}"),
            ("touch-read-only", "{host}/control"), ("see-others", ""), ("fill", "{host}")]


class Effects(unittest.TestCase):
    def setUp(self):
        if not (PROGRAMS / "attack_effects").exists():
            self.skipTest("the programs are not built")
        self.host = tempfile.mkdtemp(prefix="caisson-attack-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.host)
        for name in ("ro", "rw"):
            os.mkdir(os.path.join(self.host, name))
        for name in ("secret", "control", "ro/file"):
            pathlib.Path(self.host, name).write_text("unchanged\n")

    def test_every_effect_is_held(self):
        mounts = ("-m", f"{self.host}/ro:/ro", "-m", f"{self.host}/rw:/rw:w")
        for name, path, expected in EFFECTS:
            with self.subTest(name, path=path):
                out, end = chamber("attack_effects", name, path.format(host=self.host),
                                   options=mounts)
                if expected == "openat":
                    self.assertEqual((out, end["syscall"]), ("", "openat"))
                    continue
                for line in out.splitlines() if name == "hunt" else [out]:
                    if not line.startswith("held places"):
                        self.assertRegex(line, expected)
                self.assertEqual(end["status"], 0)
        self.assertEqual(pathlib.Path(self.host, "ro/file").read_text(), "unchanged\n")
        for path in pathlib.Path(self.host, "rw").iterdir():
            self.assertEqual(path.stat().st_mode & 0o6000, 0, path)
            self.assertFalse(path.name.startswith("core"))

    def test_the_same_programs_get_in_outside(self):
        for name, path in CONTROLS:
            with self.subTest(name):
                out = subprocess.run(
                    [PROGRAMS / "attack_effects", name, path.format(host=self.host)],
                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60).stdout
                self.assertTrue(out.startswith(b"IN"), out)

    def test_two_chambers_do_not_meet(self):
        sleeper = subprocess.Popen(
            [PROGRAMS / "chamber_run", "--", "/bin/sh", "-c", "echo up; exec sleep 600"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            self.assertEqual(sleeper.stdout.readline(), b"up\n")
            for pid in (sleeper.pid, os.getpid()):
                out, _ = chamber("attack_effects", "signal-others", str(pid))
                self.assertRegex(out, "held ESRCH")
            out, _ = chamber("attack_effects", "see-others")
            self.assertEqual(out, "held processes 1")
            chamber("attack_effects", "signal-others", "-1")
            self.assertIsNone(sleeper.poll())
            if ROOT:
                uids = {self.uid_of_chamber(sleeper.pid)}
                self.assertNotIn(0, uids)
                out = subprocess.run(
                    [PROGRAMS / "chamber_run", "--", "/bin/cat", "/proc/self/uid_map"],
                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60).stdout
                self.assertNotIn(int(out.split()[1]), uids)
        finally:
            sleeper.kill()
            sleeper.wait()
            sleeper.stdout.close()

    @staticmethod
    def uid_of_chamber(parent):
        children = pathlib.Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        return os.stat(f"/proc/{children[0]}").st_uid

    def test_nothing_outlives_a_chamber(self):
        r, w = os.pipe()  # whoever lives on holds it open
        done = subprocess.Popen(
            [PROGRAMS / "chamber_run", "-m", f"{PROGRAMS}:/app", "--", "/app/attack_effects",
             "outlive"], stdout=w, stderr=subprocess.DEVNULL)
        os.close(w)
        done.wait(60)
        with os.fdopen(r, "rb") as f:
            self.assertEqual(f.read(), b"held left behind 6\n")  # and then its end


if __name__ == "__main__":
    unittest.main()
