"""A runtime asks a person: TU-58 to TU-63, against the real broker."""

import threading
import unittest

from broker_host import DONE, Host, grant, invoke, ok, runtime, serve, tool
from wire import Closed

SECRET = "because of the moon over Ulm"
ASK = "sharedos.escalate"
WRITE = {"tool": "files.write", "arguments": {"path": "docs/a"}}


def asking(id="ask", path=("escalation",), actions=("request",), **members):
    members = {"id": id, "subject": "agent:test", "issuer": "human:op",
               "namespace": "default", "issuedAt": 0, **members}
    return members, [{"namespace": "sharedos", "path": list(path), "scope": "exact",
                      "actions": list(actions)}]


TOOLS = [tool("files.read"), tool("files.write", effect="write", action="write")]
READ = grant("read", [], ["read"])


def told_to_stop(child):
    answer = invoke(child, ASK, reason="why")
    child.peer.expect("operation.drain")
    return answer


class World(unittest.TestCase):
    def setUp(self):
        self.called = []

    def provide(self, m):
        self.called.append(m["tool"])
        return ok()

    def host(self, function, provider=None, grants=None, **config):
        host = Host(worker=runtime(function), provider=provider or serve(self.provide),
                    tools=TOOLS, grants=[READ, asking()] if grants is None else grants,
                    **config)
        self.addCleanup(host.__exit__, None, None, None)
        return host

    def turn(self, function, **config):
        host = self.host(function, **config)
        result, event = host.client().turn()
        return host, result, event

    def of(self, host, type):
        return [r for r in host.records() if r["type"] == type]


class Asks(World):
    def test_an_ask_ends_the_turn_and_grants_nothing(self):  # TU-58, TU-59
        answers = []

        def ask(child, params):
            self.assertIn(ASK, [t["name"] for t in params["tools"]])
            answers.append(invoke(child, ASK, reason=SECRET, request=WRITE))
            return DONE

        host, result, event = self.turn(ask)
        self.assertEqual(answers[0]["status"], "succeeded")
        self.assertEqual(answers[0]["output"]["stop"], True)
        self.assertEqual(answers[0]["output"]["status"], "pending")
        self.assertEqual(event["type"], "completed")
        self.assertEqual(result["status"], "escalated")
        self.assertNotIn("output", result)  # the runtime's outcome is kept aside (TU-62)
        self.assertNotIn("error", result)
        escalation = result["escalation"]
        self.assertEqual(escalation["reason"], SECRET)
        self.assertEqual(escalation["code"], "escalation_requested")
        self.assertEqual(escalation["status"], "pending")
        self.assertEqual(escalation["requester"], "agent:test")
        self.assertEqual(escalation["reviewer"], "human:op")
        self.assertEqual(escalation["id"], answers[0]["output"]["escalation"])
        self.assertEqual(escalation["request"]["path"], ["docs", "a"])
        self.assertEqual(result["callsAfterEscalation"], 0)

        [record] = self.of(host, "escalation.requested")
        self.assertEqual(record["outcome"], "escalated")
        self.assertEqual(record["escalation"], escalation["id"])
        self.assertNotEqual(record["id"], record["escalation"])  # TU-65
        self.assertEqual(record["actor"], "agent:test")
        self.assertEqual(record["owner"], "human:op")
        self.assertEqual((record["tool"], record["action"], record["resource"],
                          record["path"], record["status"]),
                         ("files.write", "write", "workspace", ["docs", "a"], "pending"))
        self.assertEqual(record["digest"].hex(), escalation["request"]["digest"])
        self.assertNotIn(SECRET, repr(host.records()))  # D-12, TU-67
        self.assertEqual([r["status"] for r in self.of(host, "turn.ended")], ["escalated"])
        self.assertEqual([r["outcome"] for r in self.of(host, "operation.ended")],
                         ["escalated"])
        # No denial in any statistic (TU-63).
        self.assertEqual([r for r in host.records() if r.get("outcome") == "denied"], [])
        self.assertEqual(self.of(host, "tool.invoked"), [])
        self.assertEqual(self.called, [])  # TU-61

    def test_an_outcome_is_the_same_ask(self):  # TU-15, TU-59
        host, result, event = self.turn(
            lambda child, params: {"status": "escalate", "reason": SECRET})
        self.assertEqual((event["type"], result["status"]), ("completed", "escalated"))
        self.assertEqual(result["escalation"]["reason"], SECRET)
        self.assertNotIn("request", result["escalation"])
        self.assertEqual(len(self.of(host, "escalation.requested")), 1)
        self.assertNotIn(SECRET, repr(host.records()))

    def test_the_same_ask_has_the_same_id(self):  # TU-63
        asks = iter([{"request": WRITE}, {"request": WRITE, "reason": "for another reason"},
                     {"request": {**WRITE, "arguments": {"path": "docs/b"}}},
                     {"request": {**WRITE, "tool": "files.read"}}, {}, {},
                     {"reason": "for another reason"}])

        def ask(child, params):
            invoke(child, ASK, **{"reason": "why", **next(asks)})
            return DONE

        host = self.host(ask)
        client = host.client()
        ids = [client.turn()[0]["escalation"]["id"] for _ in range(7)]
        self.assertEqual(ids[0], ids[1])
        self.assertEqual(ids[4], ids[5])
        self.assertEqual(len(set(ids)), 5)
        records = self.of(host, "escalation.requested")
        self.assertEqual([r["escalation"] for r in records], ids)
        self.assertEqual(len({r["id"] for r in records}), 7)  # TU-65

    def test_the_answer_does_not_say_whether_a_tool_exists(self):  # TU-27, TU-63
        wanted = iter(["files.write", "no.such.tool"])
        answers = []

        def ask(child, params):
            answers.append(invoke(child, ASK, reason="why", request={
                "tool": next(wanted), "arguments": {"path": "docs/a"}}))
            return DONE

        host = self.host(ask)
        client = host.client()
        results = [client.turn()[0] for _ in range(2)]
        for a in answers:
            a["output"].pop("escalation")
        self.assertEqual(answers[0], answers[1])
        self.assertNotIn("resource", results[1]["escalation"]["request"])
        known, unknown = self.of(host, "escalation.requested")
        self.assertNotIn("cause", known)
        self.assertEqual(unknown["cause"], "not_registered")
        self.assertNotIn("path", unknown)

    def test_what_cannot_be_resolved_is_recorded_as_that(self):
        def ask(child, params):
            invoke(child, ASK, reason="why", request={
                "tool": "files.write", "arguments": {"path": "../x"}})
            return DONE

        host, result, _ = self.turn(ask)
        [record] = self.of(host, "escalation.requested")
        self.assertEqual((result["status"], record["cause"]), ("escalated", "invalid_request"))
        self.assertNotIn("..", repr(record))

    def test_a_malformed_ask_is_refused_and_the_turn_goes_on(self):
        answers = []

        def ask(child, params):
            for arguments in ({}, {"reason": ""}, {"reason": 1}, {"reason": "w", "more": 1},
                              {"reason": "w", "request": {"tool": "files.write"}},
                              {"reason": "w", "request": {**WRITE, "grant": {}}},
                              {"reason": "w" * 4097}):
                answers.append(invoke(child, ASK, **arguments))
            answers.append(invoke(child, "files.read", path="a"))
            return DONE

        host, result, _ = self.turn(ask)
        self.assertEqual([a["error"]["code"] for a in answers[:-1]],
                         ["invalid_tool_arguments"] * 7)
        self.assertEqual((answers[-1]["status"], result["status"]),
                         ("succeeded", "succeeded"))
        self.assertEqual(self.of(host, "escalation.requested"), [])


