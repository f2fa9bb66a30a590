"""Requests to a gateway: HTTP/1.1, one answer each, and the upgrade to a WebSocket."""

from __future__ import annotations

import http.client
import select
import socket
import ssl
import threading
import time
from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional, Tuple

from . import _json, _websocket
from ._stream import Stream, Target
from .errors import ApiError, CaissonError, ProtocolError, TransportError, api_error

BODY_MAX = 4 << 20  # bytes of an answer
HEAD_MAX = 32 << 10  # bytes of the head of an upgrade's answer
IDLE_MAX = 20.0  # seconds for which a connection is kept for the next request


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


class _Connection(http.client.HTTPConnection):
    def __init__(self, target: Target, context: Optional[ssl.SSLContext], timeout: float):
        super().__init__(target.host, target.port or None, timeout=timeout)
        self._target, self._context = target, context

    def connect(self) -> None:
        self.sock = self._target.connect(self._context, self.timeout)

    def is_stale(self) -> bool:
        """Whether the other end has closed it, or has said what nobody asked for."""
        if self.sock is None:
            return False
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return bool(poll.poll(0))


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


class Http:
    """One connection that is kept between requests, and others where threads ask at once."""

    def __init__(self, target: Target, context: Optional[ssl.SSLContext],
                 headers: Mapping[str, str], timeout: float):
        self.timeout = timeout
        self._target, self._context = target, context
        self._headers = {"User-Agent": "caisson-client-python", **headers}
        self._lock = threading.Lock()
        self._kept: Optional[Tuple[_Connection, float]] = None

    def close(self) -> None:
        with self._lock:
            kept, self._kept = self._kept, None
        if kept is not None:
            kept[0].close()

    def _take(self, timeout: float) -> _Connection:
        with self._lock:
            kept, self._kept = self._kept, None
        if kept is not None:
            connection, since = kept
            if time.monotonic() - since < IDLE_MAX and not connection.is_stale():
                connection.timeout = timeout
                connection.sock.settimeout(timeout)
                return connection
            connection.close()
        return _Connection(self._target, self._context, timeout)

    def _keep(self, connection: _Connection) -> None:
        with self._lock:
            if self._kept is None and connection.sock is not None:
                self._kept, connection = (connection, time.monotonic()), None
        if connection is not None:
            connection.close()

    def request(self, method: str, path: str, body: Optional[Dict[str, Any]] = None,
                headers: Optional[Mapping[str, str]] = None,
                timeout: Optional[float] = None) -> Answer:
        """The answer, whatever its status; TransportError.  Asks once."""
        data = None if body is None else _json.dumps(body).encode()
        sent = {"Host": self._target.authority, **self._headers, **(headers or {})}
        if data is not None:
            sent["Content-Type"] = "application/json"
        connection = self._take(self.timeout if timeout is None else timeout)
        try:
            connection.request(method, path, data, sent)
            response = connection.getresponse()
            content = response.read(BODY_MAX + 1)
            if len(content) > BODY_MAX:
                raise ProtocolError("an answer that is too long")
            if response.length is None and not response.chunked:
                raise ProtocolError("an answer without its length")
            if response.length:
                raise TransportError("the gateway closed the connection in its answer")
            # Only what was read to its end can be asked again.
            keep = response.isclosed() and not response.will_close
        except CaissonError:
            connection.close()
            raise
        except (OSError, http.client.HTTPException, ValueError) as e:
            connection.close()
            raise TransportError(f"{method} {path}: {e or type(e).__name__}") from e
        except BaseException:
            connection.close()
            raise
        if keep:
            self._keep(connection)
        else:
            connection.close()
        found = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, found, content)

    def call(self, method: str, path: str, body: Optional[Dict[str, Any]] = None,
             headers: Optional[Mapping[str, str]] = None,
             timeout: Optional[float] = None) -> Answer:
        """The answer if it is 2xx; the typed error otherwise."""
        answer = self.request(method, path, body, headers, timeout)
        if not 200 <= answer.status < 300:
            raise refusal(answer)
        return answer

    # ---- WebSocket -----------------------------------------------------------------------

    def upgrade(self, path: str) -> Tuple[Stream, bytes]:
        """A connection that speaks WebSocket, and what has arrived of it already."""
        deadline = time.monotonic() + self.timeout
        key = _websocket.new_key()
        head = [f"GET {path} HTTP/1.1", f"Host: {self._target.authority}", "Upgrade: websocket",
                "Connection: Upgrade", f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13"]
        head += [f"{name}: {value}" for name, value in self._headers.items()]
        sock = self._target.connect(self._context, self.timeout)
        try:
            sock.sendall(("\r\n".join(head) + "\r\n\r\n").encode("latin-1"))
            status, headers, rest = _read_head(sock, deadline)
            if status != 101:
                raise refusal(_rest_of(sock, deadline, status, headers, rest))
            if (headers.get("sec-websocket-accept") != _websocket.accept_of(key) or
                    headers.get("upgrade", "").lower() != "websocket" or
                    "upgrade" not in headers.get("connection", "").lower() or
                    "sec-websocket-extensions" in headers):
                raise ProtocolError("an upgrade to something else")
            return Stream(sock), rest
        except (OSError, ValueError) as e:
            sock.close()
            raise TransportError(f"cannot open a session: {e}") from e
        except BaseException:
            sock.close()
            raise


def _receive(sock: socket.socket, deadline: float) -> bytes:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TransportError("the gateway does not answer")
    sock.settimeout(left)
    return sock.recv(1 << 14)


def _read_head(sock: socket.socket, deadline: float) -> Tuple[int, Dict[str, str], bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        more = _receive(sock, deadline)
        if not more:
            raise TransportError("the gateway closed the connection")
        data += more
        if len(data) > HEAD_MAX:
            raise ProtocolError("an answer that is too long")
    head, _, rest = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    version, _, status = first.partition(" ")
    if version != "HTTP/1.1" or not status[:3].isdigit() or status[3:4] not in ("", " "):
        raise ProtocolError("an answer that is no HTTP/1.1")
    headers: Dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip() or name.lower() in headers:
            raise ProtocolError("an answer with a header that is none, or stands there twice")
        headers[name.lower()] = value.strip()
    return int(status[:3]), headers, rest


def _rest_of(sock: socket.socket, deadline: float, status: int, headers: Dict[str, str],
             body: bytes) -> Answer:
    """The whole of an answer that refuses the upgrade."""
    text = headers.get("content-length", "0")
    if not text.isascii() or not text.isdigit() or int(text) > BODY_MAX:
        raise ProtocolError("an answer of no length that can be read")
    while len(body) < int(text):
        more = _receive(sock, deadline)
        if not more:
            raise TransportError("the gateway closed the connection")
        body += more
    return Answer(status, headers, body[:int(text)])
