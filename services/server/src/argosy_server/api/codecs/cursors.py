"""Cursors and page tokens: opaque to callers, checked when they come back.

A cursor says all that is needed to go on, so that any replica can serve it and none keeps anything: the job set, the
number of the last event received and the counts per state up to it. It is not secret and not signed; one that was made
up leads at most to the caller's own wrong counts, so it is checked for form only.

Source: design section 3, "resumable by opaque cursor"; `proto/argosy/api/v1/event.proto`.
"""

from __future__ import annotations

import binascii
import struct
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from typing import Final

from argosy_core.errors import FieldViolation, InvalidRequest
from argosy_core.job.identity import DAY_SHIFT

__all__ = [
    "STATE_COUNT",
    "WatchCursor",
    "read_handle_token",
    "read_name_token",
    "write_handle_token",
    "write_name_token",
]

STATE_COUNT: Final = 7
"""Number of values of argosy.api.v1.JobState."""

_CURSOR: Final = struct.Struct(f"<Bqq{STATE_COUNT}qI")
_CURSOR_VERSION: Final = 1
_INCOMPLETE: Final = 0x80
_HANDLE_TOKEN: Final = struct.Struct("<BqI")
_HANDLE_VERSION: Final = 2
_NAME_VERSION: Final = 3
_MAX_HANDLE: Final = 1 << (DAY_SHIFT + 15)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchCursor:
    """Where a watcher of a job set stands."""

    job_set_id: int
    """Job set."""
    number: int = 0
    """Last event received."""
    counts: tuple[int, ...] = (0,) * STATE_COUNT
    """Jobs per JobState up to that event."""
    is_complete: bool = True
    """Whether the counts go back to the first event; not so where the first ones were no longer kept."""

    def text(self) -> str:
        """Return the cursor as callers get it."""
        version = _CURSOR_VERSION | (0 if self.is_complete else _INCOMPLETE)
        packed = _CURSOR.pack(version, self.job_set_id, self.number, *self.counts, 0)[:-4]
        return _encode(packed + struct.pack("<I", zlib.crc32(packed)))

    @staticmethod
    def parse(text: str, *, job_set_id: int) -> WatchCursor:
        """Return a cursor of a job set from its text; empty text is the beginning.

        Raises:
            InvalidRequest: It is no cursor, or one of another job set.
        """
        if not text:
            return WatchCursor(job_set_id=job_set_id)
        packed = _decode(text, "cursor")
        if len(packed) != _CURSOR.size:
            raise _wrong("cursor", "is no cursor of a watch; use one that a watch gave, or none")
        version, own_id, number, *rest = _CURSOR.unpack(packed)
        *counts, checksum = rest
        sane = number >= 0 and min(counts) >= 0 and sum(counts) <= max(number, 0)
        if version & ~_INCOMPLETE != _CURSOR_VERSION or checksum != zlib.crc32(packed[:-4]) or not sane:
            raise _wrong("cursor", "is no cursor of a watch; use one that a watch gave, or none")
        if own_id != job_set_id:
            raise _wrong("cursor", "belongs to another job set")
        complete = not version & _INCOMPLETE
        return WatchCursor(job_set_id=job_set_id, number=number, counts=tuple(counts), is_complete=complete)


def write_handle_token(handle: int, request: bytes) -> str:
    """Return the token of the page after a job.

    Args:
        handle: Last job of the page.
        request: What was asked, page size apart; a token goes on with the same request only.
    """
    return _encode(_HANDLE_TOKEN.pack(_HANDLE_VERSION, handle, zlib.crc32(request)))


def read_handle_token(text: str, request: bytes) -> int:
    """Return the handle after which a page begins; 0 for empty text.

    Raises:
        InvalidRequest: It is no such token, or was given for another request.
    """
    if not text:
        return 0
    packed = _decode(text, "page_token")
    if len(packed) == _HANDLE_TOKEN.size:
        version, handle, checksum = _HANDLE_TOKEN.unpack(packed)
        if version == _HANDLE_VERSION and 0 < handle < _MAX_HANDLE and checksum == zlib.crc32(request):
            return int(handle)
    raise _wrong(
        "page_token", "is no token of this list; use next_page_token of the page before, with the same selector"
    )


def write_name_token(name: str) -> str:
    """Return the token of the page after a name."""
    return _encode(bytes([_NAME_VERSION]) + name.encode())


def read_name_token(text: str) -> str:
    """Return the name after which a page begins; empty for empty text.

    Raises:
        InvalidRequest: It is no such token.
    """
    if not text:
        return ""
    packed = _decode(text, "page_token")
    try:
        name = packed[1:].decode()
    except UnicodeDecodeError:
        name = ""
    if not name or packed[0] != _NAME_VERSION or not name.isprintable():
        raise _wrong("page_token", "is no token of this list; use next_page_token of the page before")
    return name


def _encode(packed: bytes) -> str:
    return urlsafe_b64encode(packed).rstrip(b"=").decode()


def _decode(text: str, field: str) -> bytes:
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError) as cause:
        raise _wrong(field, "is not what this service gave") from cause


def _wrong(field: str, description: str) -> InvalidRequest:
    return InvalidRequest(
        "one field is wrong in the request", violations=(FieldViolation(field=field, description=description),)
    )
