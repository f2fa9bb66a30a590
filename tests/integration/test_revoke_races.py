"""A grant is taken away in whatever order with the steps of the calls under it (D-7, D-10).

The test plays runtime, provider, operator and supervisor, and makes one step after the other:
three calls under a grant of two uses, at a provider with one place; the provider says hello; it
answers; the turn ends, or its time is up, at its place in the order or before; another
configuration comes; the grant is revoked.  Each order is a round.
CAISSON_REVOKE_ROUNDS=n makes n orders in each mode, in place of a few.
"""

import contextlib
import os
import random
import threading
import time
import unittest

from broker_host import Hold, Host, INVOKE, grant, serve, tool
from grants_lab import below
from outage_lab import PLAN, STOPS
from wire import Closed, TIMEOUT

ROUNDS = int(os.environ.get("CAISSON_REVOKE_ROUNDS", 50))
MODES = ("immediate", "next_turn")
TOOLS = [tool("files.append", "write", action="append")]
LOG = grant("log", ["log"], ["append"], maxUses=2)
WIDER = grant("log", ["log"], ["append", "read"], maxUses=2)
RELOADS = {"said again": [LOG], "said otherwise": [WIDER], "gone": []}
TOLD = {"", "no_matching_grant", "grant_exhausted", "tool_unavailable", "turn_draining",
        "interrupted"}


class Worker:
    """A runtime whose link is the test's."""

    def __init__(self):
        self.ready, self.codes = threading.Event(), {}

    def __call__(self, child):
        child.peer.hello("worker")
        self.run, params = child.peer.expect("operation.run")
        self.peer, self.operation = child.peer, params["operation"]
        self.ready.set()
        child.over.wait(TIMEOUT)

    def call(self, n):
        with contextlib.suppress(Closed):  # a deadline that came first
            self.peer.request("tool.invoke", operation=self.operation, id=f"c{n}",
                              tool="files.append", arguments={"path": f"log/{n}"})

    def end(self):
        self.peer.reply(self.run, status="complete", output=None)

    def hear(self, until=None, timeout=0.001):
        """Reads what there is, or to the notification `until`; True if that came, or the end."""
        try:
            while True:
                m = self.peer.receive(timeout)
                if m[0] == 1 and m[2] is None and "callId" in (m[3] or {}):
                    self.codes[m[3]["callId"]] = m[3].get("error", {}).get("code", "")
                if m[0] == 2 and m[1] == until:
                    return True
        except (Closed, OSError) as e:
            return not isinstance(e, TimeoutError)

    def told(self):
        """The code of each call that was answered so far, "" for a success."""
        self.hear()
        return self.codes


class Provider:
    """One that says hello and answers when it is told to; every call that reached it is kept."""

    def __init__(self):
        self.hello, self.lock = threading.Event(), threading.Condition()
        self.got, self.answered, self.peer, self.leave = {}, set(), None, False

    def __call__(self, child):
        assert self.hello.wait(TIMEOUT)
        child.peer.hello("provider")
        self.peer = child.peer
        while True:
            m = child.peer.receive()
            if m[0] != 0 or m[2] != "tool.call":
                continue
            with self.lock:
                self.got[m[3][0]["call"]] = m[1]
                if self.leave:
                    self.answer_all()
                self.lock.notify_all()

    def answer_all(self):
        for call, msgid in self.got.items():
            if call not in self.answered:
                self.peer.reply(msgid, callId=call, status="succeeded", output=None)
        self.answered = set(self.got)

    def answer(self, for_good=False):
        with self.lock:
            self.leave = self.leave or for_good
            self.answer_all()

    def calls(self):
        with self.lock:
            return set(self.got)


