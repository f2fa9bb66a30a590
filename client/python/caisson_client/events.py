"""Events of an operation (OP-12): what their JSON says, as objects."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Any, ClassVar, Dict, Optional, Type

from .errors import ProtocolError

SEQUENCE_MAX = (1 << 64) - 1


@dataclass(frozen=True)
class Event:
    """`operation` is the id of its operation; `body` is all that was said, as it came."""

    operation: str
    sequence: int
    body: Dict[str, Any]
    type: ClassVar[str] = ""
    terminal: ClassVar[bool] = False


@dataclass(frozen=True)
class Accepted(Event):
    """It was admitted, and is on record."""

    type: ClassVar[str] = "accepted"


@dataclass(frozen=True)
class Output(Event):
    """`data`: bytes of its "stdout" or "stderr", `stream`."""

    stream: str
    data: bytes
    type: ClassVar[str] = "output"


@dataclass(frozen=True)
class Progress(Event):
    """What a turn does, or a runtime says."""

    type: ClassVar[str] = "progress"


@dataclass(frozen=True)
class Gap(Event):
    """The events `first` to `last` are no longer kept; the next is the one behind them."""

    first: int
    last: int
    type: ClassVar[str] = "gap"


_RESULTS = ("command", "turn", "writeFile", "createDirectory", "deleteFile", "renameFile")


@dataclass(frozen=True)
class _Result(Event):
    @property
    def result(self) -> Dict[str, Any]:
        """What came of the command, turn or file operation; empty if nothing did."""
        for name in _RESULTS:
            if isinstance(self.body.get(name), dict):
                return self.body[name]
        return {}

    @property
    def exit_code(self) -> Optional[int]:
        """Of a command that ended by itself."""
        return self.result.get("exitCode")

    @property
    def signal(self) -> Optional[int]:
        """Of a command that was ended by one."""
        return self.result.get("signal")


@dataclass(frozen=True)
class Completed(_Result):
    """It ended, as `result` says: a command perhaps with an exit code other than 0."""

    type: ClassVar[str] = "completed"
    terminal: ClassVar[bool] = True


@dataclass(frozen=True)
class Failed(_Result):
    """It was ended: `code` is that of an error, `message` is for people."""

    code: str
    message: str
    type: ClassVar[str] = "failed"
    terminal: ClassVar[bool] = True


_TYPES: Dict[str, Type[Event]] = {
    c.type: c for c in (Accepted, Output, Progress, Gap, Completed, Failed)}


def is_sequence(value: Any) -> bool:
    return type(value) is int and 0 < value <= SEQUENCE_MAX


def _text(body: Dict[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str):
        raise ProtocolError(f"an event without {name}")
    return value


def _output(operation: str, sequence: int, body: Dict[str, Any]) -> Event:
    stream = _text(body, "stream")
    if stream not in ("stdout", "stderr"):
        raise ProtocolError("output of no stream that is known")
    try:
        data = base64.b64decode(_text(body, "data"), validate=True)
    except (binascii.Error, ValueError):
        raise ProtocolError("output that is no base64") from None
    return Output(operation, sequence, body, stream, data)


def _gap(operation: str, sequence: int, body: Dict[str, Any]) -> Event:
    first, last = body.get("from"), body.get("to")
    if not is_sequence(first) or not is_sequence(last) or first > last or last != sequence:
        raise ProtocolError("a gap without its ends")
    return Gap(operation, sequence, body, first, last)


def event_of(operation: str, message: Dict[str, Any]) -> Event:
    """The event that a JSON object is; ProtocolError if it is none."""
    kind = _TYPES.get(message["type"]) if isinstance(message.get("type"), str) else None
    if kind is None or set(message) != {"sequence", "type", kind.type}:
        raise ProtocolError("a message of no type that is known")
    sequence, body = message["sequence"], message[kind.type]
    if not is_sequence(sequence) or not isinstance(body, dict):
        raise ProtocolError("an event without sequence or body")
    if kind is Accepted:
        operation = _text(body, "operationID")
    if kind is Output:
        return _output(operation, sequence, body)
    if kind is Gap:
        return _gap(operation, sequence, body)
    if kind is Failed:
        return Failed(operation, sequence, body, _text(body, "code"), _text(body, "message"))
    return kind(operation, sequence, body)
