"""Outages of the journal: no effect without its record, one ending each (D-10, D-11, TU-55).

The real broker under a scripted supervisor, built so that it reads a plan of failing writes
and syncs (broker/journal_plan.c); the shipped one has no such switch.  Each test asks of
whatever happened the same invariants, see Story.check().
"""

import concurrent.futures
import contextlib
import hashlib
import json
import os
import pathlib
import random
import re
import select
import shutil
import subprocess
import tempfile
import threading
import time
import unittest

import test_audit
import wire
from broker_host import DONE, Host, grant, ok, runtime, serve, tool

TIMEOUT = 300
STOPS = wire.BUILD / "stops" / "libexec" / "caisson-broker"
CAISSON = wire.program("caisson")
PLAN = "CAISSON_JOURNAL_PLAN"
GRACE_MS, STALL_MS = 50, 1050  # killGraceMs, and when a sync counts as an outage
USES = 3
LINES = re.compile(r"cannot append to journal segment|cannot sync journal segment|"
                   r"a sync has not ended for")


def walk(folder):
    """[(segment, record)] of the valid chain; fails where a segment contradicts the one before."""
    found, chain, count, length = [], bytes(32), 0, 0
    for number, path in enumerate(sorted(pathlib.Path(folder).glob("journal.*")), 1):
        data, at, before = path.read_bytes(), 0, (count, chain, length)
        while at + 36 <= len(data):
            end = at + 4 + int.from_bytes(data[at:at + 4], "big")
            link = hashlib.sha256(chain + data[at + 36:end]).digest()
            if end > len(data) or link != data[at + 4:at + 36]:
                break  # the torn tail
            record = wire.unpack(data[at + 36:end])
            if at == 0:
                assert (record["type"], record["segment"]) == ("segment.opened", number), record
                assert before == (record["previousCount"], record["previousHash"],
                                  record["previousLength"]), (record, before)
            found.append((number, record))
            chain, at, count = link, end, count + 1
        length = at
    return found


def audit(folder):
    """What `caisson audit verify` says of the segments in `folder`: (status, text)."""
    with tempfile.TemporaryDirectory(prefix="caisson-outage-") as state:
        run = pathlib.Path(state, "runs", "20260101T000000-000000")
        (run / "index").mkdir(parents=True)
        (run / "journal").mkdir()
        for path in pathlib.Path(folder).glob("journal.*"):
            shutil.copy(path, run / "journal")
        done = subprocess.run([CAISSON, "audit", "--state", state, "verify"],
                              capture_output=True, text=True, timeout=wire.TIMEOUT)
        return done.returncode, done.stdout + done.stderr


