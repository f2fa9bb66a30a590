"""What becomes of what was given: revoked, and why a call may or may not be (TU-38 to TU-46)."""

import os
import threading
import unittest

from broker_host import grant, invoke, ok, runtime, serve
from grants_lab import Case, DOCS, TREE, below, issue, listed, reads, refused
from wire import TIMEOUT


class Revoke(Case):
    def mid_turn(self, **config):
        """(host, client, other, first, gone): a turn that reads before and after `gone`."""
        first, gone = threading.Event(), threading.Event()

        def work(child, params):
            before = invoke(child, "files.read", "1", path="docs/a")
            first.set()
            gone.wait(TIMEOUT)
            after = invoke(child, "files.read", "2", path="docs/a")
            return {"status": "complete", "output": [
                r.get("error", {}).get("code", r["status"]) for r in (before, after)]}
        host = self.host(runtime(work), **config)
        return host, host.client(), host.client(), first, gone

    def test_it_counts_for_the_next_turn_where_that_is_said(self):  # D-7, TU-41
        host, client, other, first, gone = self.mid_turn(revocation="next_turn")
        client.submit()
        self.assertTrue(first.wait(TIMEOUT))
        other.call("grant.revoke", id="g-docs")
        gone.set()
        self.assertEqual(client.finish()["body"]["turn"]["output"], ["succeeded"] * 2)
        self.assertEqual(self.output(client), ["tool_unavailable"] * 2)

    def test_it_counts_in_the_turn_that_runs(self):  # D-7, TU-42
        host, client, other, first, gone = self.mid_turn()
        client.submit()
        self.assertTrue(first.wait(TIMEOUT))
        answer = other.call("grant.revoke", id="g-docs")
        gone.set()
        self.assertEqual({k: answer[k] for k in ("already", "dispatched", "omitted")},
                         {"already": False, "dispatched": [], "omitted": 0})
        self.assertEqual(client.finish()["body"]["turn"]["output"],
                         ["succeeded", "no_matching_grant"])
        record, = [r for r in host.records() if r["type"] == "grant.revoked"]
        self.assertEqual((record["grant"], record["at"], record["by"]),
                         ("g-docs", answer["at"], os.getuid()))
        denied, = [r for r in host.records() if r.get("cause") == "revoked"]
        self.assertEqual((denied["grant"], denied["reason"]), ("g-docs", "no_matching_grant"))

    def test_twice_is_once(self):
        client = self.host().client()
        first = client.call("grant.revoke", id="g-docs")
        second = client.call("grant.revoke", id="g-docs")
        self.assertEqual((first["already"], second["already"]), (False, True))
        self.assertEqual(first["at"], second["at"])
        self.assertEqual(refused(client, "grant.revoke", id="nobody")[0], "not_found")

    def test_two_at_once_are_answered_alike(self):
        host = self.host()
        client = host.client()
        sent = [client.request("grant.revoke", id="g-docs") for _ in range(3)]
        answers = [client.expect_reply(s)[1] for s in sent]
        self.assertEqual([a["already"] for a in answers], [False, True, True])
        self.assertEqual(len({a["at"] for a in answers}), 1)
        self.assertEqual(len([r for r in host.records() if r["type"] == "grant.revoked"]), 1)

    def test_it_names_what_its_providers_have(self):  # D-7
        arrived, answer = threading.Semaphore(0), threading.Event()

        def provider(child):
            child.peer.hello()
            calls = [child.peer.receive() for _ in range(3)]
            for _ in calls:
                arrived.release()
            answer.wait(TIMEOUT)
            for m in calls:
                child.peer.reply(m[1], callId=m[3][0]["call"], **ok())
            while True:
                child.peer.receive()

        def work(child, params):
            sent = [child.peer.request("tool.invoke", operation=child.operation, id=str(i),
                                       tool=name, arguments={"path": path})
                    for i, (name, path) in enumerate([
                        ("files.read", "docs/a"), ("files.read", "docs/b"),
                        ("files.write", "out/a")])]
            return {"status": "complete",
                    "output": [child.peer.receive()[3]["status"] for _ in sent]}
        host = self.host(runtime(work), provider,
                         grants=[DOCS, grant("g-out", ["out"], ["write"])])
        client, other = host.client(), host.client()
        operation = client.submit()
        for _ in range(3):
            self.assertTrue(arrived.acquire(timeout=TIMEOUT))
        named = other.call("grant.revoke", id="g-docs")["dispatched"]
        self.assertEqual([(c["operation"], c["tool"]) for c in named],
                         [(operation, "files.read")] * 2)
        decided = {r["call"] for r in host.records() if r.get("grant") == "g-docs" and
                   r["type"] == "authorization.checked"}
        self.assertEqual({c["call"] for c in named}, decided)
        again = other.call("grant.revoke", id="g-docs")
        self.assertEqual((again["already"], again["dispatched"]), (True, named))
        answer.set()
        # What was with its provider is answered as it went.
        self.assertEqual(client.finish()["body"]["turn"]["output"], ["succeeded"] * 3)
        self.assertEqual(other.call("grant.revoke", id="g-docs")["dispatched"], [])

    def test_it_names_calls_of_what_was_derived(self):  # D-7, TU-46
        arrived, answer = threading.Event(), threading.Event()

        def effect(params):
            arrived.set()
            answer.wait(TIMEOUT)
            return ok()
        host = self.host(reads("tree/a"), serve(effect), grants=[TREE])
        client, other = host.client(), host.client()
        issue(client, below("tree"), parent="root")
        operation = client.submit()
        self.assertTrue(arrived.wait(TIMEOUT))
        named = other.call("grant.revoke", id="root")["dispatched"]
        answer.set()
        self.assertEqual([c["operation"] for c in named], [operation])
        self.assertEqual(client.finish()["body"]["turn"]["status"], "succeeded")

    def test_a_call_that_waits_for_its_provider_does_not_start(self):  # D-7, D-10
        entered, leave, effects = threading.Event(), threading.Event(), []

        def effect(params):
            effects.append(params["path"])
            entered.set()
            leave.wait(TIMEOUT)
            return ok()

        def work(child, params):
            sent = [child.peer.request("tool.invoke", operation=child.operation, id=str(i),
                                       tool="files.append", arguments={"path": path})
                    for i, path in enumerate(["keep/a", "log/a", "keep/b"])]
            replies = {}
            while len(replies) < 3:
                m = child.peer.receive()
                replies[m[1]] = m[3].get("error", {}).get("code", "")
            return {"status": "complete", "output": [replies[s] for s in sent]}
        host = self.host(runtime(work), serve(effect), concurrency=1, grants=[
            grant("keep", ["keep"], ["append"]), grant("log", ["log"], ["append"], maxUses=1)])
        client, other = host.client(), host.client()
        client.submit()
        self.assertTrue(entered.wait(TIMEOUT))
        host.round()  # all three are decided, and two wait
        while len([r for r in host.records() if r["type"] == "authorization.checked" and
                   "call" in r]) < 3:
            host.round()
        self.assertEqual(other.call("grant.revoke", id="log")["dispatched"], [])
        leave.set()
        self.assertEqual(client.finish()["body"]["turn"]["output"],
                         ["", "no_matching_grant", ""])
        self.assertEqual(effects, [["keep", "a"], ["keep", "b"]])
        # Its use is given back, as it provably did not start.
        released, = [r for r in host.records() if r["type"] == "grant.usage.released"]
        self.assertEqual(released["grant"], "log")
        host.round()
        self.assertEqual([g["spent"] for g in listed(other) if g["id"] == "log"], [0])


