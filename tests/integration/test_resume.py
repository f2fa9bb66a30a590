"""Coming back to an operation of a session: the real broker, its logs, cursors and keys."""

import hashlib
import os
import signal
import threading
import unittest

from broker_host import FOUND, FROM_GATEWAY, Host
from outage_lab import PLAN, STOPS
from sessions_lab import SHELL, Commands
from wire import TIMEOUT, Closed

def token(name):
    return f"token-of-{name}-0123456789"


def principal(name, **more):
    return {"id": f"human:{name}", "tokens": [hashlib.sha256(token(name).encode()).digest()],
            "certificates": [], "uids": [], "runtimes": ["*"], "sessions": 8, "connections": 64,
            **more}


class Printer(Commands):
    """Commands whose standard output the test writes: say(child, bytes)."""

    @staticmethod
    def say(child, data):
        while data:
            data = data[os.write(child.stdout, data):]


class Reader:
    """What a client makes of the events of one operation: no hole that no gap names."""

    def __init__(self, test, client, operation, after=0):
        self.test, self.client, self.operation = test, client, operation
        self.at, self.events, self.gaps = after, [], []
        self.output, self.terminal = b"", None

    def take(self, e):
        self.test.assertIsNone(self.terminal, "an event behind the last one")
        self.test.assertEqual(e["operation"], self.operation)
        if e["type"] == "gap":
            self.test.assertEqual(e["body"]["from"], self.at + 1)
            self.test.assertEqual(e["body"]["to"], e["sequence"])
            self.gaps.append((e["body"]["from"], e["body"]["to"]))
        else:
            self.test.assertEqual(e["sequence"], self.at + 1)
        self.at = e["sequence"]
        self.events.append(e)
        if e["type"] == "output":
            self.output += e["data"]
        if e["type"] in ("completed", "failed"):
            self.terminal = e

    def read(self, until=None):
        """Up to the event of that number; None: to the last one."""
        while self.terminal is None and (until is None or self.at < until):
            self.take(self.client.next_event())
        return self


class Case(unittest.TestCase):
    def setUp(self):
        self.work = Printer()

    def host(self, **more):
        host = Host(worker=self.work, **{"runtimes": [SHELL], "sessions": 8, **more})
        self.addCleanup(self.close, host)
        return host

    def close(self, host):
        status, log = host.close()
        self.assertIn(status, (0, -9), log)
        self.assertNotIn("Sanitizer", log)
        self.assertNotIn("runtime error", log)

    def prove(self, host, name):
        client = host.client(flags=FROM_GATEWAY)
        client.call("principal.prove", token=token(name))
        return client

    def submit(self, client, session, **params):
        return client.call("operation.submit", kind="command", session=session,
                           **(params or {"argv": ["true"]}))

    def refused(self, client, method, **params):
        error, _ = client.expect_reply(client.request(method, **params))
        self.assertIsNotNone(error, "it was not refused")
        return error["code"]

    def refused_submit(self, client, session, **params):
        return self.refused(client, "operation.submit", kind="command", session=session, **params)

    def attach(self, client, operation, after=0):
        client.call("operation.attach", operation=operation, after=after)
        return Reader(self, client, operation, after)

    def begin(self, host, **params):
        """A session with one operation that runs: client, session, operation, its child."""
        client = host.client()
        session = client.call("session.acquire")["session"]["id"]
        operation = self.submit(client, session, **params)["operation"]
        return client, session, operation, self.work.next()

    def show(self, client, operation):
        return client.call("operation.show", operation=operation)["operation"]


