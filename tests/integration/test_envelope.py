"""The envelope around a turn, against scripted peers: what it lets in, what it offers, what it
refuses, and how it ends (TU-1 to TU-72).  test_broker.py has a call's life, test_outage.py the
journal's failures."""

import re
import select
import threading
import time
import unittest

import wire
from broker_host import DONE, Host, Turns, grant, invoke, ok, one_call, runtime, serve, tool

READ, WRITE = tool("files.read"), tool("files.write", "write", action="write")
DOCS, WRITES = grant("g-docs", ["docs"], ["read"]), grant("g-write", ["docs"], ["write"])


class Envelope(Turns, unittest.TestCase):
    TOOLS, GRANTS = [READ, WRITE], [DOCS, WRITES]


class Submission(Envelope):
    """What a client may ask of a turn, and what it may claim (TU-10, TU-11, TU-13)."""

    def refusal(self, **params):
        with Host(worker=runtime(lambda child, params: DONE), provider=serve(lambda p: ok()),
                  tools=self.TOOLS, grants=self.GRANTS) as host:
            client = host.client()
            error, _ = client.expect_reply(client.request("operation.submit", **params))
            self.assertEqual(host.children, [])
            self.assertNotIn("operation.accepted", [r["type"] for r in host.records()])
            return error["code"] if error else None

    def test_what_is_malformed_is_refused_and_no_turn(self):  # TU-10
        for malformed in ({"tools": ["a", "a"]}, {"tools": [7]}, {"tools": [""]},
                          {"tools": ["x" * 257]}, {"tools": [f"t{n}" for n in range(513)]},
                          {"namespaces": ["n", "n"]}, {"namespaces": ["a\n"]},
                          {"namespaces": [f"n{n}" for n in range(257)]},
                          {"purpose": "a\x01b"}, {"trace": "\x1b[31m"},
                          {"message": list(range(20000)), "state": list(range(20000))}):
            with self.subTest(repr(malformed)[:60]):
                self.assertEqual(self.refusal(kind="turn", **malformed), "invalid_argument")
        for of_a_turn in ({"tools": []}, {"purpose": "x"}, {"state": 1}, {"actor": "agent:a"}):
            self.assertEqual(self.refusal(kind="command", **of_a_turn), "invalid_argument")

    def test_an_unknown_runtime_is_not_found(self):  # TU-8
        for name in ("none", "command", "Test", "test\n"):
            self.assertEqual(self.refusal(kind="turn", runtime=name), "not_found", name)

    def test_a_context_that_does_not_fit_is_denied_before_anything_runs(self):  # TU-11
        started = []
        for claim, code in (
                ({"actor": "agent:other"}, "actor_mismatch"),
                ({"actor": "human:op", "receiver": "agent:x"}, "actor_mismatch"),
                ({"receiver": "agent:tes"}, "receiver_mismatch"),
                ({"trace": "t", "messageTrace": "u"}, "message_context_mismatch"),
                ({"messageTrace": "u"}, "message_context_mismatch"),
                ({"purpose": "test", "messagePurpose": "tes"}, "message_context_mismatch"),
                ({"purpose": "audit", "messagePurpose": "test"}, "message_context_mismatch")):
            turn = self.run_turn(lambda child: started.append(1), submit=claim)
            self.assertEqual((turn["status"], turn["error"]["code"]), ("denied", code), claim)
            self.assertEqual(turn["event"]["type"], "turn.denied")
            self.assertEqual(turn["event"]["sequence"], 0)
            self.assertEqual(self.client.kinds(), ["accepted", "completed"])
            r = self.record("turn.ended")
            self.assertEqual((r["status"], r["reason"]), ("denied", code))
            self.assertNotIn("authority.resolved", [r["type"] for r in self.records])
        self.assertEqual(started, [])

    def test_a_context_that_fits_is_the_turns(self):  # TU-11, TU-67
        seen = []
        turn = self.run_turn(
            runtime(lambda child, params: seen.append(params) or DONE),
            submit={"actor": "agent:test", "receiver": "agent:test", "trace": "t-77",
                    "messageTrace": "t-77", "purpose": "audit", "messagePurpose": "audit",
                    "state": {"n": ["s3cret"]}, "metadata": {"m": "s3cret"}})
        self.assertEqual(turn["status"], "succeeded")
        context = seen[0]["context"]
        self.assertEqual((context["traceId"], context["purpose"]), ("t-77", "audit"))
        self.assertEqual((seen[0]["state"], seen[0]["metadata"]),
                         ({"n": ["s3cret"]}, {"m": "s3cret"}))
        self.assertNotIn("s3cret", repr((self.records, self.client.events)) + self.host_log)
        for r in self.records:
            if "operation" in r:
                self.assertEqual((r["trace"], r["purpose"]), ("t-77", "audit"), r)

    def test_a_grant_for_other_purposes_does_not_count(self):  # TU-39
        only = grant("g-docs", ["docs"], ["read"], purposes=["audit", "repair"])
        for purpose, code in (("audit", None), ("test", "tool_unavailable"),
                              ("audits", "tool_unavailable")):
            turn = self.run_turn(one_call(path="docs/a"), grants=[only],
                                 submit={"purpose": purpose})
            self.assertEqual(turn["output"].get("error", {}).get("code"), code, purpose)


