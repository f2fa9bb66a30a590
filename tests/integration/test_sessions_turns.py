"""One worker for the turns of a session: the broker, and a real daemon with the Python SDK."""

import os
import pathlib
import queue
import signal
import threading
import unittest

import daemon_lab
from broker_host import DONE, EXITED, SHUTDOWN, TURN, grant, invoke, runtime, serve, tool
from daemon_lab import Daemon, ending, submit
from real import wait_for
from sessions_lab import PLAIN, Sessions
from wire import Closed, TIMEOUT, caisson

READ, ALLOW = tool("files.read"), grant("g", ["docs"], ["read"])


class Loop:
    """A worker that says it serves one turn after the other, and does what `function` says."""

    def __init__(self, function=lambda child, params: DONE, turns=True):
        self.function, self.turns = function, turns
        self.children, self.served = [], queue.Queue()

    def __call__(self, child):
        self.children.append(child)
        child.turns, child.closed = 0, threading.Event()
        child.peer.call("hello", protocol=caisson.PROTOCOL, name="loop", turns=self.turns)
        try:
            while True:
                m = child.peer.receive(timeout=600)
                if m[-2] != "operation.run":
                    continue  # an abort, a drain, or a late refusal
                child.turns, child.operation = child.turns + 1, m[3][0]["operation"]
                outcome = self.function(child, m[3][0])
                if outcome is None:
                    continue
                child.peer.reply(m[1], **outcome)
                self.served.put(child)
        except Closed:
            child.closed.set()
            raise


class Deaf(Loop):
    """One that stays when it is told to go."""

    def __call__(self, child):
        try:
            super().__call__(child)
        except Closed:
            child.killed.wait(TIMEOUT)


def count(child, params):
    return {"status": "complete", "output": child.turns}


class Turns(Sessions):
    def start(self, worker, **more):
        host = self.host(worker, runtimes=[PLAIN], **more)
        client = host.client()
        return host, client

    def turn(self, client, session, **params):
        self.submit(client, session, kind="turn", **params)
        return client.finish()

    def output(self, client, session, **params):
        return self.turn(client, session, **params)["body"]["turn"]["output"]

    def spawns(self, host):
        return len([c for c in host.children if c.spawn["kind"] == TURN])


class Kept(Turns):
    def test_a_session_is_one_worker_from_its_first_turn_to_its_release(self):  # D-1
        loop = Loop(count)
        host, client = self.start(loop)
        a, b = self.acquire(client), self.acquire(client)
        self.assertEqual([self.output(client, a) for _ in range(3)], [1, 2, 3])
        self.assertEqual(self.output(client, b), 1)
        self.assertEqual(self.output(client, a), 4)
        self.assertEqual(self.spawns(host), 2)
        self.assertEqual(host.kills, [])
        client.call("session.release", session=a, wait=True)
        self.assertTrue(loop.children[0].over.is_set())
        self.assertFalse(loop.children[1].over.is_set())
        ended, = self.records(host, "worker.ended")
        self.assertEqual((ended["session"], ended["cause"]), (a, "exited"))
        self.assertNotIn("operation", ended)

    def test_it_is_kept_after_a_failure_and_an_ask_of_its_own(self):  # D-1
        outcomes = [{"status": "fail", "error": {"code": "own", "message": "m",
                                                 "retryable": False}},
                    {"status": "escalate", "reason": "r"}, DONE]
        host, client = self.start(Loop(lambda child, params: outcomes[child.turns - 1]))
        s = self.acquire(client)
        self.assertEqual([self.turn(client, s)["body"]["turn"]["status"] for _ in outcomes],
                         ["failed", "failed", "succeeded"])  # nobody granted the ask
        self.assertEqual(self.spawns(host), 1)

    def test_who_says_nothing_of_turns_has_one(self):  # D-1
        for said in (False, None):
            loop = Loop(count, False)
            if said is None:
                loop = runtime(lambda child, params: DONE)
            host, client = self.start(loop)
            s = self.acquire(client)
            for _ in range(2):
                self.assertEqual(self.turn(client, s)["type"], "completed")
            self.assertEqual(self.spawns(host), 2)

    def test_without_a_session_each_turn_has_its_own(self):
        host, client = self.start(Loop(count))
        for _ in range(2):
            self.assertEqual(client.turn()[0]["output"], 1)
        self.assertEqual(self.spawns(host), 2)

    def test_queued_turns_follow_on_the_same_link(self):  # OP-5
        loop = Loop(count)
        host, client = self.start(loop)
        s = self.acquire(client)
        ids = [self.submit(client, s, kind="turn") for _ in range(4)]
        self.assertEqual([client.finish(id)["body"]["turn"]["output"] for id in ids],
                         [1, 2, 3, 4])
        self.assertEqual(self.spawns(host), 1)

    def test_providers_go_with_their_turn(self):
        started = []

        def provider(child):
            started.append(child)
            serve(lambda p: {"status": "succeeded", "output": "text"})(child)

        host, client = self.start(Loop(count), provider=provider, tools=[READ],
                                  grants=[ALLOW])
        s = self.acquire(client)
        for n in (1, 2):
            self.assertEqual(self.output(client, s), n)
        host.round()
        self.assertEqual((self.spawns(host), len(started)), (1, 2))
        wait_for(lambda: all(c.over.is_set() for c in started), "the providers have ended")

    def test_a_thousand_turns_leave_the_broker_as_large_as_it_was(self):
        host, client = self.start(Loop(count), retentionMs=1, durability="relaxed")
        s = self.acquire(client)

        def resident():
            return int(pathlib.Path(f"/proc/{host.process.pid}/statm").read_text().split()[1]) * 4

        def many(n):
            for _ in range(n):
                self.turn(client, s)
                client.events.clear()

        many(300)  # what is kept of operations that are over has its bounds
        before = resident()
        many(700)
        self.assertEqual(self.output(client, s), 1001)
        self.assertEqual(self.spawns(host), 1)
        if "asan" not in os.environ.get("CAISSON_BUILD", ""):
            self.assertLess(resident() - before, 2048)