class Story:
    """One broker, a turn of three calls in an outage by plan, and one after it.

    Without `gate`, another segment is there at once; with it, only once it is set.
    """

    def __init__(self, plan, gate=None, **config):
        self.gate, self.effects, self.replies, self.runs = gate, [], [], 0
        self.given = 0
        self.host = None
        self.broken = []  # what a thread found wrong
        self.host = Host(
            worker=runtime(self.work), provider=serve(self.effect), segment=self.segment,
            program_path=str(STOPS), env={PLAN: plan},
            tools=[tool("box.put", "write", action="put")],
            grants=[grant("box", ["box"], ["put"], maxUses=USES)],
            **{"killGraceMs": GRACE_MS, **config})
        self.folder = self.host.directory.name

    def segment(self, number):
        host = self.host  # None: it is still being made, and not ready
        if self.gate and host and host.ready.is_set() and not self.gate.is_set():
            return None
        self.given = number
        return os.open(pathlib.Path(self.folder_now(), f"journal.{number:08d}"),
                       os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL)

    def folder_now(self):
        while self.host is None:  # its constructor has started the thread that calls us
            select.select([], [], [], 0.001)
        return self.host.directory.name

    def effect(self, params):
        decided = [r for _, r in walk(self.folder) if r.get("call") == params["call"]]
        if [(r["type"], r["outcome"]) for r in decided] != [("authorization.checked", "allowed")]:
            self.broken.append(f"an effect without its decision on record: {decided}")
        self.effects.append(params["call"])
        return ok("done")

    def work(self, child, params):
        self.runs += 1
        for i in range(USES):
            # A refusal is swallowed: it does not save the turn.
            self.replies.append((self.runs, self.invoke(child, f"box/{i}")))
        return DONE

    @staticmethod
    def invoke(child, path):
        """The result; notifications (drain) may stand before it."""
        msgid = child.peer.request("tool.invoke", operation=child.operation, id=path,
                                   tool="box.put", arguments={"path": path})
        while True:
            m = child.peer.receive()
            if m[0] == 1:
                assert m[1] == msgid, m
                return m[3] if m[2] is None else {"error": m[2]}

    def submit(self, client, **params):
        """The operation, or the refusal's code."""
        msgid = client.request("operation.submit", kind="turn", **params)
        error, result = client.expect_reply(msgid)
        return (result["operation"], None) if error is None else (None, error["code"])

    def submit_again(self, client):
        """Until the journal is back, nothing may start."""
        deadline = time.monotonic() + wire.TIMEOUT
        while True:
            operation, code = self.submit(client)
            if operation:
                return operation
            assert code == "audit_unavailable" and time.monotonic() < deadline, code
            select.select([], [], [], 0.02)

    def run(self):
        host = self.host
        client = self.client = host.client()
        self.operation, code = self.submit(client)
        self.event = client.finish(self.operation) if self.operation else None
        if not self.operation:
            assert code == "audit_unavailable", code
        for child in host.children:
            assert child.over.wait(wire.TIMEOUT), "a worker or provider outlived its turn"
        host.round()
        self.hit = bool(LINES.search(host.log_text()))
        self.first_effects, self.first_replies = len(self.effects), list(self.replies)
        if self.gate:
            self.gate.set()
        self.second = self.submit_again(client)
        self.second_event = client.finish(self.second)
        for child in host.children:
            assert child.over.wait(wire.TIMEOUT), "a worker or provider outlived its turn"
        self.status, self.log = self.end()
        return self

    def end(self):
        """Ends the broker; keeps what is on record."""
        self.host.tell(9)
        status = self.host.process.wait(wire.TIMEOUT)
        self.records = walk(self.folder)
        self.verdict = audit(self.folder) if CAISSON else (0, "")
        return status, self.host.close()[1]

    def before_the_ending(self):
        """Whether the write that failed was the ending's, or one before it: what comes after may
        share a write or not, and is hit for good measure."""
        return not any(number == 1 and r["type"] == "operation.ended" for number, r in self.records)

    def check(self, test):
        """The invariants, whatever failed and when."""
        test.assertEqual(self.broken, [])
        test.assertEqual(self.status, 0, self.log)
        test.assertNotIn("Sanitizer", self.log)
        test.assertEqual(self.verdict[0], 0, self.verdict)
        records = [r for _, r in self.records]
        self.check_calls(test, records)
        # Exactly one ending, at the client ...
        terminal = [e for e in self.client.events if e["type"] in ("completed", "failed")]
        test.assertEqual([e["operation"] for e in terminal],
                         [op for op in (self.operation, self.second) if op])
        # ... and on record, whether or not it was when the client was told.
        for op in (self.operation, self.second):
            for kind in ("turn.ended", "operation.ended") if op else ():
                test.assertEqual(len([r for r in records if r["type"] == kind and
                                      r["operation"] == op]), 1, (kind, records))
        test.assertEqual(self.second_event["type"], "completed", self.second_event)
        if self.operation:
            self.check_first(test)

    def check_calls(self, test, records):
        """One ending per call, no effect twice, and every use where it belongs."""
        spent = sum(r["uses"] for r in records if r["type"] == "authorization.checked" and
                    r["outcome"] == "allowed" and r.get("grant") == "box")
        released = [r["call"] for r in records if r["type"] == "grant.usage.released"]
        over = [r["call"] for r in records if r["type"] == "tool.invoked"]
        test.assertEqual(len(set(self.effects)), len(self.effects))
        test.assertEqual(sorted(over), sorted(self.effects))
        test.assertEqual(len(set(released)), len(released))
        test.assertEqual(set(released) & set(over), set())
        test.assertEqual(spent - len(released), len(self.effects), records)
        # What was refused in the outage can be done after it, and not once more.
        test.assertEqual(len(self.effects), USES)

    def check_first(self, test):
        body = self.event["body"]
        codes = [r.get("error", {}).get("code") for _, r in self.first_replies]
        if self.event["type"] == "completed":
            test.assertEqual(codes, [None] * USES)
            test.assertEqual(body["turn"]["status"], "succeeded")
            return
        test.assertTrue(self.hit, body)
        test.assertEqual(body["cause"]["kind"], "audit_unavailable", body)
        test.assertEqual(body["code"], "unavailable")
        # Once an effect was refused, the turn ends so; later calls do nothing (TU-55).
        refused = [c for c in codes if c]
        test.assertEqual(codes, [None] * self.first_effects + refused)
        if refused:
            test.assertEqual(refused[0], "audit_unavailable")
            test.assertEqual(body["turn"]["error"]["code"], "audit_unavailable")
            test.assertEqual(body["turn"]["error"]["retryable"], self.first_effects == 0)
        if body.get("recorded") is False:
            self.check_kept(test)

    def check_kept(self, test):
        """The ending that could not be recorded is among the first records once one can."""
        at = next(i for i, (_, r) in enumerate(self.records)
                  if r["type"] == "operation.ended" and r["operation"] == self.operation)
        number = self.records[at][0]
        if number == 1:  # written whole, and its sync failed: it stands
            test.assertNotRegex(self.log, "cannot append")
            return
        ahead = [r["type"] for n, r in self.records[:at] if n == number]
        test.assertLessEqual(set(ahead), {
            "segment.opened", "turn.ended", "tool.invoked", "kill.ordered",
            "grant.usage.released"}, ahead)


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



