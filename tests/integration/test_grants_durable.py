"""Grants and what becomes of them when brokers, ledgers and disks fail (D-7, D-10, D-16)."""

import os
import pathlib
import random
import select
import shutil
import tempfile
import threading
import time
import unittest

import test_audit
import test_takeover
from broker_host import JOURNALS, Hold, Host, grant, ok, runtime, serve
from grants_lab import (Case, DOCS, TOOLS, TREE, below, ids, issue, listed, reads, refused)
from outage_lab import PLAN, STOPS, walk
from wire import Closed, TIMEOUT


class Kept(Host):
    """A broker over a run's directory, whose state a real ledger reads from its journal."""

    def __init__(self, run, on_page=None, **config):
        self.run, self.served, self.on_page = run, threading.Event(), on_page
        for name in ("journal", "index"):
            (run / name).mkdir(parents=True, exist_ok=True)
        super().__init__(**{"segment": self.kept_segment, "tools": TOOLS, **config})

    def kept_segment(self, number):
        return os.open(self.run / "journal" / f"journal.{number:08d}",
                       os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL)

    def serve_ledger(self):
        ledger = test_audit.Ledger(self.run)
        try:
            with ledger.link(test_audit.FROM_BROKER) as link:
                while True:
                    msgid, params = self.ledger.expect("state.load")
                    page = link.call("state.load", **params)
                    self.ledger.reply(msgid, **page)
                    if self.on_page:
                        self.on_page(page["next"])
        except (Closed, TimeoutError, OSError):
            pass
        finally:
            ledger.close()
            self.served.set()

    def records(self):
        return [r for _, r in walk(self.run / "journal")]

    def kill(self):
        """The broker is gone, and with it its ledger: another may have the run."""
        self.process.kill()
        self.process.wait()
        assert self.served.wait(TIMEOUT)

    def close(self):
        ended = super().close()
        assert self.served.wait(TIMEOUT)
        return ended


def implied(records):
    """{id: (state, spent)} of the record's grants, in order, and what is revoked besides."""
    grants, revoked, spent = {}, set(), {}
    for r in records:
        if r["type"] == "grant.issued":
            grants.setdefault(r["grant"], r)
        elif r["type"] == "grant.revoked":
            revoked.add(r["grant"])
        elif r["type"] in ("authorization.checked", "grant.usage.released") and "uses" in r:
            sign = 1 if r["type"] == "authorization.checked" else -1
            spent[r["grant"]] = spent.get(r["grant"], 0) + sign * r["uses"]
    found = {}
    for name, r in grants.items():
        used = spent.get(name, 0)
        state = ("revoked" if name in revoked else
                 "exhausted" if used >= r.get("maxUses", 1 << 32) else "active")
        found[name] = (state, used)
    return found, revoked - set(grants)


