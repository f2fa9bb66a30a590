"""The broker's promises for one turn, against scripted peers (D-2, D-5)."""

import os
import select
import threading
import unittest

import broker_host
from broker_host import DONE, Host, Turns, grant, invoke, ok, one_call, runtime, serve, tool
from wire import caisson

READ, WRITE = tool("files.read"), tool("files.write", "write", action="write")
APPEND = tool("files.append", "write", action="append")
DOCS = grant("g-docs", ["docs"], ["read"])


class Turn(Turns, unittest.TestCase):
    TOOLS, GRANTS = [READ, WRITE], [DOCS]

    def test_an_allowed_call_reaches_its_provider_and_returns(self):
        # TU-13, TU-68, OP-7, OP-12, OP-13
        seen = []
        turn = self.run_turn(one_call(path="docs/a"),
                             serve(lambda p: seen.append(p) or ok("text")))
        self.assertEqual(turn["status"], "succeeded")
        self.assertEqual(turn["output"]["output"], "text")
        self.assertEqual((seen[0]["action"], seen[0]["namespace"], seen[0]["path"]),
                         ("read", "workspace", ["docs", "a"]))
        # That the worker went is told whenever it is known.
        types = [r["type"] for r in self.records if r["type"] != "worker.ended"]
        self.assertEqual(types, [
            "segment.opened", "broker.started", "operation.accepted", "authority.resolved",
            "authorization.checked", "tool.catalog.listed", "authorization.checked",
            "tool.invoked", "turn.ended", "operation.ended"])
        self.assertEqual(self.record("tool.invoked")["outcome"], "succeeded")
        self.assertEqual(self.client.kinds(), [
            "accepted", "status", "tool_call_started", "tool_call_finished", "completed"])
        self.assertEqual([e["sequence"] for e in self.client.events], [1, 2, 3, 4, 5])

    def test_a_path_outside_every_grant_is_denied_and_recorded(self):  # TU-66
        turn = self.run_turn(one_call(path="secret/a"))
        self.assertEqual(turn["output"]["status"], "denied")
        self.assertEqual(turn["output"]["error"]["code"], "no_matching_grant")
        r = self.record("authorization.checked", outcome="denied")
        self.assertEqual((r["resource"], r["path"], r["cause"]),
                         ("workspace", ["secret", "a"], "capability"))
        # The operator learns which grant came closest and what it lacks, the runtime nothing.
        self.assertEqual((r["grant"], r["detail"]), ("g-docs", "path"))
        self.assertNotIn("g-docs", str(turn["output"]))

    def test_a_sibling_with_the_same_prefix_is_denied(self):  # TU-35
        self.assertEqual(self.run_turn(one_call(path="docs2/a"))["output"]["status"], "denied")

    def test_a_path_that_climbs_is_an_invalid_request(self):
        for path in ("docs/../secret", "/docs/a", "docs//a", "docs/\x01"):
            turn = self.run_turn(one_call(path=path))
            self.assertEqual(turn["output"]["error"]["code"], "invalid_request", path)

    def test_a_forged_grant_in_the_arguments_is_data(self):  # TU-33
        both = tool("files.read", properties={"path": {"type": "string"},
                                              "extra": {"type": "object"}})
        forged = {"id": "x", "subject": "agent:test", "actions": ["*"]}
        turn = self.run_turn(one_call(path="secret", extra=forged), tools=[both])
        self.assertEqual(turn["output"]["error"]["code"], "no_matching_grant")

    def test_many_members_out_of_order_are_one_call(self):
        """What sorts them must not ask the kernel for anything, under the broker's list."""
        wide = tool("files.read", properties={"path": {"type": "string"},
                                              "extra": {"type": "object"}})
        extra = {f"k{n * 7919 % 4001:04}": n for n in range(4000)}
        turn = self.run_turn(one_call(path="docs/a", extra=extra), tools=[wide])
        self.assertEqual(turn["output"]["status"], "succeeded")

    def test_a_tool_without_a_grant_is_not_offered(self):  # TU-27, TU-69
        turn = self.run_turn(one_call("files.write", path="docs/a"))
        self.assertEqual(turn["output"]["error"]["code"], "tool_unavailable")
        missing = self.run_turn(one_call("no.such", path="docs/a"))
        self.assertEqual({k: v for k, v in missing["output"]["error"].items()},
                         {k: v for k, v in turn["output"]["error"].items()})
        self.assertEqual(self.record("tool.refused")["cause"], "not_offered")

    def test_arguments_are_checked_before_authority(self):
        turn = self.run_turn(one_call(path=7))
        self.assertEqual(turn["output"]["error"]["code"], "invalid_tool_arguments")

    def test_the_call_budget_refuses_and_the_turn_goes_on(self):  # TU-25, TU-30, TU-31
        def work(child, params):
            return {"status": "complete", "output": [
                invoke(child, "files.read", str(i), path="docs/a")["status"] for i in range(3)]}
        turn = self.run_turn(runtime(work), submit={"maxToolCalls": 2})
        self.assertEqual(turn["output"], ["succeeded", "succeeded", "denied"])
        self.assertEqual(self.record("tool.refused")["reason"], "tool_call_limit_exceeded")

    def test_the_step_budget_refuses(self):  # TU-24
        def work(child, params):
            return {"status": "complete", "output": [
                invoke(child, "files.read", str(i), path="docs/a", step=i)["status"]
                for i in (0, 0, 1, 2)]}
        turn = self.run_turn(runtime(work), submit={"maxSteps": 2})
        self.assertEqual(turn["output"], ["succeeded", "succeeded", "succeeded", "denied"])

    def test_a_bounded_grant_is_spent_once(self):  # TU-43
        def work(child, params):
            return {"status": "complete", "output": [
                invoke(child, "files.append", str(i), path="log")["status"] for i in range(2)]}
        turn = self.run_turn(runtime(work), tools=[APPEND],
                             grants=[grant("once", ["log"], ["append"], maxUses=1)])
        self.assertEqual(turn["output"], ["succeeded", "denied"])
        self.assertEqual(self.record("authorization.checked", outcome="denied")["reason"],
                         "grant_exhausted")

    def test_uses_of_the_record_count(self):
        turn = self.run_turn(one_call("files.append", path="log"), tools=[APPEND],
                             grants=[grant("once", ["log"], ["append"], maxUses=1)],
                             state={"uses": [{"grant": "once", "spent": 1}]})
        self.assertEqual(turn["output"]["error"]["code"], "tool_unavailable")

    def test_without_the_invoke_grant_nothing_runs(self):  # TU-14
        started = []
        turn = self.run_turn(lambda child: started.append(1), invoke=False)
        self.assertEqual(turn["status"], "denied")
        self.assertEqual(turn["error"]["code"], "no_matching_grant")
        self.assertEqual(started, [])

    def test_a_result_with_another_calls_id_is_invalid(self):
        turn = self.run_turn(one_call(path="docs/a"),
                             serve(lambda p: {**ok(1), "callId": "another"}))
        self.assertEqual(turn["output"]["error"]["code"], "invalid_tool_result")

    def test_a_result_over_its_limit_is_invalid(self):  # D-3
        turn = self.run_turn(one_call(path="docs/a"), serve(lambda p: ok("x" * (800 << 10))))
        self.assertEqual(turn["output"]["error"]["code"], "invalid_tool_result")

    def test_outcomes(self):  # TU-15, TU-60
        error = {"code": "my_code", "message": "m", "retryable": True}
        table = [
            ({"status": "complete"}, "succeeded", None),
            ({"status": "fail", "error": error}, "failed", "my_code"),
            ({"status": "fail"}, "failed", "invalid_runtime_outcome"),
            ({"status": "complete", "error": error}, "failed", "invalid_runtime_outcome"),
            ({"status": "escalate", "reason": "r"}, "failed", "tool_unavailable"),
        ]
        for outcome, status, code in table:
            turn = self.run_turn(runtime(lambda child, params: outcome))
            self.assertEqual(turn["status"], status, outcome)
            self.assertEqual(turn.get("error", {}).get("code"), code, outcome)
            self.assertEqual(self.event["type"], "completed")
            # Whoever asks the record for what failed finds it.
            self.assertEqual(self.record("operation.ended")["outcome"], status)

    def test_metadata_precedence(self):  # TU-6
        def work(child, params):
            refused = []
            for key, value in (("a", "note"), ("b", 1), ("b", 2), ("runtime", "forged")):
                msgid = child.peer.request("turn.annotate", operation=child.operation,
                                           key=key, value=value)
                refused.append(child.peer.expect_reply(msgid)[0])
            self.assertEqual([r and r["code"] for r in refused],
                             [None, None, None, "invalid_argument"])
            return {"status": "complete",
                    "metadata": {"a": "outcome", "c": 3, "runtime": "forged"}}
        turn = self.run_turn(runtime(work))
        self.assertEqual(turn["metadata"], {"a": "note", "b": 2, "c": 3,
                                            "runtime": {"id": "test", "version": "1"}})

    def test_a_refused_annotation_leaves_the_one_before(self):  # TU-6
        def work(child, params):
            codes = []
            for value in ("small", "x" * 16000):
                for key in "abcdef" if len(value) > 9 else "f":
                    msgid = child.peer.request("turn.annotate", operation=child.operation,
                                               key=key, value=value)
                    codes.append((child.peer.expect_reply(msgid)[0] or {}).get("code"))
            self.assertEqual(codes, [None] * 5 + ["resource_exhausted"] * 2)
            return DONE
        notes = self.run_turn(runtime(work))["metadata"]
        self.assertEqual((sorted(notes), notes["f"]), ([*"abcdf", "runtime"], "small"))

    def test_a_forged_turn_event_arrives_wrapped(self):  # TU-5
        def work(child, params):
            child.peer.call("event.emit", operation=child.operation, type="turn.completed",
                            data={"forged": True})
            return DONE
        self.run_turn(runtime(work))
        wrapped = [e["body"] for e in self.client.events
                   if e["body"].get("kind") == "runtime_event"]
        self.assertEqual([b.pop("event")["type"] for b in wrapped], ["runtime.event"])
        self.assertEqual(wrapped, [{"kind": "runtime_event", "type": "turn.completed",
                                    "data": {"forged": True}}])

    def test_the_request_holds_no_authority(self):  # TU-2, TU-47
        seen = []
        self.run_turn(runtime(lambda child, params: seen.append(params) or DONE))
        text = repr(seen[0])
        for secret in ("g-docs", "issuer", "expiresAt", "maxUses", "human:op'}"):
            self.assertNotIn(secret, text.replace("'owner': 'human:op'", ""))
        self.assertEqual(seen[0]["context"]["reach"]["entries"], [
            {"namespace": "workspace", "path": ["docs"], "scope": "descendants",
             "actions": ["read"]}])

    def test_the_host_is_closed_after_the_outcome(self):  # TU-4, TU-19
        answers = []

        def worker(child):
            peer = child.peer
            peer.hello()
            msgid, params = peer.expect("operation.run")
            peer.reply(msgid, **DONE)
            late = peer.request("tool.invoke", operation=params["operation"], id="1",
                                tool="files.read", arguments={"path": "docs/a"})
            answers.append(peer.expect_reply(late)[0])
        turn = self.run_turn(worker)
        self.assertEqual(turn["status"], "succeeded")
        self.assertNotIn("tool.invoked", [r["type"] for r in self.records])

    def test_content_never_reaches_the_record(self):  # TU-67, D-12
        self.run_turn(one_call(path="docs/a", **{}), serve(lambda p: ok("s3cret-result")),
                      submit={"message": {"ask": "s3cret-message"}})
        self.assertNotIn("s3cret", repr(self.records))


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

    def test_a_worker_that_exits_without_an_outcome(self):
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


