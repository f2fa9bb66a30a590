"""The provider's half of a Caisson link: tools of one's own, beside caisson.py.

A provider is a program that does effects for runtimes it never meets.  The broker has decided
each call before it comes here: which action, on which resource.  The provider does exactly that:

    import caisson_provider

    tools = caisson_provider.Provider(concurrency=4)

    @tools.tool("notes.get")
    def get(call):
        name = call.resource("name")[-1]  # refused, unless it is what was decided
        if name not in notes:
            raise caisson_provider.Fail("not_found", "there is no such note")
        return {"text": notes[name]}

    tools.serve()

What a handler returns is the call's output.  `Fail(code, message)` fails the call; any other
exception does too, with `tool_execution_failed`, and only the place where it was raised is
printed, as its text may hold what the call has read.  Handlers run on threads, up to
`concurrency` at once, which must not be less than the configuration's.  What they print
goes to the log of the broker (standard error) or nowhere.

Copy this file and caisson.py beside your program.  The link: docs/PROTOCOL.md.
"""

import os
import queue
import sys
import threading
import time
import traceback

import caisson
from caisson import Fail, LinkClosed, ProtocolError  # noqa: F401  (a handler's, too)

# What each frame has, and of which type; a frame that is anything else ends the link.
_CALL = {"call": str, "tool": str, "arguments": dict, "action": str, "namespace": str,
         "path": list, "timeoutMs": int}
_CANCEL = {"call": str}


class Call:
    """One call: what was decided, and what it was asked with.

    tool, arguments     as the runtime said them; they fit the declared schema
    action              what may be done
    namespace, path     with what: a list of segments, empty for the root
    deadline            an instant of time.monotonic(), when nobody waits any more
    cancelled           threading.Event: nobody waits any more; return soon
    """

    def __init__(self, msgid, p):
        self._msgid, self.id, self.tool, self.arguments = msgid, p["call"], p["tool"], p["arguments"]
        self.action, self.namespace, self.path = p["action"], p["namespace"], p["path"]
        self.deadline = time.monotonic() + p["timeoutMs"] / 1000
        self.cancelled = threading.Event()

    def resource(self, argument, prefix=()):
        """The decided path, if the argument, behind `prefix`, names it and nothing else.

        An argument is data of the runtime's.  Whoever acts on the argument instead of the path
        needs this, or acts on what nobody decided."""
        named = self.arguments.get(argument, "")
        segments = [s for s in named.split("/") if s] if isinstance(named, str) else [None]
        if [*prefix, *segments] != self.path:
            raise Fail("invalid_tool_arguments", f"{argument}: it is not what was decided")
        return self.path


