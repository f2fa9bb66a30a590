"""Sessions that a client acquires: the real broker, its queues, leases and releases."""

import os
import queue
import signal
import socket
import threading
import unittest

from broker_host import FILES, FOUND, MADE, TURN, EXITED, Host, runtime
from wire import Closed, TIMEOUT

SHELL = {"id": "shell", "version": "1", "kind": "command", "builtin": True}
PLAIN = {"id": "test", "version": "1", "kind": "turn"}
WORKS = {"id": "test", "version": "1", "kind": "turn", "workspace": True}


class Commands:
    """The built-in command runtime, whose commands run until the test says how they end."""

    def __init__(self):
        self.started = queue.Queue()  # in this order
        self.lock = threading.Lock()
        self.running = self.most = 0

    def __call__(self, child):
        try:
            child.peer.hello("command")
            msgid, child.params = child.peer.expect("command.run")
        except AssertionError:
            return  # ended before it began
        child.msgid, child.done = msgid, threading.Event()
        child.status, child.on_signal = 0, lambda signo: child.done.set()
        if child.params.get("argv") == ["missing"]:
            child.peer.refuse(msgid, "not_found", "there is no such program")
            child.peer.receive()
        child.peer.sock.shutdown(socket.SHUT_RDWR)  # it became the command
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)
        self.started.put(child)
        while not child.done.is_set() and not child.killed.is_set():
            child.done.wait(0.02)
        with self.lock:
            self.running -= 1
        child.exit = {"x_kind": EXITED, "x_status": child.status}

    def next(self):
        return self.started.get(timeout=TIMEOUT)

    @staticmethod
    def end(child, status=0):
        child.status = status
        child.done.set()


class Files:
    """Serves a workspace that is a dictionary, until the test holds it back."""

    def __init__(self):
        self.data, self.calls, self.children = {}, [], []
        self.go = threading.Event()
        self.go.set()
        self.asked = queue.Queue()

    def __call__(self, child):
        self.children.append(child)
        child.peer.hello("files")
        while True:
            m = child.peer.receive(timeout=600)
            if m[0] != 0:
                continue
            params = m[3][0]
            self.calls.append(params)
            self.asked.put(params["tool"])
            self.go.wait(TIMEOUT)
            child.peer.reply(m[1], callId=params["call"], **self.answer(params))

    def answer(self, params):
        a = params["arguments"]
        if params["tool"] == "workspace.write":
            before = self.data.get(a["path"], b"") if a["append"] else b""
            created = a["path"] not in self.data
            self.data[a["path"]] = before + a["content"]
            return {"status": "succeeded",
                    "output": {"size": len(self.data[a["path"]]), "created": created}}
        if params["tool"] == "workspace.rename":
            self.data[a["to"]] = self.data.pop(a["from"])
            return {"status": "succeeded", "output": {"replaced": False}}
        if params["tool"] == "workspace.list":
            names = sorted(self.data)
            return {"status": "succeeded", "output": {"entries": [
                {"name": n, "type": "file", "size": len(self.data[n])}
                for n in names[:a["limit"]]], **({"next": "c"} if a["limit"] < len(names) else {})}}
        if a["path"] not in self.data:
            return {"status": "failed", "error": {
                "code": "not_found", "message": "path: there is nothing of that name"}}
        if params["tool"] == "workspace.read":
            n = a.get("offset", 0)
            return {"status": "succeeded", "output": {
                "content": self.data[a["path"]][n:n + a["length"]],
                "size": len(self.data[a["path"]])}}
        if params["tool"] == "workspace.stat":
            return {"status": "succeeded", "output": {
                "name": a["path"], "type": "file", "size": len(self.data[a["path"]]),
                "modifiedAt": 1}}
        del self.data[a["path"]]
        return {"status": "succeeded", "output": {"type": "file"}}


class Sessions(unittest.TestCase):
    def host(self, worker=None, runtimes=(SHELL,), sessions=8, **more):
        host = Host(worker=worker, runtimes=list(runtimes), sessions=sessions, **more)
        self.addCleanup(self.close, host)
        return host

    def close(self, host):
        status, log = host.close()
        self.assertIn(status, (0, -9), log)
        self.assertNotIn("Sanitizer", log)
        self.assertNotIn("runtime error", log)

    def acquire(self, client, **params):
        return client.call("session.acquire", **params)["session"]["id"]

    def submit(self, client, session, **params):
        params = params or {"argv": ["true"]}
        return client.submit(**{"kind": "command", "session": session, **params})

    def refused(self, client, method, **params):
        error, _ = client.expect_reply(client.request(method, **params))
        self.assertIsNotNone(error, "it was not refused")
        return error["code"]

    def show(self, client, session):
        return client.call("session.show", session=session)["session"]

    def records(self, host, type):
        host.round()
        return [r for r in host.records() if r["type"] == type]


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

    def test_the_third_is_refused_where_one_may_wait(self):  # OP-9
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

    def test_a_drain_lets_all_that_is_admitted_finish(self):  # OP-32
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