class Faults(unittest.TestCase):
    """A malformed frame ends the link, is typed, and harms no neighbour (D-5)."""

    FRAMES = {
        "unknown method": [0, 1, "tool.destroy", [{}]],
        "wrong direction": [0, 1, "tool.call", [{}]],
        "an unknown member": [2, "output.write", [{"operation": "x", "stream": "stdout",
                                                    "data": b"x", "sender": "me"}]],
        "a wrong type": [2, "output.write", [{"operation": 7, "stream": "stdout",
                                               "data": b"x"}]],
        "a reply to nothing": [1, 99, None, {}],
        "not an array": {"a": 1},
        "a second hello": [0, 1, "hello", [{"protocol": caisson.PROTOCOL}]],
    }
    RAW = {
        "an oversized frame": b"\xff\xff\xff\xff",
        "an empty frame": b"\0\0\0\0",
        **{name: len(payload).to_bytes(4, "big") + payload for name, payload in {
            "a bomb": b"\xdd\xff\xff\xff\xff",
            "duplicate keys": b"\x93\x02\xa1x\x91\x82\xa1a\x01\xa1a\x02",
            "not canonical": b"\x93\xcc\x02\xa1x\x91\x80",
            "trailing bytes": b"\x93\x02\xa1x\x91\x80\xc0",
        }.items()},
    }

    def test_each_ends_the_worker_and_spares_the_neighbour(self):
        neighbour = one_call(path="docs/a")
        for name, bad in {**self.FRAMES, **self.RAW}.items():
            def worker(child):
                first = child.spawn["session"] == 1
                if not first:
                    return neighbour(child)
                child.peer.hello()
                child.peer.expect("operation.run")
                if isinstance(bad, bytes):
                    child.peer.send_raw(bad)
                else:
                    child.peer.send(bad)
                child.killed.wait(20)
            with Host(worker=worker, provider=serve(lambda p: ok()), tools=[READ],
                      grants=[DOCS]) as host:
                client = host.client()
                op = client.submit()
                event = client.finish(op)
                self.assertEqual(event["type"], "failed", name)
                self.assertEqual(event["body"]["cause"]["kind"],
                                 "runtime_protocol_violation", name)
                self.assertTrue(event["body"]["cause"]["rule"], name)
                turn, _ = client.turn()
                self.assertEqual(turn["output"]["status"], "succeeded", name)
                ended = [r for r in host.records() if r["type"] == "operation.ended"]
                self.assertEqual(ended[0]["cause"], "runtime_protocol_violation")

    def test_an_event_over_its_size_is_a_limit_and_no_nonsense(self):  # OP-15, D-3
        data = b"x" * (64 << 10)
        fits = ["x" * ((64 << 10) - 3)]

        def worker(method, **more):
            def run(child):
                child.peer.hello()
                operation = child.peer.expect("operation.run")[1]["operation"]
                child.peer.send([0, 9, "event.emit", [{"operation": operation, "type": "t",
                                                       "data": fits[0]}]])
                child.peer.expect_reply(9)
                child.peer.send([2 if method == "output.write" else 0,
                                 *([] if method == "output.write" else [10]), method,
                                 [{"operation": operation, **more}]])
                child.killed.wait(20)
            return run
        for method, more in (("event.emit", {"type": "t", "data": "x" + fits[0]}),
                             ("output.write", {"stream": "stdout", "data": data + b"x"})):
            with self.subTest(method), Host(worker=worker(method, **more), tools=[READ]) as host:
                client = host.client()
                event = client.finish(client.submit())
                self.assertEqual((event["type"], event["body"]["code"]),
                                 ("failed", "resource_exhausted"))
                self.assertEqual(event["body"]["cause"], {"kind": "limit", "name": "event size"})
                host.round()  # two sockets have no order between them
                self.assertTrue(host.kills)

    def test_a_worker_may_not_say_what_is_the_brokers(self):  # OP-4
        """Neither `accepted` nor an ending: it may answer, and nothing else ends it well."""
        for kind, body in (("accepted", {"operationID": "op"}), ("completed", {}),
                           ("failed", {"code": "canceled", "message": "m"})):
            def worker(child, kind=kind, body=body):
                child.peer.hello()
                operation = child.peer.expect("operation.run")[1]["operation"]
                child.peer.send([2, "operation.event", [{
                    "operation": operation, "sequence": 99, "type": kind, "body": body}]])
                child.killed.wait(20)
            with self.subTest(kind), Host(worker=worker, tools=[READ]) as host:
                client = host.client()
                event = client.finish(client.submit())
                self.assertEqual((event["type"], event["body"]["code"]), ("failed", "internal"))
                self.assertEqual([e["type"] for e in client.events if e["type"] == kind],
                                 [kind] if kind in ("accepted", "failed") else [])

    def test_progress_tells_what_was_called_and_never_with_what(self):  # OP-18, D-12
        secret, result = "docs/secret-of-the-call", "result-of-the-call"
        with Host(worker=one_call(path=secret), provider=serve(lambda p: ok(result)),
                  tools=[READ], grants=[DOCS]) as host:
            client = host.client()
            turn, _ = client.turn()
            self.assertEqual(turn["output"]["output"], result)
            progress = [e for e in client.events if e["type"] == "progress"]
            self.assertEqual(len(progress), 3)
            self.assertNotIn(secret, repr(progress))
            self.assertNotIn(result, repr(progress))

    def test_a_stale_operation_is_refused_and_charged_to_nobody(self):
        def work(child, params):
            child.operation, real = "op-stale", child.operation
            refused = invoke(child, "files.read", path="docs/a")
            child.operation = real
            return {"status": "complete", "output": refused}
        with Host(worker=runtime(work), provider=serve(lambda p: ok()), tools=[READ],
                  grants=[DOCS]) as host:
            turn, _ = host.client().turn()
            self.assertEqual(turn["output"]["error"]["code"], "host_closed")
            self.assertNotIn("tool.refused", [r["type"] for r in host.records()])

    def test_a_flood_of_refusals_ends_the_turn(self):
        def work(child, params):
            for i in range(2000):
                child.peer.request("tool.invoke", operation=child.operation, id=str(i),
                                   tool="none", arguments={})
            child.killed.wait(20)
        with Host(worker=runtime(work), provider=serve(lambda p: ok()), tools=[READ],
                  grants=[DOCS]) as host:
            client = host.client()
            client.submit()
            event = client.finish()
            self.assertEqual(event["body"]["cause"], {"kind": "limit", "name": "refused calls"})
            refused = [r for r in host.records() if r["type"] == "tool.refused"]
            self.assertLess(len(refused), 1100)