class Catalogue(Envelope):
    """Effective tools are those that are authorised, enabled and asked for (TU-13, TU-48)."""

    TOOLS = [READ, WRITE, tool("mail.read", properties={"path": {"type": "string"}})]

    def offered(self, submit=None, **config):
        seen = []
        self.run_turn(runtime(lambda child, params: seen.append(params) or DONE),
                      submit=submit, **config)
        return [t["name"] for t in seen[0]["tools"]]

    def test_a_turn_can_only_narrow(self):  # TU-13
        whole = ["files.read", "files.write", "mail.read"]
        for submit, tools in (
                ({}, whole), ({"tools": []}, []), ({"namespaces": []}, []),
                ({"tools": ["mail.read", "files.read"]}, ["files.read", "mail.read"]),
                ({"tools": ["no.such", "FILES.READ", "files.read\u00e9"]}, []),
                ({"namespaces": ["mail"]}, ["mail.read"]),
                ({"namespaces": ["mail", "none"], "tools": ["mail.read", "files.read"]},
                 ["mail.read"])):
            self.assertEqual(self.offered(submit), tools, submit)
        # Asking for it is no authority.
        self.assertEqual(self.offered({"tools": whole}, grants=[DOCS]),
                         ["files.read", "mail.read"])

    def test_a_namespace_that_is_off_stays_off_whatever_is_asked(self):  # TU-48
        self.assertEqual(self.offered(toolNamespaces=["mail"]), ["mail.read"])
        self.assertEqual(self.offered({"namespaces": ["files", "mail"]},
                                      toolNamespaces=["mail"]), ["mail.read"])
        self.assertEqual(self.offered({"tools": ["files.read"]}, toolNamespaces=["mail"]), [])
        self.assertEqual(self.offered(toolNamespaces=[]), [])

    def test_namespace_and_capability_are_independent(self):  # TU-27, TU-48
        answers = []
        for config in ({"toolNamespaces": ["mail"]}, {"grants": []}, {"tools": []}):
            turn = self.run_turn(one_call(path="docs/a"), **config)
            answers.append(turn["output"])
            self.assertEqual(self.record("tool.refused")["source"], "envelope")
        # Disabled, not granted and not there are one answer.
        self.assertEqual(answers[0]["error"]["code"], "tool_unavailable")
        self.assertEqual(answers, [answers[0]] * 3)

    def test_a_catalogue_says_all_that_is_declared_of_a_tool(self):  # TU-13
        text = {"type": "string"}
        seen = []
        self.run_turn(
            runtime(lambda child, params: seen.extend(params["tools"]) or DONE),
            tools=[{**READ, "description": "reads", "output": text},
                   {**WRITE, "destructive": True, "idempotent": True}])
        self.assertEqual(seen, [
            {"name": "files.read", "description": "reads", "namespace": "files",
             "effect": "read", "input": READ["input"], "output": text,
             "annotations": {"readOnly": True, "destructive": False, "idempotent": True}},
            {"name": "files.write", "description": "", "namespace": "files", "effect": "write",
             "input": WRITE["input"],
             "annotations": {"readOnly": False, "destructive": True, "idempotent": True}}])


    def mid_turn(self, calls, *configs):
        """What becomes of each call, when a configuration of `configs` comes in after each."""
        done = [threading.Event() for _ in calls]
        told = [threading.Event() for _ in calls]

        def work(child, params):
            codes = []
            for n, (name, path) in enumerate(calls):
                answer = invoke(child, name, str(n), path=path)
                codes.append(answer.get("error", {}).get("code"))
                done[n].set()
                told[n].wait(wire.TIMEOUT)
            return {"status": "complete", "output": codes}
        with Host(worker=runtime(work), provider=serve(lambda p: ok()), tools=self.TOOLS,
                  grants=self.GRANTS) as host:
            client = host.client()
            client.submit()
            for n, config in enumerate([*configs, None]):
                self.assertTrue(done[n].wait(wire.TIMEOUT))
                if config is not None:
                    host.offer(n + 1, **{"tools": self.TOOLS, "grants": self.GRANTS, **config})
                    self.assertEqual(host.answers.get(timeout=wire.TIMEOUT)["error"], 0)
                told[n].set()
            turn = client.finish()["body"]["turn"]
            self.records = host.records()
            return turn["output"]

    def test_a_namespace_is_asked_for_at_each_call(self):  # TU-48
        codes = self.mid_turn([("files.read", "docs/a")] * 3 + [("mail.read", "docs/a")],
                              {"toolNamespaces": ["mail"]}, {}, {"toolNamespaces": ["mail"]})
        self.assertEqual(codes, [None, "tool_unavailable", None, None])
        r = self.record("tool.refused")
        self.assertEqual((r["reason"], r["cause"], r["source"]),
                         ("tool_unavailable", "namespace_disabled", "kernel"))

    def test_a_catalogue_that_moves_is_the_next_turns(self):  # TU-48
        moved = {"tools": [{**READ, "path": "secret/{path}"}, *self.TOOLS[1:]]}
        codes = self.mid_turn([("files.read", "docs/a"), ("files.read", "docs/b"),
                               ("files.read", "secret/b")], moved, {"tools": []})
        self.assertEqual(codes, [None, None, "no_matching_grant"])


