"""Requests to a gateway: HTTP/1.1, one answer each, and the upgrade to a WebSocket."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any, Dict, Mapping, Optional, Tuple

from . import _http1, _websocket
from ._calls import IDLE_MAX, Gateway
from ._http1 import Answer
from ._stream import Stream, is_readable
from .errors import TransportError


def _ask(sock: socket.socket, data: bytes, timeout: float) -> Tuple[Answer, bytes]:
    """The answer, and what is behind it.  CaissonError, OSError."""
    deadline = time.monotonic() + timeout
    sock.settimeout(timeout)
    sock.sendall(data)
    parser = _http1.Parser()
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TransportError("the gateway does not answer")
        sock.settimeout(left)
        more = sock.recv(1 << 16)
        if not more:
            raise parser.end()
        answer = parser.feed(more)
        if answer is not None:
            return answer, bytes(parser.rest)


class Http:
    """One connection that is kept between requests, and others where threads ask at once."""

    def __init__(self, gateway: Gateway):
        self.timeout = gateway.timeout
        self._gateway = gateway
        self._lock = threading.Lock()
        self._kept: Optional[Tuple[socket.socket, float]] = None

    def close(self) -> None:
        with self._lock:
            kept, self._kept = self._kept, None
        if kept is not None:
            kept[0].close()

    def _take(self, timeout: float) -> socket.socket:
        with self._lock:
            kept, self._kept = self._kept, None
        if kept is not None:
            sock, since = kept
            if time.monotonic() - since < IDLE_MAX and not is_readable(sock):
                return sock
            sock.close()
        return self._gateway.target.connect(self._gateway.context, timeout)

    def _keep(self, sock: socket.socket) -> None:
        with self._lock:
            spare = self._kept is not None
            if not spare:
                self._kept = sock, time.monotonic()
        if spare:
            sock.close()

    def request(self, method: str, path: str, body: Optional[Dict[str, Any]] = None,
                headers: Optional[Mapping[str, str]] = None,
                timeout: Optional[float] = None) -> Answer:
        """The answer, whatever its status; TransportError.  Asks once."""
        timeout = self.timeout if timeout is None else timeout
        data = _http1.request(method, path, {**self._gateway.headers, **(headers or {})}, body)
        sock = self._take(timeout)
        try:
            answer, rest = _ask(sock, data, timeout)
        except (OSError, ValueError) as e:
            sock.close()
            raise TransportError(f"{method} {path}: {e or type(e).__name__}") from e
        except BaseException:
            sock.close()
            raise
        if rest or not answer.keeps:
            sock.close()
        else:
            self._keep(sock)
        return answer

    def call(self, method: str, path: str, body: Optional[Dict[str, Any]] = None,
             headers: Optional[Mapping[str, str]] = None,
             timeout: Optional[float] = None) -> Answer:
        """The answer if it is 2xx; the typed error otherwise."""
        return _http1.accepted(self.request(method, path, body, headers, timeout))

    def upgrade(self, path: str) -> Tuple[Stream, bytes]:
        """A connection that speaks WebSocket, and what has arrived of it already."""
        key = _websocket.new_key()
        sock = self._gateway.target.connect(self._gateway.context, self.timeout)
        try:
            data = _http1.upgrade_request(path, self._gateway.headers, key)
            answer, rest = _ask(sock, data, self.timeout)
            _http1.check_upgrade(answer, key)
            return Stream(sock), rest
        except (OSError, ValueError) as e:
            sock.close()
            raise TransportError(f"cannot open a session: {e}") from e
        except BaseException:
            sock.close()
            raise
