"""The runtime's half of a Caisson link, in one file without dependencies.

A runtime is a program with one descriptor of Caisson's.  It is asked for one turn at a
time, and everything it wants done it asks for:

    import caisson

    def run(turn):
        text = turn.invoke("files.read", {"path": "docs/a.txt"})["data"]
        return {"length": len(text)}

    caisson.serve(run)

What `run` returns is the turn's output.  It may raise `Fail(code, message)` to fail the
turn or `Escalate(reason)` to ask a person; any other exception fails it too, and only
its class is told.  A call that is refused raises `ToolDenied`, one that was tried and
failed `ToolFailed`, both with a `code`; a turn that catches them goes on.  Calls may
overlap, and all methods of a turn may be used from any thread.

Copy this file beside your program.  Python 3.9 or newer; the link: docs/PROTOCOL.md.
"""

import contextlib
import itertools
import math
import os
import queue
import struct
import threading
import time
import traceback
from concurrent.futures import Future, wait
from types import SimpleNamespace

PROTOCOL = 4
# Bounds of a frame, which would end the link: bytes, nesting, values; and of a value in it.
FRAME_MAX, DEPTH_MAX, NODES_MAX = 1 << 20, 32, 1 << 16
PAYLOAD_DEPTH_MAX, PAYLOAD_NODES_MAX = 24, 1 << 15
# What a request carries: its type, and the most bytes of it, packed; of text, as UTF-8.
_FIELDS = {"tool": (str, 256), "type": (str, 128), "key": (str, 128), "code": (str, 64),
           "message": (str, 4096), "reason": (str, 4096), "arguments": (dict, 256 << 10),
           "step": (int, 5), "idempotencyKey": (str, 128), "details": (object, 64 << 10),
           "data": (object, 64 << 10), "value": (object, 16 << 10), "output": (object, 768 << 10),
           "metadata": (dict, 16 << 10), "error": (dict, 69 << 10), "retryable": (bool, 1)}
_CHUNK_MAX = 64 << 10


class Error(Exception):
    """Whatever goes wrong between a runtime and its broker."""

class ProtocolError(Error, ValueError):
    """Bytes that are not of the protocol, or a value that cannot travel."""

class LinkClosed(Error):
    """The broker is gone."""

class Cancelled(Error):
    """The turn is over; the text is the cause."""

class Refused(Error):
    """A request that was refused as a whole; has code, message, retryable, details."""

    def __init__(self, error):
        self.code, self.message = error["code"], error.get("message", "")
        self.retryable, self.details = error.get("retryable", False), error.get("details")
        super().__init__(f"{self.code}: {self.message}" if self.message else self.code)

class ToolDenied(Refused):
    """The call was not allowed.  Nothing happened."""

class ToolFailed(Refused):
    """The call was allowed and did not succeed."""

class Fail(Exception):
    """Raised by `run`: the turn has failed."""

    def __init__(self, code, message="", retryable=False):
        super().__init__(code, message)
        self.code, self.message, self.retryable = code, message, bool(retryable)

class Escalate(Exception):
    """Raised by `run`: a person has to decide.  Needs the tool `sharedos.escalate`."""

class Outcome(dict):
    """Returned by `run` instead of an output: its status and other members, as they travel."""

    def __init__(self, status, **members):
        super().__init__(status=status, **bounded(**members))


# ---- values: the canonical part of MessagePack -------------------------------------------

