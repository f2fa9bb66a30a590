"""Clients of a gateway, the sandboxes that they acquire, and the files in these."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Optional, Tuple
from urllib.parse import quote, urlencode

from ._http import Answer, Http, refusal
from ._stream import Target
from .errors import CaissonError, NotFound, ProtocolError, UsageError
from .session import Session

READ_MAX = 1 << 20  # bytes of a file in one answer


def milliseconds(name: str, seconds: Optional[float]) -> Dict[str, int]:
    """{name: ...}, or nothing if there is no time."""
    return {} if seconds is None else {name: round(seconds * 1000)}


def _page(answer: Answer, name: str) -> Tuple[List[Dict[str, Any]], Optional[str]]:
    body = answer.json()
    items, cursor = body.get(name), body.get("next")
    if not isinstance(items, list) or not all(isinstance(i, dict) for i in items) or \
            not isinstance(cursor, (str, type(None))):
        raise ProtocolError(f"an answer without {name}")
    return items, cursor


def _query(**parameters: Any) -> str:
    given = {name: value for name, value in parameters.items() if value is not None}
    return "?" + urlencode(given, quote_via=quote, safe="") if given else ""


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
        target = Target(url)
        headers = {}
        if token is not None:
            if not token or not token.isascii() or not token.isprintable() or " " in token:
                raise UsageError("token: expected printable ASCII without blanks")
            headers["Authorization"] = f"Bearer {token}"
        context = None
        if target.tls:
            context = ssl.create_default_context(cafile=cafile)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.set_alpn_protocols(["http/1.1"])
            if certificate is not None:
                context.load_cert_chain(*certificate)
        elif certificate is not None or cafile is not None:
            raise UsageError("a certificate needs https://")
        self.namespace = namespace
        self._http = Http(target, context, headers, timeout)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()

    def close(self) -> None:
        """Closes connections that are kept; sandboxes stay."""
        self._http.close()

    def _base(self, runtime: str) -> str:
        return (f"/v1/namespaces/{quote(self.namespace, safe='')}"
                f"/runtimes/{quote(runtime, safe='')}/sessions")

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
        body = {**milliseconds("leaseMs", lease), **milliseconds("timeoutMs", timeout)}
        if queue is not None:
            body["queue"] = queue
        headers = {}
        if idempotency_key is not None:
            headers["Idempotency-Key"] = idempotency_key
        if traceparent is not None:
            headers["traceparent"] = traceparent
        answer = self._http.call("POST", self._base(runtime), body, headers)
        return Sandbox(self._http, self._base(runtime), runtime, answer.json())

    def sandbox(self, runtime: str, id: str) -> Sandbox:
        """One that was acquired before."""
        answer = self._http.call("GET", f"{self._base(runtime)}/{quote(id, safe='')}")
        return Sandbox(self._http, self._base(runtime), runtime, answer.json())

    def sandboxes(self, runtime: str, page: Optional[int] = None) -> Iterator[Sandbox]:
        """Ours of this runtime, asked for by pages of so many."""
        cursor = None
        while True:
            answer = self._http.call("GET", self._base(runtime) + _query(limit=page, cursor=cursor))
            items, cursor = _page(answer, "sessions")
            for item in items:
                yield Sandbox(self._http, self._base(runtime), runtime, item)
            if cursor is None:
                return


class Sandbox:
    """Acquired, to be released: leaving its `with` releases it, and lets what was admitted
    finish.  `info` is what the gateway last said of it."""

    def __init__(self, http: Http, base: str, runtime: str, info: Dict[str, Any]):
        self._http, self._base = http, base
        self.runtime = runtime
        self._take(info)
        self.id: str = info["id"]
        self.files = Files(http, self._path("/files"))

    def _take(self, info: Dict[str, Any]) -> Dict[str, Any]:
        lease = info.get("leaseMs")
        if not isinstance(info.get("id"), str) or not info["id"] or \
                not (lease is None or (type(lease) is int and lease > 0)):
            raise ProtocolError("an answer that is no sandbox")
        self.info = info
        self.lease: Optional[float] = None if lease is None else lease / 1000
        return info

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

    def __repr__(self) -> str:
        return f"<Sandbox {self.id} of {self.runtime}, {self.info.get('state')}>"

    def _path(self, rest: str = "") -> str:
        return f"{self._base}/{quote(self.id, safe='')}{rest}"

    def show(self) -> Dict[str, Any]:
        """How it is now."""
        return self._take(self._http.call("GET", self._path()).json())

    def heartbeat(self) -> None:
        """Renews its lease (OP-28): sessions that are open do it by themselves."""
        self._http.call("POST", self._path("/heartbeat"))

    def release(self, immediate: bool = False, wait: bool = False,
                timeout: Optional[float] = None) -> Dict[str, Any]:
        """No new work.  What was admitted is finished first, or with `immediate` canceled; a
        second call can turn the one into the other, never back (OP-32).  With `wait` returns once
        it is over, which can take longer than `timeout`: that is a TransportError, and it goes
        on."""
        query = _query(mode="immediate" if immediate else "drain", wait="true" if wait else None)
        return self._take(
            self._http.call("DELETE", self._path() + query, timeout=timeout).json())

    def operations(self, page: Optional[int] = None) -> Iterator[Dict[str, Any]]:
        """Those that are still known, in the order of their admission."""
        cursor = None
        while True:
            query = _query(limit=page, cursor=cursor)
            answer = self._http.call("GET", self._path("/operations") + query)
            items, cursor = _page(answer, "operations")
            yield from items
            if cursor is None:
                return

    def operation(self, id: str) -> Dict[str, Any]:
        """What became of it so far: state, sequence of its last event, ..."""
        return self._http.call("GET", self._path(f"/operations/{quote(id, safe='')}")).json()

    def open(self) -> Session:
        """A connection for operations.  Opening one submits nothing (OP-20)."""
        stream, rest = self._http.upgrade(self._path("/operations:ws"))
        return Session(stream, rest, self.lease, self._http.timeout)


@dataclass(frozen=True)
class Entry:
    """Of a workspace: `type` is file, directory, symlink or other; `modified_at` is in ms since
    1970, None in a listing."""

    name: str
    type: str
    size: int
    modified_at: Optional[int] = None


@dataclass(frozen=True)
class Page:
    entries: List[Entry]
    next: Optional[str]  # cursor of the page behind it; None: that was all


def _entry(item: Dict[str, Any]) -> Entry:
    name, kind, size, at = (item.get(k) for k in ("name", "type", "size", "modifiedAt"))
    if not isinstance(name, str) or not isinstance(kind, str) or type(size) is not int or \
            not (at is None or type(at) is int):
        raise ProtocolError("an answer that is no entry")
    return Entry(name, kind, size, at)


class Files:
    """What can be read of a workspace past the queue (OP-5).  Paths are relative to it."""

    def __init__(self, http: Http, base: str):
        self._http, self._base = http, base

    def page(self, path: str = "", limit: Optional[int] = None,
             cursor: Optional[str] = None) -> Page:
        """So many entries of a directory, 1 to 1000, 100 if left out."""
        query = _query(path=path or None, limit=limit, cursor=cursor)
        items, after = _page(self._http.call("GET", self._base + query), "entries")
        return Page([_entry(i) for i in items], after)

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
        return _entry(self._http.call("GET", f"{self._base}/stat{_query(path=path)}").json())

    def read(self, path: str, offset: int = 0, length: Optional[int] = None) -> bytes:
        """`length` bytes from `offset`, fewer at the end of the file; without it all that
        follow.  A long file comes in several answers: who writes to it meanwhile is seen."""
        if offset < 0 or (length is not None and length < 0):
            raise UsageError("offset, length: expected 0 or more")
        content = bytearray()
        while length is None or len(content) < length:
            want = READ_MAX if length is None else min(length - len(content), READ_MAX)
            more = self._slice(path, offset + len(content), want)
            content += more
            if not more:
                break
        return bytes(content)

    def _slice(self, path: str, offset: int, want: int) -> bytes:
        answer = self._http.request(
            "GET", f"{self._base}/content{_query(path=path)}",
            headers={"Range": f"bytes={offset}-{offset + want - 1}"})
        if answer.status == 416:
            return b""  # behind its end
        if not 200 <= answer.status < 300:
            raise refusal(answer)
        if answer.status == 200 and offset > 0:
            raise ProtocolError("an answer from the beginning, which nobody asked for")
        if len(answer.body) > want:
            raise ProtocolError("an answer that is too long")
        return answer.body
