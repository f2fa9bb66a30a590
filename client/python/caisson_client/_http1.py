"""HTTP/1.1 of a client, without a socket: requests as bytes, and bytes as answers.

Strict where it decides what belongs to an answer: a length that is none, or is said twice or in
two ways, a chunk that is none, an answer that only the end of the connection would end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

from . import _json, _websocket
from .errors import (ApiError, CaissonError, ProtocolError, TransportError, UsageError,
                     api_error)

BODY_MAX = 4 << 20  # bytes of an answer
HEAD_MAX = 32 << 10  # bytes of the head of one, and of the line of a chunk
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# What may not stand there twice: whoever is between us could take the other one.
_ONCE = ("content-length", "transfer-encoding", "upgrade", "sec-websocket-accept")


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    def json(self) -> Dict[str, Any]:
        value = _json.loads(self.body)
        if not isinstance(value, dict):
            raise ProtocolError("an answer that is no object")
        return value

    @property
    def keeps(self) -> bool:
        """Whether its connection is for another request."""
        said = self.headers.get("connection", "").lower().split(",")
        return "close" not in (word.strip() for word in said)


def _retry_after(headers: Mapping[str, str]) -> Optional[float]:
    text = headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() else None


def refusal(answer: Answer) -> ApiError:
    """The error that an answer other than 2xx is."""
    code, message = None, f"HTTP status {answer.status}"
    try:
        error = answer.json().get("error")
        if isinstance(error, dict) and isinstance(error.get("code"), str):
            code, message = error["code"], str(error.get("message", message))
    except CaissonError:
        pass  # of a proxy, perhaps: the status is what there is
    return api_error(code, message, answer.status, _retry_after(answer.headers))


def accepted(answer: Answer) -> Answer:
    """The answer if it is 2xx; the typed error otherwise."""
    if not 200 <= answer.status < 300:
        raise refusal(answer)
    return answer


# ---- requests ----------------------------------------------------------------------------


def request(method: str, path: str, headers: Mapping[str, str],
            body: Optional[Dict[str, Any]] = None) -> bytes:
    """A request as it is sent; UsageError for what cannot stand in one."""
    data = b""
    sent = dict(headers)
    if body is not None:
        try:
            data = _json.dumps(body).encode()
        except (TypeError, ValueError) as e:
            raise UsageError(f"no JSON: {e}") from None
        sent["Content-Type"] = "application/json"
    if data or method in ("POST", "PUT"):
        sent["Content-Length"] = str(len(data))
    head = [f"{method} {path} HTTP/1.1"]
    for name, value in sent.items():
        if not isinstance(value, str) or not value.isascii() or not value.isprintable():
            raise UsageError(f"{name}: expected printable ASCII")
        head.append(f"{name}: {value}")
    return ("\r\n".join(head) + "\r\n\r\n").encode() + data


def upgrade_request(path: str, headers: Mapping[str, str], key: str) -> bytes:
    """That a connection shall speak WebSocket."""
    return request("GET", path, {
        **headers, "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": key,
        "Sec-WebSocket-Version": "13"})


def check_upgrade(answer: Answer, key: str) -> None:
    """Raises what speaks against it, if it does not do so from now on."""
    if answer.status != 101:
        raise refusal(answer)
    headers = answer.headers
    if (headers.get("sec-websocket-accept") != _websocket.accept_of(key) or
            headers.get("upgrade", "").lower() != "websocket" or
            "upgrade" not in headers.get("connection", "").lower() or
            "sec-websocket-extensions" in headers or "sec-websocket-protocol" in headers):
        raise ProtocolError("an upgrade to something else")


# ---- answers -----------------------------------------------------------------------------


def _head_of(text: str) -> Tuple[int, Dict[str, str]]:
    first, *lines = text.split("\r\n")
    version, _, status = first.partition(" ")
    if version != "HTTP/1.1" or not status.isascii() or not status[:3].isdigit() or \
            len(status) < 3 or status[3:4] not in ("", " "):
        raise ProtocolError("an answer that is no HTTP/1.1")
    headers: Dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        name, value = name.lower(), value.strip(" \t")
        if not colon or not _NAME.fullmatch(name) or "\r" in value or "\n" in value:
            raise ProtocolError("an answer with a header that is none")
        if name in headers:
            if name in _ONCE:
                raise ProtocolError("an answer with a header that stands there twice")
            value = f"{headers[name]}, {value}"
        headers[name] = value
    return int(status[:3]), headers


class Parser:
    """Takes bytes of a server's in whatever pieces they come, and gives the answer.

    Holds HEAD_MAX and BODY_MAX bytes at most, and what was fed.  What is behind the answer stays
    in `rest`: it belongs to who was promised another protocol, and to nobody otherwise.
    """

    def __init__(self) -> None:
        self.rest = bytearray()
        self._status = 0  # of a head that was read
        self._headers: Dict[str, str] = {}
        self._length: Optional[int] = None  # of what is missing of the body; None: by chunks
        self._body = bytearray()
        # What comes next: returns whether it was there.
        self._step: Callable[[], bool] = self._on_head

    def feed(self, data: bytes) -> Optional[Answer]:
        """The answer if it is whole now.  ProtocolError for what is none; the parser is of no use
        after either."""
        self.rest += data
        while self._step():
            if self._step == self._on_end:
                return Answer(self._status, self._headers, bytes(self._body))
        return None

    def end(self) -> TransportError:
        """The error that the end of the connection is here."""
        if self._status == 0 and not self.rest:
            return TransportError("the gateway closed the connection")
        return TransportError("the gateway closed the connection in its answer")

    def _until(self, mark: bytes) -> Optional[bytes]:
        at = self.rest.find(mark)
        if at > HEAD_MAX or (at < 0 and len(self.rest) > HEAD_MAX):
            raise ProtocolError("an answer that is too long")
        if at < 0:
            return None
        line = bytes(self.rest[:at])
        del self.rest[:at + len(mark)]
        return line

    def _on_end(self) -> bool:
        return False

    def _on_head(self) -> bool:
        head = self._until(b"\r\n\r\n")
        if head is None:
            return False
        self._status, self._headers = _head_of(head.decode("latin-1"))
        if self._status in (101, 204, 304):
            self._step = self._on_end
        elif self._status >= 200:
            self._step = self._body_of()
        return True  # below 200: the answer is behind it

    def _body_of(self) -> Callable[[], bool]:
        coding, text = (self._headers.get(n) for n in ("transfer-encoding", "content-length"))
        if coding is not None:
            if text is not None or coding.lower() != "chunked":
                raise ProtocolError("an answer in a coding that nobody asked for")
            return self._on_chunk
        if text is None:
            raise ProtocolError("an answer without its length")
        if not text.isascii() or not text.isdigit():
            raise ProtocolError("an answer of a length that is none")
        if len(text) > 20 or int(text) > BODY_MAX:
            raise ProtocolError("an answer that is too long")
        self._length = int(text)
        return self._on_data

    def _on_data(self) -> bool:
        assert self._length is not None
        part = self.rest[:self._length]
        del self.rest[:self._length]
        self._body += part
        self._length -= len(part)
        if self._length > 0:
            return False
        chunked = "transfer-encoding" in self._headers
        self._step = self._on_chunk_end if chunked else self._on_end
        return True

    def _on_chunk(self) -> bool:
        line = self._until(b"\r\n")
        if line is None:
            return False
        size = line.partition(b";")[0].strip(b" \t")
        if not re.fullmatch(rb"[0-9A-Fa-f]{1,16}", size):
            raise ProtocolError("an answer with a chunk that is none")
        self._length = int(size, 16)
        if len(self._body) + self._length > BODY_MAX:
            raise ProtocolError("an answer that is too long")
        self._step = self._on_data if self._length > 0 else self._on_trailer
        return True

    def _on_chunk_end(self) -> bool:
        line = self._until(b"\r\n")
        if line:
            raise ProtocolError("an answer with a chunk that is none")
        self._step = self._on_chunk if line is not None else self._step
        return line is not None

    def _on_trailer(self) -> bool:
        line = self._until(b"\r\n")
        if line == b"":
            self._step = self._on_end
        return line is not None
