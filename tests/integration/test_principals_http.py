"""Principals from end to end: a daemon, its gateway and its broker, and tokens over HTTP."""

import hashlib
import http.client
import json
import signal
import unittest

from principals_lab import A, ADMIN, ALICE, B, BOB, ROWS, Case, row
from real import wait_for


class Network(Case):
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