class Provider:
    """Tools by name, and the threads that serve them."""

    def __init__(self, concurrency=32, name="caisson_provider.py"):
        self.concurrency, self.name = concurrency, name
        self._tools, self._calls = {}, {}  # by name; open ones by id
        self._waiting, self._threads, self._idle = queue.Queue(), 0, 0
        self._sending, self._lock = threading.Lock(), threading.Lock()
        self._fd = -1

    def tool(self, name):
        """Decorator: the function answers calls of the tool `name`."""
        def register(handler):
            if name in self._tools:
                raise ValueError(f"{name} has a handler")
            self._tools[name] = handler
            return handler
        return register

    def serve(self):
        """Answers calls until the broker closes the link, then returns; calls that still run
        are cancelled, and their threads end with the program.  ProtocolError if the broker
        said what no broker says."""
        self._fd = int(os.environ.pop("CAISSON_LINK_FD"))
        os.set_inheritable(self._fd, False)  # what a handler starts has no business on the link
        try:
            self._send([0, 1, "hello", [{"protocol": caisson.PROTOCOL, "name": self.name}]])
            frames = _frames(self._fd)
            for message in frames:
                _check_hello(message)
                break
            for message in frames:
                self._handle(message)
        except (ConnectionResetError, LinkClosed):
            pass
        finally:
            with self._lock:
                for call in self._calls.values():
                    call.cancelled.set()

    def _send(self, message):
        data = memoryview(caisson.frame(message))
        with self._sending:
            while data:
                try:
                    data = data[os.write(self._fd, data):]
                except OSError:
                    raise LinkClosed("the broker closed the link") from None

    def _handle(self, message):
        if not isinstance(message, list) or message[0] not in (0, 2) or \
                len(message) != 4 - message[0] // 2:
            raise ProtocolError("neither a call nor its cancellation")
        method, fields = message[-2:]
        if (message[0], method) == (0, "tool.call"):
            call = Call(message[1], _fields(fields, _CALL))
            with self._lock:
                if call.id in self._calls:
                    raise ProtocolError("a call that is open already")
                self._calls[call.id] = call
            self._start(call)
        elif (message[0], method) == (2, "tool.cancel"):
            with self._lock:
                call = self._calls.get(_fields(fields, _CANCEL)["call"])
            if call is not None:  # else its answer is on its way
                call.cancelled.set()
        else:
            raise ProtocolError("unknown method")

    def _start(self, call):
        with self._lock:
            more = self._idle <= self._waiting.qsize() and self._threads < self.concurrency
            self._threads += more
        self._waiting.put(call)
        if more:
            threading.Thread(target=self._work, daemon=True).start()

    def _work(self):
        while True:
            with self._lock:
                self._idle += 1
            call = self._waiting.get()
            with self._lock:
                self._idle -= 1
            result = self._result(call)
            with self._lock:
                del self._calls[call.id]
            try:
                self._send([1, call._msgid, None, {"callId": call.id, **result}])
            except LinkClosed:
                return

    def _result(self, call):
        try:
            handler = self._tools.get(call.tool)
            if handler is None:
                raise Fail("tool_unavailable", "there is no such tool")
            output = handler(call)
            try:
                return {"status": "succeeded", **caisson.bounded(output=output)}
            except ProtocolError:
                raise Fail("invalid_tool_result", "the output cannot be sent") from None
        except Fail as e:
            code, message, retryable = e.code, e.message, e.retryable
        except BaseException as e:  # pylint: disable=broad-except
            print(f"{call.tool}: {type(e).__name__}\n", *traceback.format_tb(e.__traceback__),
                  sep="", end="", file=sys.stderr, flush=True)
            code, message, retryable = "tool_execution_failed", type(e).__name__, False
        try:
            error = caisson.bounded(code=code, message=message)
        except (ProtocolError, AttributeError):
            error = {"code": "tool_execution_failed", "message": "its error cannot be sent"}
        return {"status": "failed", "error": {**error, "retryable": retryable}}


def _frames(fd):
    """Yields every message that arrives, until the link is closed."""
    data = bytearray()
    while more := os.read(fd, 256 << 10):
        data += more
        while len(data) >= 4:
            length = int.from_bytes(data[:4], "big")
            if not 0 < length <= caisson.FRAME_MAX:
                raise ProtocolError("frame is empty or too long")
            if len(data) < 4 + length:
                break
            message = caisson.unpack(bytes(data[4:4 + length]))
            del data[:4 + length]
            yield message


def _fields(fields, shape):
    """The map in `fields`, if it is exactly of this shape."""
    if not isinstance(fields, list) or len(fields) != 1 or not isinstance(fields[0], dict) or \
            set(fields[0]) != set(shape) or \
            not all(isinstance(fields[0][name], of) for name, of in shape.items()):
        raise ProtocolError("fields do not fit")
    return fields[0]


def _check_hello(message):
    if not isinstance(message, list) or len(message) != 4 or message[:2] != [1, 1]:
        raise ProtocolError("no answer to hello")
    if message[2] is not None or message[3]["protocol"] != caisson.PROTOCOL:
        raise ProtocolError("the broker speaks another protocol")