class Between(Turns):
    def test_what_is_asked_between_two_turns_is_refused(self):  # TU-4, TU-19
        answers = queue.Queue()
        go = threading.Event()

        class Late(Loop):
            def __call__(self, child):
                child.peer.call("hello", protocol=caisson.PROTOCOL, turns=True)
                for n in (1, 2):
                    msgid, params = child.peer.expect("operation.run")
                    child.peer.reply(msgid, **{"status": "complete", "output": n})
                    go.wait(TIMEOUT)
                    if n == 1:
                        for method, more in (("event.emit", {"type": "t", "data": 1}),
                                             ("tool.invoke", {"id": "1", "tool": "files.read",
                                                              "arguments": {}})):
                            id = child.peer.request(method, operation=params["operation"], **more)
                            answers.put(child.peer.expect_reply(id)[0])
                        os.write(child.stdout, b"unheard")
                        child.peer.send([2, "output.write", [{
                            "operation": params["operation"], "stream": "stdout", "data": b"x"}]])
                        answers.put(None)
                child.peer.receive()

        host, client = self.start(Late())
        s = self.acquire(client)
        self.assertEqual(self.output(client, s), 1)
        go.set()
        for _ in range(2):
            error = answers.get(timeout=TIMEOUT)
            self.assertEqual((error["code"], error["message"]), ("host_closed", "host is closed"))
        self.assertIsNone(answers.get(timeout=TIMEOUT))
        host.round()
        del client.events[:]
        self.assertEqual(self.output(client, s), 2)
        self.assertNotIn("output", [e["type"] for e in client.events])
        self.assertEqual(self.spawns(host), 1)

    def bad(self, send):
        """A session whose worker does `send` once its first turn is over."""
        loop = Loop(count)
        host, client = self.start(loop)
        s = self.acquire(client)
        self.assertEqual(self.output(client, s), 1)
        child = loop.served.get(timeout=TIMEOUT)
        send(child)
        self.assertTrue(child.over.wait(TIMEOUT))
        host.round()
        self.assertEqual(self.output(client, s), 1)  # of another
        self.assertEqual(self.spawns(host), 2)
        return host

    def test_a_fault_ends_it_and_nothing_else(self):
        for frame in (b"\0\0\0\1\xc1", b"\xff\xff\xff\xff"):
            host = self.bad(lambda child: child.peer.sock.sendall(frame))
            self.assertEqual(len(self.records(host, "worker.ended")), 1)

    def test_who_does_not_stop_asking_is_ended(self):
        def flood(child):
            with_id = {"operation": child.operation, "type": "t", "data": 1}
            try:
                for i in range(1000):
                    child.peer.send([0, i, "event.emit", [with_id]])
            except Closed:
                pass

        self.bad(flood)

    def test_its_death_costs_no_turn(self):
        host = self.bad(lambda child: child.finish(x_kind=EXITED, x_status=3))
        ended, = self.records(host, "worker.ended")
        self.assertEqual(ended["cause"], "exited")

    def test_a_death_at_the_handover_fails_that_turn_alone(self):
        loop = Loop(lambda child, params: child.finish(x_kind=EXITED, x_status=4)
                    if child.turns == 2 else count(child, params))
        host, client = self.start(loop)
        s = self.acquire(client)
        self.assertEqual(self.output(client, s), 1)
        e = self.turn(client, s)
        self.assertEqual((e["type"], e["body"]["cause"]["kind"]), ("failed", "exited"))
        self.assertNotIn("usage", e["body"])  # it would count the turn before
        self.assertEqual(self.output(client, s), 1)
        ended = self.records(host, "operation.ended")
        self.assertEqual([("cpuUs" in r) for r in ended], [False, False, False])
        self.assertEqual(len(self.records(host, "worker.ended")), 1)

    def test_after_a_cancel_the_next_turn_starts_anew(self):  # OP-30
        running = queue.Queue()

        def work(child, params):
            if params["message"].get("wait"):
                running.put(child)
                return None
            return count(child, params)

        host, client = self.start(Loop(work))
        s = self.acquire(client)
        self.assertEqual(self.output(client, s), 1)
        id = self.submit(client, s, kind="turn", message={"wait": True})
        running.get(timeout=TIMEOUT)
        client.call("operation.stop", operation=id)
        self.assertEqual(client.finish(id)["body"]["code"], "canceled")
        self.assertEqual(self.output(client, s), 1)
        self.assertEqual(self.spawns(host), 2)

    def test_a_turn_that_was_over_with_a_call_open_is_the_last_of_its_worker(self):
        def work(child, params):
            child.peer.request("tool.invoke", operation=child.operation, id="1",
                               tool="files.read", arguments={"path": "docs/a"})
            return count(child, params)

        host, client = self.start(Loop(work), provider=serve(lambda p: None), tools=[READ],
                                  grants=[ALLOW])
        s = self.acquire(client)
        for _ in range(2):
            self.assertEqual(self.output(client, s), 1)
        self.assertEqual(self.spawns(host), 2)


