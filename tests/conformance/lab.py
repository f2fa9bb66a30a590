"""What the conformance rows are made of: a daemon with their world, turns, attempts and grades.

A row is a function that makes attempts; Row.grade() says what they amount to, as the source of
the matrix grades: what a row is about counts only if its controls did what they had to.
"""

import base64
import collections
import contextlib
import json
import os
import pathlib
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))

import real  # noqa: E402
import wire  # noqa: E402

PASS, FAIL, VOID = "pass", "fail", "void"
NOT_EXERCISED, NOT_IMPLEMENTED = "not exercised", "not implemented"
NOT_APPLICABLE, OUT_OF_SCOPE = "not applicable", "out of scope"
MODES = ("immediate", "next-turn")  # of revocation (D-7)

ATTACK, PROBE, CONTROL = "attack", "probe", "control"
# `got` is None for an attempt that was never made.
Attempt = collections.namedtuple("Attempt", "role what expected got")


class NotThere(Exception):
    """The row's feature is missing; its text says which."""


def told(result):
    """What a runtime was told of a call, in one line: "succeeded", "denied CODE"."""
    if result is None:
        return None
    return result[0] if result[0] == "succeeded" else f"{result[0]} {result[1]}"


class Row:
    """One row of the matrix; `run(lab)` yields attempts."""

    def __init__(self, name, condition, run, modes=False, grade=None, why=""):
        self.name, self.condition, self.run = name, condition, run
        self.modes = modes  # whether what is expected depends on the mode of revocation
        self.fixed, self.why = grade, why

    def key(self, mode):
        return f"{self.name} / {self.condition}" + (f" / {mode}" if self.modes else "")

    def grade(self, lab):
        """(grade, why, [Attempt])"""
        if self.fixed:
            return self.fixed, self.why, []
        try:
            attempts = list(self.run(lab))
        except NotThere as e:
            return NOT_IMPLEMENTED, str(e), []
        return (*grade(attempts), attempts)


def grade(attempts):
    """(grade, why) of attempts alone."""
    wrong = [a for a in attempts if a.got is not None and a.got != a.expected]
    void = [a for a in wrong if a.role == CONTROL] or \
        [a for a in attempts if a.got is None and a.role == CONTROL]
    if void or not any(a.role == CONTROL for a in attempts):
        return VOID, "; ".join(say(a) for a in void) or "there is no control"
    if wrong:
        return FAIL, "; ".join(map(say, wrong))
    missed = [a for a in attempts if a.got is None]
    if missed:
        return NOT_EXERCISED, "; ".join(map(say, missed))
    if not any(a.role != CONTROL for a in attempts):
        return NOT_EXERCISED, "there are only controls"
    return PASS, ""


def say(attempt):
    return f"{attempt.role} {attempt.what}: {attempt.got}, not {attempt.expected}"


# ---- the world ----------------------------------------------------------------------------

def call(tool, step=None, **arguments):
    return {"do": "call", "tool": tool, "arguments": arguments,
            **({} if step is None else {"step": step})}


def capability(namespace, path, actions, scope="descendants", owner=None):
    return {"resource": {"namespace": namespace, "path": path, "scope": scope,
                         **({"owner": owner} if owner else {})}, "actions": actions}


def tool(name, action, effect="read", namespace="workspace", path="{path}", provider="rows",
         arguments=("path",), open_ended=False, ceiling=None):
    requires = {"action": action, "resource": {"namespace": namespace, "path": path}}
    if ceiling:
        requires["ceiling"] = ceiling
    return {"name": name, "provider": provider, "namespace": name.partition(".")[0],
            "effect": effect, "requires": requires,
            "input": {"type": "object", "additionalProperties": open_ended,
                      "properties": {a: {"type": "string"} for a in arguments},
                      "required": list(arguments)}}


FILES = [tool("files.read", "read", provider="files"),
         tool("files.write", "write", "write", provider="files", arguments=("path", "text"))]
TEXT = ("path", "text")
ROWS = [tool("lab.read", "read", open_ended=True),
        tool("lab.append", "append", "write", arguments=TEXT),
        tool("lab.misdeliver", "read"),
        tool("lab.escape", "read", path="{path}", ceiling="docs"),
        tool("snap.create", "snapshot", "write", namespace="snapshots", path="", arguments=()),
        tool("snap.list", "list", namespace="snapshots", path="", arguments=()),
        tool("snap.restore", "restore", "write"),
        tool("ext.fetch", "fetch", namespace="external"),
        tool("vault.read", "read", namespace="vault"),
        tool("vault.write", "write", "write", namespace="vault", arguments=TEXT),
        tool("off.read", "read")]
