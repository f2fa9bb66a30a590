"""Whose a session is, and who is nobody any more, across the deaths of the broker that knew it."""

import http.client
import signal
import unittest

import wire
from principals_lab import A, ADMIN, ALICE, B, BOB, ROWS, Case, row
from real import wait_for

STOPS = wire.BUILD / "stops" / "bin" / "caissond"


@unittest.skipUnless(STOPS.exists(), "build/stops is not built (make stops)")
class Deaths(Case):
    def begin(self, point):
        """A daemon whose broker dies at `point`."""
        self.configure()
        return self.daemon(program=STOPS, env={"CAISSON_STOP": f"broker.{point}"})

    def another_broker(self, d, point):
        wait_for(lambda: d.stderr().count("is served") == 2, "the next broker")
        self.assertIn(f"stopped at broker.{point}", d.stderr())

    def status(self, token, method, path, body=None, **headers):
        """On a connection of its own; None where that ended without an answer."""
        try:
            return self.connect(token).ask(method, path, body, **headers)[0].status
        except (OSError, http.client.HTTPException):
            return None

    def sessions(self, token, path=A):
        return [s["id"] for s in self.asked(200, self.connect(token), "GET", path)["sessions"]]

    def test_a_session_is_whose_it_was_and_so_is_its_key(self):  # D-10, D-14, OP-38
        key = {"Idempotency-Key": "one"}
        for point in ("session_durable", "session_closing", "release_durable"):
            with self.subTest(point):
                d = self.begin(point)
                mine = None
                if point != "session_durable":
                    mine = self.asked(201, self.connect(ALICE), "POST", A, {}, **key)["id"]
                    # Whatever it is answered, or not: its broker dies over it.
                    self.status(ALICE, "DELETE", f"{A}/{mine}?wait=true")
                else:
                    self.assertNotEqual(self.status(ALICE, "POST", A, {}, **key), 201)
                self.another_broker(d, point)
                known = self.sessions(ALICE)
                self.assertEqual(len(known), point != "release_durable")
                self.assertEqual(self.sessions(ADMIN), known)
                self.assertEqual(self.sessions(BOB), [])
                again = self.asked(200 if known else 201, self.connect(ALICE), "POST", A, {}, **key)
                self.assertEqual(again["principal"], "human:alice")
                if known:
                    self.assertEqual(([again["id"]], mine or again["id"]), (known, again["id"]))
                for method in ("GET", "DELETE"):
                    self.assertEqual(self.status(BOB, method, f"{A}/{again['id']}"), 404)
                # Another's key of that name is another key.
                other = self.asked(201, self.connect(BOB), "POST", B, {}, **key)
                self.assertEqual(other["principal"], "human:bob")
                for token, path, id in ((ALICE, A, again["id"]), (BOB, B, other["id"])):
                    self.asked(200, self.connect(token), "DELETE", f"{path}/{id}?wait=true")
                self.assertEqual(d.end(), 0, d.stderr())

    def test_a_token_that_is_gone_by_the_configuration_in_force_opens_nothing(self):  # D-14
        rows = {**ROWS, "alice": row("human:alice", "another-0123456789", "[a]")}
        for point in ("reload_received", "reload_applied", "reload_durable", "reload_told"):
            with self.subTest(point):
                d = self.begin(point)
                session = self.asked(201, self.connect(ALICE), "POST", A, {})["id"]
                self.configure(more=rows)
                d.process.send_signal(signal.SIGHUP)
                self.another_broker(d, point)
                wait_for(lambda: self.status(BOB, "GET", A) == 200, "the next broker serves")
                taken = "in force from now on" in d.stderr()
                self.assertEqual(self.status(ALICE, "GET", f"{A}/{session}"), 401 if taken else 200)
                if not taken:
                    d.process.send_signal(signal.SIGHUP)
                    wait_for(lambda: self.status(ALICE, "GET", A) == 401, "nobody's token")
                self.assertEqual(self.status("another-0123456789", "GET", f"{A}/{session}"), 200)
                self.assertEqual(self.status(BOB, "GET", f"{A}/{session}"), 404)
                self.assertEqual(self.status(ADMIN, "DELETE", f"{A}/{session}?wait=true"), 200)
                self.assertEqual(d.end(), 0, d.stderr())


if __name__ == "__main__":
    unittest.main()
