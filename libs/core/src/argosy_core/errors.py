"""Errors of Argosy: one tree, decided by attributes and never by message text.

::

    ArgosyError
    +-- InvalidRequest       the caller must change the request
    +-- NotFound             what was named does not exist
    +-- AlreadyExists        what was named exists and differs
    +-- StateConflict        stale version, epoch or incarnation: read again, then decide
    +-- NotAllowedNow        legal request, illegal moment
    +-- QuotaExceeded        a limit was reached: back off
    +-- BackendUnavailable   a database, log, cluster or leader cannot be reached: try the same call again
    |   +-- DeadlineExceeded it would take too long: ask for less
    +-- OutOfRange           a cursor is older than what is kept
    +-- NotAuthenticated     who calls is not known
    +-- NotPermitted         who calls may not do this
    +-- InvariantViolation   a fault of ours; details belong in the log only

`argosy_runtime.errors` maps the tree to gRPC codes and back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = [
    "AlreadyExists",
    "ArgosyError",
    "BackendUnavailable",
    "DeadlineExceeded",
    "FieldViolation",
    "InvalidRequest",
    "InvariantViolation",
    "NotAllowedNow",
    "NotAuthenticated",
    "NotFound",
    "NotPermitted",
    "OutOfRange",
    "QuotaExceeded",
    "Resource",
    "StateConflict",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldViolation:
    """One thing that is wrong with a request."""

    field: str
    """Path of the field, as in `items[3].queue`."""
    description: str
    """What is wrong and what would be right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """What an error is about."""

    kind: str
    """Kind, as `Queue`, `JobSet`, `Job`, `Cluster`, `Pool` or `Server`."""
    name: str
    """Name or id; empty for the server that answers."""


class ArgosyError(Exception):
    """Base of all errors that Argosy raises on purpose.

    Args:
        message: What was wrong, where, and what to do; safe to show to callers.
        violations: Every item that was wrong, where the request had several.
        reason: Constant in UPPER_SNAKE that programs may act on; by default the name of the error.
        resource: What does not exist, is in the way, or is full.
        retry_delay_s: How long to wait before the same call is worth another try, seconds; None if waiting by itself
            does not help.
    """

    def __init__(
        self,
        message: str,
        *,
        violations: tuple[FieldViolation, ...] = (),
        reason: str = "",
        resource: Resource | None = None,
        retry_delay_s: float | None = None,
    ) -> None:
        """Keep the message and what belongs to it."""
        super().__init__(message)
        self.message = message
        self.violations = violations
        self.reason = reason or re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(self).__name__).upper()
        self.resource = resource
        self.retry_delay_s = retry_delay_s


class InvalidRequest(ArgosyError):
    """The request can never succeed as it is."""


class NotFound(ArgosyError):
    """What the request names does not exist."""


class AlreadyExists(ArgosyError):
    """What the request would make exists, and differs."""


class StateConflict(ArgosyError):
    """The caller acted on a version, epoch or incarnation that is no longer the current one."""


class NotAllowedNow(ArgosyError):
    """The request is legal but not in the present state."""


class QuotaExceeded(ArgosyError):
    """A limit on load or size was reached."""


class BackendUnavailable(ArgosyError):
    """Something the service stands on cannot be reached; the same call may be repeated."""


class DeadlineExceeded(BackendUnavailable):
    """It would have taken too long, and was given up; the same call would take as long again."""


class OutOfRange(ArgosyError):
    """A cursor points before what is still kept."""


class NotAuthenticated(ArgosyError):
    """The caller did not prove who it is."""


class NotPermitted(ArgosyError):
    """The caller may not do this."""


class InvariantViolation(ArgosyError):
    """Something happened that the design rules out: a fault of ours."""
