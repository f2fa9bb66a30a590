"""What a session is given to do: one after the other, until it is released."""

import os
import signal
import unittest

from broker_host import TURN, Host, runtime
from sessions_lab import Commands, PLAIN, Sessions, WORKS
from wire import TIMEOUT


class Queue(Sessions):
    def setUp(self):
        self.commands = Commands()

    def test_operations_run_one_after_the_other_in_their_order(self):  # OP-5, OP-9
        host = self.host(self.commands)
        client = host.client()
        s = self.acquire(client, queue=8)
        ids = [self.submit(client, s, argv=["run", str(i)]) for i in range(4)]
        for i, id in enumerate(ids):
            child = self.commands.next()
            self.assertEqual(child.params["argv"], ["run", str(i)])
            host.round()
            self.assertTrue(self.commands.started.empty())  # the next one waits
            show = self.show(client, s)
            self.assertEqual((show["running"], show["queued"]), (id, 3 - i))
            Commands.end(child, i)
            e = client.finish(id)
            self.assertEqual(e["body"]["command"]["exitCode"], i)
        self.assertEqual(self.commands.most, 1)
        started = [r["operation"] for r in self.records(host, "operation.started")]
        self.assertEqual(started, ids)
        self.assertEqual({r["session"] for r in host.records() if "operation" in r}, {s})

    def test_sessions_do_not_wait_for_each_other(self):
        host = self.host(self.commands)
        client = host.client()
        ids = [self.submit(client, self.acquire(client)) for _ in range(3)]
        children = [self.commands.next() for _ in ids]
        self.assertEqual(len({c.spawn["workspace"] for c in children}), 3)
        for child in children:
            Commands.end(child)
        for _ in ids:
            client.finish()

    def test_accepted_is_the_first_event_and_comes_while_it_waits(self):  # OP-7, OP-13
        host = self.host(self.commands)
        client = host.client()
        s = self.acquire(client)
        self.submit(client, s)
        first = self.commands.next()
        id = self.submit(client, s)
        while True:
            e = client.next_event()
            if e["operation"] == id:
                break
        self.assertEqual((e["type"], e["sequence"], e["body"]["operationID"]),
                         ("accepted", 1, id))
        Commands.end(first)
        Commands.end(self.commands.next())
        e = client.finish(id)
        self.assertEqual(e["sequence"], 2)

    def test_the_third_is_refused_where_one_may_wait(self):  # OP-6, OP-9
        host = self.host(self.commands)
        client = host.client()
        s = self.acquire(client, queue=1)
        ids = [self.submit(client, s), self.submit(client, s)]
        self.assertEqual(self.refused(client, "operation.submit", kind="command", session=s,
                                      argv=["true"]), "resource_exhausted")
        for _ in ids:
            Commands.end(self.commands.next())
        self.assertEqual({client.finish()["operation"] for _ in ids}, set(ids))

    def test_a_queued_one_that_is_cancelled_never_runs(self):  # OP-33
        host = self.host(self.commands)
        client = host.client()
        s = self.acquire(client)
        first, second, third = (self.submit(client, s, argv=[n]) for n in "abc")
        child = self.commands.next()
        client.call("operation.stop", operation=second)
        e = client.finish(second)
        self.assertEqual((e["type"], e["body"]["code"]), ("failed", "canceled"))
        Commands.end(child)
        client.finish(first)
        child = self.commands.next()
        self.assertEqual(child.params["argv"], ["c"])
        Commands.end(child)
        client.finish(third)
        self.assertEqual(len(self.records(host, "operation.started")), 2)

    def test_a_cancel_ends_the_one_that_runs_and_the_next_begins(self):  # OP-30
        host = self.host(self.commands)
        client = host.client()
        s = self.acquire(client)
        first, second = self.submit(client, s), self.submit(client, s)
        child = self.commands.next()
        client.call("operation.stop", operation=first)
        self.assertEqual(client.finish(first)["body"]["code"], "canceled")
        self.assertTrue(child.over.wait(TIMEOUT))
        self.assertEqual([s["error"] for s in host.signals], [signal.SIGTERM])
        Commands.end(self.commands.next())
        self.assertEqual(client.finish(second)["type"], "completed")

    def test_time_counts_from_the_start_and_its_end_is_told_with_what_came(self):  # OP-8, OP-31
        host = self.host(self.commands, operationTimeoutMs=1500)
        client = host.client()
        s = self.acquire(client)
        first, second = self.submit(client, s), self.submit(client, s)
        child = self.commands.next()
        os.write(child.stdout, b"so far")
        e = client.finish(first)
        self.assertEqual((e["type"], e["body"]["code"], e["body"]["command"]["timedOut"]),
                         ("failed", "deadline_exceeded", True))
        self.assertIn(b"so far", [e.get("data") for e in client.events])
        # Its time had been over, if it counted from its admission.
        Commands.end(self.commands.next())
        self.assertEqual(client.finish(second)["type"], "completed")

    def test_what_asks_for_less_time_has_less(self):  # OP-8
        host = self.host(self.commands)
        client = host.client()
        s = self.acquire(client)
        id = self.submit(client, s, argv=["x"], timeoutMs=50)
        self.commands.next()
        self.assertEqual(client.finish(id)["body"]["code"], "deadline_exceeded")

    def test_a_command_gets_all_that_was_said_of_it(self):
        host = self.host(self.commands)
        client = host.client()
        s = self.acquire(client)
        said = {"shell": "cat", "directory": "a/b", "env": {"A": "1"}}
        id = self.submit(client, s, **said, content=b"in")
        child = self.commands.next()
        self.assertEqual(child.params, {**said, "stdin": b"in"})
        self.assertEqual(child.spawn["kind"], TURN)  # it has a link
        self.assertEqual(child.spawn["workspace"], int(s[2:], 16))
        Commands.end(child)
        client.finish(id)

    def test_a_command_that_cannot_be_run(self):
        host = self.host(self.commands)
        client = host.client()
        s = self.acquire(client)
        e = client.finish(self.submit(client, s, argv=["missing"]))
        self.assertEqual((e["type"], e["body"]["code"]), ("failed", "not_found"))
        self.assertEqual(e["body"]["message"], "there is no such program")
        self.assertEqual(e["body"]["command"]["exitCode"], 127)

    def test_a_command_runtime_that_ends_before_it_is_asked(self):
        host = self.host(lambda child: None)
        client = host.client()
        e = client.finish(self.submit(client, self.acquire(client)))
        self.assertEqual((e["type"], e["body"]["cause"]["kind"]), ("failed", "exited"))

    def test_exactly_one_payload_for_its_kind(self):  # OP-10, OP-11
        host = self.host(self.commands)
        client = host.client()
        s = self.acquire(client)
        file = {"kind": "writeFile", "path": "a", "content": b""}
        for params in (
                {"kind": "command"}, {"kind": "command", "argv": ["a"], "shell": "b"},
                {"kind": "command", "argv": []}, {"kind": "command", "argv": [""]},
                {"kind": "command", "argv": [1]}, {"kind": "command", "argv": ["a\0"]},
                {"kind": "command", "argv": ["a"], "env": {"A=": "b"}},
                {"kind": "command", "argv": ["a"], "env": {"A": 1}},
                {"kind": "command", "argv": ["a"], "directory": "../a"},
                {"kind": "command", "argv": ["a"], "path": "x"},
                {"kind": "command", "argv": ["a"], "input": True},
                {"kind": "command", "argv": ["a"], "message": 1},
                {**file, "argv": ["a"]}, {**file, "to": "b"}, {**file, "recursive": True},
                {"kind": "writeFile", "path": "a"}, {"kind": "writeFile", "content": b""},
                {"kind": "renameFile", "path": "a"}, {"kind": "deleteFile"},
                {"kind": "createDirectory", "path": "a", "append": True},
                *({**file, "path": p} for p in ("/a", "a/", "a//b", ".", "a/../b", "..", "a\n"))):
            self.assertEqual(self.refused(client, "operation.submit", session=s, **params),
                             "invalid_argument", params)
        self.assertEqual(self.refused(client, "operation.submit", session=s, kind="turn"),
                         "failed_precondition")
        self.assertEqual(self.refused(client, "operation.submit", kind="command", argv=["a"]),
                         "not_found")  # a built-in runtime has sessions, and nothing without
        self.assertEqual(self.show(client, s)["operations"], 0)
        self.assertEqual(self.records(host, "operation.accepted"), [])

    def test_turns_run_in_the_session_of_their_runtime(self):
        def work(child, params):
            return {"status": "complete", "output": params["message"]}
        host = self.host(runtime(work), runtimes=[PLAIN])
        client = host.client()
        s = self.acquire(client)
        for n in range(3):
            e = client.finish(client.submit(session=s, message=n))
            self.assertEqual(e["body"]["turn"]["output"], n)
        self.assertEqual(self.show(client, s)["operations"], 3)
        self.assertEqual(self.refused(client, "operation.submit", session=s, kind="command",
                                      argv=["a"]), "failed_precondition")
        self.assertEqual(self.refused(client, "operation.submit", session=s, kind="deleteFile",
                                      path="a"), "failed_precondition")  # it has no workspace
        self.assertEqual(host.workspaces, [])

    def test_a_shutdown_ends_its_operations_and_leaves_the_session(self):
        host = self.host(self.commands)
        client = host.client()
        s = self.acquire(client)
        ids = [self.submit(client, s), self.submit(client, s)]
        self.commands.next()
        host.tell(9)
        for id in ids:
            self.assertEqual(client.finish(id)["body"]["cause"]["kind"], "shutdown")
        self.assertTrue(host.settled.wait(TIMEOUT))
        self.assertEqual([r for r in host.records() if r["type"] == "session.released"], [])
        self.assertEqual(host.dropped, [])
        self.assertEqual(len([r for r in host.records() if r["type"] == "operation.started"]), 1)


