"""The runtime's half of a Caisson link, in one file without dependencies.

A runtime is a program with one descriptor of Caisson's.  It is asked for one turn at a
time, and everything it wants done it asks for:

    import caisson

    def run(turn):
        text = turn.invoke("files.read", {"path": "docs/a.txt"})["data"]
        return {"length": len(text)}

    caisson.serve(run)

What `run` returns is the turn's output.  It may raise `Fail(code, message)` to fail the
turn, `Escalate(reason)` to ask a person; any other exception fails it as
`runtime_failed`, naming the exception's class and nothing else.

A call that is refused raises `ToolDenied`, one that was tried and failed `ToolFailed`.
Both carry `code`; the turn goes on if they are caught.  Calls may overlap: `start()`
returns a `concurrent.futures.Future`, `invoke_all()` waits for several, and all methods
of a turn may be used from any thread.

Copy this file beside your program.  Python 3.9 or newer.  docs/PROTOCOL.md says what
travels on the link.
"""

import itertools
import math
import os
import queue
import struct
import threading
import time
import traceback
from concurrent.futures import Future
from typing import NamedTuple

PROTOCOL = 1

# Bounds of the link, in bytes unless they say otherwise; a frame over one would end it.
FRAME_MAX = 1 << 20
ARGUMENTS_MAX = 256 << 10
RESULT_MAX = 768 << 10
METADATA_MAX = 16 << 10
EVENT_MAX = 64 << 10
OUTPUT_CHUNK_MAX = 64 << 10
DEPTH_MAX = 32      # nesting of a value
NODES_MAX = 1 << 16  # values in one frame


class Error(Exception):
    """Whatever goes wrong between a runtime and its broker."""


class ProtocolError(Error, ValueError):
    """Bytes that are not of the protocol, or a value that cannot travel."""


class LinkClosed(Error):
    """The broker is gone; nothing can be asked for any more."""


class Cancelled(Error):
    """The turn is over: it was cancelled, or its time is up."""


class Refused(Error):
    """A request that was refused as a whole, for instance because the turn is over."""

    def __init__(self, code, message="", retryable=False, details=None):
        super().__init__(f"{code}: {message}" if message else code)
        self.code, self.message = code, message
        self.retryable, self.details = retryable, details


class ToolDenied(Refused):
    """The call was not allowed.  Nothing happened."""


class ToolFailed(Refused):
    """The call was allowed and did not succeed."""


class Fail(Exception):
    """Raised by `run`: the turn has failed."""

    def __init__(self, code, message="", retryable=False):
        super().__init__(code, message)
        self.error = {"code": code, "message": message, "retryable": bool(retryable)}


class Escalate(Exception):
    """Raised by `run`: a person has to decide.  Needs the tool `sharedos.escalate`."""


# ---- values: the canonical part of MessagePack -------------------------------------------


def pack(value):
    """The one encoding of None, bool, int (64 bits), finite float, str, bytes, list,
    tuple, and dict with str keys; ProtocolError for anything else."""
    out = bytearray()
    _pack(value, out, 1, itertools.count(1))
    return bytes(out)


