"""What integration tests share: peers that speak frames, scripted as a test needs them.

Peer is one end of a link.  Broker plays the broker for a runtime (no chamber, no
authority: the test decides).  serve_provider() is the body of a scripted provider.
Everything waits for events with a deadline; nothing sleeps.
"""

import contextlib
import os
import pathlib
import re
import select
import socket
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SDK = ROOT / "worker" / "sdk"
if SDK.is_dir():
    sys.path.insert(0, str(SDK))

import caisson  # noqa: E402  (beside this file when a chamber holds a copy of both)

BUILD = pathlib.Path(os.environ.get("CAISSON_BUILD", ROOT / "build"))

pack, unpack, frame = caisson.pack, caisson.unpack, caisson.frame


def keep_low_descriptors():
    """Takes 3 and 4 for good: what Popen needs in a child is then never where the test is
    about to place a link."""
    while os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC) <= 4:
        pass


def program(name):
    """Path of a built program, or None: "caisson", "caisson-broker", "program/probe"."""
    for folder in ("bin", "libexec", "test"):
        if (BUILD / folder / name).exists():
            return str(BUILD / folder / name)
    return None


def start_on_link(argv, env=None, cwd=None, **streams):
    """Starts `argv` with a link as its descriptor 3 and nothing else left open, as a chamber
    does; returns (its Popen, our end of the link, a socket).  Needs keep_low_descriptors()."""
    ours, theirs = socket.socketpair()
    fd = theirs.fileno()

    def be_child():
        os.dup2(fd, 3)
        os.set_inheritable(3, True)

    with theirs:
        process = subprocess.Popen(
            argv, env=env or {}, cwd=cwd, pass_fds=[3], preexec_fn=be_child, **streams)
    return process, ours


def receive_packet(receive, *args):
    """What a socket of packets has: that the other end died with something unread is reported
    once, and before what that end had sent."""
    try:
        return receive(*args)
    except ConnectionResetError:
        return receive(*args)


def start(work, *args):
    """A thread that the end of the tests does not wait for."""
    thread = threading.Thread(target=work, args=args, daemon=True)
    thread.start()
    return thread


def close_under(thread, sock):
    """Closes what a thread reads, once it has read the end: before, the number could be that of
    another socket by the time it reads, and what it reads another's."""
    with contextlib.suppress(OSError):  # it is not connected any more
        sock.shutdown(socket.SHUT_RDWR)
    thread.join(TIMEOUT)
    sock.close()


def written(file):
    """What a process has written so far.  Not by seek(): the offset is the writer's, too, and
    its next line would stand over its first."""
    fd = file.fileno()
    return os.pread(fd, os.fstat(fd).st_size, 0).decode("utf-8", "replace")


def sanitized():
    """Whether the programs were built with MODE=asan."""
    path = program("caisson-broker") or program("program/chamber_run")
    return path is not None and b"__asan_init" in pathlib.Path(path).read_bytes()


SANITIZED = sanitized()
SLOWER = 4 if SANITIZED else 1  # how much longer everything may take
# Seconds, for anything that should be immediate.
TIMEOUT = float(os.environ.get("CAISSON_TEST_TIMEOUT", 30 * SLOWER))


def said(stderr):
    """Text or bytes without what a sanitizer says of a program that sees no /proc."""
    if not SANITIZED:
        return stderr
    line = (r"==\d+==WARNING: reading executable name failed [^\n]*\n"
            r"|==\d+==WARNING: ASan is ignoring requested __asan_handle_no_return: [^\n]*\n"
            r"False positive error reports may follow\n"
            r"For details see [^\n]*\n")
    return re.sub(line if isinstance(stderr, str) else line.encode(), stderr[:0], stderr)


class Closed(Exception):
    """The other end of the link is gone."""


class Peer:
    """One end of a link, on a socket or a descriptor of one; blocking, with a deadline."""

    def __init__(self, sock):
        self.sock = socket.socket(fileno=sock) if isinstance(sock, int) else sock
        self._data = b""
        self._msgid = 0

    def fileno(self):
        return self.sock.fileno()

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def send_raw(self, data):
        """Bytes as they are: for what is not a frame."""
        self.sock.settimeout(TIMEOUT)
        try:
            self.sock.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            raise Closed from None

    def send(self, message):
        self.send_raw(frame(message))

    def receive(self, timeout=TIMEOUT):
        """The next message; Closed at the end; TimeoutError."""
        deadline = time.monotonic() + timeout
        while True:
            if len(self._data) >= 4:
                end = 4 + int.from_bytes(self._data[:4], "big")
                if len(self._data) >= end:
                    message, self._data = unpack(self._data[4:end]), self._data[end:]
                    return message
            self.sock.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                more = self.sock.recv(1 << 18)
            except ConnectionResetError:
                more = b""
            if not more:
                raise Closed
            self._data += more

    def closed(self, timeout=TIMEOUT):
        """Reads to the end; True if the other end closed in time."""
        try:
            while True:
                self.receive(timeout)
        except Closed:
            return True
        except TimeoutError:
            return False

    def notify(self, method, **params):
        self.send([2, method, [params]])

    def request(self, method, **params):
        """Sends a request without waiting; returns its msgid."""
        self._msgid += 1
        self.send([0, self._msgid, method, [params]])
        return self._msgid

    def reply(self, msgid, **result):
        self.send([1, msgid, None, result])

    def refuse(self, msgid, code, message="", retryable=False):
        self.send([1, msgid, {"code": code, "message": message, "retryable": retryable}, None])

    def expect(self, method, timeout=TIMEOUT):
        """The next message, which must be a request or notification: (msgid, params)."""
        message = self.receive(timeout)
        assert message[0] in (0, 2) and message[-2] == method, message
        return (message[1] if message[0] == 0 else None), message[-1][0]

    def expect_reply(self, msgid, timeout=TIMEOUT):
        """The next message, which must answer `msgid`: (error, result)."""
        message = self.receive(timeout)
        assert message[:2] == [1, msgid], message
        return message[2], message[3]

    def call(self, method, **params):
        """A request and its result; AssertionError if it is refused."""
        error, result = self.expect_reply(self.request(method, **params))
        assert error is None, error
        return result

    def hello(self, name="test"):
        """What a worker, provider or client does first."""
        return self.call("hello", protocol=caisson.PROTOCOL, name=name)

    def answer_hello(self):
        """What a broker does first."""
        msgid, params = self.expect("hello")
        assert params["protocol"] == caisson.PROTOCOL, params
        self.reply(msgid, protocol=caisson.PROTOCOL, frameMax=caisson.FRAME_MAX)
        return params


