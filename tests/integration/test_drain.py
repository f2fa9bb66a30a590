"""How a turn ends while something of it is still open, and what an outage leaves of it, against
scripted peers (TU-12, TU-50 to TU-56, TU-64).  What test_outage.py asks of every write and sync
is not repeated here."""

import threading
import unittest

import broker_host
import wire
from broker_host import DONE, Host, Turns, grant, invoke, ok, runtime, serve, tool
from outage_lab import STOPS, put, stopped

READ, WRITE = tool("files.read"), tool("files.write", "write", action="write")
DOCS, WRITES = grant("g-docs", ["docs"], ["read"]), grant("g-write", ["docs"], ["write"])


class Ends(Turns, unittest.TestCase):
    """How a turn ends while something of it is still open (TU-12, TU-50 to TU-56)."""

    TOOLS, GRANTS = [READ, WRITE], [DOCS, WRITES]

    def host(self, worker, provider=None, **config):
        config = {"tools": self.TOOLS, "grants": self.GRANTS, **config}
        host = Host(worker=worker, provider=provider or serve(lambda p: ok()), **config)
        self.addCleanup(host.close)
        return host

    def held(self):
        """A provider that answers its one call once it may; ("called", "may")."""
        called, may = threading.Event(), threading.Event()

        def provider(child):
            child.peer.hello()
            m = child.peer.receive()
            called.set()
            may.wait(wire.TIMEOUT)
            child.peer.reply(m[1], callId=m[3][0]["call"], **ok("real result"))
            while True:
                child.peer.receive()
        return provider, called, may

    def outcomes(self, host):
        return [(r.get("outcome"), r.get("cause"), r.get("grant")) for r in host.records()
                if r["type"] == "tool.invoked"]

    def test_what_is_cancelled_before_it_ran_never_runs(self):  # TU-12
        cancelled, got = threading.Event(), []

        def worker(child):
            cancelled.wait(wire.TIMEOUT)
            child.peer.hello()
            got.append(child.peer.receive())
        host = self.host(worker)
        client = host.client()
        client.call("operation.stop", operation=client.submit())
        event = client.finish()
        cancelled.set()
        turn = event["body"]["turn"]
        self.assertEqual((turn["status"], turn["error"]["code"], turn["error"]["retryable"]),
                         ("cancelled", "turn_cancelled", True))
        self.assertEqual(turn["event"], {**turn["event"], "sequence": 0})
        for child in host.children:
            self.assertTrue(child.over.wait(wire.TIMEOUT))
        self.assertNotIn("operation.run", repr(got))

    def test_a_call_in_flight_answers_within_the_grace(self):  # TU-51, TU-53
        provider, called, may = self.held()
        answers = []

        def work(child, params):
            msgid = child.peer.request("tool.invoke", operation=child.operation, id="1",
                                       tool="files.write", arguments={"path": "docs/a"}, step=0)
            self.assertEqual(child.peer.receive()[1], "operation.drain")
            may.set()
            answers.append(child.peer.expect_reply(msgid)[1])
            # A loop that asks for no new decision; its last step was that one.
            return {"status": "fail", "error": {"code": "turn_cancelled", "message": "",
                                                "retryable": True}}
        host = self.host(runtime(work), provider, drainGraceMs=40000)
        client = host.client()
        client.submit(timeoutMs=41500, maxSteps=1)
        event = client.finish()
        turn = event["body"]["turn"]
        self.assertEqual((answers[0]["status"], answers[0]["output"]),
                         ("succeeded", "real result"))
        self.assertEqual(event["body"]["cause"]["kind"], "drained")
        self.assertEqual((turn["status"], turn["error"]["code"], turn["error"]["retryable"]),
                         ("cancelled", "turn_cancelled", False))
        self.assertEqual(self.outcomes(host), [("succeeded", None, "g-write")])

    def test_without_a_grace_it_is_cut_off_at_the_deadline(self):  # TU-50, TU-51
        provider, called, may = self.held()
        seen = []

        def work(child, params):
            child.peer.request("tool.invoke", operation=child.operation, id="1",
                               tool="files.write", arguments={"path": "docs/a"})
            seen.append(child.peer.receive()[1])
        host = self.host(runtime(work), provider)
        client = host.client()
        client.submit(timeoutMs=1500)
        event = client.finish()
        may.set()
        turn = event["body"]["turn"]
        self.assertEqual((event["body"]["cause"]["kind"], turn["status"]),
                         ("deadline", "cancelled"))
        self.assertFalse(turn["error"]["retryable"])  # it is still running
        self.assertEqual(self.outcomes(host)[0], ("interrupted", "outcome_unknown", "g-write"))
        for child in host.children:
            self.assertTrue(child.over.wait(wire.TIMEOUT))
        self.assertEqual(seen, ["operation.cancel"])

    def test_a_call_while_it_drains_is_refused_and_not_counted(self):  # TU-23, TU-26, TU-51
        def work(child, params):
            self.assertEqual(child.peer.receive()[1], "operation.drain")
            codes = [invoke(child, "files.write", str(n), path="docs/a")["error"]["code"]
                     for n in range(3)]
            self.assertEqual(codes, ["turn_draining"] * 3)
            return {"status": "fail", "error": {"code": "turn_cancelled", "message": "",
                                                "retryable": True}}
        host = self.host(runtime(work), drainGraceMs=60000)
        client = host.client()
        # The grace is longer than the time: none is left for calls, but for an outcome.
        client.submit(timeoutMs=50000, maxToolCalls=1)
        event = client.finish()
        self.assertEqual(event["body"]["cause"]["kind"], "drained")
        self.assertTrue(event["body"]["turn"]["error"]["retryable"])
        refused = [r for r in host.records() if r["type"] == "tool.refused"]
        self.assertEqual([(r["source"], r["reason"]) for r in refused],
                         [("envelope", "turn_draining")] * 3)

    def test_an_outcome_within_the_grace_counts(self):  # TU-52
        def work(child, params):
            self.assertEqual(child.peer.receive()[1], "operation.drain")
            return DONE
        host = self.host(runtime(work), drainGraceMs=60000)
        client = host.client()
        client.submit(timeoutMs=50000)
        self.assertEqual(client.finish()["body"]["turn"]["status"], "succeeded")

    def test_a_hosts_cancel_does_not_drain(self):  # TU-54
        provider, called, may = self.held()
        seen = []

        def work(child, params):
            child.peer.request("tool.invoke", operation=child.operation, id="1",
                               tool="files.read", arguments={"path": "docs/a"})
            seen.append(child.peer.receive()[1])
        host = self.host(runtime(work), provider, drainGraceMs=20000)
        client = host.client()
        operation = client.submit(timeoutMs=50000)
        self.assertTrue(called.wait(wire.TIMEOUT))
        client.call("operation.stop", operation=operation)
        event = client.finish()
        may.set()
        self.assertEqual(event["body"]["cause"]["kind"], "canceled")
        self.assertTrue(event["body"]["turn"]["error"]["retryable"])  # it was a read
        self.assertEqual(self.outcomes(host)[0], ("interrupted", "outcome_unknown", "g-docs"))
        for child in host.children:
            self.assertTrue(child.over.wait(wire.TIMEOUT))
        self.assertEqual(seen, ["operation.cancel"])

    def test_whether_a_turn_may_be_tried_again(self):  # TU-56
        repeatable = {**tool("files.put", "write", action="write"), "idempotent": True}
        hopeful = {"code": "x", "message": "", "retryable": True}
        for name, safe in (("files.read", True), ("files.put", True), ("files.write", False)):
            for how in ("cancelled", "failed", "gave up", "threw"):
                called = threading.Event()

                def work(child, params):
                    invoke(child, name, path="docs/a")
                    called.set()
                    if how == "cancelled":
                        child.killed.wait(wire.TIMEOUT)
                    if how == "threw":
                        child.exit = dict(x_kind=broker_host.EXITED, x_status=1)
                        raise wire.Closed
                    return {"status": "fail", "error": {**hopeful,
                                                        "retryable": how == "failed"}}
                host = self.host(runtime(work), tools=[*self.TOOLS, repeatable],
                                 killGraceMs=0)
                client = host.client()
                operation = client.submit()
                self.assertTrue(called.wait(wire.TIMEOUT))
                if how == "cancelled":
                    client.call("operation.stop", operation=operation)
                error = client.finish()["body"]["turn"]["error"]
                # What a runtime has no hope for is never raised.
                self.assertEqual(error["retryable"], safe and how != "gave up", (name, how))
                host.close()

    def test_a_call_after_the_outcome_is_charged_to_nobody(self):  # TU-4, TU-19
        late = []

        def work(child, params):
            return {"status": "complete",
                    "output": invoke(child, "files.read", path="docs/a")["status"]}

        def worker(child):
            if child.spawn["session"] > 1:
                return runtime(work)(child)
            child.peer.hello()
            msgid, params = child.peer.expect("operation.run")
            child.peer.reply(msgid, **DONE)
            try:  # an answer, or the closed link: the host is closed
                late.append(child.peer.expect_reply(child.peer.request(
                    "tool.invoke", operation=params["operation"], id="1", tool="files.read",
                    arguments={"path": "docs/a"}))[0]["code"])
            except wire.Closed:
                late.append("host_closed")
        host = self.host(worker, grants=[grant("once", ["docs"], ["read"], maxUses=1)])
        client = host.client()
        first, _ = client.turn()
        for child in host.children:
            self.assertTrue(child.over.wait(wire.TIMEOUT))
        self.assertEqual(first["status"], "succeeded")
        self.assertEqual(late, ["host_closed"])
        second, _ = client.turn()
        self.assertEqual(second["output"], "succeeded")
        spent = [r for r in host.records() if r.get("grant") == "once" and r.get("uses")]
        self.assertEqual([(r["outcome"], r["consumed"]) for r in spent], [("allowed", True)])