class Kernel(Envelope):
    """What is asked of one call, in its order, and what comes back."""

    def test_another_trace_is_refused_first_and_spends_nothing(self):
        def work(child, params):
            answers = []
            for n, trace in enumerate(("other", params["context"]["traceId"])):
                # Its arguments are wrong, too: that is not looked at.
                arguments = {"path": 7} if n == 0 else {"path": "docs/a"}
                answers.append(child.peer.call(
                    "tool.invoke", operation=child.operation, id=str(n), tool="files.read",
                    arguments=arguments, traceId=trace))
            return {"status": "complete", "output": answers}
        first, second = self.run_turn(
            runtime(work), grants=[grant("once", ["docs"], ["read"], maxUses=1)])["output"]
        self.assertEqual((first["status"], first["error"]["code"]),
                         ("denied", "trace_mismatch"))
        self.assertEqual(second["status"], "succeeded")
        self.assertEqual(self.record("tool.refused")["source"], "kernel")

    def test_a_tool_does_not_leave_the_tree_that_it_is_declared_for(self):  # TU-34
        called = []
        def work(child, params):
            return {"status": "complete", "output": [
                invoke(child, "files.read", str(n), path=path)
                for n, path in enumerate(["docs/a", "docs", "docs2/a", "secret/a", ""])]}
        every = grant("all", [], ["read"])
        answers = self.run_turn(
            runtime(work), serve(lambda p: called.append(p["path"]) or ok()), grants=[every],
            tools=[{**READ, "ceiling": ["docs"]}])["output"]
        self.assertEqual([a["status"] for a in answers],
                         ["succeeded", "succeeded", "failed", "failed", "failed"])
        self.assertEqual({a["error"]["code"] for a in answers[2:]},
                         {"invalid_tool_requirement"})
        self.assertEqual(called, [["docs", "a"], ["docs"]])
        r = self.record("tool.refused", reason="invalid_tool_requirement", callId="3")
        self.assertEqual((r["tool"], r["action"], r["resource"], r["path"]),
                         ("files.read", "read", "workspace", ["secret", "a"]))

    def test_a_result_is_checked_against_its_schema(self):
        result = {"type": "object", "required": ["n"], "additionalProperties": False,
                  "properties": {"n": {"type": "integer", "maximum": 3}}}
        for output, fits in (({"n": 3}, True), ({"n": 4}, False), ({"n": "3"}, False),
                             ({"n": 1, "m": 2}, False), ("s3cret", False), (None, False)):
            turn = self.run_turn(one_call(path="docs/a"), serve(lambda p: ok(output)),
                                 tools=[{**READ, "output": result}])
            got = turn["output"]
            self.assertEqual(got["status"], "succeeded" if fits else "failed", output)
            if not fits:
                self.assertEqual(got["error"]["code"], "invalid_tool_result")
                self.assertEqual(self.record("tool.invoked")["reason"], "invalid_tool_result")
                self.assertNotIn("s3cret", repr((got, self.records)))

    def test_a_write_whose_result_is_invalid_may_have_happened(self):  # TU-56
        error = {"code": "x", "message": "", "retryable": True}

        def work(child, params):
            invoke(child, "files.write", path="docs/a")
            return {"status": "fail", "error": error}
        turn = self.run_turn(runtime(work), serve(lambda p: ok("text")),
                             tools=[{**WRITE, "output": {"type": "integer"}}])
        self.assertFalse(turn["error"]["retryable"])

    def test_what_a_provider_says_of_its_own_failure_stays_here(self):
        def provider(child):
            child.peer.hello()
            m = child.peer.receive()
            child.peer.refuse(m[1], "internal", "Traceback: s3cret at /home/x")
            child.killed.wait(20)
        turn = self.run_turn(one_call(path="docs/a"), provider)
        self.assertEqual(turn["output"]["error"]["code"], "tool_execution_failed")
        self.assertNotIn("s3cret", repr((turn, self.records)) + self.host_log)


