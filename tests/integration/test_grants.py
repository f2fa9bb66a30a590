"""Grants that an operator gives, takes, lists and asks about, over the wire (TU-38 to TU-46)."""

import os
import socket
import threading
import time
import unittest

import broker_host
from broker_host import INVOKE, Client, grant, invoke, runtime
from grants_lab import Case, DOCS, TREE, below, capability, ids, issue, listed, reads, refused
from wire import Closed, TIMEOUT


class Issue(Case):
    def test_the_next_turn_has_it(self):  # TU-40
        host = self.host(reads("new/a"))
        client = host.client()
        self.assertEqual(self.output(client), ["no_matching_grant"])
        given = issue(client, below("new"), id="g-new")
        self.assertEqual(given["id"], "g-new")
        self.assertEqual(given["grant"], {
            "id": "g-new", "subject": "agent:test", "issuer": "human:op", "namespace": "default",
            "capabilities": below("new"), "issuedAt": given["at"], "delegationDepth": 0,
            "spent": 0, "origin": "record", "state": "active"})
        self.assertEqual(self.output(client), [""])

    def test_a_turn_that_runs_does_not(self):  # TU-40
        running, given = threading.Event(), threading.Event()

        def work(child, params):
            running.set()
            given.wait(TIMEOUT)
            return {"status": "complete",
                    "output": invoke(child, "files.read", path="new/a")["error"]["code"]}
        host = self.host(runtime(work))
        client = host.client()
        client.submit()
        self.assertTrue(running.wait(TIMEOUT))
        other = host.client()
        issue(other, below("new"))
        given.set()
        self.assertEqual(client.finish()["body"]["turn"]["output"], "no_matching_grant")

    def test_it_is_on_record_before_the_answer(self):  # D-7, D-12
        host = self.host()
        client = host.client()
        given = issue(client, [capability(["a", "b"], ["read", "*"], "exact", owner="human:op")],
                      maxUses=3, purposes=["test", "play"], expiresAt=1 << 45, notBefore=5,
                      delegationDepth=2)
        record, = [r for r in host.records() if r["type"] == "grant.issued"]
        self.assertEqual(len(record.pop("digest")), 32)
        self.assertTrue(record.pop("id"))
        self.assertEqual(record, {
            "type": "grant.issued", "at": given["at"], "namespace": "default",
            "authority": "human:op", "owner": "human:op", "grant": given["id"],
            "subject": "agent:test", "issuer": "human:op", "maxUses": 3,
            "capabilities": given["grant"]["capabilities"], "purposes": ["test", "play"],
            "expiresAt": 1 << 45, "notBefore": 5, "delegationDepth": 2, "by": os.getuid()})
        self.assertRegex(given["id"], r"\Ag-[0-9a-f]{32}\Z")

    def test_minted_ids_differ(self):
        client = self.host().client()
        self.assertEqual(len({issue(client)["id"] for _ in range(20)}), 20)

    def test_an_id_is_used_once(self):
        client = self.host().client()
        issue(client, id="once")
        client.call("grant.revoke", id="once")
        for taken in ("once", "g-docs", "run"):
            code, said = refused(client, "grant.issue", id=taken, subject="agent:test",
                                 capabilities=below("docs"))
            self.assertEqual(code, "already_exists")
            self.assertIn("id:", said)

    def test_two_requests_for_one_id_make_one_grant(self):
        client = self.host().client()
        wanted = dict(id="twin", subject="agent:test", capabilities=below("docs"))
        sent = [client.request("grant.issue", **wanted) for _ in range(2)]
        answers = {}
        while len(answers) < 2:
            m = client.receive()
            answers[m[1]] = m[2] and m[2]["code"]
        self.assertEqual(sorted(map(str, (answers[s] for s in sent))), ["None", "already_exists"])
        self.assertEqual(ids(client).count("twin"), 1)

    def test_what_is_no_grant_is_named(self):  # TU-34, TU-35, TU-38
        client = self.host().client()
        good = dict(subject="agent:test", capabilities=below("docs"))
        one = below("docs")[0]
        rows = [
            ("a subject without a kind", {"subject": "test"}, "subject"),
            ("an issuer without a kind", {"issuer": "op"}, "issuer"),
            ("an id that is not plain", {"id": "a\x01b"}, "id"),
            ("nothing to do", {"capabilities": [{**one, "actions": []}]},
             r"capabilities\[0\].actions"),
            ("a path that climbs", {"capabilities": [one, {**one, "path": [".."]}]},
             r"capabilities\[1\].path"),
            ("a segment with a separator", {"capabilities": [{**one, "path": ["a/b"]}]},
             r"capabilities\[0\].path"),
            ("65 segments", {"capabilities": [{**one, "path": ["a"] * 65}]},
             r"capabilities\[0\].path"),
            ("an owner without a kind", {"capabilities": [{**one, "owner": "op"}]},
             r"capabilities\[0\].owner"),
            ("a scope of its own", {"capabilities": [{**one, "scope": "all"}]},
             r"capabilities\[0\].scope"),
            ("no scope", {"capabilities": [{k: v for k, v in one.items() if k != "scope"}]},
             r"capabilities\[0\].scope"),
            ("an unknown member", {"capabilities": [{**one, "action": "read"}]},
             r"capabilities\[0\]: has an unknown member"),
            ("a member of another type", {"capabilities": [{**one, "path": "docs"}]},
             r"capabilities\[0\].path"),
            ("an action that is a number", {"capabilities": [{**one, "actions": [1]}]},
             r"capabilities\[0\].actions"),
            ("a NUL", {"capabilities": [{**one, "actions": ["a\0b"]}]},
             r"capabilities\[0\].actions"),
            ("a capability that is a text", {"capabilities": ["docs"]}, r"capabilities\[0\]"),
            ("65 capabilities", {"capabilities": [one] * 65}, "capabilities"),
            ("no uses", {"maxUses": 0}, "maxUses"),
            ("a window that is over", {"expiresAt": 1}, "expiresAt"),
            ("a window that never opens", {"notBefore": 1 << 50, "expiresAt": 1 << 49},
             "expiresAt"),
            ("too deep", {"delegationDepth": 16}, "delegationDepth"),
            ("65 purposes", {"purposes": [str(i) for i in range(65)]}, "purposes"),
            ("an empty purpose", {"purposes": [""]}, "purposes"),
            ("larger than a record", {"capabilities": [
                {**one, "actions": ["x" * 100 + str(i) for i in range(64)]}] * 20}, "larger"),
        ]
        before = ids(client)
        for name, change, member in rows:
            with self.subTest(name):
                code, said = refused(client, "grant.issue", **{**good, **change})
                self.assertEqual(code, "invalid_argument", said)
                self.assertRegex(said, member)
        self.assertEqual(refused(client, "grant.issue", subject="agent:test",
                                 capabilities=[])[0], "empty_capabilities")
        self.assertEqual(ids(client), before)
        issue(client)  # and the neighbour is given

    def test_what_is_malformed_ends_the_link(self):  # D-5
        host = self.host()
        good = dict(subject="agent:test", capabilities=below("docs"))
        for change in ({"subject": 1}, {"subject": ""}, {"issuedAt": 1}, {"capabilities": {}},
                       {"maxUses": 1 << 32}, {"id": "x" * 257}, {"expiresAt": -1},
                       {"expiresAt": 1e18}, {"id": "a\0b"}, {"subject": "agent:test\0b"}):
            with self.subTest(change):
                client = host.client()
                with self.assertRaises((Closed, AssertionError, OSError)):
                    client.call("grant.issue", **{**good, **change})
        client = host.client()
        self.assertEqual(ids(client), ["run", "g-docs"])
        issue(client)

    def test_a_stranger_does_nothing(self):  # D-18
        host = self.host()
        mine = host.client()
        a, b = socket.socketpair()
        b.setblocking(False)
        host.tell(broker_host.CLIENT, [b.fileno()], uid=os.getuid() + 4242, gid=1, pid=1)
        b.close()
        stranger = Client(a)
        self.addCleanup(stranger.close)
        stranger.hello("client")
        rows = [("grant.issue", dict(subject="agent:test", capabilities=below("docs"))),
                ("grant.revoke", dict(id="g-docs")), ("grant.list", dict(cursor=0, limit=1)),
                ("grant.why", dict(subject="agent:test", tool="files.read", arguments={}))]
        for method, params in rows:
            self.assertEqual(refused(stranger, method, **params)[0], "permission_denied", method)
        self.assertEqual([(g["id"], g["state"]) for g in listed(mine)],
                         [("run", "active"), ("g-docs", "active")])

    def test_a_client_that_went_gets_its_grant_all_the_same(self):  # D-4
        host = self.host()
        client = host.client()
        client.request("grant.issue", id="orphan", subject="agent:test",
                       capabilities=below("docs"))
        client.request("grant.revoke", id="g-docs")
        client.close()
        client = host.client()
        deadline = time.monotonic() + TIMEOUT
        while "orphan" not in ids(client):
            self.assertLess(time.monotonic(), deadline)
            host.round()
        self.assertEqual(self.output(client), [""])


