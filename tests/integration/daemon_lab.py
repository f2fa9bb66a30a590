"""A daemon for tests: `caissond -c FILE -f` over a directory of the test's, and its clients.

The agent does what its message says: {"say": X} completes with X at once, {"wait": true}
writes a byte and waits for its end.
"""

import contextlib
import fcntl
import json
import os
import pathlib
import shutil
import signal
import socket
import stat
import struct
import subprocess
import tempfile
import threading
import unittest

import real
import wire
from real import wait_for
from wire import Peer, TIMEOUT, program, said

CAISSOND = program("caissond")
CAISSON = program("caisson")

CONFIG = """version: 1
limits: {{ kill_grace: 100ms, shutdown_grace: {grace} }}
runtimes:
  - {{ id: a, command: [python3, /app/agent.py], app: {app}, profile: interpreter,
       env: [PYTHONDONTWRITEBYTECODE=1] }}
  - {{ id: b, command: [python3, /app/agent.py], app: {app}, profile: interpreter }}
"""

AGENT = """import signal
import caisson


def run(turn):
    if turn.message.get("wait"):
        print("ready", flush=True)
        signal.pause()
    return turn.message.get("say")


caisson.serve(run)
"""


class Daemon:
    """One caissond in the foreground, ready to serve."""

    def __init__(self, case, *words, ready=True, runner=(), env=None, program=None, fds=(), **popen):
        self.case, self.socket = case, case.socket
        readable, low = os.pipe()
        writable = fcntl.fcntl(low, fcntl.F_DUPFD, 40)  # out of the way of what `runner` puts there
        os.close(low)
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [*runner, program or CAISSOND, "-c", case.config, "-f", "--state", case.state,
             "--socket", case.socket, "-n", str(writable), *words],
            pass_fds=[writable, *fds], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=self.errors, start_new_session=True, env=real.environment(**(env or {})),
            **popen)
        os.close(writable)
        case.addCleanup(self.close)
        with open(readable, "rb") as f:
            watchdog = threading.Timer(TIMEOUT, self.process.kill)
            watchdog.start()
            self.ready = f.read() == b"\n"
            watchdog.cancel()
        if ready:
            assert self.ready, self.stderr()

    def stderr(self):
        return said(wire.written(self.errors))

    def close(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(TIMEOUT)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.errors.close()

    def end(self, signo=signal.SIGTERM):
        """Exit status after one signal."""
        self.process.send_signal(signo)
        return self.process.wait(TIMEOUT)

    def connect(self):
        return connect(self.socket)

    def client(self):
        peer = self.connect()
        peer.hello()
        return peer

    def service(self, name):
        """pid of the broker or ledger, once it is there."""
        def look():
            return [pid for pid in real.below(self.process.pid)
                    if (real.proc_text(pid, "cmdline") or "").startswith(f"/libexec/caisson-{name}")]
        return wait_for(look, name)[0]


def connect(path):
    """Whoever connects while nobody accepts waits, or is told at once that nobody will."""
    sock = socket.socket(socket.AF_UNIX)
    # Python's timeout would make it EAGAIN where a backlog is full, which is to be waited for.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(TIMEOUT), 0))
    try:
        sock.connect(str(path))
    except OSError:
        sock.close()
        raise
    return Peer(sock)


def submit(peer, message, runtime="a", **more):
    """The operation, admitted; its events follow."""
    return peer.call("operation.submit", kind="turn", runtime=runtime, message=message,
                     **more)["operation"]


def ending(peer):
    """The next terminal event."""
    while True:
        _, event = peer.expect("operation.event")
        if event["type"] in ("completed", "failed"):
            return event


def waiting(peer, runtime="a"):
    """An operation whose agent runs, and waits."""
    operation = submit(peer, {"wait": True}, runtime)
    while True:
        _, event = peer.expect("operation.event")
        if event["type"] == "output":
            return operation
        assert event["type"] in ("accepted", "progress"), event


class Case(unittest.TestCase):
    def setUp(self):
        if CAISSOND is None:
            self.skipTest("caissond is not built")
        folder = tempfile.mkdtemp(prefix="caisson-daemon-")
        self.addCleanup(self.remove, folder)
        self.dir = pathlib.Path(folder).resolve()
        self.dir.chmod(0o755)
        self.state, self.socket = self.dir / "state", self.dir / "d.sock"
        app = self.dir / "app"
        app.mkdir()
        (app / "agent.py").write_text(AGENT)
        shutil.copy(wire.SDK / "caisson.py", app)
        self.config = self.configure()

    def configure(self, grace="20s", more=""):
        path = self.dir / "c.yaml"
        path.write_text(CONFIG.format(app=self.dir / "app", grace=grace) + more)
        return path

    def remove(self, folder):
        # As root the segments of a supervisor that was killed stay append-only.
        for segment in pathlib.Path(folder).glob("state/*/*/journal/journal.*"):
            with contextlib.suppress(OSError):
                subprocess.run(["chattr", "-a", segment], check=False, capture_output=True)
        # A workspace may hold directories that their owner may not enter.
        for _, names, _, parent in os.fwalk(folder):
            for name in names:
                if stat.S_ISDIR(os.lstat(name, dir_fd=parent).st_mode):
                    os.chmod(name, 0o700, dir_fd=parent)
        shutil.rmtree(folder)

    def caissond(self, *words, **more):
        return subprocess.run([CAISSOND, *words], capture_output=True, text=True,
                              timeout=TIMEOUT, check=False, **more)

    def caisson(self, *words, **more):
        more.setdefault("env", real.environment())
        return subprocess.run([CAISSON, *words], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=TIMEOUT, check=False, **more)

    def verified(self):
        """`caisson audit verify` of the namespace: number of records."""
        result = self.caisson("audit", "--state", self.state, "--run", "default", "-o",
                              "jsonl", "verify")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def records(self):
        result = self.caisson("audit", "--state", self.state, "--run", "default", "-o",
                              "jsonl", "show")
        self.assertEqual(result.returncode, 0, result.stderr)
        return [json.loads(line) for line in result.stdout.splitlines()]

    def segments(self):
        return sorted(self.state.glob("namespaces/default/journal/journal.*"))
