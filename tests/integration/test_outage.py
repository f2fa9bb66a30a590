"""Outages of the journal: no effect without its record, one ending each (D-10, D-11, TU-55).

The real broker under a scripted supervisor, built so that it reads a plan of failing writes
and syncs (broker/journal_plan.c); the shipped one has no such switch.  Each test asks of
whatever happened the same invariants, see Story.check().
"""

import concurrent.futures
import os
import pathlib
import select
import threading
import time
import unittest

import wire
from broker_host import DONE, Host, ok, runtime, serve
from outage_lab import PLAN, STOPS, Story, put, stopped

TIMEOUT = 300
# Writes of a broker's start and one turn, up to its ending: segment, start, admission of the
# operation, of the turn, three decisions with the outcome before them, the ending.  A start
# is not synced, nor is a segment of its own.
WRITES, SYNCS = 8, 6


@unittest.skipUnless(STOPS.exists(), "build/stops is not built (make stops)")
class ByPlan(unittest.TestCase):
    """At every write and every sync of a turn."""

    def every(self, kind, how, gated=False, most=60):
        """Runs the story with the n-th `kind` failing for n = 1, 2, ... until none is hit."""
        def one(n):
            story = Story(f"{kind}:{n}={how}", threading.Event() if gated else None)
            try:
                return n, story.run()
            except BaseException:
                story.host.process.kill()
                raise AssertionError(f"{kind}:{n}={how}: {story.host.close()[1]}")

        hits, n = 0, 1
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            while n < most:
                for n, story in pool.map(one, range(n, n + 4)):
                    if story.hit:
                        hits += kind == "sync" or story.before_the_ending()
                        with self.subTest(plan=f"{kind}:{n}={how}", gated=gated):
                            story.check(self)
                if not story.hit:
                    return hits
                n += 1
        raise AssertionError("the plan was never exhausted")

    def test_a_write_without_space(self):
        self.assertEqual(self.every("write", "ENOSPC"), WRITES)

    def test_a_write_that_fails(self):
        self.assertEqual(self.every("write", "EIO"), WRITES)

    def test_a_short_write(self):
        self.assertEqual(self.every("write", "short"), WRITES)

    def test_a_sync_that_fails(self):
        self.assertEqual(self.every("sync", "EIO"), SYNCS)

    def test_a_sync_that_stalls_and_ends(self):
        self.assertEqual(self.every("sync", "stall/1500"), SYNCS)

    def test_a_write_without_space_and_no_other_segment(self):
        self.assertEqual(self.every("write", "ENOSPC", gated=True), WRITES)

    def test_a_short_write_and_no_other_segment(self):
        self.assertEqual(self.every("write", "short", gated=True), WRITES)

    def test_a_sync_that_fails_and_no_other_segment(self):
        self.assertEqual(self.every("sync", "EIO", gated=True), SYNCS)


class Full(unittest.TestCase):
    """A device that is full from the first byte: /dev/full as a segment."""

    @staticmethod
    def full(number):
        return os.open("/dev/full", os.O_WRONLY | os.O_APPEND)

    def test_nothing_starts_and_segments_are_asked_for_in_moderation(self):
        times = []

        def segment(number):
            times.append(time.monotonic())
            return self.full(number)
        host = Host(worker=lambda child: None, segment=segment)
        self.addCleanup(host.close)
        deadline = time.monotonic() + wire.TIMEOUT
        while len(times) < 4 and time.monotonic() < deadline:
            select.select([], [], [], 0.05)
        # The second at once, as one disk's failure is not another's; then one a second.
        self.assertGreater(times[3] - times[2], 0.9)
        self.assertGreater(times[2] - times[1], 0.9)
        self.assertFalse(host.ready.is_set())
        status, log = host.close()
        self.assertEqual(status, 0, log)
        self.assertIn("No space left on device", log)

    def test_it_ends_once_a_real_segment_comes(self):
        made, there = [], threading.Event()

        def segment(number):
            there.wait(wire.TIMEOUT)
            if number in (2, 3):
                return self.full(number)
            return os.open(pathlib.Path(made[0].directory.name, f"journal.{number:08d}"),
                           os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL)

        if not STOPS.exists():
            self.skipTest("build/stops is not built (make stops)")
        host = stopped(runtime(lambda child, params: put(child, 1) and
                               child.killed.wait(wire.TIMEOUT) and None),
                       "write:4=ENOSPC", segment=segment)
        made.append(host)
        there.set()
        self.addCleanup(host.close)
        client = host.client()
        client.submit()
        event = client.finish()
        self.assertEqual(event["body"]["turn"]["error"]["code"], "audit_unavailable")
        host.tell(9)
        self.assertEqual(host.process.wait(wire.TIMEOUT), 0)
        log = host.log_text()
        # Two were given and lost; what was kept waits for a fourth, or is said to be missing.
        self.assertTrue(4 in host.wanted or "lacks endings" in log, log)


class Shipped(unittest.TestCase):
    """The broker that is installed reads no plan."""

    def test_it_has_no_such_switch(self):
        shipped = wire.program("caisson-broker")
        for name in (PLAN, "plan_append", "planned_error", "CAISSON_STOP"):
            self.assertNotIn(name.encode(), pathlib.Path(shipped).read_bytes(), name)
        if STOPS.exists():  # the look finds what it looks for
            self.assertIn(PLAN.encode(), STOPS.read_bytes())

    def test_it_does_not_follow_one(self):
        with Host(worker=runtime(lambda child, params: DONE), provider=serve(lambda p: ok()),
                  env={PLAN: "write:0=EIO"}) as host:
            turn, _ = host.client().turn()
            self.assertEqual(turn["status"], "succeeded")


if __name__ == "__main__":
    unittest.main()
