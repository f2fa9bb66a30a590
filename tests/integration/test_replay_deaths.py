"""A call under a key is made once, whatever dies between any two of its steps (TU-70, D-10).

A daemon whose broker, provider, ledger or supervisor is killed; then the same call is made
again, twice, by turns of their own.  The provider counts what happened.
"""

import concurrent.futures
import os
import select
import signal
import unittest

import test_outage
import wire
from broker_host import DONE
from daemon_lab import Daemon, connect, ending, submit
from deaths_lab import STOPS, Lab

AT_ONCE = 2
KEY = {"key": "k"}
MADE = ("succeeded", None)
INTERRUPTED = ("failed", "replay_interrupted")
EXPIRED = ("failed", "replay_expired")

# Where the broker dies in the first call, and what a second one may be told.
BROKER = {
    # nothing on record: the key is new
    "call_received": {MADE},
    "call_decided": {MADE},
    # written, and not waited for: whether it stands is the disk's to say
    "call_recorded": {MADE, INTERRUPTED},
    # decided on record: nobody can say any more whether it happened
    "call_durable": {INTERRUPTED},
    "before_dispatch": {INTERRUPTED},
    "dispatched": {INTERRUPTED},
    "result_received": {INTERRUPTED},
    # its outcome is on its way: known if it stands, and its answer is gone with the broker
    "outcome_recorded": {INTERRUPTED, EXPIRED},
    "call_replied": {INTERRUPTED, EXPIRED},
    "ending_recorded": {INTERRUPTED, EXPIRED},
    "ending_durable": {EXPIRED},
}
NOTHING_HAPPENED = ("call_received", "call_decided", "call_recorded", "call_durable",
                    "before_dispatch")


class World(Lab):
    """A Lab whose configuration a daemon serves."""

    def __init__(self, case, **more):
        super().__init__(way="keyed", **more)
        self.socket, self.addCleanup = self.path / "d.sock", case.addCleanup
        case.addCleanup(self.__exit__)

    def serve(self, stop=None):
        program = (wire.BUILD if stop is None else STOPS) / "bin" / "caissond"
        env = {} if stop is None else {"CAISSON_STOP": stop}
        self.daemon = Daemon(self, program=program, env=env)
        return self.daemon

    def call(self, message=None):
        """Status and code of the call, as its turn was told; None if the turn was lost."""
        with connect(self.socket) as peer:
            peer.hello()
            try:
                submit(peer, message or KEY, "agent")
                event = ending(peer)
            except (wire.Closed, ConnectionError):
                return None
        if event["type"] == "failed":
            return None
        reply = event["body"]["turn"]["output"]
        return reply["status"], reply.get("error", {}).get("code")

    def kill(self, name):
        pid = self.daemon.service(name)
        fd = os.pidfd_open(pid)
        os.kill(pid, signal.SIGKILL)
        ready, _, _ = select.select([fd], [], [], wire.TIMEOUT)
        os.close(fd)
        assert ready


@unittest.skipUnless((STOPS / "bin" / "caissond").exists(),
                     "the programs with stop points are not built: make stops")
class BrokerDies(unittest.TestCase):
    def one_point(self, point):
        with World(self) as world:
            daemon = world.serve(f"broker.{point}")
            first = world.call()
            self.assertIn(f"stopped at broker.{point}\n", daemon.stderr())
            if point != "ending_durable":
                self.assertIsNone(first)
            second = world.call()
            self.assertIn(second, BROKER[point], daemon.stderr())
            third = world.call()
            self.assertEqual(third, second)
            done = world.done()
            self.assertLessEqual(len(done), 1)
            if point in NOTHING_HAPPENED:
                self.assertEqual(len(done), second == MADE)
            # Another key is another call, which nothing of this hinders.
            self.assertEqual(world.call({"key": "other"}), MADE)
            daemon.close()

    def test_at_every_point(self):
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            jobs = [(point, pool.submit(self.one_point, point)) for point in BROKER]
        for point, job in jobs:
            with self.subTest(point=point):
                job.result()