class Refusals(Envelope):
    """The operator learns all of it; the runtime its code (TU-66, TU-69)."""

    OTHER = grant("g-elsewhere", ["elsewhere"], ["read"])
    ROOT = grant("g-root", ["docs", "x"], ["read"], subject="human:op", issuer="human:root",
                 delegationDepth=1)

    def test_what_is_missing_is_told_to_the_operator_alone(self):
        frozen = [{"namespace": "workspace", "path": ["docs"], "scope": "descendants",
                   "actions": ["read"]}]
        for grants, config, code, grant_id, cause, detail in (
                ([], {}, "no_matching_grant", "g-elsewhere", "capability", "path"),
                ([grant("g-p", ["docs"], ["read"], purposes=["else"])], {},
                 "no_matching_grant", "g-p", "purpose", None),
                ([grant("g-later", ["docs"], ["read"], notBefore=1 << 50)], {},
                 "no_matching_grant", "g-later", "window", None),
                ([grant("g-once", ["docs"], ["read"], maxUses=1)], {}, "grant_exhausted",
                 "g-once", "exhausted", None),
                ([DOCS], {"ceiling": frozen}, "host_policy_denied", "g-docs", "host_policy",
                 None),
                ([self.ROOT, grant("g-wide", ["docs"], ["read"], parent="g-root")], {},
                 "delegation_chain_invalid", "g-wide", "capability_widened", "g-wide"),
                ([grant("g-orphan", ["docs"], ["read"], parent="g-none")], {},
                 "delegation_chain_unverified", "g-orphan", "parent_not_found", "g-orphan")):
            with self.subTest(code=code, grant=grant_id):
                def work(child, params):
                    calls = [invoke(child, "files.read", str(n), path="docs/a")
                             for n in range(2)]
                    return {"status": "complete", "output": calls[1]}
                answer = self.run_turn(runtime(work), grants=[self.OTHER, *grants],
                                       **config)["output"]
                self.assertEqual((answer["status"], answer["error"]["code"]), ("denied", code))
                for secret in ("g-", "human:", cause, "issuer", "maxUses", "elsewhere"):
                    self.assertNotIn(secret, repr(answer).replace(code, ""))
                r = self.record("authorization.checked", callId="1")
                self.assertEqual(
                    (r["outcome"], r["reason"], r["tool"], r["resource"], r["path"],
                     r["grant"], r["cause"], r.get("detail")),
                    ("denied", code, "files.read", "workspace", ["docs", "a"], grant_id, cause,
                     detail))
                self.assertEqual(r.get("failClosed", False),
                                 code == "delegation_chain_unverified")
                self.assertNotIn("consumed", r)

    def test_every_refusal_has_one_record_and_its_gate(self):  # TU-66, TU-69
        """By the id of its call; an allowed one, a denied one and one that no kernel saw."""
        wanted = {"ok": ("kernel", None), "far": ("kernel", "no_matching_grant"),
                  "none": ("envelope", "tool_unavailable"),
                  "bad": ("kernel", "invalid_tool_arguments"),
                  "up": ("kernel", "invalid_request"),
                  "out": ("kernel", "invalid_tool_requirement"),
                  "step": ("envelope", "step_limit_exceeded"),
                  "many": ("envelope", "tool_call_limit_exceeded")}

        def work(child, params):
            for id, name, path, more in (
                    ("ok", "files.read", "docs/a", {}), ("far", "files.read", "docs2/a", {}),
                    ("none", "no.such", "docs/a", {}), ("bad", "files.read", 7, {}),
                    ("up", "files.read", "../docs", {}), ("out", "files.write", "tmp/a", {}),
                    ("step", "files.read", "docs/a", {"step": 500}),
                    ("many", "files.read", "docs/a", {})):
                invoke(child, name, id, path=path, **more)
            return DONE
        self.run_turn(runtime(work), tools=[READ, {**WRITE, "ceiling": ["docs"]}],
                      submit={"maxToolCalls": 6, "maxSteps": 2})
        for id, (source, code) in wanted.items():
            found = [r for r in self.records if r.get("callId") == id and
                     r["type"] in ("authorization.checked", "tool.refused")]
            self.assertEqual([(r["source"], r["reason"]) for r in found],
                             [(source, code or "allowed")], id)
        self.assertEqual(self.record("tool.refused", callId="none")["cause"], "not_offered")


