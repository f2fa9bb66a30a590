"""A daemon with its real gateway, over real sockets, and connections that are cut on the way.

Case.daemon() serves one built-in command runtime, `shell`, to the principal human:alice, on plain
loopback, a UNIX socket and TLS.  Cutter stands between a client and the gateway and ends each
connection after as many bytes as it is told.
"""

import base64
import hashlib
import json
import os
import pathlib
import re
import select
import socket
import ssl
import subprocess
import sys
import threading
import time

import daemon_lab
import real
from daemon_lab import Daemon
from wire import TIMEOUT

WAIT = TIMEOUT

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "client" / "python"
sys.path.insert(0, str(PACKAGE))

from caisson_client import Client, _websocket  # noqa: E402

TOKEN = "token-of-alice-0123456789abcdef"

CONFIG = """version: 1
limits: {{ kill_grace: 200ms, shutdown_grace: 5s }}
sessions: {{ max: {sessions}, queue: 8, operation_timeout: 5m }}
retention: {{ operation: {retained}, total: {total}, time: 15m }}
principals:
  - {{ id: "human:alice", tokens: [{alice}], runtimes: [shell], sessions: {sessions},
       connections: 4000 }}
  - {{ id: "human:bob", tokens: [{bob}], runtimes: [shell] }}
gateway:
  listen:
    - {{ address: "127.0.0.1:0" }}
    - {{ socket: "{dir}/http.sock" }}
    - {{ address: "127.0.0.1:0", tls: {{ certificate: server.pem, key: server.key }} }}
  monitor: "127.0.0.1:0"
  connections: 4000
  requests: 1000
  write_timeout: 10s
runtimes:
  - {{ id: shell, builtin: command, profile: interpreter }}
"""


def digest(token):
    return hashlib.sha256(token.encode()).hexdigest()


class Case(daemon_lab.Case):
    retained, total, sessions = "1MiB", "64MiB", 64

    def configure(self, grace="20s", more=""):
        try:
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                            "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                            "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
                            "-keyout", self.dir / "server.key", "-out", self.dir / "server.pem"],
                           check=True, capture_output=True)
        except FileNotFoundError:
            self.skipTest("openssl(1) is not installed: apt-get install openssl")
        path = self.dir / "c.yaml"
        path.write_text(CONFIG.format(
            dir=self.dir, retained=self.retained, total=self.total, sessions=self.sessions,
            alice=digest(TOKEN), bob=digest("token-of-bob-0123456789abcdef")) + more)
        return path

    def daemon(self):
        self.d = Daemon(self)
        where = re.findall(r"listens on (\S+)", self.d.stderr())
        self.assertEqual(len(where), 4, self.d.stderr())
        self.plain, self.unix, self.tls, self.monitor = where
        return self.d

    def client(self, address=None, kind="plain", token=TOKEN):
        """A client by one of the three ways, or by `address`."""
        if kind == "plain":
            client = Client(f"http://{address or self.plain}", token=token, timeout=TIMEOUT)
        elif kind == "unix":
            client = Client(f"http+unix://{self.unix}", token=token, timeout=TIMEOUT)
        else:
            client = Client(f"https://{self.tls}", token=token, timeout=TIMEOUT,
                            cafile=str(self.dir / "server.pem"))
        self.addCleanup(client.close)
        return client

    def service(self, name):
        return self.d.service(name)