class OthersDie(unittest.TestCase):
    def world(self, **more):
        world = World(self, **more)
        world.serve()
        return world

    def test_a_provider_before_and_after_its_effect(self):
        for way, effects in (("before", 0), ("effect", 1), ("reply", 1)):
            with self.subTest(way=way):
                world = self.world(dies=way)
                self.assertEqual(world.call(), ("failed", "interrupted"))
                self.assertEqual([world.call(), world.call()], [INTERRUPTED] * 2)
                self.assertEqual(len(world.done()), effects)
                world.daemon.close()

    def test_a_ledger_stops_and_loses_nothing(self):
        world = self.world()
        world.kill("ledger")
        self.assertEqual([world.call(), world.call()], [MADE] * 2)
        self.assertEqual(len(world.done()), 1)
        world.kill("broker")
        self.assertEqual(world.call(), EXPIRED)
        self.assertEqual(len(world.done()), 1)

    def test_a_broker_between_two_turns(self):
        world = self.world()
        self.assertEqual([world.call(), world.call()], [MADE] * 2)
        for _ in range(2):
            world.kill("broker")
            self.assertEqual(world.call(), EXPIRED)
            self.assertEqual(world.call({**KEY, "name": "b"}), ("denied", "replay_conflict"))
        self.assertEqual(len(world.done()), 1)

    def test_a_daemon_however_it_ends(self):
        world = self.world()
        self.assertEqual(world.call(), MADE)
        for signo in (signal.SIGTERM, signal.SIGKILL):
            world.daemon.end(signo)
            world.serve()
            self.assertEqual(world.call(), EXPIRED)
        self.assertEqual(len(world.done()), 1)

    def test_an_index_that_is_made_again_knows_every_key(self):  # D-16
        world = self.world()
        self.assertEqual(world.call(), MADE)
        world.daemon.end()
        for path in world.state.glob("namespaces/default/**/index.sqlite*"):
            path.unlink()
        world.serve()
        self.assertEqual(world.call(), EXPIRED)
        self.assertEqual(len(world.done()), 1)


class Keyed(test_outage.Story):
    """A turn that makes one call under a key in an outage of the journal, and one after it."""

    def work(self, child, params):
        self.runs += 1
        msgid = child.peer.request("tool.invoke", operation=child.operation, id="1",
                                   tool="box.put", arguments={"path": "box/a"},
                                   idempotencyKey="k")
        while True:
            m = child.peer.receive()
            if m[0] == 1:  # a drain may stand before it
                self.replies.append((self.runs, m[3] if m[2] is None else {"error": m[2]}))
                return DONE


@unittest.skipUnless(test_outage.STOPS.exists(), "the broker with a plan is not built: make stops")
class TheJournalFails(unittest.TestCase):
    def one(self, plan):
        story = Keyed(plan).run()
        last = story.replies[-1]
        self.assertEqual((last[0], last[1].get("status")), (story.runs, "succeeded"),
                         (story.replies, story.log))
        self.assertEqual(len(story.effects), 1, story.replies)
        self.assertEqual((story.broken, story.status, story.verdict[0]), ([], 0, 0),
                         story.verdict)
        return story.hit

    def test_what_was_refused_for_it_is_made_once_after_it(self):  # TU-71
        plans = [f"{kind}:{n}={how}" for kind, hows in (("write", ("ENOSPC", "short")),
                                                        ("sync", ("EIO",)))
                 for how in hows for n in range(2, 8)]
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            jobs = [(plan, pool.submit(self.one, plan)) for plan in plans]
        hits = 0
        for plan, job in jobs:
            with self.subTest(plan=plan):
                hits += job.result()
        self.assertGreaterEqual(hits, len(plans) // 2)


if __name__ == "__main__":
    unittest.main()