@unittest.skipUnless(test_audit.LEDGER, "caisson-ledger is not built")
class Durable(Case):
    """What a broker that takes over finds (D-10, D-11, D-16)."""

    CONFIG = [DOCS, grant("spare", ["spare"], ["read"]), TREE]

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="caisson-grants-", dir=JOURNALS)
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)

    def broker(self, run="run", worker=None, grants=None, **config):
        host = Kept(self.dir / run, worker=worker or reads("docs/a"),
                    provider=serve(lambda p: ok()),
                    grants=self.CONFIG if grants is None else grants, **config)
        self.addCleanup(host.__exit__, None, None, None)
        return host

    def found(self, client):
        """As implied(), which says of each grant what became of itself, not of its parent."""
        grants = listed(client)
        return ({g["id"]: (g["state"].replace("orphaned", "active"), g["spent"]) for g in grants if g["origin"] == "record"},
                {g["id"] for g in grants if g["origin"] != "record" and
                 g["state"] == "revoked"})

    def story(self, host):
        """Something of everything."""
        client = host.client()
        issue(client, below("log", actions=["append"]), id="log", maxUses=3)
        issue(client, below("tree"), id="child", parent="root", subject="human:op",
              delegationDepth=1)
        issue(client, below("tree"), id="end", parent="child")
        issue(client, id="lonely", purposes=["play"], expiresAt=1 << 45)
        client.call("grant.revoke", id="spare")
        self.output(client)
        client.call("grant.revoke", id="lonely")
        self.output(client)
        issue(client, id="last", subject="agent:other")
        client.call("grant.revoke", id="child")
        return client

    def test_a_restart_keeps_grants_revocations_and_uses(self):
        work = reads("log/a", name="files.append")
        host = self.broker(worker=work)
        client = self.story(host)
        before = listed(client)
        self.assertEqual([g["spent"] for g in before if g["id"] == "log"], [2])
        host.kill()
        client = self.broker(worker=work).client()
        self.assertEqual(listed(client), before)
        self.assertEqual(self.output(client), [""])  # the third use
        self.assertEqual(self.output(client), ["tool_unavailable"])
        for taken in ("log", "lonely", "spare"):
            self.assertEqual(refused(client, "grant.issue", id=taken, subject="agent:test",
                                     capabilities=below("x"))[0], "already_exists")
        self.assertTrue(client.call("grant.revoke", id="spare")["already"])

    def test_every_prefix_of_a_record_is_taken_over(self):
        host = self.broker("story", worker=reads("log/a", name="files.append"))
        self.story(host)
        host.kill()
        data = (self.dir / "story" / "journal" / "journal.00000001").read_bytes()
        ends, at = [0], 0
        while at < len(data):
            at += 4 + int.from_bytes(data[at:at + 4], "big")
            ends.append(at)
        cuts = {cut for end in ends for cut in (end - 1, end, end + 17) if 0 < cut <= len(data)}
        seen = set()
        for cut in sorted(cuts):
            run = self.dir / f"cut-{cut}"
            (run / "journal").mkdir(parents=True)
            (run / "journal" / "journal.00000001").write_bytes(data[:cut])
            records = [r for _, r in walk(run / "journal")]
            with Kept(run, worker=reads("docs/a"), provider=serve(lambda p: ok()),
                      grants=self.CONFIG) as after:
                self.assertEqual(self.found(after.client()), implied(records), cut)
            seen.add(len(implied(records)[0]))
            shutil.rmtree(run)
        self.assertEqual(seen, {0, 1, 2, 3, 4, 5})

    def test_more_than_a_page_is_taken_over(self):
        host = self.broker()
        client = host.client()
        many = below(*[f"segment-{i}" for i in range(20)], actions=["read", "write"])
        sent = [client.request("grant.issue", id=f"g-{i}", subject="agent:x", capabilities=many)
                for i in range(1500)]
        for s in sent:
            self.assertIsNone(client.expect_reply(s)[0])
        for i in range(0, 1500, 100):
            client.call("grant.revoke", id=f"g-{i}")
        host.kill()
        pages = []
        client = self.broker(on_page=pages.append).client()
        self.assertGreater(len(pages), 1)
        self.assertEqual([(g["id"], g["state"]) for g in listed(client, subject="agent:x")],
                         [(f"g-{i}", "active" if i % 100 else "revoked") for i in range(1500)])

    def test_what_was_answered_survives_any_kill(self):
        chosen, given, gone = random.Random(7), set(), set()
        for round in range(12):
            host = self.broker()
            client = host.client()
            state, _ = self.found(client)
            self.assertLessEqual(given, set(state))
            self.assertEqual({g for g in gone if state[g][0] != "revoked"}, set())
            wanted = [(given, f"g-{round}-{i}") for i in range(40)]
            wanted += [(gone, name) for name in sorted(given - gone)[:10]]
            chosen.shuffle(wanted)
            sent = {}
            for into, name in wanted:
                msgid = (client.request("grant.revoke", id=name) if into is gone else
                         client.request("grant.issue", id=name, subject="agent:test",
                                        capabilities=below("docs")))
                sent[msgid] = (into, name)
            for _ in range(chosen.randrange(len(sent))):
                m = client.receive()
                self.assertIsNone(m[2])
                sent[m[1]][0].add(sent[m[1]][1])
            host.kill()
            host.close()
        self.assertGreater(len(given), 50)
        self.assertGreater(len(gone), 10)

    def test_an_id_that_stands_in_both_stops_the_start(self):
        host = self.broker(grants=[DOCS])
        issue(host.client(), id="both")
        host.kill()
        host = self.broker(grants=[DOCS, grant("both", ["elsewhere"], ["read"])])
        self.assertTrue(host.settled.wait(TIMEOUT))
        self.assertEqual(host.process.wait(TIMEOUT), 0)
        self.assertFalse(host.ready.is_set())
        self.assertRegex(host.log_text(), r"grant both stands in the configuration and in the "
                                          r"record[^\n]*another id")
        # Without the second one all is well.
        self.assertIn("both", ids(self.broker(grants=[DOCS]).client()))

    def test_a_grant_that_left_the_configuration_stays_revoked(self):
        host = self.broker()
        host.client().call("grant.revoke", id="g-docs")
        host.kill()
        host = self.broker(grants=[])
        self.assertNotIn("g-docs", ids(host.client()))
        self.assertTrue(host.client().call("grant.revoke", id="g-docs")["already"])
        self.assertEqual(refused(host.client(), "grant.issue", id="g-docs",
                                 subject="agent:test", capabilities=below("docs"))[0],
                         "already_exists")
        host.kill()
        self.assertEqual(self.output(self.broker().client()), ["no_matching_grant"])

    def test_a_record_of_before_grants_still_loads(self):
        test_audit.Journal(self.dir / "old").story()
        client = self.broker("old").client()
        self.assertEqual(self.found(client), ({}, set()))