class Why(Case):
    def why(self, client, path="docs/a", name="files.read", **params):
        arguments = params.pop("arguments", {"path": path})
        return client.call("grant.why", subject=params.pop("subject", "agent:test"), tool=name,
                           arguments=arguments, **params)

    def test_what_is_allowed_names_its_grant(self):
        client = self.host().client()
        self.assertEqual(self.why(client), {
            "allowed": True, "code": "allowed", "action": "read", "resource": "workspace",
            "path": ["docs", "a"], "grant": "g-docs", "admission": "allowed"})

    def test_what_is_missing_is_named(self):
        host = self.host(grants=[DOCS, grant("once", ["log"], ["append"], maxUses=1),
                                 grant("play", ["play"], ["read"], purposes=["play"])],
                         worker=reads("log", name="files.append"))
        client = host.client()
        self.assertEqual(self.why(client, "log", "files.append")["grant"], "once")
        self.assertEqual(self.output(client), [""])
        rows = [
            (dict(path="secret"), "no_matching_grant", "capability", "path", "g-docs"),
            (dict(path="play/a"), "no_matching_grant", "purpose", None, "play"),
            (dict(path="play/a", purpose="play"), "allowed", None, None, None),
            (dict(name="no.such"), "tool_unavailable", "not_registered", None, None),
            (dict(name="files.write"), "tool_unavailable", "no_matching_grant", "action",
             "g-docs"),
            (dict(path="log", name="files.append"), "tool_unavailable", "grant_exhausted", None,
             "once"),
            (dict(path="docs/../x"), "invalid_request", None, "path", None),
            (dict(arguments={"path": 1}), "invalid_tool_arguments", None, "path", None),
            (dict(subject="agent:nobody"), "tool_unavailable", "no_matching_grant", None, None),
            (dict(subject="human:op"), "tool_unavailable", "no_matching_grant", None, None),
        ]
        for params, code, cause, detail, closest in rows:
            with self.subTest(params):
                got = self.why(client, **params)
                self.assertEqual((got["code"], got.get("cause"), got.get("closest")),
                                 (code, cause, closest), got)
                self.assertEqual(got["allowed"], code == "allowed")
                self.assertIn(detail or "", got.get("detail", ""))
        self.assertEqual(self.why(client, subject="agent:nobody")["admission"],
                         "no_matching_grant")
        self.assertNotIn("admission", self.why(client, subject="human:op"))
        self.assertEqual(refused(client, "grant.why", subject="nobody", tool="files.read",
                                 arguments={})[0], "invalid_argument")

    def test_it_records_and_spends_nothing(self):  # D-12
        host = self.host(grants=[grant("once", ["log"], ["append"], maxUses=1)],
                         worker=reads("log", name="files.append"))
        client = host.client()
        before = host.records()
        for _ in range(5):
            self.assertTrue(self.why(client, "log", "files.append")["allowed"])
        host.round()
        self.assertEqual(host.records(), before)
        self.assertEqual(self.output(client), [""])


if __name__ == "__main__":
    unittest.main()
