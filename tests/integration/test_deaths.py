"""Kill -9, at every point and in every process: exactly one ending, and nothing left.

The rows are those of docs/ARCHITECTURE.md, "What survives what", against the real processes:
`caisson run` and `exec`, a runtime and a provider in Python.  The named points are in the
programs of build/stops only (common/stop.h).
"""

import concurrent.futures
import glob
import os
import select
import signal
import subprocess
import unittest

import wire
from deaths_lab import Lab, STOPS

TIMEOUT = 300
AT_ONCE = 2
BUILT = (STOPS / "bin" / "caisson").exists()

EXIT_CANNOT = 125


class Case(unittest.TestCase):
    def setUp(self):
        if not BUILT:
            self.skipTest("the programs with stop points are not built: make stops")

    def lab(self, **more):
        lab = Lab(**more)
        self.addCleanup(lab.__exit__)
        return lab

    def each(self, rows, function):
        """function(row) for each, two at once; every failure is told with its row."""
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            jobs = [(row, pool.submit(function, row)) for row in rows]
        for row, job in jobs:
            with self.subTest(row=row):
                job.result()

    def gone(self, pidfd):
        """Waits for the end of the process."""
        ready, _, _ = select.select([pidfd], [], [], wire.TIMEOUT)
        os.close(pidfd)
        self.assertTrue(ready)


class Shipped(unittest.TestCase):
    def test_what_is_shipped_has_no_stop_points(self):
        for program in ("bin/caisson", "bin/caissond", "libexec/caisson-broker",
                        "libexec/caisson-ledger", "libexec/caisson-worker",
                        "libexec/caisson-files"):
            data = (wire.BUILD / program).read_bytes()
            for text in (b"CAISSON_STOP", b"stop_here", b"stop_point", b"stopped at",
                         b"CAISSON_NO_PIDFD_INFO", b"broker.call_durable"):
                self.assertNotIn(text, data, program)

    @unittest.skipUnless(BUILT, "make stops")
    def test_the_test_build_has_them(self):
        self.assertIn(b"CAISSON_STOP", (STOPS / "libexec/caisson-broker").read_bytes())


# Where the broker dies, what `caisson run` exits with, and how the operation ended.
LOST = (EXIT_CANNOT, "host_lost")
UNKNOWN = (1, "outcome_unknown")
NEVER = (EXIT_CANNOT, None)
EITHER = object()  # lost, or unknown where a call's outcome was not in the file yet (D-11)
FINE = (0, "succeeded")
BROKER = {
    # before the operation is on record: it never was
    "submit_received": NEVER,
    "accepted_recorded": NEVER,
    # on record: it ends on record
    "accepted_durable": LOST,
    "accepted_told": LOST,
    "before_spawn": LOST,
    "spawn_asked": LOST,
    "worker_greeted": LOST,
    "turn_sent": LOST,
    # one tool call: no decision on record, no effect
    "call_received": LOST,
    "call_decided": LOST,
    "call_recorded": LOST,
    # decided on record: whatever happened, it is spent
    "call_durable": UNKNOWN,
    "before_dispatch": UNKNOWN,
    "dispatched": UNKNOWN,
    "result_received": UNKNOWN,
    "outcome_recorded": UNKNOWN,
    "call_replied": UNKNOWN,
    # the end
    "outcome_received": EITHER,
    "ending_decided": EITHER,
    "ending_recorded": EITHER,
    # its ending is on record: that is its ending
    "ending_durable": FINE,
    "ending_told": FINE,
    "session_over": FINE,
    "settled": FINE,
    # before anything was asked: nothing is lost
    "state_loaded": FINE,
    "state_settled": FINE,
}
NO_DECISION = ("call_received", "call_decided", "call_recorded")
NO_EFFECT = NO_DECISION + ("call_durable", "before_dispatch")


