"""Workers that wait for their first session: handed out once, replaced, and never a session's end.

The agent leaves a line in /effects/starts whenever it begins, and then does what its runtime's
first argument says; what a turn's message says it does once it has a session.
"""

import json
import os
import signal
import unittest

import deaths_lab
import real
from daemon_lab import Case, Daemon, ending, submit, waiting
from real import WAIT, wait_for

TIMEOUT = 300  # of this file, for run.py
STOPS = deaths_lab.STOPS
DEATHS = 6  # in 10 s put a runtime off for as long

AGENT = """import ctypes
import os
import signal
import sys
import caisson

with open("/effects/starts", "a") as f:
    f.write(sys.argv[1] + "\\n")
way = sys.argv[1]
if way == "dies":
    os._exit(7)
if way == "forbidden":
    ctypes.CDLL(None).mount(None, None, None, 0, None)
if way == "talks":
    print("before the session", flush=True)
if way == "succeeds":
    os._exit(0)
if way == "orphans" and os.fork() > 0:
    os._exit(0)
if way == "closes":
    os.close(3)
    signal.pause()
if way == "idles":
    signal.pause()
if way == "stops":
    os.kill(os.getpid(), signal.SIGSTOP)
if way == "floods":
    while True:
        os.write(3, bytes(1 << 16))
if way == "forges":  # an answer to nothing, before anybody asked
    os.write(3, bytes.fromhex("00000005940107c0c0"))
if way == "fills":
    left = 1 << 18
    while left > 0:  # a stop and a continuation cut a write short
        left -= os.write(2, b"x" * left)


def run(turn):
    message = turn.message or {}
    if message.get("die"):
        os._exit(9)
    if message.get("wait"):
        print("ready", flush=True)
        signal.pause()
    if message.get("list"):
        return turn.invoke("files.list", {"path": ""})
    return message.get("say")


caisson.serve(run)
"""

RUNTIME = """  - {{ id: {id}, command: [python3, -B, /app/agent.py, {way}], app: {dir}/app, {warm}
       profile: interpreter, mounts: [{{ source: {dir}/effects, target: /effects, writable: true }}] }}
"""


class Pool(Case):
    def setUp(self):
        super().setUp()
        (self.dir / "app" / "agent.py").write_text(AGENT)
        (self.dir / "effects").mkdir()
        (self.dir / "effects").chmod(0o777)

    def describe(self, *runtimes, more="", grace="20s"):
        """(id, way, warm) each"""
        path = self.dir / "c.yaml"
        path.write_text(f"version: 1\nlimits: {{ kill_grace: 100ms, shutdown_grace: {grace} }}\n"
                        "runtimes:\n" + "".join(
                            RUNTIME.format(id=name, way=way, dir=self.dir,
                                           warm=f"warm: {warm}," if warm else "")
                            for name, way, warm in runtimes) + more)
        self.config = path

    def starts(self, way):
        log = self.dir / "effects" / "starts"
        return log.read_text().split().count(way) if log.exists() else 0

    def rows(self):
        result = self.caisson("ps", "--socket", self.socket, "-o", "jsonl")
        self.assertEqual(result.returncode, 0, result.stderr)
        return [json.loads(line) for line in result.stdout.splitlines()]

    def warm(self, n, but=(), role="worker"):
        """pids of those that wait, once there are `n`, none of them in `but`."""
        def look():
            rows = [r for r in self.rows() if r["state"] == "warm" and r["role"] == role]
            pids = [r["pid"] for r in rows if "pid" in r]  # one that is being made has none
            return len(pids) == n and not set(pids) & set(but) and (pids, rows)
        pids, rows = wait_for(look, f"{n} that wait")
        for row in rows:
            self.assertNotIn("session", row)
        return pids

    def running(self):
        return [r["pid"] for r in self.rows() if r["role"] == "worker" and r["state"] == "running"]

    def gone(self, pids):
        wait_for(lambda: not set(pids) & set(real.parents()), f"the end of {pids}")

    def ended(self):
        return [r["cause"] for r in self.records() if r["type"] == "operation.ended"]

    def say(self, d, what, runtime="a"):
        peer = d.client()
        submit(peer, {"say": what}, runtime)
        event = ending(peer)
        self.assertEqual(event["type"], "completed", event)
        self.assertEqual(event["body"]["turn"]["output"], what)