class Ends(Turns):
    def rested(self, function=count, **more):
        loop = Loop(function)
        host, client = self.start(loop, **more)
        s = self.acquire(client)
        self.assertEqual(self.output(client, s), 1)
        return host, client, s, loop.served.get(timeout=TIMEOUT)

    def test_another_configuration_ends_it(self):
        host, client, s, child = self.rested()
        host.offer(2, runtimes=[PLAIN], sessions=8)
        self.assertEqual(host.answers.get(timeout=TIMEOUT)["error"], 0)
        self.assertTrue(child.over.wait(TIMEOUT))
        self.assertEqual(self.output(client, s), 1)
        wait_for(lambda: 1 in host.over or 0 in host.over, "the configuration is nobody's")

    def reload(self, host, generation, **config):
        host.offer(generation, sessions=8, **config)
        self.assertEqual(host.answers.get(timeout=TIMEOUT)["error"], 0)

    def test_one_that_makes_it_as_it_is_lets_it_rest_on(self):  # D-1
        host, client, s, child = self.rested()
        self.reload(host, 2, runtimes=[{**PLAIN, "id": "other"}, PLAIN], runtimesSince=[2, 0])
        self.assertEqual(self.output(client, s), 2)
        wait_for(lambda: 0 in host.over, "the configuration of before is nobody's")
        self.reload(host, 3, runtimes=[PLAIN], runtimesSince=[0])
        self.assertEqual([self.output(client, s) for _ in range(2)], [3, 4])
        wait_for(lambda: 2 in host.over, "nor is the next")
        self.assertEqual((self.spawns(host), child.over.is_set()), (1, False))
        # It has changed since one that it was at rest in.
        self.reload(host, 4, runtimes=[PLAIN], runtimesSince=[4])
        self.assertTrue(child.over.wait(TIMEOUT))
        self.assertEqual((self.output(client, s), self.spawns(host)), (1, 2))

    def test_whose_runtime_has_changed_leaves_whatever_else_has_not(self):  # D-1
        for since in (1, 2):  # between the two, or in the second
            host, client, s, child = self.rested()
            self.reload(host, 2, runtimes=[PLAIN], runtimesSince=[since])
            self.assertTrue(child.over.wait(TIMEOUT))
            self.assertEqual((self.output(client, s), self.spawns(host)), (1, 2))
        host, client, s, child = self.rested()  # there is none of its name any more
        self.reload(host, 2, runtimes=[{**PLAIN, "id": "other"}], runtimesSince=[0])
        self.assertTrue(child.over.wait(TIMEOUT))

    def test_an_order_about_it_names_the_configuration_that_it_went_over_to(self):  # OP-34
        host, client = self.start(Deaf(count))
        s = self.acquire(client)
        self.assertEqual(self.output(client, s), 1)
        self.reload(host, 2, runtimes=[{**PLAIN, "id": "other"}, PLAIN], runtimesSince=[2, 0])
        client.call("session.release", session=s, mode="immediate", wait=True)
        self.assertEqual([(k["generation"], k["index"]) for k in host.kills], [(2, 1)])

    def test_authority_is_the_new_ones_whoever_rests_on(self):  # D-7, TU-14, TU-19, TU-40
        def work(child, params):
            return {"status": "complete", "output": [
                [t["name"] for t in params["tools"]],
                invoke(child, "files.read", path="docs/a")["status"]]}

        loop = Loop(work)
        host, client = self.start(loop, provider=serve(
            lambda p: {"status": "succeeded", "output": "text"}), tools=[READ],
                                  grants=[ALLOW])
        s = self.acquire(client)
        self.assertEqual(self.output(client, s), [["files.read"], "succeeded"])
        same = {"runtimes": [PLAIN], "runtimesSince": [0], "tools": [READ]}
        self.reload(host, 2, **same)  # its tool is granted no more
        tools, status = self.output(client, s)
        self.assertEqual(tools, [])
        self.assertNotEqual(status, "succeeded")
        self.reload(host, 3, **same, grants=[ALLOW], invoke=False)  # nor is it itself
        e = self.turn(client, s)
        self.assertEqual(e["body"]["turn"]["status"], "denied")
        self.reload(host, 4, **same, grants=[ALLOW])
        self.assertEqual(self.output(client, s), [["files.read"], "succeeded"])
        self.assertEqual(len(loop.children), 1)  # one worker through all of it

    def test_a_turn_that_runs_over_a_reload_leaves_it_at_rest(self):  # D-1
        begun, go = threading.Event(), threading.Event()

        def work(child, params):
            begun.set()
            assert go.wait(TIMEOUT)
            return count(child, params)

        host, client = self.start(Loop(work))
        s = self.acquire(client)
        # The second begins under what it was admitted under, by a worker that went over.
        operation, queued = (self.submit(client, s, kind="turn") for _ in range(2))
        self.assertTrue(begun.wait(TIMEOUT))
        self.reload(host, 2, runtimes=[{**PLAIN, "id": "other"}, PLAIN], runtimesSince=[2, 0])
        go.set()
        outputs = [client.finish(o)["body"]["turn"]["output"] for o in (operation, queued)]
        self.assertEqual(outputs + [self.output(client, s)], [1, 2, 3])
        self.assertEqual(self.spawns(host), 1)
        wait_for(lambda: 0 in host.over, "the configuration of before is nobody's")

    def test_the_end_of_the_lease_and_of_the_broker(self):  # OP-28
        loop = Loop(count)
        host, client = self.start(loop)
        s = client.call("session.acquire", leaseMs=1500)["session"]["id"]
        self.assertEqual(self.output(client, s), 1)
        child = loop.served.get(timeout=TIMEOUT)
        self.assertTrue(child.over.wait(TIMEOUT))
        host, client, s, child = self.rested()
        host.tell(SHUTDOWN)
        self.assertTrue(child.closed.wait(TIMEOUT))
        self.assertTrue(host.settled.wait(TIMEOUT))

    def test_who_stays_is_killed_after_the_grace(self):  # OP-34
        loop = Deaf(count)
        host, client = self.start(loop)
        s = self.acquire(client)
        self.assertEqual(self.output(client, s), 1)
        client.call("session.release", session=s, mode="immediate", wait=True)
        self.assertTrue(loop.children[0].killed.is_set())
        kill, = self.records(host, "kill.ordered")
        self.assertEqual((kill["session"], kill["cause"]), (s, "released"))
        self.assertEqual(len(self.records(host, "session.released")), 1)