class Resume(Case):
    def test_cut_at_every_event_the_rest_is_the_same(self):  # OP-13, OP-26, OP-39
        host = self.host()
        client, _, operation, child = self.begin(host)
        whole = Reader(self, client, operation).read(until=1)
        for i in range(12):
            self.work.say(child, b"line %d\n" % i)
            whole.read(until=i + 2)  # so that each is an event of its own
        for ended in (False, True):
            if ended:
                self.work.end(child)
                whole.read()
            for after in range(whole.at + 1):
                other = host.client()
                again = self.attach(other, operation, after).read(until=whole.at)
                self.assertEqual(again.events, whole.events[after:])
                self.assertEqual(again.gaps, [])
                other.close()
        self.assertEqual(whole.output, b"".join(b"line %d\n" % i for i in range(12)))
        self.assertEqual(whole.terminal["body"]["command"]["exitCode"], 0)

    def test_every_cut_of_a_stream_is_mended_by_its_cursor(self):  # OP-39
        host = self.host(retentionOperation=16 << 20)
        client, _, operation, child = self.begin(host)
        client.close()  # OP-26: it goes on
        data = os.urandom(2 << 20)
        writer = threading.Thread(target=lambda: (self.work.say(child, data),
                                                  self.work.end(child)))
        writer.start()
        self.addCleanup(writer.join, TIMEOUT)
        reader, cuts = Reader(self, None, operation), 0
        while reader.terminal is None:
            reader.client = host.client()
            reader.client.call("operation.attach", operation=operation, after=reader.at)
            reader.read(until=reader.at + 1 + cuts % 3)
            # Whatever else is on its way to this client is lost with its connection.
            reader.client.close()
            cuts += 1
        self.assertEqual(reader.output, data)
        self.assertEqual(reader.gaps, [])
        self.assertGreater(cuts, 10)

    def test_a_slow_one_gets_a_gap_and_a_fast_one_everything(self):  # OP-17, OP-40
        host = self.host(retentionOperation=128 << 10)
        fast, _, operation, child = self.begin(host)
        slow = host.client()
        slow.call("operation.attach", operation=operation)
        reader, sent = Reader(self, fast, operation).read(until=1), b""
        # More than its socket and its window hold: it reads nothing meanwhile.
        for i in range(64):
            part = bytes([i]) * (32 << 10)
            self.work.say(child, part)
            sent += part
            while len(reader.output) < len(sent):
                reader.take(fast.next_event())
        self.work.end(child)
        reader.read()
        self.assertEqual((reader.output, reader.gaps), (sent, []))
        late = Reader(self, slow, operation).read()
        self.assertEqual(len(late.gaps), 1)
        self.assertEqual(late.terminal, reader.terminal)
        whole = {e["sequence"]: e for e in reader.events}
        for e in late.events:
            if e["type"] != "gap":
                self.assertEqual(e, whole[e["sequence"]])
        self.assertEqual(self.show(fast, operation)["state"], "succeeded")

    def test_two_follow_and_one_that_goes_away_takes_nothing_along(self):  # OP-26
        host = self.host()
        client, _, operation, child = self.begin(host)
        other = host.client()
        first, second = Reader(self, client, operation), self.attach(other, operation)
        self.work.say(child, b"one")
        first.read(until=2), second.read(until=2)
        client.close()
        host.round()
        self.assertEqual(host.kills, [])
        self.work.say(child, b"two")
        self.work.end(child)
        self.assertEqual(second.read().output, b"onetwo")
        self.assertEqual(self.attach(host.client(), operation).read().output, b"onetwo")

    def test_what_nobody_has_or_may_ask_for(self):  # OP-42
        host = self.host(principals=[principal("alice"), principal("bob")])
        alice, bob, operator = self.prove(host, "alice"), self.prove(host, "bob"), host.client()
        session = alice.call("session.acquire")["session"]["id"]
        operation = self.submit(alice, session)["operation"]
        child = self.work.next()
        for client in (bob, alice):
            self.assertEqual(self.refused(client, "operation.attach", operation="op-none"),
                             "not_found")
            self.assertEqual(self.refused(client, "operation.show", operation="op-none"),
                             "not_found")
        self.assertEqual(self.refused(bob, "operation.attach", operation=operation), "not_found")
        self.assertEqual(self.refused(bob, "operation.show", operation=operation), "not_found")
        self.assertEqual(self.refused(bob, "operation.attach"), "not_found")
        self.assertEqual(self.refused(bob, "operation.list", session=session, cursor=0, limit=9),
                         "not_found")
        self.assertEqual(self.refused(alice, "operation.attach", operation=operation, after=9),
                         "invalid_argument")
        self.assertEqual(self.attach(operator, operation).read(until=1).at, 1)
        self.work.end(child)
        Reader(self, alice, operation).read()
        for after in (3, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1):  # one more would be 0
            self.assertEqual(self.refused(alice, "operation.attach", operation=operation,
                                          after=after), "invalid_argument", after)
        # All of it was seen: there is nothing to be told, and that is no error.
        alice.call("operation.attach", operation=operation, after=2)
        self.assertEqual(self.refused(bob, "operation.attach", operation=operation), "not_found")

    def test_a_negative_cursor_is_no_message_and_costs_its_sender_alone(self):  # OP-42
        host = self.host()
        client, _, operation, child = self.begin(host)
        first = Reader(self, client, operation).read(until=1)
        for after in (-1, -(1 << 63)):
            other = host.client()
            other.request("operation.attach", operation=operation, after=after)
            with self.assertRaises(Closed):
                other.receive()
        self.work.say(child, b"one")
        self.work.end(child)
        self.assertEqual(first.read().output, b"one")

    def test_followers_are_bounded_and_a_place_becomes_free(self):
        host = self.host()
        client, _, operation, child = self.begin(host)
        others = [host.client() for _ in range(16)]
        for other in others[:15]:
            self.attach(other, operation)
        self.assertEqual(self.refused(others[15], "operation.attach", operation=operation),
                         "resource_exhausted")
        others[0].close()
        host.round()
        self.attach(others[15], operation)
        self.work.end(child)
        Reader(self, client, operation).read()

    def test_without_retention_only_what_comes_now_is_told(self):  # D-16
        host = self.host(retention="none")
        client, _, operation, child = self.begin(host)
        first = Reader(self, client, operation).read(until=1)
        self.work.say(child, b"one")
        first.read(until=2)
        late = self.attach(host.client(), operation)
        self.work.say(child, b"two")
        self.work.end(child)
        self.assertEqual((first.read().output, first.gaps), (b"onetwo", []))
        late.read()
        self.assertEqual((late.output, late.gaps), (b"two", [(2, 2)]))
        # Nothing is kept of it: that it ended, and how, is on record.
        again = self.attach(host.client(), operation).read()
        self.assertEqual([e["type"] for e in again.events], ["accepted", "gap", "completed"])
        self.assertEqual(again.terminal["body"]["command"]["exitCode"], 0)

    def test_what_has_ended_is_dropped_in_time_and_its_ending_is_known(self):  # D-16
        host = self.host(retentionMs=0)
        client, _, operation, child = self.begin(host)
        self.work.say(child, b"one")
        self.work.end(child, 3)
        Reader(self, client, operation).read()
        host.round()
        again = self.attach(host.client(), operation).read()
        self.assertEqual([e["type"] for e in again.events], ["accepted", "gap", "completed"])
        self.assertEqual(again.terminal["body"]["command"]["exitCode"], 3)
        shown = self.show(client, operation)
        self.assertEqual((shown["sequence"], shown["retainedFrom"]), (3, 3))


