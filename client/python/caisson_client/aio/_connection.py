"""A connection to a gateway in a loop of asyncio's.

It has no task: what arrives is given on at once, and who waits looks again whenever something has
changed.  So a waiting can be cancelled at any moment, and nothing is lost or left half done.
"""

from __future__ import annotations

import asyncio
from typing import Any, Callable, Coroutine, Optional, Set, Tuple

from .._calls import Gateway
from .._stream import is_readable
from ..errors import TransportError


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Signal:
    """Where coroutines wait until something has changed; what, they look themselves."""

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self._loop = loop
        self._waiting: Set[asyncio.Future[None]] = set()

    def notify(self) -> None:
        for future in self._waiting:
            _wake(future)

    async def wait(self, deadline: Optional[float] = None) -> None:
        """Until it is notified, or, by the loop's clock, until `deadline`."""
        future = self._loop.create_future()
        timer = None if deadline is None else self._loop.call_at(deadline, _wake, future)
        self._waiting.add(future)
        try:
            await future
        finally:
            self._waiting.discard(future)
            if timer is not None:
                timer.cancel()


class Connection(asyncio.Protocol):
    """Made by `connect`.  `on_data` gets what arrives; `changed` is notified of all else."""

    def __init__(self, loop: asyncio.AbstractEventLoop, stuck_after: float):
        self.loop = loop
        self.changed = Signal(loop)
        self.on_data: Callable[[bytes], None] = self._on_unasked
        self.on_change: Callable[[], None] = self.changed.notify
        self.lost: Optional[TransportError] = None  # nothing comes any more, for this reason
        self.blocked = False  # something is written that was not taken yet
        self._stuck_after = stuck_after
        self._timer: Optional[asyncio.TimerHandle] = None  # then it is aborted
        self._reading = True
        self._closed = False
        self._transport: Any = None

    # ---- what asyncio calls --------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        # Blocked is when the kernel takes no more.  Not 0, which with TLS is blocked always.
        self._transport.set_write_buffer_limits(high=1, low=0)

    def data_received(self, data: bytes) -> None:
        self.on_data(data)

    def eof_received(self) -> None:
        self._lose(TransportError("the gateway closed the connection"))

    def connection_lost(self, exc: Optional[Exception]) -> None:
        self._closed = True
        self._stop_timer()
        self._lose(TransportError(f"the connection failed: {exc}" if exc is not None else
                                  "the gateway closed the connection"))

    def pause_writing(self) -> None:
        self.blocked = True
        if self._timer is None:
            self._timer = self.loop.call_later(self._stuck_after, self._on_stuck)
        self.on_change()

    def resume_writing(self) -> None:
        self.blocked = False
        if not self._transport.is_closing():
            self._stop_timer()
        self.on_change()

    # ---- what we do ----------------------------------------------------------------------

    def _lose(self, error: TransportError) -> None:
        if self.lost is None:
            self.lost = error
        self.on_change()

    def _on_unasked(self, data: bytes) -> None:
        self._lose(TransportError("the gateway said what nobody asked for"))
        self.abort()

    def _on_stuck(self) -> None:
        self._timer = None
        self._lose(TransportError("the gateway takes nothing"))
        self.abort()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def stale(self) -> bool:
        """Whether the other end has closed it, or has said what nobody asked for, even if the
        loop has not come to look."""
        return self.lost is not None or is_readable(self._transport.get_extra_info("socket"))

    def be_idle(self) -> None:
        """Nothing is asked now."""
        self.on_data = self._on_unasked

    def write(self, data: bytes) -> None:
        """All of it, sooner or later, or the connection is lost."""
        if not self._transport.is_closing():
            self._transport.write(data)

    async def written(self) -> None:
        """Until what was written has been taken; TransportError."""
        while self.blocked and self.lost is None:
            await self.changed.wait()
        if self.lost is not None:
            raise self.lost

    def read_on(self, reading: bool) -> None:
        """Whether more is read, or left with the gateway."""
        if reading != self._reading and not self._transport.is_closing():
            self._reading = reading
            if reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def finish(self, seconds: float) -> None:
        """Closes it when what was written has been taken, or so many seconds later."""
        if not self._closed and not self._transport.is_closing():
            self._transport.close()
            self._stop_timer()
            self._timer = self.loop.call_later(seconds, self._on_stuck)

    def abort(self) -> None:
        if not self._closed:
            self._transport.abort()

    async def closed(self) -> None:
        """Until that has happened; at once if that is cancelled."""
        try:
            while not self._closed:
                await self.changed.wait()
        except BaseException:
            self.abort()
            raise


# ---- making one --------------------------------------------------------------------------

_Made = Tuple[asyncio.BaseTransport, Connection]


async def _abandon(task: asyncio.Task[_Made]) -> None:
    """Ends it, and closes what it has made; only then lets a cancellation through."""
    cancelled = False
    task.cancel()
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    if not task.cancelled() and task.exception() is None:
        task.result()[1].abort()
    if cancelled:
        raise asyncio.CancelledError


async def connect(gateway: Gateway, timeout: float) -> Connection:
    """A new one; TransportError.  Within `timeout` seconds."""
    loop = asyncio.get_running_loop()
    target = gateway.target

    def make() -> Connection:
        return Connection(loop, gateway.timeout)

    making: Coroutine[Any, Any, _Made]
    if target.path is not None:
        making = loop.create_unix_connection(make, target.path)
    else:
        making = loop.create_connection(
            make, target.host, target.port, ssl=gateway.context,
            server_hostname=target.host if gateway.context is not None else None)
    # Not with wait_for(), which before 3.12 loses a cancellation, or the connection.
    task = loop.create_task(making)
    try:
        await asyncio.wait({task}, timeout=timeout)
    except asyncio.CancelledError:
        await _abandon(task)
        raise
    if not task.done():
        await _abandon(task)
        raise TransportError("cannot reach the gateway: it does not answer")
    try:
        return task.result()[1]
    except (OSError, ValueError) as e:
        raise TransportError(f"cannot reach the gateway: {e}") from e
