"""What an API server answers when it does not do what was asked, and what that means.

Everything is decided by the fields of the answer (code, reason, details). Two things have no field of their own and are
known by their words: quotas, and denials of webhooks. A webhook chooses the code and the details of its denial, the API
server only puts its own words before the message; so a denial is read as one, whatever code it pretends to be.
"""

from __future__ import annotations

import re
from typing import Final, TypeVar

import msgspec

__all__ = [
    "CONFLICT",
    "FORBIDDEN",
    "GONE",
    "KEYS_LIST",
    "KEYS_ONLY",
    "MISSING",
    "STRATEGIC_PATCH",
    "UNAUTHORIZED",
    "ApiFailure",
    "Details",
    "Status",
    "decode",
    "read_failure",
]

UNAUTHORIZED: Final = 401
"""Nobody knows us, or a policy says no."""
FORBIDDEN: Final = 403
"""We may not, or the object may not be."""
MISSING: Final = 404
"""There is no such object, or no such kind."""
CONFLICT: Final = 409
"""It exists, is another one, or was changed meanwhile; `reason` says which."""
GONE: Final = 410
"""That version is not kept any more."""
KEYS_LIST: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""Lists of objects as their metadata: what is in secrets and config maps does not travel."""
KEYS_ONLY: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""Objects as their metadata: what is in secrets and config maps does not travel."""
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
"""Patches that say which parts of lists to take away."""

_QUOTA_TEXT: Final = "exceeded quota"
_UNREADY: Final = re.compile(r"status unknown for quota|error looking up service account")
"""What a namespace that is new, or was just changed, lacks for a moment: admission refuses pods until it is there."""
_BROKEN_WEBHOOK: Final = "failed calling webhook"
_LONGEST_MESSAGE: Final = 1024
_PASSING: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_INTERNAL: Final = 500
_DENIED: Final = "Denied"
_DENIAL: Final = re.compile(r'admission webhook "[^"]+" denied the request')
"""How the API server begins the message of a webhook's denial."""


class Details(msgspec.Struct, rename="camel"):
    """Details of a failure."""

    name: str = ""
    """Object that was acted on; empty where the refusal is not about one."""
    kind: str = ""
    """Its resource."""
    retry_after_seconds: int = 0
    """When to try again."""


class Status(msgspec.Struct, rename="camel"):
    """The body of an answer other than success."""

    reason: str = ""
    """Word for programs, as AlreadyExists."""
    message: str = ""
    """Text for people."""
    code: int = 0
    """HTTP status."""
    details: Details | None = None
    """Details."""


T = TypeVar("T")

_STATUS: Final = msgspec.json.Decoder(Status)


class ApiFailure(Exception):
    """An answer other than success, or none. Stays inside the adapter."""

    def __init__(self, code: int, message: str, *, status: Status | None = None, retry_after_s: float = 0.0) -> None:
        """Keep what was answered.

        Args:
            code: HTTP status; 0 where there was no answer, so that it is not known whether the call was applied.
            message: What was wrong, for people.
            status: The body.
            retry_after_s: How long the API server asks to wait.
        """
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = status.reason if status else ""
        self.details = (status.details if status else None) or Details()
        self.retry_after_s = retry_after_s
        self.is_unreadable = False
        """There was an answer of success, and it could not be read."""

    @property
    def may_pass(self) -> bool:
        """The same call may succeed later: no answer, throttled, or a failure of the API server's own."""
        return self.code == 0 or self.code in _PASSING or (self.code == CONFLICT and self.reason == "Conflict")

    @property
    def is_denied(self) -> bool:
        """A webhook said no to the object; code and reason are those of `read_failure`, not the webhook's."""
        return self.reason == _DENIED

    @property
    def is_refused_right(self) -> bool:
        """We have not the right (as opposed to: the object is not acceptable).

        Whoever lacks a right is told which kind it is about; admission tells the object's name as well. A proxy before
        the API server knows of neither.
        """
        if self.code == UNAUTHORIZED:
            return not self.details.name
        if self.code != FORBIDDEN or self.is_denied:
            return False
        return not self.details.name and (bool(self.details.kind) or not self.reason)

    @property
    def lacks_right(self) -> bool:
        """The API server itself says that we have not the right, as opposed to a proxy before it."""
        return self.code == FORBIDDEN and self.is_refused_right and bool(self.details.kind)

    @property
    def is_quota(self) -> bool:
        """A quota stands against the object."""
        return self.code == FORBIDDEN and not self.is_denied and _QUOTA_TEXT in self.message

    @property
    def is_of_namespace(self) -> bool:
        """The namespace is not ready for pods: its quota was not counted, or its service account is not there yet."""
        return self.code == FORBIDDEN and not self.is_denied and _UNREADY.search(self.message) is not None

    @property
    def is_broken_webhook(self) -> bool:
        """A webhook that must be asked does not answer; nobody knows for how long."""
        return self.code == _INTERNAL and _BROKEN_WEBHOOK in self.message


def read_failure(code: int, body: bytes, *, retry_after: str | None) -> ApiFailure:
    """Return the failure that an answer tells; a webhook's denial as 403 without details, for it is final.

    Args:
        code: HTTP status.
        body: A Status, or whatever a proxy says.
        retry_after: The header, seconds.
    """
    try:
        status = _STATUS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        status = Status(message=body[:200].decode(errors="replace").strip())
    if _DENIAL.match(status.message):
        code = FORBIDDEN
        status = Status(reason=_DENIED, message=status.message, code=code)
    wait_s = float(status.details.retry_after_seconds) if status.details else 0.0
    if retry_after is not None and retry_after.strip().isdecimal():
        wait_s = max(wait_s, float(retry_after))
    message = status.message[:_LONGEST_MESSAGE] or f"HTTP status {code}"
    return ApiFailure(code, message, status=status, retry_after_s=wait_s)


def decode(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """Return what a body says.

    Raises:
        ApiFailure: It is cut off, no JSON, not UTF-8, or not of the expected form.
    """
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as cause:
        failure = ApiFailure(0, f"the API server sent what cannot be read: {cause}")
        failure.is_unreadable = True
        raise failure from cause
