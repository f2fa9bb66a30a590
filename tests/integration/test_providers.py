"""One provider for all sessions: the real broker, and a provider that does as a test needs."""

import contextlib
import errno
import os
import queue
import random
import threading
import unittest

from broker_host import PROVIDER, REFUSED, Host, grant, ok, runtime, serve, tool
from wire import Closed, TIMEOUT

READ = tool("files.read")
DOCS = grant("g-docs", ["docs"], ["read"])
ROUNDS = int(os.environ.get("CAISSON_TEST_ROUNDS", 6))  # of chance


class Calls:
    """A provider that hands its calls to the test, which answers them when it likes."""

    def __init__(self, stays=False):
        self.stays = stays  # lives on without a link
        self.seen, self.cancelled, self.children = queue.Queue(), queue.Queue(), queue.Queue()

    def __call__(self, child):
        self.children.put(child)
        child.peer.hello("provider")
        while True:
            try:
                m = child.peer.receive(timeout=600)
            except Closed:
                if self.stays:
                    child.killed.wait(TIMEOUT)
                raise
            if m[0] == 2:
                self.cancelled.put(m[2][0]["call"])
            else:
                self.seen.put((child, m[1], m[3][0]))

    def next(self):
        return self.seen.get(timeout=TIMEOUT)

    @staticmethod
    def answer(call, output, **more):
        child, msgid, params = call
        child.peer.reply(msgid, **{"callId": params["call"], **ok(output), **more})


class Refusing(Host):
    """Its first `refusals` providers are refused."""

    refusals = 2  # one as the session begins, one as its call waits

    def spawn(self, c):
        if c["kind"] == PROVIDER and self.refusals > 0:
            self.refusals -= 1
            self.tell(REFUSED, kind=PROVIDER, session=c["session"], index=c["index"], layer=1,
                      error=errno.EAGAIN)
        else:
            super().spawn(c)


