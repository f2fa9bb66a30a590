"""A daemon whose configuration changes under it: its file as data, and agents on a leash.

Each turn reads commands from a FIFO of its own, which the test holds: it invokes a tool and
says what came of it, or ends.
"""

import json
import os
import re
import shutil
import signal
import socket

import real
import wire
from daemon_lab import Case, Daemon, ending, submit
from real import wait_for

AGENT = """import json
import caisson


def run(turn):
    with open("/mail/" + turn.message["box"]) as box:
        print("tools", json.dumps(sorted(turn.tools)), flush=True)
        for line in box:
            do = json.loads(line)
            if "end" in do:
                return do["end"]
            try:
                print("ok", json.dumps(turn.invoke(*do["call"])), flush=True)
            except caisson.Refused as e:
                print("no", e.code, flush=True)
    return "the test is gone"


caisson.serve(run)
"""


def grant(path="docs", subject="agent:a", actions=("read", "list"), **more):
    return {"id": "g-" + path, "subject": subject, "issuer": "human:operator",
            "namespace": "default",
            "capabilities": [{"resource": {"namespace": "workspace", "path": path,
                                           "scope": "descendants"},
                              "actions": list(actions)}], **more}


class Turn:
    """One turn on its leash."""

    def __init__(self, case, daemon, runtime="a", **more):
        self.case = case
        case.boxes += 1
        name = f"box{case.boxes}"
        path = case.mail / name
        os.mkfifo(path, 0o644)
        os.chmod(path, 0o644)
        self.peer = daemon.client()
        self.id = submit(self.peer, {"box": name}, runtime, **more)
        self.text = b""
        # Opening waits for the agent, who may never come: not with us inside open().
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self.box = os.fdopen(fd, "w")
        case.addCleanup(self.box.close)
        self.tools = json.loads(self.said()[len("tools "):])

    def said(self):
        """The next line of the agent's."""
        while b"\n" not in self.text:
            _, event = self.peer.expect("operation.event")
            assert event["type"] not in ("completed", "failed"), event
            if event["type"] == "output":
                assert event["stream"] == "stdout", event
                self.text += event["data"]
        line, _, self.text = self.text.partition(b"\n")
        return line.decode()

    def write(self, **do):
        print(json.dumps(do), file=self.box, flush=True)

    def call(self, tool, path):
        self.write(call=[tool, {"path": path}])
        return self.said().partition(" ")[::2]

    def read(self, path="docs/a.txt"):
        """True, or the code of the refusal."""
        how, what = self.call("files.read", path)
        return True if how == "ok" else what

    def end(self, value="done"):
        self.write(end=value)
        self.case.assertEqual(ending(self.peer)["body"]["turn"]["output"], value)


class Case(Case):  # pylint: disable=function-redefined
    def setUp(self):
        super().setUp()
        self.mail, self.boxes = self.dir / "mail", 0
        self.mail.mkdir()
        self.mail.chmod(0o755)
        app = self.dir / "app"
        (app / "agent.py").write_text(AGENT)
        work = self.dir / "work" / "docs"
        work.mkdir(parents=True)
        for folder in ("docs", "more"):
            (self.dir / "work" / folder).mkdir(exist_ok=True)
            (self.dir / "work" / folder / "a.txt").write_text("text of " + folder)
        for path in (self.dir / "work").rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        (self.dir / "work").chmod(0o755)
        if real.IS_ROOT:  # what cannot be mapped runs as the owner, who may not be root
            for path in [self.dir / "work", *(self.dir / "work").rglob("*")]:
                shutil.chown(path, "nobody")
        self.data = self.start_with()
        self.write()

    def start_with(self):
        app = str(self.dir / "app")
        return {
            "version": 1,
            "limits": {"kill_grace": "100ms", "shutdown_grace": "20s", "max_tool_calls": 1000},
            "runtimes": [{"id": "a", "command": ["python3", "/app/agent.py"], "app": app,
                          "profile": "interpreter",
                          "mounts": [{"source": str(self.mail), "target": "/mail"}]}],
            "providers": [{"id": "files", "builtin": "files",
                           "root": str(self.dir / "work")}],
            "grants": [grant()],
        }

    def write(self, text=None):
        """The file, as `data` has it (JSON is YAML, but for durations), in one piece."""
        new = self.dir / "new.yaml"
        if text is None:
            text = re.sub(r'"([0-9]+m?s)"', r"\1", json.dumps(self.data, indent=1))
        new.write_text(text)
        os.replace(new, self.config)

    def hang_up(self, d):
        """One SIGHUP, and the line that says what became of it."""
        words = ("in force from now on", "nothing has changed", "nothing else is in it")
        before = len([line for line in d.stderr().splitlines()
                      if any(w in line for w in words)])

        def look():
            lines = [line for line in d.stderr().splitlines() if any(w in line for w in words)]
            return lines[before:]
        d.process.send_signal(signal.SIGHUP)
        return wait_for(look, "what became of the reload")[-1]

    def reload(self, d):
        """`data` is in force; the line that says so."""
        self.write()
        line = self.hang_up(d)
        self.assertIn("in force from now on", line)
        return line

    def refused(self, d, *texts):
        """What is in the file changes nothing; the line."""
        line = self.hang_up(d)
        self.assertIn("nothing has changed", line)
        for text in texts:
            self.assertIn(text, line)
        return line

    def notifier(self):
        """A socket that hears sd_notify, and its environment."""
        path = str(self.dir / "notify.sock")
        s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(s.close)
        s.bind(path)
        s.settimeout(wire.TIMEOUT)
        return s, {"NOTIFY_SOCKET": path}


__all__ = ["Case", "Daemon", "Turn", "grant"]
