"""Grants for one exact call: given by the call, or by the escalation that asked for it."""

import contextlib
import json
import os
import subprocess
import threading
import unittest

import real
import wire
from broker_host import DONE, Host, grant, invoke, ok, runtime, serve, tool
from test_escalation import ASK, READ, TOOLS, WRITE, asking
from deaths_lab import STOPS
from test_replay_deaths import World as Lab

SECRET = "the moon over Ulm"
HELD = [tool("files.hold", effect="write", action="write",
             properties={"path": {"type": "string"}, "text": {"type": "string"},
                         "n": {"type": "number"}})]
CALL = {"path": "docs/a", "text": SECRET, "n": 1}


def code(answer):
    return answer.get("error", {}).get("code", answer["status"])


class Case(unittest.TestCase):
    def host(self, function, **config):
        self.effects = []

        def provide(m):
            self.effects.append(m["arguments"])
            return ok()

        host = Host(worker=runtime(function), provider=serve(provide), tools=TOOLS + HELD,
                    **{"grants": [READ, asking()], **config})
        self.addCleanup(host.__exit__, None, None, None)
        return host

    def calls(self, *wanted):
        """A runtime that makes these calls in each turn; its output are their codes."""
        def work(child, params):
            return {"status": "complete", "output": [
                code(invoke(child, name, str(i), **arguments))
                for i, (name, arguments) in enumerate(wanted)]}
        return work

    def refused(self, client, **params):
        error, result = client.expect_reply(client.request("grant.issue", **params))
        self.assertIsNone(result)
        return error["code"], error["message"]

    def of(self, host, type):
        return [r for r in host.records() if r["type"] == type]


class ByTheCall(Case):
    ISSUE = {"subject": "agent:test", "tool": "files.hold", "arguments": CALL}

    def test_it_is_that_call_once(self):  # D-12, TU-27, TU-34
        changed = [{**CALL, "text": SECRET + "!"}, {**CALL, "text": SECRET[:-1]},
                   {**CALL, "n": 1.0}, {**CALL, "path": "docs/b"},
                   {**CALL, "path": "docs//a"}]
        # Another order of members is the same value.
        same = dict(reversed(list(CALL.items())))
        host = self.host(self.calls(*[("files.hold", c) for c in changed],
                                    ("files.hold", same), ("files.hold", CALL),
                                    ("files.write", {"path": "docs/a"})))
        client = host.client()
        self.assertEqual(client.turn()[0]["output"], ["tool_unavailable"] * 8)
        given = client.call("grant.issue", **self.ISSUE)["grant"]
        self.assertEqual((given["maxUses"], given["delegationDepth"], given["call"]["tool"]),
                         (1, 0, "files.hold"))
        self.assertEqual(given["capabilities"], [{
            "namespace": "workspace", "path": ["docs", "a"], "scope": "exact",
            "actions": ["write"]}])
        self.assertEqual(client.turn()[0]["output"],
                         ["no_matching_grant"] * 4 + ["invalid_request", "succeeded",
                                                      "grant_exhausted", "tool_unavailable"])
        self.assertEqual(self.effects, [CALL])
        # It is spent: nothing is offered any more.
        self.assertEqual(client.turn()[0]["output"], ["tool_unavailable"] * 8)
        self.assertEqual(len(self.effects), 1)
        [record] = self.of(host, "grant.issued")
        self.assertEqual(record["arguments"].hex(), given["call"]["digest"])
        self.assertNotIn(SECRET, repr(host.records()))
        denied = [r for r in self.of(host, "authorization.checked")
                  if r["outcome"] == "denied" and r.get("grant") == given["id"]]
        self.assertEqual([r["detail"] for r in denied if "detail" in r],
                         ["call"] * 3)

    def test_why_says_what_it_lacks(self):
        client = self.host(self.calls(("files.hold", CALL))).client()
        given = client.call("grant.issue", **self.ISSUE)["id"]

        def why(subject="agent:test", **arguments):
            return client.call("grant.why", subject=subject, tool="files.hold",
                               arguments={**CALL, **arguments})

        self.assertEqual((why()["allowed"], why()["grant"]), (True, given))
        other = why(text="other")
        self.assertEqual((other["allowed"], other["code"], other["closest"], other["detail"]),
                         (False, "no_matching_grant", given, "call"))
        self.assertFalse(why("agent:other")["allowed"])
        self.assertEqual(client.turn()[0]["output"], ["succeeded"])
        self.assertFalse(why()["allowed"])  # and asking used nothing up before

    def test_it_is_nobody_elses(self):
        may = ({"id": "run2", "subject": "agent:other", "issuer": "human:op",
                "namespace": "default", "issuedAt": 0},
               [{"namespace": "sharedos.execution", "path": ["other"], "scope": "exact",
                 "actions": ["invoke"]}])
        host = self.host(self.calls(("files.hold", CALL)), grants=[READ, may], runtimes=[
            {"id": "test", "version": "1", "kind": "turn"},
            {"id": "other", "version": "1", "kind": "turn"}])
        client = host.client()
        client.call("grant.issue", **self.ISSUE)
        self.assertEqual(client.turn(runtime="other")[0]["output"], ["tool_unavailable"])
        self.assertEqual(client.turn(runtime="test")[0]["output"], ["succeeded"])

    def test_what_is_no_call_is_refused(self):
        client = self.host(self.calls()).client()
        issue = self.ISSUE
        for params, want in [
                ({**issue, "tool": "no.such"}, "not_found"),
                ({**issue, "arguments": {}}, "invalid_tool_arguments"),
                ({**issue, "arguments": {**CALL, "path": "../x"}}, "invalid_request"),
                ({**issue, "maxUses": 2}, "invalid_argument"),
                ({**issue, "delegationDepth": 1}, "invalid_argument"),
                ({"subject": "agent:test", "tool": "files.hold"}, "invalid_argument"),
                ({"subject": "agent:test", "arguments": CALL}, "invalid_argument"),
                ({"tool": "files.hold", "arguments": CALL}, "invalid_argument"),
                ({"subject": "agent:test"}, "empty_capabilities")]:
            with self.subTest(params=params):
                got, message = self.refused(client, **params)
                self.assertEqual(got, want, message)
                self.assertNotIn(SECRET, message)

    def test_a_runtime_is_told_nothing_of_it(self):  # TU-2, TU-47
        seen = []

        def look(child, params):
            seen.append(params)
            return DONE

        client = self.host(look, grants=[]).client()
        client.call("grant.issue", **self.ISSUE)
        client.turn()
        self.assertEqual([t["name"] for t in seen[0]["tools"]], ["files.hold"])
        self.assertEqual(seen[0]["context"]["reach"], {"computed": True, "entries": []})