TOOLS = FILES + ROWS
ENABLED = ["files", "lab", "snap", "ext", "vault", "sharedos"]
CEILING = [capability("vault", "frozen", ["*"]), capability("vault", ".", ["write"])]

OWNER = "human:owner"  # the authority; its root grant is what every agent's reading derives from
PAST = "2001-01-01T00:00:00Z"


class World:
    """Grants of the agents of all rows: each row has an agent of its own."""

    def __init__(self):
        self.agents, self.grants, self.marks = [], [], {}
        self.token = secrets.token_hex(8)
        self.root = self.grant("root", OWNER, [capability("workspace", "docs", ["read", "list"])],
                               delegationDepth=1)

    def grant(self, name, subject, capabilities, issuer=OWNER, parent=None, **constraints):
        """Adds a grant and returns its id."""
        self.marks[name] = f"grant-mark-{self.token}-{name}"
        self.grants.append({
            "id": self.marks[name], "subject": subject, "issuer": issuer, "namespace": "default",
            "issuedAt": PAST, "capabilities": capabilities,
            **({"parent": parent} if parent else {}),
            **({"constraints": constraints} if constraints else {})})
        return self.marks[name]

    def agent(self, name):
        """An agent that reads over the workspace, and changes a scratch folder."""
        self.agents.append(name)
        self.grant(f"{name}-read", f"agent:{name}",
                   [capability("workspace", "docs", ["read", "list"])], OWNER, self.root)
        self.grant(f"{name}-scratch", f"agent:{name}",
                   [capability("workspace", "scratch", ["write"])])
        return f"agent:{name}"


class Lab:
    """One daemon in one mode of revocation, with a client who is its operator."""

    def __init__(self, mode, world):
        self.mode, self.world = mode, world
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="caisson-conformance-")).resolve()
        self.dir.chmod(0o755)
        self.state, self.socket = self.dir / "state", self.dir / "d.sock"
        self.errors = tempfile.TemporaryFile()
        self.process = None

    def __enter__(self):
        try:
            self.lay_out()
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc):
        self.close()

    def lay_out(self):
        app, root, gate = self.dir / "app", self.dir / "root", self.dir / "gate"
        programs = app / "a/b"  # as deep as where they come from
        for folder in (programs, gate, root / "docs", root / "scratch", root / "private"):
            folder.mkdir(parents=True)
        for source in (HERE / "agent.py", HERE / "provider.py", wire.SDK / "caisson.py",
                       HERE.parent / "integration" / "wire.py"):
            shutil.copyfile(source, programs / source.name)
        os.mkfifo(gate / "go")
        for folder in ("docs", "private"):
            (root / folder / "a.txt").write_text(f"text of {folder}/a.txt")
        if os.geteuid() == 0:  # whom the chambers' files belong to is nobody's root
            for path in (root, *root.rglob("*")):
                os.chown(path, 1000, 1000)
        for path in (gate, gate / "go"):
            path.chmod(0o777)
        self.config = self.dir / "c.yaml"
        self.write_config(TOOLS)

    def write_config(self, tools):
        mounts = [{"source": "gate", "target": "/gate", "writable": True}]
        python = ["/usr/bin/python3", "-B"]
        # JSON is YAML, but for what must not be a text there.
        self.config.write_text(re.sub(r'"([0-9]+m?s|[0-9]{4}-[0-9T:-]+Z)"', r"\1", json.dumps({
            "version": 1, "authority": "human:owner", "owner": "human:owner",
            "revocation": self.mode, "tool_namespaces": ENABLED, "ceiling": CEILING,
            "limits": {"turn_timeout": "60s", "kill_grace": "100ms", "max_tool_calls": 100,
                       "max_steps": 100},
            "runtimes": [{"id": name, "command": [*python, "/app/a/b/agent.py"], "app": "app",
                          "profile": "interpreter", "mounts": mounts}
                         for name in self.world.agents],
            "providers": [{"id": "files", "builtin": "files", "root": "root"},
                          {"id": "rows", "app": "app",
                           "command": [*python, "/app/a/b/provider.py"]}],
            "tools": tools, "grants": self.world.grants})))

    def start(self):
        readable, writable = os.pipe()
        self.process = subprocess.Popen(
            [wire.program("caissond"), "-c", self.config, "-f", "--state", self.state,
             "--socket", self.socket, "-n", str(writable)], pass_fds=[writable],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.errors,
            start_new_session=True, env=real.environment())
        os.close(writable)
        with open(readable, "rb") as f:
            watchdog = threading.Timer(wire.TIMEOUT, self.process.kill)
            watchdog.start()
            ready = f.read() == b"\n"
            watchdog.cancel()
        if not ready:
            raise AssertionError(self.stderr())
        self.client = self.connect()

    def connect(self):
        import daemon_lab
        peer = daemon_lab.connect(self.socket)
        peer.hello("client")
        return peer

    def stderr(self):
        # Its end is where the daemon writes: nothing here moves it.
        return wire.said(os.pread(self.errors.fileno(), 1 << 20, 0).decode())

    def close(self):
        if self.process is not None:
            with contextlib.suppress(AttributeError):
                self.client.close()
            self.process.terminate()
            try:
                self.process.wait(wire.TIMEOUT)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.errors.close()
        for segment in self.dir.glob("state/*/*/journal/journal.*"):
            subprocess.run(["chattr", "-a", segment], check=False, capture_output=True)
        shutil.rmtree(self.dir, ignore_errors=True)

    def reload(self, tools):
        """Other tools from now on."""
        def said():
            return self.stderr().count("in force from now on")
        before = said()
        self.write_config(tools)
        self.process.send_signal(signal.SIGHUP)
        real.wait_for(lambda: said() > before, "the new configuration")

    # -- what rows do

    def mark(self, name):
        """The id of a grant."""
        return self.world.marks[name]

    def turn(self, agent, *words, at_gate=None, message=None, **limits):
        """One turn of an agent that does `words`; `at_gate` is called while it waits."""
        return Turn(self, agent, words, at_gate, message or {}, limits)

    def revoke(self, name):
        return self.client_of_its_own("grant.revoke", id=self.mark(name))

    def client_of_its_own(self, method, **params):
        with self.connect() as peer:
            return peer.call(method, **params)

    def text(self, path):
        """What a file of the root holds, None without one."""
        try:
            return (self.dir / "root" / path).read_text()
        except FileNotFoundError:
            return None

    def records(self, operation):
        result = subprocess.run(
            [wire.program("caisson"), "audit", "--state", self.state, "--run", "default", "-o",
             "jsonl", "show"], capture_output=True, text=True, stdin=subprocess.DEVNULL,
            timeout=wire.TIMEOUT, check=False, env=real.environment())
        assert result.returncode == 0, result.stderr
        return [r for r in map(json.loads, result.stdout.splitlines())
                if r.get("operation") == operation]


