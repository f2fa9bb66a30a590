"""Principals from end to end: a daemon, its gateway and its broker, and tokens over HTTP."""

import hashlib
import http.client
import json
import signal
import socket
import unittest

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


class Network(daemon_lab.Case):
    def configure(self, grace="20s", more=None):
        path = super().configure(grace)
        with open(path, "a", encoding="utf-8") as f:
            f.write("principals:\n" + "".join((ROWS if more is None else more).values()) +
                    f"gateway:\n  listen:\n    - {{ socket: {self.dir / 'http.sock'} }}\n")
        return path

    def daemon(self):
        d = Daemon(self)
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

    def test_a_token_opens_what_is_its_principals(self):  # D-14, OP-19
        self.daemon()
        alice, bob, admin = (self.connect(t) for t in (ALICE, BOB, ADMIN))
        mine = self.asked(201, alice, "POST", A, {})["id"]
        theirs = self.asked(201, bob, "POST", B, {})["id"]
        self.refused(403, "permission_denied", alice, "POST", B, {})
        self.asked(201, alice, "POST", A, {})
        self.refused(429, "resource_exhausted", alice, "POST", A, {})
        self.assertEqual(self.asked(200, alice, "GET", f"{A}/{mine}")["principal"], "human:alice")
        for path in (f"{A}/{mine}", f"{A}/{theirs}", f"{A}/s-0000000000000001"):
            self.refused(404, "not_found", bob, "GET", path)
            self.refused(404, "not_found", bob, "DELETE", path)
        listed = self.asked(200, admin, "GET", A)["sessions"]
        self.assertIn(mine, [s["id"] for s in listed])
        self.assertEqual([s["id"] for s in self.asked(200, bob, "GET", A)["sessions"]], [])
        self.asked(200, admin, "DELETE", f"{A}/{mine}?mode=immediate&wait=true")

    def test_without_a_right_one_there_is_nothing(self):  # D-14, OP-19
        d = self.daemon()
        for token in (None, "", ALICE[:-1], ALICE + "0", ALICE.upper(), "x" * 4000,
                      hashlib.sha256(ALICE.encode()).hexdigest()):
            for method, path in (("GET", A), ("POST", A), ("GET", f"{A}/s-0000000000000001"),
                                 ("DELETE", f"{A}/s-0000000000000001")):
                connection = self.connect(token)
                answer, _ = connection.ask(method, path, {} if method == "POST" else None)
                self.assertEqual((answer.status, answer.getheader("WWW-Authenticate")),
                                 (401, "Bearer"), (token, method, path))
        self.asked(201, self.connect(ALICE), "POST", A, {})  # the neighbour
        self.assertEqual(d.end(), 0)
        told = d.stderr() + json.dumps(self.records())
        for token in (ALICE, BOB, ADMIN):
            self.assertNotIn(token[:-1], told)
            self.assertNotIn(hashlib.sha256(token.encode()).hexdigest(), told)

    def test_a_token_that_is_taken_away_opens_nothing_from_then_on(self):  # D-14
        d = self.daemon()
        alice, bob = self.connect(ALICE), self.connect(BOB)
        session = self.asked(201, alice, "POST", A, {})["id"]
        self.asked(200, bob, "GET", A)
        self.configure(more={**ROWS, "alice": row("human:alice", "another-0123456789", "[a]")})
        d.process.send_signal(signal.SIGHUP)

        def gone():
            try:
                return alice.ask("GET", A)[0].status == 401
            except (OSError, http.client.HTTPException):
                return True
        wait_for(gone, "the token is nobody's")
        self.refused(401, "unauthenticated", self.connect(ALICE), "GET", f"{A}/{session}")
        self.asked(200, bob, "GET", A)  # the same connection as before
        again = self.connect("another-0123456789")
        self.assertEqual(self.asked(200, again, "GET", f"{A}/{session}")["principal"],
                         "human:alice")


if __name__ == "__main__":
    unittest.main()