def _pack(v, out, depth, nodes):
    if depth > DEPTH_MAX or next(nodes) > NODES_MAX:
        raise ProtocolError("value is too deep or too large")
    if v is None:
        out.append(0xC0)
    elif v is True or v is False:
        out.append(0xC3 if v else 0xC2)
    elif isinstance(v, str):
        try:
            data = v.encode()
        except UnicodeEncodeError:
            raise ProtocolError("text is not valid Unicode") from None
        _head(out, len(data), 0xA0, 32, 0xD9, (1, 2, 4))
        out += data
    elif isinstance(v, int):
        if v >= 0:
            _head(out, v, 0x00, 128, 0xCC, (1, 2, 4, 8))
        elif v >= -32:
            out.append(v & 0xFF)
        else:
            width = next((w for w in (1, 2, 4, 8) if v >= -1 << 8 * w - 1), None)
            if width is None:
                raise ProtocolError("integer is out of range")
            out.append(0xD0 + width.bit_length() - 1)
            out += v.to_bytes(width, "big", signed=True)
    elif isinstance(v, float):
        if not math.isfinite(v):
            raise ProtocolError("float is not finite")
        out += struct.pack(">Bd", 0xCB, v)
    elif isinstance(v, (bytes, bytearray, memoryview)):
        v = bytes(v)
        _head(out, len(v), 0, 0, 0xC4, (1, 2, 4))
        out += v
    elif isinstance(v, (list, tuple)):
        _head(out, len(v), 0x90, 16, 0xDC, (2, 4))
        for item in v:
            _pack(item, out, depth + 1, nodes)
    elif isinstance(v, dict):
        _head(out, len(v), 0x80, 16, 0xDE, (2, 4))
        for key, item in v.items():
            if not isinstance(key, str):
                raise ProtocolError("key is not text")
            _pack(key, out, depth + 1, nodes)
            _pack(item, out, depth + 1, nodes)
    else:
        raise ProtocolError(f"{type(v).__name__} cannot be sent")


def _head(out, n, fix, fixmax, tag, widths):
    """Writes the shortest header that holds `n`; `tag` is that of the first width."""
    if n < fixmax:
        out.append(fix | n)
        return
    for width in widths:
        if n < 1 << 8 * width:
            out.append(tag)
            out += n.to_bytes(width, "big")
            return
        tag += 1
    raise ProtocolError("number or length is out of range")


def unpack(data):
    """The value that `data` is, all of it; ProtocolError unless it is canonical."""
    value, end = _unpack(memoryview(data), 0, 1)
    if end != len(data):
        raise ProtocolError("bytes are left over")
    if pack(value) != data:
        raise ProtocolError("duplicate key, or not the shortest form")
    return value


# First byte of a family -> what it is, and its widths in bytes.
_FAMILIES = ((0xDE, "map", (2, 4)), (0xDC, "array", (2, 4)), (0xD9, "str", (1, 2, 4)),
             (0xD0, "int", (1, 2, 4, 8)), (0xCC, "uint", (1, 2, 4, 8)),
             (0xCB, "float", (8,)), (0xC4, "bin", (1, 2, 4)))
_SIZED = {tag + i: (kind, width) for tag, kind, widths in _FAMILIES
          for i, width in enumerate(widths)}


def _take(p, at, n):
    if n > len(p) - at:
        raise ProtocolError("value is cut short")
    return p[at:at + n], at + n


def _unpack(p, at, depth):
    if depth > DEPTH_MAX:
        raise ProtocolError("value is too deep")
    (b,), at = _take(p, at, 1)
    if b <= 0x7F or b >= 0xE0:
        return (b if b <= 0x7F else b - 256), at
    if b <= 0xBF:
        kind, n = (("map", b & 15) if b <= 0x8F else
                   ("array", b & 15) if b <= 0x9F else ("str", b & 31))
    elif b in (0xC0, 0xC2, 0xC3):
        return (None, None, False, True)[b & 3], at
    elif b in _SIZED:
        kind, width = _SIZED[b]
        raw, at = _take(p, at, width)
        if kind == "float":
            return struct.unpack(">d", raw)[0], at
        n = int.from_bytes(raw, "big", signed=kind == "int")
        if kind in ("uint", "int"):
            return n, at
    else:
        raise ProtocolError(f"type 0x{b:02x} is not allowed")
    if kind in ("bin", "str"):
        raw, at = _take(p, at, n)
        try:
            return (bytes(raw) if kind == "bin" else str(raw, "utf-8")), at
        except UnicodeDecodeError:
            raise ProtocolError("text is not UTF-8") from None
    items = []
    for _ in range(n if kind == "array" else 2 * n):
        item, at = _unpack(p, at, depth + 1)
        items.append(item)
    if kind == "array":
        return items, at
    if not all(isinstance(key, str) for key in items[::2]):
        raise ProtocolError("key is not text")
    return dict(zip(items[::2], items[1::2])), at


