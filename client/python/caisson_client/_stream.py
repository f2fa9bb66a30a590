"""Sockets: how a gateway is reached, and reading and writing with deadlines."""

from __future__ import annotations

import ipaddress
import select
import selectors
import socket
import ssl
import threading
import time
from typing import Optional
from urllib.parse import unquote, urlsplit

from .errors import TransportError, UsageError


class Target:
    """Where a gateway is: https://HOST[:PORT], http://HOST[:PORT] of this machine,
    http+unix:///PATH, or the PATH of its socket."""

    def __init__(self, url: str):
        self.path: Optional[str] = None
        self.tls = False
        if url.startswith("/"):
            self.path, self.host, self.port = url, "localhost", 0
            return
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise UsageError(f"{url!r}: no URL") from None
        if parts.query or parts.fragment or parts.username is not None:
            raise UsageError(f"{url!r}: expected no more than scheme, host and port")
        if parts.scheme == "http+unix":
            self.path = unquote(parts.netloc + parts.path)
            self.host, self.port = "localhost", 0
            if not self.path.startswith("/"):
                raise UsageError(f"{url!r}: expected http+unix:///PATH")
            return
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"{url!r}: expected https://, http:// or http+unix://")
        if parts.path not in ("", "/"):
            raise UsageError(f"{url!r}: expected no path")
        self.tls = parts.scheme == "https"
        self.host, self.port = parts.hostname, port or (443 if self.tls else 80)
        if not self.tls and not _is_loopback(self.host):
            raise UsageError(f"{url!r}: without TLS a gateway of this machine only: use https://")

    @property
    def authority(self) -> str:
        """For the header Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port in (0, 443 if self.tls else 80) else f"{host}:{self.port}"

    def connect(self, context: Optional[ssl.SSLContext], timeout: float) -> socket.socket:
        """A connected socket with this timeout; TransportError."""
        try:
            if self.path is not None:
                sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                address = self.path
            else:
                return self._connect_tcp(context, timeout)
            try:
                sock.settimeout(timeout)
                sock.connect(address)
            except BaseException:
                sock.close()
                raise
            return sock
        except (OSError, ValueError) as e:
            raise TransportError(f"cannot reach the gateway: {e}") from e

    def _connect_tcp(self, context: Optional[ssl.SSLContext], timeout: float) -> socket.socket:
        sock = socket.create_connection((self.host, self.port), timeout)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is not None:
                return context.wrap_socket(sock, server_hostname=self.host)
        except BaseException:
            sock.close()
            raise
        return sock


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_readable(sock: socket.socket) -> bool:
    """Whether there is something to read, were it the end."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


class Stream:
    """A connected socket that two threads may use, one of them reading."""

    def __init__(self, sock: socket.socket):
        self._sock = sock
        self._lock = threading.Lock()  # OpenSSL wants one at a time
        self._writing = threading.Lock()  # a frame is in one piece
        sock.setblocking(False)

    def fileno(self) -> int:
        return self._sock.fileno()

    def read(self, n: int) -> Optional[bytes]:
        """What has arrived, b"" at the end; None if nothing has.  TransportError."""
        try:
            with self._lock:
                return self._sock.recv(n)
        except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None
        except ssl.SSLZeroReturnError:
            return b""
        except (OSError, ValueError) as e:
            raise TransportError(f"the connection failed: {e}") from e

    def write(self, data: bytes, timeout: float) -> None:
        """All of it; TransportError, and what was written of it is unknown."""
        deadline = time.monotonic() + timeout
        rest = memoryview(data)
        if not self._writing.acquire(timeout=timeout):
            raise TransportError("the gateway takes nothing")
        try:
            while rest:
                rest = rest[self._write_some(rest, deadline):]
        except (OSError, ValueError) as e:
            raise TransportError(f"the connection failed: {e}") from e
        finally:
            self._writing.release()

    def _write_some(self, rest: memoryview, deadline: float) -> int:
        try:
            with self._lock:
                return self._sock.send(rest)
        except (BlockingIOError, InterruptedError, ssl.SSLWantWriteError):
            self._wait(selectors.EVENT_WRITE, deadline)
        except ssl.SSLWantReadError:
            self._wait(selectors.EVENT_READ, deadline)
        return 0

    def _wait(self, events: int, deadline: float) -> None:
        left = deadline - time.monotonic()
        with selectors.DefaultSelector() as selector:
            selector.register(self._sock, events)
            if left <= 0 or not selector.select(left):
                raise TransportError("the gateway takes nothing")

    def shutdown(self) -> None:
        """Ends whatever another thread waits for here."""
        try:
            # Of the socket itself, beneath TLS: no lock is needed.
            socket.socket.shutdown(self._sock, socket.SHUT_RDWR)
        except OSError:
            pass  # it has ended already

    def close(self) -> None:
        self.shutdown()
        self._sock.close()