class ByTheEscalation(Case):
    def asked(self, request=WRITE, **config):
        """A host whose turn has asked; later turns make the call."""
        self.asking = threading.Event()

        def work(child, params):
            if not self.asking.is_set():
                self.asking.set()
                invoke(child, ASK, reason=SECRET, **({"request": request} if request else {}))
                return DONE
            return {"status": "complete", "output": [
                code(invoke(child, "files.write", str(i), path=p))
                for i, p in enumerate(["docs/b", "docs/a", "docs/a"])]}

        host = self.host(work, **config)
        client = host.client()
        return host, client, client.turn()[0]["escalation"]["id"]

    def test_it_grants_the_call_that_was_asked_for_once(self):  # TU-59, TU-63
        host, client, id = self.asked()
        [listed] = client.call("escalation.list", cursor=0)["escalations"]
        self.assertEqual((listed["id"], listed["status"], listed["requester"],
                          listed["tool"], listed["path"]),
                         (id, "pending", "agent:test", "files.write", ["docs", "a"]))
        self.assertEqual(client.turn()[0]["output"], ["tool_unavailable"] * 3)
        given = client.call("grant.issue", resolves=id)["grant"]
        self.assertEqual((given["subject"], given["maxUses"], given["call"]["digest"]),
                         ("agent:test", 1, listed["digest"]))
        self.assertEqual(client.turn()[0]["output"],
                         ["no_matching_grant", "succeeded", "grant_exhausted"])
        self.assertEqual(self.effects, [{"path": "docs/a"}])
        [record] = self.of(host, "grant.issued")
        self.assertEqual(record["escalation"], id)
        [listed] = client.call("escalation.list", cursor=0)["escalations"]
        self.assertEqual(listed["status"], "resolved")
        self.assertNotIn(SECRET, repr(host.records()))

    def test_it_is_resolved_once(self):
        host, client, id = self.asked()
        self.assertEqual(self.refused(client, resolves="e-unknown")[0], "not_found")
        self.assertEqual(self.refused(client, resolves=id, subject="agent:other")[0],
                         "invalid_argument")
        client.call("grant.issue", resolves=id)
        self.assertEqual(self.refused(client, resolves=id)[0], "failed_precondition")
        # Who asks the same again waits again, under the same id.
        self.asking.clear()
        self.assertEqual(client.turn()[0]["escalation"]["id"], id)
        client.call("grant.issue", resolves=id)
        self.assertEqual(len(self.of(host, "grant.issued")), 2)

    def test_two_at_once_are_one(self):
        _, client, id = self.asked()
        first = client.request("grant.issue", resolves=id)
        second = client.request("grant.issue", resolves=id)
        answers = {}
        for _ in range(2):
            m = client.receive()
            answers[m[1]] = m
        self.assertIsNone(answers[first][2])
        self.assertEqual(answers[second][2]["code"], "failed_precondition")

    def test_an_operator_may_say_something_else(self):
        _, client, id = self.asked()
        client.call("grant.issue", resolves=id, capabilities=[{
            "namespace": "workspace", "path": ["docs"], "scope": "descendants",
            "actions": ["write"]}])
        self.assertEqual(client.turn()[0]["output"], ["succeeded"] * 3)

    def test_an_ask_that_names_no_call_needs_it(self):
        for request in (None, {"tool": "no.such", "arguments": {}}):
            with self.subTest(request=request):
                _, client, id = self.asked(request)
                self.assertEqual(self.refused(client, resolves=id)[0], "failed_precondition")
                client.call("grant.issue", resolves=id, capabilities=[{
                    "namespace": "workspace", "path": ["docs", "a"], "scope": "exact",
                    "actions": ["write"]}])
                self.assertEqual(client.turn()[0]["output"],
                                 ["no_matching_grant", "succeeded", "succeeded"])

    def test_only_an_operator_sees_and_resolves(self):  # D-18
        if os.getuid() == 0:
            self.skipTest("root is the operator everywhere")
        client = self.host(self.calls(), operator=1 + os.getuid()).client()
        for method, params in (("escalation.list", {"cursor": 0}),
                               ("grant.issue", {"resolves": "e-1"})):
            error, _ = client.expect_reply(client.request(method, **params))
            self.assertEqual(error["code"], "permission_denied")

    def test_a_ledger_cannot_make_it_ask_for_something_else(self):
        host, client, id = self.asked()
        [record] = self.of(host, "escalation.requested")
        forged = {**record, "path": ["docs", "other"]}
        moved = {**record, "actor": "agent:other"}
        for r, known in ((record, True), (forged, False), (moved, False)):
            later = self.host(self.calls(), state={
                "escalations": [{"record": r, "resolved": False}]})
            listed = later.client().call("escalation.list", cursor=0)["escalations"]
            self.assertEqual([e["id"] for e in listed], [id] if known else [])