class Derive(Case):
    """TU-46: what is derived is never wider, and is refused by the word of what is wider."""

    LEAF = grant("leaf", ["tree"], ["read"], subject="human:op", issuer="human:root")
    BOUNDED = grant("bounded", ["tree"], ["read"], subject="human:op", issuer="human:root",
                    delegationDepth=2, maxUses=5)
    LATER = grant("later", ["tree"], ["read"], subject="human:op", issuer="human:root",
                  delegationDepth=2)
    LATER[0]["issuedAt"] = 1 << 45

    def host(self, *args, **config):
        return super().host(*args, **{"grants": [
            TREE, self.LEAF, self.BOUNDED, self.LATER], **config})

    def test_what_is_left_out_is_inherited_and_written_down(self):
        host = self.host(reads("tree/a", "tree/b/c", "elsewhere"))
        client = host.client()
        given = issue(client, below("tree"), parent="root")["grant"]
        self.assertEqual({k: given[k] for k in ("issuer", "parent", "purposes", "notBefore",
                                                "expiresAt", "delegationDepth")},
                         {"issuer": "human:op", "parent": "root", "purposes": ["test", "play"],
                          "notBefore": 5, "expiresAt": 1 << 45, "delegationDepth": 0})
        record, = [r for r in host.records() if r["type"] == "grant.issued"]
        self.assertEqual((record["parent"], record["purposes"], record["expiresAt"]),
                         ("root", ["test", "play"], 1 << 45))
        self.assertEqual(self.output(client), ["", "", "no_matching_grant"])

    def test_what_can_allow_nothing_is_listed_as_such(self):
        host = self.host(reads("tree/a", "new/a"), grants=[
            TREE, grant("else", ["new"], ["read"], issuer="human:other")])
        client = host.client()

        def states():
            return {g["id"]: g["state"] for g in listed(client)}
        issue(client, below("tree"), parent="root", id="child")
        given = issue(client, below("new"), issuer="agent:boss", id="boss")["grant"]
        self.assertEqual(given["state"], "foreign")
        before = states()
        self.assertEqual([before[i] for i in ("root", "child", "else", "boss")],
                         ["foreign", "active", "foreign", "foreign"])
        self.assertEqual(self.output(client), ["", "no_matching_grant"])
        client.call("grant.revoke", id="root")
        after = states()
        self.assertEqual([after[i] for i in ("root", "child")], ["revoked", "orphaned"])
        self.assertNotEqual(self.output(client)[0], "")

    def test_every_way_to_be_wider_is_refused(self):
        client = self.host().client()
        good = dict(parent="root", subject="agent:test", capabilities=below("tree"))
        two = [capability(["tree", "a"], ["read"]), capability(["tree"], ["read"], "exact")]
        rows = [
            ("empty_capabilities", {"capabilities": []}),
            ("id_collides_with_parent", {"id": "root"}),
            ("parent_not_delegable", {"parent": "leaf"}),
            ("depth_exhausted", {"delegationDepth": 2}),
            ("capability_not_within_parent", {"capabilities": below("tre")}),
            ("capability_not_within_parent", {"capabilities": below()}),
            ("capability_not_within_parent", {"capabilities": below("tree", actions=["*"])}),
            ("capability_not_within_parent", {"capabilities": two + below("other")}),
            ("purpose_not_within_parent", {"purposes": ["test", "other"]}),
            ("window_not_within_parent", {"expiresAt": 1 << 46}),
            ("window_not_within_parent", {"notBefore": 4}),
            ("issued_before_parent", {"parent": "later"}),
            ("bounded_parent_not_delegable", {"parent": "bounded"}),
            ("issuer_not_parent_subject", {"issuer": "human:root"}),
            ("not_found", {"parent": "nobody"}),
        ]
        for code, change in rows:
            with self.subTest(code):
                self.assertEqual(refused(client, "grant.issue", **{**good, **change})[0], code)
        issue(client, below("tree"), parent="root")

    def test_a_parent_that_ended_has_no_more_children(self):
        client = self.host().client()
        client.call("grant.revoke", id="root")
        self.assertEqual(refused(client, "grant.issue", parent="root", subject="agent:test",
                                 capabilities=below("tree"))[0], "parent_inactive")

    def test_a_chain_ends_with_its_root(self):
        host = self.host(reads("tree/a"))
        client = host.client()
        issue(client, below("tree"), id="middle", parent="root", subject="human:op",
              delegationDepth=1)
        issue(client, below("tree"), id="end", parent="middle")
        self.assertEqual(self.output(client), [""])
        self.assertEqual(refused(client, "grant.issue", parent="end", subject="agent:x",
                                 capabilities=below("tree"))[0], "parent_not_delegable")
        client.call("grant.revoke", id="root")
        self.assertEqual(self.output(client), ["tool_unavailable"])
        # It has neither expired nor been revoked itself: what ended is above it.
        self.assertEqual([(g["id"], g["state"]) for g in listed(client, subject="agent:test")],
                         [("run", "active"), ("end", "orphaned")])
        why = client.call("grant.why", subject="agent:test", tool="files.read",
                          arguments={"path": "tree/a"})
        self.assertEqual((why["code"], why["cause"], why["detail"], why["closest"]),
                         ("tool_unavailable", "delegation_chain_invalid", "middle", "end"))


