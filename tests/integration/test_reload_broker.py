"""A configuration that follows another one, at the broker: what it refuses, and when what counts."""

import random
import threading
import unittest

import wire
from broker_host import (Hold, Host, TURN, config_frames, grant, invoke, ok, runtime, serve,
                         tool)
from real import wait_for
from wire import Closed, TIMEOUT, frame

TOOLS = [tool("files.read"), tool("files.write", effect="write", action="write")]
DOCS = grant("g-docs", ["docs"], ["read"])
INVAL, EXIST, PROTO = 22, 17, 71
NONE, RUNTIME, PROVIDER, TOOL, GRANT = range(5)
ROUNDS = 40
STOPS = wire.BUILD / "stops" / "libexec" / "caisson-broker"
PLAN = "CAISSON_JOURNAL_PLAN"


class Leash:
    """A worker that makes the calls which the test asks for."""

    def __init__(self):
        self.gone = threading.Event()
        self.ready = threading.Event()

    def work(self, child, params):
        self.child, self.tools = child, [t["name"] for t in params["tools"]]
        self.ready.set()
        self.gone.wait(TIMEOUT)
        return {"status": "complete", "output": None}


class Case(unittest.TestCase):
    def host(self, leashes, provider=None, **config):
        waiting = iter(leashes)
        config.setdefault("tools", TOOLS)
        config.setdefault("grants", [DOCS])

        def worker(child):
            runtime(next(waiting).work)(child)
        host = Host(worker=worker, provider=provider or serve(lambda p: ok("text")), **config)
        self.addCleanup(self.close, host)
        return host

    def close(self, host):
        """Whatever a sanitizer has to say, it says now."""
        if host.process.returncode is None:
            status, log = host.close()
            self.assertEqual(status, 0, log)
            self.assertNotIn("Sanitizer", log)

    def begin(self, host, leash):
        client = host.client()
        client.submit(runtime="test")
        self.assertTrue(leash.ready.wait(TIMEOUT), host.log_text())
        return client

    def answer(self, host):
        return host.answers.get(timeout=TIMEOUT)

    def taken(self, host, generation, **config):
        config.setdefault("tools", TOOLS)
        self.assertTrue(host.ready.wait(TIMEOUT), host.log_text())
        host.offer(generation, **config)
        c = self.answer(host)
        self.assertEqual((c["error"], c["generation"]), (0, generation), host.log_text())


class Lives(Case):
    def test_what_began_goes_on_and_its_generation_is_over_with_it(self):
        a, b = Leash(), Leash()
        host = self.host([a, b])
        client = self.begin(host, a)
        self.taken(host, 1, tools=TOOLS[:1], grants=[DOCS, grant("w", ["docs"], ["write"])])
        self.taken(host, 2, tools=TOOLS, grants=[DOCS, grant("w", ["docs"], ["write"])])
        host.round()
        self.assertEqual(host.over, [1])  # nothing began under it
        other = self.begin(host, b)
        self.assertEqual([c.spawn["generation"] for c in host.children if
                          c.spawn["kind"] == TURN], [0, 2])
        self.assertEqual((a.tools, b.tools), (["files.read"], ["files.read", "files.write"]))
        self.assertEqual(invoke(a.child, "files.read", path="docs")["status"], "succeeded")
        self.assertEqual(invoke(b.child, "files.write", path="docs")["status"], "succeeded")
        a.gone.set()
        client.finish()
        while 0 not in host.over:
            host.round()
        self.assertEqual(invoke(b.child, "files.read", path="docs")["status"], "succeeded")
        self.assertEqual(host.over, [1, 0])
        b.gone.set()
        other.finish()

    def test_orders_of_a_session_name_its_own(self):
        a = Leash()
        host = self.host([a])
        client = self.begin(host, a)
        self.taken(host, 7, grants=[])
        a.gone.set()
        client.finish()
        while not host.kills:
            host.round()
        self.assertEqual({k["generation"] for k in host.kills}, {0})

    def test_it_is_on_record_before_any_decision_by_it(self):  # D-11
        a = Leash()
        host = self.host([a])
        self.taken(host, 1, grants=[DOCS, grant("w", ["docs"], ["write"])])
        types = [r["type"] for r in host.records()]
        self.assertEqual(types, ["segment.opened", "broker.started", "configuration.reloaded"])
        client = self.begin(host, a)
        a.gone.set()
        client.finish()


