"""What is under way when the journal fails: it drains, and meets its deadline (D-9, TU-55)."""

import os
import pathlib
import select
import threading
import time
import unittest

import wire
from broker_host import DONE, ok, runtime, serve
from outage_lab import STOPS, put, stopped, walk

TIMEOUT = 300
LOOKS = 5  # at most, at what a busy machine may hide


@unittest.skipUnless(STOPS.exists(), "build/stops is not built (make stops)")
class Stalled(unittest.TestCase):
    """A disk that does not answer: nothing is done, and nothing waits for ever."""

    def host(self, *args, **config):
        host = stopped(*args, **config)
        self.addCleanup(host.close)
        return host

    def stall_from(self, first):
        return " ".join(f"sync:{n}=stall" for n in range(first, first + 20))

    def test_the_deadline_ends_the_turn_and_the_kill_waits_for_nothing(self):  # D-9
        # The kill is half a second ahead of the end of patience with the disk, and who hears of
        # it may be late.  One that waited would be behind whenever somebody looks.
        self.assertTrue(any(self.kill_is_ahead() for _ in range(LOOKS)),
                        "the kill waited for a sync")

    def kill_is_ahead(self):
        """One turn whose decision's sync never ends: was its kill heard before that was said?"""
        effects, answers, dead = [], [], threading.Event()

        def work(child, params):
            put(child, 1)
            answers.append(child.peer.receive())  # the reply, or the cancel of the deadline
            child.killed.wait(wire.TIMEOUT)
            answers.append(host.log_text())
            dead.set()
        # The syncs: admitted, catalogue, then the decision's, which never ends.
        host = self.host(runtime(work), self.stall_from(3),
                         provider=serve(lambda p: effects.append(p) or ok("done")),
                         killGraceMs=500)
        client = host.client()
        started = time.monotonic()
        client.submit(timeoutMs=500)  # and the kill comes before the sync is given up
        event = client.finish()
        took = time.monotonic() - started
        self.assertEqual(effects, [])
        self.assertEqual(answers[0][:2], [2, "operation.cancel"])
        self.assertTrue(dead.wait(wire.TIMEOUT))
        self.assertEqual((event["type"], event["body"]["recorded"]), ("failed", False))
        self.assertEqual(event["body"]["cause"], {"kind": "audit_unavailable"})
        self.assertEqual(event["body"]["turn"]["error"]["code"], "turn_cancelled")
        self.assertGreaterEqual(took, 0.5 + 0.5)
        # A broker whose sync never ends can still be ended.
        status, log = host.close()
        self.assertEqual(status, 0, log)
        self.assertIn("a sync has not ended for", log)
        self.assertIn("cannot sync the journal at its end", log)
        return "a sync has not ended" not in answers[1]

    def test_a_call_is_refused_once_its_sync_is_given_up(self):  # TU-55
        effects, answers, answered = [], [], threading.Event()

        def work(child, params):
            msgid = put(child, 1)
            answers.append((child.peer.receive(), msgid))
            answered.set()
            return DONE
        host = self.host(runtime(work), self.stall_from(3),
                         provider=serve(lambda p: effects.append(p) or ok("done")))
        client = host.client()
        client.submit()
        event = client.finish()
        self.assertTrue(answered.wait(wire.TIMEOUT))
        self.assertEqual(effects, [])
        m, msgid = answers[0]
        self.assertEqual(m[:2], [1, msgid])
        self.assertEqual((m[3]["status"], m[3]["error"]["code"]),
                         ("failed", "audit_unavailable"))
        self.assertEqual(event["body"]["turn"]["error"]["code"], "audit_unavailable")
        # While the disk does not answer, nothing new starts.
        msgid = client.request("operation.submit", kind="turn")
        self.assertEqual(client.expect_reply(msgid)[0]["code"], "audit_unavailable")

    def test_an_admission_that_is_never_on_record_is_refused(self):
        started = []
        host = self.host(lambda child: started.append(1), self.stall_from(1))
        client = host.client()
        msgid = client.request("operation.submit", kind="turn", timeoutMs=200)
        error, _ = client.expect_reply(msgid)
        self.assertEqual(error["code"], "audit_unavailable")
        self.assertEqual((started, client.early), ([], []))