COUNTER = """import os
import threading
import caisson

turns = 0


def run(turn):
    global turns
    turns += 1
    if turn.message.get("wait"):
        print("ready", flush=True)
        turn.cancelled.wait()
        threading.Event().wait()
    if turn.message.get("die"):
        os._exit(5)
    return {"turns": turns, "pid": os.getpid()}


caisson.serve(run)
"""

CONFIG = """version: 1
limits: {{ kill_grace: 200ms, shutdown_grace: 5s }}
sessions: {{ max: 4, queue: 4, operation_timeout: 60s }}
runtimes:
  - {{ id: a, command: [python3, /app/agent.py], app: {app}, profile: interpreter,
       env: [PYTHONDONTWRITEBYTECODE=1] }}
"""


class Real(daemon_lab.Case):
    def configure(self, grace="20s", more=""):
        app = self.dir / "app"
        app.mkdir(exist_ok=True)
        sdk = pathlib.Path(caisson.__file__)
        (app / "caisson.py").write_bytes(sdk.read_bytes())
        (app / "agent.py").write_text(COUNTER)
        path = self.dir / "c.yaml"
        path.write_text(CONFIG.format(app=app) + more)
        return path

    def turn(self, client, session, message=None):
        client.call("operation.submit", kind="turn", session=session, message=message or {})
        return ending(client)

    def turns(self, client, session):
        e = self.turn(client, session)
        self.assertEqual(e["type"], "completed", e)
        return e["body"]["turn"]["output"]["turns"]

    def workers(self, client):
        request = client.request("process.list")
        rows = []
        while True:
            m = client.receive()
            if m[0] == 1 and m[1] == request:
                return [r for r in rows if r["role"] == "worker"]
            if m[0] == 2 and m[1] == "process.row":
                rows.append(m[2][0])

    def test_globals_of_an_agent_go_on_through_its_session(self):  # D-1
        client = Daemon(self).client()
        a, b = (client.call("session.acquire")["session"]["id"] for _ in range(2))
        self.assertEqual([self.turns(client, a) for _ in range(3)], [1, 2, 3])
        self.assertEqual(self.turns(client, b), 1)
        rows = self.workers(client)
        self.assertEqual([r["state"] for r in rows], ["running", "running"])
        self.assertTrue(all("session" in r for r in rows))
        for s in (a, b):
            client.call("session.release", session=s, wait=True)
        self.assertEqual(self.workers(client), [])

    def test_what_ends_a_worker_begins_anew(self):  # D-1
        client = Daemon(self).client()
        s = client.call("session.acquire")["session"]["id"]
        self.assertEqual(self.turns(client, s), 1)
        # killed between two turns, from outside
        os.kill(self.workers(client)[0]["pid"], signal.SIGKILL)
        wait_for(lambda: not self.workers(client), "the worker is gone")
        self.assertEqual([self.turns(client, s) for _ in range(2)], [1, 2])
        e = self.turn(client, s, {"die": True})
        self.assertEqual(e["body"]["cause"]["kind"], "exited")
        self.assertEqual([self.turns(client, s) for _ in range(2)], [1, 2])
        operation = client.call("operation.submit", kind="turn", session=s,
                                message={"wait": True})["operation"]
        while client.expect("operation.event")[1]["type"] != "output":
            pass
        client.send([0, 9999, "operation.stop", [{"operation": operation}]])
        while True:
            m = client.receive()
            if m[0] == 2 and m[2][0]["type"] in ("completed", "failed"):
                break
        self.assertEqual(m[2][0]["body"]["code"], "canceled")
        self.assertEqual(self.workers_turns(client, s), 1)

    def test_a_reload_ends_who_rests_where_it_is_made_another_way(self):  # D-1
        d = Daemon(self)
        client = d.client()
        s = client.call("session.acquire")["session"]["id"]
        self.assertEqual(self.turns(client, s), 1)
        pid = self.workers(client)[0]["pid"]
        text = self.config.read_text()
        changes = ((("queue: 4", "queue: 5"), True), (("kill_grace: 200ms", "kill_grace: 300ms"), True),
                   (("BYTECODE=1", "BYTECODE=2"), False))
        for n, ((old, new), stays) in enumerate(changes, 1):
            text = text.replace(old, new)
            self.config.write_text(text)
            d.process.send_signal(signal.SIGHUP)
            wait_for(lambda n=n: d.stderr().count("in force from now on") == n, "it is in force")
            self.assertEqual(self.turns(client, s), n + 1 if stays else 1, new)
            self.assertEqual([w["pid"] == pid for w in self.workers(client)], [stays], new)
        client.call("session.release", session=s, wait=True)
        self.assertEqual(self.workers(client), [])
        self.assertEqual(d.end(), 0, d.stderr())

    def workers_turns(self, client, session):
        client.send([0, 10000, "operation.submit", [{
            "kind": "turn", "session": session, "message": {}}]])
        while True:
            m = client.receive()
            if m[0] == 2 and m[2][0]["type"] == "completed":
                return m[2][0]["body"]["turn"]["output"]["turns"]


if __name__ == "__main__":
    unittest.main()
