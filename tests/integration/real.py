"""The real `caisson` and its processes, for tests of `run` and `exec`.

Case gives each test a directory with a state directory of its own in it, starts commands,
and sees to it that nothing outlives a test.
"""

import base64
import contextlib
import glob
import json
import os
import pathlib
import select
import subprocess
import tempfile
import threading
import time
import unittest

import wire

CAISSON = wire.program("caisson")
WAIT = wire.TIMEOUT  # seconds, for anything that should be immediate
IS_ROOT = os.geteuid() == 0
SANITIZED = wire.SANITIZED


def wait_for(condition, what, timeout=WAIT):
    """Polls what has no event: /proc.  Returns what `condition` does, once it is true."""
    deadline = time.monotonic() + timeout
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"never came: {what}")
        select.select([], [], [], 0.01)


def proc_text(pid, name):
    """A file of /proc, or None once the process is gone."""
    with contextlib.suppress(OSError):
        return pathlib.Path("/proc", str(pid), name).read_text(errors="replace")
    return None


def namespace(pid, name):
    """Which one a process is in, as the kernel numbers them."""
    return os.readlink(f"/proc/{pid}/ns/{name}")


def parents():
    """{pid: parent} of everything that is not a zombie."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        stat = proc_text(pid, "stat")
        fields = stat.rpartition(")")[2].split() if stat else ["Z"]
        if fields[0] != "Z":
            found[int(pid)] = int(fields[1])
    return found


def below(root):
    """Every living pid that descends from `root`."""
    everything, found, more = parents(), set(), {root}
    while more:
        more = {p for p, parent in everything.items() if parent in more} - found
        found |= more
    return found


def marked(mark):
    """Every pid with the word in its command line."""
    return [pid for pid in parents() if mark in (proc_text(pid, "cmdline") or "")]


def environment(**extra):
    env = {k: v for k, v in os.environ.items() if not k.startswith("CAISSON_")}
    env.update(extra)
    return env


class Case(unittest.TestCase):
    def setUp(self):
        if CAISSON is None:
            self.skipTest("caisson is not built")
        folder = tempfile.TemporaryDirectory(prefix="caisson-real-")
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name).resolve()
        self.dir.chmod(0o755)
        self.state = self.dir / "state"

    def start(self, command, *words, env=None, **popen):
        """Popen of `caisson COMMAND --state ... WORDS`; pipes but for what is given."""
        for stream in ("stdin", "stdout", "stderr"):
            popen.setdefault(stream, subprocess.PIPE)
        p = subprocess.Popen([CAISSON, command, "--state", self.state, *words],
                             env=environment(**(env or {})), **popen)
        # Whoever reads its pipes gets an end, not a hang.
        watchdog = threading.Timer(3 * WAIT, p.kill)
        watchdog.daemon = True
        watchdog.start()
        self.addCleanup(self.finish, p, watchdog)
        return p

    def finish(self, p, watchdog):
        watchdog.cancel()
        if p.poll() is None:
            p.kill()
            p.wait()
        for f in (p.stdin, p.stdout, p.stderr):
            if f is not None:
                with contextlib.suppress(OSError):
                    f.close()

    def caisson(self, command, *words, stdin=b"", **popen):
        """(exit status, stdout, stderr as text)"""
        p = self.start(command, *words, **popen)
        out, err = p.communicate(stdin, timeout=WAIT)
        return p.returncode, out, wire.said(err or b"").decode()

    def events(self, command, *words, **popen):
        """(exit status, [event]) of `-o jsonl`, its form checked."""
        status, out, err = self.caisson(command, "-o", "jsonl", *words, **popen)
        lines = out.decode().splitlines()
        events = [json.loads(line) for line in lines]
        self.assertTrue(events, err)
        self.assertEqual([e["sequence"] for e in events], list(range(1, len(events) + 1)))
        for e in events:
            self.assertEqual(set(e), {"sequence", "type", e["type"]})
        self.assertEqual(events[0]["type"], "accepted")
        self.assertEqual([e["type"] in ("completed", "failed") for e in events],
                         [False] * (len(events) - 1) + [True])
        return status, events

    def refused(self, said, command, *words, **popen):
        """It is 125 with one line that has `said` in it."""
        status, out, err = self.caisson(command, *words, **popen)
        self.assertEqual((status, out), (125, b""), err)
        self.assertRegex(err, r"\Acaisson(d: error)?: [^\n]+\n\Z")
        self.assertIn(said, err)


def output_of(events, stream="stdout"):
    return b"".join(base64.b64decode(e["output"]["data"]) for e in events
                    if e["type"] == "output" and e["output"]["stream"] == stream)


def ending(events):
    return events[-1][events[-1]["type"]]


def left_over():
    """What dead supervisors left on this machine: groups, locked uids, mounts."""
    found = _seen_left_over()  # some of it went, with its supervisor, as we looked
    return [what for what in found if what in _seen_left_over()]


def nothing_left():
    """Waits: what is left by one that another test killed is there until the next one sweeps."""
    wait_for(lambda: not left_over(), "nothing left")


def groups_of_the_dead():
    """Control groups whose supervisor is gone.  Others' come and go meanwhile, which pathlib's
    glob does not bear."""
    return [group for group in glob.glob("/sys/fs/cgroup/**/caisson-*-*", recursive=True)
            if not os.path.exists(f"/proc/{os.path.basename(group).split('-')[1]}")]


def _seen_left_over():
    found = groups_of_the_dead()
    with contextlib.suppress(OSError):
        uids = {f.stat().st_ino: f.name for f in pathlib.Path("/run/caisson/uid").iterdir()}
        for line in pathlib.Path("/proc/locks").read_text().splitlines():
            fields = line.replace(" -> ", " ").split()
            inode, pid = int(fields[5].rpartition(":")[2]), fields[4]
            if inode in uids and not pathlib.Path("/proc", pid).exists():
                found.append(f"uid {uids[inode]} locked by {pid}")
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        if "caisson" in line.split()[4]:
            found.append(line)
    return found
