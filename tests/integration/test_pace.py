"""An operation in a session waits for the fastest of those who follow it and read."""

import os
import threading
import unittest

import test_resume
from test_resume import Reader
from wire import TIMEOUT

SMALL = 4096  # of a log: less than one chunk of output


class Base(test_resume.Case):
    def print(self, child, data):
        """All of it, as fast as it is read; then the command ends."""
        def work():
            try:
                self.work.say(child, data)
            except BrokenPipeError:
                return  # what ended it closed its pipe
            self.work.end(child)
        writer = threading.Thread(target=work)
        writer.start()
        self.addCleanup(writer.join, TIMEOUT)
        return writer

    def wait(self, writer):
        writer.join(TIMEOUT)
        self.assertFalse(writer.is_alive(), "the operation waits for nobody")

    def end_of(self, client, operation, *states):
        """The state in which it ends, as another client sees it."""
        while True:
            state = self.show(client, operation)["state"]
            if state != "running":
                self.assertIn(state, states)
                return

    def small(self, **more):
        """A host that keeps next to nothing."""
        return self.host(retentionOperation=SMALL, **more)

    def say(self, child, n):
        writer = threading.Thread(target=self.work.say, args=(child, os.urandom(n)))
        writer.start()
        self.addCleanup(writer.join, TIMEOUT)
        return writer


class Pace(Base):
    def test_who_reads_gets_all_of_it_whatever_is_kept(self):  # OP-17, OP-40
        data = os.urandom(4 << 20)
        for kept in ({"retentionOperation": SMALL}, {"retention": "none"}, {}):
            with self.subTest(**kept):
                client, _, operation, child = self.begin(self.host(**kept))
                self.print(child, data)
                reader = Reader(self, client, operation).read()
                self.assertEqual((reader.gaps, reader.output == data), ([], True))

    def test_two_who_read_in_turns_get_all_of_it(self):  # OP-17, OP-40
        host, data = self.host(retention="none"), os.urandom(2 << 20)
        client, _, operation, child = self.begin(host)
        readers = [Reader(self, client, operation), self.attach(host.client(), operation)]
        self.print(child, data)
        while any(r.terminal is None for r in readers):
            for r in readers:
                if r.terminal is None:
                    r.take(r.client.next_event())
        for r in readers:
            self.assertEqual((r.gaps, r.output == data), ([], True))

    def test_a_slow_one_is_waited_for_and_another_operation_is_not_slowed(self):  # OP-17
        host, data = self.small(), os.urandom(2 << 20)
        client, _, operation, child = self.begin(host)
        self.print(child, data)
        reader = Reader(self, client, operation)
        other = host.client()
        session = other.call("session.acquire")["session"]["id"]
        while reader.terminal is None:
            # A bite, and then all of an operation of somebody else's.
            reader.take(client.next_event())
            if reader.at % 8 == 0:
                brief = Reader(self, other, self.submit(other, session)["operation"])
                self.print(self.work.next(), data[:300000])
                brief.read()
                self.assertEqual((brief.gaps, brief.output == data[:300000]), ([], True))
        self.assertEqual((reader.gaps, reader.output == data), ([], True))

    def test_many_who_never_read_cost_their_own_events_only(self):  # OP-17, OP-40
        host, data = self.small(), os.urandom(8 << 20)
        client, _, operation, child = self.begin(host)
        others = [host.client() for _ in range(15)]
        for other in others:
            other.call("operation.attach", operation=operation)
        self.wait(self.print(child, data))
        self.end_of(host.client(), operation, "succeeded")
        for c in (client, *others):
            late = Reader(self, c, operation).read()
            self.assertEqual(late.terminal["body"]["command"]["exitCode"], 0)
            self.assertEqual(len(late.gaps), 1)

    def test_the_dead_hold_nothing_from_who_reads(self):  # OP-40
        host, data = self.small(), os.urandom(4 << 20)
        client, _, operation, child = self.begin(host)
        other = host.client()
        other.call("operation.attach", operation=operation)
        self.print(child, data)
        reader = Reader(self, client, operation).read()
        self.assertEqual((reader.gaps, reader.output == data), ([], True))
        late = Reader(self, other, operation).read()
        self.assertEqual(late.terminal, reader.terminal)

    def test_who_reads_again_is_waited_for_again(self):  # OP-40
        host = self.small()
        client, _, operation, child = self.begin(host)
        self.wait(self.say(child, 8 << 20))
        reader = Reader(self, client, operation)
        while not reader.gaps:
            reader.take(client.next_event())
        reader.read(until=self.show(host.client(), operation)["sequence"])
        lost, before = reader.gaps, len(reader.output)
        data = os.urandom(2 << 20)
        self.print(child, data)
        reader.read()
        self.assertEqual(reader.gaps, lost)
        self.assertEqual(reader.output[before:] == data, True)


class WhileItWaits(Base):
    """Nobody reads, and the writer has more than its reader's link, log and pipe hold."""

    def hold(self, **params):
        self.held = self.small()
        client, session, operation, child = self.begin(self.held, **params)
        return client, operation, child, self.print(child, os.urandom(16 << 20))

    def test_a_cancel_ends_it(self):
        client, operation, child, writer = self.hold()
        other = self.held.client()
        other.call("operation.stop", operation=operation)
        self.end_of(other, operation, "cancelled")
        self.wait(writer)
        self.assertEqual(Reader(self, client, operation).read().terminal["body"]["code"],
                         "canceled")

    def test_a_deadline_ends_it(self):
        client, operation, child, writer = self.hold(argv=["true"], timeoutMs=600)  # less than PACE_MS
        self.end_of(self.held.client(), operation, "timed_out")
        self.wait(writer)

    def test_its_follower_detaches_and_it_goes_on(self):  # OP-26
        client, operation, child, writer = self.hold()
        client.close()
        self.wait(writer)
        self.end_of(self.held.client(), operation, "succeeded")

    def test_the_broker_ends(self):
        self.hold()
        # Case.close() waits for its end, and looks at its status.


if __name__ == "__main__":
    unittest.main()