class HandOut(Pool):
    def test_each_session_gets_another_one_that_waited(self):
        self.describe(("a", "serves", 3), ("b", "serves", 0))
        d = Daemon(self)
        first = self.warm(3)
        peers, sessions = [d.client() for _ in range(2)], []
        for n, peer in enumerate(peers):
            waiting(peer)
            new = [pid for pid in self.running() if pid not in sessions]
            self.assertEqual(len(new), 1)
            sessions += new
            if n == 0:
                self.assertIn(new[0], first)
        again = self.warm(3, but=sessions)
        self.assertEqual(len(set(again + sessions)), 5)
        # Their sessions' end is theirs: nobody goes back.
        for peer in peers:
            peer.close()
        self.say(d, [1, "two"])
        wait_for(lambda: self.starts("serves") == 6, "the last replacement")
        self.assertFalse(set(self.warm(3)) & set(sessions))
        self.assertEqual(self.ended(), ["completed"])

    def test_without_the_key_nobody_waits(self):
        self.describe(("b", "serves", 0))
        d = Daemon(self)
        self.assertEqual([r["role"] for r in self.rows()], ["broker", "ledger"])
        self.say(d, 1, "b")
        self.assertEqual(self.starts("serves"), 1)

    def test_more_sessions_than_wait_start_as_ever(self):
        self.describe(("a", "serves", 1))
        d = Daemon(self)
        self.warm(1)
        peers = [d.client() for _ in range(4)]
        for peer in peers:
            submit(peer, {"say": "x"})
        for peer in peers:
            self.assertEqual(ending(peer)["body"]["turn"]["output"], "x")
        self.warm(1)

    def test_what_it_wrote_before_is_its_sessions(self):
        self.describe(("a", "talks", 1))
        d = Daemon(self)
        self.warm(1)
        peer = d.client()
        submit(peer, {"say": 1})
        output = b""
        while (event := peer.expect("operation.event")[1])["type"] != "completed":
            if event["type"] == "output":
                output += event["data"]
        self.assertEqual(output, b"before the session\n")

    def test_a_provider_may_wait_too(self):
        (self.dir / "docs").mkdir()
        (self.dir / "docs" / "f").write_text("x")
        if real.IS_ROOT:
            os.chown(self.dir / "docs", 4242, 4242)
        self.describe(("a", "serves", 1), more=f"""providers:
  - {{ id: files, builtin: files, root: {self.dir / "docs"}, warm: 1 }}
grants:
  - {{ id: g, subject: agent:a, issuer: human:operator, namespace: default, capabilities: [
       {{ resource: {{ namespace: workspace, path: ., scope: descendants }}, actions: [list] }}] }}
""")
        d = Daemon(self)
        worker, provider = self.warm(1), self.warm(1, role="provider")
        peer = d.client()
        waiting(peer)
        rows = {r["role"]: r for r in self.rows() if "session" in r}
        self.assertEqual([rows["worker"]["pid"], rows["provider"]["pid"]], worker + provider)
        self.warm(1, but=provider, role="provider")
        other = d.client()
        submit(other, {"list": True})
        self.assertIn("f", json.dumps(ending(other)["body"]["turn"]["output"]))

    def test_a_private_run_has_one_session_and_one_worker(self):
        self.describe(("a", "serves", 5))
        result = self.caisson("run", "-c", self.config, "--state", self.state, "-m", '{"say": 2}')
        self.assertEqual((result.returncode, result.stdout), (0, "2\n"), result.stderr)
        self.assertEqual(self.starts("serves"), 1)


