"""The same call under the same key is made once (TU-70, TU-71, D-10)."""

import threading
import unittest

from broker_host import DONE, Host, grant, ok, runtime, serve, tool
from wire import Closed, TIMEOUT

TOOLS = [tool("files.read"), tool("files.write", effect="write", action="write"),
         tool("files.append", effect="write", action="write")]
ALL = grant("all", [], ["read", "write"])
SECRET = "the-key-of-the-moon"


def call(child, name="files.write", key=SECRET, id="1", **arguments):
    extra = {} if key is None else {"idempotencyKey": key}
    msgid = child.peer.request("tool.invoke", operation=child.operation, id=id, tool=name,
                               arguments={"path": "a", **arguments}, **extra)
    return child.peer.expect_reply(msgid)[1]


def told(answer):
    return {k: v for k, v in answer.items() if k != "callId"}


def code(answer):
    return answer["status"], answer.get("error", {}).get("code")


class World(unittest.TestCase):
    def setUp(self):
        self.effects = []
        self.begun = threading.Event()  # an effect has

    def provide(self, m):
        self.effects.append(m)
        return ok(f"effect {len(self.effects)}")

    def host(self, function, provider=None, grants=(ALL,), **config):
        host = Host(worker=runtime(function), provider=provider or serve(self.provide),
                    tools=TOOLS, grants=grants, **config)
        self.addCleanup(host.__exit__, None, None, None)
        return host

    def answers(self, function, turns=1, **config):
        """What `function` answers in each turn, all of them in one namespace."""
        found = []

        def turn(child, params):
            found.append(function(child))
            return DONE

        host = self.host(turn, **config)
        client = host.client()
        for _ in range(turns):
            self.assertEqual(client.turn()[0]["status"], "succeeded")
        return host, found

    def of(self, host, type):
        return [r for r in host.records() if r["type"] == type]


class Replayed(World):
    def test_the_same_call_is_made_once_in_whatever_turn(self):  # TU-70
        host, found = self.answers(
            lambda child: [call(child, id=str(i)) for i in range(3)], turns=2)
        flat = found[0] + found[1]
        self.assertEqual(len(self.effects), 1)
        self.assertEqual([a["callId"] for a in found[0]], ["0", "1", "2"])
        self.assertEqual([told(a) for a in flat], [told(flat[0])] * 6)
        self.assertEqual(flat[0]["output"], "effect 1")
        self.assertEqual(len(self.of(host, "tool.replayed")), 5)
        [decided] = [r for r in self.of(host, "authorization.checked") if "call" in r]
        self.assertEqual({r["key"] for r in self.of(host, "tool.replayed")},
                         {decided["key"]})
        self.assertNotIn(SECRET, repr(host.records()))  # D-12

    def test_a_failure_of_the_tool_is_an_answer_too(self):
        def provider(m):
            self.effects.append(m)
            return {"status": "failed", "error": {"code": "no_space", "message": "full",
                                                  "retryable": False}}

        _, found = self.answers(lambda child: [call(child, id=str(i)) for i in range(2)],
                                provider=serve(provider))
        self.assertEqual([code(a) for a in found[0]], [("failed", "no_space")] * 2)
        self.assertEqual(told(found[0][0]), told(found[0][1]))
        self.assertEqual(len(self.effects), 1)

    def test_a_replay_is_charged_no_use(self):  # TU-71
        for uses in (1, 2):
            self.effects.clear()
            host, found = self.answers(
                lambda child: [call(child, id=str(i)) for i in range(5)],
                grants=[grant("few", [], ["write"], maxUses=uses)])
            self.assertEqual(len({str(told(a)) for a in found[0]}), 1)
            self.assertEqual(len(self.effects), 1)
            self.assertEqual(sum(r.get("uses", 0) for r in host.records()), 1)

    def test_without_a_key_a_call_is_made_each_time(self):
        self.answers(lambda child: [call(child, key=None, id=str(i)) for i in range(3)])
        self.assertEqual(len(self.effects), 3)

    def test_other_keys_are_other_calls(self):
        self.answers(lambda child: [call(child, key=k, id=k) for k in ("a", "b", "ab", "A")])
        self.assertEqual(len(self.effects), 4)

    def test_another_call_under_the_same_key_is_a_conflict(self):
        _, found = self.answers(lambda child: [
            call(child), call(child, path="b"), call(child, "files.append"),
            call(child, "files.read"), call(child, path="./a"[2:]), call(child)])
        self.assertEqual([code(a) for a in found[0]],
                         [("succeeded", None), ("denied", "replay_conflict"),
                          ("denied", "replay_conflict"), ("denied", "replay_conflict"),
                          ("succeeded", None), ("succeeded", None)])
        self.assertEqual(len(self.effects), 1)

    def test_what_is_not_allowed_learns_nothing_of_a_key(self):
        # The first may write; then it may not any more, whatever its key is known as.
        made = threading.Event()

        def turn(child):
            answers = [call(child, id="x", path="a"), call(child, id="y", path="b"),
                       call(child, id="z", key="new", path="b")]
            made.set()
            return answers

        _, found = self.answers(turn, grants=[grant("a", ["a"], ["write"])])
        self.assertEqual([code(a) for a in found[0]],
                         [("succeeded", None), ("denied", "no_matching_grant"),
                          ("denied", "no_matching_grant")])
        self.assertEqual({str(a["error"]) for a in found[0][1:]},
                         {str(found[0][1]["error"])})

    def test_another_principals_key_does_not_exist(self):
        found = {}

        def turn(child, params):
            found[params["agent"]] = call(child)
            return DONE

        other = grant("other", [], ["write"], subject="agent:other")
        may = ({"id": "run2", "subject": "agent:other", "issuer": "human:op",
                "namespace": "default", "issuedAt": 0},
               [{"namespace": "sharedos.execution", "path": ["other"], "scope": "exact",
                 "actions": ["invoke"]}])
        host = self.host(turn, grants=[ALL, other, may], runtimes=[
            {"id": "test", "version": "1", "kind": "turn"},
            {"id": "other", "version": "1", "kind": "turn"}])
        client = host.client()
        client.turn(runtime="test")
        client.turn(runtime="other")
        self.assertEqual([a["output"] for a in found.values()], ["effect 1", "effect 2"])
        keys = {r["key"] for r in self.of(host, "authorization.checked") if "key" in r}
        self.assertEqual(len(keys), 2)


