"""The failure matrix: every call of a launch's set-up, with every error, at each occurrence.

tests/fault/ makes the launches, of the programs that are shipped, and one call of each fail;
tests/fault/calls.tsv says what must come of it.  Where the target was executed although a call
had failed, the reason is in that table, or it is a fault of ours.
"""

import collections
import errno
import json
import os
import pathlib
import subprocess
import unittest

import real
import wire

TIMEOUT = 900
FAULT = wire.BUILD / "test" / "fault"
TABLE = wire.ROOT / "tests" / "fault" / "calls.tsv"
ERRORS = {"EPERM", "EINVAL", "ENOMEM", "EINTR", "ENOSYS"}
ROLES = "SVLHIR"
IS_ROOT = os.geteuid() == 0
# Every case that went wrong counts at once; else those of pid 1 only if they do so again.
STRICT_RUN = "MATRIX_STRICT" in os.environ
JOBS = str(len(os.sched_getaffinity(0)))

Row = collections.namedtuple("Row", "layers told runs")
STRICT = Row(None, set(), set())


def words(text):
    return set() if text == "-" else set(text.split("|"))


def table():
    """(role, call) to what may come of it."""
    rows = {}
    for line in TABLE.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        roles, call, layers, told, runs, _ = (line.split("\t") + [""])[:6]
        runs = words(runs)
        for role in roles:
            if (role, call) in rows:
                raise ValueError(f"{role} {call} is there twice")
            rows[role, call] = Row(words(layers), words(told),
                                   runs | ERRORS if "all" in runs else runs)
    return rows


class Judge:
    """What is wrong with an outcome, in words; nothing if it is as it should be."""

    def __init__(self):
        self.rows = table()

    def row(self, case):
        return self.rows.get((case["role"], case["call"]), STRICT)

    def trouble(self, case):
        row = self.row(case)
        if case["hung"]:
            return "it hung"
        if not case["hit"]:
            # The supervisor's loop does not always turn as often, and pid 1 waits as it likes.
            return "" if case["role"] in "SI" else "not called as often as in the listing"
        if case["left"] and "left" not in row.runs:
            return f"left behind: {case['left']}"
        if case["event"] == "loop":
            # Its loop is the supervisor's end, and that of all below it.
            return "" if (case["call"], case["error"]) != ("epoll_wait", "EINTR") else "ended"
        # Pid 1 may die of it once the launch is over, and the target with it.
        if "killed" in row.runs and (case["event"], case["status"]) == ("exit", 137):
            return ""
        if case["ran"]:
            return self.ran(case, row)
        return self.refused(case, row)

    @staticmethod
    def ran(case, row):
        if case["late"]:  # it may: that it ended is told in one way or the other
            return "" if case["event"] in ("exit", "refused") else "no end of it was told"
        if case["error"] not in row.runs or ("later" in row.runs and case["nth"] == 1):
            return "the target was executed"
        if (case["event"], case["status"]) == ("exit", 0):
            return ""
        return "" if "undone" in row.runs else "it was executed, and not well"

    @staticmethod
    def refused(case, row):
        if case["event"] not in ("refused", "unstarted"):
            return f"it says {case['event']}"
        if row.layers is not None and case["layer"] not in row.layers:
            return f"wrong layer: {case['layer']}"
        told = errno.errorcode.get(case["told"], str(case["told"]))
        if told != case["error"] and told not in row.told:
            return f"another error is told: {told}"
        # The layer, what to do, and the errno where there is one.
        if not case["why"].startswith(f"{case['layer']}: ") or len(case["why"]) < 30:
            return "no remedy"
        return ""


def kinds():
    done = subprocess.run([FAULT, "kinds"], stdout=subprocess.PIPE, check=True)
    return done.stdout.decode().split()


def readable():
    """Nobody must be able to execute what is tested."""
    paths = [FAULT.resolve(), *FAULT.resolve().parents]
    return all(path.stat().st_mode & 0o001 for path in paths)


