"""Sessions of principals, and what a reload leaves of them."""

import unittest

from broker_host import principal, runtime, tool
from principals_case import ADMIN, ALICE, BOB, CARD, Case, PRINCIPALS, UID, digest
from sessions_lab import Commands
from wire import TIMEOUT

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