class AcrossRestarts(unittest.TestCase):
    """A daemon, its command line, and deaths between the steps."""

    def caisson(self, world, *words):
        return subprocess.run(
            [wire.program("caisson"), "grant", *words, "--socket", world.socket],
            capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=wire.TIMEOUT,
            check=False, env=real.environment())

    def lab(self, stop=None):
        world = Lab(self, bounded=False)
        config = world.config.read_text()
        start = config.index("grants:")
        world.config.write_text(config[:start] + """grants:
  - id: ask
    subject: agent:agent
    issuer: human:op
    namespace: default
    capabilities: [{ resource: { namespace: sharedos, path: escalation, scope: exact }, actions: [request] }]
""")
        world.serve(stop)
        return world

    def ask(self, world):
        with wire_client(world) as peer:
            reply = turn(peer, {"ask": {"tool": "count.add", "arguments": {"name": "a"}}})
        return reply["turn"]["escalation"]["id"]

    def test_what_waits_is_there_and_what_is_spent_is_spent(self):
        world = self.lab()
        id = self.ask(world)
        world.daemon.end()
        world.serve()
        result = self.caisson(world, "list", "--pending", "-o", "jsonl")
        self.assertEqual([json.loads(line)["id"] for line in result.stdout.splitlines()], [id],
                         result.stderr)
        table = self.caisson(world, "list", "--pending")
        self.assertIn("add:count:a", table.stdout)
        world.kill("broker")
        result = self.caisson(world, "issue", "--resolves", id)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("by one call of count.add", result.stdout)
        world.daemon.end()
        world.serve()
        self.assertEqual(self.caisson(world, "issue", "--resolves", id).returncode, 125)
        self.assertEqual(world.call({"key": "x", "name": "b"}), ("denied", "no_matching_grant"))
        self.assertEqual(world.call({"key": "y"}), ("succeeded", None))
        for _ in range(2):
            self.assertEqual(world.call({"key": "z"}), ("denied", "tool_unavailable"))
            world.daemon.end()
            world.serve()
        self.assertEqual(len(world.done()), 1)
        self.assertEqual(self.caisson(world, "list", "--pending").stdout, "")
        world.daemon.end()
        asked = world.audit("query", "--outcome", "escalated", "-o", "jsonl").stdout
        self.assertIn(f'"escalation":"{id}"', asked)

    @unittest.skipUnless((STOPS / "bin" / "caissond").exists(),
                         "the programs with stop points are not built: make stops")
    def test_a_death_while_it_is_resolved_leaves_one_grant_or_none(self):
        for point in ("issue_recorded", "issue_durable"):
            with self.subTest(point=point):
                world = self.lab(f"broker.{point}")
                id = self.ask(world)
                result = self.caisson(world, "issue", "--resolves", id)
                self.assertEqual(result.returncode, 125, result.stdout)
                pending = self.caisson(world, "list", "--pending").stdout
                again = self.caisson(world, "issue", "--resolves", id)
                self.assertEqual(again.returncode, 0 if id in pending else 125, again.stderr)
                if point == "issue_durable":
                    self.assertEqual(pending, "")
                self.assertEqual(world.call({"key": "y"}), ("succeeded", None))
                self.assertEqual(world.call({"key": "z"}), ("denied", "tool_unavailable"))
                self.assertEqual(len(world.done()), 1)
                world.daemon.close()

    @unittest.skipUnless((STOPS / "bin" / "caissond").exists(),
                         "the programs with stop points are not built: make stops")
    def test_an_ask_stands_on_record_with_its_turns_ending_or_not_at_all(self):  # D-2, TU-68
        for point in ("outcome_received", "ending_decided", "ending_recorded",
                      "ending_durable", "ending_told"):
            with self.subTest(point=point):
                world = self.lab(f"broker.{point}")
                with wire_client(world) as peer, contextlib.suppress(
                        wire.Closed, ConnectionError):
                    turn(peer, {"ask": {"tool": "count.add", "arguments": {"name": "a"}}})
                pending = self.caisson(world, "list", "--pending", "-o", "jsonl")
                listed = [json.loads(line)["id"] for line in pending.stdout.splitlines()]
                world.daemon.end()
                shown = world.audit("show", "-o", "jsonl")
                records = [json.loads(line) for line in shown.stdout.splitlines()]
                asked = [r["escalation"] for r in records
                         if r["type"] == "escalation.requested"]
                [ended] = [r for r in records if r["type"] == "turn.ended"]
                self.assertEqual(asked, listed)
                self.assertEqual(len(asked), ended["status"] == "escalated", records)
                if point in ("ending_durable", "ending_told"):
                    self.assertEqual(len(asked), 1)

    def test_a_call_on_the_command_line(self):
        world = self.lab()
        result = self.caisson(world, "issue", "--subject", "agent:agent", "--call", "count.add",
                              '{"name": "a"}')
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(world.call({"key": "x", "name": "b"}), ("denied", "no_matching_grant"))
        self.assertEqual(world.call({"key": "y"}), ("succeeded", None))
        self.assertEqual(len(world.done()), 1)


def wire_client(world):
    peer = world.daemon.connect()
    peer.hello()
    return peer


def turn(peer, message):
    peer.call("operation.submit", kind="turn", runtime="agent", message=message)
    while True:
        _, event = peer.expect("operation.event")
        if event["type"] in ("completed", "failed"):
            return event["body"]


if __name__ == "__main__":
    unittest.main()
