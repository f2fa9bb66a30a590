"""The broker's promises for one turn, against scripted peers (D-2, D-5)."""

import threading
import unittest

from broker_host import (DONE, Host, Turns, grant, invoke, ok, one_call, runtime, serve, tool,
                         DOCS, READ, WRITE)
from wire import caisson, frame

APPEND = tool("files.append", "write", action="append")


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

    def test_what_is_said_after_the_outcome_is_no_event(self):  # OP-12, OP-15
        heard = threading.Event()

        def worker(child):
            peer = child.peer
            peer.hello()
            msgid, params = peer.expect("operation.run")
            operation = params["operation"]
            peer.send([2, "output.write", [{"operation": operation, "stream": "stdout",
                                            "data": b"before"}]])
            # In one piece: the broker has them both, whatever it does at the first.
            peer.send_raw(frame([1, msgid, None, DONE]) + frame(
                [2, "output.write", [{"operation": operation, "stream": "stdout",
                                      "data": b"behind"}]]))
            heard.set()
            child.killed.wait(20)
        with Host(worker=worker, tools=[READ]) as host:
            client = host.client()
            self.assertEqual(client.finish(client.submit())["type"], "completed")
            self.assertTrue(heard.wait(20))
            host.round()
            # The answer to this is behind all that was told.
            error, _ = client.expect_reply(client.request("operation.show",
                                                          operation="op-none"))
            self.assertEqual(error["code"], "not_found")
            self.assertEqual(client.events[-1]["type"], "completed")
            told = [e.get("data") for e in client.events]
            self.assertIn(b"before", told)
            self.assertNotIn(b"behind", told)

    def test_content_never_reaches_the_record(self):  # TU-67, D-12
        self.run_turn(one_call(path="docs/a", **{}), serve(lambda p: ok("s3cret-result")),
                      submit={"message": {"ask": "s3cret-message"}})
        self.assertNotIn("s3cret", repr(self.records))


class Faults(unittest.TestCase):
    """A malformed frame ends the link, is typed, and harms no neighbour (D-5)."""

    FRAMES = {
        "unknown method": [0, 1, "tool.destroy", [{}]],
        "wrong direction": [0, 1, "tool.call", [{}]],
        "an unknown member": [2, "output.write", [{"operation": "x", "stream": "stdout",
                                                    "data": b"x", "sender": "me"}]],
        "an unknown stream": [2, "output.write", [{"operation": "x", "stream": "stdin",
                                                    "data": b"x"}]],
        "a number of its own": [2, "output.write", [{"operation": "x", "stream": "stdout",
                                                     "data": b"x", "sequence": 99}]],
        "output without data": [2, "output.write", [{"operation": "x", "stream": "stdout"}]],
        "an event without a type": [0, 1, "event.emit", [{"operation": "x", "data": "x"}]],
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

    def test_each_ends_the_worker_and_spares_the_neighbour(self):  # OP-2, OP-15
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