class List(Case):
    def test_it_has_everything_in_order(self):
        bounded = grant("bounded", ["log"], ["append"], maxUses=1, purposes=["test"])
        host = self.host(reads("log", name="files.append"), grants=[DOCS, bounded])
        client = host.client()
        issue(client, id="later", notBefore=1 << 45)
        soon = issue(client, id="soon", expiresAt=int(time.time() * 1000) + 50)["at"] + 50
        self.output(client)
        client.call("grant.revoke", id="g-docs")
        while time.time() * 1000 < soon:
            host.round()
        grants = {g["id"]: g for g in listed(client)}
        self.assertEqual(list(grants), ["run", "g-docs", "bounded", "later", "soon"])
        self.assertEqual([g["state"] for g in grants.values()],
                         ["active", "revoked", "exhausted", "pending", "expired"])
        self.assertEqual([g["origin"] for g in grants.values()],
                         ["configuration"] * 3 + ["record"] * 2)
        self.assertEqual((grants["bounded"]["spent"], grants["bounded"]["maxUses"],
                          grants["bounded"]["purposes"]), (1, 1, ["test"]))
        self.assertIn("revokedAt", grants["g-docs"])
        self.assertEqual(grants["run"]["capabilities"], INVOKE[1])

    def test_it_comes_in_pages(self):
        client = self.host().client()
        wanted = ["run", "g-docs"] + [f"g-{i}" for i in range(25)]
        for name in wanted[2:]:
            issue(client, id=name, subject=f"agent:{int(name[2:]) % 2}")
        for limit in (1, 2, 7, 27, 1000):
            self.assertEqual([g["id"] for g in listed(client, limit)], wanted)
        self.assertEqual([g["id"] for g in listed(client, 3, subject="agent:1")],
                         [f"g-{i}" for i in range(1, 25, 2)])
        self.assertEqual(listed(client, subject="agent:nobody"), [])
        self.assertEqual(client.call("grant.list", cursor=1 << 60, limit=5),
                         {"grants": [], "next": 0})
        self.assertEqual(refused(client, "grant.list", cursor=0, limit=0)[0], "invalid_argument")

    def test_pages_are_bounded_by_what_a_frame_holds(self):
        client = self.host().client()
        many = [capability([str(i)] * 30, [f"act-{k}" for k in range(30)]) for i in range(20)]
        sent = [client.request("grant.issue", id=f"g-{i}", subject="agent:x", capabilities=many)
                for i in range(60)]
        for s in sent:
            self.assertIsNone(client.expect_reply(s)[0])
        page = client.call("grant.list", cursor=0, limit=10000)
        self.assertGreater(page["next"], 0)
        self.assertEqual([g["id"] for g in listed(client, 10000)],
                         ["run", "g-docs"] + [f"g-{i}" for i in range(60)])


if __name__ == "__main__":
    unittest.main()