class MayNotAsk(World):
    def check(self, grants, **config):  # TU-58, TU-60
        answers = []

        def ask(child, params):
            self.assertNotIn(ASK, [t["name"] for t in params["tools"]])
            answers.append(invoke(child, ASK, reason="why"))
            answers.append(invoke(child, "no.such.tool", id="2"))
            answers.append(invoke(child, "files.read", id="3", path="a"))
            return {"status": "escalate", "reason": SECRET}

        host, result, _ = self.turn(ask, grants=[READ] + grants, **config)
        for a in answers[:2]:
            a.pop("callId"), a.pop("tool")
        self.assertEqual(answers[0], answers[1])
        self.assertEqual(answers[0]["error"]["code"], "tool_unavailable")
        self.assertEqual(answers[2]["status"], "succeeded")
        self.assertEqual((result["status"], result["error"]["code"]),
                         ("failed", "tool_unavailable"))
        self.assertEqual(self.of(host, "escalation.requested"), [])
        self.assertEqual(len(self.of(host, "turn.ended")), 1)
        self.assertNotIn(SECRET, repr(host.records()))

    def test_without_a_grant(self):
        self.check([])

    def test_with_one_for_another_place_or_action(self):
        self.check([asking(actions=["read"])])

    def test_in_a_namespace_that_is_not_enabled(self):
        self.check([asking()], toolNamespaces=["files"])
        _, result, _ = self.turn(
            lambda child, params: {"status": "escalate", "reason": "why"},
            toolNamespaces=["files", "sharedos"])
        self.assertEqual(result["status"], "escalated")

    def test_with_one_that_is_spent(self):
        done = threading.Event()

        def ask(child, params):
            if not done.is_set():
                done.set()
                invoke(child, ASK, reason="why")
                return DONE
            self.assertNotIn(ASK, [t["name"] for t in params["tools"]])
            return {"status": "escalate", "reason": "again"}

        host = self.host(ask, grants=[READ, asking(maxUses=1)])
        client = host.client()
        self.assertEqual(client.turn()[0]["status"], "escalated")
        self.assertEqual(client.turn()[0]["error"]["code"], "tool_unavailable")
        spent = [r for r in self.of(host, "authorization.checked") if r.get("uses")]
        self.assertEqual([(r["grant"], r["uses"]) for r in spent], [("ask", 1)])

    def test_with_one_for_another_path(self):
        answers = []

        def ask(child, params):
            answers.append(invoke(child, ASK, reason="why"))
            return {"status": "escalate", "reason": "why"}

        host, result, _ = self.turn(ask, grants=[READ, asking(path=["elsewhere"])])
        self.assertEqual(answers[0]["error"]["code"], "no_matching_grant")
        self.assertEqual(result["error"]["code"], "tool_unavailable")
        self.assertEqual(self.of(host, "escalation.requested"), [])