def mute(address, sandbox, operation, after=0):
    """A client that asks for an operation's events over a WebSocket, and takes no byte of them."""
    host, _, port = address.rpartition(":")
    sock = socket.create_connection((host, int(port)), WAIT)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    path = f"/v1/namespaces/default/runtimes/shell/sessions/{sandbox}/operations:ws"
    sock.sendall((f"GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {TOKEN}\r\n"
                  "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                  f"Sec-WebSocket-Key: {_websocket.new_key()}\r\n\r\n").encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += sock.recv(1)
    assert head.startswith(b"HTTP/1.1 101 "), head
    text = json.dumps({"type": "resume", "operationID": operation, "after": after})
    sock.sendall(_websocket.encode(1, text.encode()))
    return sock


HEARTBEAT = _websocket.encode(1, b'{"type":"heartbeat"}')


class Cutter:
    """Forwards connections to `address`; the n-th ends after `plan(n)` = (bytes to the gateway,
    bytes to the client), None: never."""

    def __init__(self, address, plan):
        host, _, port = address.rpartition(":")
        self.target, self.plan = (host, int(port)), plan
        self.count, self.cuts = 0, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "%s:%d" % self.listener.getsockname()
        self.threads = []
        self.lock = threading.Lock()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                ours, _ = self.listener.accept()
            except OSError:
                return
            with self.lock:
                n = self.count
                self.count += 1
            thread = threading.Thread(target=self.forward, args=[ours, self.plan(n)], daemon=True)
            self.threads.append(thread)
            thread.start()

    def forward(self, ours, left):
        left = list(left)
        with ours, socket.create_connection(self.target) as theirs:
            ways = {ours: (theirs, 0), theirs: (ours, 1)}
            while True:
                for readable in select.select(list(ways), [], [], TIMEOUT)[0]:
                    to, way = ways[readable]
                    try:
                        data = readable.recv(1 << 16)
                        if left[way] is not None:
                            data, cut = data[:left[way]], len(data) >= left[way]
                            left[way] -= len(data)
                        else:
                            cut = False
                        to.sendall(data)
                    except OSError:
                        return
                    if cut:
                        with self.lock:
                            self.cuts += 1
                    if cut or not data:
                        return

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            thread.join(TIMEOUT)


def memory(pid):
    """Resident bytes of a process."""
    for line in (real.proc_text(pid, "status") or "").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


class Line:
    """One session of a swarm: its connection, and what came of its operation."""

    def __init__(self, swarm, sandbox, command, key):
        self.swarm, self.sandbox, self.command, self.key = swarm, sandbox, command, key
        self.operation, self.last, self.ending, self.endings = None, 0, None, 0
        self.gaps, self.output, self.connections, self.refused = [], b"", 0, []
        self.sock, self.parser, self.head, self.pending = None, None, b"", b""
        self.restless = False  # it goes away after each event

    def open(self):
        host, _, port = self.swarm.address.rpartition(":")
        self.sock = socket.socket()
        self.sock.setblocking(False)
        self.connections += 1
        self.parser, self.head = _websocket.Parser(), b""
        self.sock.connect_ex((host, int(port)))
        path = f"/v1/namespaces/default/runtimes/shell/sessions/{self.sandbox}/operations:ws"
        self.pending = (f"GET {path} HTTP/1.1\r\nHost: {self.swarm.address}\r\n"
                        f"Authorization: Bearer {TOKEN}\r\nUpgrade: websocket\r\n"
                        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                        f"Sec-WebSocket-Key: {_websocket.new_key()}\r\n\r\n").encode()

    def close(self):
        if self.sock is not None:
            self.sock.close()
        self.sock = None

    def say(self, **message):
        self.pending += _websocket.encode(1, json.dumps(message).encode())

    def on_open(self):
        if self.operation is None:  # not known to be admitted: the key makes it one (OP-38)
            self.say(type="send", idempotencyKey=self.key,
                     operation={"command": {"shell": self.command}})
        else:
            self.say(type="resume", operationID=self.operation, after=self.last)

    def on_event(self, e):
        kind, sequence = e["type"], e["sequence"]
        if kind == "accepted" and self.operation is not None:
            assert self.operation == e["accepted"]["operationID"], (self.key, e)
        if kind == "gap":
            assert e["gap"]["from"] == self.last + 1, (self.last, e)
            self.gaps.append((e["gap"]["from"], e["gap"]["to"]))
            self.last = e["gap"]["to"]
            return
        assert sequence == self.last + 1, (self.key, self.last, e)
        self.last = sequence
        if kind == "accepted":
            self.operation = e["accepted"]["operationID"]
        elif kind == "output":
            self.output += base64.b64decode(e["output"]["data"])
        elif kind in ("completed", "failed"):
            self.ending = e
            self.endings += 1

    def on_readable(self):
        """False: the connection is over."""
        try:
            data = self.sock.recv(1 << 16)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not data:
            return False
        if not self.head.endswith(b"\r\n\r\n"):
            head, end, data = (self.head + data).partition(b"\r\n\r\n")
            self.head = head + end
            if not end:
                return True
            if not head.startswith(b"HTTP/1.1 101 "):
                self.refused.append(head.split(b"\r\n")[0])
                return False
            self.on_open()
        for opcode, payload in self.parser.feed(data):
            if opcode == 8:
                return False
            if opcode == 9:
                self.pending += _websocket.encode(10, payload)
            if opcode != 1:
                continue
            message = json.loads(payload)
            if message["type"] == "error":
                self.refused.append(message)
                return False
            self.on_event(message)
            if self.restless:
                return False
        return True

    def on_writable(self):
        try:
            self.pending = self.pending[self.sock.send(self.pending):]
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True


class Swarm:
    """Many sessions at once, each with one command; a connection that ends is opened again, and
    goes on behind the last event that came."""

    def __init__(self, case, address, n, again=0.05):
        self.address, self.again = address, again
        client = case.client()
        self.sandboxes = [client.acquire("shell") for _ in range(n)]
        self.lines = []

    def send(self, command, key):
        """The command of each; `key` makes it another than the one before."""
        self.lines = [Line(self, s.id, command, f"{key}-{s.id}") for s in self.sandboxes]

    def run(self, between=lambda swarm: None, seconds=300):
        """Until each has its ending; `between` is called a few times a second."""
        poll, by_fd, waiting = select.epoll(), {}, []
        deadline, next_call = time.monotonic() + seconds, 0

        def start(line):
            line.open()
            by_fd[line.sock.fileno()] = line
            poll.register(line.sock, select.EPOLLIN | select.EPOLLOUT)

        def stop(line):
            poll.unregister(line.sock)
            del by_fd[line.sock.fileno()]
            line.close()
            if line.ending is None:
                waiting.append((time.monotonic() + self.again, line))

        for line in self.lines:
            start(line)
        while any(line.ending is None for line in self.lines):
            now = time.monotonic()
            if now > deadline:
                left = [line for line in self.lines if line.ending is None]
                raise AssertionError(f"{len(left)} without an ending, the first: {vars(left[0])}")
            if now > next_call:
                between(self)
                next_call = now + 0.2
            while waiting and waiting[0][0] <= now:
                start(waiting.pop(0)[1])
            for fd, events in poll.poll(0.05):
                line = by_fd[fd]
                ok = True
                if events & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
                    ok = line.on_readable()
                if ok and line.pending:
                    ok = line.on_writable()
                if not ok or line.ending is not None:
                    stop(line)
                else:
                    poll.modify(fd, select.EPOLLIN | (select.EPOLLOUT if line.pending else 0))
        for line in list(by_fd.values()):
            stop(line)
        poll.close()
