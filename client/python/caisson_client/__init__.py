"""A client of a Caisson gateway: sandboxes, operations in them, and their events.

    with Client("https://sandbox.example.com:8443", token=TOKEN) as client:
        with client.acquire("shell", lease=60) as sandbox, sandbox.open() as session:
            session.send(command=["uname", "-a"])
            for event in session.receive():
                ...

A sandbox is acquired and released; a session is one connection to it, over which one operation
after the other is sent, and its events come, in order and each once.  Closing a session only
detaches: what was admitted goes on (OP-26).  Nothing is ever sent twice (OP-27): after a
TransportError the outcome is unknown until somebody asks, with `Session.resume` or `follow`,
which hand out every event behind the last one seen.

Times are seconds.  A client may be used by several threads; a session by one, and a second one
may cancel.
"""

from ._calls import Entry, Page
from .client import Client, Files, Sandbox
from .errors import (AlreadyExists, ApiError, AuditUnavailable, CaissonError, Cancelled,
                     DeadlineExceeded, FailedPrecondition, Internal, InvalidArgument, NotFound,
                     PermissionDenied, ProtocolError, ReplayExpired, ResourceExhausted,
                     TransportError, Unauthenticated, Unavailable, UsageError)
from .events import Accepted, Completed, Event, Failed, Gap, Output, Progress
from .follow import follow
from .session import Session

__all__ = [
    "Accepted", "AlreadyExists", "ApiError", "AuditUnavailable", "CaissonError", "Cancelled",
    "Client", "Completed", "DeadlineExceeded", "Entry", "Event", "Failed", "FailedPrecondition",
    "Files", "Gap", "Internal", "InvalidArgument", "NotFound", "Output", "Page",
    "PermissionDenied", "Progress", "ProtocolError", "ReplayExpired", "ResourceExhausted",
    "Sandbox", "Session", "TransportError", "Unauthenticated", "Unavailable", "UsageError",
    "follow",
]
