"""A daemon with its real gateway and two principals, for clients that do not keep to the rules.

Case.daemon() serves the built-in command runtime `shell` to human:alice, human:bob and the network
operator human:admin, and `other` to bob and admin, on plain loopback.
"""

import base64
import hashlib
import json
import re
import socket
import struct

import daemon_lab
from daemon_lab import Daemon
from wire import TIMEOUT

ALICE, BOB, ADMIN = "alice-0123456789", "bob-0123456789", "admin-0123456789"
BASE = "/v1/namespaces/default/runtimes/shell/sessions"
OTHER = "/v1/namespaces/default/runtimes/other/sessions"

CONFIG = """version: 1
limits: {{ kill_grace: 200ms, shutdown_grace: 5s }}
sessions: {{ max: 16, queue: 8, operation_timeout: 60s }}
principals:
  - {{ id: "human:alice", tokens: [{alice}], runtimes: [shell], sessions: 8 }}
  - {{ id: "human:bob", tokens: [{bob}], runtimes: [shell, other], sessions: 8 }}
  - {{ id: "human:admin", tokens: [{admin}], operator: true, runtimes: ["*"] }}
gateway:
  listen:
    - {{ address: "127.0.0.1:0" }}
  monitor: "127.0.0.1:0"
  {limits}
runtimes:
  - {{ id: shell, builtin: command, profile: interpreter }}
  - {{ id: other, builtin: command, profile: interpreter }}
"""


def digest(token):
    return hashlib.sha256(token.encode()).hexdigest()


class Raw:
    """One connection; bytes go as they are."""

    def __init__(self, address, **options):
        host, _, port = address.rpartition(":")
        self.address = address
        self.sock = socket.socket()
        self.sock.settimeout(TIMEOUT)
        for name, value in options.items():
            self.sock.setsockopt(socket.SOL_SOCKET, getattr(socket, name), value)
        self.sock.connect((host, int(port)))
        self.pending = b""

    def close(self):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data)

    def line(self, method, path, token=None, body=None, **headers):
        """The bytes of one request."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self.address}"]
        if token is not None:
            lines.append(f"Authorization: Bearer {token}")
        if body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode() + (body or b"")

    def until(self, end):
        while end not in self.pending:
            data = self.sock.recv(1 << 16)
            if not data:
                raise EOFError(self.pending)
            self.pending += data
        text, _, self.pending = self.pending.partition(end)
        return text

    def exactly(self, n):
        while len(self.pending) < n:
            data = self.sock.recv(1 << 16)
            if not data:
                raise EOFError(self.pending)
            self.pending += data
        data, self.pending = self.pending[:n], self.pending[n:]
        return data

    def answer(self, head=False):
        """(status, headers, body) of the next response."""
        lines = self.until(b"\r\n\r\n").decode().split("\r\n")
        status = int(lines[0].split()[1])
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        n = 0 if head or status == 101 else int(headers.get("content-length", 0))
        return status, headers, self.exactly(n)

    def ask(self, method, path, token=None, body=None, **headers):
        """(status, value) of one request."""
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        self.send(self.line(method, path, token, body, **headers))
        status, _, content = self.answer()
        try:
            return status, json.loads(content)
        except ValueError:
            return status, content

    def upgrade(self, session, token=None, base=BASE, **headers):
        """Status of the handshake."""
        key = base64.b64encode(b"0123456789abcdef").decode()
        self.send(self.line("GET", f"{base}/{session}/operations:ws", token, Upgrade="websocket",
                            Connection="Upgrade", Sec_WebSocket_Version="13",
                            Sec_WebSocket_Key=key, **headers))
        return self.answer()

    def frame(self, payload, opcode=1, fin=True):
        n = len(payload)
        wide = struct.pack("!B", 0x80 | n) if n < 126 else struct.pack("!BH", 0x80 | 126, n) \
            if n < 1 << 16 else struct.pack("!BQ", 0x80 | 127, n)
        return bytes([(0x80 if fin else 0) | opcode]) + wide + bytes(4) + payload

    def say(self, **message):
        self.send(self.frame(json.dumps(message).encode()))

    def hear(self):
        """The next message; ("close", code, reason) where it is the end; pings are passed over."""
        while True:
            first, second = self.exactly(2)
            n = second & 0x7f
            if n >= 126:
                n = int.from_bytes(self.exactly(2 if n == 126 else 8), "big")
            payload = self.exactly(n)
            if first & 0xf == 8:
                return "close", int.from_bytes(payload[:2], "big"), payload[2:].decode()
            if first & 0xf == 1:
                return json.loads(payload)

    def run(self, session=None, key=None, **operation):
        """(terminal event, output) of one operation over this WebSocket."""
        message = {"type": "send", "operation": operation}
        if key is not None:
            message["idempotencyKey"] = key
        self.say(**message)
        output = b""
        while True:
            event = self.hear()
            if isinstance(event, tuple) or event["type"] in ("completed", "failed", "error"):
                return event, output
            if event["type"] == "output":
                output += base64.b64decode(event["output"]["data"])


class Case(daemon_lab.Case):
    limits = ""

    def configure(self, grace="20s", more=""):
        path = self.dir / "c.yaml"
        path.write_text(CONFIG.format(alice=digest(ALICE), bob=digest(BOB), admin=digest(ADMIN),
                                      limits=self.limits) + more)
        return path

    def daemon(self):
        self.d = Daemon(self)
        self.address, self.monitor = re.findall(r"listens on (\S+)", self.d.stderr())
        return self.d

    def raw(self, **options):
        raw = Raw(self.address, **options)
        self.addCleanup(raw.close)
        return raw

    def ask(self, method, path, token=None, body=None, **headers):
        raw = self.raw()
        try:
            return raw.ask(method, path, token, body, **headers)
        finally:
            raw.close()

    def acquire(self, token=ALICE, base=BASE, **headers):
        status, value = self.ask("POST", base, token, {}, **headers)
        self.assertIn(status, (200, 201), value)
        return value["id"]

    def ws(self, session, token=ALICE):
        """A WebSocket of the session."""
        raw = self.raw()
        status, _, body = raw.upgrade(session, token)
        self.assertEqual(status, 101, body)
        return raw

    def shell(self, session, line, token=ALICE):
        """Exit code and output of one command."""
        raw = self.ws(session, token)
        event, output = raw.run(command={"shell": line})
        raw.close()
        self.assertIsInstance(event, dict)
        self.assertIn(event["type"], ("completed", "failed"), event)
        return event[event["type"]].get("command", {}).get("exitCode"), output.decode(errors="replace")

    def alive(self):
        """What the daemon is there for, it still does."""
        self.assertEqual(self.ask("GET", BASE, ALICE)[0], 200)
