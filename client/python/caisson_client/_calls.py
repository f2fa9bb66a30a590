"""What is asked of a gateway over HTTP, and what its answers mean: the parts of clients,
sandboxes and files that do not wait for anything."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Tuple
from urllib.parse import quote, urlencode

from ._http1 import Answer, refusal
from ._stream import Target
from .errors import CaissonError, ProtocolError, TransportError, Unavailable, UsageError

AGENT = "caisson-client-python"
IDLE_MAX = 20.0  # seconds for which a connection is kept for the next request
READ_MAX = 1 << 20  # bytes of a file in one answer
_NO_PART = re.compile(r"[/\\?#\x00-\x1f\x7f-\x9f]")


def query(**parameters: Any) -> str:
    """Of what is not None; UsageError for text that has no UTF-8."""
    given = {name: value for name, value in parameters.items() if value is not None}
    try:
        return "?" + urlencode(given, quote_via=quote, safe="") if given else ""
    except UnicodeEncodeError as e:
        raise UsageError(f"no UTF-8: {e}") from None


def segment(name: str) -> str:
    """A name as one part of a path, which no one on the way takes for another, and some do even if
    it is encoded: UsageError."""
    try:
        if name not in ("", ".", "..") and not _NO_PART.search(name):
            return quote(name, safe="")
    except (TypeError, UnicodeEncodeError):
        pass
    raise UsageError(f"{name!r}: no name that a path can hold")


def page_of(answer: Answer, name: str) -> Tuple[List[Dict[str, Any]], Optional[str]]:
    """The items of a page, and the cursor of the one behind it."""
    body = answer.json()
    items, cursor = body.get(name), body.get("next")
    if not isinstance(items, list) or not all(isinstance(i, dict) for i in items) or \
            not isinstance(cursor, (str, type(None))):
        raise ProtocolError(f"an answer without {name}")
    return items, cursor


class Gateway:
    """Where it is, how it is known, and who we are there."""

    def __init__(self, url: str, token: Optional[str], certificate: Optional[Tuple[str, str]],
                 cafile: Optional[str], timeout: float):
        self.target = Target(url)
        self.timeout = timeout
        self.headers = {"Host": self.target.authority, "User-Agent": AGENT,
                        "Accept-Encoding": "identity"}
        if token is not None:
            if not token or not token.isascii() or not token.isprintable() or " " in token:
                raise UsageError("token: expected printable ASCII without blanks")
            self.headers["Authorization"] = f"Bearer {token}"
        self.context: Optional[ssl.SSLContext] = None
        if self.target.tls:
            self.context = ssl.create_default_context(cafile=cafile)
            self.context.minimum_version = ssl.TLSVersion.TLSv1_2
            self.context.set_alpn_protocols(["http/1.1"])
            if certificate is not None:
                self.context.load_cert_chain(*certificate)
        elif certificate is not None or cafile is not None:
            raise UsageError("a certificate needs https://")


def base_of(namespace: str, runtime: str) -> str:
    """The path of a runtime's sandboxes."""
    return f"/v1/namespaces/{segment(namespace)}/runtimes/{segment(runtime)}/sessions"


def _milliseconds(seconds: Optional[float]) -> Optional[int]:
    return None if seconds is None else round(seconds * 1000)


def acquisition(lease: Optional[float], timeout: Optional[float], queue: Optional[int],
                idempotency_key: Optional[str],
                traceparent: Optional[str]) -> Tuple[Dict[str, Any], Dict[str, str]]:
    """Body and headers that ask for a sandbox."""
    body = {"leaseMs": _milliseconds(lease), "timeoutMs": _milliseconds(timeout), "queue": queue}
    headers = {"Idempotency-Key": idempotency_key, "traceparent": traceparent}
    return ({k: v for k, v in body.items() if v is not None},
            {k: v for k, v in headers.items() if v is not None})


class Described:
    """A sandbox as far as it is known: `info` is what the gateway last said of it."""

    def __init__(self, base: str, runtime: str, info: Dict[str, Any]):
        self.runtime = runtime
        self._take(info)
        self.id: str = info["id"]
        self._path = f"{base}/{segment(self.id)}"

    def _take(self, info: Dict[str, Any]) -> Dict[str, Any]:
        lease = info.get("leaseMs")
        if not isinstance(info.get("id"), str) or info["id"] in ("", ".", "..") or \
                not (lease is None or (type(lease) is int and lease > 0)):
            raise ProtocolError("an answer that is no sandbox")
        self.info = info
        self.lease: Optional[float] = None if lease is None else lease / 1000
        return info

    def __repr__(self) -> str:
        return f"<Sandbox {self.id} of {self.runtime}, {self.info.get('state')}>"

    def _release_path(self, immediate: bool, wait: bool) -> str:
        return self._path + query(mode="immediate" if immediate else "drain",
                                  wait="true" if wait else None)

    def _operation_path(self, id: str) -> str:
        return f"{self._path}/operations/{segment(id)}"


# ---- files -------------------------------------------------------------------------------


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


def entry_of(item: Dict[str, Any]) -> Entry:
    name, kind, size, at = (item.get(k) for k in ("name", "type", "size", "modifiedAt"))
    if not isinstance(name, str) or not isinstance(kind, str) or type(size) is not int or \
            not (at is None or type(at) is int):
        raise ProtocolError("an answer that is no entry")
    return Entry(name, kind, size, at)


class Reading:
    """A file that is read by parts: ask with `headers` and `take` the answer while `wants`."""

    def __init__(self, offset: int, length: Optional[int]):
        if offset < 0 or (length is not None and length < 0):
            raise UsageError("offset, length: expected 0 or more")
        self._offset, self._length = offset, length
        self._content = bytearray()
        self._ended = False

    @property
    def _want(self) -> int:
        if self._length is None:
            return READ_MAX
        return min(self._length - len(self._content), READ_MAX)

    @property
    def wants(self) -> bool:
        return not self._ended and self._want > 0

    @property
    def headers(self) -> Mapping[str, str]:
        first = self._offset + len(self._content)
        return {"Range": f"bytes={first}-{first + self._want - 1}"}

    @property
    def content(self) -> bytes:
        return bytes(self._content)

    def take(self, answer: Answer) -> None:
        if answer.status == 416:
            self._ended = True  # behind its end
            return
        if not 200 <= answer.status < 300:
            raise refusal(answer)
        if answer.status == 200 and self._offset + len(self._content) > 0:
            raise ProtocolError("an answer from the beginning, which nobody asked for")
        if len(answer.body) > self._want:
            raise ProtocolError("an answer that is too long")
        self._ended = not answer.body
        self._content += answer.body


# ---- following ---------------------------------------------------------------------------


class Patience:
    """With connections that are lost one after the other."""

    def __init__(self, attempts: int, pause: Optional[float]):
        self._attempts, self._pause = attempts, 0.2 if pause is None else pause
        self.failures = 0

    def wait_of(self, error: CaissonError) -> float:
        """Seconds to wait before the next; raises `error` if it is none that another connection
        could mend, or there were too many."""
        self.failures += 1
        if isinstance(error, ProtocolError) or \
                not isinstance(error, (TransportError, Unavailable)) or \
                self.failures >= self._attempts:
            raise error
        # As long as was asked for, if the gateway has.
        return max(getattr(error, "retry_after", None) or 0,
                   min(self._pause * 2 ** (self.failures - 1), 30))