# kind: (code of the one-byte header, below which number it serves, first longer code, widths)
_KINDS = {
    "uint": (0x00, 128, 0xCC, (1, 2, 4, 8)), "int": (0, 0, 0xD0, (1, 2, 4, 8)),
    "float": (0, 0, 0xCB, (8,)), "str": (0xA0, 32, 0xD9, (1, 2, 4)),
    "bin": (0, 0, 0xC4, (1, 2, 4)), "array": (0x90, 16, 0xDC, (2, 4)),
    "map": (0x80, 16, 0xDE, (2, 4)),
}
# First byte of a value: (kind, number or value in it, width of the number behind it).
_FIRST = {0xC0: ("value", None, 0), 0xC2: ("value", False, 0), 0xC3: ("value", True, 0)}
_FIRST.update((b, ("value", b - 256, 0)) for b in range(0xE0, 0x100))
for _kind, (_fix, _most, _code, _widths) in _KINDS.items():
    _FIRST.update((_fix | n, (_kind, n, 0)) for n in range(_most))
    _FIRST.update((_code + i, (_kind, 0, width)) for i, width in enumerate(_widths))


def pack(value, depth=DEPTH_MAX, nodes=NODES_MAX):
    """The one encoding of None, bool, int (64 bits), finite float, str, bytes, list,
    tuple, and dict with str keys; ProtocolError for anything else."""
    out = bytearray()
    try:
        _pack(value, out, DEPTH_MAX - depth, itertools.count(1 + NODES_MAX - nodes))
        return bytes(out)
    except (OverflowError, UnicodeEncodeError) as e:
        raise ProtocolError(type(e).__name__) from None


def _pack(v, out, depth, nodes):
    if depth + isinstance(v, (list, tuple, dict)) > DEPTH_MAX or next(nodes) > NODES_MAX:
        raise ProtocolError("value is too deep or too large")
    if v is None or isinstance(v, bool):
        out.append(0xC0 if v is None else 0xC2 + v)
    elif isinstance(v, (str, bytes, bytearray)):
        data = v.encode() if isinstance(v, str) else v
        _head(out, "str" if isinstance(v, str) else "bin", len(data))
        out += data
    elif isinstance(v, int):
        if v >= 0:
            _head(out, "uint", v)
        elif v >= -32:
            out.append(v & 0xFF)
        else:
            i = next((i for i in range(3) if v >= -1 << (8 << i) - 1), 3)
            out += bytes([0xD0 + i]) + v.to_bytes(1 << i, "big", signed=True)
    elif isinstance(v, float) and math.isfinite(v):
        out += struct.pack(">Bd", 0xCB, v)
    elif isinstance(v, (list, tuple, dict)):
        _head(out, "map" if isinstance(v, dict) else "array", len(v))
        if isinstance(v, dict) and not all(isinstance(key, str) for key in v):
            raise ProtocolError("key is not text")
        for item in itertools.chain.from_iterable(v.items()) if isinstance(v, dict) else v:
            _pack(item, out, depth + 1, nodes)
    else:
        raise ProtocolError(f"this {type(v).__name__} cannot be sent")


def _head(out, kind, n):
    """Writes the shortest header that holds `n`."""
    fix, most, code, widths = _KINDS[kind]
    if n < most:
        return out.append(fix | n)
    i = next((i for i, w in enumerate(widths) if n < 1 << 8 * w), len(widths) - 1)
    out.append(code + i)
    out += n.to_bytes(widths[i], "big")


def unpack(data):
    """The value that `data` is, all of it; ProtocolError unless it is canonical."""
    try:
        value, _ = _unpack(memoryview(data), 0, 0)
    except (UnicodeDecodeError, IndexError, TypeError, struct.error):
        raise ProtocolError("cut short, or text or key that is not UTF-8") from None
    if pack(value) != data:
        raise ProtocolError("not exactly one value in its shortest form, or a duplicate key")
    return value