class Concurrency(unittest.TestCase):
    def test_8_sessions_of_32_calls_in_little_more_than_the_time_of_one(self):
        """Providers answer after a second and out of order; all 256 are in flight at once."""
        gate, arrived, lock = threading.Event(), [], threading.Lock()

        def provider(child):
            child.peer.hello()
            calls = [child.peer.receive() for _ in range(32)]
            with lock:
                arrived.append(len(calls))
                if sum(arrived) == 8 * 32:
                    gate.set()
            # Only when every call of every session is here does any answer leave.
            assert gate.wait(30)
            for m in reversed(calls):
                child.peer.reply(m[1], callId=m[3][0]["call"],
                                 **ok(m[3][0]["arguments"]["path"]))
            while True:
                child.peer.receive()

        def work(child, params):
            ids = {child.peer.request("tool.invoke", operation=child.operation, id=str(i),
                                      tool="files.read", arguments={"path": f"docs/{i}"}): i
                   for i in range(32)}
            for _ in range(32):
                m = child.peer.receive()
                assert m[3]["output"] == f"docs/{ids[m[1]]}", m
            return DONE
        with Host(worker=runtime(work), provider=provider, tools=[READ], grants=[DOCS]) as host:
            client = host.client()
            operations = [client.submit() for _ in range(8)]
            done = {}
            while len(done) < 8:
                e = client.finish()
                done[e["operation"]] = e["body"]["turn"]["status"]
            self.assertEqual(done, {op: "succeeded" for op in operations})


if __name__ == "__main__":
    unittest.main()
