"""retention: { mode: durable }: what is kept with the ledger, and outlives broker, ledger and both."""

import os
import signal
import stat
import unittest

from broker_host import Client, Host
from daemon_lab import Daemon
from real import wait_for
from test_resume import Printer, Reader
from sessions_lab import SHELL
from test_sessions_real import CONFIG, Real
from wire import Closed, Peer

DURABLE = CONFIG + "retention: { mode: durable, operation: 4MiB }\n"
CLOSED_KEPT = 256  # sessions that are over and still shown
SECRET = "dQw4w9WgXcQ-content"


def lines(first, last):
    return b"".join(b"line %d of what it says\n" % i for i in range(first, last + 1))


class Durable(Real):
    text = DURABLE

    def configure(self, grace="20s", more=""):
        path = self.dir / "c.yaml"
        path.write_text(self.text + more)
        return path

    def begin(self):
        self.running = Daemon(self)
        return self.client()

    def client(self):
        client = Client(self.running.connect().sock)
        client.hello()
        return client

    def submit(self, client, session, line, **params):
        return client.call("operation.submit", session=session, kind="command", shell=line,
                           **params)

    def kill(self, *names):
        """kill -9; the broker that is there afterwards is another one."""
        pids = {name: self.running.service(name) for name in names}
        for pid in pids.values():
            os.kill(pid, signal.SIGKILL)
        for name, pid in pids.items():
            wait_for(lambda: self.running.service(name) != pid, f"another {name}")

    def attach(self, client, operation, after=0):
        client.call("operation.attach", operation=operation, after=after)
        return Reader(self, client, operation, after)

    def says(self, first, last):
        return (f"i={first}; while [ $i -le {last} ]; do echo line $i of what it says;"
                " i=$((i+1)); done")

    def folder(self):
        return self.state / "namespaces/default/index"

    def files(self):
        return {p.name: p for p in self.state.glob("namespaces/default/**/*")
                if p.is_file() and "workspaces" not in p.parts}

    def assert_same(self, before, after):
        """What was delivered is told again as it was, wherever it is told."""
        told = {e["sequence"]: e for e in after.events if e["type"] != "gap"}
        for e in before.events:
            self.assertEqual(told.get(e["sequence"]), e)


class Keeper(Host):
    """A broker whose ledger keeps what it is told to, when the test says so."""

    def serve_ledger(self):
        self.asked, self.bounds, self.forgotten = [], [], []
        while True:
            try:
                m = self.ledger.receive()
            except TimeoutError:
                continue
            except (Closed, OSError):
                return
            if m[-2] == "state.load":
                self.loads = m[-1][0]
                self.ledger.reply(m[1], **{
                    "count": 0, "hash": bytes(32), "segment": 0, "length": 0, "operations": [],
                    "grants": [], "revocations": [], "uses": [], "escalations": [], "keys": [],
                    "next": 0})
            elif m[-2] == "body.bounds":
                self.bounds.append(m[-1][0])
            elif m[-2] == "body.keep":
                self.asked.append(m[-1][0])
            elif m[-2] == "body.drop":
                self.forgotten.append(m[-1][0]["operation"])

    def keep(self, event):
        self.ledger.notify("body.kept", operation=event["operation"], sequence=event["sequence"])

    def another(self):
        """The ledger dies, and another comes."""
        self.end_ledger()
        self.start_ledger()


