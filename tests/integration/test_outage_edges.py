"""What waits for the journal, and outlives an outage of it (D-2, D-11)."""

import os
import pathlib
import select
import threading
import time
import unittest

import wire
from broker_host import DONE, Hold, runtime
from outage_lab import STOPS, stopped

TIMEOUT = 300
BLOCK = 1 << 20  # EVENT_BLOCK


@unittest.skipUnless(STOPS.exists(), "build/stops is not built (make stops)")
class Edges(unittest.TestCase):
    def test_an_operation_that_ends_before_it_is_accepted_is_told_both(self):  # D-2
        """Its first sync is held, a write of another's fails, its deadline passes: its ending
        is refused while its admission is still on its way."""
        hold = Hold(self)
        with stopped(lambda child: None, f"sync:1={hold.text} write:4=EIO",
                     **hold.host) as host:
            first, second = host.client(), host.client()
            msgid = first.request("operation.submit", kind="turn", timeoutMs=300)
            while "operation.accepted" not in [r["type"] for r in host.records()]:
                select.select([], [], [], 0.01)
            over = time.monotonic() + 0.3
            asked = second.request("operation.submit", kind="turn")
            while time.monotonic() <= over:
                select.select([], [], [], 0.01)
            host.round()
            hold.release()
            refused, _ = second.expect_reply(asked)
            self.assertEqual(refused["code"], "audit_unavailable")
            error, reply = first.expect_reply(msgid)
            self.assertIsNone(error)
            event = first.finish(reply["operation"])
            self.assertIs(event["body"]["recorded"], False)
            self.assertEqual(host.children, [])

    def test_an_outage_holds_back_what_has_no_number_until_it_is_over(self):
        """The block's record is refused; a worker that writes more than the block is held."""
        made, there = [], threading.Event()
        gate, held = threading.Event(), threading.Event()

        def segment(number):
            there.wait(wire.TIMEOUT)
            if number > 1 and not gate.is_set():
                return None
            return os.open(pathlib.Path(made[0].directory.name, f"journal.{number:08d}"),
                           os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL)

        def watch(sock):
            while select.select([], [sock], [], 1)[1]:
                select.select([], [], [], 0.1)
            held.set()

        def work(child, params):
            some = wire.frame([2, "output.write", [{
                "operation": child.operation, "stream": "stdout", "data": b"x"}]]) * 4096
            threading.Thread(target=watch, args=(child.peer.sock,), daemon=True).start()
            for _ in range(BLOCK // 4096 + 1):
                child.peer.send_raw(some)
            return DONE
        host = stopped(runtime(work), "write:5=ENOSPC", segment=segment)
        made.append(host)
        there.set()
        self.addCleanup(host.close)
        client = host.client()
        operation = client.submit()
        client.close()
        self.assertTrue(held.wait(wire.TIMEOUT))
        self.assertFalse(host.children[0].over.is_set())
        gate.set()
        client = host.client()
        client.call("operation.attach", operation=operation)
        self.assertEqual(client.finish()["body"]["turn"]["status"], "succeeded")
        blocks = [r["sequence"] for r in host.records() if r["type"] == "block.opened"]
        self.assertEqual(blocks, [2 * BLOCK])


if __name__ == "__main__":
    unittest.main()