class BrokerDies(Case):
    def one_point(self, point):
        with Lab() as lab:
            run = lab.run({"calls": 2}, stop=f"broker.{point}").wait()
            told = (run.status, run.ending())
            if BROKER[point] is EITHER:
                self.assertIn(told, (LOST, UNKNOWN), run.say())
            else:
                self.assertEqual(told, BROKER[point], run.say())
            records = run.check(self)
            types = [r["type"] for r in records]
            self.assertEqual("operation.accepted" in types,
                             point not in ("submit_received", "accepted_recorded"))
            decided = [r for r in records if r["type"] == "authorization.checked" and "call" in r]
            if point in NO_DECISION:
                self.assertEqual(decided, [])
            if point in NO_EFFECT:
                self.assertEqual(lab.done(), [])
            # unknown is what has a call without its outcome, and nothing else is
            unknown = [r for r in records if r["type"] == "tool.invoked" and
                       r["outcome"] == "interrupted" and r["cause"] == "outcome_unknown"]
            self.assertEqual(told == UNKNOWN, bool(unknown), run.say())
            # "what was pending is interrupted, and stays spent"
            self.assertNotIn("grant.usage.released", types)
            if told in (LOST, UNKNOWN):
                self.assertIn("gap", [e["type"] for e in run.events])

    def test_at_every_point(self):
        self.each(BROKER, self.one_point)

    def test_with_a_call_at_its_provider(self):
        # written: the provider has it, and the broker has no answer
        lab = self.lab(dies="hold")
        run = lab.run({"calls": 2})
        lab.held()
        self.gone(run.kill("caisson-broker"))
        run.wait()
        self.assertEqual((run.status, run.ending()), UNKNOWN, run.say())
        run.check(self)
        self.assertEqual(lab.done(), [])

    def test_what_a_person_sees(self):
        for point in ("turn_sent", "dispatched", "accepted_recorded"):
            with self.subTest(point=point):
                status, cause = BROKER[point]
                run = self.lab().run({"calls": 1}, f"broker.{point}", "human").wait(b"")
                self.assertEqual(run.status, status)
                lines = [line for line in run.stderr.splitlines() if line.startswith("caisson: ")]
                self.assertEqual(len(lines), 1, run.stderr)
                self.assertIn(cause or "the broker died", lines[0])

    def test_and_its_successor_too(self):
        # One ending, however often: the third takes what the second left on record.
        def one(row):
            point, build = row
            with Lab(dies="hold", **build) as lab:
                run = lab.run({"calls": 2}, stop=f"again:broker.{point}")
                lab.held()
                self.gone(run.kill("caisson-broker"))
                run.wait()
                self.assertEqual((run.status, run.ending()), UNKNOWN, run.say())
                run.check(self)

        self.each([(point, {"bounded": bounded}) for bounded in (True, False) for point in
                   ("state_loaded", "state_recorded", "state_settled")], one)

    def test_a_command_and_its_exit_status(self):
        # OP-2: the recorded ending is the ending, its exit status included
        rows = [("broker.accepted_durable", "exit 3", EXIT_CANNOT, "host_lost"),
                ("broker.spawn_asked", "exit 3", EXIT_CANNOT, "host_lost"),
                ("broker.ending_recorded", "exit 3", EXIT_CANNOT, "host_lost"),
                ("broker.ending_durable", "exit 3", 3, "completed"),
                ("broker.ending_durable", "kill -TERM $$", 128 + 15, "completed"),
                ("broker.ending_told", "exit 3", 3, "completed")]

        def one(row):
            stop, command, status, ending = row
            with Lab() as lab:
                run = lab.exec("/bin/sh", "-c", command, stop=stop).wait()
                self.assertEqual((run.status, run.ending()), (status, ending), run.say())
                run.check(self)

        self.each(rows, one)

    def test_a_program_that_is_not_there(self):
        lab = self.lab()
        run = lab.exec("/no/such", stop="broker.ending_durable").wait()
        self.assertEqual((run.status, run.ending()), (127, "start_failed"), run.say())
        run.check(self)


class LedgerDies(Case):
    def test_at_every_point(self):
        def one(point):
            with Lab() as lab:
                run = lab.run({"calls": 2}, stop=f"ledger.{point}").wait()
                self.assertEqual((run.status, run.ending()), FINE, run.say())
                records = run.check(self)
                self.assertEqual(len(lab.done()), 2)
                self.assertIn("operation.ended", [r["type"] for r in records])

        self.each(["state_asked", "state_given", "before_index", "after_index", "before_head",
                   "after_head"], one)

    def test_no_effect_waits_for_it(self):
        lab = self.lab(dies="hold")
        run = lab.run({"calls": 2, "rounds": ["a", "b"]})
        lab.held()
        self.gone(run.kill("caisson-ledger"))
        lab.let_go()
        run.wait()
        self.assertEqual((run.status, run.ending()), FINE, run.say())
        run.check(self)
        self.assertEqual(len(lab.done()), 4)


