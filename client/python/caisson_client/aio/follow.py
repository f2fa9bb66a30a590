"""Events of an operation over as many connections as it takes, for asyncio."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, AsyncGenerator, Optional

from .._calls import Patience
from ..errors import CaissonError
from ..events import Event

if TYPE_CHECKING:
    from .client import Sandbox


async def follow(sandbox: Sandbox, operation: str, after: int = 0, attempts: int = 10,
                 pause: Optional[float] = None) -> AsyncGenerator[Event, None]:
    """Every event of `operation` behind the sequence `after`, up to its terminal one, each once:
    as caisson_client.follow.

    It has a session open: who leaves it early closes it, with its `aclose()`, or with
    contextlib.aclosing of Python 3.10.
    """
    patience = Patience(attempts, pause)
    while True:
        try:
            async with sandbox.open() as session:
                await session.resume(operation, after)
                async for event in session.receive():
                    after = event.sequence
                    patience.failures = 0
                    yield event
                    if event.terminal:
                        return
        except CaissonError as e:
            await asyncio.sleep(patience.wait_of(e))
