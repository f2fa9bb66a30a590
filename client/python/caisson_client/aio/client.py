"""Clients of a gateway for asyncio, the sandboxes that they acquire, and the files in these."""

from __future__ import annotations

import collections
from typing import (Any, AsyncIterator, Callable, Coroutine, Deque, Dict, Generator, Generic,
                    Optional, Tuple, TypeVar)

from .._calls import (Described, Entry, Gateway, Page, Reading, acquisition, base_of, entry_of,
                      page_of, query, segment)
from ..errors import CaissonError, NotFound
from ._http import Http
from .session import Session

T = TypeVar("T")


class Opening(Coroutine[Any, Any, T]):
    """What is awaited for a sandbox or session, or entered at once: `async with`."""

    def __init__(self, made: Coroutine[Any, Any, T]):
        self._made = made
        self._thing: Any = None

    def __await__(self) -> Generator[Any, Any, T]:
        return self._made.__await__()

    def send(self, value: Any) -> Any:
        return self._made.send(value)

    def throw(self, *exc: Any) -> Any:
        return self._made.throw(*exc)

    def close(self) -> None:
        self._made.close()

    async def __aenter__(self) -> T:
        self._thing = await self._made
        return await self._thing.__aenter__()

    async def __aexit__(self, *exc: Any) -> None:
        await self._thing.__aexit__(*exc)


class _Listed(AsyncIterator[T], Generic[T]):
    """Items, asked for by pages.  No generator: one that is left would have to be closed."""

    def __init__(self, http: Http, path: str, name: str, parameters: Dict[str, Any],
                 make: Callable[[Dict[str, Any]], T]):
        self._http, self._path, self._name, self._make = http, path, name, make
        self._parameters = parameters
        self._items: Deque[Dict[str, Any]] = collections.deque()
        self._last = False

    async def __anext__(self) -> T:
        while not self._items:
            if self._last:
                raise StopAsyncIteration
            answer = await self._http.call("GET", self._path + query(**self._parameters))
            items, cursor = page_of(answer, self._name)
            self._items.extend(items)
            self._parameters["cursor"] = cursor
            self._last = cursor is None
        return self._make(self._items.popleft())


