"""Sessions that a client acquires: the real broker, its queues, leases and releases."""

import os
import unittest

from broker_host import FOUND, MADE, Host, principal
from sessions_lab import Commands, PLAIN, SHELL, Sessions
from wire import TIMEOUT


class Acquisition(Sessions):
    def test_it_is_on_record_with_a_workspace_before_it_is_answered(self):  # D-1
        with Host(runtimes=[SHELL], sessions=2) as host:
            client = host.client()
            s = client.call("session.acquire", leaseMs=60000, timeoutMs=5000, queue=3)["session"]
            self.assertRegex(s["id"], "^s-[0-9a-f]{16}$")
            self.assertEqual(host.workspaces, [int(s["id"][2:], 16)])
            self.assertEqual((s["runtime"], s["kind"], s["state"], s["principal"]),
                             ("shell", "command", "ready", "human:op"))
            self.assertEqual((s["timeoutMs"], s["queueLimit"], s["queued"], s["operations"]),
                             (5000, 3, 0, 0))
            self.assertEqual((s["workspace"], s["leaseMs"]), (True, 60000))
            self.assertGreater(s["leaseUntil"], s["acquiredAt"] + 50000)
            record, = [r for r in host.records() if r["type"] == "session.acquired"]
            self.assertEqual((record["session"], record["principal"], record["leaseMs"],
                              record["timeoutMs"], record["queue"]),
                             (s["id"], "human:op", 60000, 5000, 3))

    def test_limits_only_shrink_and_none_is_zero(self):  # OP-8
        host = self.host(queue=4, operationTimeoutMs=9000)
        client = host.client()
        s = self.show(client, self.acquire(client, queue=100, timeoutMs=100000))
        self.assertEqual((s["queueLimit"], s["timeoutMs"]), (4, 9000))
        for limit in ("queue", "timeoutMs", "leaseMs"):
            self.assertEqual(self.refused(client, "session.acquire", **{limit: 0}),
                             "invalid_argument")

    def test_there_are_as_many_as_are_configured(self):
        host = self.host(sessions=2)
        client = host.client()
        first = self.acquire(client)
        self.acquire(client)
        self.assertEqual(self.refused(client, "session.acquire"), "resource_exhausted")
        client.call("session.release", session=first, wait=True)
        self.acquire(client)

    def test_without_sessions_in_the_configuration_there_are_none(self):
        host = self.host(sessions=0)
        self.assertEqual(self.refused(host.client(), "session.acquire"), "failed_precondition")

    def test_runtimes_that_have_none(self):
        fixed = {"id": "fixed", "version": "1", "kind": "command"}
        host = self.host(runtimes=[SHELL, fixed])
        client = host.client()
        self.assertEqual(self.refused(client, "session.acquire", runtime="fixed"),
                         "failed_precondition")
        self.assertEqual(self.refused(client, "session.acquire", runtime="no"), "not_found")
        self.assertEqual(self.refused(client, "session.acquire"), "not_found")
        self.acquire(client, runtime="shell")

    def test_a_workspace_that_cannot_be_made(self):
        host = self.host()
        host.workspace_error = 28
        client = host.client()
        self.assertEqual(self.refused(client, "session.acquire"), "unavailable")
        self.assertEqual(host.dropped, [])
        self.assertEqual(self.records(host, "session.acquired"), [])
        s, = client.call("session.list", cursor=0, limit=10)["sessions"]
        self.assertEqual((s["state"], s["cause"]), ("failed", "failed"))

    def test_without_a_record_there_is_none(self):  # OP-7
        r, w = os.pipe()
        segments = [w]
        host = self.host(segment=lambda number: segments.pop() if segments else None,
                         durability="relaxed")
        client = host.client()
        os.close(r)  # from here on nothing can be written
        self.assertEqual(self.refused(client, "session.acquire"), "audit_unavailable")
        host.round()
        self.assertEqual(host.dropped, host.workspaces)
        self.assertEqual(len(host.dropped), 1)
        self.assertEqual(self.refused(client, "session.acquire"), "audit_unavailable")
        self.assertEqual(len(host.workspaces), 1)

    def test_lists_go_by_pages_in_the_order_of_acquisition(self):
        host = self.host()
        client = host.client()
        ids = [self.acquire(client) for _ in range(5)]
        seen, cursor = [], 0
        while True:
            page = client.call("session.list", cursor=cursor, limit=2)
            self.assertLessEqual(len(page["sessions"]), 2)
            seen += [s["id"] for s in page["sessions"]]
            cursor = page["next"]
            if cursor == 0:
                break
        self.assertEqual(seen, ids)
        self.assertEqual(client.call("session.list", cursor=0, limit=9, runtime="x")["sessions"], [])
        self.assertEqual(self.refused(client, "session.list", cursor=0, limit=0),
                         "invalid_argument")

    def test_a_key_acquires_once(self):  # D-10
        host = self.host(sessions=1)
        client = host.client()
        first = client.call("session.acquire", idempotencyKey="k.1", leaseMs=60000)
        self.assertNotIn("existing", first)
        other = host.client()  # the same principal, and the limit is reached
        again = other.call("session.acquire", idempotencyKey="k.1", leaseMs=60000, trace="t2")
        self.assertEqual((again["existing"], again["session"]["id"]),
                         (True, first["session"]["id"]))
        self.assertEqual(self.refused(other, "session.acquire", idempotencyKey="k.1", leaseMs=1),
                         "already_exists")
        self.assertEqual(self.refused(other, "session.acquire", idempotencyKey="k 1"),
                         "invalid_argument")
        self.assertEqual(len(host.workspaces), 1)
        client.call("session.release", session=first["session"]["id"], wait=True)
        again = other.call("session.acquire", idempotencyKey="k.1", leaseMs=60000)
        self.assertEqual((again["existing"], again["session"]["state"]), (True, "closed"))

    def test_a_key_that_is_being_acquired_is_waited_for(self):  # D-10
        class Slow(Host):
            def tell(self, verb, fds=(), **values):
                if verb == MADE:
                    self.held = values
                else:
                    super().tell(verb, fds, **values)
        host = Slow(runtimes=[SHELL], sessions=4)
        self.addCleanup(self.close, host)
        client = host.client()
        ids = [client.request("session.acquire", idempotencyKey="k") for _ in range(2)]
        host.round()
        Host.tell(host, MADE, **host.held)
        results = [client.expect_reply(id)[1] for id in ids]
        self.assertEqual(len({r["session"]["id"] for r in results}), 1)
        self.assertEqual([r.get("existing") for r in results], [None, True])

    def test_a_key_under_which_nothing_was_made_is_free_again(self):  # D-10
        host = self.host()
        host.workspace_error = 28
        client = host.client()
        self.assertEqual(self.refused(client, "session.acquire", idempotencyKey="k"),
                         "unavailable")
        host.workspace_error = 0
        self.assertNotIn("existing", client.call("session.acquire", idempotencyKey="k", queue=2))

    def test_ids_that_are_none(self):
        host = self.host()
        client = host.client()
        self.acquire(client)
        for id in ("s-0000000000000000", "s-", "x", "s-" + "g" * 16, "s-" + "0" * 40):
            self.assertEqual(self.refused(client, "session.show", session=id), "not_found")
            self.assertEqual(self.refused(client, "operation.submit", kind="command", session=id,
                                          argv=["true"]), "not_found")