class Deaths(Pool):
    def test_one_that_waits_and_dies_is_replaced_and_ends_nothing(self):
        self.describe(("a", "serves", 2))
        d = Daemon(self)
        peer = d.client()
        operation = waiting(peer)
        dead = []
        for _ in range(3):
            pid = self.warm(2, but=dead)[0]
            os.kill(pid, signal.SIGKILL)
            self.gone([pid])
            dead.append(pid)
        self.warm(2, but=dead)
        self.assertEqual(d.stderr().count("one that waited for its first session has ended: "
                                          "signal 9"), 3)
        self.assertEqual(self.ended(), [])
        peer.call("operation.stop", operation=operation)
        self.assertEqual(ending(peer)["body"]["cause"]["kind"], "canceled")
        self.say(d, 3)

    def test_a_forbidden_call_is_logged_with_its_name(self):
        self.describe(("a", "forbidden", 1), ("b", "serves", 0))
        d = Daemon(self)
        wait_for(lambda: "seccomp mount" in d.stderr(), "the name")
        self.say(d, 4, "b")
        self.assertEqual(self.ended(), ["completed"])

    def test_one_that_died_unseen_is_not_handed_out(self):
        # Dead child reused: the order to hand out comes before the word of its death.
        self.describe(("a", "serves", 1))
        d = Daemon(self)
        pid = self.warm(1)[0]
        peer, reader = d.client(), d.client()
        d.process.send_signal(signal.SIGSTOP)
        os.kill(pid, signal.SIGKILL)
        self.gone([pid])  # zombies do not count
        submit(peer, {"say": 5})
        self.wait_for_order(reader)
        d.process.send_signal(signal.SIGCONT)
        event = ending(peer)
        self.assertEqual((event["type"], event["body"]["turn"]["output"]), ("completed", 5))

    def wait_for_order(self, reader):
        """The broker has asked for the first worker, and the stopped daemon has yet to hear it.

        It counts in the step in which it asks, and answers this without anybody's help.
        """
        wait_for(lambda: reader.call("stats.read")["stats"]["children_workers"] == 1, "the order")

    def test_a_death_between_the_hand_out_and_the_first_frame_is_one_ending(self):
        # Nobody is stopped for it: a silent broker is replaced after seconds, whatever a start
        # takes by then.  This one says nothing, so its first frame cannot come too soon.
        self.describe(("a", "idles", 1), ("b", "serves", 0))
        d = Daemon(self)
        pid = self.warm(1)[0]
        peer = d.client()
        submit(peer, {"wait": True})
        self.assertEqual(wait_for(self.running, "the session"), [pid])
        os.kill(pid, signal.SIGKILL)
        event = ending(peer)
        self.assertEqual((event["type"], event["body"]["cause"]),
                         ("failed", {"kind": "signaled", "signal": 9, "core": False}))
        self.assertEqual(self.ended(), ["signaled"])
        self.say(d, 7, "b")

    def test_a_broker_that_dies_leaves_those_that_wait(self):
        self.describe(("a", "serves", 2))
        d = Daemon(self)
        before = self.warm(2)
        broker = d.service("broker")
        os.kill(broker, signal.SIGKILL)
        self.gone([broker])
        d.client()
        self.assertEqual(sorted(self.warm(2)), sorted(before))
        waiting(d.client())
        self.assertEqual(len(set(self.running()) & set(before)), 1)

    def test_with_the_daemon_all_of_them_end(self):
        self.describe(("a", "serves", 3))
        for signo, status in ((signal.SIGTERM, 0), (signal.SIGKILL, -9)):
            with self.subTest(signal=signo):
                started = self.starts("serves") + 3
                d = Daemon(self)
                self.warm(3)
                # A program may still be far from its first line when its process waits.
                wait_for(lambda: self.starts("serves") >= started, "the start of all")
                all_of_it = real.below(d.process.pid)
                self.assertEqual(d.end(signo), status)
                self.gone(all_of_it)
                self.assertEqual(self.starts("serves"), started)

    def test_the_end_comes_while_the_pool_is_being_filled(self):
        self.describe(("a", "serves", 64))
        for _ in range(3):
            d = Daemon(self)
            all_of_it = real.below(d.process.pid)
            self.assertEqual(d.end(), 0)
            self.gone(all_of_it)
            self.assertNotIn("error", d.stderr())