class Delivery(unittest.TestCase):
    def begin(self, **more):
        self.work = Printer()
        host = Keeper(worker=self.work, runtimes=[SHELL], sessions=8, retention="durable", **more)
        self.addCleanup(host.close)
        client = host.client()
        session = client.call("session.acquire")["session"]["id"]
        operation = client.call("operation.submit", kind="command", session=session,
                                argv=["x"])["operation"]
        return host, client, operation, self.work.next()

    def asked(self, host, n):
        wait_for(lambda: len(host.asked) >= n, "it is asked to keep that")
        return host.asked

    def nothing_comes(self, host, client):
        """All that the broker had to say is here, and no event is in it."""
        host.round()
        client.call("operation.list", session=self.session(client), cursor=0, limit=1)
        self.assertFalse([m for m in client.early if m[0] == 2 and m[1] == "operation.event"])

    @staticmethod
    def session(client):
        return client.call("session.list", cursor=0, limit=1)["sessions"][0]["id"]

    def test_nothing_is_delivered_before_it_is_kept(self):  # OP-39
        host, client, operation, child = self.begin(retentionOperation=5000)
        self.assertTrue(host.loads["bodies"])
        self.assertEqual((host.bounds[0]["operationBytes"], host.bounds[0]["fresh"]), (5000, True))
        reader = Reader(self, client, operation)
        for i in range(3):
            if i > 0:
                self.work.say(child, b"part")
            event = self.asked(host, i + 1)[i]
            self.assertEqual(event["sequence"], i + 1)
            self.nothing_comes(host, client)
            host.keep(event)
            reader.read(until=i + 1)
        self.assertEqual(reader.output, b"partpart")

    def test_no_operation_waits_for_a_ledger_that_is_away(self):  # OP-17, OP-39
        host, client, operation, child = self.begin(retentionOperation=1 << 20)
        host.keep(self.asked(host, 1)[0])
        reader = Reader(self, client, operation).read(until=1)
        self.work.say(child, b"one")
        self.asked(host, 2)
        host.end_ledger()
        self.work.say(child, b"two")
        self.work.end(child)
        wait_for(lambda: "operation.ended" in [r["type"] for r in host.records()], "its ending")
        self.nothing_comes(host, client)
        # The next one is asked for all that the one before has not said to be kept.
        host.another()
        wait_for(lambda: host.asked and host.asked[-1]["type"] == "completed", "the last event")
        self.assertEqual([e["sequence"] for e in host.asked],
                         list(range(2, host.asked[-1]["sequence"] + 1)))
        self.assertFalse(host.bounds[0]["fresh"])
        host.keep(host.asked[-1])
        self.assertEqual((reader.read().output, reader.gaps), (b"onetwo", []))

    def test_what_the_memory_drops_meanwhile_is_a_gap(self):  # OP-39, OP-40
        host, client, operation, child = self.begin(retentionOperation=4096)
        host.keep(self.asked(host, 1)[0])
        reader = Reader(self, client, operation).read(until=1)
        host.end_ledger()
        size = 0
        while size < 4 << 20:  # more than may lie anywhere on its way
            self.work.say(child, bytes(32 << 10))
            size += 32 << 10
        self.work.end(child)
        wait_for(lambda: "operation.ended" in [r["type"] for r in host.records()], "its ending")
        host.another()
        wait_for(lambda: host.asked and host.asked[-1]["type"] == "completed", "the last event")
        self.assertGreater(host.asked[0]["sequence"], 2)
        host.keep(host.asked[-1])
        reader.read()
        self.assertEqual(reader.gaps, [(2, host.asked[0]["sequence"] - 1)])

    def test_what_cannot_be_kept_is_asked_for_again(self):  # OP-39
        host, client, operation, child = self.begin()
        event = self.asked(host, 1)[0]
        host.ledger.notify("body.failed", problem="no space left")
        self.assertEqual(self.asked(host, 2)[1], event)
        self.assertEqual(len(host.bounds), 2)
        self.assertIn("no space left", host.log_text())
        self.nothing_comes(host, client)
        host.keep(event)
        Reader(self, client, operation).read(until=1)

    def release(self, client, session):
        client.call("session.release", session=session, wait=True)

    def push_out(self, client):
        """So many sessions end that none is known that ended before."""
        for _ in range(CLOSED_KEPT):
            self.release(client, client.call("session.acquire")["session"]["id"])

    def ended(self, host, client, child):
        """Its operation has ended, and its ending is kept."""
        self.work.say(child, b"part")
        self.work.end(child)
        while self.asked(host, 1)[-1]["type"] != "completed":
            wait_for(lambda n=len(host.asked): len(host.asked) > n, "its ending")
        host.keep(host.asked[-1])
        return client.finish()

    def test_what_a_session_carried_is_dropped_when_that_is_forgotten(self):  # D-16
        host, client, operation, child = self.begin()
        session = self.session(client)
        self.ended(host, client, child)
        other = client.call("session.acquire")["session"]["id"]
        kept = client.call("operation.submit", kind="command", session=other,
                           argv=["x"])["operation"]
        second = self.work.next()
        self.release(client, session)
        # It is over, and can be read as long as it is shown.
        client.call("operation.attach", operation=operation, after=0)
        self.assertEqual(Reader(self, client, operation).read().output, b"part")
        self.assertEqual(host.forgotten, [])
        self.push_out(client)
        wait_for(lambda: host.forgotten, "it is dropped")
        error, _ = client.expect_reply(client.request("operation.attach", operation=operation,
                                                      after=0))
        self.assertEqual(error["code"], "not_found")
        self.work.end(second)
        wait_for(lambda: (host.asked[-1]["operation"], host.asked[-1]["type"]) ==
                 (kept, "completed"), "the other one's ending")
        self.assertEqual(host.forgotten, [operation])  # once, and nobody else's

    def test_what_is_forgotten_before_it_was_sent_is_never_sent(self):  # D-16
        host, client, operation, child = self.begin()
        session = self.session(client)
        host.keep(self.asked(host, 1)[0])
        host.end_ledger()
        self.work.say(child, b"part")
        self.work.end(child)
        wait_for(lambda: "operation.ended" in [r["type"] for r in host.records()], "its ending")
        self.release(client, session)
        self.push_out(client)
        host.another()
        other = client.call("session.acquire")["session"]["id"]
        client.call("operation.submit", kind="command", session=other, argv=["x"])
        self.work.end(self.work.next())
        wait_for(lambda: host.asked and host.asked[-1]["type"] == "completed", "what comes then")
        self.assertNotIn(operation, [e["operation"] for e in host.asked])