class SupervisorDies(Case):
    def test_at_every_point(self):
        rows = {"before_client": NEVER, "after_client": NEVER, "before_segment": NEVER,
                "after_segment": NEVER, "after_broker": NEVER, "after_ledger": NEVER,
                "before_link": LOST, "after_link": LOST, "after_spawn": LOST,
                "shutdown": FINE}

        def one(point):
            with Lab() as lab:
                run = lab.run({"calls": 2}, stop=f"supervisor.{point}").wait()
                if point != "after_client":
                    self.assertEqual((run.status, run.ending()), rows[point], run.say())
                self.assertEqual(run.status, rows[point][0], run.say())
                if point != "shutdown":
                    self.assertIn("killed by signal 9", run.stderr)
                run.check(self)

        self.each(rows, one)

    def test_with_a_call_at_its_provider(self):
        # "every child ends by itself", the broker after settling what is open
        lab = self.lab(dies="hold")
        run = lab.run({"calls": 2})
        lab.held()
        pids = run.pids()
        self.assertGreaterEqual(len(pids), 7, pids)
        self.gone(run.kill("caissond"))
        run.wait()
        self.assertEqual((run.status, run.ending()), LOST, run.say())
        self.assertIn("killed by signal 9", run.stderr)
        records = run.check(self)
        outcomes = [r for r in records if r["type"] == "tool.invoked"]
        self.assertEqual([r["outcome"] for r in outcomes], ["interrupted"] * len(outcomes))

    def test_around_the_exit_of_a_worker(self):
        for point, told in (("before_exit", {LOST}), ("after_exit", {LOST, (1, "exited")})):
            with self.subTest(point=point):
                lab = self.lab(way="exit_after_hello")
                run = lab.run(stop=f"supervisor.{point}").wait()
                self.assertIn((run.status, run.ending()), told, run.say())
                run.check(self)

    @unittest.skipUnless(os.geteuid() == 0 and os.path.isdir("/sys/fs/cgroup/memory"),
                         "needs root and cgroup v1")
    def test_its_cgroups_go_with_the_next(self):
        def stale():
            found = glob.glob("/sys/fs/cgroup/**/caisson-*", recursive=True)
            return [f for f in found if not os.path.exists(f"/proc/{f.split('-')[-2]}")]

        lab = self.lab(dies="hold", limits="memory: 256MiB")
        run = lab.run({"calls": 1})
        lab.held()
        pid = run.pid("caissond")
        self.assertTrue(glob.glob(f"/sys/fs/cgroup/**/caisson-{pid}-*", recursive=True))
        self.gone(run.kill("caissond"))
        run.wait()
        run.check(self)
        again = self.lab(limits="memory: 256MiB").run({"calls": 1}).wait()
        self.assertEqual((again.status, again.ending()), FINE, again.say())
        self.assertFalse([f for f in stale() if f"caisson-{pid}-" in f])

    def test_a_command(self):
        lab = self.lab()
        run = lab.exec("/bin/sh", "-c", "kill -STOP $$", stop="supervisor.after_spawn").wait()
        self.assertEqual((run.status, run.ending()), LOST, run.say())
        run.check(self)


class ClientDies(Case):
    def test_at_every_point(self):
        def one(point):
            with Lab() as lab:
                run = lab.run({"calls": 2}, stop=f"client.{point}").wait()
                self.assertEqual(run.status, -signal.SIGKILL, run.say())
                run.check(self)

        self.each(["submitted", "attached", "ending_seen"], one)

    def test_with_a_call_at_its_provider(self):
        lab = self.lab(dies="hold")
        run = lab.run({"calls": 2})
        lab.held()
        self.gone(run.kill("/bin/caisson "))
        run.wait()
        self.assertEqual((run.status, run.ending()), (-signal.SIGKILL, None), run.say())
        records = run.check(self)
        ended = [r for r in records if r["type"] == "operation.ended"]
        self.assertEqual(ended[0]["cause"], "shutdown")


class ProviderDies(Case):
    def test_before_and_after_its_effect(self):
        def one(row):
            way, effect = row
            with Lab(dies=way, effect=effect) as lab:
                run = lab.run({"calls": 2, "rounds": ["a", "b"]}).wait()
                # the tool result says so; the turn goes on, with another provider
                self.assertEqual((run.status, run.ending()), FINE, run.say())
                records = run.check(self)
                told = run.output()
                lost = [t for t in told if isinstance(t, list)]
                self.assertTrue(lost, told)
                # retryable by the tool's declaration (TU-56)
                for t in lost:
                    self.assertEqual(t, ["interrupted", effect == "read"])
                self.assertTrue(all(isinstance(t, str) for t in told[2:]), told)
                wanted = len(told) - len(lost) + (way != "before")
                self.assertEqual(len(lab.done()), wanted)
                outcomes = [r for r in records if r["type"] == "tool.invoked"]
                self.assertEqual(sum(r.get("cause") == "outcome_unknown" for r in outcomes),
                                 len(lost))

        self.each([(way, effect) for way in ("before", "effect", "reply")
                   for effect in ("read", "write")], one)

    def test_one_that_always_dies_is_given_up(self):
        lab = self.lab(dies="never")
        config = lab.config.read_text().replace("deaths_provider.py, never", "nothing.py, never")
        lab.config.write_text(config)
        run = lab.run({"calls": 2}).wait()
        self.assertEqual((run.status, run.ending()), FINE, run.say())
        self.assertEqual([t[0] for t in run.output()], ["tool_execution_failed"] * 2)
        run.check(self)


