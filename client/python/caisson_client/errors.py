"""What can go wrong: one class per code of the gateway's, and TransportError for the rest."""

from __future__ import annotations

from typing import Optional


class CaissonError(Exception):
    """All that this package raises."""


class UsageError(CaissonError):
    """The caller's fault, found before anything was sent."""


class TransportError(CaissonError):
    """The connection failed: what was asked for may have happened or not (OP-27).

    Of a session: `operation` is the one that was under way, if any and if its id is known, and
    `sequence` that of its last event that was handed out, 0 if none: where to resume.
    """

    def __init__(self, message: str, operation: Optional[str] = None, sequence: int = 0):
        super().__init__(message)
        self.operation = operation
        self.sequence = sequence


class ProtocolError(TransportError):
    """Whoever answers does not speak as documented; the connection is closed."""


class ApiError(CaissonError):
    """The gateway's answer: no.  `status` is that of HTTP, None of an answer in a session;
    `retry_after` is in seconds, if it was said."""

    code = ""

    def __init__(self, code: str, message: str, status: Optional[int] = None,
                 retry_after: Optional[float] = None):
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status
        self.retry_after = retry_after


class InvalidArgument(ApiError):
    code = "invalid_argument"


class Unauthenticated(ApiError):
    code = "unauthenticated"


class PermissionDenied(ApiError):
    code = "permission_denied"


class NotFound(ApiError):
    code = "not_found"


class AlreadyExists(ApiError):
    code = "already_exists"


class FailedPrecondition(ApiError):
    code = "failed_precondition"


class ReplayExpired(FailedPrecondition):
    code = "replay_expired"


class ResourceExhausted(ApiError):
    code = "resource_exhausted"


class Cancelled(ApiError):
    code = "canceled"


class DeadlineExceeded(ApiError):
    code = "deadline_exceeded"


class Unavailable(ApiError):
    code = "unavailable"


class AuditUnavailable(Unavailable):
    code = "audit_unavailable"


class Internal(ApiError):
    code = "internal"


_BY_CODE = {c.code: c for c in (
    InvalidArgument, Unauthenticated, PermissionDenied, NotFound, AlreadyExists,
    FailedPrecondition, ReplayExpired, ResourceExhausted, Cancelled, DeadlineExceeded, Unavailable,
    AuditUnavailable, Internal)}

# What an answer means that has no code of its own.
_BY_STATUS = {400: InvalidArgument, 401: Unauthenticated, 403: PermissionDenied, 404: NotFound,
              409: FailedPrecondition, 413: ResourceExhausted, 429: ResourceExhausted,
              500: Internal, 502: Unavailable, 503: Unavailable, 504: DeadlineExceeded}


def api_error(code: Optional[str], message: str, status: Optional[int] = None,
              retry_after: Optional[float] = None) -> ApiError:
    """The error of a code, or of a status if there is none."""
    kind = _BY_CODE.get(code or "")
    if kind is None:
        kind = ApiError if code or status is None else _BY_STATUS.get(status, ApiError)
    return kind(code or kind.code or "unknown", message, status, retry_after)
