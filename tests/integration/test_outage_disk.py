"""A disk without room for a record (TU-72), and one that lost what was not synced (D-10)."""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import shutil
import subprocess
import tempfile
import unittest

import test_audit
import wire
from broker_host import Host
from outage_lab import CAISSON, STOPS, Story, walk

TIMEOUT = 300
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


if __name__ == "__main__":
    unittest.main()