def link():
    """Both ends of a link, as Peers."""
    a, b = socket.socketpair()
    return Peer(a), Peer(b)


def link_from_environment():
    """The end that a program started by Caisson was given."""
    return Peer(int(os.environ.pop("CAISSON_LINK_FD")))


class Broker(Peer):
    """Plays the broker for one runtime, which is started without a chamber.

    `tools` maps names to functions of the arguments.  What one returns succeeds; it
    raises Denied or Failed for the rest.  What the runtime did is kept: `calls`,
    `events`, `annotations`, `written`.
    """

    def __init__(self, argv, cwd=None, env=None):
        ours, theirs = socket.socketpair()
        super().__init__(ours)
        self.calls, self.events, self.annotations = [], [], {}
        self.written = {"stdout": b"", "stderr": b""}
        self._operations = 0
        with theirs:
            environment = {"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1",
                           "CAISSON_LINK_FD": str(theirs.fileno()), **(env or {})}
            self.process = subprocess.Popen(
                argv, cwd=cwd, env=environment, pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def close(self):
        """Closes the link and returns (exit status, stdout, stderr)."""
        super().close()
        try:
            out, err = self.process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
        return self.process.returncode, out, err

    def start_turn(self, message, tools=(), max_steps=16, max_tool_calls=16,
                   timeout_ms=30000, context=None):
        """Sends operation.run; returns (msgid, operation)."""
        self._operations += 1
        operation = f"op-{self._operations}"
        catalogue = [{"name": name, "description": "", "namespace": name.split(".")[0],
                      "effect": "read", "input": {"type": "object"}} for name in tools]
        msgid = self.request(
            "operation.run", operation=operation, executionId=f"turn-{self._operations}",
            agent="agent:test", message=message, tools=catalogue,
            context=context or {"traceId": "t-1", "purpose": "test"}, maxSteps=max_steps,
            maxToolCalls=max_tool_calls, timeoutMs=timeout_ms)
        return msgid, operation

    def turn(self, message, tools=None, **limits):
        """One whole turn; returns its outcome."""
        tools = tools or {}
        msgid, operation = self.start_turn(message, tools, **limits)
        while True:
            m = self.receive()
            if m[0] == 1:
                assert m[1] == msgid and m[2] is None, m
                return m[3]
            assert m[-1][0]["operation"] == operation, m
            self.serve(m, tools)

    def serve(self, m, tools):
        """Answers one message of the runtime's."""
        method, params = m[-2], m[-1][0]
        if method == "tool.invoke":
            self.calls.append((params["tool"], params["arguments"]))
            self.reply(m[1], callId=params["id"], tool=params["tool"],
                       **outcome_of(tools.get(params["tool"]), params["arguments"]))
        elif method == "event.emit":
            self.events.append((params["type"], params["data"]))
            self.reply(m[1], sequence=len(self.events))
        elif method == "turn.annotate":
            self.annotations[params["key"]] = params["value"]
            self.reply(m[1])
        elif method == "output.write":
            self.written[params["stream"]] += params["data"]
        else:
            raise AssertionError(f"unexpected {method}")


class Denied(Exception):
    """Denied(code): raised by a scripted tool."""


class Failed(Exception):
    """Failed(code): raised by a scripted tool."""


def outcome_of(tool, arguments):
    """The members of a result: status, and output or error."""
    try:
        if tool is None:
            raise Denied("tool_unavailable")
        return {"status": "succeeded", "output": tool(arguments)}
    except (Denied, Failed) as e:
        return {"status": type(e).__name__.lower(),
                "error": {"code": str(e), "message": "", "retryable": False}}


def serve_provider(tools, name="scripted", on_cancel=None):
    """Serves tool.call until the link ends; each call on a thread of its own.

    `tools` maps names to functions of the call's params (tool, arguments, action,
    namespace, path, …), which return the output or raise Failed.
    """
    peer, lock = link_from_environment(), threading.Lock()
    peer.hello(name)

    def work(msgid, params):
        tool = tools.get(params["tool"])
        result = outcome_of(tool, params)
        if result["status"] == "denied":  # the broker's word
            result["status"] = "failed"
        with lock:
            peer.reply(msgid, callId=params["call"], **result)

    while True:
        # A selected wait, since work() changes the socket's timeout from other threads.
        if not peer._data:
            select.select([peer], [], [])
        try:
            m = peer.receive()
        except Closed:
            return
        if m[0] == 2 and m[1] == "tool.cancel":
            if on_cancel is not None:
                on_cancel(m[2][0]["call"])
        else:
            start(work, m[1], m[3][0])
