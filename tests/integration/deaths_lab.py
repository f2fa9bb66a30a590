"""What the death tests share: a configuration, runs that die, and the checks after each.

A Lab is a directory with a runtime (deaths_agent.py), a counting provider
(deaths_provider.py), a state directory and a configuration.  Lab.run() is one `caisson` under
deaths_reaper.py; a Run that is over is checked by Run.check(): one ending, a valid record,
no effect without a decision on record, nothing left over.
"""

import contextlib
import fcntl
import glob
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

import deaths_reaper
import wire

HERE = pathlib.Path(__file__).resolve().parent
STOPS = wire.BUILD / "stops"
LEFT_SECONDS = 15  # in which everything must be gone after its client

CONFIG = """version: 1
authority: human:op
limits: {{ turn_timeout: 40s, kill_grace: 200ms, max_tool_calls: 100, max_steps: 100 }}
runtimes:
  - id: agent
    command: [/usr/bin/python3, -B, /app/a/b/deaths_agent.py, {way}]
    app: app
    profile: interpreter
    {limits}
    mounts: [{{ source: effects, target: /effects, writable: true }}]
providers:
  - id: count
    command: [/usr/bin/python3, -B, /app/a/b/deaths_provider.py, {dies}, "{at}"]
    app: app
    mounts: [{{ source: effects, target: /effects, writable: true }}]
tools:
  - name: count.add
    provider: count
    namespace: count
    effect: {effect}
    input: {{ type: object, properties: {{ name: {{ type: string }} }}, required: [name] }}
    requires: {{ action: add, resource: {{ namespace: count, path: "{{name}}" }} }}
grants:
  - id: count
    subject: agent:agent
    issuer: human:op
    namespace: default
    capabilities: [{{ resource: {{ namespace: count, path: ., scope: descendants }}, actions: [add] }}]
    {constraints}
"""


def copy_programs(app):
    """Runtime and provider with what they import, in a/b of a directory to be shown at /app."""
    (app / "a" / "b").mkdir(parents=True)
    for source in (HERE / "deaths_agent.py", HERE / "deaths_provider.py", HERE / "wire.py",
                   wire.SDK / "caisson.py"):
        shutil.copyfile(source, app / "a" / "b" / source.name)


class Lab:
    """One directory, for one run."""

    def __init__(self, way="calls", dies="never", at=1, effect="write", bounded=True, limits=""):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="caisson-deaths-"))
        os.chmod(self.path, 0o755)
        self.state, self.effects = self.path / "state", self.path / "effects"
        self.effects.mkdir()
        os.chmod(self.effects, 0o777)
        copy_programs(self.path / "app")
        for name in ("at", "go"):
            os.mkfifo(self.effects / name)
            os.chmod(self.effects / name, 0o666)
        self.config = self.path / "config.yaml"
        self.config.write_text(CONFIG.format(
            way=way, limits=limits, dies=dies, at=at, effect=effect,
            constraints="constraints: { maxUses: 1000 }" if bounded else ""))
        self.runs = []

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for run in self.runs:
            run.end()
        shutil.rmtree(self.path, ignore_errors=True)

    def run(self, message=None, stop=None, output="jsonl", **more):
        return Run(self, ["run", "-c", str(self.config), "--state", str(self.state), "-o", output,
                          "-m", json.dumps(message or {})], stop, **more)

    def exec(self, *command, stop=None, **more):
        return Run(self, ["exec", "--state", str(self.state), "-o", "jsonl", "--", *command],
                   stop, **more)

    def done(self):
        """Ids of the calls whose effect happened, in order."""
        log = self.effects / "log"
        return log.read_text().split() if log.exists() else []

    def audit(self, *words):
        return subprocess.run([wire.BUILD / "bin" / "caisson", "audit", *words,
                               "--state", str(self.state)], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=wire.TIMEOUT, check=False)

    def records(self):
        result = self.audit("show", "-o", "jsonl")
        assert result.returncode == 0, result.stderr
        return [json.loads(line) for line in result.stdout.splitlines()]

    def held(self):
        """Waits until the provider holds a call."""
        with open(self.effects / "at", encoding="utf-8") as pipe:
            assert pipe.read(1) == "x"

    def let_go(self):
        with contextlib.suppress(OSError):
            os.close(os.open(self.effects / "go", os.O_WRONLY | os.O_NONBLOCK))