class Shares(unittest.TestCase):
    def test_a_session_at_its_share_does_not_slow_another(self):
        """Everything of the second is over while everything of the first is stuck."""
        full, over = threading.Event(), threading.Event()
        filler = "x" * (250 << 10)
        wide = tool("files.read", properties={"path": {"type": "string"},
                                              "extra": {"type": "string"}})
        wide["input"]["required"] = ["path"]

        def provider(child):
            if child.spawn["session"] > 1:
                return serve(lambda p: ok(p["path"]))(child)
            child.peer.hello()
            over.wait(wire.TIMEOUT)  # it reads nothing at all

        def work(child, params):
            if params["message"] == "first":
                child.peer.sock.setblocking(False)
                try:
                    for n in range(64):  # 16 MiB: more than its share
                        child.peer.sock.sendall(wire.frame([0, n + 10, "tool.invoke", [{
                            "operation": child.operation, "id": f"f{n}", "tool": "files.read",
                            "arguments": {"path": "docs/a", "extra": filler}}]]))
                except BlockingIOError:
                    pass
                else:
                    self.fail("nobody stopped reading")
                full.set()
                over.wait(wire.TIMEOUT)
                raise wire.Closed
            return {"status": "complete", "output": [
                invoke(child, "files.read", str(n), path=f"docs/{n}", extra=filler)["output"]
                for n in range(64)]}
        with Host(worker=runtime(work), provider=provider, tools=[wide], grants=[DOCS],
                  maxToolCalls=1000) as host:
            client = host.client()
            first = client.submit(message="first")
            self.assertTrue(full.wait(wire.TIMEOUT))
            second = client.submit(message="second")
            event = client.finish(second)
            self.assertEqual(event["body"]["turn"]["output"],
                             [["docs", str(n)] for n in range(64)])
            self.assertFalse(over.is_set())
            answered = [r for r in host.records() if r["type"] == "tool.invoked" and
                        r["operation"] == first]
            self.assertEqual(answered, [])
            over.set()
            client.finish(first)


