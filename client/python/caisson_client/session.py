"""A session: one connection to a sandbox, for one operation after the other."""

from __future__ import annotations

import base64
import collections
import selectors
import socket
import threading
import time
from typing import Any, Deque, Dict, Iterator, List, Optional, Sequence, Tuple, Union

from . import _json, _websocket
from ._stream import Stream
from .errors import CaissonError, ProtocolError, TransportError, UsageError, api_error
from .events import Accepted, Event, Gap, event_of

QUEUE_MAX = 4 << 20  # bytes of events that nobody has taken; then no more are read
HEARTBEAT_MIN, HEARTBEAT_MAX = 0.1, 30.0  # seconds (OP-29)
GONE = 1.0  # seconds for a close frame to a gateway that may be gone

Bytes = Union[bytes, bytearray, memoryview, str]


def _base64(data: Bytes) -> str:
    return base64.b64encode(data.encode() if isinstance(data, str) else bytes(data)).decode()


def heartbeat_of(lease: Optional[float]) -> Optional[float]:
    """How often a lease is renewed (OP-29)."""
    return None if lease is None else min(max(lease / 3, HEARTBEAT_MIN), HEARTBEAT_MAX)


class Session:
    """Made by `Sandbox.open`.  Leaving its `with` closes it, which only detaches: what was
    admitted goes on (OP-26).

    A thread of its own reads, answers the gateway's pings, and renews the lease (OP-29).  It
    stops reading while 4 MiB of events wait to be taken; a gateway that cannot send for long
    closes the connection, which is a TransportError here, and no loss: see `resume`.
    """

    def __init__(self, stream: Stream, data: bytes, lease: Optional[float], timeout: float):
        self._stream, self._timeout = stream, timeout
        self._parser = _websocket.Parser()
        self._beat = heartbeat_of(lease)
        self._cond = threading.Condition()
        # What follows belongs to it.
        self._closing = False
        self._failure: Optional[CaissonError] = None  # of the connection
        self._events: Deque[Tuple[Event, int]] = collections.deque()
        self._queued = 0  # bytes
        self._asked: Deque[str] = collections.deque()  # send, resume, cancel: not yet answered
        self._refused: Optional[CaissonError] = None  # of the send or resume
        self._busy = False  # an operation, sent or resumed, whose end was not taken
        self._operation: Optional[str] = None
        self._ended = False  # its terminal event has come
        self._arrived = 0  # sequence of the last event that has come
        self._taken = 0  # of the last one that was handed out
        self._wake_r, self._wake_w = socket.socketpair()
        self._wake_w.setblocking(False)
        self._wake_r.setblocking(False)
        self._thread = threading.Thread(
            target=self._run, args=(data,), name="caisson-session", daemon=True)
        self._thread.start()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()

    @property
    def operation(self) -> Optional[str]:
        """The operation that was last sent or resumed here."""
        return self._operation

    @property
    def sequence(self) -> int:
        """Of its last event that was handed out: `send` hands out the first."""
        return self._taken

    # ---- what is asked -------------------------------------------------------------------

    def send(self, *, command: Optional[Sequence[str]] = None, shell: Optional[str] = None,
             turn: Any = None, directory: Optional[str] = None,
             env: Optional[Dict[str, str]] = None, stdin: Optional[Bytes] = None,
             timeout: Optional[float] = None, max_steps: Optional[int] = None,
             max_tool_calls: Optional[int] = None, tools: Optional[List[str]] = None,
             namespaces: Optional[List[str]] = None, purpose: Optional[str] = None,
             state: Any = None, metadata: Optional[Dict[str, Any]] = None,
             idempotency_key: Optional[str] = None, traceparent: Optional[str] = None) -> str:
        """Submits one operation and returns its id, once it is admitted and on record (OP-24):
        a `command` (its arguments), a line for the `shell`, or a `turn` (its message).

        The same `idempotency_key` again attaches to the operation that exists: that is how to
        ask again after a TransportError.
        """
        kinds = {"command": command, "shell": shell, "turn": turn}
        given = [name for name, value in kinds.items() if value is not None]
        if len(given) != 1:
            raise UsageError("expected exactly one of command, shell and turn")
        if isinstance(command, str):
            raise UsageError("command: expected its arguments; a line is for shell")
        of_turn = {"maxSteps": max_steps, "maxToolCalls": max_tool_calls, "tools": tools,
                   "namespaces": namespaces, "purpose": purpose, "state": state,
                   "metadata": metadata}
        of_command = {"directory": directory, "env": env,
                      "stdin": None if stdin is None else _base64(stdin)}
        other = of_command if turn is not None else of_turn
        wrong = [name for name, value in other.items() if value is not None]
        if wrong:
            raise UsageError(f"{wrong[0]}: not with {given[0]}")
        if turn is not None:
            name, payload = "turn", {"message": turn, **of_turn}
        else:
            name, payload = "command", {"argv": command and list(command), "shell": shell,
                                        **of_command}
        payload["timeoutMs"] = None if timeout is None else round(timeout * 1000)
        return self._send(name, payload, idempotency_key, traceparent)

    def write_file(self, path: str, data: Bytes, append: bool = False, **key: str) -> str:
        """A file of the workspace, whole, or what comes behind its end.  Submits it, as `send`
        does, as all of these do."""
        return self._send("writeFile", {"path": path, "data": _base64(data),
                                        "append": append or None}, **key)

    def create_directory(self, path: str, recursive: bool = False, **key: str) -> str:
        """With `recursive` those above it too."""
        return self._send("createDirectory", {"path": path, "recursive": recursive or None}, **key)

    def delete_file(self, path: str, recursive: bool = False, **key: str) -> str:
        """A file, or an empty directory, or with `recursive` one with what is in it."""
        return self._send("deleteFile", {"path": path, "recursive": recursive or None}, **key)

    def rename_file(self, path: str, to: str, **key: str) -> str:
        return self._send("renameFile", {"from": path, "to": to}, **key)

    def _send(self, name: str, payload: Dict[str, Any], idempotency_key: Optional[str] = None,
              traceparent: Optional[str] = None) -> str:
        payload = {k: v for k, v in payload.items() if v is not None}
        message: Dict[str, Any] = {"type": "send", "operation": {name: payload}}
        if idempotency_key is not None:
            message["idempotencyKey"] = idempotency_key
        if traceparent is not None:
            message["traceparent"] = traceparent
        self._begin(message, "send", None, 0)
        with self._cond:
            deadline = time.monotonic() + self._timeout
            while self._operation is None and self._refused is None and self._failure is None:
                if not self._cond.wait(deadline - time.monotonic()):
                    break
            if self._refused is not None:
                error, self._refused, self._busy = self._refused, None, False
                raise error
            if self._operation is not None:
                self._taken = 1
                return self._operation
            # Whether it was admitted is unknown, and so is what comes next here.
            self._fail(TransportError("the gateway does not answer"))
            error = self._lost()
        self._end()
        raise error

    def resume(self, operation: str, after: int = 0) -> None:
        """Goes on with an operation of this sandbox that was sent before, here or elsewhere:
        `receive` then hands out every event behind the sequence `after`, and names the ones
        that are no longer kept in a Gap.  What is wrong with it, `receive` raises."""
        if not 0 <= after < 1 << 64:
            raise UsageError("after: expected a sequence")
        self._begin({"type": "resume", "operationID": operation, "after": after}, "resume",
                    operation, after)

    def _begin(self, message: Dict[str, Any], kind: str, operation: Optional[str],
               after: int) -> None:
        text = self._text_of(message)
        with self._cond:
            self._check()
            if self._busy:
                raise UsageError("an operation is under way here: receive it to its end first")
            self._busy, self._ended = True, False
            self._operation, self._arrived, self._taken = operation, after, after
            self._refused = None
            self._asked.append(kind)
        self._write(text)

    @staticmethod
    def _text_of(message: Dict[str, Any]) -> bytes:
        try:
            return _json.dumps(message).encode("utf-8")
        except (TypeError, ValueError) as e:
            raise UsageError(f"no JSON: {e}") from None

    def cancel(self, operation: str) -> None:
        """Asks for its end, which its events tell; may be called from another thread.  Only the
        operation that is under way here can be meant (OP-25)."""
        with self._cond:
            self._check()
            if not self._busy or operation != self._operation:
                raise UsageError(f"{operation!r} is not under way here")
            if self._ended:
                return  # it has come, and was not taken yet
            self._asked.append("cancel")
        self._write(self._text_of({"type": "cancel", "operationID": operation}))

    # ---- what comes ----------------------------------------------------------------------

    def receive(self, timeout: Optional[float] = None) -> Iterator[Event]:
        """The events of the operation that is under way, up to its terminal one; in order, each
        once.  Waits for each as long as it takes, or raises TimeoutError after `timeout` and can
        be asked again.  An iteration that is left can be taken up by another.

        A TransportError has the sequence of the last event that was handed out: to be resumed
        behind it, on another session.
        """
        while True:
            event = self._next(timeout)
            yield event
            if event.terminal:
                return

    def _next(self, timeout: Optional[float]) -> Event:
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._cond:
            while not self._events:
                if not self._busy:
                    raise UsageError("no operation is under way here")
                if self._refused is not None:
                    error, self._refused, self._busy = self._refused, None, False
                    raise error
                if self._failure is not None or self._closing:
                    raise self._lost()
                left = None if deadline is None else deadline - time.monotonic()
                if not self._cond.wait(left) and not self._events:
                    raise TimeoutError("no event has come")
            event, size = self._events.popleft()
            full = self._queued >= QUEUE_MAX
            self._queued -= size
            self._taken = event.sequence
            self._busy = not event.terminal
            if full and self._queued < QUEUE_MAX:
                self._wake()
        return event

    def _lost(self) -> CaissonError:
        """The failure as it is to the operation that is under way.  With the lock."""
        failure = self._failure or TransportError("the session is closed")
        kind = ProtocolError if isinstance(failure, ProtocolError) else TransportError
        return kind(str(failure), self._operation, self._taken)

    def _check(self) -> None:
        if self._failure is not None or self._closing:
            raise self._lost()

    # ---- the end -------------------------------------------------------------------------

    def close(self) -> None:
        """Closes the connection and nothing else (OP-26); again is no error."""
        with self._cond:
            first, self._closing = not self._closing, True
            open_ = first and self._failure is None
            self._cond.notify_all()
        if open_:
            try:
                self._stream.write(_websocket.encode_close(1000), GONE)
            except TransportError:
                pass  # it is gone already
        self._end()

    def _end(self) -> None:
        """Ends the thread, which closes what it has."""
        with self._cond:
            self._closing = True
            self._cond.notify_all()
            self._wake()
        self._stream.shutdown()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _wake(self) -> None:
        """With the lock, which the thread takes before it closes this."""
        try:
            self._wake_w.send(b"!")
        except OSError:
            pass  # it is full of them, or closed

    # ---- the thread ----------------------------------------------------------------------

    def _write(self, text: bytes) -> None:
        """A failure closes the connection; the thread is told by the socket."""
        try:
            self._stream.write(_websocket.encode(_websocket.TEXT, text), self._timeout)
        except TransportError as e:
            with self._cond:
                self._fail(e)
                error = self._lost()
            self._end()
            raise error from e

    def _fail(self, error: CaissonError) -> None:
        """With the lock."""
        if self._failure is None:
            self._failure = error
        self._cond.notify_all()

    def _run(self, data: bytes) -> None:
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(self._stream, selectors.EVENT_READ)
                selector.register(self._wake_r, selectors.EVENT_READ)
                self._take(data)
                self._loop(selector)
        except CaissonError as e:
            with self._cond:
                if not self._closing:
                    self._fail(e)
        finally:
            with self._cond:
                self._stream.close()
                self._wake_r.close()
                self._wake_w.close()
                self._fail(TransportError("the session is closed"))

    def _loop(self, selector: selectors.BaseSelector) -> None:
        reading, beat_at = True, None if self._beat is None else time.monotonic() + self._beat
        while True:
            with self._cond:
                if self._closing or self._failure is not None:
                    return
                room = self._queued < QUEUE_MAX
            if room != reading:
                if room:
                    selector.register(self._stream, selectors.EVENT_READ)
                else:
                    selector.unregister(self._stream)
                reading = room
            if beat_at is not None and time.monotonic() >= beat_at:
                self._heartbeat()
                beat_at = time.monotonic() + self._beat
            data = self._stream.read(1 << 16) if room else None
            if data is None:
                left = None if beat_at is None else max(beat_at - time.monotonic(), 0)
                if any(key.fileobj is self._wake_r for key, _ in selector.select(left)):
                    self._wake_r.recv(4096)
            elif not data:
                raise TransportError("the gateway closed the connection")
            else:
                self._take(data)

    def _heartbeat(self) -> None:
        self._stream.write(
            _websocket.encode(_websocket.TEXT, b'{"type":"heartbeat"}'), self._beat)

    def _take(self, data: bytes) -> None:
        for opcode, payload in self._parser.feed(data):
            if opcode == _websocket.PING:
                self._stream.write(_websocket.encode(_websocket.PONG, payload), self._timeout)
            elif opcode == _websocket.CLOSE:
                self._on_close(payload)
            elif opcode == _websocket.TEXT:
                self._on_message(payload)
            elif opcode != _websocket.PONG:
                raise ProtocolError("a message that is no text")

    def _on_close(self, payload: bytes) -> None:
        code, reason = _websocket.close_of(payload)
        try:
            self._stream.write(_websocket.encode_close(1000 if code == 1005 else code), GONE)
        except TransportError:
            pass  # it has said what it had to say
        raise TransportError(f"the gateway closed the session: {code} {reason}".rstrip())

    def _on_message(self, text: bytes) -> None:
        message = _json.loads(text)
        if not isinstance(message, dict):
            raise ProtocolError("a message that is no object")
        with self._cond:
            if message.get("type") == "error":
                self._on_error(message)
            elif message.get("type") == "cancel":
                if "cancel" not in self._asked:
                    raise ProtocolError("a cancellation that nobody asked for")
                self._asked.remove("cancel")
            else:
                self._on_event(message, len(text))
            self._cond.notify_all()

    def _on_error(self, message: Dict[str, Any]) -> None:
        """It is of the first that was asked and not yet answered: requests are answered in
        their order."""
        text, code = message.get("error"), message.get("code")
        if not isinstance(text, str) or not isinstance(code, (str, type(None))) or \
                not set(message) <= {"type", "error", "code"}:
            raise ProtocolError("an error without its text")
        if not self._asked:
            # Of no request: of the operation's connection to its owner, which is lost.
            raise TransportError(f"the gateway lost the operation: {text}")
        if self._asked.popleft() != "cancel":
            self._refused = api_error(code or "internal", text)
        # A cancellation that came too late: the events say what happened.

    def _on_event(self, message: Dict[str, Any], size: int) -> None:
        if not self._busy or self._ended:
            raise ProtocolError("an event of no operation")
        event = event_of(self._operation or "", message)
        asked = next((kind for kind in self._asked if kind != "cancel"), "")
        if isinstance(event, Accepted) and asked == "send":
            self._operation = event.operation
        elif self._operation is None:
            raise ProtocolError("an event before its operation was accepted")
        elif event.operation != self._operation:
            raise ProtocolError("an event of another operation")
        if (event.first if isinstance(event, Gap) else event.sequence) != self._arrived + 1:
            raise ProtocolError("an event out of order")
        if asked:
            self._asked.remove(asked)
        self._arrived = event.sequence
        self._ended = event.terminal
        if asked != "send":  # of which the id is the answer (OP-24)
            self._events.append((event, size))
            self._queued += size