def frame(message):
    """`message` as it travels: its length in four bytes, then its value."""
    data = pack(message)
    if len(data) > FRAME_MAX:
        raise ProtocolError("frame is too long")
    return struct.pack(">I", len(data)) + data


def frames(fd):
    """Yields every message that arrives on `fd`, until it is closed."""
    data = bytearray()
    while True:
        while len(data) >= 4:
            (n,) = struct.unpack_from(">I", data)
            if n > FRAME_MAX:
                raise ProtocolError("frame is too long")
            if len(data) < 4 + n:
                break
            message = bytes(memoryview(data)[4:4 + n])
            del data[:4 + n]
            yield unpack(message)
        try:
            more = os.read(fd, 256 << 10)
        except ConnectionResetError:
            more = b""
        if not more:
            if data:
                raise ProtocolError("frame is cut short")
            return
        data += more


# ---- the link ----------------------------------------------------------------------------


class _Link:
    """Sends from any thread, receives on one of its own."""

    def __init__(self, fd):
        os.set_inheritable(fd, False)  # what the runtime starts has no business here
        self.fd, self.fault = fd, None
        self.turns = queue.Queue()  # of Turn; None at the end
        self._sending, self._lock = threading.Lock(), threading.Lock()
        self._ids, self._waiting = itertools.count(1), {}  # msgid -> (Future, Turn or None)
        self._turn, self._closed = None, False

    def send(self, message):
        data = memoryview(frame(message))
        with self._sending:
            try:
                while data:
                    data = data[os.write(self.fd, data):]
            except OSError:
                raise LinkClosed("the broker closed the link") from None

    def request(self, method, params, turn=None):
        future = Future()
        future.set_running_or_notify_cancel()  # what was asked for cannot be taken back
        with self._lock:
            if self._closed:
                raise LinkClosed("the broker closed the link")
            if turn is not None and turn.cancelled.is_set():
                raise Cancelled("the turn is over")
            msgid = next(self._ids) & 0xFFFFFFFF
            self._waiting[msgid] = future, turn
        try:
            self.send([0, msgid, method, [params]])
        except Error:
            self._waiting.pop(msgid, None)
            raise
        return future

    def receive(self):
        try:
            for message in frames(self.fd):
                self._handle(message)
        except (Error, OSError, LookupError, TypeError, ValueError) as e:
            self.fault = e
        self._closed = True
        self._give_up(LinkClosed("the broker closed the link"))
        if self._turn is not None:
            self._turn.cancelled.set()
        self.turns.put(None)

    def _handle(self, message):
        if message[0] == 1:
            _, msgid, error, result = message
            future, _ = self._waiting.pop(msgid, (None, None))
            if future is None:
                return  # given up when its turn was cancelled
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(_refused(Refused, error))
            return
        method, (params,) = message[-2:]
        if method == "operation.run":
            self._turn = Turn(self, message[1], params)
            self.turns.put(self._turn)
        elif method not in ("operation.drain", "operation.cancel"):
            raise ProtocolError("unknown method")
        elif self._turn is not None and self._turn.operation == params["operation"]:
            if method == "operation.drain":
                self._turn.draining.set()
            else:
                self._turn.cancelled.set()
                self._give_up(Cancelled(params["cause"]))

    def _give_up(self, error):
        with self._lock:
            lost, self._waiting = self._waiting, {}
        for future, _ in lost.values():
            future.set_exception(error)


def _refused(kind, e):
    return kind(e["code"], e.get("message", ""), e.get("retryable", False), e.get("details"))


def _bounded(value, most, what):
    if len(pack(value)) > most:
        raise ProtocolError(f"{what} is over {most} bytes")
    return value


class Limits(NamedTuple):
    """Budgets of one turn; `deadline` is an instant of time.monotonic()."""

    max_steps: int
    max_tool_calls: int
    deadline: float


