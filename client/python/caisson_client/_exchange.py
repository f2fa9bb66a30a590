"""What is said over the connection of a session, and what it means: the state of one, without
the connection, without threads, and without waiting.

Whoever has one uses it from one place at a time, writes the frames that it gives, and looks again
whenever something has come.
"""

from __future__ import annotations

import collections
from typing import Any, Deque, Dict, List, Optional, Tuple

from . import _json, _websocket
from .errors import CaissonError, ProtocolError, TransportError, UsageError, api_error
from .events import Accepted, Event, Gap, event_of

QUEUE_MAX = 4 << 20  # bytes of events that nobody has taken; then no more are read
_VALUE = 64  # bytes that a value takes besides its text
HEARTBEAT_MIN, HEARTBEAT_MAX = 0.1, 30.0  # seconds (OP-29)
HEARTBEAT = b'{"type":"heartbeat"}'
GONE = 1.0  # seconds for a close frame to a gateway that may be gone


def heartbeat_of(lease: Optional[float]) -> Optional[float]:
    """How often a lease is renewed (OP-29)."""
    return None if lease is None else min(max(lease / 3, HEARTBEAT_MIN), HEARTBEAT_MAX)


def _frame_of(message: Dict[str, Any]) -> bytes:
    try:
        return _websocket.encode(_websocket.TEXT, _json.dumps(message).encode("utf-8"))
    except (TypeError, ValueError) as e:
        raise UsageError(f"no JSON: {e}") from None


def _held_for(text: bytes) -> int:
    """About how many bytes a message takes once it is an event.  Of output both forms are kept,
    one character beyond ASCII makes the others of its string as wide, and small messages are
    more objects than text."""
    values = sum(text.count(mark) for mark in (b",", b":", b"[", b"{"))
    return len(text) * (2 if text.isascii() else 4) + values * _VALUE


class Exchange:
    def __init__(self) -> None:
        self.closing = False
        self.failure: Optional[CaissonError] = None  # of the connection: the first
        self.operation: Optional[str] = None  # that was last sent or resumed, once it has its id
        self.taken = 0  # sequence of its last event that was handed out
        self.queued = 0  # bytes that events take which nobody has taken
        self._parser = _websocket.Parser()
        self._events: Deque[Tuple[Event, int]] = collections.deque()
        self._asked: Deque[str] = collections.deque()  # send, resume, cancel: not yet answered
        self._refused: Optional[CaissonError] = None  # of the send or resume
        self._busy = False  # an operation, sent or resumed, whose end was not taken
        self._ended = False  # its terminal event has come
        self._arrived = 0  # sequence of the last event that has come

    @property
    def over(self) -> bool:
        """Nothing is read any more."""
        return self.closing or self.failure is not None

    @property
    def full(self) -> bool:
        """Nothing more is to be read before something is taken."""
        return self.queued >= QUEUE_MAX

    # ---- what is asked: the frame that does ----------------------------------------------

    def send(self, name: str, payload: Dict[str, Any], idempotency_key: Optional[str] = None,
             traceparent: Optional[str] = None) -> bytes:
        payload = {k: v for k, v in payload.items() if v is not None}
        message: Dict[str, Any] = {"type": "send", "operation": {name: payload}}
        if idempotency_key is not None:
            message["idempotencyKey"] = idempotency_key
        if traceparent is not None:
            message["traceparent"] = traceparent
        return self._begin(message, None, 0)

    def resume(self, operation: str, after: int) -> bytes:
        if not 0 <= after < 1 << 64:
            raise UsageError("after: expected a sequence")
        return self._begin({"type": "resume", "operationID": operation, "after": after},
                           operation, after)

    def _begin(self, message: Dict[str, Any], operation: Optional[str], after: int) -> bytes:
        frame = _frame_of(message)
        self._check()
        if self._busy:
            raise UsageError("an operation is under way here: receive it to its end first")
        self._busy, self._ended = True, False
        self.operation, self._arrived, self.taken = operation, after, after
        self._refused = None
        self._asked.append(message["type"])
        return frame

    def cancel(self, operation: str) -> Optional[bytes]:
        """None: its end has come, and was not taken yet."""
        self._check()
        if not self._busy or operation != self.operation:
            raise UsageError(f"{operation!r} is not under way here")
        if self._ended:
            return None
        self._asked.append("cancel")
        return _frame_of({"type": "cancel", "operationID": operation})

    # ---- what has come of it -------------------------------------------------------------

    def take(self) -> Optional[Event]:
        """The next event of the operation that is under way; None: it has not come yet.  Of one
        that was sent the first is Accepted.  Raises why there is none."""
        if self._events:
            event, size = self._events.popleft()
            self.queued -= size
            self.taken = event.sequence
            self._busy = not event.terminal
            return event
        if not self._busy:
            raise UsageError("no operation is under way here")
        if self._refused is not None:
            error, self._refused, self._busy = self._refused, None, False
            raise error
        self._check()
        return None

    def lost(self) -> CaissonError:
        """The failure as it is to the operation that is under way."""
        failure = self.failure or TransportError("the session is closed")
        kind = ProtocolError if isinstance(failure, ProtocolError) else TransportError
        return kind(str(failure), self.operation, self.taken)

    def _check(self) -> None:
        if self.over:
            raise self.lost()

    def fail(self, error: CaissonError) -> None:
        if self.failure is None:
            self.failure = error

    # ---- what comes ----------------------------------------------------------------------

    def parse(self, data: bytes) -> List[Tuple[int, bytes]]:
        """The messages that are whole now, for `on_message`; ProtocolError."""
        return self._parser.feed(data)

    def on_message(self, opcode: int, payload: bytes) -> Optional[bytes]:
        """The frame that is to be answered at once, if any.  ProtocolError, TransportError; after
        the gateway's last word it is `over`."""
        if opcode == _websocket.PING:
            return _websocket.encode(_websocket.PONG, payload)
        if opcode == _websocket.CLOSE:
            code, reason = _websocket.close_of(payload)
            if not self.closing:
                self.fail(TransportError(
                    f"the gateway closed the session: {code} {reason}".rstrip()))
            return _websocket.encode_close(1000 if code == 1005 else code)
        if opcode == _websocket.TEXT:
            self._on_text(payload)
        elif opcode != _websocket.PONG:
            raise ProtocolError("a message that is no text")
        return None

    def _on_text(self, text: bytes) -> None:
        message = _json.loads(text)
        if not isinstance(message, dict):
            raise ProtocolError("a message that is no object")
        if message.get("type") == "error":
            self._on_error(message)
        elif message.get("type") == "cancel":
            if "cancel" not in self._asked:
                raise ProtocolError("a cancellation that nobody asked for")
            self._asked.remove("cancel")
        else:
            self._on_event(message, _held_for(text))

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
        event = event_of(self.operation or "", message)
        asked = next((kind for kind in self._asked if kind != "cancel"), "")
        if isinstance(event, Accepted) and asked == "send":
            self.operation = event.operation
        elif self.operation is None:
            raise ProtocolError("an event before its operation was accepted")
        elif event.operation != self.operation:
            raise ProtocolError("an event of another operation")
        if (event.first if isinstance(event, Gap) else event.sequence) != self._arrived + 1:
            raise ProtocolError("an event out of order")
        if asked:
            self._asked.remove(asked)
        self._arrived = event.sequence
        self._ended = event.terminal
        self._events.append((event, size))
        self.queued += size