class Release(Sessions):
    def setUp(self):
        self.commands = Commands()

    def over(self, host, client, s, cause):
        show = self.show(client, s)
        self.assertEqual((show["state"], show["cause"]), ("closed", cause))
        record, = self.records(host, "session.released")
        self.assertEqual((record["session"], record["detail"]), (s, cause))
        self.assertEqual(host.dropped, [int(s[2:], 16)])

    def test_a_drain_lets_all_that_is_admitted_finish(self):  # OP-6, OP-32
        host = self.host(self.commands)
        client = host.client()
        s = self.acquire(client)
        ids = [self.submit(client, s), self.submit(client, s)]
        child = self.commands.next()
        r = client.call("session.release", session=s)["session"]
        self.assertEqual(r["state"], "closing")
        waits = client.request("session.release", session=s, wait=True)
        self.assertEqual(self.refused_later(client, s), "failed_precondition")
        Commands.end(child)
        Commands.end(self.commands.next())
        for id in ids:
            self.assertEqual(client.finish(id)["type"], "completed")
        error, result = client.expect_reply(waits)
        self.assertIsNone(error)
        self.assertEqual(result["session"]["state"], "closed")
        self.over(host, client, s, "drain")

    def refused_later(self, client, s):
        return self.refused(client, "operation.submit", kind="command", session=s, argv=["x"])

    def test_immediately_ends_what_runs_and_nothing_queued_ever_runs(self):  # OP-30, OP-33, OP-34
        host = self.host(self.commands)
        client = host.client()
        s = self.acquire(client)
        ids = [self.submit(client, s) for _ in range(3)]
        self.commands.next()
        client.call("session.release", session=s, mode="immediate", wait=True)
        ended = set()
        for _ in ids:
            e = client.finish()
            self.assertEqual((e["body"]["code"], e["body"]["cause"]["kind"]),
                             ("canceled", "released"))
            ended.add(e["operation"])
        self.assertEqual(ended, set(ids))
        self.over(host, client, s, "immediate")
        self.assertEqual(len(self.records(host, "operation.started")), 1)
        self.assertTrue(self.commands.started.empty())

    def test_who_does_not_end_is_killed_after_the_grace(self):  # OP-34
        class Deaf(Commands):
            def next(self):
                child = super().next()
                child.on_signal = lambda signo: None
                return child
        commands = Deaf()
        host = self.host(commands)
        client = host.client()
        s = self.acquire(client)
        self.submit(client, s)
        commands.next()
        client.call("session.release", session=s, mode="immediate", wait=True)
        self.assertEqual(len(host.kills), 1)
        self.over(host, client, s, "immediate")

    def test_a_drain_may_become_immediate_and_never_the_other_way(self):  # OP-32
        host = self.host(self.commands)
        client = host.client()
        s = self.acquire(client)
        self.submit(client, s)
        child = self.commands.next()
        child.on_signal = lambda signo: None
        client.call("session.release", session=s)
        client.call("session.release", session=s, mode="immediate")
        client.call("session.release", session=s, mode="drain")
        self.assertEqual(client.finish()["body"]["cause"]["kind"], "released")
        client.call("session.release", session=s, wait=True)
        self.over(host, client, s, "immediate")

    def test_again_is_no_error(self):  # OP-33
        host = self.host(self.commands)
        client = host.client()
        s = self.acquire(client)
        for wait in (True, True, False):
            r = client.call("session.release", session=s, mode="immediate", wait=wait)["session"]
            self.assertEqual(r["state"], "closed")
        self.over(host, client, s, "immediate")
        self.assertEqual(self.refused_later(client, s), "failed_precondition")
        self.assertEqual(self.refused(client, "session.heartbeat", session=s),
                         "failed_precondition")

    def test_closed_ones_are_shown_for_a_while(self):
        host = self.host(runtimes=[PLAIN], durability="relaxed")
        client = host.client()
        ids = []
        for _ in range(257):
            ids.append(self.acquire(client))
            client.call("session.release", session=ids[-1], wait=True)
        self.assertEqual(self.refused(client, "session.show", session=ids[0]), "not_found")
        self.assertEqual(self.show(client, ids[1])["state"], "closed")

    def test_in_an_outage_it_is_over_once_that_is_on_record(self):
        r, w = os.pipe()
        segments = [w]
        host = self.host(runtimes=[WORKS], durability="relaxed",
                         segment=lambda number: segments.pop() if segments else None)
        client = host.client()
        s = self.acquire(client)
        os.close(r)  # from here on nothing can be written
        request = client.request("session.release", session=s, wait=True)
        self.assertEqual(self.state_before(client, s), "closing")
        self.assertEqual(host.dropped, [])
        segments.append(Host.new_segment(host, 9))
        error, result = client.expect_reply(request)
        self.assertIsNone(error)
        self.assertEqual(result["session"]["state"], "closed")
        self.over(host, client, s, "drain")

    def state_before(self, client, s):
        """The state of `s`, which is the next thing that `client` hears."""
        show = client.request("session.show", session=s)
        m = client.receive()
        self.assertEqual(m[1], show, m)
        return m[3]["session"]["state"]

    def test_a_client_that_went_away_is_not_answered(self):
        host = self.host(self.commands)
        client, other = host.client(), host.client()
        s = self.acquire(client)
        self.submit(client, s)
        child = self.commands.next()
        client.request("session.release", session=s, wait=True)
        client.call("session.show", session=s)
        client.close()
        Commands.end(child)
        other.call("session.release", session=s, wait=True)
        self.over(host, other, s, "drain")


if __name__ == "__main__":
    unittest.main()
