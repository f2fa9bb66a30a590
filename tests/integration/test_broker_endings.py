"""How a turn ends against scripted peers, whichever of them goes first (D-2, D-4, D-6)."""

import os
import resource
import select
import socket
import threading
import unittest

import broker_host
from broker_host import DONE, Host, grant, invoke, ok, one_call, runtime, serve, DOCS, READ, WRITE
from wire import TIMEOUT


class Endings(unittest.TestCase):
    """Exactly one ending, whatever dies and whenever (D-2, architecture: what survives what)."""

    def host(self, worker, provider=None, **config):
        config.setdefault("tools", [READ, WRITE])
        config.setdefault("grants", [DOCS, grant("w", ["docs"], ["write"])])
        host = Host(worker=worker, provider=provider or serve(lambda p: ok()), **config)
        self.addCleanup(host.close)
        return host

    def ending(self, host, **submit):
        client = host.client()
        client.submit(**submit)
        event = client.finish()
        self.assertEqual(host.close()[0], 0)
        return event

    def assert_cause(self, event, **cause):
        self.assertEqual(event["type"], "failed", event)
        self.assertEqual({k: event["body"]["cause"].get(k) for k in cause}, cause)

    def test_a_worker_that_exits_before_hello(self):
        def worker(child):
            child.exit = dict(x_kind=broker_host.EXITED, x_status=0)
        event = self.ending(self.host(worker))
        self.assert_cause(event, kind="exited", code=0)
        self.assertEqual(event["body"]["turn"]["status"], "failed")

    def test_a_worker_that_exits_without_an_outcome(self):  # OP-14
        def worker(child):
            child.peer.hello()
            child.exit = dict(x_kind=broker_host.EXITED, x_status=3)
        self.assert_cause(self.ending(self.host(worker)), kind="exited", code=3)

    def test_a_worker_that_dies_of_a_signal(self):
        def worker(child):
            child.peer.hello()
            child.peer.expect("operation.run")
            child.exit = dict(x_kind=broker_host.SIGNALED, x_status=11, x_core=1)
        self.assert_cause(self.ending(self.host(worker)), kind="signaled", signal=11, core=True)

    def test_a_complete_outcome_read_before_the_end_wins(self):
        def worker(child):
            child.peer.hello()
            msgid, _ = child.peer.expect("operation.run")
            child.peer.reply(msgid, **DONE)
            child.exit = dict(x_kind=broker_host.EXITED, x_status=1)
        event = self.ending(self.host(worker))
        self.assertEqual(event["body"]["turn"]["status"], "succeeded")

    def test_a_worker_that_closes_its_link_and_lives_on(self):  # OP-14
        def worker(child):
            child.peer.hello()
            child.peer.expect("operation.run")
            child.peer.close()
            child.killed.wait(20)
        host = self.host(worker)
        event = self.ending(host)
        self.assert_cause(event, kind="runtime_protocol_violation")
        self.assertEqual(event["body"]["code"], "internal")
        self.assertTrue(host.kills)

    def test_a_worker_that_never_says_hello_meets_its_deadline(self):
        host = self.host(lambda child: child.killed.wait(20))
        event = self.ending(host, timeoutMs=300)
        self.assert_cause(event, kind="deadline")
        self.assertEqual(event["body"]["code"], "deadline_exceeded")

    def test_at_the_deadline_cancel_is_sent_then_the_tree_is_killed(self):  # D-8, D-9
        got = []

        def worker(child):
            child.peer.hello()
            child.peer.expect("operation.run")
            got.append(child.peer.receive())
            child.killed.wait(20)
        host = self.host(worker)
        event = self.ending(host, timeoutMs=1500)
        self.assertEqual(event["body"]["turn"]["error"]["code"], "turn_cancelled")
        self.assertEqual(got[0][:2], [2, "operation.cancel"])
        self.assertEqual(got[0][2][0]["cause"], "deadline")
        self.assertTrue(host.kills)

    def test_drain_refuses_new_calls_and_honours_an_outcome(self):  # TU-23, TU-51, TU-52
        def work(child, params):
            self.assertEqual(child.peer.receive()[1], "operation.drain")
            return {"status": "complete", "output": invoke(child, "files.read", path="docs/a")}
        event = self.ending(self.host(runtime(work), drainGraceMs=10000), timeoutMs=10200)
        self.assertEqual(event["body"]["turn"]["status"], "succeeded")
        self.assertEqual(event["body"]["turn"]["output"]["error"]["code"], "turn_draining")

    def test_a_loop_that_drains_ends_its_turn_before_the_deadline(self):  # TU-53
        def work(child, params):
            self.assertEqual(child.peer.receive()[1], "operation.drain")
            return {"status": "fail", "error": {"code": "turn_cancelled", "message": "mine"},
                    "metadata": {"k": 1}}
        event = self.ending(self.host(runtime(work), drainGraceMs=600000), timeoutMs=600000)
        self.assert_cause(event, kind="drained")
        turn = event["body"]["turn"]
        self.assertEqual((turn["status"], turn["error"]["code"], turn["error"]["retryable"]),
                         ("cancelled", "turn_cancelled", True))
        self.assertNotEqual(turn["error"]["message"], "mine")
        self.assertEqual(turn["metadata"]["k"], 1)

    def test_a_turn_that_does_not_drain_is_not_cancelled_by_its_runtime(self):  # TU-53
        event = self.ending(self.host(runtime(lambda child, params: {
            "status": "fail", "error": {"code": "turn_cancelled", "message": ""}})))
        self.assertEqual((event["body"]["turn"]["status"], event["body"]["turn"]["error"]["code"]),
                         ("failed", "runtime_failed"))

    def test_cancel_is_acknowledged_and_twice_is_once(self):  # D-6
        running = threading.Event()

        def worker(child):
            child.peer.hello()
            child.peer.expect("operation.run")
            running.set()
            child.killed.wait(20)
        host = self.host(worker)
        client = host.client()
        op = client.submit()
        self.assertTrue(running.wait(20))
        first, second = (client.request("operation.stop", operation=op) for _ in range(2))
        replies, terminal = [], []
        while not (len(replies) == 2 and terminal):
            m = client.receive()
            if m[0] == 1:
                replies.append(m)
            elif m[2][0]["type"] in ("completed", "failed"):
                terminal.append(m[2][0])
        self.assertEqual([r[1] for r in replies], [first, second])
        self.assertEqual(len(terminal), 1)
        self.assert_cause(terminal[0], kind="canceled")
        self.assertEqual(len([r for r in host.records() if r["type"] == "operation.ended"]), 1)

    def test_a_provider_that_dies_interrupts_its_calls_and_the_turn_goes_on(self):
        starts = []

        def provider(child):
            starts.append(1)
            child.peer.hello()
            m = child.peer.receive()
            if len(starts) == 1:
                return
            child.peer.reply(m[1], callId=m[3][0]["call"], **ok("second"))
            while True:
                child.peer.receive()

        def work(child, params):
            return {"status": "complete", "output": [
                invoke(child, "files.write", "1", path="docs/a"),
                invoke(child, "files.write", "2", path="docs/a")]}
        host = self.host(runtime(work), provider)
        client = host.client()
        turn, _ = client.turn()
        first, second = turn["output"]
        self.assertEqual((first["status"], first["error"]["code"], first["error"]["retryable"]),
                         ("failed", "interrupted", False))
        self.assertEqual(second["output"], "second")
        r = [r for r in host.records() if r["type"] == "tool.invoked"]
        self.assertEqual([(x["outcome"], x.get("cause")) for x in r],
                         [("interrupted", "outcome_unknown"), ("succeeded", None)])

    def test_a_result_that_comes_late_is_recorded_as_that_calls(self):  # D-2
        dispatched, over = threading.Event(), threading.Event()

        def provider(child):
            child.peer.hello()
            m = child.peer.receive()
            dispatched.set()
            self.assertEqual(child.peer.receive()[1], "tool.cancel")
            child.peer.reply(m[1], callId=m[3][0]["call"], **ok("too late"))
            child.killed.wait(20)
            over.set()
        host = self.host(one_call(path="docs/a"), provider)
        client = host.client()
        op = client.submit()
        self.assertTrue(dispatched.wait(20))
        client.call("operation.stop", operation=op)
        self.assert_cause(client.finish(), kind="canceled")
        self.assertTrue(over.wait(20))
        decided, *_ = [r["call"] for r in host.records() if "call" in r]
        self.assertEqual([(r.get("outcome"), r["cause"], r["call"], r["callId"], r["tool"])
                          for r in host.records() if r["type"] == "tool.invoked"],
                         [("interrupted", "outcome_unknown", decided, "1", "files.read"),
                          (None, "late", decided, "1", "files.read")])

    def test_a_providers_log_does_not_wait_for_the_client(self):
        called, held, logged = (threading.Event() for _ in range(3))

        def provider(child):
            child.peer.hello()
            m = child.peer.receive()
            called.set()
            held.wait(20)
            for _ in range(64):
                os.write(child.stderr, b"a line for the operator\n" * 100)
            logged.set()
            child.peer.reply(m[1], callId=m[3][0]["call"], **ok())
            while True:
                child.peer.receive()

        def work(child, params):
            def flood():
                os.set_blocking(child.stdout, False)
                called.wait(20)
                while select.select([], [child.stdout], [], 1)[1]:
                    os.write(child.stdout, b"x" * 4096)
                held.set()
            threading.Thread(target=flood, daemon=True).start()
            return {"status": "complete",
                    "output": invoke(child, "files.read", path="docs/a")["status"]}
        client = self.host(runtime(work), provider).client()
        client.submit()
        self.assertTrue(logged.wait(20))
        self.assertEqual(client.finish()["body"]["turn"]["output"], "succeeded")

    def test_retryable_is_lowered_after_an_unsafe_write(self):  # TU-56
        error = {"code": "x", "message": "", "retryable": True}
        for name, expected in (("files.read", True), ("files.write", False)):
            def work(child, params):
                invoke(child, name, path="docs/a")
                return {"status": "fail", "error": error}
            event = self.ending(self.host(runtime(work)))
            self.assertEqual(event["body"]["turn"]["error"]["retryable"], expected, name)

    def test_a_turn_takes_no_input(self):
        host = self.host(lambda child: None)
        client = host.client()
        msgid = client.request("operation.submit", kind="turn", input=True)
        self.assertEqual(client.expect_reply(msgid)[0]["code"], "invalid_argument")

    def test_a_client_that_goes_away_detaches(self):  # D-4
        release = threading.Event()

        def work(child, params):
            release.wait(20)
            invoke(child, "files.read", path="docs/a")
            return DONE
        host = self.host(runtime(work))
        client = host.client()
        op = client.submit()
        client.close()
        second = host.client()
        release.set()
        second.call("operation.attach", operation=op)
        event = second.finish()
        self.assertEqual(event["body"]["turn"]["status"], "succeeded")

    def test_shutdown_ends_what_is_open_on_record(self):
        running = threading.Event()

        def worker(child):
            child.peer.hello()
            child.peer.expect("operation.run")
            running.set()
            child.killed.wait(20)
        host = self.host(worker)
        client = host.client()
        client.submit()
        self.assertTrue(running.wait(20))
        host.tell(broker_host.SHUTDOWN)
        event = client.finish()
        self.assert_cause(event, kind="shutdown")
        self.assertTrue(host.settled.wait(20))

    def test_a_supervisor_that_reads_no_orders_has_no_broker(self):  # D-2
        running = threading.Event()

        def worker(child):
            child.peer.hello()
            child.peer.expect("operation.run")
            running.set()
            child.killed.wait(20)
        host = self.host(worker)
        client = host.client()
        client.submit()
        self.assertTrue(running.wait(20))
        host.reading.clear()
        self.addCleanup(host.reading.set)
        with self.assertRaises(OSError):  # each of them asks for an answer
            for n in range(100000):
                host.tell(broker_host.PING, count=n)
        self.assertLess(n, 20000)
        self.assert_cause(client.finish(), kind="host_lost")
        self.assertEqual(host.process.wait(20), 1)
        self.assertIn("the supervisor does not read, and verb 33 is lost", host.log_text())
        records = [r["type"] for r in host.records()]
        self.assertEqual(records.count("operation.ended"), 1)

    def test_without_room_for_descriptors_it_refuses_and_lives_on(self):
        """Who connects often can use them up: that costs nobody who has one anything."""
        host = self.host(one_call(path="docs/a"))
        client = host.client()
        self.assertEqual(client.turn()[0]["status"], "succeeded")
        for child in host.children:  # what was theirs is not room that comes later
            self.assertTrue(child.over.wait(TIMEOUT))
        host.round()
        try:
            most = resource.prlimit(host.process.pid, resource.RLIMIT_NOFILE)
            taken = len(os.listdir(f"/proc/{host.process.pid}/fd"))
        except PermissionError as e:
            self.skipTest(f"nobody but root may limit a broker that runs: {e}")
        resource.prlimit(host.process.pid, resource.RLIMIT_NOFILE, (taken + 8, most[1]))
        for _ in range(32):
            ours, theirs = socket.socketpair()
            theirs.setblocking(False)
            self.addCleanup(ours.close)
            host.tell(broker_host.CLIENT, [theirs.fileno()], uid=os.getuid(),
                      gid=os.getgid(), pid=os.getpid())
            theirs.close()
        host.round()
        self.assertEqual(client.turn()[0]["status"], "failed")  # it has no room for a worker
        self.assertIsNone(host.process.poll(), host.log_text())
        resource.prlimit(host.process.pid, resource.RLIMIT_NOFILE, most)
        self.assertEqual(client.turn()[0]["status"], "succeeded")
        self.assertEqual(host.client().turn()[0]["status"], "succeeded")
        status, log = host.close()
        self.assertEqual(status, 0, log)
        self.assertEqual(log.count("a client cannot be served"), 1, log)

    def test_the_supervisors_end_of_file_settles_and_ends(self):
        host = self.host(lambda child: child.killed.wait(20))
        host.client().submit()
        records = None
        host.control.shutdown(2)
        for child in host.children:
            child.finish()
        host.process.wait(20)
        records = [r["type"] for r in host.records()]
        self.assertEqual(records.count("operation.ended"), 1)


if __name__ == "__main__":
    unittest.main()