class Lease(Sessions):
    def test_without_heartbeats_it_is_released(self):  # OP-28
        commands = Commands()
        host = self.host(commands)
        client = host.client()
        s = self.acquire(client, leaseMs=1500)
        self.submit(client, s)
        self.submit(client, s)
        commands.next()
        for _ in range(2):
            e = client.finish()
            self.assertEqual((e["body"]["code"], e["body"]["cause"]["kind"]),
                             ("canceled", "released"))
        client.call("session.release", session=s, wait=True)
        self.assertEqual(self.show(client, s)["cause"], "lease")

    def test_heartbeats_move_it_and_nothing_else_does(self):  # OP-28
        host = self.host(Commands())
        client = host.client()
        s = self.acquire(client, leaseMs=100000)
        before = self.show(client, s)["leaseUntil"]
        self.submit(client, s)
        client.call("session.show", session=s)
        # Both clocks are read again each time: a few ms of rounding, not a renewal.
        self.assertAlmostEqual(self.show(client, s)["leaseUntil"], before, delta=20)
        until = client.call("session.heartbeat", session=s)["leaseUntil"]
        self.assertGreaterEqual(until + 20, before)
        client.call("session.release", session=s, mode="immediate")

    def test_without_a_lease_a_heartbeat_says_so(self):  # OP-28
        host = self.host(Commands())
        client = host.client()
        s = self.acquire(client)
        self.assertEqual(client.call("session.heartbeat", session=s), {})
        self.assertNotIn("leaseMs", self.show(client, s))