class Surface(Envelope):
    """What a runtime can do at all, and what others see of it (TU-1 to TU-7, TU-18 to TU-22)."""

    def test_a_runtime_has_four_things_to_say(self):  # TU-1, TU-3
        text = (wire.ROOT / "common" / "protocol.def").read_text()
        rows = re.findall(r'(?:REQUEST|NOTIFY)\(\w+, "([a-z_.]+)", ([A-Z_| ]+), ', text)
        self.assertEqual({name for name, sender in rows if "ROLE_WORKER" in sender},
                         {"hello", "tool.invoke", "event.emit", "turn.annotate",
                          "output.write"})

    def test_a_malformed_call_is_a_fault(self):  # TU-20, TU-21
        good = {"id": "1", "tool": "files.read", "arguments": {"path": "docs/a"}}
        for bad in ({"step": -1}, {"step": 1.5}, {"step": "1"}, {"id": ""}, {"tool": 7},
                    {"arguments": []}, {"arguments": None}, {"approved": True}):
            def worker(child):
                child.peer.hello()
                _, params = child.peer.expect("operation.run")
                child.peer.request("tool.invoke", operation=params["operation"],
                                   **{**good, **bad})
                child.killed.wait(20)
            self.run_turn(worker)
            self.assertEqual(self.event["body"]["cause"]["kind"],
                             "runtime_protocol_violation", bad)
            self.assertEqual([r for r in self.records if r["type"] == "tool.invoked"], [])

    def events(self):
        """Those of the turn: its result is the last."""
        found = [e["body"]["event"] for e in self.client.events if "event" in e["body"]]
        return found + [self.event["body"]["turn"]["event"]]

    def test_events_have_a_sequence_of_their_own(self):  # TU-18, TU-22, TU-29
        said = []

        def work(child, params):
            invoke(child, "files.read", "1", path="docs/s3cret-argument")
            said.append(child.peer.call("event.emit", operation=child.operation, type="x.y",
                                        data=1)["sequence"])
            invoke(child, "no.such", "2", path="docs/a")
            return {"status": "complete", "output": "s3cret-output"}
        self.run_turn(runtime(work), serve(lambda p: ok("s3cret-result")))
        events = self.events()
        self.assertEqual([e["type"] for e in events], [
            "turn.started", "tool.requested", "tool.completed", "runtime.event",
            "tool.requested", "tool.completed", "turn.completed"])
        self.assertEqual([e["sequence"] for e in events], list(range(7)))
        self.assertEqual(said, [3])
        self.assertEqual(len({e["id"] for e in events}), 7)
        self.assertEqual(sorted(e["at"] for e in events), [e["at"] for e in events])
        self.assertNotIn("s3cret", repr(self.client.events[:-1]))
        codes = [e["body"].get("code") for e in self.client.events
                 if e["body"].get("kind") == "tool_call_finished"]
        self.assertEqual(codes, [None, "tool_unavailable"])

    def test_each_status_has_its_event(self):  # TU-15, TU-17
        error = {"code": "mine", "message": "", "retryable": False}

        def crash(child):
            child.peer.hello()
            child.peer.expect("operation.run")
        for worker, config, status, source in (
                (runtime(lambda c, p: DONE), {}, "succeeded", None),
                (runtime(lambda c, p: {"status": "fail", "error": error}), {}, "failed",
                 "runtime"),
                (runtime(lambda c, p: {"status": "fail"}), {}, "failed", "envelope"),
                (crash, {}, "failed", "envelope"),
                (crash, {"invoke": False}, "denied", None),
                (lambda child: child.killed.wait(20), {"timeoutMs": 5}, "cancelled", None)):
            turn = self.run_turn(worker, **config)
            kind = {"succeeded": "completed"}.get(status, status)
            self.assertEqual((turn["status"], turn["event"]["type"],
                              turn["event"].get("source")), (status, "turn." + kind, source))
            r = self.record("turn.ended")
            self.assertEqual(r["endedBy"], "runtime" if source == "runtime" or
                             status == "succeeded" else "envelope")

    def test_provenance_is_the_hosts_word(self):  # TU-6, TU-8
        manifest = {"id": "test", "version": "2.7", "kind": "turn",
                    "metadata": {"team": "ops"}}

        def work(child, params):
            error, _ = child.peer.expect_reply(child.peer.request(
                "turn.annotate", operation=child.operation, key="runtime", value="forged"))
            self.assertEqual(error["code"], "invalid_argument")
            return {"status": "complete",
                    "metadata": {"runtime": {"id": "other", "version": "9"}}}
        turn = self.run_turn(runtime(work), runtimes=[manifest])
        self.assertEqual(turn["metadata"], {"runtime": {
            "id": "test", "version": "2.7", "metadata": {"team": "ops"}}})

    def test_who_watches_badly_changes_nothing(self):  # TU-7, D-4
        for spoil in (lambda c: c.close(), lambda c: c.send_raw(b"\xff\xff\xff\xff")):
            gone = threading.Event()

            def work(child, params):
                gone.wait(20)
                return {"status": "complete",
                        "output": invoke(child, "files.read", path="docs/a")["status"]}
            with Host(worker=runtime(work), provider=serve(lambda p: ok()), tools=self.TOOLS,
                      grants=self.GRANTS) as host:
                client, second = host.client(), host.client()
                operation = client.submit()
                spoil(client)
                host.round()
                gone.set()
                second.call("operation.attach", operation=operation)
                event = second.finish(operation)
                self.assertEqual(event["body"]["turn"]["output"], "succeeded")

    def test_the_same_turn_twice_is_two_turns(self):  # TU-49
        ids, held = [], threading.Barrier(2)

        def work(child, params):
            ids.append(params["operation"])
            held.wait(20)
            mine, child.operation = child.operation, next(i for i in ids
                                                          if i != child.operation)
            stolen = invoke(child, "files.read", path="docs/a")
            child.operation = mine
            held.wait(20)
            return {"status": "complete", "output": stolen["error"]["code"]}
        with Host(worker=runtime(work), provider=serve(lambda p: ok()), tools=self.TOOLS,
                  grants=self.GRANTS) as host:
            client = host.client()
            for _ in range(2):
                client.submit(message={"same": 1}, trace="t", purpose="test")
            for _ in range(2):
                self.assertEqual(client.finish()["body"]["turn"]["output"], "host_closed")
            self.assertEqual([r for r in host.records() if r.get("tool")], [])