class Run:
    """One caisson, and what it left behind."""

    def __init__(self, lab, words, stop=None, stdin=subprocess.DEVNULL, stdout=None):
        self.lab, self.stop = lab, stop
        lab.runs.append(self)
        env = {k: v for k, v in os.environ.items() if not k.startswith("CAISSON_")}
        if stop is not None:
            env["CAISSON_STOP"] = stop
        self.report = lab.path / f"report-{len(lab.runs)}"
        self.out, self.err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [sys.executable, "-B", HERE / "deaths_reaper.py", self.report, str(LEFT_SECONDS),
             (wire.BUILD if stop is None else STOPS) / "bin" / "caisson", *words],
            env=env, stdin=stdin, stdout=stdout or self.out, stderr=self.err)

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait()
        self.out.close()
        self.err.close()

    def wait(self, printed=None):
        """Until everything of it is gone, or the reaper's patience is.  `printed` is what it
        wrote to a standard output of the test's."""
        self.process.wait(90)
        told = json.loads(self.report.read_text())
        self.status, self.left = told["status"], told["left"]
        self.out.seek(0)
        printed = self.out.read() if printed is None else printed
        self.events = [json.loads(line) for line in printed.decode().splitlines()]
        self.err.seek(0)
        self.stderr = self.err.read().decode(errors="replace")
        return self

    # ---- its processes, while it runs --------------------------------------------------

    def pids(self):
        return deaths_reaper.children(self.process.pid)

    def pid(self, name):
        """The one process whose command line has `name` in it."""
        found = [p for p, words in self.pids().items() if name in words]
        assert len(found) == 1, (name, self.pids())
        return found[0]

    def supervisor(self):
        return self.pid("caissond")

    def kill(self, name):
        pid = self.pid(name)
        fd = os.pidfd_open(pid)
        os.kill(pid, signal.SIGKILL)
        return fd

    # ---- after it ----------------------------------------------------------------------

    def ending(self):
        """(cause, type) of the one terminal event; None if there was none."""
        last = [e for e in self.events if e["type"] in ("completed", "failed")]
        assert len(last) <= 1 and (not last or last[0] is self.events[-1]), self.events
        if not last:
            return None
        body = last[0][last[0]["type"]]
        if last[0]["type"] == "failed":
            return body["cause"]["kind"]
        return body["turn"]["status"] if "turn" in body else "completed"

    def output(self):
        return self.events[-1]["completed"]["turn"]["output"]

    def say(self):
        return (f"stop {self.stop}, status {self.status}, {self.ending()}\n"
                f"{self.stderr}{self.events[-3:]}")

    def check(self, test, ended=True):
        """What holds whatever died: `ended`: each operation has its ending on record."""
        test.assertEqual(self.left, [], self.say())
        stop = (self.stop or "").removeprefix("again:")
        if stop and ":" not in stop:
            test.assertIn(f"stopped at {stop}\n", self.stderr, "it missed its point")
        self.check_sequence(test)
        self.check_left_over(test)
        if not glob.glob(f"{self.lab.state}/runs/*"):
            return []
        verify = self.lab.audit("verify")
        test.assertEqual(verify.returncode, 0, verify.stdout + verify.stderr + self.say())
        records = self.lab.records()
        self.check_records(test, records, ended)
        return records

    def check_sequence(self, test):
        """Numbers without a hole, but where a gap event names what is lost."""
        at = 0
        for e in self.events:
            if e["type"] == "gap":
                test.assertEqual(e["gap"]["from"], at + 1, self.events)
                # a number of its own, or the last of those that it stands for
                test.assertIn(e["sequence"] - e["gap"]["to"], (0, 1), self.events)
            else:
                test.assertEqual(e["sequence"], at + 1, self.events)
            at = e["sequence"]
        test.assertLessEqual(sum(e["type"] == "accepted" for e in self.events), 1)

    def check_left_over(self, test):
        mounts = pathlib.Path("/proc/self/mountinfo").read_text()
        test.assertNotIn(self.lab.path.name, mounts)
        for lock in glob.glob(f"{self.lab.state}/runs/*/lock"):
            with open(lock, encoding="utf-8") as f:
                fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)  # nobody holds it
        # uids of chambers are locks, and no lock outlives whoever took it
        uids = {os.stat(path).st_ino for path in glob.glob("/run/caisson/uid/*")}
        for line in pathlib.Path("/proc/locks").read_text().splitlines():
            words = line.replace("->", "").split()
            pid, inode = int(words[4]), int(words[5].split(":")[2])
            if inode in uids and pid > 0:
                taken = line.split(":", 1)[1]
                test.assertTrue(os.path.exists(f"/proc/{pid}") or taken not in self.locks(), line)

    @staticmethod
    def locks():
        return pathlib.Path("/proc/locks").read_text()

    def check_records(self, test, records, ended):
        accepted = [r["operation"] for r in records if r["type"] == "operation.accepted"]
        endings = [r["operation"] for r in records if r["type"] == "operation.ended"]
        turns = [r["operation"] for r in records if r["type"] == "turn.ended"]
        test.assertLessEqual(len(accepted), 1)
        test.assertLessEqual(len(endings), len(accepted), endings)
        test.assertLessEqual(len(turns), len(endings) if ended else 1, turns)
        allowed = [r["call"] for r in records if r["type"] == "authorization.checked" and
                   r.get("outcome") == "allowed" and "call" in r]
        over = [r["call"] for r in records if r["type"] == "tool.invoked" and "call" in r]
        test.assertEqual(len(allowed), len(set(allowed)))
        test.assertEqual(len(over), len(set(over)), "a call ended twice")
        done = self.lab.done()
        test.assertEqual(len(done), len(set(done)), "an effect happened twice")
        test.assertLessEqual(set(done), set(allowed), "an effect without its decision")
        if ended:
            test.assertEqual(endings, accepted, self.say())
            test.assertEqual(set(over), set(allowed), "a call without its one ending")
        if self.ending() is not None and ended and accepted:
            cause = [r["cause"] for r in records if r["type"] == "operation.ended"][0]
            if self.events[-1]["type"] == "failed" and cause not in ("exited", "signaled"):
                test.assertEqual(cause, self.ending())
