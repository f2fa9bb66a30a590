"""A shared provider in the real daemon: one process, confined, restarted, shown, ended."""

import json
import os
import shutil
import signal
import unittest

import real
import wire
from daemon_lab import Case, Daemon, ending, submit
from real import IS_ROOT, wait_for

TIMEOUT = 200  # of this file, for run.py

PROVIDER = """import os
import socket
import sys
import wire

link = wire.Peer(socket.socket(fileno=int(os.environ["CAISSON_LINK_FD"])))
if "dies" in sys.argv:
    sys.exit(3)
link.hello("one")
calls = 0
while True:
    try:
        m = link.receive(timeout=600)
    except wire.Closed:
        break
    if m[0] != 0:
        continue
    calls += 1
    way = m[3][0]["path"][0]
    if way == "die":
        os.abort()
    if way != "never":
        link.reply(m[1], callId=m[3][0]["call"], status="succeeded",
                   output={"pid": os.getpid(), "calls": calls, "uid": os.getuid()})
"""

AGENT = """import caisson


def run(turn):
    do = turn.message if isinstance(turn.message, dict) else {"way": turn.message}
    try:
        return turn.invoke(do.get("tool", "one.do"), {"way": do["way"]})
    except caisson.Refused as e:
        return {"code": e.code}


caisson.serve(run)
"""

CONFIG = """providers:
  - {{ id: one, command: [/usr/bin/python3, -B, /app/a/b/one.py{word}], app: {app}, scope: shared,
       {more} }}
  - {{ id: own, command: [/usr/bin/python3, -B, /app/a/b/one.py], app: {app} }}
tools:
  - name: own.do
    provider: own
    namespace: one
    effect: read
    input: {{ type: object, properties: {{ way: {{ type: string }} }}, required: [way] }}
    requires: {{ action: done, resource: {{ namespace: one, path: "{{way}}" }} }}
  - name: one.do
    provider: one
    namespace: one
    effect: read
    input: {{ type: object, properties: {{ way: {{ type: string }} }}, required: [way] }}
    requires: {{ action: do, resource: {{ namespace: one, path: "{{way}}" }} }}
grants:
  - id: own
    subject: agent:b
    issuer: human:operator
    namespace: default
    capabilities: [{{ resource: {{ namespace: one, path: ., scope: descendants }}, actions: [done] }}]
  - id: one
    subject: agent:a
    issuer: human:operator
    namespace: default
    capabilities: [{{ resource: {{ namespace: one, path: ., scope: descendants }}, actions: [do] }}]
"""