def _unpack(p, at, depth):
    b, at = p[at], at + 1
    kind, n, width = _FIRST.get(b, ("", 0, 0))
    if not kind or depth + (kind in ("array", "map")) > DEPTH_MAX:
        raise ProtocolError("value is too deep, or of a type that is not allowed")
    if width:
        raw, at = p[at:at + width], at + width
        n = int.from_bytes(raw, "big", signed=kind == "int")
    if kind in ("value", "uint", "int", "float"):
        return (struct.unpack(">d", raw)[0] if kind == "float" else n), at
    if kind in ("bin", "str"):
        raw = p[at:at + n]
        return (bytes(raw) if kind == "bin" else str(raw, "utf-8")), at + n
    items = []
    for _ in range(n if kind == "array" else 2 * n):
        item, at = _unpack(p, at, depth + 1)
        items.append(item)
    if kind == "array":
        return items, at
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
    while more := os.read(fd, 256 << 10):
        data += more
        while len(data) >= 4:
            end = 4 + int.from_bytes(data[:4], "big")
            if not 4 < end <= 4 + FRAME_MAX:
                raise ProtocolError("frame is empty or too long")
            if len(data) < end:
                break
            yield unpack(bytes(data[4:end]))
            del data[:end]


# ---- the link ----------------------------------------------------------------------------

class _Link:
    """Sends from any thread, receives on one of its own."""

    def __init__(self, fd):
        os.set_inheritable(fd, False)  # what the runtime starts has no business here
        self.fd, self.fault = fd, None
        self.turns = queue.Queue()  # of Turn; None at the end
        self._sending, self._lock = threading.Lock(), threading.Lock()
        self._ids, self._waiting = itertools.count(1), {}  # msgid -> (Future, decode)
        self._turn, self._closed = None, False

    def send(self, message):
        data = memoryview(frame(message))
        with self._sending:
            while data:
                try:
                    data = data[os.write(self.fd, data):]
                except OSError:
                    raise LinkClosed("the broker closed the link") from None

    def request(self, method, params, decode, turn=None):
        future = Future()
        future.set_running_or_notify_cancel()  # what was asked for cannot be taken back
        with self._lock:
            if self._closed or turn is not None and turn.cancelled.is_set():
                raise (LinkClosed if self._closed else Cancelled)("the turn is over")
            msgid = next(self._ids) & 0xFFFFFFFF
            self._waiting[msgid] = future, decode
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
        except Exception as e:
            self.fault = None if isinstance(e, ConnectionResetError) else e
        self._closed = True
        self._end_turn(LinkClosed("the broker closed the link"))
        self.turns.put(None)

    def _handle(self, message):
        if message[0] == 1:
            _, msgid, error, result = message
            future, decode = self._waiting.pop(msgid, (None, None))
            if future is not None:  # else: given up when its turn was cancelled
                try:
                    if error is not None:
                        raise Refused(error)
                    future.set_result(decode(result))
                except Exception as e:
                    future.set_exception(e)
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
                self._end_turn(Cancelled(params["cause"]))

    def _end_turn(self, error):
        if self._turn is not None and not self._turn.over.done():
            self._turn.cancelled.set()
            self._turn.over.set_exception(error)
        with self._lock:
            lost, self._waiting = self._waiting, {}
        for future, _ in lost.values():
            future.set_exception(error)


def _output(reply):
    if reply["status"] == "succeeded":
        return reply.get("output")
    raise (ToolDenied if reply["status"] == "denied" else ToolFailed)(reply["error"])


def bounded(**values):
    """`values`; ProtocolError if one of them would end the link."""
    for name, value in values.items():
        kind, most = _FIELDS[name]
        if not isinstance(value, kind) or kind is int and (type(value) is bool or value < 0):
            raise ProtocolError(f"{name} is a {type(value).__name__} that does not fit")
        data = pack(value, PAYLOAD_DEPTH_MAX, PAYLOAD_NODES_MAX)
        size = len(value.encode()) if kind is str else len(data)
        if size > most or size == 0 and name != "message" or kind is str and "\0" in value:
            raise ProtocolError(f"{name} is {size} of at most {most} bytes, or has a NUL in it")
    return values