class Refuses(Case):
    def refused(self, host, error, kind, index, **offer):
        host.offer(**offer)
        c = self.answer(host)
        self.assertEqual((c["error"], c["kind"], c["index"]), (error, kind, index),
                         host.log_text())

    def test_what_is_wrong_with_it_is_named_and_nothing_changes(self):
        a = Leash()
        host = self.host([a])
        client = self.begin(host, a)
        bad = {"type": "object", "properties": {"path": {"type": "nothing"}}}
        good = config_frames(tools=TOOLS, grants=[DOCS], generation=1)
        for offer, error, kind, index in (
                (dict(generation=1, frames=good[:-4]), INVAL, NONE, 0),
                (dict(generation=1, frames=b""), INVAL, NONE, 0),
                (dict(generation=1, frames=good + frame([2, "config.end", [{}]])), INVAL, NONE, 0),
                (dict(generation=1, tools=[TOOLS[0], dict(TOOLS[1], input=bad)]),
                 INVAL, TOOL, 1),
                (dict(generation=1, tools=[dict(TOOLS[0], provider=9)]), INVAL, TOOL, 0),
                (dict(generation=1, tools=TOOLS, grants=[DOCS, grant("x", [".."], ["r"])]),
                 INVAL, GRANT, 2),
                (dict(generation=1, namespace="other"), INVAL, NONE, 0),
                (dict(generation=1, authority="human:x"), INVAL, NONE, 0),
                (dict(generation=1, owner="human:x"), INVAL, NONE, 0),
                (dict(generation=1, durability="relaxed"), INVAL, NONE, 0),
                (dict(generation=1, revocation="next_turn"), INVAL, NONE, 0),
                (dict(generation=1, key=b"x" * 32), INVAL, NONE, 0),
                (dict(generation=1, operator=77), INVAL, NONE, 0),
                (dict(generation=0), INVAL, NONE, 0),
                (dict(generation=2, frames=good), PROTO, NONE, 0)):
            with self.subTest(offer=str(offer)[:80]):
                self.refused(host, error, kind, index, **offer)
                self.assertEqual(invoke(a.child, "files.read", path="docs")["status"],
                                 "succeeded")
        self.assertEqual(host.over, [])
        self.taken(host, 1, grants=[DOCS])  # and the good neighbour of all these
        a.gone.set()
        client.finish()
        self.assertEqual([r["type"] for r in host.records()].count("configuration.reloaded"), 1)

    def test_the_id_of_a_grant_that_the_operator_gave(self):
        a = Leash()
        host = self.host([a])
        operator = host.client()
        operator.call("grant.issue", id="theirs", subject="agent:test", capabilities=[
            {"namespace": "workspace", "path": ["docs"], "scope": "descendants",
             "actions": ["write"]}])
        self.refused(host, EXIST, GRANT, 2, generation=1, tools=TOOLS,
                     grants=[DOCS, grant("theirs", ["docs"], ["read"])])
        self.assertIn("theirs", host.log_text())
        self.taken(host, 1, grants=[])
        client = self.begin(host, a)
        self.assertEqual(a.tools, ["files.write"])  # what was given stays
        a.gone.set()
        client.finish()

    def test_what_is_revoked_on_record_no_file_gives_back(self):  # D-7
        leashes = [Leash() for _ in range(3)]
        host = self.host(leashes)
        operator = host.client()
        operator.call("grant.revoke", id="g-docs")
        for i, grants in enumerate(([DOCS], [], [DOCS])):
            self.taken(host, i + 1, grants=grants)
            client = self.begin(host, leashes[i])
            self.assertEqual(leashes[i].tools, [])
            leashes[i].gone.set()
            client.finish()


class Silent:
    """A provider that says hello, and then nothing: the test reads its link."""

    def __init__(self):
        self.arrived = threading.Event()

    def __call__(self, child):
        child.peer.hello("provider")
        self.peer = child.peer
        self.arrived.set()
        child.over.wait(TIMEOUT)

    def calls(self):
        """Those whose frames are there now."""
        found = []
        try:
            while True:
                m = self.peer.receive(0.001)
                if m[0] == 0 and m[2] == "tool.call":
                    found.append(m)
        except (TimeoutError, Closed):
            return found