@unittest.skipUnless((STOPS / "bin" / "caissond").exists(), "the build with stops is not there")
class Stops(Pool):
    def daemon(self, stop):
        return Daemon(self, program=STOPS / "bin" / "caissond", env={"CAISSON_STOP": stop})

    def test_a_launch_that_dies_half_way_is_tried_again(self):
        self.describe(("a", "serves", 1))
        for point in ("launch.start", "launch.after_clone", "init.confined",
                      "program.before_exec"):
            with self.subTest(point=point):
                d = self.daemon(f"interpreter:{point}")
                wait_for(lambda: d.stderr().count("handshake") >= 3, "three tries")
                peer = d.client()
                submit(peer, {"say": 1})
                cause = ending(peer)["body"]["cause"]
                self.assertEqual((cause["kind"], cause["layer"]), ("start_failed", "handshake"))
                self.assertEqual([r["role"] for r in self.rows() if r["state"] == "warm"], [])
                all_of_it = real.below(d.process.pid)
                self.assertEqual(d.end(), 0)
                self.gone(all_of_it)

    def test_the_supervisor_dies_at_every_point(self):
        self.describe(("a", "serves", 2))
        for point in ("warm_spawned", "before_handout", "handout_linked", "after_handout"):
            with self.subTest(point=point):
                d = self.daemon(f"supervisor.{point}")
                if point != "warm_spawned":
                    self.warm(2)
                all_of_it = real.below(d.process.pid)
                if point != "warm_spawned":
                    peer = d.client()
                    peer.request("operation.submit", kind="turn", runtime="a",
                                 message={"wait": True})
                self.assertEqual(d.process.wait(WAIT), -9)
                self.assertIn(f"stopped at supervisor.{point}", d.stderr())
                self.gone(all_of_it)


class Hostile(Pool):
    """What the program does before anybody gave it a session harms that session at most."""

    def fail(self, way, **more):
        self.describe(("a", way, 2), ("b", "serves", 0))
        d = Daemon(self)
        pids = self.warm(2)
        wait_for(lambda: self.starts(way) == 2, "both at it")
        peer = d.client()
        operation = submit(peer, {"say": 1}, **more)
        return d, pids, peer, operation

    def check(self, way, rule):
        d, pids, peer, _ = self.fail(way)
        event = ending(peer)
        self.assertEqual((event["type"], event["body"]["cause"]["kind"]),
                         ("failed", "runtime_protocol_violation"))
        self.assertIn(rule, event["body"]["cause"]["rule"])
        wait_for(lambda: len(set(pids) & set(real.parents())) == 1, "the end of that one")
        self.say(d, 2, "b")
        self.assertEqual(self.ended().count("completed"), 1)
        self.assertEqual(len(self.ended()), 2)

    def test_one_that_closed_its_link_and_lives(self):
        self.check("closes", "closed by a process that lives on")

    def test_one_that_flooded_its_link(self):
        self.check("floods", "")

    def test_one_that_answered_before_it_was_asked(self):
        self.check("forges", "reply to nothing")

    def test_one_that_stopped_itself_ends_by_order_or_in_time(self):
        d, pids, peer, operation = self.fail("stops", timeoutMs=(1 << 32) - 1)
        wait_for(self.running, "the session")  # before, none would be handed out
        peer.request("operation.stop", operation=operation)
        event = next(m[-1][0] for m in iter(peer.receive, None)
                     if m[0] == 2 and m[-1][0]["type"] == "failed")
        self.assertEqual(event["body"]["cause"]["kind"], "canceled")
        wait_for(lambda: len(set(pids) & set(real.parents())) == 1, "the end of that one")
        peer = d.client()
        submit(peer, {"say": 1}, timeoutMs=300)
        self.assertEqual(ending(peer)["body"]["cause"]["kind"], "deadline")
        self.say(d, 3, "b")

    def test_one_whose_pipe_is_full_goes_on_in_its_session(self):
        d, _, peer, _ = self.fail("fills")
        n = 0
        while (event := peer.expect("operation.event")[1])["type"] != "completed":
            if event["type"] == "output":
                n += len(event["data"])
        self.assertEqual(n, 1 << 18)

    def test_who_exits_with_success_or_leaves_a_child_behind_is_put_off_too(self):
        for way in ("succeeds", "orphans"):
            with self.subTest(way=way):
                before = self.starts(way)
                self.describe(("a", way, 4), ("b", "serves", 1))
                d = Daemon(self)
                wait_for(lambda: "a: 6 of its processes died within 10 s" in d.stderr(), "the cap")
                wait_for(lambda: not [r for r in self.rows() if r.get("id") == "a"], "no leftover")
                self.assertLessEqual(self.starts(way) - before, DEATHS + 4)
                self.say(d, 4, "b")
                self.assertEqual(d.end(), 0)


