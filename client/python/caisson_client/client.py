"""Clients of a gateway, the sandboxes that they acquire, and the files in these."""

from __future__ import annotations

from typing import Any, Dict, Iterator, Optional, Tuple

from ._calls import (Described, Entry, Gateway, Page, Reading, acquisition, base_of, entry_of,
                     page_of, query, segment)
from ._http import Http
from .errors import CaissonError, NotFound
from .session import Session


class Client:
    """A gateway, and who we are there: a bearer token, or a client certificate.

    `url`: https://HOST[:PORT], http://HOST[:PORT] of this machine, http+unix:///PATH, or the path
    of a gateway's socket.  `certificate`: files of a certificate and its key, in PEM.  `cafile`:
    by which authorities the gateway is known, in PEM; without it those of the system.  `timeout`
    is for a connection or an answer.  Opens nothing before it is asked to.
    """

    def __init__(self, url: str, token: Optional[str] = None,
                 certificate: Optional[Tuple[str, str]] = None, cafile: Optional[str] = None,
                 namespace: str = "default", timeout: float = 30.0):
        self.namespace = namespace
        self._http = Http(Gateway(url, token, certificate, cafile, timeout))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()

    def close(self) -> None:
        """Closes connections that are kept; sandboxes stay."""
        self._http.close()

    def acquire(self, runtime: str, lease: Optional[float] = None,
                timeout: Optional[float] = None, queue: Optional[int] = None,
                idempotency_key: Optional[str] = None,
                traceparent: Optional[str] = None) -> Sandbox:
        """A sandbox: one queue, one workspace.

        `lease`: released that long after the last heartbeat (OP-28); sessions that are open
        send them.  `timeout`: of each operation, `queue`: operations that may wait; both can only
        shrink the limits (OP-8).  The same `idempotency_key` again finds the same sandbox: that is
        how to ask again after a TransportError.
        """
        base = base_of(self.namespace, runtime)
        body, headers = acquisition(lease, timeout, queue, idempotency_key, traceparent)
        answer = self._http.call("POST", base, body, headers)
        return Sandbox(self._http, base, runtime, answer.json())

    def sandbox(self, runtime: str, id: str) -> Sandbox:
        """One that was acquired before."""
        base = base_of(self.namespace, runtime)
        answer = self._http.call("GET", f"{base}/{segment(id)}")
        return Sandbox(self._http, base, runtime, answer.json())

    def sandboxes(self, runtime: str, page: Optional[int] = None) -> Iterator[Sandbox]:
        """Ours of this runtime, asked for by pages of so many."""
        base = base_of(self.namespace, runtime)
        for item in _listed(self._http, base, "sessions", page):
            yield Sandbox(self._http, base, runtime, item)


def _listed(http: Http, path: str, name: str, limit: Optional[int]) -> Iterator[Dict[str, Any]]:
    cursor = None
    while True:
        items, cursor = page_of(http.call("GET", path + query(limit=limit, cursor=cursor)), name)
        yield from items
        if cursor is None:
            return


class Sandbox(Described):
    """Acquired, to be released: leaving its `with` releases it, and lets what was admitted
    finish.  `info` is what the gateway last said of it."""

    def __init__(self, http: Http, base: str, runtime: str, info: Dict[str, Any]):
        super().__init__(base, runtime, info)
        self._http = http
        self.files = Files(http, self._path + "/files")

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, kind: Any, *exc: Any) -> None:
        try:
            self.release()
        except NotFound:
            pass  # its lease has ended, or it was released, long ago
        except CaissonError:
            if kind is None:
                raise

    def show(self) -> Dict[str, Any]:
        """How it is now."""
        return self._take(self._http.call("GET", self._path).json())

    def heartbeat(self) -> None:
        """Renews its lease (OP-28): sessions that are open do it by themselves."""
        self._http.call("POST", self._path + "/heartbeat")

    def release(self, immediate: bool = False, wait: bool = False,
                timeout: Optional[float] = None) -> Dict[str, Any]:
        """No new work.  What was admitted is finished first, or with `immediate` canceled; a
        second call can turn the one into the other, never back (OP-32).  With `wait` returns once
        it is over, which can take longer than `timeout`: that is a TransportError, and it goes
        on."""
        path = self._release_path(immediate, wait)
        return self._take(self._http.call("DELETE", path, timeout=timeout).json())

    def operations(self, page: Optional[int] = None) -> Iterator[Dict[str, Any]]:
        """Those that are still known, in the order of their admission."""
        return _listed(self._http, self._path + "/operations", "operations", page)

    def operation(self, id: str) -> Dict[str, Any]:
        """What became of it so far: state, sequence of its last event, ..."""
        return self._http.call("GET", self._operation_path(id)).json()

    def open(self) -> Session:
        """A connection for operations.  Opening one submits nothing (OP-20)."""
        stream, rest = self._http.upgrade(self._path + "/operations:ws")
        return Session(stream, rest, self.lease, self._http.timeout)


class Files:
    """What can be read of a workspace past the queue (OP-5).  Paths are relative to it."""

    def __init__(self, http: Http, base: str):
        self._http, self._base = http, base

    def page(self, path: str = "", limit: Optional[int] = None,
             cursor: Optional[str] = None) -> Page:
        """So many entries of a directory, 1 to 1000, 100 if left out."""
        asked = self._base + query(path=path or None, limit=limit, cursor=cursor)
        items, after = page_of(self._http.call("GET", asked), "entries")
        return Page([entry_of(i) for i in items], after)

    def list(self, path: str = "", page: Optional[int] = None) -> Iterator[Entry]:
        """All entries of a directory, by pages, in the order of the bytes of their names."""
        cursor = None
        while True:
            found = self.page(path, page, cursor)
            yield from found.entries
            cursor = found.next
            if cursor is None:
                return

    def stat(self, path: str) -> Entry:
        """A file or directory; NotFound."""
        return entry_of(self._http.call("GET", f"{self._base}/stat{query(path=path)}").json())

    def read(self, path: str, offset: int = 0, length: Optional[int] = None) -> bytes:
        """`length` bytes from `offset`, fewer at the end of the file; without it all that
        follow.  A long file comes in several answers: who writes to it meanwhile is seen."""
        reading = Reading(offset, length)
        while reading.wants:
            reading.take(self._http.request("GET", f"{self._base}/content{query(path=path)}",
                                            headers=reading.headers))
        return reading.content