class Unsettled(World):
    def test_a_call_that_runs_is_pending_at_once(self):
        go = threading.Event()

        def provider(child):
            child.peer.hello("provider")
            while True:
                m = child.peer.expect("tool.call")
                self.effects.append(m)
                self.assertTrue(go.wait(TIMEOUT))
                child.peer.reply(m[0], callId=m[1]["call"], **ok("once"))

        def turn(child):
            first = child.peer.request("tool.invoke", operation=child.operation, id="1",
                                       tool="files.write", arguments={"path": "a"},
                                       idempotencyKey=SECRET)
            second = call(child, id="2")
            go.set()
            return [child.peer.expect_reply(first)[1], second, call(child, id="3")]

        _, found = self.answers(turn, provider=provider)
        self.assertEqual([code(a) for a in found[0]],
                         [("succeeded", None), ("failed", "replay_pending"),
                          ("succeeded", None)])
        self.assertEqual(len(self.effects), 1)

    def test_what_a_dead_provider_left_is_interrupted(self):  # D-10
        def provider(child):
            child.peer.hello("provider")
            self.effects.append(child.peer.expect("tool.call"))
            raise Closed

        _, found = self.answers(
            lambda child: [call(child, id=str(i)) for i in range(3)], provider=provider)
        self.assertEqual([code(a) for a in found[0]],
                         [("failed", "interrupted")] + [("failed", "replay_interrupted")] * 2)
        self.assertEqual(len(self.effects), 1)

    def test_what_the_end_of_a_turn_cut_short_is_interrupted(self):
        found = []

        def provider(m):
            self.effects.append(m)
            self.begun.set()

        def turn(child, params):
            if self.effects:
                found.append(call(child))
            else:
                child.peer.request("tool.invoke", operation=child.operation, id="1",
                                   tool="files.write", arguments={"path": "a"},
                                   idempotencyKey=SECRET)
                self.assertTrue(self.begun.wait(TIMEOUT))
            return DONE

        host = self.host(turn, provider=serve(provider))
        client = host.client()
        client.turn()
        client.turn()
        self.assertEqual([code(a) for a in found], [("failed", "replay_interrupted")])
        self.assertEqual(len(self.effects), 1)

    def test_what_did_not_start_frees_its_key(self):  # TU-71
        # One place at the provider, and the call that waits for it is not begun.
        found = []

        def provider(m):
            self.effects.append(m)
            self.begun.set()
            return None if m["arguments"]["path"] == "stuck" else ok("made")

        def turn(child, params):
            if found:
                found.append(call(child))
                return DONE
            child.peer.request("tool.invoke", operation=child.operation, id="0",
                               tool="files.write", arguments={"path": "stuck"})
            child.peer.request("tool.invoke", operation=child.operation, id="1",
                               tool="files.write", arguments={"path": "a"},
                               idempotencyKey=SECRET)
            self.assertTrue(self.begun.wait(TIMEOUT))
            found.append(None)
            return DONE

        host = self.host(turn, provider=serve(provider), concurrency=1)
        client = host.client()
        client.turn()
        client.turn()
        self.assertEqual(found[1]["output"], "made")
        self.assertEqual([e["arguments"]["path"] for e in self.effects], ["stuck", "a"])
        self.assertEqual([r.get("cause") for r in self.of(host, "tool.invoked")
                          if r.get("notStarted")], ["not_dispatched"])


if __name__ == "__main__":
    unittest.main()