def stopped(worker, plan, segment=None, provider=None, **config):
    return Host(worker=worker, provider=provider or serve(lambda p: ok("done")),
                segment=segment, program_path=str(STOPS), env={PLAN: plan},
                tools=[tool("box.put", "write", action="put")],
                grants=[grant("box", ["box"], ["put"], maxUses=USES)],
                **{"killGraceMs": GRACE_MS, **config})


def put(child, n):
    return child.peer.request("tool.invoke", operation=child.operation, id=str(n),
                              tool="box.put", arguments={"path": f"box/{n}"})


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
        effects, answers = [], []

        def work(child, params):
            put(child, 1)
            answers.append(child.peer.receive())  # the reply, or the cancel of the deadline
            child.killed.wait(wire.TIMEOUT)
        # The syncs: admitted, catalogue, then the decision's, which never ends.
        host = self.host(runtime(work), self.stall_from(3),
                         provider=serve(lambda p: effects.append(p) or ok("done")),
                         killGraceMs=500)
        client = host.client()
        started = time.monotonic()
        client.submit(timeoutMs=1000)  # and the kill comes before the sync is given up
        event = client.finish()
        took = time.monotonic() - started
        self.assertEqual(effects, [])
        self.assertEqual(answers[0][:2], [2, "operation.cancel"])
        self.assertTrue(host.kills, "the kill waited for a sync")
        self.assertEqual((event["type"], event["body"]["recorded"]), ("failed", False))
        self.assertEqual(event["body"]["cause"], {"kind": "audit_unavailable"})
        self.assertEqual(event["body"]["turn"]["error"]["code"], "turn_cancelled")
        self.assertGreaterEqual(took, 1 + 0.5)
        # A broker whose sync never ends can still be ended.
        status, log = host.close()
        self.assertEqual(status, 0, log)
        self.assertIn("a sync has not ended for", log)
        self.assertIn("cannot sync the journal at its end", log)

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