@unittest.skipUnless(STOPS.exists(), "build/stops is not built (make stops)")
class Outage(unittest.TestCase):
    """Before an effect the record fails closed; after it nothing is changed by it (TU-64)."""

    def story(self, work, plan, provider=None, **config):
        """(terminal event, records, host) of one turn whose journal fails by plan."""
        with stopped(work, plan, provider=provider, **config) as host:
            client = host.client()
            client.submit()
            event = client.finish()
            for child in host.children:
                self.assertTrue(child.over.wait(wire.TIMEOUT))
            host.tell(broker_host.SHUTDOWN)  # what could not be recorded is, by then
            host.process.wait(wire.TIMEOUT)
            return event, host.records(), host

    def test_met_at_the_catalogue_it_ends_the_turn_before_it_runs(self):  # TU-55, TU-64
        # 1 segment, 2 start, 3 the operation, 4 authority, admission and catalogue.
        event, _, host = self.story(lambda child: self.fail("it ran"), "write:4=ENOSPC")
        self.assertEqual(host.children, [])
        turn = event["body"]["turn"]
        self.assertEqual((turn["status"], turn["error"]["code"], turn["error"]["retryable"]),
                         ("failed", "audit_unavailable", True))
        self.assertEqual(turn["event"]["source"], "envelope")

    def test_without_a_grace_a_sibling_is_cut_off(self):  # TU-55
        inside, over = threading.Event(), threading.Event()

        def provider(child):
            child.peer.hello()
            child.peer.receive()
            inside.set()
            over.wait(wire.TIMEOUT)

        def work(child, params):
            put(child, 1)
            inside.wait(wire.TIMEOUT)
            put(child, 2)
            child.killed.wait(wire.TIMEOUT)
            over.set()
        event, records, _ = self.story(runtime(work), "write:6=ENOSPC", provider)
        turn = event["body"]["turn"]
        self.assertEqual((turn["error"]["code"], turn["error"]["retryable"]),
                         ("audit_unavailable", False))
        cut = [(r["outcome"], r["grant"]) for r in records
               if r["type"] == "tool.invoked" and "outcome" in r]
        self.assertEqual(cut, [("interrupted", "box")])

    def test_after_an_effect_it_changes_no_result(self):  # TU-64
        answers = []

        def work(child, params):
            msgid = put(child, 1)
            answers.append(child.peer.expect_reply(msgid)[1]["output"])
            return {"status": "complete", "output": "it happened"}
        # 5 is the decision; 6 its outcome, with the endings.
        event, records, host = self.story(runtime(work), "write:6=ENOSPC")
        self.assertEqual((answers, event["body"]["turn"]["status"]), (["done"], "succeeded"))
        self.assertEqual((event["type"], event["body"]["recorded"]), ("failed", False))
        self.assertIn("cannot append to journal segment", host.log_kept)
        outcomes = [r["outcome"] for r in records if r["type"] == "tool.invoked"]
        self.assertEqual(outcomes, ["succeeded"])  # once there was a place for it


if __name__ == "__main__":
    unittest.main()
