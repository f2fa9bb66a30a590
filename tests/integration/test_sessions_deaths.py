"""Sessions whose broker is killed at named points: what is on record stands, and nothing else."""

import contextlib
import pathlib
import unittest

import wire
from daemon_lab import Daemon, ending
from real import wait_for
from test_sessions_real import Real
from wire import caisson

STOPS = wire.BUILD / "stops"


class Dying(Real):
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

    def endings(self):
        """(operation, cause) of each, in the order of the record."""
        return [(r["operation"], r["cause"]) for r in self.records()
                if r["type"] == "operation.ended"]


@unittest.skipUnless((STOPS / "bin/caissond").exists(), "build/stops is not built (make stops)")
class Deaths(Dying):
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
                with contextlib.suppress(wire.Closed):  # the first may end it
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


AGENT = """import os
import caisson

turns = 0


def run(turn):
    global turns
    turns += 1
    with open("/workspace/log", "a") as log:
        print(turn.message["say"], file=log)
    return turns


caisson.serve(run)
"""

TURNS = """version: 1
limits: {{ kill_grace: 200ms, shutdown_grace: 5s }}
sessions: {{ max: 4, queue: 4, operation_timeout: 60s }}
runtimes:
  - {{ id: a, command: [python3, /app/agent.py], app: {app}, profile: interpreter,
       env: [PYTHONDONTWRITEBYTECODE=1], workspace: true }}
"""


@unittest.skipUnless((STOPS / "bin/caissond").exists(), "build/stops is not built (make stops)")
class Rests(Dying):
    """The worker of a session's turns goes with the broker that it rested in."""

    def configure(self, grace="20s", more=""):
        app = self.dir / "app"
        app.mkdir(exist_ok=True)
        (app / "caisson.py").write_bytes(pathlib.Path(caisson.__file__).read_bytes())
        (app / "agent.py").write_text(AGENT)
        path = self.dir / "c.yaml"
        path.write_text(TURNS.format(app=app) + more)
        return path

    def begin_turn(self, client, session, say):
        return client.request("operation.submit", kind="turn", session=session,
                              message={"say": say})

    def turn(self, client, session, say):
        """How many turns its worker has run."""
        client.expect_reply(self.begin_turn(client, session, say))
        e = ending(client)
        self.assertEqual(e["type"], "completed", e)
        return e["body"]["turn"]["output"]

    def workers(self, client):
        """Their pids."""
        request, rows = client.request("process.list"), []
        while (m := client.receive())[0] != 1 or m[1] != request:
            rows += [m[2][0]["pid"]] if m[1] == "process.row" and \
                m[2][0]["role"] == "worker" else []
        return rows

    def said(self):
        workspace, = self.workspaces()
        return (workspace / "log").read_text().split()

    def test_at_rest_it_is_gone_with_its_broker_and_its_turn_was_run_once(self):  # D-1, D-2, D-10
        client = self.begin("worker_rests")
        id = self.acquire(client)
        self.begin_turn(client, id, "one")
        client = self.after(client)
        s, = self.sessions(client)
        self.assertEqual((s["id"], s["state"], s["queued"]), (id, "ready", 0))
        wait_for(lambda: not self.workers(client), "nothing rests")
        (first, cause), = self.endings()
        self.assertIn(cause, ("completed", "host_lost"))
        self.assertEqual(self.said(), ["one"])
        # The next begins anew, and what it leaves at rest serves the one behind it.
        self.assertEqual([self.turn(client, id, say) for say in ("two", "three")], [1, 2])
        self.assertEqual(self.said(), ["one", "two", "three"])
        self.assertEqual([o for o, _ in self.endings()].count(first), 1)
        self.assertEqual(len(self.workers(client)), 1)
        client.call("session.release", session=id, wait=True)
        self.assertEqual(self.workers(client), [])
        wait_for(lambda: not self.workspaces(), "the workspace is gone")

    def test_a_turn_that_was_given_it_never_ran(self):  # D-2, D-10, OP-41
        client = self.begin("worker_given")
        id = self.acquire(client)
        self.assertEqual(self.turn(client, id, "one"), 1)
        before = self.workers(client)
        self.assertEqual(len(before), 1)
        self.begin_turn(client, id, "two")
        client = self.after(client)
        wait_for(lambda: not self.workers(client), "nothing rests")
        self.assertEqual([cause for _, cause in self.endings()], ["completed", "host_lost"])
        self.assertEqual(self.turn(client, id, "three"), 1)
        self.assertEqual(self.said(), ["one", "three"])
        self.assertNotEqual(self.workers(client), before)
        self.assertEqual(self.running.end(), 0, self.running.stderr())


if __name__ == "__main__":
    unittest.main()