AGENT = """import caisson

def run(turn):
    done = 0
    while True:
        try:
            turn.invoke("files.read", {"path": "docs/a.txt"})
        except (caisson.ToolDenied, caisson.ToolFailed) as e:
            return {"done": done, "code": e.code}
        done += 1

caisson.serve(run)
"""
CONFIG = """version: 1
authority: human:operator
limits: { turn_timeout: 120s, max_steps: 16, max_tool_calls: 10000, kill_grace: 200ms }
runtimes:
  - id: agent
    command: [/usr/bin/python3, -B, /app/agent.py]
    app: app
    profile: interpreter
providers:
  - { id: files, builtin: files, root: root }
grants:
  - id: read-docs
    subject: agent:agent
    issuer: human:operator
    namespace: default
    capabilities:
      - resource: { namespace: workspace, path: docs, scope: descendants }
        actions: [read]
"""
# $1 size of the disk, $2 caisson, $3 "none" if there is nothing to verify, in the directory of
# the test
ON_A_SMALL_DISK = """mount -t tmpfs -o size=$1,mode=755 tmpfs state || exit 77
"$2" run -c c.yaml --state "$PWD/state" -o jsonl -m '{}' >out 2>err
status=$?
[ "$3" = none ] || "$2" audit --state "$PWD/state" verify >verified 2>&1 || exit 78
mkdir kept && cp state/runs/*/journal/journal.* kept 2>/dev/null
exit $status
"""


@unittest.skipUnless(CAISSON, "caisson is not built")
@unittest.skipUnless(os.geteuid() == 0, "only root can mount a small disk for a real run")
class SmallDisk(unittest.TestCase):
    """`caisson run` with its state on a disk that is full, or becomes it (D-11, D-17)."""

    def run_on(self, size, record="one"):
        folder = tempfile.TemporaryDirectory(prefix="caisson-outage-")
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)
        for name in ("app", "root/docs", "state"):
            (self.dir / name).mkdir(parents=True)
        shutil.copy(wire.SDK / "caisson.py", self.dir / "app")
        (self.dir / "app" / "agent.py").write_text(AGENT)
        (self.dir / "root" / "docs" / "a.txt").write_text("hi")
        (self.dir / "c.yaml").write_text(CONFIG)
        for path in (self.dir, *self.dir.rglob("*")):
            path.chmod(0o755)
        done = subprocess.run(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", ON_A_SMALL_DISK, "sh",
             size, CAISSON, record], cwd=self.dir, capture_output=True, text=True,
            timeout=wire.TIMEOUT * 5)
        if done.returncode in (1, 77) and "unshare" in done.stderr or "mount" in done.stderr:
            self.skipTest(f"no mount namespace here: {done.stderr.strip()}")
        if done.returncode == 78:
            self.fail((self.dir / "verified").read_text())
        return done.returncode, wire.said((self.dir / "err").read_text())

    def test_without_room_for_a_record_nothing_starts(self):  # TU-72
        status, err = self.run_on("2m")
        self.assertEqual(status, 125, err)
        self.assertRegex(err, r"\A[^\n]*--state: [^\n]*No space left on device[^\n]*\n\Z")
        self.assertEqual((self.dir / "out").read_text(), "")

    def test_without_room_for_an_index_nothing_starts_and_nobody_waits_for_it(self):
        status, err = self.run_on("16k", record="none")
        self.assertEqual(status, 125, err)
        self.assertRegex(err.splitlines()[-1], r"caissond: error: the ledger cannot begin: .*"
                                               r"Nothing starts without a record\Z")
        self.assertEqual((self.dir / "out").read_text(), "")

    def test_a_disk_that_becomes_full_refuses_the_effect_and_ends_on_record(self):
        status, err = self.run_on("6m")
        event = json.loads((self.dir / "out").read_text().splitlines()[-1])
        body = event["failed"]
        self.assertEqual(status, 1, err)
        self.assertEqual(body["cause"], {"kind": "audit_unavailable"})
        self.assertNotIn("recorded", body)  # the reserve is for that
        self.assertEqual(body["turn"]["error"]["code"], "audit_unavailable")
        self.assertIn("No space left on device", err)
        self.assertIn("nothing new starts until it can", err)
        records = [r for _, r in walk(self.dir / "kept")]
        allowed = [r["call"] for r in records if r["type"] == "authorization.checked" and
                   "call" in r]
        over = [r["call"] for r in records if r["type"] == "tool.invoked"]
        self.assertGreater(len(allowed), 1000)
        self.assertEqual(sorted(allowed), sorted(over))
        for kind in ("turn.ended", "operation.ended"):
            self.assertEqual(len([r for r in records if r["type"] == kind]), 1, kind)


