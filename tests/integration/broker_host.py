"""The real broker under a scripted supervisor: the test plays every other process.

Host starts caisson-broker with a configuration, gives it a journal and a ledger's answer,
and serves its control link on a thread: each CONTROL_SPAWN becomes a call of the test's
`worker` or `provider` function on a thread of its own, with the other end of the link.
A child ends when its function returns or when the broker orders a kill, and its exit is
reported as the supervisor would.
"""

import array
import fcntl
import itertools
import os
import pathlib
import queue
import select
import socket
import struct
import subprocess
import tempfile
import threading
import time

import wire
from wire import (Closed, Peer, TIMEOUT, frame, keep_low_descriptors, program, receive_packet,
                  unpack)

keep_low_descriptors()

FORMAT = "=IIQIiIIIIIIQQQIiIIIIIHHQQQQQ"
FIELDS = ("verb kind session index error cause layer flags uid gid pid generation count workspace "
          "x_kind x_status x_core x_cause x_limit x_syscall x_arch x_told x_meter "
          "x_cpu x_peak x_read x_written x_processes").split()
SEGMENT, LEDGER, CLIENT, LINK, STARTED, REFUSED, EXIT, PING, SHUTDOWN, NO_SEGMENT = range(1, 11)
CONFIG = 12
MADE, GONE, FOUND = 13, 14, 15  # workspaces
READY, PONG, SPAWN, KILL, SIGNAL, MORE, SETTLED = range(32, 39)
CONFIG_TAKEN, CONFIG_OVER, WORKSPACE, WORKSPACE_DROP = range(42, 46)
TURN, COMMAND, PROVIDER, FILES = 1, 2, 3, 4
FROM_SOCKET, FROM_GATEWAY = 2, 8  # flags of CONTROL_CLIENT
EXITED, SIGNALED = 1, 2


def memory_folder():
    """Where journals are made, None for the usual place.  A disk that others write to may take
    more than a second for a sync, and then the broker has an outage that no test planned."""
    folder = "/dev/shm"
    try:
        fs = os.statvfs(folder)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) and fs.f_bavail * fs.f_frsize >= 1 << 28 else None


JOURNALS = memory_folder()


def control(**values):
    return struct.pack(FORMAT, *[values.get(f, 0) for f in FIELDS])


def tool(name, effect="read", idempotent=False, action="read", path="{path}", provider=0,
         properties=None):
    properties = properties or {"path": {"type": "string"}}
    return {"name": name, "description": "", "namespace": name.split(".")[0],
            "provider": provider, "effect": effect, "idempotent": idempotent,
            "input": {"type": "object", "properties": properties, "required": list(properties)},
            "action": action, "resource": "workspace", "path": path}


def grant(id, path, actions, **members):
    return ({"id": id, "subject": "agent:test", "issuer": "human:op", "namespace": "default",
             "issuedAt": 0, **members},
            [{"namespace": "workspace", "path": path, "scope": "descendants",
              "actions": actions}])


READ, WRITE = tool("files.read"), tool("files.write", "write", action="write")
DOCS = grant("g-docs", ["docs"], ["read"])

INVOKE = ({"id": "run", "subject": "agent:test", "issuer": "human:op", "namespace": "default",
           "issuedAt": 0},
          [{"namespace": "sharedos.execution", "path": ["test"], "scope": "exact",
            "actions": ["invoke"]}])


def config_frames(tools=(), grants=(), runtimes=None, concurrency=100, shared=False,
                  invoke=True, ceiling=(), principals=(), providers=None, **broker):
    rows = [("config.broker", {
        "namespace": "default", "authority": "human:op", "owner": "human:op",
        "purpose": "test", "key": b"k" * 32, "durability": "full", "revocation": "immediate",
        "maxSteps": 16, "maxToolCalls": 64, "timeoutMs": 60000, "drainGraceMs": 0, "killGraceMs": 200,
        "operator": os.getuid(), **broker})]
    rows += [("config.runtime", r) for r in runtimes or [
        {"id": "test", "version": "1", "kind": "turn"},
        {"id": "command", "version": "1", "kind": "command"}]]
    rows += [("config.principal", p) for p in principals]
    rows += [("config.provider", p) for p in providers or [
        {"id": "p", "shared": shared, "concurrency": concurrency}]]
    rows += [("config.tool", t) for t in tools]
    rows += [("config.ceiling", {})] if ceiling else []
    rows += [("config.capability", c) for c in ceiling]
    for g, capabilities in ([INVOKE] if invoke else []) + list(grants):
        rows.append(("config.grant", g))
        rows += [("config.capability", c) for c in capabilities]
    rows.append(("config.end", {}))
    return b"".join(frame([2, method, [params]]) for method, params in rows)