class Shared(Case):
    def daemon(self, word="", more="concurrency: 4"):
        app = self.dir / "app"
        deep = app / "a" / "b"  # wire.py looks for what it belongs to further up
        deep.mkdir(parents=True)
        (deep / "one.py").write_text(PROVIDER)
        (app / "agent.py").write_text(AGENT)
        for source in (wire.__file__, wire.SDK / "caisson.py"):
            shutil.copy(source, deep)
        self.config = self.configure(more=CONFIG.format(app=app, word=word, more=more))
        return Daemon(self)

    def turn(self, d, way, **more):
        with d.client() as peer:
            submit(peer, way, **more)
            body = ending(peer)["body"]
            return body["turn"].get("output") or body

    @staticmethod
    def stop(peer, operation):
        peer.request("operation.stop", operation=operation)
        while (m := peer.receive())[0] != 2 or m[2][0]["type"] != "failed":
            continue

    def lose(self, d):
        """A call that is under way, and never answered, as its turn ends."""
        with d.client() as peer:
            operation = submit(peer, "never")
            wait_for(lambda: [r for r in self.providers() if r["places"]["calls"] >
                              r["places"]["lost"]], "its call")
            self.stop(peer, operation)

    def providers(self):
        result = self.caisson("ps", "--socket", self.socket, "-o", "jsonl")
        rows = [json.loads(line) for line in result.stdout.splitlines()]
        return [r for r in rows if r["role"] == "provider"]

    def test_one_process_serves_all_sessions_and_ends_with_the_daemon(self):
        d = self.daemon()
        self.assertEqual(self.providers(), [], "made when it is needed")
        found = [self.turn(d, "answer") for _ in range(3)]
        self.assertEqual([f["calls"] for f in found], [1, 2, 3])
        row, = self.providers()
        self.assertNotIn("session", row)
        self.assertEqual((row["places"], row["profile"]),
                         ({"calls": 0, "lost": 0, "waiting": 0}, "provider"))
        self.assertIn("seccomp", row["layers"]["applied"])
        self.assertEqual(d.end(), 0)
        self.assertIsNone(real.proc_text(row["pid"], "stat"))
        self.assertNotIn("one", d.stderr())
        self.verified()

    def test_a_death_interrupts_and_the_next_one_serves(self):  # D-10
        d = self.daemon()
        first = self.turn(d, "answer")
        self.assertEqual(self.turn(d, "die"), {"code": "interrupted"})
        second = self.turn(d, "answer")
        self.assertEqual((first["calls"], second["calls"]), (1, 1))
        self.assertEqual(d.end(), 0)

    def test_lost_places_are_shown_and_the_last_of_them_ends_it(self):  # D-9
        d = self.daemon()
        for lost in range(1, 4):
            self.lose(d)
            wait_for(lambda: [r["places"]["lost"] for r in self.providers()] == [lost], "a loss")
        table = self.caisson("ps", "--socket", self.socket)
        self.assertIn("running, 3 lost", table.stdout)
        self.assertEqual(self.turn(d, "answer")["calls"], 4)
        self.lose(d)
        self.assertEqual(self.turn(d, "answer")["calls"], 1)
        self.assertIn("every place that it has left is lost", d.stderr())

    def test_one_that_dies_at_its_start_fails_what_waits_for_it(self):
        d = self.daemon(", dies")
        for _ in range(2):
            self.assertEqual(self.turn(d, "answer"), {"code": "tool_execution_failed"})
        self.assertGreaterEqual(d.stderr().count("provider one has died (status 3)"), 4)
        self.assertEqual(d.end(), 0)

    def test_another_configuration_has_another_one(self):
        d = self.daemon()
        first = self.turn(d, "answer")
        old, = self.providers()
        with d.client() as peer:  # a turn that began under the old one keeps it
            operation = submit(peer, "never")
            wait_for(lambda: self.providers()[0]["places"]["calls"] == 1, "its call")
            self.config.write_text(self.config.read_text().replace("concurrency: 4",
                                                                   "concurrency: 5"))
            d.process.send_signal(signal.SIGHUP)
            wait_for(lambda: self.turn(d, "answer")["calls"] == 1, "the new one")
            self.assertEqual(len(self.providers()), 2)
            self.assertIsNotNone(real.proc_text(old["pid"], "stat"))
            self.stop(peer, operation)
        wait_for(lambda: real.proc_text(old["pid"], "stat") is None, "the end of the old one")
        self.assertEqual((first["calls"], self.turn(d, "answer")["calls"] > 1), (1, True))
        # Where nobody uses it, it goes at once.
        self.config.write_text(self.config.read_text().replace("concurrency: 5",
                                                               "concurrency: 6"))
        d.process.send_signal(signal.SIGHUP)
        wait_for(lambda: self.providers() == [], "the end of the second")
        self.assertEqual(self.turn(d, "answer")["calls"], 1)
        self.assertEqual(d.end(), 0)

    def test_one_that_waits_is_there_from_the_beginning(self):
        d = self.daemon(more="warm: 1")
        wait_for(lambda: [r["state"] for r in self.providers()] == ["warm"], "one that waits")
        spare = self.providers()[0]["pid"]
        self.assertEqual([self.turn(d, "answer")["calls"] for _ in range(2)], [1, 2])
        running, = [r["pid"] for r in self.providers() if r["state"] == "running"]
        self.assertEqual(running, spare)
        self.assertEqual(d.end(), 0)

    def test_the_brokers_death_takes_it_along(self):
        d = self.daemon()
        first = self.turn(d, "answer")
        row, = self.providers()
        os.kill(d.service("broker"), signal.SIGKILL)
        wait_for(lambda: real.proc_text(row["pid"], "stat") is None, "its end")
        second = wait_for(lambda: self.again(d), "the next broker")
        self.assertEqual((first["calls"], second["calls"]), (1, 1))

    def test_its_chamber_is_that_of_a_session_s_own(self):
        d = self.daemon()
        self.turn(d, "answer")
        with d.client() as peer:
            operation = submit(peer, {"tool": "own.do", "way": "never"}, "b")
            wait_for(lambda: [r["places"]["calls"] for r in self.providers() if r["id"] == "own"]
                     == [1], "its call")
            rows = {r["id"]: r for r in self.providers()}
            shared, own = rows["one"], rows["own"]
            self.assertEqual([r["id"] for r in rows.values() if "session" in r], ["own"])
            for key in ("profile", "network", "layers", "descriptors"):
                self.assertEqual(shared[key], own[key], key)
            self.assertEqual(*(self.seal(r["pid"]) for r in (shared, own)))
            if IS_ROOT:
                self.assertNotEqual(shared["uid"], own["uid"])
                for name in ("mnt", "pid", "ipc"):
                    self.assertNotEqual(*(real.namespace(r["pid"], name)
                                          for r in (shared, own)), name)
                # An empty one may serve them both; which launch made it is left to chance.
                for r in (shared, own):
                    self.assertNotEqual(real.namespace(r["pid"], "net"),
                                        real.namespace("self", "net"))
            stop = peer.request("operation.stop", operation=operation)
            while peer.receive()[:2] != [1, stop]:
                pass  # its events so far
            ending(peer)

    def seal(self, pid):
        """What the kernel says that it may never get again."""
        words = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp",
                 "Seccomp_filters")
        lines = dict(line.split(":\t", 1) for line in real.proc_text(pid, "status").splitlines())
        found = {word: lines[word] for word in words}
        self.assertEqual((found["Seccomp"], found["NoNewPrivs"]), ("2", "1"))
        return found

    def again(self, d):
        try:
            return self.turn(d, "answer")
        except (wire.Closed, OSError):
            return None


if __name__ == "__main__":
    unittest.main()
