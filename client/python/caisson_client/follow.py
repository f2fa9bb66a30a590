"""Events of an operation over as many connections as it takes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Iterator, Optional

from ._calls import Patience
from .errors import CaissonError
from .events import Event

if TYPE_CHECKING:
    from .client import Sandbox


def follow(sandbox: Sandbox, operation: str, after: int = 0, attempts: int = 10,
           pause: Optional[float] = None) -> Iterator[Event]:
    """Every event of `operation` behind the sequence `after`, up to its terminal one, each once.

    Where a connection is lost it opens another and goes on behind the last event: it only reads,
    and submits nothing (OP-27).  Gives up with the error of the last after `attempts` connections
    that brought no event, between which it waits longer and longer, `pause` seconds at first.
    """
    patience = Patience(attempts, pause)
    while True:
        try:
            with sandbox.open() as session:
                session.resume(operation, after)
                for event in session.receive():
                    after = event.sequence
                    patience.failures = 0
                    yield event
                    if event.terminal:
                        return
        except CaissonError as e:
            time.sleep(patience.wait_of(e))