class Turn:
    """One turn: what is asked, what may be used, and the only way to act.

    message    what the turn is asked, any value
    agent      who this runtime is here, "agent:<id>"
    tools      {name: {"name", "description", "namespace", "effect", "input"}}
    context    who asks, for what purpose, and a description of what is in reach
    limits     max_steps, max_tool_calls, deadline (an instant of time.monotonic())
    draining   threading.Event: the time is nearly up; new calls are refused
    cancelled  threading.Event: the turn is over; the process ends soon
    over       Future of the same: it ends with what the calls that are open end with
    """

    def __init__(self, link, msgid, p):
        self._link, self._msgid, self._calls = link, msgid, itertools.count(1)
        self.operation, self.execution_id = p["operation"], p["executionId"]
        self.agent, self.message, self.context = p["agent"], p["message"], p["context"]
        self.tools = {tool["name"]: tool for tool in p["tools"]}
        self.limits = SimpleNamespace(max_steps=p["maxSteps"], max_tool_calls=p["maxToolCalls"],
                                      deadline=time.monotonic() + p["timeoutMs"] / 1000)
        self.draining, self.cancelled = threading.Event(), threading.Event()
        self.over = Future()

    def start(self, tool, arguments, step=None, idempotency_key=None):
        """Starts a call and returns a Future of its output.  `step` says which step of the
        runtime's plan it belongs to: a claim against the step budget, never a permission.
        The same call under the same key is made once; another call under it is refused."""
        claims = ("step", step), ("idempotencyKey", idempotency_key)
        given = {name: value for name, value in claims if value is not None}
        params = bounded(tool=tool, arguments=arguments, **given)
        return self._ask("tool.invoke", {**params, "id": f"c{next(self._calls)}"}, _output)

    def invoke(self, tool, arguments, step=None, idempotency_key=None):
        """Makes a call and waits for its output."""
        return self.start(tool, arguments, step, idempotency_key).result()

    def invoke_all(self, calls):
        """Makes all of `calls`, (tool, arguments) each, at once; their outputs in order.
        If some have none, the first one's exception is raised after all have ended."""
        futures = [self.start(tool, arguments) for tool, arguments in calls]
        wait(futures)
        return [future.result() for future in futures]

    def emit(self, type, data=None):
        """Tells the host something; it arrives wrapped as `runtime.event`."""
        self._ask("event.emit", bounded(type=type, data=data)).result()

    def annotate(self, key, value):
        """Adds to the metadata of the result."""
        self._ask("turn.annotate", bounded(key=key, value=value)).result()

    def output(self, data, stream="stdout"):
        """Sends bytes to whoever watches, beside standard output."""
        for at in range(0, len(data), _CHUNK_MAX):
            self._link.send([2, "output.write", [{"operation": self.operation, "stream": stream,
                                                  "data": bytes(data[at:at + _CHUNK_MAX])}]])

    def _ask(self, method, params, decode=lambda result: None):
        return self._link.request(method, {**params, "operation": self.operation}, decode, self)


def _outcome(run, turn):
    try:
        try:
            output = run(turn)
            return output if isinstance(output, Outcome) else Outcome("complete", output=output)
        except Fail as e:
            error = bounded(code=e.code, message=e.message, retryable=e.retryable)
            return Outcome("fail", error=error)
        except Escalate as e:
            return Outcome("escalate", reason=str(e))
    except Exception as e:  # its text may hold what the turn has read: it stays in here
        traceback.print_exc()
        return Outcome("fail", error={"code": "runtime_failed", "message": type(e).__name__})


def serve(run, name="caisson.py"):
    """Answers every turn with `run(turn)` until the broker closes the link."""
    link = _Link(int(os.environ.pop("CAISSON_LINK_FD")))
    threading.Thread(target=link.receive, daemon=True).start()
    link.request("hello", dict(protocol=PROTOCOL, name=name, turns=True), lambda r: None).result()
    for turn in iter(link.turns.get, None):
        with contextlib.suppress(LinkClosed):  # then the queue ends
            link.send([1, turn._msgid, None, _outcome(run, turn)])
    if link.fault is not None:
        raise link.fault