class Turn:
    """What became of one: `told` of each word, and its ending."""

    def __init__(self, lab, agent, words, at_gate, message, limits):
        self.lab, self.lines, client = lab, [], lab.client
        self.words = [w for w in words if w["do"] in ("call", "forge", "walk")]
        self.operation = client.call(
            "operation.submit", kind="turn", runtime=agent,
            message={"do": list(words), **message}, **limits)["operation"]
        text = b""
        while True:
            _, event = client.expect("operation.event")
            if event["type"] == "output" and event["stream"] == "stdout":
                text += bytes(event["data"])
                *whole, text = text.split(b"\n")
                for line in map(json.loads, whole):
                    if line != ["gate"]:
                        self.lines.append(line)
                        continue
                    at_gate()
                    with open(lab.dir / "gate/go", "w", encoding="utf-8"):
                        pass
            elif event["type"] in ("completed", "failed"):
                break
        self.event, body = event, event["body"]
        self.result = body.get("turn") or {}

    def __getitem__(self, n):
        """What the runtime was told of its nth call, in one line."""
        return told(self.lines[n]) if n < len(self.lines) else None

    def output(self, n):
        return self.lines[n][1] if n < len(self.lines) else None

    @property
    def ending(self):
        """The turn's status and code, or its operation's."""
        if self.result:
            error = self.result.get("error") or self.result.get("escalation") or {}
            return " ".join(filter(None, [self.result["status"], error.get("code")]))
        return f"{self.event['type']} {json.dumps(self.event['body'], sort_keys=True)}"

    def records(self, type=None):
        return [r for r in self.lab.records(self.operation) if type in (None, r["type"])]


def run(rows, world):
    """[(row, mode, grade, why, attempts)] of all rows, in their order, mode by mode."""
    results = {}
    for mode in MODES:
        with Lab(mode, world) as lab:
            for row in rows:
                if row.modes or mode == MODES[0]:
                    results[row, mode] = row.grade(lab)
    return [(row, mode, *results[row, mode]) for row in rows for mode in MODES
            if (row, mode) in results]