class Round:
    """One order of steps, at a broker of its own; what must hold however it is."""

    def __init__(self, test, mode, chance):
        self.test, self.mode, self.chance = test, mode, chance
        self.worker, self.provider = Worker(), Provider()
        self.host = Host(self.worker, self.provider, tools=TOOLS, grants=[LOG], concurrency=1,
                         revocation=mode)
        self.named = None
        self.ended = self.reloaded = False
        self.way = chance.choice(["outcome", "cancel", "deadline"])
        self.reload = chance.choice([*RELOADS])

    def order(self):
        """A random one of those that make sense."""
        steps = ["call 0", "call 1", "call 2", "hello", "answer", "revoke"]
        steps += self.chance.choice([[], ["end"], ["reload"], ["reload", "end"]])
        self.chance.shuffle(steps)
        for chain in (["call 0", "call 1", "call 2"], ["hello", "answer"]):
            places = sorted(steps.index(s) for s in chain)
            for place, step in zip(places, chain):
                steps[place] = step
        if "end" not in steps:
            self.way = "outcome"
        return steps

    # ---- the steps -------------------------------------------------------------------------

    def do(self, step):
        kind, _, which = step.partition(" ")
        if kind == "call" and not self.ended:
            self.worker.call(int(which))
        elif kind == "hello":
            self.provider.hello.set()
        elif kind == "answer":
            self.provider.answer()
        elif kind in ("revoke", "reload"):
            getattr(self, "do_" + kind)()
        elif kind == "end":
            self.ended = True
            if self.way == "outcome":
                self.worker.end()
            elif self.way == "deadline":
                self.test.assertTrue(self.worker.hear("operation.cancel", TIMEOUT))
            else:
                self.client.call("operation.stop", operation=self.worker.operation)
        if self.chance.randrange(3):
            self.host.round()

    def do_reload(self):
        self.reloaded = True
        self.host.offer(1, tools=TOOLS, grants=RELOADS[self.reload], concurrency=1,
                        revocation=self.mode)
        self.test.assertEqual(self.host.answers.get(timeout=TIMEOUT)["error"], 0)

    def do_revoke(self):
        self.host.round()  # what was answered is heard
        before = set(self.provider.answered)
        error, result = self.operator.expect_reply(self.operator.request(
            "grant.revoke", id="log"))
        if error is not None:  # its configuration is forgotten, and the grant with it
            self.test.assertEqual((error["code"], self.reload), ("not_found", "gone"))
            self.test.assertTrue(self.ended or self.way == "deadline")
            result = {"dispatched": []}
        self.named = {c["call"] for c in result["dispatched"]}
        self.arrived(self.named)
        self.unanswered = self.provider.calls() - before
        self.at_answer = self.provider.calls()

    # ---- what holds ------------------------------------------------------------------------

    def arrived(self, calls):
        """What the broker has handed over is here, however slow this thread is."""
        with self.provider.lock:
            self.test.assertTrue(self.provider.lock.wait_for(
                lambda: calls <= set(self.provider.got), TIMEOUT))

    def spent(self):
        return [g["spent"] for g in self.operator.call("grant.list", cursor=0, limit=9)["grants"]
                if g["id"] == "log"]

    def check(self):
        test, provider = self.test, self.provider
        test.assertLessEqual(self.named, self.unanswered)
        if self.mode == "immediate":
            for _ in range(2):
                self.host.round()
            # Nothing reached the provider that the answer did not name.
            test.assertEqual(provider.calls() - self.at_answer, set())
            if not self.ended and self.way != "deadline":
                test.assertEqual(self.named, self.unanswered)
        provider.answer(for_good=True)
        if not self.ended:
            for _ in range(3):  # each of the others has its place now
                self.host.round()
            self.worker.end()
        self.client.finish()
        test.assertLessEqual(set(self.worker.told().values()), TOLD)
        decided = {r["call"] for r in self.host.records() if
                   r["type"] == "authorization.checked" and "call" in r}
        test.assertLessEqual(provider.calls(), decided)
        test.assertLessEqual(len(provider.calls()), 2)
        self.check_uses()
        return len(self.named), len(provider.calls() - self.at_answer)

    def check_uses(self):
        """A use is spent by what started, in the end, and by nothing else."""
        deadline = time.monotonic() + TIMEOUT
        if self.reload == "gone" and self.reloaded:
            return
        while self.spent() != [len(self.provider.calls())]:
            self.test.assertLess(time.monotonic(), deadline,
                                 (self.spent(), self.provider.calls()))
            self.host.round()

    def began(self):
        """Waits for the runtime to have its turn; False if the time was up before."""
        deadline = time.monotonic() + TIMEOUT
        while not self.worker.ready.wait(0.01):
            if "operation.ended" in [r["type"] for r in self.host.records()]:
                return False
            self.test.assertLess(time.monotonic(), deadline, self.host.log_text())
        return True

    def run(self):
        with self.host:
            self.client, self.operator = self.host.client(), self.host.client()
            steps = self.order()
            self.client.submit(**({"timeoutMs": self.chance.choice([20, 60, 200])}
                                  if self.way == "deadline" else {}))
            if not self.began():
                return None, (0, 0)
            with self.test.subTest(steps=steps, way=self.way, reload=self.reload,
                                   mode=self.mode):
                for step in steps:
                    self.do(step)
                return steps, self.check()
        return None, (0, 0)


