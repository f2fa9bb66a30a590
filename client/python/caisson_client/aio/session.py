"""A session for asyncio: one connection to a sandbox, for one operation after the other."""

from __future__ import annotations

import asyncio
from typing import Any, AsyncIterator, Coroutine, Dict, Optional

from .. import _websocket
from .._exchange import GONE, HEARTBEAT, Exchange, heartbeat_of
from .._operations import Operations
from ..errors import CaissonError, TransportError
from ..events import Event
from ._connection import Connection


class Session(Operations[Coroutine[Any, Any, str]]):
    """Made by `Sandbox.open`.  Leaving its `async with` closes it, which only detaches: what was
    admitted goes on (OP-26).

    The loop answers the gateway's pings, and renews the lease (OP-29), whatever tasks do, as long
    as none blocks it.  It stops reading while 4 MiB of events wait to be taken; a gateway that
    cannot send for long closes the connection, which is a TransportError here, and no loss: see
    `resume`.

    A `send` whose waiting was cancelled is under way all the same: `receive` goes on with it, and
    begins with Accepted, or raises why it was refused.
    """

    def __init__(self, connection: Connection, data: bytes, lease: Optional[float],
                 timeout: float):
        self._connection, self._timeout = connection, timeout
        self._exchange = Exchange()
        self._beat = heartbeat_of(lease)
        self._beat_timer: Optional[asyncio.TimerHandle] = None
        self._was_blocked = False  # at the last heartbeat
        connection.on_data, connection.on_change = self._on_data, self._on_change
        self._start_beat()
        self._on_data(data)
        self._on_change()  # it may be lost already

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(self, *exc: Any) -> None:
        await self.close()

    @property
    def operation(self) -> Optional[str]:
        """The operation that was last sent or resumed here, once it has its id."""
        return self._exchange.operation

    @property
    def sequence(self) -> int:
        """Of its last event that was handed out: `send` hands out the first."""
        return self._exchange.taken

    # ---- what is asked -------------------------------------------------------------------

    async def _send(self, name: str, payload: Dict[str, Any],
                    idempotency_key: Optional[str] = None,
                    traceparent: Optional[str] = None) -> str:
        await self._write(self._exchange.send(name, payload, idempotency_key, traceparent))
        try:
            return (await self._next(self._timeout)).operation
        except TimeoutError:
            # Whether it was admitted is unknown, and so is what comes next here.
            self._fail(TransportError("the gateway does not answer"))
            raise self._exchange.lost() from None

    async def resume(self, operation: str, after: int = 0) -> None:
        """Goes on with an operation of this sandbox that was sent before, here or elsewhere:
        `receive` then hands out every event behind the sequence `after`, and names the ones
        that are no longer kept in a Gap.  What is wrong with it, `receive` raises."""
        await self._write(self._exchange.resume(operation, after))

    async def cancel(self, operation: str) -> None:
        """Asks for its end, which its events tell; any task may.  Only the operation that is
        under way here can be meant (OP-25)."""
        frame = self._exchange.cancel(operation)
        if frame is not None:
            await self._write(frame)

    async def _write(self, frame: bytes) -> None:
        self._connection.write(frame)
        try:
            await self._connection.written()
        except TransportError as e:
            raise self._exchange.lost() from e

    # ---- what comes ----------------------------------------------------------------------

    def receive(self, timeout: Optional[float] = None) -> AsyncIterator[Event]:
        """The events of the operation that is under way, up to its terminal one; in order, each
        once.  Waits for each as long as it takes, or raises TimeoutError after `timeout` and can
        be asked again.  An iteration that is left, or whose task was cancelled, can be taken up
        by another.

        A TransportError has the sequence of the last event that was handed out: to be resumed
        behind it, on another session.
        """
        return _Events(self, timeout)

    async def _next(self, timeout: Optional[float]) -> Event:
        loop = self._connection.loop
        deadline = None if timeout is None else loop.time() + timeout
        while True:
            event = self._exchange.take()
            if event is not None:
                self._read_on()
                return event
            if deadline is not None and loop.time() >= deadline:
                raise TimeoutError("no event has come")
            await self._connection.changed.wait(deadline)

    # ---- the end -------------------------------------------------------------------------

    async def close(self) -> None:
        """Closes the connection and nothing else (OP-26); again is no error."""
        if not self._exchange.over:
            self._exchange.closing = True
            self._connection.write(_websocket.encode_close(1000))
        self._end()
        await self._connection.closed()

    def _end(self) -> None:
        self._exchange.closing = True
        if self._beat_timer is not None:
            self._beat_timer.cancel()
            self._beat_timer = None
        self._connection.finish(GONE)
        self._connection.changed.notify()

    def _fail(self, error: CaissonError) -> None:
        if not self._exchange.closing:
            self._exchange.fail(error)
        self._end()

    # ---- what the loop calls -------------------------------------------------------------

    def _on_data(self, data: bytes) -> None:
        try:
            for message in self._exchange.parse(data):
                answer = self._exchange.on_message(*message)
                if answer is not None:
                    self._connection.write(answer)
                if self._exchange.over:
                    self._end()
                    return
        except CaissonError as e:
            self._fail(e)
        self._read_on()
        self._connection.changed.notify()

    def _on_change(self) -> None:
        if self._connection.lost is not None:
            self._fail(self._connection.lost)
        self._read_on()
        self._connection.changed.notify()

    def _read_on(self) -> None:
        # Who takes no answers is asked nothing more.
        self._connection.read_on(not self._exchange.full and not self._connection.blocked)

    def _start_beat(self) -> None:
        if self._beat is not None:
            self._beat_timer = self._connection.loop.call_later(self._beat, self._on_beat)

    def _on_beat(self) -> None:
        if self._connection.blocked and self._was_blocked:
            self._fail(TransportError("the gateway takes nothing"))
            self._connection.abort()
            return
        self._was_blocked = self._connection.blocked
        self._connection.write(_websocket.encode(_websocket.TEXT, HEARTBEAT))
        self._start_beat()


class _Events(AsyncIterator[Event]):
    """No generator: one that is left would have to be closed."""

    def __init__(self, session: Session, timeout: Optional[float]):
        self._session, self._timeout = session, timeout
        self._ended = False

    async def __anext__(self) -> Event:
        if self._ended:
            raise StopAsyncIteration
        event = await self._session._next(self._timeout)
        self._ended = event.terminal
        return event