@unittest.skipUnless(STOPS.exists() and CAISSON, "build/stops is not built (make stops)")
class PowerLoss(unittest.TestCase):
    """Every prefix of a journal is one that a power loss leaves (D-10, D-11)."""

    def cuts(self, segments):
        """(how many whole segments, bytes of the next one)"""
        found = set()
        for i, data in enumerate(segments):
            at = 0
            while at + 36 <= len(data):
                found |= {(i, cut) for cut in (at - 1, at, at + 1) if 0 <= cut <= len(data)}
                at += 4 + int.from_bytes(data[at:at + 4], "big")
            found.add((i, len(data)))
        chosen = random.Random(50)
        for _ in range(50):
            i = chosen.randrange(len(segments))
            found.add((i, chosen.randrange(len(segments[i]) + 1)))
        return sorted(found)

    def take_over(self, segments, cut):
        """A ledger reads what is left, a broker goes on, both end; returns what is wrong."""
        whole, n = cut
        with contextlib.ExitStack() as stack:
            state = stack.enter_context(tempfile.TemporaryDirectory(prefix="caisson-outage-"))
            run = pathlib.Path(state, "runs", "20260101T000000-000000")
            (run / "journal").mkdir(parents=True)
            (run / "index").mkdir()
            for i, data in enumerate([*segments[:whole], segments[whole][:n]], 1):
                (run / "journal" / f"journal.{i:08d}").write_bytes(data)

            def segment(number):
                return os.open(run / "journal" / f"journal.{number:08d}",
                               os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL)
            ledger = test_audit.Ledger(run)
            stack.callback(ledger.close)
            with ledger.link(test_audit.FROM_BROKER) as link:
                known = link.call("state.load", cursor=0)
            with Host(state=known, segment=segment) as host:
                if not host.ready.wait(wire.TIMEOUT):
                    return f"{cut}: no broker takes over: {host.log_text()}"
            ledger.tell(test_audit.SHUTDOWN)
            if ledger.wait() != 0:
                return f"{cut}: the ledger failed"
            done = subprocess.run([CAISSON, "audit", "--state", state, "verify"],
                                  capture_output=True, text=True, timeout=wire.TIMEOUT)
            if done.returncode != 0:
                return f"{cut}: {done.stdout}{done.stderr}"
            records = [r for _, r in walk(run / "journal")]
            accepted = [r["operation"] for r in records if r["type"] == "operation.accepted"]
            for op in accepted:
                ends = [r for r in records if r["type"] == "operation.ended" and
                        r["operation"] == op]
                if len(ends) != 1:
                    return f"{cut}: {op} has {len(ends)} endings"
            decided = [r["call"] for r in records if r["type"] == "authorization.checked" and
                       "call" in r]
            over = [r["call"] for r in records if r["type"] in ("tool.invoked",
                                                                "grant.usage.released")]
            if not set(decided) <= set(over) or len(set(over)) != len(over):
                return f"{cut}: calls {decided}, ended {over}"
        return None

    def test_every_prefix_is_taken_over(self):
        # Two segments, the first with a torn tail.
        story = Story("write:7=short")
        self.addCleanup(story.host.close)
        folder = pathlib.Path(story.folder)
        client = story.host.client()
        for _ in range(2):
            client.finish(story.submit_again(client))
        segments = [p.read_bytes() for p in sorted(folder.glob("journal.*"))]
        self.assertEqual(len(segments), 2)
        cuts = self.cuts(segments)
        self.assertGreater(len(cuts), 80)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            wrong = [w for w in pool.map(lambda cut: self.take_over(segments, cut), cuts) if w]
        self.assertEqual(wrong, [])


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