@unittest.skipUnless(STOPS.exists(), "build/stops is not built (make stops)")
class Drain(unittest.TestCase):
    """What an outage leaves to the calls and the turn that it meets (TU-55)."""

    def two_calls(self, after):
        """A call in flight, and a second one that meets the outage; `after` is the runtime's."""
        inside, refused = threading.Event(), threading.Event()
        seen = []

        def effect(params):
            seen.append(params["path"])
            inside.set()
            refused.wait(wire.TIMEOUT)
            return ok("done")

        def work(child, params):
            first = put(child, 1)
            inside.wait(wire.TIMEOUT)
            second = put(child, 2)
            m = child.peer.receive()
            self.assertEqual((m[:2], m[3]["error"]["code"]), ([1, second], "audit_unavailable"))
            m = child.peer.receive()
            self.assertEqual(m[:2], [2, "operation.drain"])
            return after(child, first, refused)
        # 1 segment, 2 start, 3 admission, 4 catalogue, 5 the first decision, 6 the second.
        with stopped(runtime(work), "write:6=ENOSPC", provider=serve(effect),
                     drainGraceMs=20000) as host:
            client = host.client()
            client.submit()
            event = client.finish()
            self.assertEqual(seen, [["box", "1"]])
            self.assertEqual(event["body"]["turn"]["status"], "failed", event)
            self.assertEqual(event["body"]["turn"]["error"]["code"], "audit_unavailable")
            self.assertFalse(event["body"]["turn"]["error"]["retryable"])
            host.tell(9)
            self.assertEqual(host.process.wait(wire.TIMEOUT), 0, host.log_text())
            done = [r for _, r in walk(host.directory.name) if r["type"] == "tool.invoked"]
            return event, done

    def test_a_sibling_in_flight_finishes(self):
        replies = []

        def after(child, first, refused):
            refused.set()
            m = child.peer.receive()
            replies.append((m[:2] == [1, first], m[3]["status"]))
        _, done = self.two_calls(after)
        self.assertEqual(replies, [(True, "succeeded")])
        self.assertEqual([r["outcome"] for r in done], ["succeeded"])

    def test_an_outcome_does_not_save_the_turn(self):
        def after(child, first, refused):
            return DONE
        _, done = self.two_calls(after)
        self.assertEqual([r["outcome"] for r in done], ["interrupted"])

    def test_the_hosts_code_is_not_the_runtimes_to_claim(self):
        error = {"code": "audit_unavailable", "message": "me", "retryable": True}
        with stopped(runtime(lambda child, params: {"status": "fail", "error": error}),
                     "") as host:
            turn, _ = host.client().turn()
            self.assertEqual(turn["error"]["code"], "runtime_failed")

    def test_a_kill_in_an_outage_takes_effect_and_its_record_follows(self):
        gate, running = threading.Event(), threading.Event()

        def work(child, params):
            put(child, 1)
            running.set()
            child.killed.wait(wire.TIMEOUT)
        made, there = [], threading.Event()

        def segment(number):
            there.wait(wire.TIMEOUT)
            if number > 1 and not gate.is_set():
                return None
            return os.open(pathlib.Path(made[0].directory.name, f"journal.{number:08d}"),
                           os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL)
        host = stopped(runtime(work), "write:5=EIO", segment=segment)
        made.append(host)
        there.set()
        self.addCleanup(host.close)
        client = host.client()
        operation = client.submit()
        self.assertTrue(running.wait(wire.TIMEOUT))
        client.request("operation.stop", operation=operation)
        while not host.kills:
            select.select([], [], [], 0.01)
        for child in host.children:
            self.assertTrue(child.over.wait(wire.TIMEOUT))
        gate.set()
        host.tell(9)
        self.assertEqual(host.process.wait(wire.TIMEOUT), 0)
        types = [r["type"] for n, r in walk(host.directory.name) if n == 2]
        self.assertEqual(types.count("operation.ended"), 1, host.log_text())
        self.assertEqual(types.count("kill.ordered"), 1)


if __name__ == "__main__":
    unittest.main()
