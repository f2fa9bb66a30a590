"""Who a client is, and what it may: over the network, by what it proves; at the local socket, by
its uid.

The broker is the real one; the test is its supervisor, and the gateway, which may claim what it
likes.  Each attack is followed by a neighbour that is served as before.
"""

import hashlib
import os
import unittest

from broker_host import (DONE, FROM_GATEWAY, FROM_SOCKET, Host, grant, invoke, ok, principal,
                         runtime, serve, tool)
from test_sessions import Commands
from wire import Closed, TIMEOUT, frame

ALICE, BOB, ADMIN, CARD = "al-token-0123456789", "bob-token-0123456789", "adm-token", b"c" * 32
UID = 54321  # of a person at the local socket


def digest(token):
    return hashlib.sha256(token.encode()).digest()


PRINCIPALS = (
    principal("human:alice", tokens=[digest(ALICE)], uids=[UID], runtimes=["test"]),
    principal("human:bob", tokens=[digest(BOB)], certificates=[CARD], connections=2),
    principal("human:admin", tokens=[digest(ADMIN)], operator=True),
)
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


class Case(unittest.TestCase):
    def host(self, **config):
        config.setdefault("principals", PRINCIPALS)
        config.setdefault("tools", [tool("files.read")])
        config.setdefault("worker", runtime(lambda child, params: DONE))
        config.setdefault("provider", serve(lambda params: ok()))
        host = Host(**config)
        self.addCleanup(host.__exit__, None, None, None)
        self.addCleanup(self.check_silence, host)
        return host

    def check_silence(self, host):
        """No token is ever written anywhere: neither in the log nor in the record (D-12)."""
        log, record = host.log_text(), repr(host.records())
        for token in (ALICE, BOB, ADMIN):
            for text in (token, token[:-1], hashlib.sha256(token.encode()).hexdigest()):
                self.assertNotIn(text, log)
                self.assertNotIn(text, record)

    def error(self, peer, method, **params):
        error, result = peer.expect_reply(peer.request(method, **params))
        self.assertIsNone(result, method)
        for token in (ALICE, BOB, ADMIN):
            self.assertNotIn(token[:-1], repr(error))
        return error

    def refused(self, peer, code, method, **params):
        error = self.error(peer, method, **params)
        self.assertEqual(error["code"], code, (method, error))
        return error

    def gateway(self, host, **who):
        return host.client(flags=FROM_GATEWAY, **{"uid": 0, "gid": 0, "pid": 0, **who})

    def proven(self, host, token=ALICE, **shown):
        peer = self.gateway(host)
        reply = peer.call("principal.prove", **(shown or {"token": token}))
        return peer, reply

    def served(self, host):
        """A neighbour, who is the operator at the local socket."""
        with host.client() as peer:
            turn, _ = peer.turn(message=1)
            self.assertEqual(turn["status"], "succeeded")


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


SHELL = {"id": "shell", "version": "1", "kind": "command", "builtin": True}
TURNS = {"id": "test", "version": "1", "kind": "turn"}


