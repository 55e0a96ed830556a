"""Identity of jobs: a 64-bit handle inside a time-ordered UUID.

A handle is an int64 that every hot path carries instead of the id: `day << 40 | number`, where the day is that of the
submit (days since the Unix epoch, so that rows of one day share a partition) and the number comes from one sequence.
The id is a version 7 UUID: 48 bits of milliseconds, 12 bits for the fraction of the millisecond, and the handle in the
lower 62 bits. So an id leads to its row without an index of its own, and the upper 64 bits plus the handle make the id
again.

Ids of one moment begin alike, and end in the number, which no other job has: its digits are the *short id*.

Source: design section 4, "jobs" and section 8, "int64 handles".
"""

from __future__ import annotations

import hashlib
from typing import Final
from uuid import UUID

from argosy_core.errors import InvalidRequest

__all__ = [
    "DAY_SHIFT",
    "NOBODY",
    "SUBMITTER_BITS",
    "compose_id",
    "first_handle_of_day",
    "handles_of_ending",
    "id_high",
    "parse_id",
    "short_id",
    "submitter_number",
]

DAY_SHIFT: Final = 40
"""Bits of a handle below the day."""
_VARIANT: Final = 0b10 << 62
_HANDLE_MASK: Final = (1 << 62) - 1
_MAX_HANDLE: Final = 1 << 55
_NUMBER_DIGITS: Final = DAY_SHIFT // 4
_LEAST_DIGITS: Final = 6
"""Of a short id, so that the ids of a list are mostly equally long."""
SUBMITTER_BITS: Final = 28
"""Bits of a submitter's number. Two of a thousand submitters share one in one installation of five hundred, and then
what is expected of their runs, no more."""
NOBODY: Final = -1
"""The number of a submitter of whom nobody knows who it is."""


def submitter_number(name: str) -> int:
    """Return the number that stands for a submitter where names are too long: the first bits of its name's SHA-256.

    The database makes the same of a stored name, see `argosy_store.terms.open_jobs`.
    """
    if not name:
        return NOBODY
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") >> (32 - SUBMITTER_BITS)


def id_high(time_ms: int, fraction: int) -> int:
    """Return the upper 64 bits of an id as a signed int64.

    Args:
        time_ms: Submit time, milliseconds since the Unix epoch.
        fraction: Fraction of the millisecond in 1/4096.
    """
    high = (time_ms & ((1 << 48) - 1)) << 16 | 0x7000 | (fraction & 0xFFF)
    return high - (1 << 64) if high >= 1 << 63 else high


def compose_id(high: int, handle: int) -> str:
    """Return the job id made of its upper 64 bits and its handle, as UUID text."""
    number = ((high & 0xFFFFFFFFFFFFFFFF) << 64) | _VARIANT | handle
    text = f"{number:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def parse_id(text: str) -> tuple[int, int]:
    """Return (upper 64 bits as signed int64, handle) of a job id.

    Raises:
        InvalidRequest: The text is not an id that Argosy gives.
    """
    try:
        number = UUID(text).int
    except ValueError as cause:
        msg = f"{text[:64]!r} is not a job id; an id is a UUID"
        raise InvalidRequest(msg) from cause
    handle = number & _HANDLE_MASK
    if handle >= _MAX_HANDLE or (number >> 62) & 0b11 != 0b10 or (number >> 76) & 0xF != 7:
        msg = f"{text[:64]!r} is a UUID but not a job id of this system"
        raise InvalidRequest(msg)
    high = number >> 64
    return (high - (1 << 64) if high >= 1 << 63 else high), handle


def short_id(job_id: str) -> str:
    """Return the end of a job id that no other job's id has: the digits of its number, at least six."""
    return job_id[-_NUMBER_DIGITS:].lstrip("0").rjust(_LEAST_DIGITS, "0")


def handles_of_ending(ending: str, days: range, numbers: range, *, most: int) -> list[int]:
    """Return the handles whose ids may end with a text.

    Args:
        ending: Hexadecimal digits.
        days: Days of submit, since the Unix epoch.
        numbers: Numbers that jobs may have.
        most: Most numbers to look for.

    Raises:
        InvalidRequest: So many numbers end so that the text is too short.
    """
    digits = ending[-_NUMBER_DIGITS:]
    step = 16 ** len(digits)
    found = range(numbers.start + (int(digits, 16) - numbers.start) % step, numbers.stop, step)
    if len(found) > most:
        raise InvalidRequest(f"{ending} is too short to be the end of one id among so many; give more of it")
    return [day << DAY_SHIFT | number for day in days for number in found]


def first_handle_of_day(day: int) -> int:
    """Return the smallest handle that a day can have."""
    return day << DAY_SHIFT