class Keys(Case):
    def test_the_same_request_is_one_operation(self):  # OP-38, D-10
        host = self.host()
        client, session, operation, child = self.begin(
            host, argv=["a"], idempotencyKey="k-1", trace="t-1")
        Reader(self, client, operation).read(until=1)
        for _ in range(2):  # while it runs, and when it has ended
            other = host.client()
            again = self.submit(other, session, argv=["a"], idempotencyKey="k-1", trace="t-2")
            self.assertEqual(again, {"operation": operation, "existing": True})
            self.assertEqual(Reader(self, other, operation).read(until=1).events[0]["body"],
                             {"operationID": operation})
            self.work.end(child)
            host.round()
        self.assertEqual(len(host.children), 1)
        host.round()
        accepted = [r for r in host.records() if r["type"] == "operation.accepted"]
        self.assertEqual(len(accepted), 1)
        self.assertEqual([len(accepted[0][k]) for k in ("key", "fingerprint")], [32, 32])
        self.assertNotIn("k-1", str(accepted))

    def test_another_request_under_it_is_refused_and_the_first_stands(self):  # OP-38
        host = self.host()
        client, session, operation, child = self.begin(host, argv=["a"], idempotencyKey="k")
        for other in ({"argv": ["b"]}, {"shell": "a"}, {"argv": ["a"], "timeoutMs": 5},
                      {"argv": ["a"], "content": b""}):
            self.assertEqual(
                self.refused_submit(client, session, idempotencyKey="k", **other),
                "already_exists")
        for key in ("a b", "ä", "k/", "k\n"):
            self.assertEqual(self.refused_submit(client, session, argv=["a"], idempotencyKey=key),
                             "invalid_argument")
        self.assertEqual(self.refused(client, "operation.submit", kind="command", argv=["a"],
                                      idempotencyKey="k"), "invalid_argument")
        self.work.end(child)
        Reader(self, client, operation).read()
        self.assertEqual(len(host.children), 1)

    def test_a_key_is_its_principals_and_its_sessions(self):  # OP-38, D-10
        host = self.host(principals=[principal("alice"), principal("bob")])
        operations = set()
        for name in ("alice", "bob"):
            client = self.prove(host, name)
            for _ in range(2):
                session = client.call("session.acquire")["session"]["id"]
                reply = self.submit(client, session, argv=["a"], idempotencyKey="k")
                self.assertFalse(reply.get("existing"))
                operations.add(reply["operation"])
                self.work.end(self.work.next())
        self.assertEqual(len(operations), 4)
        self.assertEqual(self.refused_submit(client, "s-0123456789abcdef", argv=["a"],
                                             idempotencyKey="k"), "not_found")

    def test_a_retry_is_answered_though_the_session_takes_nothing_more(self):
        host = self.host(queue=1)
        client, session, operation, child = self.begin(host, argv=["a"], idempotencyKey="k")
        self.submit(client, session)  # waits
        self.assertEqual(self.refused_submit(client, session, argv=["b"], idempotencyKey="n"),
                         "resource_exhausted")
        client.call("session.release", session=session, mode="drain")
        other = host.client()
        self.assertEqual(self.submit(other, session, argv=["a"], idempotencyKey="k"),
                         {"operation": operation, "existing": True})
        self.assertEqual(self.refused_submit(other, session, argv=["b"], idempotencyKey="n"),
                         "failed_precondition")
        self.work.end(child)
        self.work.end(self.work.next())
        self.assertEqual(Reader(self, other, operation).read().terminal["type"], "completed")

    def both(self, host):
        """Two clients that submit the same in one turn of the broker's loop: their answers."""
        clients = [host.client(), host.client()]
        session = clients[0].call("session.acquire")["session"]["id"]
        os.kill(host.process.pid, signal.SIGSTOP)
        asked = [c.request("operation.submit", kind="command", session=session, argv=["a"],
                           idempotencyKey="k") for c in clients]
        os.kill(host.process.pid, signal.SIGCONT)
        return clients, session, [c.expect_reply(m) for c, m in zip(clients, asked)]

    def test_while_it_is_not_on_record_both_wait_for_that(self):  # OP-7, OP-38
        host = self.host()
        clients, _, answers = self.both(host)
        self.assertEqual([error for error, _ in answers], [None, None])
        self.assertEqual(len({reply["operation"] for _, reply in answers}), 1)
        self.assertEqual(sorted(reply.get("existing", False) for _, reply in answers),
                         [False, True])
        self.work.end(self.work.next())
        for c, (_, reply) in zip(clients, answers):
            reader = Reader(self, c, reply["operation"]).read()
            self.assertEqual([e["type"] for e in reader.events], ["accepted", "completed"])
        self.assertEqual(len(host.children), 1)

    @unittest.skipUnless(STOPS.exists(), "build/stops is not built (make stops)")
    def test_what_could_not_be_recorded_leaves_its_key_free(self):  # OP-38, D-10
        host = self.host(program_path=str(STOPS), env={PLAN: "write:4=ENOSPC"})
        clients, session, answers = self.both(host)
        self.assertEqual([error["code"] for error, _ in answers], ["audit_unavailable"] * 2)
        # Once there is another segment, even another request may have the key.
        while True:
            error, reply = clients[0].expect_reply(clients[0].request(
                "operation.submit", kind="command", session=session, argv=["b"],
                idempotencyKey="k"))
            if error is None:
                break
            self.assertEqual(error["code"], "audit_unavailable")
        self.assertFalse(reply.get("existing"))
        self.work.end(self.work.next())
        Reader(self, clients[0], reply["operation"]).read()
        self.assertEqual(len(host.children), 1)