class Sessions(Case):
    """What one principal has, another does not even see."""

    def setUp(self):
        self.commands = Commands()
        self.started = []
        self.host = self.host(runtimes=[TURNS, SHELL], sessions=16, principals=(
            principal("human:alice", tokens=[digest(ALICE)], uids=[UID], runtimes=["shell"],
                      sessions=2),
            principal("human:bob", tokens=[digest(BOB)]),
            principal("human:admin", tokens=[digest(ADMIN)], operator=True)),
            worker=lambda child: self.commands(child))
        self.alice, self.bob = self.proven(self.host)[0], self.proven(self.host, BOB)[0]
        self.admin = self.proven(self.host, ADMIN)[0]

    def acquire(self, peer, runtime="shell", **params):
        return peer.call("session.acquire", runtime=runtime, **params)["session"]["id"]

    def submit(self, peer, session):
        return peer.submit(kind="command", session=session, argv=["true"])

    def listed(self, peer):
        return [s["id"] for s in peer.call("session.list", cursor=0, limit=100)["sessions"]]

    def test_each_sees_its_own_and_the_operator_all(self):
        a, b = self.acquire(self.alice), self.acquire(self.bob)
        self.assertEqual(self.listed(self.alice), [a])
        self.assertEqual(self.listed(self.bob), [b])
        with self.host.client() as local, self.host.client(uid=UID) as at_home:
            self.assertEqual(self.listed(local), [a, b])
            self.assertEqual(self.listed(at_home), [a])  # the same principal, by its uid
        self.assertEqual(self.listed(self.admin), [a, b])
        shown = self.admin.call("session.show", session=a)["session"]
        self.assertEqual(shown["principal"], "human:alice")

    def test_anothers_is_as_if_it_were_not_there(self):
        session = self.acquire(self.alice)
        operation = self.submit(self.alice, session)
        self.commands.next()
        there = {}
        for id, op in ((session, operation), ("s-0000000000000001", "op-1")):
            for method, params in (
                    ("session.show", {"session": id}),
                    ("session.heartbeat", {"session": id}),
                    ("session.release", {"session": id, "mode": "immediate"}),
                    ("operation.submit", {"kind": "command", "session": id, "argv": ["true"]}),
                    ("operation.stop", {"operation": op, "kill": True}),
                    ("operation.signal", {"operation": op, "signo": 15}),
                    ("operation.attach", {"operation": op}),
                    ("file.list", {"session": id, "limit": 10}),
                    ("file.read", {"session": id, "path": "a"}),
                    ("file.stat", {"session": id, "path": "a"})):
                error = self.refused(self.bob, "not_found", method, **params)
                # In the same words as what never was.
                self.assertEqual(there.setdefault(method, error), error)
            self.bob.notify("input.write", operation=op, data=b"x")
            self.bob.notify("output.close", operation=op, stream="stdout")
        shown = self.alice.call("session.show", session=session)["session"]
        self.assertEqual((shown["state"], shown["running"]), ("ready", operation))
        self.admin.call("operation.stop", operation=operation, kill=True)
        self.assertEqual(self.alice.finish(operation)["type"], "failed")

    def test_only_runtimes_that_it_has(self):
        error = self.refused(self.alice, "permission_denied", "session.acquire", runtime="test")
        self.assertIn("may not acquire", error["message"])
        self.refused(self.alice, "not_found", "session.acquire", runtime="nothing")
        for peer in (self.bob, self.admin):
            self.acquire(peer, "test")
        with self.host.client(uid=UID) as at_home:
            self.refused(at_home, "permission_denied", "session.acquire", runtime="test")
            self.acquire(at_home)

    def test_as_many_at_once_as_it_may(self):
        first = self.acquire(self.alice)
        with self.host.client(uid=UID) as at_home:  # whichever way it came
            self.acquire(at_home)
        error = self.refused(self.alice, "resource_exhausted", "session.acquire",
                             runtime="shell")
        self.assertTrue(error["retryable"])
        self.acquire(self.bob)  # a neighbour has its own
        self.alice.call("session.release", session=first, mode="immediate", wait=True)
        self.acquire(self.alice)

    def test_a_record_says_for_whom(self):
        session = self.acquire(self.alice)
        operation = self.submit(self.alice, session)
        self.commands.end(self.commands.next())
        self.alice.finish(operation)
        self.alice.call("session.release", session=session, mode="drain", wait=True)
        self.host.round()
        found = {r["type"]: (r.get("session"), r.get("principal")) for r in self.host.records()
                 if r["type"] in ("session.acquired", "operation.accepted",
                                  "session.released")}
        self.assertEqual(found, dict.fromkeys(
            ("session.acquired", "operation.accepted", "session.released"),
            (session, "human:alice")))

    def test_a_principal_that_is_taken_away_leaves_its_sessions_to_the_operator(self):
        session = self.acquire(self.alice)
        operation = self.submit(self.alice, session)
        command = self.commands.next()
        self.host.offer(1, runtimes=[TURNS, SHELL], sessions=16, tools=[tool("files.read")],
                        principals=[principal("human:bob", tokens=[digest(BOB)])])
        self.assertEqual(self.host.answers.get(timeout=TIMEOUT)["error"], 0)
        self.assertTrue(self.alice.closed())
        self.refused(self.bob, "not_found", "session.show", session=session)
        with self.host.client() as local:
            shown = local.call("session.show", session=session)["session"]
            self.assertEqual((shown["principal"], shown["running"]), ("human:alice", operation))
            # It comes back, and finds what is its own; nobody took it over meanwhile.
            self.host.offer(2, runtimes=[TURNS, SHELL], sessions=16, tools=[tool("files.read")],
                            principals=PRINCIPALS)
            self.assertEqual(self.host.answers.get(timeout=TIMEOUT)["error"], 0)
            again, _ = self.proven(self.host)
            self.assertEqual(self.listed(again), [session])
            released = again.request("session.release", session=session, mode="drain", wait=True)
            self.commands.end(command)
            self.assertEqual(again.expect_reply(released)[1]["session"]["state"], "closed")

    def test_a_runtime_that_is_taken_away_takes_no_new_work(self):
        session = self.acquire(self.alice)
        self.host.offer(1, runtimes=[TURNS, SHELL], sessions=16, tools=[tool("files.read")],
                        principals=PRINCIPALS)  # where alice has "test" alone
        self.assertEqual(self.host.answers.get(timeout=TIMEOUT)["error"], 0)
        self.refused(self.alice, "permission_denied", "operation.submit", kind="command",
                     session=session, argv=["true"])
        self.alice.call("session.release", session=session, mode="drain", wait=True)

    def test_numbers_of_sessions(self):
        session = self.acquire(self.alice)
        for _ in range(3):
            self.submit(self.alice, session)
        running = self.commands.next()
        stats = self.gateway(self.host).call("stats.read")["stats"]
        self.assertEqual((stats["open_sessions"], stats["queued_operations"],
                          stats["sessions_acquired"], stats["accepted_commands"]), (1, 2, 1, 3))
        released = self.alice.request("session.release", session=session, mode="immediate",
                                      wait=True)
        self.assertEqual(self.alice.expect_reply(released)[1]["session"]["state"], "closed")
        self.assertTrue(running.killed.is_set() or running.done.is_set())
        self.host.round()
        stats = self.gateway(self.host).call("stats.read")["stats"]
        self.assertEqual((stats["open_sessions"], stats["queued_operations"],
                          stats["queued_bytes"], stats["sessions_released"]), (0, 0, 0, 1))


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