@unittest.skipUnless(FAULT.exists(), "made for x86-64 only")
@unittest.skipIf(wire.SANITIZED, "LeakSanitizer and a tracer cannot both trace")
class Matrix(unittest.TestCase):
    def setUp(self):
        self.before = set(real.left_over()) | self.mounts()

    @staticmethod
    def mounts():
        """Where the launcher mounts: there is nothing in the host's own namespace."""
        lines = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
        return {line for line in lines
                if line.split()[4].startswith(("/proc", "/app", "/data", "/tmp/work", "/dev/shm"))}

    def run_kind(self, kind):
        if kind not in kinds():
            self.skipTest("only root can have it")
        if IS_ROOT and kind.startswith("user") and not readable():
            self.skipTest("the build is out of nobody's reach")
        wrong = self.wrong(kind)
        race = {case for case in wrong if case[0] == "I"}
        if race == set(wrong) and race and not STRICT_RUN:
            # Who is quicker, pid 1 or its supervisor, differs; what is broken stays so.
            again = self.wrong(kind)
            wrong = {case: trouble for case, trouble in again.items()
                     if case in race or case[0] != "I"}
        self.assertEqual(wrong, {})

        real.wait_for(lambda: self.swept(kind), "nothing left")

    def swept(self, kind):
        self.listing(kind)  # a supervisor that sweeps behind those whose loop failed
        return set(real.left_over()) | self.mounts() <= self.before

    def wrong(self, kind):
        """{case: what is wrong with its outcome} of one run of all"""
        listing, judge, wrong = self.listing(kind), Judge(), {}
        done = subprocess.run([FAULT, kind, "run", JOBS], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=TIMEOUT)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        cases = [json.loads(line) for line in done.stdout.splitlines()]
        self.complete(listing, cases)
        for case in cases:
            if trouble := judge.trouble(case):
                key = case["role"], case["call"], case["nth"], case["error"]
                wrong[key] = f"{trouble}: {case}"
        return wrong

    @staticmethod
    def listing(kind):
        done = subprocess.run([FAULT, kind, "list"], stdout=subprocess.PIPE, check=True)
        return done.stdout.decode()

    def complete(self, listing, cases):
        """Each call of each of its processes, each error, each occurrence, once."""
        seen = collections.Counter(
            (case["role"], case["call"], case["nth"], case["error"]) for case in cases)
        rows = table()
        self.assertEqual(set(seen.values()), {1})
        for line in listing.splitlines():
            role, call, count = line.split()
            if "others" in rows.get((role, call), STRICT).runs:
                continue
            # Another launch, so that of the supervisor's loop there may be less.
            for nth in range(1, 2 if role in "SI" else int(count) + 1):
                for error in ERRORS:
                    self.assertIn((role, call, nth, error), seen)
        # How often the supervisor calls depends on how many groups others left for its sweep.
        first = [case["hit"] for case in cases if case["nth"] == 1]
        self.assertGreater(sum(first), 0.9 * len(first))

    def test_user(self):
        self.run_kind("user")

    def test_user_on_ground_that_is_held(self):
        self.run_kind("user-warm")

    def test_user_for_the_first_time(self):
        self.run_kind("user-first")

    def test_user_with_a_network_of_its_own(self):
        self.run_kind("user-own-network")

    def test_user_without_init(self):
        self.run_kind("user-bare")

    def test_root(self):
        self.run_kind("root")

    def test_root_on_ground_that_is_held(self):
        self.run_kind("root-warm")

    def test_root_for_the_first_time(self):
        self.run_kind("root-first")

    def test_user_of_one_that_stood_by(self):
        self.run_kind("user-stood")

    def test_root_of_one_that_stood_by(self):
        self.run_kind("root-stood")

    def test_root_without_init(self):
        self.run_kind("root-bare")


class Table(unittest.TestCase):
    def test_every_row_that_lets_the_target_run_has_a_reason(self):
        for line in TABLE.read_text().splitlines():
            if line and not line.startswith("#"):
                columns = line.split("\t")
                self.assertEqual(len(columns), 6 if columns[4] != "-" else 5, line)
                self.assertLessEqual(set(columns[0]), set(ROLES))
                self.assertLessEqual(words(columns[4]), ERRORS | {"all", "killed", "left", "later", "others", "undone"})


if __name__ == "__main__":
    unittest.main()