class Shown(Case):
    def test_what_is_shown_of_an_operation_as_it_goes_on(self):
        host = self.host()
        client, session, first, child = self.begin(host)
        second = self.submit(client, session)["operation"]
        a, b = self.show(client, first), self.show(client, second)
        self.assertEqual((a["operationID"], a["session"], a["kind"], a["state"]),
                         (first, session, "command", "running"))
        self.assertEqual((b["state"], b["sequence"], b["retainedFrom"]), ("queued", 1, 1))
        self.assertLessEqual(a["acceptedAt"], a["startedAt"])
        self.assertNotIn("startedAt", b)
        self.work.end(child, 3)
        child = self.work.next()
        a = self.show(client, first)
        self.assertEqual(a["state"], "succeeded")
        self.assertLessEqual(a["startedAt"], a["endedAt"])
        client.call("operation.stop", operation=second)
        Reader(self, client, second)
        while self.show(client, second)["state"] == "running":
            client.next_event()
        b = self.show(client, second)
        self.assertEqual((b["state"], b["code"], b["cause"]), ("cancelled", "canceled", "canceled"))

    def test_pages_hold_each_once_in_the_order_of_admission(self):  # OP-5
        host = self.host()
        client, session, first, child = self.begin(host)
        made = [first] + [self.submit(client, session)["operation"] for _ in range(6)]
        for limit in (1, 2, 7, 1000):
            cursor, seen = 0, []
            while True:
                page = client.call("operation.list", session=session, cursor=cursor, limit=limit)
                self.assertLessEqual(len(page["operations"]), limit)
                seen += [o["operationID"] for o in page["operations"]]
                cursor = page["next"]
                if cursor == 0:
                    break
            self.assertEqual(seen, made)
        self.assertEqual(self.refused(client, "operation.list", session=session, cursor=0,
                                      limit=0), "invalid_argument")
        self.work.end(child)
        for _ in made[1:]:
            self.work.end(self.work.next())