def principal(id, **members):
    return {"id": id, "tokens": [], "certificates": [], "uids": [], "runtimes": ["*"],
            "sessions": 4, "connections": 4, **members}


def ends_of_nothing():
    """A pipe's end to write to that nobody reads, and one to read from that nobody writes to."""
    r, write = os.pipe()
    read, w = os.pipe()
    os.close(r), os.close(w)
    return read, write


ENDED = dict(zip(("stdin", "stdout"), ends_of_nothing()))
ENDED["stderr"] = ENDED["stdout"]


class Child:
    """A scripted worker or provider."""

    def __init__(self, host, spawn, function):
        self.host, self.spawn, self.function = host, spawn, function
        self.killed = threading.Event()
        self.over = threading.Event()
        self.lock = threading.Lock()
        self.exit = dict(x_kind=EXITED, x_status=0)
        ours, theirs = [], []
        if spawn["kind"] != COMMAND:
            a, b = socket.socketpair()
            b.setblocking(False)
            self.peer = Peer(a)
            theirs.append(b.detach())
        elif spawn["flags"]:
            r, w = os.pipe()
            os.set_blocking(w, False)
            self.stdin = r
            theirs.append(w)
        for name in ["stderr"] if spawn["kind"] in (PROVIDER, FILES) else ["stdout", "stderr"]:
            r, w = os.pipe()
            os.set_blocking(r, False)
            setattr(self, name, w)
            theirs.append(r)
        self.key = {k: spawn[k] for k in ("session", "kind", "index")}
        host.children.append(self)  # before it can do what a test hears of
        host.tell(LINK, theirs, **self.key)
        for fd in theirs:
            os.close(fd)
        host.tell(STARTED, **self.key)
        wire.start(self.run)

    def run(self):
        try:
            self.function(self)
        except (Closed, TimeoutError, OSError):
            pass
        self.finish()
        with self.lock:
            for name in ENDED:
                if hasattr(self, name):
                    os.close(getattr(self, name))
                    delattr(self, name)

    def finish(self, **exit):
        with self.lock:
            if self.over.is_set():
                return
            self.over.set()
            # Its thread may be about to use the numbers: they are nobody else's before its end.
            for name, ended in ENDED.items():
                if hasattr(self, name):
                    os.dup2(ended, getattr(self, name), inheritable=False)
        if hasattr(self, "peer"):
            try:
                self.peer.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        try:
            self.host.tell(EXIT, **self.key, **{**self.exit, **exit})
        except OSError:
            pass  # the broker is gone


class Hold:
    """Until when a sync takes that is planned as `text` (broker/journal_plan.c); `host` are the
    members of its Host, to whom a sync may take that long."""

    PATIENCE_MS = 5000

    def __init__(self, test):
        self.fd, self._end = os.pipe()
        self.text = f"held/{self.fd}"
        self.host = {"pass_fds": [self.fd], "killGraceMs": self.PATIENCE_MS}
        test.addCleanup(os.close, self.fd)
        test.addCleanup(self.release)

    def release(self):
        if self._end is not None:
            os.close(self._end)
        self._end = None