class Client:
    """A gateway, and who we are there: all as for caisson_client.Client."""

    def __init__(self, url: str, token: Optional[str] = None,
                 certificate: Optional[Tuple[str, str]] = None, cafile: Optional[str] = None,
                 namespace: str = "default", timeout: float = 30.0):
        self.namespace = namespace
        self._http = Http(Gateway(url, token, certificate, cafile, timeout))

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *exc: Any) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes connections that are kept; sandboxes stay."""
        await self._http.close()

    def acquire(self, runtime: str, lease: Optional[float] = None,
                timeout: Optional[float] = None, queue: Optional[int] = None,
                idempotency_key: Optional[str] = None,
                traceparent: Optional[str] = None) -> Opening[Sandbox]:
        """A sandbox: one queue, one workspace.

        `lease`: released that long after the last heartbeat (OP-28); sessions that are open
        send them.  `timeout`: of each operation, `queue`: operations that may wait; both can only
        shrink the limits (OP-8).  The same `idempotency_key` again finds the same sandbox: that is
        how to ask again after a TransportError, or after the task was cancelled in it.
        """
        body, headers = acquisition(lease, timeout, queue, idempotency_key, traceparent)
        return Opening(self._sandbox("POST", runtime, "", body, headers))

    def sandbox(self, runtime: str, id: str) -> Opening[Sandbox]:
        """One that was acquired before."""
        return Opening(self._sandbox("GET", runtime, f"/{segment(id)}"))

    async def _sandbox(self, method: str, runtime: str, rest: str, *asked: Any) -> Sandbox:
        base = base_of(self.namespace, runtime)
        answer = await self._http.call(method, base + rest, *asked)
        return Sandbox(self._http, base, runtime, answer.json())

    def sandboxes(self, runtime: str, page: Optional[int] = None) -> AsyncIterator[Sandbox]:
        """Ours of this runtime, asked for by pages of so many."""
        base = base_of(self.namespace, runtime)
        return _Listed(self._http, base, "sessions", {"limit": page},
                       lambda item: Sandbox(self._http, base, runtime, item))


class Sandbox(Described):
    """Acquired, to be released: leaving its `async with` releases it, and lets what was admitted
    finish.  `info` is what the gateway last said of it."""

    def __init__(self, http: Http, base: str, runtime: str, info: Dict[str, Any]):
        super().__init__(base, runtime, info)
        self._http = http
        self.files = Files(http, self._path + "/files")

    async def __aenter__(self) -> Sandbox:
        return self

    async def __aexit__(self, kind: Any, *exc: Any) -> None:
        try:
            await self.release()
        except NotFound:
            pass  # its lease has ended, or it was released, long ago
        except CaissonError:
            if kind is None:
                raise

    async def show(self) -> Dict[str, Any]:
        """How it is now."""
        return self._take((await self._http.call("GET", self._path)).json())

    async def heartbeat(self) -> None:
        """Renews its lease (OP-28): sessions that are open do it by themselves."""
        await self._http.call("POST", self._path + "/heartbeat")

    async def release(self, immediate: bool = False, wait: bool = False,
                      timeout: Optional[float] = None) -> Dict[str, Any]:
        """No new work.  What was admitted is finished first, or with `immediate` canceled; a
        second call can turn the one into the other, never back (OP-32).  With `wait` returns once
        it is over, which can take longer than `timeout`: that is a TransportError, and it goes
        on."""
        path = self._release_path(immediate, wait)
        return self._take((await self._http.call("DELETE", path, timeout=timeout)).json())

    def operations(self, page: Optional[int] = None) -> AsyncIterator[Dict[str, Any]]:
        """Those that are still known, in the order of their admission."""
        return _Listed(self._http, self._path + "/operations", "operations", {"limit": page},
                       lambda item: item)

    async def operation(self, id: str) -> Dict[str, Any]:
        """What became of it so far: state, sequence of its last event, ..."""
        return (await self._http.call("GET", self._operation_path(id))).json()

    def open(self) -> Opening[Session]:
        """A connection for operations.  Opening one submits nothing (OP-20)."""
        return Opening(self._open())

    async def _open(self) -> Session:
        connection, rest = await self._http.upgrade(self._path + "/operations:ws")
        return Session(connection, rest, self.lease, self._http.timeout)


class Files:
    """What can be read of a workspace past the queue (OP-5).  Paths are relative to it."""

    def __init__(self, http: Http, base: str):
        self._http, self._base = http, base

    async def page(self, path: str = "", limit: Optional[int] = None,
                   cursor: Optional[str] = None) -> Page:
        """So many entries of a directory, 1 to 1000, 100 if left out."""
        asked = self._base + query(path=path or None, limit=limit, cursor=cursor)
        items, after = page_of(await self._http.call("GET", asked), "entries")
        return Page([entry_of(i) for i in items], after)

    def list(self, path: str = "", page: Optional[int] = None) -> AsyncIterator[Entry]:
        """All entries of a directory, by pages, in the order of the bytes of their names."""
        return _Listed(self._http, self._base, "entries", {"path": path or None, "limit": page},
                       entry_of)

    async def stat(self, path: str) -> Entry:
        """A file or directory; NotFound."""
        answer = await self._http.call("GET", f"{self._base}/stat{query(path=path)}")
        return entry_of(answer.json())

    async def read(self, path: str, offset: int = 0, length: Optional[int] = None) -> bytes:
        """`length` bytes from `offset`, fewer at the end of the file; without it all that
        follow.  A long file comes in several answers: who writes to it meanwhile is seen."""
        reading = Reading(offset, length)
        while reading.wants:
            reading.take(await self._http.request(
                "GET", f"{self._base}/content{query(path=path)}", headers=reading.headers))
        return reading.content
