"""Who a client is, and what it may: over the network, by what it proves; at the local socket, by
its uid.

The broker is the real one; the test is its supervisor, and the gateway, which may claim what it
likes.  Each attack is followed by a neighbour that is served as before, and no token is ever
written anywhere (D-12).
"""

import os
import unittest

from broker_host import (DONE, FROM_GATEWAY, FROM_SOCKET, grant, invoke, ok, principal, runtime,
                         serve)
from principals_case import ADMIN, ALICE, BOB, CARD, Case, UID, digest
from wire import Closed, frame

PRINCIPALS_ONLY = (
    ("operation.submit", {"kind": "turn", "message": 1}),
    ("operation.attach", {}),
    ("operation.attach", {"operation": "op-1"}),
    ("operation.stop", {"operation": "op-1"}),
    ("operation.signal", {"operation": "op-1", "signo": 15}),
)
OPERATORS_ONLY = (
    ("process.list", {}),
    ("grant.issue", {"id": "g", "subject": "agent:test", "capabilities": []}),
    ("grant.revoke", {"id": "g"}),
    ("grant.list", {"cursor": 0, "limit": 10}),
    ("grant.why", {"subject": "agent:test", "tool": "files.read", "arguments": {}}),
    ("escalation.list", {"cursor": 0}),
)
NOTIFICATIONS = (
    ("input.write", {"operation": "op-1", "data": b"x"}),
    ("input.close", {"operation": "op-1"}),
    ("output.close", {"operation": "op-1", "stream": "stdout"}),
)