class Host:
    def __init__(self, worker=None, provider=None, command=None, segment=None, state=None,
                 auto_segment=True, program_path=None, env=(), files=None, pass_fds=(),
                 **config):
        self.functions = {TURN: worker, PROVIDER: provider, COMMAND: command, FILES: files}
        self.workspaces, self.dropped = [], []
        self.workspace_error = 0
        self.children, self.kills, self.signals = [], [], []
        self.directory = tempfile.TemporaryDirectory(prefix="caisson-test-", dir=JOURNALS)
        self.segment = segment or self.new_segment
        self.auto_segment = auto_segment
        self.state = state or {}
        self.ready, self.settled, self.gone = (threading.Event() for _ in range(3))
        self.pongs = threading.Semaphore(0)
        self.reading = threading.Event()
        self.reading.set()
        self.wanted = []
        self.answers, self.over = queue.Queue(), []  # CONFIG_TAKEN; generations
        self.lock = threading.Lock()
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        theirs.setblocking(False)
        memory = os.memfd_create("config")
        os.write(memory, config_frames(**config))
        os.lseek(memory, 0, 0)
        # The broker finds them as 3 and 4, whatever they are here.
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64) for fd in (theirs.fileno(), memory)]

        def place():
            os.dup2(high[0], 3), os.dup2(high[1], 4)

        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen([program_path or program("caisson-broker")],
                                        preexec_fn=place,
                                        pass_fds=(3, 4, *pass_fds), close_fds=True, stderr=self.log,
                                        env={"ASAN_OPTIONS": "detect_leaks=1", **dict(env)})
        for fd in (*high, memory):
            os.close(fd)
        theirs.close()
        self.reader = wire.start(self.serve)
        self.start_ledger()

    # -- what the supervisor and the ledger do

    def start_ledger(self):
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        self.ledger = Peer(ours)
        self.ledger_reader = wire.start(self.serve_ledger)
        self.tell(LEDGER, [theirs.fileno()])
        theirs.close()

    def end_ledger(self):
        wire.close_under(self.ledger_reader, self.ledger.sock)

    def new_segment(self, number):
        path = pathlib.Path(self.directory.name) / f"journal.{number:08d}"
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL)

    def give_segment(self, number):
        fd = self.segment(number)
        if fd is None:
            self.tell(NO_SEGMENT, error=28)
            return
        self.tell(SEGMENT, [fd], index=number, count=4 << 20)
        os.close(fd)

    def tell(self, verb, fds=(), **values):
        data = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        with self.lock:
            self.control.sendmsg([control(verb=verb, **values)], data)

    def offer(self, generation, frames=None, **config):
        """Another configuration, as SIGHUP brings it; the broker's answer is in `answers`."""
        memory = os.memfd_create("config")
        os.write(memory, config_frames(generation=generation, **config)
                 if frames is None else frames)
        self.tell(CONFIG, [memory], generation=generation)
        os.close(memory)

    def serve(self):
        while True:
            self.reading.wait()
            try:
                data = receive_packet(self.control.recv, 4096)
            except OSError:
                data = b""
            if not data:
                self.gone.set()
                return
            c = dict(zip(FIELDS, struct.unpack(FORMAT, data)))
            if c["verb"] == READY:
                self.ready.set()
            elif c["verb"] == SETTLED:
                self.settled.set()
            elif c["verb"] == PONG:
                self.pongs.release()
            elif c["verb"] == SPAWN:
                self.spawn(c)
            elif c["verb"] == KILL:
                self.kills.append(c)
                for child in list(self.children):
                    # What went over to another configuration has another index there.
                    if all(child.key[k] == c[k] for k in child.key
                           if k != "index" or self.is_of_session(child)):
                        child.killed.set()
                        child.finish(x_kind=SIGNALED, x_status=9, x_cause=c["cause"])
            elif c["verb"] == SIGNAL:
                self.signals.append(c)
                for child in list(self.children):
                    if child.key["session"] == c["session"] and hasattr(child, "on_signal"):
                        child.on_signal(c["error"])
            elif c["verb"] == CONFIG_TAKEN:
                self.answers.put(c)
            elif c["verb"] == CONFIG_OVER:
                self.over.append(c["generation"])
            elif c["verb"] == WORKSPACE:
                self.workspaces.append(c["workspace"])
                self.tell(MADE, workspace=c["workspace"], error=self.workspace_error)
            elif c["verb"] == WORKSPACE_DROP:
                self.dropped.append(c["workspace"])
                self.tell(GONE, workspace=c["workspace"])
            elif c["verb"] == MORE:
                self.wanted.append(c["index"])
                if self.auto_segment:
                    self.give_segment(c["index"])

    def is_of_session(self, provider):
        """Is it one of the providers that a session has for itself?"""
        number = provider.key["session"]
        return provider.key["kind"] == PROVIDER and any(
            child.key["session"] == number for child in self.children
            if child.key["kind"] != PROVIDER)

    def spawn(self, c):
        Child(self, c, self.functions[c["kind"]])

    def serve_ledger(self):
        try:
            while True:
                msgid, params = self.ledger.expect("state.load")
                state = self.state
                if isinstance(state, list):  # by pages
                    at = params["cursor"]
                    state = {**state[at], "next": at + 1 if at + 1 < len(state) else 0}
                self.ledger.reply(msgid, **{
                    "count": 0, "hash": bytes(32), "segment": 0, "length": 0,
                    "operations": [], "grants": [], "revocations": [], "uses": [], "escalations": [], "keys": [], "next": 0,
                    **state})
        except (Closed, TimeoutError, OSError):
            pass

    # -- what the test does

    def client(self, **who):
        """A local client; `who` is what the supervisor says of it: uid, flags."""
        a, b = socket.socketpair()
        b.setblocking(False)
        assert self.ready.wait(TIMEOUT), self.log_text()
        self.tell(CLIENT, [b.fileno()], **{"uid": os.getuid(), "gid": os.getgid(),
                                           "pid": os.getpid(), **who})
        b.close()
        client = Client(a)
        client.hello("client")
        return client

    def round(self):
        """Returns when the broker has written what it had to say of all that it was told."""
        for n in range(2):  # the second is heard in a later turn of its loop than the first
            self.tell(PING, count=n)
            assert self.pongs.acquire(timeout=TIMEOUT), self.log_text()

    def records(self):
        """Every record of the journal, in order; asserts that the entries parse."""
        found = []
        for path in sorted(pathlib.Path(self.directory.name).glob("journal.*")):
            data = path.read_bytes()
            while data:
                end = 4 + int.from_bytes(data[:4], "big")
                found.append(unpack(data[36:end]))
                data = data[end:]
        return found

    def log_text(self):
        return wire.written(self.log)

    def close(self):
        """Ends the broker as the supervisor does; returns its exit status and its log."""
        try:
            self.tell(SHUTDOWN)
        except OSError:
            pass
        try:
            status = self.process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        for child in self.children:
            child.finish()
        self.reading.set()
        wire.close_under(self.reader, self.control)
        self.end_ledger()
        self.directory.cleanup()
        return status, self.log_text()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        status, log = self.close()
        self.log_kept = log
        if exc[0] is None:
            assert status in (0, -9), (status, log)
            assert "Sanitizer" not in log and "runtime error" not in log, log


