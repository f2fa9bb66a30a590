"""A daemon with principals behind a gateway on a socket, and connections that show their tokens."""

import hashlib
import http.client
import json
import socket

import daemon_lab
from daemon_lab import Daemon
from real import wait_for
from wire import TIMEOUT

ALICE, BOB, ADMIN = "alice-0123456789", "bob-0123456789", "admin-0123456789"
BASE = "/v1/namespaces/default/runtimes/{}/sessions"
A, B = BASE.format("a"), BASE.format("b")


def row(id, token, runtimes="['*']", **more):
    members = "".join(f", {k}: {v}" for k, v in more.items())
    return (f"  - {{ id: {id}, tokens: [{hashlib.sha256(token.encode()).hexdigest()}], "
            f"runtimes: {runtimes}{members} }}\n")


ROWS = {"alice": row("human:alice", ALICE, "[a]", sessions=2),
        "bob": row("human:bob", BOB), "admin": row("human:admin", ADMIN, operator="true")}


class Connection(http.client.HTTPConnection):
    """To the gateway's socket; one link to the broker behind it, for one token."""

    def __init__(self, path, token=None):
        super().__init__("localhost", timeout=TIMEOUT)
        self.path, self.token = path, token

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(TIMEOUT)
        self.sock.connect(self.path)

    def ask(self, method, path, body=None, **headers):
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        self.request(method, path, None if body is None else json.dumps(body), headers)
        answer = self.getresponse()
        text = answer.read()
        return answer, json.loads(text) if text else None


class Case(daemon_lab.Case):
    def configure(self, grace="20s", more=None):
        path = super().configure(grace)
        with open(path, "a", encoding="utf-8") as f:
            f.write("principals:\n" + "".join((ROWS if more is None else more).values()) +
                    f"gateway:\n  listen:\n    - {{ socket: {self.dir / 'http.sock'} }}\n")
        return path

    def daemon(self, **more):
        d = Daemon(self, **more)
        wait_for(self.answers, "gateway")
        return d

    def answers(self):
        try:
            return self.connect().ask("GET", A)[0].status == 401
        except OSError:
            return False

    def connect(self, token=None):
        connection = Connection(str(self.dir / "http.sock"), token)
        self.addCleanup(connection.close)
        return connection

    def asked(self, status, connection, method, path, body=None, **headers):
        answer, value = connection.ask(method, path, body, **headers)
        self.assertEqual(answer.status, status, value)
        return value

    def refused(self, status, code, connection, method, path, body=None):
        value = self.asked(status, connection, method, path, body)
        self.assertEqual(value["error"]["code"], code)
        return value["error"]["message"]
