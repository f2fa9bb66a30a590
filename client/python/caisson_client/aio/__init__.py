"""The client for asyncio: the same sandboxes, sessions and events, and the same promises.

    from caisson_client import Output
    from caisson_client.aio import Client

    async with Client("https://sandbox.example.com:8443", token=TOKEN) as client:
        async with client.acquire("shell", lease=60) as sandbox, sandbox.open() as session:
            await session.send(command=["uname", "-a"])
            async for event in session.receive():
                ...

Errors and events are those of caisson_client.  Cancelling a task ends its waiting and nothing
else: what a session was asked for goes on, and whoever receives next gets the next event.  Of a
request that was cancelled the outcome is unknown (OP-27), as it is after a TransportError.

A client, and what it makes, belongs to the loop in which it was used first.  It has no tasks of
its own; a loop that something blocks for longer than a lease cannot renew it.
"""

from .client import Client, Files, Sandbox
from .follow import follow
from .session import Session

__all__ = ["Client", "Files", "Sandbox", "Session", "follow"]