class Reload(Case):
    def reloaded(self, host, principals):
        host.generation = getattr(host, "generation", 0) + 1
        host.offer(host.generation, principals=principals, tools=[tool("files.read")])
        self.assertEqual(host.answers.get(timeout=TIMEOUT)["error"], 0)

    def changed(self, **members):
        """PRINCIPALS, with members of alice changed."""
        return ({**PRINCIPALS[0], **members}, *PRINCIPALS[1:])

    def test_who_is_not_named_any_more_is_cut_off(self):
        for name, principals in (
                ("the principal", PRINCIPALS[1:]),
                ("the token", self.changed(tokens=[digest("another")])),
                ("the token, which is another's now",
                 (PRINCIPALS[0] | {"tokens": []},
                  PRINCIPALS[1] | {"tokens": [digest(BOB), digest(ALICE)]}, PRINCIPALS[2]))):
            with self.subTest(name):
                host = self.host()
                revoked, _ = self.proven(host)
                unproven, (other, _) = self.gateway(host), self.proven(host, BOB)
                self.reloaded(host, principals)
                self.assertTrue(revoked.closed())
                self.refused(other, "permission_denied", "process.list")
                self.refused(unproven, "unauthenticated", "process.list")
                if "another" not in name:
                    self.refused(unproven, "unauthenticated", "principal.prove", token=ALICE)
                self.served(host)

    def test_a_certificate_is_taken_away(self):
        host = self.host()
        card, _ = self.proven(host, certificate=CARD)
        both, _ = self.proven(host, token=BOB, certificate=CARD)
        self.reloaded(host, (PRINCIPALS[0], PRINCIPALS[1] | {"certificates": []},
                             PRINCIPALS[2]))
        self.assertTrue(card.closed())
        self.assertTrue(both.closed())
        self.assertEqual(self.proven(host, BOB)[1]["principal"], "human:bob")

    def test_a_uid_is_taken_away_and_given(self):
        host = self.host()
        first, stranger = host.client(uid=UID), host.client(uid=UID + 1)
        self.refused(stranger, "permission_denied", "operation.attach")
        self.reloaded(host, self.changed(uids=[UID + 1]))
        self.assertTrue(first.closed())
        self.refused(stranger, "not_found", "operation.attach")
        self.served(host)

    def test_an_operator_is_one_no_more(self):
        """What it follows as the operator is followed no further."""
        started = []
        host = self.host(worker=runtime(lambda child, params: started.append(child)))
        peer, _ = self.proven(host, ADMIN)
        other = self.proven(host)[0]
        operation = peer.submit(message=1)
        self.reloaded(host, (*PRINCIPALS[:2], PRINCIPALS[2] | {"operator": False}))
        self.assertTrue(peer.closed())
        again, reply = self.proven(host, ADMIN)
        self.assertFalse(reply["operator"])
        self.refused(again, "permission_denied", "grant.list", cursor=0, limit=9)
        self.refused(again, "not_found", "operation.attach", operation=operation)
        self.reloaded(host, PRINCIPALS)  # and more than it was: it goes on
        again.call("operation.attach", operation=operation)
        again.call("operation.stop", operation=operation, kill=True)
        self.assertEqual(again.finish()["type"], "failed")
        self.refused(other, "permission_denied", "process.list")
        self.reloaded(host, (*PRINCIPALS[:2], PRINCIPALS[2] | {"operator": False}))
        self.assertTrue(again.closed())

    def test_fewer_connections_cut_off_the_oldest(self):
        host = self.host()
        peers = [self.proven(host)[0] for _ in range(3)]
        self.reloaded(host, self.changed(connections=1))
        self.assertTrue(peers[0].closed() and peers[1].closed())
        self.refused(peers[2], "permission_denied", "process.list")

    def test_what_stays_the_same_is_not_cut_off(self):
        host = self.host()
        peer, local = self.proven(host)[0], host.client(uid=UID)
        self.reloaded(host, self.changed(tokens=[digest("more"), digest(ALICE)]))
        self.reloaded(host, PRINCIPALS[::-1])
        self.refused(peer, "permission_denied", "process.list")
        self.refused(local, "permission_denied", "process.list")

    def test_a_configuration_that_is_refused_changes_nothing(self):
        host = self.host()
        peer, _ = self.proven(host)
        twice = (*PRINCIPALS, principal("human:eve", tokens=[digest(ALICE)]))
        for principals in (twice, (principal("human:eve", connections=0),)):
            host.offer(1, principals=principals, tools=[tool("files.read")])
            self.assertNotEqual(host.answers.get(timeout=TIMEOUT)["error"], 0)
        self.refused(peer, "permission_denied", "process.list")
        self.refused(self.gateway(host), "unauthenticated", "principal.prove", token="eve")
        self.served(host)

    def test_an_operation_goes_on_without_the_client_that_is_cut_off(self):
        started = []
        host = self.host(worker=runtime(lambda child, params: started.append(1)))
        peer, _ = self.proven(host, ADMIN)
        operation = peer.submit(message=1)
        self.reloaded(host, PRINCIPALS[:2])
        self.assertTrue(peer.closed())
        with host.client() as local:  # D-4
            local.call("operation.attach", operation=operation)
            local.call("operation.stop", operation=operation, kill=True)
            self.assertEqual(local.finish()["type"], "failed")


if __name__ == "__main__":
    unittest.main()