class Proof(Case):  # D-14, OP-19
    def test_nothing_is_served_before_a_proof(self):
        host = self.host()
        # What a gateway's link claims to be says nothing: not even the operator's uid.
        for claim in ({}, {"uid": os.getuid(), "gid": os.getgid(), "pid": os.getpid()},
                      {"uid": UID}, {"uid": 0}):
            peer = self.gateway(host, **claim)
            for method, params in (*PRINCIPALS_ONLY, *OPERATORS_ONLY):
                self.refused(peer, "unauthenticated", method, **params)
            for method, params in NOTIFICATIONS:
                peer.notify(method, **params)
            self.refused(peer, "unauthenticated", "process.list")  # the link lives
            peer.close()
        self.served(host)

    def test_a_link_of_both_kinds_is_the_gateways(self):
        host = self.host()
        peer = host.client(flags=FROM_GATEWAY | FROM_SOCKET)
        self.refused(peer, "unauthenticated", "process.list")
        self.served(host)

    def test_a_token_says_who_it_is(self):
        host = self.host()
        for token, id, operator in ((ALICE, "human:alice", False), (BOB, "human:bob", False),
                                    (ADMIN, "human:admin", True)):
            _, reply = self.proven(host, token)
            self.assertEqual(reply, {"principal": id, "operator": operator})

    def test_a_certificate_says_who_it_is(self):
        host = self.host()
        _, reply = self.proven(host, certificate=CARD)
        self.assertEqual(reply["principal"], "human:bob")
        self.refused(self.gateway(host), "unauthenticated", "principal.prove",
                     certificate=b"d" * 32)
        # The digest of a token is no certificate's, and the other way round.
        self.refused(self.gateway(host), "unauthenticated", "principal.prove",
                     certificate=digest(ALICE))

    def test_a_token_and_a_certificate_have_to_be_the_same_principals(self):
        host = self.host()
        _, reply = self.proven(host, token=BOB, certificate=CARD)
        self.assertEqual(reply["principal"], "human:bob")
        for shown in ({"token": ALICE, "certificate": CARD},
                      {"token": BOB, "certificate": b"d" * 32},
                      {"token": "wrong", "certificate": CARD}):
            self.refused(self.gateway(host), "unauthenticated", "principal.prove", **shown)

    def test_a_wrong_token_is_nobodys(self):
        host = self.host()
        flipped = [ALICE[:i] + chr(ord(ALICE[i]) ^ 1) + ALICE[i + 1:]
                   for i in (0, len(ALICE) // 2, len(ALICE) - 1)]
        for token in (*flipped, ALICE[:-1], ALICE + "x", " " + ALICE,
                      ALICE.upper(), digest(ALICE).hex(), "*", "x" * 4096):
            peer = self.gateway(host)
            error = self.refused(peer, "unauthenticated", "principal.prove", token=token)
            self.assertFalse(error["retryable"])
            self.refused(peer, "unauthenticated", "process.list")
            peer.close()
        _, reply = self.proven(host)
        self.assertEqual(reply["principal"], "human:alice")
        self.served(host)

    def test_every_refusal_of_a_proof_is_the_same(self):
        host = self.host()
        said = {self.error(self.gateway(host), "principal.prove", token=t)["message"]
                for t in ("x", ALICE[:-1], ALICE + "x", BOB[::-1])}
        self.assertEqual(len(said), 1, said)

    def test_a_malformed_proof_ends_the_link(self):
        host = self.host()
        for params in ({"token": ""}, {"token": "x" * 4097}, {"token": 1},
                       {"certificate": b"c" * 31}, {"certificate": b"c" * 33},
                       {"token": ALICE + "\0"}, {"certificate": "c" * 32}, {"token": ALICE, "uid": 0},
                       {"token": ALICE, "principal": "human:alice"}):
            peer = self.gateway(host)
            peer.request("principal.prove", **params)
            self.assertTrue(peer.closed(), params)
        peer = self.gateway(host)
        body = frame([0, 1, "principal.prove", [{"token": "abcd"}]])
        peer.send_raw(body.replace(b"abcd", b"\xff\xfe\xfd\xfc"))  # no UTF-8
        self.assertTrue(peer.closed())
        _, reply = self.proven(host)
        self.assertEqual(reply["principal"], "human:alice")

    def test_three_wrong_proofs_end_the_link(self):
        host = self.host()
        peer = self.gateway(host)
        for params in ({"token": "a"}, {"certificate": bytes(32)}, {"token": "b"}):
            self.refused(peer, "unauthenticated", "principal.prove", **params)
        self.assertTrue(peer.closed())
        peer = self.gateway(host)
        self.refused(peer, "unauthenticated", "principal.prove", token="a")
        self.refused(peer, "invalid_argument", "principal.prove")
        peer.call("principal.prove", token=ALICE)  # the third was right
        # Sent in one piece: what stands behind the third is never looked at.
        peer = self.gateway(host)
        peer.send_raw(b"".join(frame([0, n, "principal.prove", [{"token": token}]])
                               for n, token in enumerate(("a", "b", "c", ALICE), 9)))
        answers = []
        with self.assertRaises(Closed):
            while True:
                answers.append(peer.receive()[2])
        self.assertEqual([a["code"] for a in answers], ["unauthenticated"] * 3)

    def test_who_it_is_is_proven_once(self):
        host = self.host()
        peer, _ = self.proven(host)
        for token in (ALICE, ADMIN, "wrong"):
            for _ in range(2):
                self.refused(peer, "failed_precondition", "principal.prove", token=token)
        self.refused(peer, "permission_denied", "process.list")  # still alice
        self.refused(host.client(), "failed_precondition", "principal.prove", token=ALICE)
        self.refused(host.client(uid=UID), "failed_precondition", "principal.prove",
                     token=ADMIN)

    def test_connections_of_a_principal_are_bounded(self):
        host = self.host()
        first, _ = self.proven(host, BOB)
        second, _ = self.proven(host, BOB)
        third = self.gateway(host)
        self.refused(third, "resource_exhausted", "principal.prove", token=BOB)
        self.refused(third, "resource_exhausted", "principal.prove", certificate=CARD)
        self.refused(third, "unauthenticated", "process.list")
        self.proven(host, ALICE)  # another has its own
        first.close()
        host.round()
        _, reply = self.proven(host, BOB)
        self.assertEqual(reply["principal"], "human:bob")
        second.close()


class Operator(Case):  # D-18
    def test_a_principal_is_not_the_operator(self):
        host = self.host()
        for peer in (self.proven(host)[0], host.client(uid=UID)):
            for method, params in OPERATORS_ONLY:
                error = self.refused(peer, "permission_denied", method, **params)
                self.assertIn("human:alice is not the operator of this daemon, who is uid "
                              f"{os.getuid()}", error["message"])
            error = self.refused(peer, "permission_denied", "operation.submit", kind="turn",
                                 message=1)
            self.assertIn("acquire a session", error["message"])
        self.assertFalse([r for r in host.records() if r["type"] == "operation.accepted"])
        self.served(host)

    def test_over_the_network_only_a_principal_that_says_so_is(self):
        host = self.host(grants=[grant("g", ["docs"], ["read"])])
        peer, _ = self.proven(host, ADMIN)
        self.assertEqual({g["id"] for g in peer.call("grant.list", cursor=0, limit=9)["grants"]},
                         {"run", "g"})
        turn, _ = peer.turn(message=1)
        self.assertEqual(turn["status"], "succeeded")

    def test_the_authoritys_name_over_the_network_is_nobody_special(self):
        host = self.host(principals=[principal("human:op", tokens=[digest(ALICE)])])
        peer, reply = self.proven(host)
        self.assertEqual(reply, {"principal": "human:op", "operator": False})
        self.refused(peer, "permission_denied", "process.list")
        self.served(host)

    def test_what_the_operator_did_over_the_network_has_its_name_on_record(self):
        host = self.host()
        peer, _ = self.proven(host, ADMIN)
        peer.call("grant.issue", id="new", subject="agent:test", capabilities=[
            {"namespace": "workspace", "path": ["a"], "scope": "exact", "actions": ["read"]}])
        peer.call("grant.revoke", id="new")
        with host.client() as local:
            local.call("grant.revoke", id="run")
        found = {(r["type"], r["grant"]): (r.get("principal"), r.get("by"))
                 for r in host.records() if r["type"] in ("grant.issued", "grant.revoked")}
        self.assertEqual(found, {("grant.issued", "new"): ("human:admin", None),
                                 ("grant.revoked", "new"): ("human:admin", None),
                                 ("grant.revoked", "run"): (None, os.getuid())})

    def test_a_principal_may_not_watch_the_operators_operations(self):
        release = []
        host = self.host(worker=runtime(lambda child, params: release.append(child)))
        owner = host.client()
        operation = owner.submit(message=1)
        for peer in (self.proven(host)[0], host.client(uid=UID)):
            self.refused(peer, "not_found", "operation.attach")
            self.refused(peer, "not_found", "operation.attach", operation=operation)
            self.refused(peer, "not_found", "operation.stop", operation=operation)
            self.refused(peer, "not_found", "operation.signal", operation=operation, signo=15)
            for method, params in NOTIFICATIONS:
                peer.notify(method, **{**params, "operation": operation})
        owner.call("operation.stop", operation=operation, kill=True)
        self.assertEqual(owner.finish()["type"], "failed")


class Stats(Case):
    def stats(self, peer):
        return peer.call("stats.read")["stats"]

    def test_the_gateway_itself_and_the_operator_may_read_them(self):
        host = self.host()
        for peer in (self.gateway(host), host.client(), self.proven(host, ADMIN)[0]):
            self.assertEqual(self.stats(peer)["journal_available"], 1)
        for peer in (self.proven(host)[0], host.client(uid=UID), host.client(uid=UID + 1)):
            self.refused(peer, "permission_denied", "stats.read")
        gateway = self.gateway(host)
        self.stats(gateway)  # which proves nothing
        self.refused(gateway, "unauthenticated", "operation.attach")

    def test_they_count_what_happened(self):
        def work(child, params):
            for n, path in enumerate(("docs", "secret", "docs", "lost")):
                invoke(child, "files.read", id=str(n), path=path)
            invoke(child, "files.nothing", id="9", path="x")
            child.peer.notify("output.write", operation=child.operation, stream="stdout",
                              data=b"hello")
            return DONE

        host = self.host(worker=runtime(work), grants=[grant("g", [], ["read"])],
                         ceiling=[{"namespace": "workspace", "path": ["secret"],
                                   "scope": "descendants", "actions": ["*"]}],
                         provider=serve(lambda p: ok() if p["path"] == ["docs"] else {
                             "status": "failed", "error": {
                                 "code": "not_found", "message": "", "retryable": False}}))
        gateway = self.gateway(host)
        before = self.stats(gateway)
        self.assertEqual(before["accepted_turns"] + before["calls_succeeded"], 0)
        with host.client() as peer:
            peer.turn(message=1)
            self.refused(peer, "not_found", "operation.attach", operation="op-1")
        self.refused(self.gateway(host), "unauthenticated", "principal.prove", token="wrong")
        self.proven(host)
        host.round()
        after = self.stats(gateway)
        self.assertEqual(sorted(after), sorted(before))
        self.assertEqual({k: after[k] - before[k] for k in (
            "accepted_turns", "accepted_commands", "ended_succeeded", "ended_failed",
            "calls_succeeded", "calls_failed", "calls_denied", "children_workers",
            "children_providers", "refused_not_found", "refused_unauthenticated",
            "refused_other", "proofs_right", "proofs_wrong", "clients_local",
            "clients_gateway", "open_clients_local")},
            {"accepted_turns": 1, "accepted_commands": 0, "ended_succeeded": 1,
             "ended_failed": 0, "calls_succeeded": 2, "calls_failed": 1, "calls_denied": 2,
             "children_workers": 1, "children_providers": 1, "refused_not_found": 1,
             "refused_unauthenticated": 1, "refused_other": 0, "proofs_right": 1,
             "proofs_wrong": 1, "clients_local": 1, "clients_gateway": 2,
             "open_clients_local": 0})
        self.assertEqual(after["events"] - before["events"], len(peer.events) - 1)
        self.assertEqual(after["output_bytes"] - before["output_bytes"], 5)
        self.assertGreater(after["journal_records"], before["journal_records"] + 5)
        self.assertGreater(after["journal_syncs"], before["journal_syncs"])


class Local(Case):  # D-14
    def test_a_uid_is_the_principal_that_names_it(self):
        host = self.host()
        with host.client(uid=UID) as peer:
            self.refused(peer, "permission_denied", "process.list")
            self.refused(peer, "not_found", "operation.attach", operation="op-1")

    def test_a_uid_that_nothing_names_is_nobody(self):
        host = self.host()
        for uid in (UID + 1, 65534, 4294967294):
            with host.client(uid=uid) as peer:
                for method, params in (*PRINCIPALS_ONLY, *OPERATORS_ONLY):
                    error = self.refused(peer, "permission_denied", method, **params)
                    self.assertIn(f"uid {uid} is not the operator of this daemon",
                                  error["message"])
        self.served(host)

    def test_connections_of_a_uid_are_bounded(self):
        host = self.host(principals=[principal("human:a", uids=[UID], connections=1)])
        first = host.client(uid=UID)
        self.refused(first, "not_found", "operation.attach")
        error = self.refused(host.client(uid=UID), "resource_exhausted", "operation.attach")
        self.assertTrue(error["retryable"])
        first.close()
        host.round()
        self.refused(host.client(uid=UID), "not_found", "operation.attach")
        for _ in range(3):  # the operator's are the supervisor's to bound
            self.refused(host.client(), "not_found", "operation.attach", operation="x")


if __name__ == "__main__":
    unittest.main()