class Forged(Case):
    """A ledger that lies: it cannot make a grant (TU-33)."""

    def test_a_grant_that_no_broker_recorded_is_not_believed(self):
        host = self.host(grants=[])
        issue(host.client(), below("new"), id="real")
        record, = [r for r in host.records() if r["type"] == "grant.issued"]
        whole = self.host(reads("new/a"), grants=[], state={"grants": [record]})
        self.assertEqual(self.output(whole.client()), [""])
        lies = [
            {"capabilities": below()}, {"subject": "agent:other"}, {"grant": "other"},
            {"issuer": "human:root"}, {"maxUses": 9}, {"at": record["at"] - 1},
            {"digest": bytes(32)}, {"delegationDepth": 1}, {"purposes": ["test"]},
            {"namespace": "other"}, {"notBefore": 1}, {"expiresAt": 1 << 45},
            {"parent": "root"},
        ]
        for lie in lies:
            with self.subTest(lie):
                host = self.host(grants=[], state={"grants": [{**record, **lie}]})
                self.assertTrue(host.settled.wait(TIMEOUT))
                self.assertFalse(host.ready.is_set())
                self.assertIn("is not believed: its digest", host.log_text())

    def test_a_page_of_nonsense_stops_the_start(self):
        for state in ({"grants": [1]}, {"grants": [{}]}, {"grants": [{"id": "x"}]},
                      {"revocations": [{"grant": "x"}]}, {"revocations": [{"grant": 1, "at": 1}]},
                      {"uses": [{"grant": "x", "spent": "1"}]}):
            with self.subTest(state):
                host = self.host(state=state)
                self.assertTrue(host.settled.wait(TIMEOUT))
                self.assertFalse(host.ready.is_set())

    def test_a_ledger_that_dies_between_pages_tells_it_twice(self):
        host = self.host(grants=[])
        issue(host.client(), below("new"), id="real")
        record, = [r for r in host.records() if r["type"] == "grant.issued"]
        state = {"grants": [record], "revocations": [{"grant": "gone", "at": 5}]}
        twice = test_takeover.DyingLedger(worker=reads("new/a"), provider=serve(lambda p: ok()),
                                          tools=TOOLS, state={"operations": [], **state})
        self.addCleanup(twice.__exit__, None, None, None)
        client = twice.client()
        self.assertEqual(ids(client), ["run", "real"])
        self.assertEqual(self.output(client), [""])


