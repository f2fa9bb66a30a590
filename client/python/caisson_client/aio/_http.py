"""Requests to a gateway in a loop of asyncio's: one answer each, and the upgrade to a WebSocket."""

from __future__ import annotations

import asyncio
from typing import Any, Dict, Mapping, Optional, Tuple

from .. import _http1, _websocket
from .._calls import IDLE_MAX, Gateway
from .._exchange import GONE
from .._http1 import Answer
from ..errors import CaissonError, TransportError
from ._connection import Connection, connect


async def _ask(connection: Connection, data: bytes, timeout: float) -> Tuple[Answer, bytearray]:
    """The answer, and what is behind it, which grows until `on_data` is another.  CaissonError;
    but for an answer the connection is aborted."""
    parser = _http1.Parser()
    answer: Optional[Answer] = None
    failure: Optional[CaissonError] = None

    def on_data(data: bytes) -> None:
        nonlocal answer, failure
        if answer is not None:
            parser.rest += data
            return
        try:
            answer = parser.feed(data)
        except CaissonError as e:
            failure = e
            connection.abort()
        connection.changed.notify()

    connection.on_data = on_data
    deadline = connection.loop.time() + timeout
    try:
        connection.write(data)
        while answer is None and failure is None and connection.lost is None:
            if connection.loop.time() >= deadline:
                failure = TransportError("the gateway does not answer")
                break
            await connection.changed.wait(deadline)
        if answer is None:
            raise failure or connection.lost or parser.end()
    except BaseException:
        connection.abort()
        raise
    return answer, parser.rest


class Http:
    """One connection that is kept between requests, and others where tasks ask at once."""

    def __init__(self, gateway: Gateway):
        self.timeout = gateway.timeout
        self._gateway = gateway
        self._kept: Optional[Tuple[Connection, float]] = None

    async def close(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            kept[0].finish(GONE)
            await kept[0].closed()

    async def _take(self, timeout: float) -> Connection:
        kept, self._kept = self._kept, None
        if kept is not None:
            connection, since = kept
            loop = asyncio.get_running_loop()
            if connection.loop is loop and not connection.stale and loop.time() - since < IDLE_MAX:
                return connection
            if not connection.loop.is_closed():
                connection.abort()
        return await connect(self._gateway, timeout)

    async def request(self, method: str, path: str, body: Optional[Dict[str, Any]] = None,
                      headers: Optional[Mapping[str, str]] = None,
                      timeout: Optional[float] = None) -> Answer:
        """The answer, whatever its status; TransportError.  Asks once."""
        timeout = self.timeout if timeout is None else timeout
        data = _http1.request(method, path, {**self._gateway.headers, **(headers or {})}, body)
        connection = await self._take(timeout)
        answer, rest = await _ask(connection, data, timeout)
        if rest or not answer.keeps or connection.lost is not None or self._kept is not None:
            connection.finish(GONE)
        else:
            connection.be_idle()
            self._kept = connection, connection.loop.time()
        return answer

    async def call(self, method: str, path: str, body: Optional[Dict[str, Any]] = None,
                   headers: Optional[Mapping[str, str]] = None,
                   timeout: Optional[float] = None) -> Answer:
        """The answer if it is 2xx; the typed error otherwise."""
        return _http1.accepted(await self.request(method, path, body, headers, timeout))

    async def upgrade(self, path: str) -> Tuple[Connection, bytes]:
        """A connection that speaks WebSocket, and what has arrived of it already."""
        key = _websocket.new_key()
        data = _http1.upgrade_request(path, self._gateway.headers, key)
        connection = await connect(self._gateway, self.timeout)
        answer, rest = await _ask(connection, data, self.timeout)
        try:
            _http1.check_upgrade(answer, key)
        except BaseException:
            connection.abort()
            raise
        return connection, bytes(rest)