class Budgets(Envelope):
    def test_what_counts_against_the_budget_of_calls(self):  # TU-24, TU-25, TU-26
        def work(child, params):
            answers = [invoke(child, name, str(n), path=path, **({"step": step} if step else {}))
                       for n, (name, path, step) in enumerate([
                           ("files.read", "docs/a", 9), ("files.read", "docs/a", 8),
                           ("no.such", "docs/a", None), ("files.read", "secret", None),
                           ("files.read", "docs/a", None), ("files.read", "docs/a", None)])]
            return {"status": "complete",
                    "output": [a.get("error", {}).get("code") for a in answers]}
        turn = self.run_turn(runtime(work), submit={"maxToolCalls": 3, "maxSteps": 2})
        self.assertEqual(turn["output"], [
            "step_limit_exceeded", "step_limit_exceeded", "tool_unavailable",
            "no_matching_grant", None, "tool_call_limit_exceeded"])

    def test_one_call_reaches_the_provider_once(self):  # TU-25
        called = []

        def work(child, params):
            return {"status": "complete", "output": [
                invoke(child, "files.read", str(n), path="docs/a")["status"] for n in range(2)]}
        turn = self.run_turn(runtime(work), serve(lambda p: called.append(1) or ok()),
                             submit={"maxToolCalls": 1})
        self.assertEqual((turn["output"], called), (["succeeded", "denied"], [1]))

    def test_expiry_is_judged_when_a_call_is(self):  # TU-28, TU-41
        until = int(time.time() * 1000) + 3000 * wire.SLOWER

        def work(child, params):
            first = invoke(child, "files.read", "1", path="docs/a")
            while time.time() * 1000 <= until:  # the instant is what this is about
                select.select([], [], [], 0.05)
            second = invoke(child, "files.read", "2", path="docs/a")
            return {"status": "complete", "output": [first["status"], second["error"]["code"]]}
        turn = self.run_turn(runtime(work), grants=[
            grant("brief", ["docs"], ["read"], expiresAt=until), grant(
                "other", ["elsewhere"], ["read"])])
        self.assertEqual(turn["output"], ["succeeded", "no_matching_grant"])
        r = self.record("authorization.checked", outcome="denied")
        self.assertEqual((r["grant"], r["cause"]), ("brief", "window"))


