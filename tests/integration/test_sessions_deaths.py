"""Sessions whose broker is killed at named points: what is on record stands, and nothing else."""

import unittest

import wire
from daemon_lab import Daemon
from real import wait_for
from test_sessions_real import Real

STOPS = wire.BUILD / "stops"


@unittest.skipUnless((STOPS / "bin/caissond").exists(), "build/stops is not built (make stops)")
class Deaths(Real):
    def begin(self, point):
        """A client of a daemon whose broker dies at `point`."""
        self.running = Daemon(self, program=STOPS / "bin/caissond",
                              env={"CAISSON_STOP": f"broker.{point}"})
        return self.running.client()

    def after(self, client):
        """A client of the broker that took over."""
        self.assertTrue(client.closed())
        return self.running.client()

    def sessions(self, client):
        return client.call("session.list", cursor=0, limit=9)["sessions"]

    def kinds(self):
        return [r["type"] for r in self.records()]

    def test_one_that_is_on_record_is_there_though_nobody_was_told(self):  # D-10, OP-41
        client = self.begin("session_durable")
        client.request("session.acquire", idempotencyKey="k")
        client = self.after(client)
        s, = self.sessions(client)
        again = client.call("session.acquire", idempotencyKey="k")
        self.assertEqual((again["existing"], again["session"]["id"]), (True, s["id"]))
        self.assertEqual(self.shell(client, s["id"], "echo x"), (0, "x\n"))
        self.assertEqual(len(self.workspaces()), 1)

    def test_a_release_that_is_not_on_record_was_none(self):
        client = self.begin("session_closing")
        id = self.acquire(client)
        client.request("session.release", session=id)
        client = self.after(client)
        self.assertEqual([(s["id"], s["state"]) for s in self.sessions(client)], [(id, "ready")])
        self.assertEqual(len(self.workspaces()), 1)

    def test_one_that_is_over_on_record_is_gone_with_its_workspace(self):
        client = self.begin("release_durable")
        client.request("session.release", session=self.acquire(client))
        client = self.after(client)
        self.assertEqual(self.sessions(client), [])
        wait_for(lambda: not self.workspaces(), "the workspace is gone")

    def test_an_operation_is_ended_and_never_run_again(self):  # OP-41
        for point in ("operation_started", "command_sent"):
            with self.subTest(point):
                client = self.begin(point)
                id = self.acquire(client)
                for line in ("echo 1 >>a", "echo 2 >>a"):
                    client.request("operation.submit", session=id, kind="command", shell=line)
                client = self.after(client)
                s, = [s for s in self.sessions(client) if s["id"] == id]
                self.assertEqual((s["state"], s["queued"], s["operations"]), ("ready", 0, 0))
                ended = [r for r in self.records() if r["type"] == "operation.ended"]
                accepted = [r for r in self.records() if r["type"] == "operation.accepted"]
                self.assertEqual(sorted(r["operation"] for r in ended),
                                 sorted(r["operation"] for r in accepted))
                # The first may have run, the second provably has not.
                causes = {r["operation"]: r["cause"] for r in ended}
                mine = [causes[r["operation"]] for r in accepted if r["session"] == id]
                self.assertEqual(mine, ["outcome_unknown", "host_lost"][:len(mine)])
                written = b"".join(p.read_bytes() for w in self.workspaces()
                                   for p in w.glob("a"))
                self.assertIn(written, (b"", b"1\n"))
                self.assertEqual(self.running.end(), 0, self.running.stderr())


if __name__ == "__main__":
    unittest.main()