class Turn:
    """One turn: what is asked, what may be used, and the only way to act.

    message    what the turn is asked, any value
    agent      who this runtime is here, "agent:<id>"
    tools      {name: {"name", "description", "namespace", "effect", "input"}}
    context    who asks, for what purpose, and a description of what is in reach
    limits     see Limits
    draining   threading.Event: the time is nearly up; new calls are refused
    cancelled  threading.Event: the turn is over; the process ends soon
    """

    def __init__(self, link, msgid, p):
        self._link, self._msgid, self._calls = link, msgid, itertools.count(1)
        self.operation, self.execution_id = p["operation"], p["executionId"]
        self.agent, self.message, self.context = p["agent"], p["message"], p["context"]
        self.tools = {tool["name"]: tool for tool in p["tools"]}
        self.limits = Limits(p["maxSteps"], p["maxToolCalls"],
                             time.monotonic() + p["timeoutMs"] / 1000)
        self.draining, self.cancelled = threading.Event(), threading.Event()

    def start(self, tool, arguments, step=None):
        """Starts a call and returns a Future of its output.

        `step` says which step of the runtime's plan the call belongs to: a claim that
        counts against the step budget, never a permission.
        """
        params = {"operation": self.operation, "id": f"c{next(self._calls)}", "tool": tool,
                  "arguments": _bounded(arguments, ARGUMENTS_MAX, "arguments")}
        if step is not None:
            params["step"] = step
        output = Future()
        output.set_running_or_notify_cancel()

        def settle(reply):
            try:
                r = reply.result()
                if r["status"] == "succeeded":
                    output.set_result(r.get("output"))
                else:
                    kind = ToolDenied if r["status"] == "denied" else ToolFailed
                    output.set_exception(_refused(kind, r["error"]))
            except Error as e:
                output.set_exception(e)

        self._link.request("tool.invoke", params, self).add_done_callback(settle)
        return output

    def invoke(self, tool, arguments, step=None):
        """Makes a call and waits for its output."""
        return self.start(tool, arguments, step).result()

    def invoke_all(self, calls, return_exceptions=False):
        """Makes all of `calls`, (tool, arguments) each, at once; their outputs in order.

        The first exception is raised after all have ended, or stands in its place.
        """
        futures = [self.start(tool, arguments) for tool, arguments in calls]
        errors = [future.exception() for future in futures]  # waits
        for error in errors:
            if error is not None and not return_exceptions:
                raise error
        return [e if e is not None else f.result() for e, f in zip(errors, futures)]

    def emit(self, type, data=None):
        """Tells the host something; it arrives wrapped as `runtime.event`."""
        self._request("event.emit", type=type, data=_bounded(data, EVENT_MAX, "event"))

    def annotate(self, key, value):
        """Adds to the metadata of the result."""
        self._request("turn.annotate", key=key, value=_bounded(value, METADATA_MAX, "value"))

    def output(self, data, stream="stdout"):
        """Sends bytes to whoever watches, beside standard output."""
        for at in range(0, len(data), OUTPUT_CHUNK_MAX):
            self._link.send([2, "output.write", [{
                "operation": self.operation, "stream": stream,
                "data": bytes(data[at:at + OUTPUT_CHUNK_MAX])}]])

    def _request(self, method, **params):
        params["operation"] = self.operation
        self._link.request(method, params, self).result()


def _outcome(run, turn):
    try:
        output = _bounded(run(turn), RESULT_MAX, "output")
        return {"status": "complete", "output": output}
    except Fail as e:
        return {"status": "fail", "error": e.error}
    except Escalate as e:
        return {"status": "escalate", "reason": str(e)[:1024] or "no reason given"}
    except Exception as e:  # its text may hold what the turn read: it stays in here
        traceback.print_exc()
        return {"status": "fail",
                "error": {"code": "runtime_failed", "message": type(e).__name__}}


def serve(run, name="caisson.py"):
    """Answers every turn with `run(turn)` until the broker closes the link."""
    link = _Link(int(os.environ.pop("CAISSON_LINK_FD")))
    threading.Thread(target=link.receive, daemon=True).start()
    link.request("hello", {"protocol": PROTOCOL, "name": name}).result()
    while True:
        turn = link.turns.get()
        if turn is None:
            break
        try:
            link.send([1, turn._msgid, None, _outcome(run, turn)])
        except LinkClosed:
            break
    if link.fault is not None:
        raise link.fault