class Deaths(Durable):
    def test_what_has_ended_is_told_by_the_next_broker_and_the_next_daemon(self):  # OP-39, D-16
        client = self.begin()
        session = self.acquire(client)
        operation = self.submit(client, session, self.says(1, 300), idempotencyKey="k")["operation"]
        first = Reader(self, client, operation).read()
        self.assertEqual((first.output, first.gaps), (lines(1, 300), []))
        for restart in (lambda: self.kill("broker"), lambda: self.kill("broker", "ledger"),
                        lambda: (self.assertEqual(self.running.end(), 0), self.begin())):
            restart()
            client = self.client()
            again = self.attach(client, operation).read()
            self.assertEqual([{**e} for e in again.events], first.events)
            half = self.attach(client, operation, first.at // 2).read()
            self.assertEqual(half.events, first.events[first.at // 2:])
            client = self.client()
            by_key = self.submit(client, session, self.says(1, 300), idempotencyKey="k")
            self.assertEqual(by_key, {"operation": operation, "existing": True})
            self.assertEqual(Reader(self, client, operation).read().events, first.events)
        self.verified()

    def cut(self, *names):
        """Kills them while an operation prints, and it goes on or is ended."""
        client = self.begin()
        session = self.acquire(client)
        line = self.says(1, 200) + "; echo >go; while [ ! -e more ]; do sleep .02; done; " + \
            self.says(201, 400)
        operation = self.submit(client, session, line)["operation"]
        first = Reader(self, client, operation)
        while first.output != lines(1, 200):
            first.take(client.next_event())
        self.kill(*names)
        return client, session, operation, first

    def test_a_broker_dies_in_the_middle(self):  # OP-39, OP-41, D-16
        for names in (("broker",), ("broker", "ledger")):
            with self.subTest(names):
                client, session, operation, first = self.cut(*names)
                again = self.attach(self.client(), operation).read()
                self.assert_same(first, again)
                self.assertEqual(again.output, first.output)
                self.assertEqual([e["type"] for e in again.events][-2:], ["gap", "failed"])
                self.assertEqual(again.gaps, [(first.at + 1, again.at - 1)])
                rest = self.attach(self.client(), operation, first.at).read()
                self.assertEqual(rest.events, again.events[-2:])
                # The second time it is what it was.
                self.kill("broker")
                self.assertEqual(self.attach(self.client(), operation).read().events,
                                 again.events)
                self.assertEqual(self.running.end(), 0)

    def test_a_ledger_dies_in_the_middle_and_nothing_is_missing(self):  # OP-39
        client, session, operation, first = self.cut("ledger")
        for w in self.workspaces():
            (w / "more").touch()
        first.read()
        self.assertEqual((first.output, first.gaps), (lines(1, 400), []))
        self.assertEqual(self.attach(self.client(), operation).read().events, first.events)
        self.kill("broker")
        self.assertEqual(self.attach(self.client(), operation).read().events, first.events)

    def test_ledgers_die_while_it_prints(self):  # OP-39
        client = self.begin()
        session = self.acquire(client)
        operation = self.submit(client, session, self.says(1, 20000))["operation"]
        first = Reader(self, client, operation)
        for _ in range(4):
            first.read(until=first.at + 2)
            os.kill(self.running.service("ledger"), signal.SIGKILL)
        first.read()
        self.assertEqual((first.output, first.gaps), (lines(1, 20000), []))
        self.kill("broker", "ledger")
        self.assertEqual(self.attach(self.client(), operation).read().events, first.events)

    def test_brokers_die_while_it_prints(self):  # OP-39, OP-41
        client = self.begin()
        session = self.acquire(client)
        for i in range(3):
            operation = self.submit(client, session, self.says(1, 20000))["operation"]
            first = Reader(self, client, operation).read(until=3 + 5 * i)
            self.kill("broker")
            client = self.client()
            again = self.attach(client, operation).read()
            self.assert_same(first, again)
            self.assertTrue(lines(1, 20000).startswith(again.output))
            self.assertEqual(len(again.gaps), 1)
            self.assertEqual(again.gaps[0][1], again.at - 1)


class Rest(Durable):
    def written(self):
        return {name: p.read_bytes() for name, p in self.files().items()}

    def test_content_lies_in_one_file_which_is_the_ledgers_own(self):  # D-12, D-16
        client = self.begin()
        session = self.acquire(client)
        operation = self.submit(client, session, f"printf %s dQw4w9; echo; printf %s%s dQw4w9WgXcQ -content")
        operation = operation["operation"]
        self.assertIn(SECRET.encode(), Reader(self, client, operation).read().output)
        holds = {name for name, text in self.written().items() if SECRET.encode() in text}
        self.assertTrue(holds)
        self.assertLessEqual(holds, {"bodies.db", "bodies.db-wal"})
        for name in holds:
            self.assertEqual(stat.S_IMODE(self.files()[name].stat().st_mode), 0o600)
        # Whoever wants it in memory does not leave it there.
        self.assertEqual(self.running.end(), 0)
        self.text = CONFIG
        self.config = self.configure()
        client = self.begin()
        again = self.attach(client, operation).read()
        self.assertEqual([e["type"] for e in again.events], ["accepted", "gap", "completed"])
        self.assertFalse([n for n in self.files() if n.startswith("bodies")])

    def test_what_a_released_session_carried_goes_with_its_broker(self):  # D-12, D-16, OP-41
        for names in (("broker",), ("ledger", "broker")):
            with self.subTest(names):
                client = self.begin()
                gone, stays = self.acquire(client), self.acquire(client)
                operations = []
                for session, text in ((gone, "dQw4w9"), (stays, "stays-")):
                    operation = self.submit(client, session, f"printf %s%s {text} WgXcQ-content")
                    operations.append(operation["operation"])
                    Reader(self, client, operation["operation"]).read()
                client.call("session.release", session=gone, wait=True)
                self.assertEqual(self.attach(client, operations[0]).read().output, SECRET.encode())
                self.kill(*names)
                client = self.client()
                again = self.attach(client, operations[1]).read()
                self.assertEqual((again.output, again.gaps), (b"stays-WgXcQ-content", []))
                error, _ = client.expect_reply(client.request(
                    "operation.attach", operation=operations[0], after=0))
                self.assertEqual(error["code"], "not_found")
                client.call("session.release", session=stays, wait=True)
                self.assertEqual(self.running.end(), 0)
                holds = {text: {n for n, data in self.written().items() if text in data}
                         for text in (SECRET.encode(), b"stays-WgXcQ-content")}
                self.assertEqual(holds[SECRET.encode()], set())
                self.assertTrue(holds[b"stays-WgXcQ-content"])

    def test_a_damaged_file_is_put_aside_and_that_is_said(self):  # D-16
        client = self.begin()
        session = self.acquire(client)
        operation = self.submit(client, session, "echo one")["operation"]
        Reader(self, client, operation).read()
        self.assertEqual(self.running.end(), 0)
        path = self.files()["bodies.db"]
        path.write_bytes(b"no database" * 1000)
        client = self.begin()
        again = self.attach(client, operation).read()
        self.assertEqual([e["type"] for e in again.events], ["accepted", "gap", "completed"])
        operation = self.submit(client, session, "echo two")["operation"]
        first = Reader(self, client, operation).read()
        self.assertEqual((first.output, first.gaps), (b"two\n", []))
        self.assertIn("bodies.db is damaged or of another version: it is put aside",
                      self.running.stderr())
        self.assertEqual(self.files()["bodies.db.damaged"].read_bytes(), b"no database" * 1000)
        self.kill("broker", "ledger")
        self.assertEqual(self.attach(self.client(), operation).read().events, first.events)

    def test_bounds_are_those_of_the_configuration(self):  # D-16, OP-40
        self.text = CONFIG + "retention: { mode: durable, operation: 64KiB, time: 0s }\n"
        self.config = self.configure()
        client = self.begin()
        session = self.acquire(client)
        operation = self.submit(client, session, self.says(1, 100))["operation"]
        first = Reader(self, client, operation).read()
        self.assertEqual(first.terminal["type"], "completed")
        self.kill("broker")
        again = self.attach(self.client(), operation).read()
        self.assertEqual([e["type"] for e in again.events], ["accepted", "gap", "completed"])
        self.assertEqual(again.at, first.at)


if __name__ == "__main__":
    unittest.main()