WAYS = {
    # way: exit status, ending
    "exit_before_hello": (1, "exited"),
    "kill_before_hello": (1, "signaled"),
    "exit_after_hello": (1, "exited"),
    "kill_with_calls": (1, "signaled"),
    "half_an_outcome": (1, "signaled"),
    # an outcome that was read before the end wins over the exit
    "outcome_then_kill": FINE,
    "outcome_then_exit": FINE,
    "leave_children": FINE,
    "outcome_with_calls": FINE,
    "close_and_live": (1, "runtime_protocol_violation"),
    "junk": (1, "runtime_protocol_violation"),
    "never_read": (1, "limit"),
    "flood_refusals": (1, "limit"),
    "forbidden_call": (1, "seccomp"),
}


class WorkerDies(Case):
    def test_in_every_way(self):
        def one(way):
            with Lab(way=way, dies="hold" if way == "kill_with_calls" else "never",
                     bounded=way != "outcome_with_calls") as lab:
                run = lab.run().wait()
                self.assertEqual((run.status, run.ending()), WAYS[way], run.say())
                records = run.check(self)
                self.assertEqual(lab.done(), [])
                self.assertNotIn("provider", run.stderr)  # nothing of it is its doing
                if way == "kill_with_calls":
                    outcomes = [r for r in records if r["type"] == "tool.invoked"]
                    self.assertEqual([(r["outcome"], r["cause"]) for r in outcomes],
                                     [("interrupted", "outcome_unknown")] * 2)

        self.each(WAYS, one)

    def test_a_flood_ends_with_its_client(self):
        # Nobody reads: the runtime's own pipe fills, nothing else grows.
        lab = self.lab(way="flood_output")
        out, theirs = os.pipe()
        run = lab.run(stdout=theirs)
        os.close(theirs)
        with open(out, "rb") as pipe:
            printed = pipe.read(1 << 20)
            os.kill(run.pid("/bin/caisson "), signal.SIGINT)
            printed += pipe.read()
        run.wait(printed)
        self.assertEqual((run.status, run.ending()), (4, "canceled"))
        run.check(self)


LAUNCH = ("launch.start", "launch.before_root", "launch.before_pivot", "launch.after_pivot",
          "launch.after_root", "launch.before_clone", "launch.after_clone",
          "launch.before_release", "launch.after_release", "init.start", "init.after_release",
          "init.before_mounts", "init.after_mounts", "init.confined", "init.before_runtime",
          "init.after_runtime", "program.before_filter", "program.after_filter",
          "program.before_exec")


class LaunchDies(Case):
    def test_a_worker_at_every_step(self):
        # "the session is not born, the layer is named": refused, nothing left
        def one(point):
            with Lab() as lab:
                run = lab.run({"calls": 1}, stop=f"interpreter:{point}").wait()
                self.assertEqual((run.status, run.ending()), (EXIT_CANNOT, "start_failed"),
                                 run.say())
                self.assertTrue(self_layer(run), run.say())
                run.check(self)
                self.assertEqual(lab.done(), [])

        self.each(LAUNCH, one)

    def test_a_provider_at_every_step(self):
        def one(point):
            with Lab() as lab:
                run = lab.run({"calls": 1}, stop=f"provider:{point}").wait()
                self.assertEqual((run.status, run.ending()), FINE, run.say())
                self.assertEqual(run.output()[0][0], "tool_execution_failed")
                run.check(self)
                self.assertEqual(lab.done(), [])

        self.each(LAUNCH[::3], one)

    def test_broker_and_ledger(self):
        def one(row):
            with Lab() as lab:
                run = lab.run({"calls": 1}, stop=":".join(row)).wait()
                self.assertEqual((run.status, run.ending()), NEVER, run.say())
                self.assertIn(f"cannot start the {row[0]}", run.stderr)
                run.check(self)

        self.each([(who, point) for who in ("broker", "ledger")
                   for point in ("launch.start", "init.start", "init.confined",
                                 "program.before_exec")], one)

    def test_the_launcher_by_itself(self):
        done = subprocess.run([STOPS / "test" / "test_launch"], capture_output=True, text=True,
                              env={**os.environ, "CK_RUN_CASE": "deaths"}, timeout=120,
                              cwd=wire.ROOT, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


def self_layer(run):
    """The layer that the failed event names."""
    return run.events[-1]["failed"]["cause"].get("layer")


if __name__ == "__main__":
    unittest.main()
