"""A broker whose journal fails by a plan, and what is asked of it whatever happened."""

import hashlib
import os
import pathlib
import re
import select
import shutil
import subprocess
import tempfile
import time

import wire
from broker_host import DONE, Host, grant, ok, runtime, serve, tool

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


def stopped(worker, plan, segment=None, provider=None, **config):
    return Host(worker=worker, provider=provider or serve(lambda p: ok("done")),
                segment=segment, program_path=str(STOPS), env={PLAN: plan},
                tools=[tool("box.put", "write", action="put")],
                grants=[grant("box", ["box"], ["put"], maxUses=USES)],
                **{"killGraceMs": GRACE_MS, **config})


def put(child, n):
    return child.peer.request("tool.invoke", operation=child.operation, id=str(n),
                              tool="box.put", arguments={"path": f"box/{n}"})
