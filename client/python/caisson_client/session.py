"""A session: one connection to a sandbox, for one operation after the other."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from typing import Any, Dict, Iterator, Optional

from . import _websocket
from ._exchange import GONE, HEARTBEAT, Exchange, heartbeat_of
from ._operations import Operations
from ._stream import Stream
from .errors import CaissonError, TransportError
from .events import Event


class Session(Operations[str]):
    """Made by `Sandbox.open`.  Leaving its `with` closes it, which only detaches: what was
    admitted goes on (OP-26).

    A thread of its own reads, answers the gateway's pings, and renews the lease (OP-29).  It
    stops reading while 4 MiB of events wait to be taken; a gateway that cannot send for long
    closes the connection, which is a TransportError here, and no loss: see `resume`.
    """

    def __init__(self, stream: Stream, data: bytes, lease: Optional[float], timeout: float):
        self._stream, self._timeout = stream, timeout
        self._beat = heartbeat_of(lease)
        self._cond = threading.Condition()
        self._exchange = Exchange()  # belongs to it
        self._wake_r, self._wake_w = socket.socketpair()
        self._wake_w.setblocking(False)
        self._wake_r.setblocking(False)
        self._thread = threading.Thread(
            target=self._run, args=(data,), name="caisson-session", daemon=True)
        self._thread.start()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()

    @property
    def operation(self) -> Optional[str]:
        """The operation that was last sent or resumed here."""
        return self._exchange.operation

    @property
    def sequence(self) -> int:
        """Of its last event that was handed out: `send` hands out the first."""
        return self._exchange.taken

    # ---- what is asked -------------------------------------------------------------------

    def _send(self, name: str, payload: Dict[str, Any], idempotency_key: Optional[str] = None,
              traceparent: Optional[str] = None) -> str:
        with self._cond:
            frame = self._exchange.send(name, payload, idempotency_key, traceparent)
        self._write(frame)
        try:
            return self._next(self._timeout).operation
        except TimeoutError:
            # Whether it was admitted is unknown, and so is what comes next here.
            with self._cond:
                self._fail(TransportError("the gateway does not answer"))
                error = self._exchange.lost()
        except TransportError as e:
            error = e
        self._end()
        raise error

    def resume(self, operation: str, after: int = 0) -> None:
        """Goes on with an operation of this sandbox that was sent before, here or elsewhere:
        `receive` then hands out every event behind the sequence `after`, and names the ones
        that are no longer kept in a Gap.  What is wrong with it, `receive` raises."""
        with self._cond:
            frame = self._exchange.resume(operation, after)
        self._write(frame)

    def cancel(self, operation: str) -> None:
        """Asks for its end, which its events tell; may be called from another thread.  Only the
        operation that is under way here can be meant (OP-25)."""
        with self._cond:
            frame = self._exchange.cancel(operation)
        if frame is not None:
            self._write(frame)

    # ---- what comes ----------------------------------------------------------------------

    def receive(self, timeout: Optional[float] = None) -> Iterator[Event]:
        """The events of the operation that is under way, up to its terminal one; in order, each
        once.  Waits for each as long as it takes, or raises TimeoutError after `timeout` and can
        be asked again.  An iteration that is left can be taken up by another.

        A TransportError has the sequence of the last event that was handed out: to be resumed
        behind it, on another session.
        """
        while True:
            event = self._next(timeout)
            yield event
            if event.terminal:
                return

    def _next(self, timeout: Optional[float]) -> Event:
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._cond:
            while True:
                full = self._exchange.full
                event = self._exchange.take()
                if event is not None:
                    if full and not self._exchange.full:
                        self._wake()
                    return event
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError("no event has come")
                self._cond.wait(left)

    # ---- the end -------------------------------------------------------------------------

    def close(self) -> None:
        """Closes the connection and nothing else (OP-26); again is no error."""
        with self._cond:
            open_, self._exchange.closing = not self._exchange.over, True
            self._cond.notify_all()
        if open_:
            try:
                self._stream.write(_websocket.encode_close(1000), GONE)
            except TransportError:
                pass  # it is gone already
        self._end()

    def _end(self) -> None:
        """Ends the thread, which closes what it has."""
        with self._cond:
            self._exchange.closing = True
            self._cond.notify_all()
            self._wake()
        self._stream.shutdown()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _wake(self) -> None:
        """With the lock, which the thread takes before it closes this."""
        try:
            self._wake_w.send(b"!")
        except OSError:
            pass  # it is full of them, or closed

    # ---- the thread ----------------------------------------------------------------------

    def _write(self, frame: bytes) -> None:
        """A failure closes the connection; the thread is told by the socket."""
        try:
            self._stream.write(frame, self._timeout)
        except TransportError as e:
            with self._cond:
                self._fail(e)
                error = self._exchange.lost()
            self._end()
            raise error from e

    def _fail(self, error: CaissonError) -> None:
        """With the lock."""
        self._exchange.fail(error)
        self._cond.notify_all()

    def _run(self, data: bytes) -> None:
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(self._stream, selectors.EVENT_READ)
                selector.register(self._wake_r, selectors.EVENT_READ)
                self._take(data)
                self._loop(selector)
        except CaissonError as e:
            with self._cond:
                if not self._exchange.closing:
                    self._fail(e)
        finally:
            with self._cond:
                self._stream.close()
                self._wake_r.close()
                self._wake_w.close()
                self._fail(TransportError("the session is closed"))

    def _loop(self, selector: selectors.BaseSelector) -> None:
        reading, beat_at = True, None if self._beat is None else time.monotonic() + self._beat
        while True:
            with self._cond:
                if self._exchange.over:
                    return
                room = not self._exchange.full
            if room != reading:
                if room:
                    selector.register(self._stream, selectors.EVENT_READ)
                else:
                    selector.unregister(self._stream)
                reading = room
            if beat_at is not None and time.monotonic() >= beat_at:
                self._stream.write(_websocket.encode(_websocket.TEXT, HEARTBEAT), self._beat)
                beat_at = time.monotonic() + self._beat
            data = self._stream.read(1 << 16) if room else None
            if data is None:
                left = None if beat_at is None else max(beat_at - time.monotonic(), 0)
                if any(key.fileobj is self._wake_r for key, _ in selector.select(left)):
                    self._wake_r.recv(4096)
            elif not data:
                raise TransportError("the gateway closed the connection")
            else:
                self._take(data)

    def _take(self, data: bytes) -> None:
        for message in self._exchange.parse(data):
            with self._cond:
                answer = self._exchange.on_message(*message)
                last = self._exchange.over
                self._cond.notify_all()
            if answer is not None:
                self._answer(answer, last)
            if last:
                return

    def _answer(self, frame: bytes, last: bool) -> None:
        try:
            self._stream.write(frame, GONE if last else self._timeout)
        except TransportError:
            if not last:
                raise
            # It has said what it had to say.