class Ceiling(Envelope):
    """What the host refuses, whatever is granted (TU-44)."""

    FROZEN = [{"namespace": "workspace", "path": ["docs", "ledger"], "scope": "descendants",
               "actions": ["*"]},
              {"namespace": "workspace", "path": [], "scope": "descendants",
               "actions": ["write"]}]

    def test_a_frozen_tree_is_refused_and_the_rest_is_not(self):  # TU-44
        def work(child, params):
            self.offered = [t["name"] for t in params["tools"]]
            return {"status": "complete", "output": [
                invoke(child, name, str(n), path=path) for n, (name, path) in enumerate([
                    ("files.read", "docs/ledger/2026"), ("files.read", "docs/a"),
                    ("files.write", "docs/a")])]}
        frozen, control, write = self.run_turn(runtime(work), ceiling=self.FROZEN)["output"]
        self.assertEqual((frozen["status"], frozen["error"]["code"]),
                         ("denied", "host_policy_denied"))
        self.assertNotIn("g-docs", repr(frozen))
        self.assertEqual(control["status"], "succeeded")
        # Discovery honours it: what it refuses altogether is not offered.
        self.assertEqual(self.offered, ["files.read"])
        self.assertEqual(write["error"]["code"], "tool_unavailable")
        r = self.record("authorization.checked", outcome="denied")
        self.assertEqual((r["reason"], r["grant"], r["path"]),
                         ("host_policy_denied", "g-docs", ["docs", "ledger", "2026"]))

    def test_a_refusal_of_the_ceiling_spends_no_use(self):  # TU-44
        def work(child, params):
            return {"status": "complete", "output": [
                invoke(child, "files.read", str(n), path=path)["status"]
                for n, path in enumerate(["docs/ledger/a", "docs/ledger/b", "docs/a"])]}
        turn = self.run_turn(runtime(work), ceiling=self.FROZEN,
                             grants=[grant("once", ["docs"], ["read"], maxUses=1)])
        self.assertEqual(turn["output"], ["denied", "denied", "succeeded"])


if __name__ == "__main__":
    unittest.main()