@unittest.skipUnless(STOPS.exists(), "build/stops is not built (make stops)")
class Outage(Case):
    """A journal that cannot be written gives nothing, and takes away at once (D-7, TU-55)."""

    def planned(self, plan, gate=None, worker=None, **config):
        def segment(number):
            if gate and number > 1 and not gate.is_set():
                return None
            return os.open(pathlib.Path(folder.name, f"journal.{number:08d}"),
                           os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL)
        folder = tempfile.TemporaryDirectory(prefix="caisson-grants-", dir=JOURNALS)
        self.addCleanup(folder.cleanup)
        host = self.host(worker, segment=segment, program_path=str(STOPS), env={PLAN: plan},
                         killGraceMs=50, **config)
        host.records = lambda: [r for _, r in walk(folder.name)]
        return host

    def until_it_works(self, host, client):
        deadline = time.monotonic() + TIMEOUT
        while True:
            error, result = client.expect_reply(client.request(
                "grant.issue", subject="agent:x", capabilities=below("x")))
            if error is None:
                return
            self.assertEqual(error["code"], "audit_unavailable")
            self.assertLess(time.monotonic(), deadline)
            select.select([], [], [], 0.02)

    def test_nothing_is_given_that_is_in_no_file(self):
        gate = threading.Event()
        host = self.planned("write:3=ENOSPC", gate)
        client = host.client()
        self.assertEqual(refused(client, "grant.issue", id="lost", subject="agent:test",
                                 capabilities=below("docs"))[0], "audit_unavailable")
        self.assertEqual(refused(client, "grant.issue", id="lost", subject="agent:test",
                                 capabilities=below("docs"))[0], "audit_unavailable")
        self.assertEqual(ids(client), ["run", "g-docs"])
        gate.set()
        self.until_it_works(host, client)
        issue(client, id="lost")  # of which nothing stands anywhere
        host.round()
        self.assertEqual([r["grant"] for r in host.records() if r["type"] == "grant.issued"][-1],
                         "lost")
        self.assertNotIn("grant.revoked", [r["type"] for r in host.records()])

    def test_what_may_stand_all_the_same_is_taken_back(self):
        host = self.planned("sync:1=EIO")
        client = host.client()
        self.assertEqual(refused(client, "grant.issue", id="half", subject="agent:test",
                                 capabilities=below("docs"))[0], "audit_unavailable")
        self.assertEqual(ids(client), ["run", "g-docs"])
        self.until_it_works(host, client)
        self.assertEqual(refused(client, "grant.issue", id="half", subject="agent:test",
                                 capabilities=below("docs"))[0], "already_exists")
        host.round()
        records = host.records()
        self.assertEqual([(r["type"], r.get("cause")) for r in records if
                          r.get("grant") == "half"],
                         [("grant.issued", None), ("grant.revoked", "not_issued")])
        self.assertEqual(implied(records)[0]["half"], ("revoked", 0))

    def test_an_ask_that_it_would_have_resolved_waits_again(self):
        ask = {"id": "r-1", "type": "escalation.requested", "at": 1, "namespace": "default",
               "actor": "agent:test", "owner": "human:op", "escalation": "e-1"}
        host = self.planned("sync:1=EIO", state={"escalations": [
            {"record": ask, "resolved": False}]})
        client = host.client()
        self.assertEqual(refused(client, "grant.issue", id="half", resolves="e-1",
                                 capabilities=below("docs"))[0], "audit_unavailable")
        self.until_it_works(host, client)
        host.round()
        # Here, and at the next start (an_ask_is_pending_until_a_grant_resolves_it).
        self.assertEqual([e["status"] for e in client.call(
            "escalation.list", cursor=0)["escalations"]], ["pending"])
        self.assertEqual([(r["type"], r["escalation"]) for r in host.records() if
                          r.get("grant") == "half"],
                         [("grant.issued", "e-1"), ("grant.revoked", "e-1")])
        self.assertEqual(client.call("grant.issue", id="whole", resolves="e-1",
                                     capabilities=below("docs"))["id"], "whole")
        client.call("grant.revoke", id="whole")
        self.assertNotIn("escalation", host.records()[-1])

    def test_what_is_taken_away_is_gone_at_once(self):
        for plan, gated in (("write:3=ENOSPC", True), ("write:3=short", True),
                            ("sync:1=EIO", True), ("sync:1=EIO", False),
                            ("write:3=EIO", False), ("sync:1=stall/1500", False)):
            with self.subTest(plan=plan, gated=gated):
                gate = threading.Event()
                host = self.planned(plan, gate if gated else None)
                client = host.client()
                asked = client.request("grant.revoke", id="g-docs")
                other = host.client()
                why = other.call("grant.why", subject="agent:test", tool="files.read",
                                 arguments={"path": "docs/a"})
                self.assertEqual((why["allowed"], why["closest"]), (False, "g-docs"))
                error, result = client.expect_reply(asked)
                if error is not None:
                    self.assertEqual(error["code"], "audit_unavailable")
                    self.assertIn("it is revoked in this broker", error["message"])
                gate.set()
                self.until_it_works(host, client)
                self.assertTrue(client.call("grant.revoke", id="g-docs")["already"])
                host.round()
                revoked = [r for r in host.records() if r["type"] == "grant.revoked"]
                self.assertGreaterEqual(len(revoked), 1)
                self.assertEqual(implied(host.records())[1], {"g-docs"})