class Cap(Pool):
    def refused(self, d, deaths):
        peer = d.client()
        submit(peer, {"say": 1})
        body = ending(peer)["body"]
        self.assertEqual((body["cause"]["kind"], body["cause"]["layer"]),
                         ("start_failed", "start deaths"))
        self.assertGreaterEqual(body["cause"]["deaths"], deaths)
        self.assertIn(f"{body['cause']['deaths']} processes of this runtime died as they started",
                      body["message"])
        self.assertIn("caisson audit", body["message"])

    def test_a_runtime_that_dies_as_it_starts_is_put_off(self):
        self.describe(("a", "dies", 2), ("b", "serves", 1))
        d = Daemon(self)
        wait_for(lambda: "a: 6 of its processes died within 10 s as they started" in d.stderr(),
                 "the cap")
        self.refused(d, DEATHS)
        # Two wait at once: one more may have been on its way.
        wait_for(lambda: d.stderr().count("has ended: status 7") == self.starts("dies"),
                 "a line for each")
        self.say(d, 8, "b")
        result = self.caisson("run", "--socket", self.socket, "--runtime", "a", "-m", "{}")
        if result.returncode == 125:  # the window may have passed
            self.assertIn("died as they started", result.stderr)

    def test_so_is_one_that_nobody_keeps_warm_whatever_it_did_in_between(self):
        self.describe(("a", "serves", 0), ("b", "serves", 0))
        d = Daemon(self)
        peer, causes = d.client(), []
        while len(causes) < 60 and causes[-1:] != ["start_failed"]:
            submit(peer, {"die": True})
            causes.append(ending(peer)["body"]["cause"]["kind"])
            if causes[-1] != "start_failed" and len(causes) % 2 and len(causes) < DEATHS:
                self.say(d, 9)
        # On a machine so slow that they live for over a second, none dies at its start.
        if causes[-1] != "start_failed":
            self.skipTest("the agent starts too slowly here")
        self.assertEqual(causes, ["exited"] * (len(causes) - 1) + ["start_failed"])
        self.assertGreaterEqual(len(causes), DEATHS + 1)
        self.refused(d, DEATHS)
        self.say(d, 10, "b")

    def test_what_is_killed_on_order_has_not_died(self):
        self.describe(("a", "serves", 0))
        d = Daemon(self)
        peer = d.client()
        for _ in range(DEATHS + 3):
            operation = waiting(peer)
            peer.call("operation.stop", operation=operation)
            self.assertEqual(ending(peer)["body"]["cause"]["kind"], "canceled")
        self.say(d, 11)

    def test_what_cannot_be_executed_is_refused_by_its_layer_however_often(self):
        self.describe(("b", "serves", 0), more=f"""  - {{ id: a, command: [/no/such], warm: 2 }}
""")
        d = Daemon(self)
        wait_for(lambda: d.stderr().count("exec: ") >= 3, "three tries")
        for _ in range(DEATHS + 2):
            peer = d.client()
            submit(peer, {"say": 1})
            cause = ending(peer)["body"]["cause"]
            self.assertEqual((cause["kind"], cause["layer"]), ("start_failed", "exec"))
        self.say(d, 12, "b")


class Config(Pool):
    def refuse(self, text):
        result = self.caissond("--check", self.config)
        self.assertEqual(result.returncode, 125, result.stderr)
        self.assertIn(text, result.stderr)

    def test_the_pool_is_bounded(self):
        self.describe(("a", "serves", 65))
        self.refuse("runtimes[0].warm")
        self.describe(*((f"r{i}", "serves", 64) for i in range(4)), ("last", "serves", 1))
        self.refuse("runtimes[4].warm: is more than 256 in all runtimes and providers")


if __name__ == "__main__":
    unittest.main()