class Client(Peer):
    def __init__(self, sock):
        super().__init__(sock)
        self.events, self.early = [], []

    def expect_reply(self, msgid, timeout=TIMEOUT):
        """Events may stand before the reply: they are kept for next_event()."""
        while True:
            m = self.receive(timeout)
            if m[0] == 1 and m[1] == msgid:
                return m[2], m[3]
            self.early.append(m)

    def submit(self, kind="turn", **params):
        result = self.call("operation.submit", kind=kind, **params)
        return result["operation"]

    def next_event(self, timeout=TIMEOUT):
        while True:
            m = self.early.pop(0) if self.early else self.receive(timeout)
            if m[0] == 2 and m[1] == "operation.event":
                self.events.append(m[2][0])
                return m[2][0]

    def finish(self, operation=None, timeout=TIMEOUT):
        """Reads to the terminal event of `operation` (any) and returns it."""
        while True:
            e = self.next_event(timeout)
            if e["type"] in ("completed", "failed") and operation in (None, e["operation"]):
                return e

    def turn(self, **params):
        self.submit(**params)
        e = self.finish()
        return e["body"].get("turn"), e

    def kinds(self):
        return [e["body"].get("kind") if e["type"] == "progress" else e["type"]
                for e in self.events]


def runtime(function):
    """A worker that says hello and runs one turn: function(child, params) -> outcome."""

    def work(child):
        peer = child.peer
        peer.hello("worker")
        msgid, params = peer.expect("operation.run")
        child.operation = params["operation"]
        outcome = function(child, params)
        if outcome is not None:
            peer.reply(msgid, **outcome)
        while True:
            peer.receive()

    return work


def invoke(child, name, id="1", **arguments):
    step = arguments.pop("step", None)
    extra = {} if step is None else {"step": step}
    msgid = child.peer.request("tool.invoke", operation=child.operation, id=id, tool=name,
                               arguments=arguments, **extra)
    error, result = child.peer.expect_reply(msgid)
    return result if error is None else {"status": "refused", "error": error}


def serve(function):
    """A provider: function(params) -> members of the reply, or None for silence."""

    def work(child):
        peer = child.peer
        peer.hello("provider")
        while True:
            m = peer.receive()
            if m[0] != 0:
                continue
            reply = function(m[3][0])
            if reply is not None:
                peer.reply(m[1], **{"callId": m[3][0]["call"], **reply})

    return work


def ok(output=None):
    return {"status": "succeeded", "output": output}


def one_call(name="files.read", **arguments):
    """A runtime that makes one call and completes with what came back."""
    return runtime(lambda child, params: {
        "status": "complete", "output": invoke(child, name, **arguments)})


class Turns:
    """For a TestCase: one turn of a broker of its own; TOOLS and GRANTS are what it has."""

    def run_turn(self, worker, provider=None, submit=None, **config):
        config.setdefault("tools", self.TOOLS)
        config.setdefault("grants", self.GRANTS)
        with Host(worker=worker, provider=provider or serve(lambda p: ok("text")),
                  **config) as self.host:
            client = self.host.client()
            turn, event = client.turn(**(submit or {}))
            self.client, self.event, self.records = client, event, self.host.records()
            self.host_log = self.host.log_text()
            return turn

    def record(self, type, **members):
        found = [r for r in self.records if r["type"] == type and
                 all(r.get(k) == v for k, v in members.items())]
        self.assertTrue(found, f"no {type} {members} in {self.records}")
        return found[-1]


DONE = {"status": "complete", "output": "done"}