class AfterADeath(Case):
    """What the next broker knows of the operations of the one before."""

    SESSION = "s-00000000000000ab"

    def restore(self, operations=(), admissions=()):
        session = {"id": "r-1", "type": "session.acquired", "at": 5, "session": self.SESSION,
                   "principal": "human:alice", "runtime": "shell", "timeoutMs": 60000, "queue": 2,
                   "detail": "command with workspace"}
        keys = [{"session": self.SESSION, **a} for a in admissions]
        pages = [{"admissions": keys[i:i + 3000]} for i in range(0, len(keys), 3000)] or [{}]
        pages[0] |= {"sessions": [session],
                     "operations": [{"kind": "command", "calls": [], "session": self.SESSION,
                                     "principal": "human:alice", **o} for o in operations]}
        host = self.host(principals=[principal("alice"), principal("bob")], state=pages)
        self.assertTrue(host.ready.wait(TIMEOUT))
        host.tell(FOUND, workspace=0xab)
        return host

    def test_what_was_open_is_a_gap_and_its_recorded_ending(self):  # OP-41, D-11
        host = self.restore(operations=[{"operation": "op-open", "sequence": 1 << 20}])
        alice, bob = self.prove(host, "alice"), self.prove(host, "bob")
        for after in (0, 1, 7, 1 << 20):
            reader = self.attach(self.prove(host, "alice"), "op-open", after).read()
            self.assertEqual(reader.gaps, [(max(after, 1) + 1, (1 << 20) + 1)])
            self.assertEqual((reader.terminal["sequence"], reader.terminal["body"]["code"]),
                             ((1 << 20) + 2, "unavailable"))
        self.assertEqual(self.refused(bob, "operation.attach", operation="op-open"), "not_found")
        shown = self.show(alice, "op-open")
        self.assertEqual((shown["state"], shown["code"], shown["cause"], shown["session"]),
                         ("failed", "unavailable", "outcome_unknown", self.SESSION))
        listed = alice.call("operation.list", session=self.SESSION, cursor=0, limit=9)
        self.assertEqual([o["operationID"] for o in listed["operations"]], ["op-open"])
        self.assertEqual(host.children, [])  # never again

    def test_what_waited_behind_it_has_provably_not_run(self):  # OP-5, OP-41, D-10
        host = self.restore(operations=[{"operation": "op-first", "sequence": 1 << 20},
                                        {"operation": "op-second", "sequence": 1 << 20}])
        alice = self.prove(host, "alice")
        self.assertEqual([self.show(alice, name)["cause"] for name in ("op-first", "op-second")],
                         ["outcome_unknown", "host_lost"])
        self.assertEqual(host.children, [])

    def test_a_key_of_the_record_runs_nothing_again(self):  # OP-38, OP-41, D-10
        first = self.restore()
        client = self.prove(first, "alice")
        self.submit(client, self.SESSION, argv=["a"], idempotencyKey="k")
        self.submit(client, self.SESSION, argv=["b"], idempotencyKey="gone")
        self.work.end(self.work.next())
        self.work.end(self.work.next())
        first.round()
        known = [r for r in first.records() if r["type"] == "operation.accepted"]
        self.assertEqual([r["session"] for r in known], [self.SESSION] * 2)
        host = self.restore(
            operations=[{"operation": known[0]["operation"], "sequence": 2,
                         "cause": "completed", "status": "completed", "detail": "0"}],
            admissions=[{m: r[m] for m in ("key", "fingerprint", "operation")} for r in known])
        alice = self.prove(host, "alice")
        reply = self.submit(alice, self.SESSION, argv=["a"], idempotencyKey="k")
        self.assertEqual(reply, {"operation": known[0]["operation"], "existing": True})
        reader = Reader(self, alice, known[0]["operation"]).read()
        self.assertEqual([e["type"] for e in reader.events], ["accepted", "completed"])
        self.assertEqual(self.refused_submit(alice, self.SESSION, argv=["x"],
                                             idempotencyKey="k"), "already_exists")
        # It is known that it was submitted, and nothing else any more.
        self.assertEqual(self.refused_submit(alice, self.SESSION, argv=["b"],
                                             idempotencyKey="gone"), "replay_expired")
        self.assertEqual(host.children, [])

    def test_as_many_keys_as_one_may_have_are_taken_over_and_cost_nobody_else_any(self):  # OP-38
        digests = [hashlib.sha256(b"%d" % i).digest() for i in range(131072)]
        host = self.restore(admissions=[{"key": d, "fingerprint": d, "operation": "op-1"}
                                        for d in digests])
        alice, bob = self.prove(host, "alice"), self.prove(host, "bob")
        other = alice.call("session.acquire")["session"]["id"]
        for session, bound in ((self.SESSION, "65536"), (other, "131072")):
            msgid = alice.request("operation.submit", kind="command", session=session,
                                  argv=["a"], idempotencyKey="new")
            error, _ = alice.expect_reply(msgid)
            self.assertEqual(error["code"], "resource_exhausted")
            self.assertIn(bound + " are known", error["message"])
        self.assertEqual(self.refused(alice, "session.acquire", idempotencyKey="new"),
                         "resource_exhausted")
        # Without a key it goes on, and others have theirs.
        self.submit(alice, other, argv=["a"])
        self.work.end(self.work.next())
        again = [bob.call("session.acquire", idempotencyKey="new") for _ in range(2)]
        self.assertEqual([a.get("existing", False) for a in again], [False, True])
        reply = self.submit(bob, again[0]["session"]["id"], argv=["b"], idempotencyKey="new")
        self.assertNotIn("existing", reply)
        self.work.end(self.work.next())

    def test_a_failure_that_says_more_than_its_cause_says_it_again(self):  # OP-16
        host = self.restore(operations=[
            {"operation": "op-1", "kind": "deleteFile", "sequence": 2, "cause": "failed",
             "status": "failed", "reason": "not_found"}])
        alice = self.prove(host, "alice")
        reader = self.attach(alice, "op-1").read()
        self.assertEqual((reader.terminal["type"], reader.terminal["body"]["code"]),
                         ("failed", "not_found"))
        self.assertEqual(self.show(alice, "op-1")["state"], "failed")

    def test_keys_that_make_no_sense_stop_the_broker(self):
        whole = {"session": self.SESSION, "key": bytes(32), "fingerprint": bytes(32),
                 "operation": "op-1"}
        for member, value in (("key", b"x"), ("fingerprint", None), ("operation", "o" * 60)):
            admission = {k: v for k, v in {**whole, member: value}.items() if v is not None}
            host = Host(runtimes=[SHELL], sessions=1, state={"admissions": [admission]})
            self.assertTrue(host.settled.wait(TIMEOUT), member)
            self.assertFalse(host.ready.is_set())
            host.close()


if __name__ == "__main__":
    unittest.main()