@unittest.skipUnless(STOPS.exists(), "build/stops is not built (make stops)")
class Interleaved(Case):
    """No effect starts behind the answer to a revocation (D-7)."""

    def test_a_call_whose_record_waits_for_the_disk(self):
        # accepted, admission, decision: the third sync is the call's
        effects, hold = [], Hold(self)
        host = self.host(reads("docs/a"), serve(lambda p: effects.append(p) or ok()),
                         program_path=str(STOPS), env={PLAN: f"sync:3={hold.text}"}, **hold.host)
        client, other = host.client(), host.client()
        client.submit()
        deadline = time.monotonic() + TIMEOUT
        while not [r for r in host.records() if r["type"] == "authorization.checked" and
                   "call" in r]:
            self.assertLess(time.monotonic(), deadline)
            host.round()
        msgid = other.request("grant.revoke", id="g-docs")
        host.round()
        hold.release()
        error, answer = other.expect_reply(msgid)
        self.assertEqual((error, answer["dispatched"]), (None, []))
        self.assertEqual(client.finish()["body"]["turn"]["output"], ["no_matching_grant"])
        self.assertEqual(effects, [])

    def test_whatever_comes_first(self):
        chosen = random.Random(3)
        outcomes = set()
        for n in range(60):
            effects, answered, begun = [], [], threading.Condition()

            def effect(params):
                with begun:
                    effects.append((params["call"], bool(answered)))
                    begun.notify()
                return ok()

            def work(child, params):
                sent = [child.peer.request("tool.invoke", operation=child.operation, id=str(i),
                                           tool="files.read", arguments={"path": f"docs/{i}"})
                        for i in range(8)]
                replies = {}
                while len(replies) < 8:
                    m = child.peer.receive()
                    if m[0] == 1:
                        result = m[3] or {"error": m[2]}  # the turn may be over
                        replies[m[1]] = result.get("error", {}).get("code", "")
                return {"status": "complete", "output": [replies[s] for s in sent]}
            with Host(worker=runtime(work), provider=serve(effect), tools=TOOLS, grants=[DOCS],
                      concurrency=chosen.choice([1, 2, 100])) as host:
                client, other = host.client(), host.client()
                client.submit(**({} if n % 4 else {"timeoutMs": 1 + n}))
                with begun:
                    if n % 4:
                        begun.wait_for(lambda: len(effects) >= n % 8, TIMEOUT)
                named = other.call("grant.revoke", id="g-docs")["dispatched"]
                with begun:
                    answered.append(True)
                event = client.finish()
                host.round()
                late = {call for call, after in effects if after}
                self.assertLessEqual(late, {c["call"] for c in named})
                records = host.records()
            started = {r["call"] for r in records if r["type"] == "tool.invoked" and
                       r.get("outcome") == "succeeded"}
            self.assertLessEqual(started, {call for call, _ in effects})
            outcomes.add((event["type"], len(started) in (0, 8)))
        self.assertGreater(len(outcomes), 1)

if __name__ == "__main__":
    unittest.main()