class Orders(unittest.TestCase):
    def rounds(self, mode):
        """(calls that answers named, calls that began behind an answer)"""
        named = behind = 0
        for n in range(ROUNDS):
            _, counts = Round(self, mode, random.Random(n)).run()
            named, behind = named + counts[0], behind + counts[1]
        return named, behind

    def test_no_effect_starts_behind_the_answer(self):  # D-7, D-10, TU-42
        named, behind = self.rounds("immediate")
        self.assertGreater(named, 0)
        self.assertEqual(behind, 0)

    def test_a_turn_that_runs_keeps_it_where_that_is_said(self):  # D-7, TU-41
        named, behind = self.rounds("next_turn")
        self.assertGreater(named, 0)
        self.assertGreater(behind, 0)


@unittest.skipUnless(STOPS.exists(), "build/stops is not built (make stops)")
class Admissions(unittest.TestCase):
    """The admission of a turn is a decision, too."""

    @staticmethod
    def ask(operator, grant):
        """How to hear the error of what is asked here."""
        msgid = operator.request("grant.revoke", id=grant)
        return lambda: operator.expect_reply(msgid)[0]

    def turn(self, mode, config, revoke):
        """Ends one whose admission waits for the disk as what admits it is taken away."""
        worker, hold = Worker(), Hold(self)
        with Host(worker, serve(lambda p: None), tools=TOOLS, revocation=mode,
                  program_path=str(STOPS), env={PLAN: f"sync:2={hold.text}"}, **hold.host,
                  **config) as host:
            client, operator = host.client(), host.client()
            client.submit()
            deadline = time.monotonic() + TIMEOUT
            while "tool.catalog.listed" not in [r["type"] for r in host.records()]:
                self.assertLess(time.monotonic(), deadline)
                host.round()
            answered = revoke(host, operator)
            host.round()
            hold.release()
            self.assertIn(answered(), (None, 0))
            if mode == "next_turn":
                self.assertTrue(worker.ready.wait(TIMEOUT), host.log_text())
                worker.end()
            turn = client.finish()["body"]["turn"]
            host.round()
            return turn, worker.ready.is_set(), host.records()

    def test_a_turn_whose_admission_is_taken_away_does_not_begin(self):  # D-7, TU-14
        def revoke(host, operator):
            return self.ask(operator, "run")

        def reload(host, operator):
            host.offer(1, tools=TOOLS, invoke=False, revocation=mode,
                       killGraceMs=Hold.PATIENCE_MS)
            return lambda: host.answers.get(timeout=TIMEOUT)["error"]
        for mode in MODES:
            for way in (revoke, reload):
                with self.subTest(mode=mode, way=way.__name__):
                    turn, began, records = self.turn(mode, {}, way)
                    self.assertEqual((turn["status"], began), ("denied", False)
                                     if mode == "immediate" else ("succeeded", True))
                    denied = [(r["reason"], r["cause"]) for r in records if
                              r["type"] == "authorization.checked" and
                              r["outcome"] == "denied"]
                    self.assertEqual(denied, [("no_matching_grant", "revoked")]
                                     if mode == "immediate" else [])

    def test_nor_one_whose_chain_is(self):  # D-7, TU-46
        root = ({**INVOKE[0], "id": "root", "subject": "human:op", "issuer": "human:root",
                 "delegationDepth": 1}, INVOKE[1])
        child = ({**INVOKE[0], "parent": "root"}, INVOKE[1])
        turn, began, _ = self.turn(
            "immediate", {"invoke": False, "grants": [root, child]},
            lambda host, operator: self.ask(operator, "root"))
        self.assertEqual((turn["status"], turn["error"]["code"], began),
                         ("denied", "delegation_chain_invalid", False))


class Given(unittest.TestCase):
    def test_a_grant_that_is_being_given_is_not_said_to_be_nowhere(self):  # D-7
        with Host(Worker(), serve(lambda p: None), tools=TOOLS) as host:
            client = host.client()
            issue = client.request("grant.issue", id="new", subject="agent:test",
                                   capabilities=below("docs"))
            revoke = client.request("grant.revoke", id="new")
            error, _ = client.expect_reply(revoke)
            if error is not None:
                self.assertEqual((error["code"], error["retryable"]), ("unavailable", True))
            given = [m for m in client.early if m[1] == issue] or [client.receive()]
            self.assertEqual(given[0][3]["id"], "new")
            # Unless it had been given by then: a sync may take no time.
            self.assertEqual(client.call("grant.revoke", id="new")["already"], error is None)


if __name__ == "__main__":
    unittest.main()