class Restart(Sessions):
    RECORD = {"id": "r-1", "type": "session.acquired", "at": 5, "session": "s-00000000000000ab",
              "principal": "human:op", "runtime": "shell", "timeoutMs": 1000, "queue": 2,
              "detail": "command with workspace"}

    def restore(self, **more):
        self.commands = Commands()
        return self.host(self.commands, state={"sessions": [{**self.RECORD, **more}]})

    def test_a_session_of_a_broker_before_comes_back(self):
        host = self.restore(leaseMs=60000)
        client = host.client()
        self.assertEqual(self.refused(client, "operation.submit", kind="command",
                                      session="s-00000000000000ab", argv=["a"]),
                         "failed_precondition")  # its workspace was not found yet
        host.tell(FOUND, workspace=0xab)
        host.tell(FOUND, workspace=0xcd)
        host.round()
        self.assertEqual(host.dropped, [0xcd])  # nobody's
        show = self.show(client, "s-00000000000000ab")
        self.assertEqual((show["state"], show["acquiredAt"], show["timeoutMs"],
                          show["queueLimit"], show["leaseMs"]), ("ready", 5, 1000, 2, 60000))
        self.submit(client, show["id"])
        Commands.end(self.commands.next())
        self.assertEqual(client.finish()["type"], "completed")
        client.call("session.release", session=show["id"], wait=True)
        host.round()
        self.assertEqual(host.dropped, [0xcd, 0xab])

    def test_its_key_is_known(self):  # D-10
        with Host(runtimes=[SHELL], sessions=4) as host:
            client = host.client()
            client.call("session.acquire", idempotencyKey="k")
            record, = [r for r in host.records() if r["type"] == "session.acquired"]
        host = self.host(state={"sessions": [record]})
        client = host.client()
        again = client.call("session.acquire", idempotencyKey="k")
        self.assertEqual((again["existing"], again["session"]["id"]), (True, record["session"]))
        self.assertEqual(self.refused(client, "session.acquire", idempotencyKey="k", queue=1),
                         "already_exists")

    def test_two_under_one_key_leave_it_to_the_first(self):  # D-10
        """No broker writes two; an index that tells them must not take the key from the first."""
        with Host(runtimes=[PLAIN], sessions=4) as host:
            host.client().call("session.acquire", idempotencyKey="k")
            record, = [r for r in host.records() if r["type"] == "session.acquired"]
        others = [{**record, "session": f"s-00000000000000a{n}", "principal": p}
                  for n, p in enumerate((record["principal"], "human:alice"))]
        host = self.host(runtimes=[PLAIN], durability="relaxed",
                         principals=[principal("human:alice")],
                         state={"sessions": [record, *others]})
        client = host.client()
        for other in others:
            client.call("session.release", session=other["session"], wait=True)
        for _ in range(256):  # as many closed ones are kept: those two are forgotten now
            client.call("session.release", session=self.acquire(client), wait=True)
        self.assertEqual(self.refused(client, "session.show", session=others[1]["session"]),
                         "not_found")
        again = client.call("session.acquire", idempotencyKey="k")
        self.assertEqual((again["existing"], again["session"]["id"]), (True, record["session"]))

    def test_a_lease_begins_anew(self):  # OP-28
        host = self.restore(leaseMs=100)
        client = host.client()
        client.call("session.release", session="s-00000000000000ab", wait=True)
        self.assertEqual(self.show(client, "s-00000000000000ab")["state"], "closed")

    def test_a_record_that_makes_no_sense_stops_the_broker(self):
        for member, value in (("session", "x"), ("detail", None), ("queue", None)):
            record = {**self.RECORD, member: value}
            host = Host(runtimes=[SHELL], sessions=1, state={"sessions": [
                {k: v for k, v in record.items() if v is not None}]})
            self.assertTrue(host.settled.wait(TIMEOUT), member)
            self.assertFalse(host.ready.is_set())
            host.close()


if __name__ == "__main__":
    unittest.main()
