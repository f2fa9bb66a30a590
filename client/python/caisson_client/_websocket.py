"""WebSocket frames of a client (RFC 6455), without a socket.

Strict where the RFC lets one be: a masked frame, a reserved bit, an unknown opcode, a length that
is not in its shortest form, a fragment out of place, text that is not UTF-8, or a message over its
bound is the end of the connection.
"""

from __future__ import annotations

import base64
import hashlib
import os
import struct
from typing import List, Optional, Tuple

from .errors import ProtocolError

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
CONTROL_MAX = 125  # bytes
MESSAGE_MAX = 8 << 20  # bytes, of all its fragments
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def accept_of(key: str) -> str:
    """What a server answers to a key."""
    return base64.b64encode(hashlib.sha1(key.encode() + _GUID).digest()).decode()


def new_key() -> str:
    return base64.b64encode(os.urandom(16)).decode()


def _masked(data: bytes, mask: bytes) -> bytes:
    n = len(data)
    pattern = (mask * (n // 4 + 1))[:n]
    return (int.from_bytes(data, "big") ^ int.from_bytes(pattern, "big")).to_bytes(n, "big")


def encode(opcode: int, payload: bytes) -> bytes:
    """One whole message, masked as a client's must be."""
    n, mask = len(payload), os.urandom(4)
    if n < 126:
        head = struct.pack("!BB", 0x80 | opcode, 0x80 | n)
    elif n < 1 << 16:
        head = struct.pack("!BBH", 0x80 | opcode, 0x80 | 126, n)
    else:
        head = struct.pack("!BBQ", 0x80 | opcode, 0x80 | 127, n)
    return head + mask + _masked(payload, mask)


def encode_close(code: int) -> bytes:
    return encode(CLOSE, struct.pack("!H", code))


def close_of(payload: bytes) -> Tuple[int, str]:
    """The code and reason of a close frame; 1005 if it has none."""
    if not payload:
        return 1005, ""
    code = int.from_bytes(payload[:2], "big")
    known = 1000 <= code <= 1014 and code not in (1004, 1005, 1006)
    if len(payload) == 1 or not (known or 3000 <= code <= 4999):
        raise ProtocolError("a close frame without a code")
    return code, _text(payload[2:])


def _text(payload: bytes) -> str:
    try:
        return payload.decode("utf-8")
    except UnicodeDecodeError:
        raise ProtocolError("text that is not UTF-8") from None


class Parser:
    """Takes bytes of a server's in whatever pieces they come, and gives whole messages.

    Holds one message and one frame at most: MESSAGE_MAX bytes, and what was fed.
    """

    def __init__(self, message_max: int = MESSAGE_MAX):
        self._max = message_max
        self._data = bytearray()
        self._opcode: Optional[int] = None  # of a message that has begun
        self._parts = bytearray()

    def feed(self, data: bytes) -> List[Tuple[int, bytes]]:
        """The messages that are whole now: (TEXT, BINARY, CLOSE, PING or PONG; payload).
        ProtocolError for what is no WebSocket; the parser is of no use after that."""
        self._data += data
        messages = []
        while True:
            frame = self._frame()
            if frame is None:
                return messages
            message = self._join(*frame)
            if message is not None:
                messages.append(message)

    def _frame(self) -> Optional[Tuple[bool, int, bytes]]:
        if len(self._data) < 2:
            return None
        first, second = self._data[0], self._data[1]
        fin, opcode, n, at = bool(first & 0x80), first & 0x0F, second & 0x7F, 2
        if first & 0x70 or opcode not in (CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG):
            raise ProtocolError("a frame of a kind that was not agreed upon")
        if second & 0x80:
            raise ProtocolError("a masked frame of a server's")
        if opcode >= CLOSE and (not fin or n > CONTROL_MAX):
            raise ProtocolError("a control frame that is too long, or a part of one")
        if n >= 126:
            at = 4 if n == 126 else 10
            if len(self._data) < at:
                return None
            n = int.from_bytes(self._data[2:at], "big")
            if n < (126 if at == 4 else 1 << 16):
                raise ProtocolError("a length that is not in its shortest form")
        if n > self._max - (len(self._parts) if opcode == CONTINUATION else 0):
            raise ProtocolError("a message that is too long")
        if len(self._data) < at + n:
            return None
        payload = bytes(self._data[at:at + n])
        del self._data[:at + n]
        return fin, opcode, payload

    def _join(self, fin: bool, opcode: int, payload: bytes) -> Optional[Tuple[int, bytes]]:
        if opcode >= CLOSE:
            return opcode, payload
        if (opcode == CONTINUATION) != (self._opcode is not None):
            raise ProtocolError("a fragment out of place")
        if opcode != CONTINUATION:
            self._opcode = opcode
        if not fin:
            self._parts += payload
            return None
        message = self._opcode, bytes(self._parts) + payload
        self._opcode, self._parts = None, bytearray()
        if message[0] == TEXT:
            _text(message[1])
        return message