class Shared(unittest.TestCase):
    def host(self, worker, provider, kind=Host, **config):
        config.setdefault("tools", [READ])
        host = kind(worker=worker, provider=provider, shared=True, grants=[DOCS], **config)
        self.addCleanup(host.__exit__, None)
        return host

    def started(self, host):
        return [c for c in host.children if c.key["kind"] == PROVIDER]

    def submit(self, host, paths, **more):
        client = host.client()
        client.operation = client.submit(message=paths, **more)
        return client

    def by_message(self):
        """A runtime that asks for the paths of its message."""
        def work(child, params):
            ids = {child.peer.request("tool.invoke", operation=child.operation, id=str(n),
                                      tool="files.read", arguments={"path": path}): path
                   for n, path in enumerate(params["message"])}
            found = []
            while len(found) < len(ids):
                m = child.peer.receive(timeout=600)
                if m[0] == 1:
                    found.append((ids[m[1]], m[3]))
            return {"status": "complete", "output": [
                [path, r["status"], r.get("output", r.get("error", {}).get("code"))]
                for path, r in found]}
        return runtime(work)

    def output(self, client):
        return client.finish(client.operation)["body"]["turn"]["output"]

    def tool_records(self, host, **members):
        return [r for r in host.records() if r["type"] == "tool.invoked" and
                all(r.get(k) == v for k, v in members.items())]

    # -- one process, many sessions

    def test_calls_of_several_sessions_are_in_flight_on_one_link(self):
        calls = Calls()
        host = self.host(self.by_message(), calls)
        clients = [self.submit(host, [f"docs/{n}"]) for n in range(4)]
        there = [calls.next() for _ in clients]
        self.assertEqual(len({id(child) for child, _, _ in there}), 1)
        # Answered in the order that is least like the one in which they came.
        for call in sorted(there, key=lambda c: c[1], reverse=True):
            calls.answer(call, "/".join(call[2]["path"]))
        for n, client in enumerate(clients):
            self.assertEqual(self.output(client), [[f"docs/{n}", "succeeded", f"docs/{n}"]])
        # It outlives them all, and the next session finds it.
        late = self.submit(host, ["docs/next"])
        calls.answer(calls.next(), "there")
        self.assertEqual(self.output(late), [["docs/next", "succeeded", "there"]])
        self.assertEqual(len(self.started(host)), 1)

    def test_it_is_drained_and_goes_of_itself_at_the_end(self):
        calls = Calls()
        host = self.host(self.by_message(), calls)
        client = self.submit(host, ["docs/a"])
        calls.answer(calls.next(), 1)
        self.output(client)
        status, log = host.close()
        self.assertEqual((status, log), (0, ""))
        self.assertTrue(host.settled.is_set())
        self.assertFalse([k for k in host.kills if k["kind"] == PROVIDER], "end-of-file was enough")

    def test_one_that_stays_at_the_end_is_killed(self):
        there = threading.Event()

        def stays(child):
            child.peer.hello()
            there.set()
            child.killed.wait(TIMEOUT)
        host = self.host(self.by_message(), stays)
        host.client().submit(message=["docs/a"])
        self.assertTrue(there.wait(TIMEOUT))
        self.assertEqual(host.close()[0], 0)
        self.assertEqual(len([k for k in host.kills if k["kind"] == PROVIDER]), 1)

    def test_a_supervisor_that_is_gone_takes_it_along(self):
        calls = Calls()
        host = self.host(self.by_message(), calls)
        self.submit(host, ["docs/a"])
        calls.next()
        host.control.shutdown(2)
        self.assertEqual(host.process.wait(TIMEOUT), 0)

    # -- whose turn it is

    def test_places_go_round_between_sessions(self):
        calls = Calls()
        host = self.host(self.by_message(), calls, concurrency=1, durability="relaxed")
        many = self.submit(host, [f"docs/many-{n}" for n in range(6)])
        first = calls.next()
        one = self.submit(host, ["docs/one"])
        while len([r for r in host.records() if "call" in r]) < 7:
            host.round()
        host.round()  # what is on record stands in its lane
        order = [first[2]["path"][1]]
        calls.answer(first, 0)
        while len(order) < 7:
            call = calls.next()
            order.append(call[2]["path"][1])
            calls.answer(call, 0)
        self.assertLessEqual(order.index("one"), 2, order)
        self.output(one), self.output(many)

    def test_a_session_at_its_share_does_not_starve_another(self):
        calls = Calls()
        host = self.host(self.by_message(), calls, concurrency=8)
        greedy = self.submit(host, [f"docs/{n}" for n in range(16)])
        held = [calls.next() for _ in range(6)]  # a quarter of the places is not for it
        host.round()
        self.assertTrue(calls.seen.empty())
        for n in range(3):
            other = self.submit(host, [f"docs/other-{n}"])
            call = calls.next()
            self.assertEqual(call[2]["path"], ["docs", f"other-{n}"])
            calls.answer(call, n)
            self.assertEqual(self.output(other)[0][1:], ["succeeded", n])
        for call in held:
            calls.answer(call, "held")
        for _ in range(10):
            calls.answer(calls.next(), "late, and yet")
        self.assertEqual(len(self.output(greedy)), 16)

    # -- ends

    def test_the_end_of_a_session_cancels_only_its_own_calls(self):
        calls = Calls()
        host = self.host(self.by_message(), calls)
        stays, goes = self.submit(host, ["docs/stays"]), None
        kept = calls.next()
        goes = self.submit(host, ["docs/goes-1", "docs/goes-2"])
        gone = [calls.next() for _ in range(2)]
        goes.call("operation.stop", operation=goes.operation)
        goes.finish(goes.operation)
        self.assertEqual({calls.cancelled.get(timeout=TIMEOUT) for _ in range(2)},
                         {c[2]["call"] for c in gone})
        calls.answer(kept, "kept")
        self.assertEqual(self.output(stays), [["docs/stays", "succeeded", "kept"]])
        self.assertTrue(calls.cancelled.empty())

    def test_a_late_result_is_recorded_when_its_session_is_gone(self):  # D-2
        calls = Calls()
        host = self.host(self.by_message(), calls)
        client = self.submit(host, ["docs/a"])
        call = calls.next()
        client.call("operation.stop", operation=client.operation)
        client.finish(client.operation)
        worker = next(c for c in host.children if c.key["kind"] != PROVIDER)
        self.assertTrue(worker.over.wait(TIMEOUT))
        host.round()
        calls.answer(call, "too late")
        again = self.submit(host, ["docs/b"])
        calls.answer(calls.next(), 2)
        self.assertEqual(self.output(again), [["docs/b", "succeeded", 2]])
        late, = self.tool_records(host, cause="late")
        first, = self.tool_records(host, cause="outcome_unknown")
        self.assertEqual((late["call"], late["operation"], late["tool"], late["actor"]),
                         (call[2]["call"], client.operation, "files.read", "agent:test"))
        self.assertEqual(first["call"], late["call"])

    def test_a_place_is_lost_shown_and_given_back(self):  # D-9
        calls = Calls()
        host = self.host(self.by_message(), calls, concurrency=4)
        client = self.submit(host, ["docs/a"])
        call = calls.next()
        client.call("operation.stop", operation=client.operation)
        client.finish(client.operation)
        while "1 of its 4 places are lost" not in host.log_text():
            host.round()
        self.assertFalse([k for k in host.kills if k["kind"] == PROVIDER], "it serves others")
        other = self.submit(host, ["docs/b"])
        calls.answer(calls.next(), "still serves")
        self.assertEqual(self.output(other)[0][1:], ["succeeded", "still serves"])
        calls.answer(call, "too late")
        host.round()
        # Four places again.
        last = [self.submit(host, [f"docs/{n}"]) for n in range(4)]
        for c in [calls.next() for _ in last]:
            calls.answer(c, "all")
        for c in last:
            self.assertEqual(self.output(c)[0][2], "all")
        self.assertEqual(len(self.started(host)), 1)

    def test_one_whose_places_are_all_lost_is_made_again(self):
        calls = Calls()
        host = self.host(self.by_message(), calls, concurrency=1)
        client = self.submit(host, ["docs/never"])
        calls.next()
        waits = self.submit(host, ["docs/waits"])
        client.call("operation.stop", operation=client.operation)
        client.finish(client.operation)
        child, _, params = call = calls.next()
        self.assertEqual((params["path"], len(self.started(host))), (["docs", "waits"], 2))
        calls.answer(call, "served")
        self.assertEqual(self.output(waits)[0][1:], ["succeeded", "served"])

    # -- deaths

    def test_a_death_ends_what_was_dispatched_and_what_waits_goes_on(self):  # D-10
        calls = Calls()
        host = self.host(self.by_message(), calls, concurrency=2)
        clients = [self.submit(host, [f"docs/{n}"]) for n in range(4)]
        died = [calls.next() for _ in range(2)]
        host.round()
        died[0][0].finish(x_kind=2, x_status=9)
        for _ in range(2):
            calls.answer(calls.next(), "by the next one")
        found = sorted(self.output(c)[0][1:] for c in clients)
        self.assertEqual(found, [["failed", "interrupted"]] * 2 +
                         [["succeeded", "by the next one"]] * 2)
        self.assertEqual(len(self.tool_records(host, cause="outcome_unknown")), 2)
        self.assertEqual(len(self.started(host)), 2)

    def test_a_refusal_fails_what_waits_and_is_not_forever(self):
        calls = Calls()
        host = self.host(self.by_message(), calls, kind=Refusing)
        client = self.submit(host, ["docs/a"])
        self.assertEqual(self.output(client)[0][1:], ["failed", "tool_execution_failed"])
        client = self.submit(host, ["docs/b"])
        calls.answer(calls.next(), "now")
        self.assertEqual(self.output(client)[0][1:], ["succeeded", "now"])

    # -- a provider that is hostile: typed for whom it hits, nothing for the others (D-5)

    def hostile(self, act, expected, dies, stays=False):
        """Session one meets `act`; session two is in flight, session three comes later."""
        calls = Calls(stays)
        host = self.host(self.by_message(), calls)
        one = self.submit(host, ["docs/one"])
        first = calls.next()
        two = self.submit(host, ["docs/two"])
        second = calls.next()
        act(first, second)
        self.assertEqual(self.output(one)[0][1:], expected)
        if dies:
            self.assertEqual(self.output(two)[0][1:], ["failed", "interrupted"])
        else:
            calls.answer(second, "mine")
            self.assertEqual(self.output(two)[0][1:], ["succeeded", "mine"])
        three = self.submit(host, ["docs/three"])
        calls.answer(calls.next(), 3)
        self.assertEqual(self.output(three)[0][1:], ["succeeded", 3])
        self.assertEqual(len(self.started(host)), 1 + dies)
        host.round()
        return host

    def test_anothers_id_is_charged_to_the_call_that_it_answers(self):
        def act(first, second):
            Calls.answer(first, "stolen", callId=second[2]["call"])
        self.hostile(act, ["failed", "invalid_tool_result"], False)

    def test_a_denial_is_not_its_to_give(self):
        def act(first, second):
            first[0].peer.reply(first[1], callId=first[2]["call"], status="denied",
                                error={"code": "no_matching_grant", "message": ""})
        self.hostile(act, ["failed", "invalid_tool_result"], False)

    def test_a_result_that_is_too_large(self):  # D-3
        self.hostile(lambda first, second: Calls.answer(first, b"x" * (800 << 10)),
                     ["failed", "invalid_tool_result"], False)

    def test_a_result_that_is_too_deep(self):
        deep = []
        for _ in range(26):
            deep = [deep]
        self.hostile(lambda first, second: Calls.answer(first, deep),
                     ["failed", "invalid_tool_result"], False)

    def test_a_second_reply_is_a_fault(self):
        def act(first, second):
            Calls.answer(first, "once")
            Calls.answer(first, "twice")
        host = self.hostile(act, ["succeeded", "once"], True)
        self.assertIn("provider p broke the protocol", host.log_text())

    def test_a_reply_to_nothing_is_a_fault(self):
        def act(first, second):
            first[0].peer.reply(77777, callId="c-1", **ok(1))
        self.hostile(act, ["failed", "interrupted"], True)

    def test_a_request_of_its_own_is_a_fault(self):
        def act(first, second):
            first[0].peer.request("tool.invoke", operation="op", id="1", tool="files.read",
                                  arguments={})
        self.hostile(act, ["failed", "interrupted"], True)

    def test_bytes_that_are_no_frame(self):
        self.hostile(lambda first, second: first[0].peer.send_raw(b"\xff" * 64),
                     ["failed", "interrupted"], True)

    def test_a_link_that_is_closed_by_one_who_lives_on(self):
        def act(first, second):
            first[0].peer.sock.shutdown(2)
        host = self.hostile(act, ["failed", "interrupted"], True, stays=True)
        self.assertEqual(len([k for k in host.kills if k["kind"] == PROVIDER]), 1)

    def test_a_flood_of_words_is_bounded(self):
        def flood(child):
            child.peer.hello()
            m = child.peer.receive()
            for _ in range(40):
                try:
                    os.write(child.stderr, b"a word too many\n" * 4096)
                except OSError:
                    return
            child.peer.reply(m[1], callId=m[3][0]["call"], **ok("said"))
            child.killed.wait(TIMEOUT)
        host = self.host(self.by_message(), flood)
        self.assertEqual(self.output(self.submit(host, ["docs/a"]))[0][1:],
                         ["succeeded", "said"])
        host.round()
        self.assertLess(len(host.log_text()), 4000)
        self.assertIn("says too much", host.log_text())

    def test_one_that_never_answers_keeps_nobody_beyond_the_deadline(self):
        host = self.host(self.by_message(), serve(lambda p: None), concurrency=2)
        one = self.submit(host, ["docs/a"], timeoutMs=300)
        two = self.submit(host, ["docs/b"], timeoutMs=300)
        for client in (one, two):
            self.assertEqual(client.finish()["body"]["cause"]["kind"], "deadline")

    def test_whatever_dies_and_whenever_each_call_ends_once(self):  # D-2
        for seed in range(ROUNDS):
            with self.subTest(seed=seed):
                self.at_random(random.Random(seed))

    def at_random(self, chance):
        """Sessions come, are cancelled and meet deadlines; providers answer, answer late, die,
        lose their link, or say what they may not."""
        calls, clients, held = Calls(stays=chance.random() < 0.3), [], []
        host = self.host(self.by_message(), calls, concurrency=chance.choice([1, 3, 8]),
                         killGraceMs=chance.choice([0, 20, 200]))
        for n in range(24):
            act = chance.choice(["submit", "submit", "answer", "answer", "stop", "die", "close",
                                 "lie", "round"])
            with contextlib.suppress(queue.Empty):
                while True:
                    held.append(calls.seen.get_nowait())
            if act == "submit":
                clients.append(self.submit(host, [f"docs/{n}-{i}" for i in range(4)],
                                           timeoutMs=chance.choice([50, 400, 1500])))
            elif act == "stop" and clients:
                client = chance.choice(clients)
                client.request("operation.stop", operation=client.operation)
            elif act in ("answer", "lie") and held:
                call = held.pop(chance.randrange(len(held)))
                with contextlib.suppress(Closed, OSError):
                    calls.answer(call, n, **({"callId": "c-1"} if act == "lie" else {}))
            elif act in ("die", "close") and self.started(host):
                child = self.started(host)[-1]
                if act == "die":
                    child.finish(x_kind=2, x_status=9)
                else:
                    with contextlib.suppress(OSError):
                        child.peer.sock.shutdown(2)
            else:
                host.round()
        for client in clients:
            self.assertEqual(client.finish(client.operation)["operation"], client.operation)
        decided = [r["call"] for r in host.records() if r["type"] == "authorization.checked" and
                   r["outcome"] == "allowed" and "call" in r]
        ended = [r["call"] for r in host.records() if r["type"] == "tool.invoked" and
                 r.get("cause") != "late"]
        self.assertEqual(sorted(ended), sorted(decided))
        status, log = host.close()
        self.assertEqual(status, 0, log)
        self.assertNotIn("Sanitizer", log)
        self.assertNotIn("runtime error", log)


if __name__ == "__main__":
    unittest.main()