class Revokes(Case):
    def test_no_effect_starts_after_the_answer(self):  # D-7
        """A call and a reload without its grant, in whatever order chance brings them."""
        effects = 0
        for i in range(ROUNDS):
            chance = random.Random(i)
            a, provider = Leash(), Silent()
            host = self.host([a], provider=provider)
            self.begin(host, a)
            provider.arrived.wait(TIMEOUT)
            calls = [lambda n=n, a=a: a.child.peer.request(
                "tool.invoke", operation=a.child.operation, id=f"c{n}", tool="files.read",
                arguments={"path": "docs"}) for n in range(4)]
            first = chance.randrange(len(calls) + 1)
            for call in calls[:first]:
                call()
            # In half of the rounds one is under way.
            before = wait_for(lambda p=provider: len(p.calls()), "a call") \
                if i % 2 and first else 0
            host.offer(1, tools=TOOLS, grants=[])
            for call in calls[first:]:
                call()
            self.assertEqual(self.answer(host)["error"], 0)
            before += len(provider.calls())
            for _ in range(3):
                host.round()
            self.assertEqual(len(provider.calls()), 0, f"round {i}: {before} before the answer")
            effects += before
            types = [(r["type"], r.get("outcome")) for r in host.records()]
            # What was decided before stands before it; what is denied afterwards, behind it.
            self.assertNotIn(("authorization.checked", "allowed"),
                             types[types.index(("configuration.reloaded", None)):])
            a.gone.set()
            self.close(host)
        self.assertGreater(effects, 0)


@unittest.skipUnless(STOPS.exists(), "the build with stops is not there")
class Disk(Case):
    """With a disk that fails or waits by plan (broker/journal_plan.c)."""

    def stalled(self, revocation):
        """What becomes of a call whose grant goes while its decision waits for the disk."""
        a, provider, hold = Leash(), Silent(), Hold(self)
        # 1: accepted, 2: admitted, 3: the decision.
        host = self.host([a], provider=provider, program_path=str(STOPS), revocation=revocation,
                         env={PLAN: f"sync:3={hold.text}"}, **hold.host)
        client = self.begin(host, a)
        self.assertTrue(provider.arrived.wait(TIMEOUT))
        msgid = a.child.peer.request("tool.invoke", operation=a.child.operation, id="c",
                                     tool="files.read", arguments={"path": "docs"})
        wait_for(lambda: [r for r in host.records() if "call" in r], "the decision")
        host.offer(1, tools=TOOLS, grants=[], killGraceMs=Hold.PATIENCE_MS,
                   revocation=revocation)
        host.round()
        hold.release()
        self.assertEqual(self.answer(host)["error"], 0)
        host.round()
        return host, client, a, msgid, provider.calls()

    def test_a_grant_that_goes_while_its_call_waits_for_the_disk(self):  # D-7
        host, client, a, msgid, calls = self.stalled("immediate")
        error, result = a.child.peer.expect_reply(msgid)
        self.assertEqual((error, result["status"], result["error"]["code"], calls),
                         (None, "denied", "no_matching_grant", []))
        a.gone.set()
        client.finish()  # an outcome rides with what is written next
        types = [(r["type"], r.get("outcome")) for r in host.records()
                 if "call" in r or r["type"] == "configuration.reloaded"]
        self.assertEqual(types, [("authorization.checked", "allowed"),
                                 ("configuration.reloaded", None),
                                 ("tool.invoked", "denied")])

    def test_for_the_next_turn_it_is_kept(self):  # D-7
        _, _, a, _, calls = self.stalled("next_turn")
        self.assertEqual(len(calls), 1)
        a.gone.set()

    def test_an_outage_of_the_journal_stops_no_reload(self):
        a = Leash()
        host = self.host([a], program_path=str(STOPS), env={PLAN: "sync:1=EIO"})
        self.taken(host, 1, grants=[DOCS, grant("w", ["docs"], ["write"])])
        self.assertIn("not on record before the journal can be written again", host.log_text())
        client = host.client()

        def admitted():
            error, _ = client.expect_reply(client.request("operation.submit", kind="turn",
                                                          runtime="test"))
            if error is None:
                return True
            self.assertEqual((error["code"], error["retryable"]), ("audit_unavailable", True))
            return False
        wait_for(admitted, "another segment")
        self.assertTrue(a.ready.wait(TIMEOUT), host.log_text())
        self.assertEqual(a.tools, ["files.read", "files.write"])
        types = [r["type"] for r in host.records()]
        self.assertLess(types.index("configuration.reloaded"),
                        types.index("operation.accepted"))
        a.gone.set()
        client.finish()


if __name__ == "__main__":
    unittest.main()