class Workspace(Sessions):
    def setUp(self):
        self.files = Files()

    def test_changes_are_operations_and_reads_come_past_them(self):  # OP-5
        host = self.host(runtimes=[WORKS], files=self.files)
        client = host.client()
        s = self.acquire(client)
        e = client.finish(client.submit("writeFile", session=s, path="a", content=b"one"))
        self.assertEqual((e["type"], e["body"]), ("completed", {"writeFile": {
            "size": 3, "created": True}}))
        e = client.finish(client.submit("writeFile", session=s, path="a", content=b" two",
                                        append=True))
        self.assertEqual(e["body"]["writeFile"]["size"], 7)
        self.assertEqual(client.call("file.read", session=s, path="a", offset=4),
                         {"content": b"two", "size": 7})
        client.finish(client.submit("renameFile", session=s, path="a", to="b"))
        self.assertEqual(client.call("file.stat", session=s, path="b")["entry"]["size"], 7)
        self.assertEqual(client.call("file.list", session=s, limit=5)["entries"],
                         [{"name": "b", "type": "file", "size": 7}])
        client.finish(client.submit("deleteFile", session=s, path="b"))
        self.assertEqual(client.call("file.list", session=s, limit=5), {"entries": []})
        child, = self.files.children  # one served all of it
        self.assertEqual((child.spawn["kind"], child.spawn["workspace"]), (FILES, int(s[2:], 16)))
        self.assertTrue(all(c["action"] == "client" and c["path"] == [] for c in self.files.calls))
        client.call("session.release", session=s, wait=True)
        self.assertTrue(child.over.is_set())  # before the workspace goes
        host.round()
        self.assertEqual(host.dropped, [int(s[2:], 16)])

    def test_a_change_that_fails(self):  # OP-16
        host = self.host(runtimes=[WORKS], files=self.files)
        client = host.client()
        s = self.acquire(client)
        e = client.finish(client.submit("deleteFile", session=s, path="no"))
        self.assertEqual((e["type"], e["body"]["code"], e["body"]["message"]),
                         ("failed", "not_found", "path: there is nothing of that name"))
        self.assertEqual(self.refused(client, "file.read", session=s, path="no"), "not_found")
        record = self.records(host, "operation.ended")[-1]
        self.assertEqual((record["outcome"], record["reason"]), ("failed", "not_found"))

    def test_what_a_client_may_not_ask(self):
        host = self.host(runtimes=[WORKS], files=self.files)
        client = host.client()
        s = self.acquire(client)
        for path in ("/a", "../a", "a/./b", ""):
            if path:
                self.assertEqual(self.refused(client, "file.read", session=s, path=path),
                                 "invalid_argument")
        self.assertEqual(self.refused(client, "file.list", session=s, limit=0),
                         "invalid_argument")
        self.assertEqual(self.refused(client, "file.stat", session="s-" + "0" * 16, path="a"),
                         "not_found")
        self.assertEqual(self.files.calls, [])

    def test_reads_pass_a_command_that_runs(self):  # OP-5
        commands = Commands()
        host = self.host(commands, files=self.files)
        client = host.client()
        s = self.acquire(client)
        self.files.data["x"] = b"1"
        self.submit(client, s)
        child = commands.next()
        self.assertEqual(client.call("file.read", session=s, path="x")["content"], b"1")
        id = client.submit("deleteFile", session=s, path="x")
        host.round()
        self.assertEqual(self.files.data, {"x": b"1"})  # it waits
        Commands.end(child)
        self.assertEqual(client.finish(id)["type"], "completed")
        self.assertEqual(self.files.data, {})

    def test_who_dies_at_a_change_leaves_it_unknown_and_the_next_goes_on(self):
        host = self.host(runtimes=[WORKS], files=self.files)
        client = host.client()
        s = self.acquire(client)
        self.files.go.clear()
        first = client.submit("writeFile", session=s, path="a", content=b"")
        second = client.submit("writeFile", session=s, path="b", content=b"")
        self.files.asked.get(timeout=TIMEOUT)
        self.files.children[0].finish(x_kind=2, x_status=9)
        e = client.finish(first)
        self.assertEqual((e["body"]["code"], e["body"]["cause"]["kind"]),
                         ("unavailable", "outcome_unknown"))
        self.files.go.set()
        self.assertEqual(client.finish(second)["type"], "completed")
        self.assertEqual(len(self.files.children), 2)

    def test_a_change_that_is_cancelled_is_waited_for(self):
        host = self.host(runtimes=[WORKS], files=self.files, killGraceMs=60000)
        client = host.client()
        s = self.acquire(client)
        self.files.go.clear()
        first = client.submit("writeFile", session=s, path="a", content=b"")
        second = client.submit("writeFile", session=s, path="b", content=b"")
        self.files.asked.get(timeout=TIMEOUT)
        client.call("operation.stop", operation=first)
        self.assertEqual(client.finish(first)["body"]["code"], "canceled")
        host.round()
        self.assertTrue(self.files.asked.empty())  # the second does not begin beside it
        self.files.go.set()
        self.assertEqual(client.finish(second)["type"], "completed")
        self.assertEqual(len(self.files.children), 1)

    def test_one_that_never_answers_is_killed(self):
        host = self.host(runtimes=[WORKS], files=self.files, killGraceMs=50)
        client = host.client()
        s = self.acquire(client)
        self.files.go.clear()
        first = client.submit("writeFile", session=s, path="a", content=b"", timeoutMs=50)
        self.files.asked.get(timeout=TIMEOUT)
        self.assertEqual(client.finish(first)["body"]["code"], "deadline_exceeded")
        client.call("session.release", session=s, wait=True)
        self.assertTrue(self.files.children[0].killed.is_set())
        self.files.go.set()


if __name__ == "__main__":
    unittest.main()