class Afterwards(World):
    def test_later_calls_are_refused_and_counted(self):  # TU-62
        answers = []

        def ask(child, params):
            told_to_stop(child)
            for n, name in enumerate([ASK, "files.read", "no.such.tool"]):
                answers.append(invoke(child, name, id=f"x{n}", path="a", reason="why"))
            return {"status": "fail", "error": {"code": "lost", "message": "m"}}

        host, result, _ = self.turn(ask, maxToolCalls=1)
        self.assertEqual([(a["status"], a["error"]["code"]) for a in answers],
                         [("denied", "escalation_pending")] * 3)
        self.assertEqual((result["status"], result["callsAfterEscalation"]),
                         ("escalated", 3))
        self.assertEqual(self.of(host, "tool.invoked"), [])
        self.assertEqual([r["reason"] for r in self.of(host, "tool.refused")],
                         ["escalation_pending"] * 3)

    def test_a_call_that_runs_may_answer(self):
        release, answers = threading.Event(), []

        def provider(child):
            child.peer.hello("provider")
            m = child.peer.expect("tool.call")
            release.wait(10)
            child.peer.reply(m[0], callId=m[1]["call"], **ok("late but true"))
            child.peer.receive()

        def ask(child, params):
            read = child.peer.request("tool.invoke", operation=child.operation, id="r",
                                      tool="files.read", arguments={"path": "a"})
            told_to_stop(child)
            release.set()
            answers.append(child.peer.expect_reply(read))
            return DONE

        host, result, _ = self.turn(ask, provider=provider)
        self.assertEqual(answers[0][1]["output"], "late but true")
        self.assertEqual(result["status"], "escalated")
        self.assertEqual([r["outcome"] for r in self.of(host, "tool.invoked")], ["succeeded"])

    def test_a_runtime_that_does_not_stop_is_stopped(self):  # TU-57
        def ask(child, params):
            child.peer.request("tool.invoke", operation=child.operation, id="r",
                               tool="files.read", arguments={"path": "a"})
            invoke(child, ASK, reason="why")

        host, result, event = self.turn(ask, provider=serve(lambda m: None))
        self.assertEqual((event["type"], result["status"]), ("completed", "escalated"))
        [record] = self.of(host, "tool.invoked")
        self.assertEqual((record["outcome"], record["cause"]),
                         ("interrupted", "outcome_unknown"))

    def test_a_runtime_that_dies_has_asked(self):  # D-2
        def ask(child, params):
            invoke(child, ASK, reason="why")
            raise Closed

        host, result, event = self.turn(ask)
        self.assertEqual((event["type"], result["status"]), ("completed", "escalated"))

    def test_a_runtime_that_breaks_the_protocol_has_asked(self):  # D-2, D-5
        def ask(child, params):
            invoke(child, ASK, reason="why")
            child.peer.notify("no.such.method")

        host, result, event = self.turn(ask)
        self.assertEqual((event["type"], result["status"]), ("completed", "escalated"))

    def test_a_cancel_comes_too_late(self):  # D-2, D-6
        asked = threading.Event()

        def ask(child, params):
            invoke(child, ASK, reason="why")
            asked.set()

        host = self.host(ask)
        client = host.client()
        operation = client.submit()
        self.assertTrue(asked.wait(10))
        client.call("operation.stop", operation=operation)
        self.assertEqual(client.finish()["body"]["turn"]["status"], "escalated")
        self.assertEqual(len(self.of(host, "turn.ended")), 1)


if __name__ == "__main__":
    unittest.main()
