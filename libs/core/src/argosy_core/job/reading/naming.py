"""Names of the Kubernetes objects of a run: the user's name with a suffix that no other run has.

The suffix is `-` and the job's handle in base 32 (lower case, 11 digits, most significant first), `-` and the attempt,
which from 1,000 on is a letter and two digits in base 36, so that it never has more than three characters. For other
members of the run than 0, `-` and the member's number in base 36 follow, at most three digits.
A base name that would make the whole longer than a DNS label is cut; the suffix never is, so names stay distinct.

Source: design section 3, "Objects of a run get the user's name with a run suffix".
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.job.reading.pod_groups import MEMBER_NAME
from argosy_core.job.tables.members import attempt_of, member_of, ordinal_of, place_of

__all__ = [
    "MAX_NAME_LENGTH",
    "MEMBER_BASE_LENGTH",
    "attempt_text",
    "is_named_by",
    "naming_ordinal",
    "object_label",
    "object_name",
    "run_suffix",
    "run_suffixes",
]

MAX_NAME_LENGTH: Final = 63
"""Longest DNS label."""
_DIGIT_COUNT: Final = 11
_BASE_32: Final = "abcdefghijklmnopqrstuvwxyz234567"
_DIGITS: Final = np.frombuffer(_BASE_32.encode(), dtype=np.uint8)
_SHIFTS: Final = np.arange(_DIGIT_COUNT - 1, -1, -1, dtype=np.int64) * 5
_EACH_SHIFT: Final = tuple(_SHIFTS.tolist())
_MAX_BASE_LENGTH: Final = MAX_NAME_LENGTH - _DIGIT_COUNT - 5
MEMBER_BASE_LENGTH: Final = _MAX_BASE_LENGTH - 4
"""Characters of a base name that are sure to be kept in the names of objects, whichever member of a run they are of."""
_HYPHEN: Final = ord("-")
_ZERO: Final = ord("0")
_LETTERS: Final = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", dtype=np.uint8)
_DIGITS_36: Final = np.frombuffer(b"0123456789abcdefghijklmnopqrstuvwxyz", dtype=np.uint8)
_PLAIN: Final = 1000
"""First attempt that is not written in decimal digits."""


def object_label(base: str, *, is_of_member: bool = False) -> bytes:
    """Return a base name as the beginning of a DNS label, ASCII, cut so that any run suffix still fits.

    Args:
        base: Name in the user's manifest; what a label cannot hold becomes `-`; empty becomes `job`.
        is_of_member: The suffix is that of another member than 0.
    """
    label = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in base.lower())
    length = MEMBER_BASE_LENGTH if is_of_member else _MAX_BASE_LENGTH
    return label.lstrip("-")[:length].rstrip("-").encode() or b"job"


def run_suffixes(handles: npt.NDArray[np.int64], ordinals: npt.NDArray[np.integer]) -> list[bytes]:
    """Return the name suffix of each run, ASCII, `-` first.

    Args:
        handles: int64[n] job handles below 2^55.
        ordinals: int[n] attempts, 1 to MAX_STORED_ATTEMPT, and members.

    Complexity: a few array passes over n; no Python work per name but the list itself, and for members other than 0.
    """
    numbers = attempt_of(np.asarray(ordinals, dtype=np.int64))
    text = np.zeros((handles.size, _DIGIT_COUNT + 5), dtype=np.uint8)
    text[:, 0] = _HYPHEN
    text[:, 1 : 1 + _DIGIT_COUNT] = _DIGITS[(handles[:, None] >> _SHIFTS) & 31]
    text[:, 1 + _DIGIT_COUNT] = _HYPHEN
    tail = text[:, 2 + _DIGIT_COUNT :]
    # Digits from the left, without leading zeros: a fixed-width byte string drops the zeros behind a shorter one.
    for digits, low, high in ((1, 0, 10), (2, 10, 100), (3, 100, 1000)):
        rows = (numbers >= low) & (numbers < high)
        for place in range(digits):
            tail[rows, place] = _ZERO + numbers[rows] // 10 ** (digits - 1 - place) % 10
    long = np.flatnonzero(numbers >= _PLAIN)
    if long.size:
        rest = numbers[long] - _PLAIN
        tail[long, 0] = _LETTERS[rest // 36**2]
        tail[long, 1], tail[long, 2] = _DIGITS_36[rest // 36 % 36], _DIGITS_36[rest % 36]
    suffixes: list[bytes] = text.view(f"S{text.shape[1]}").ravel().tolist()
    members = member_of(np.asarray(ordinals, dtype=np.int64))
    for place in np.flatnonzero(members).tolist():
        suffixes[place] += _member_text(int(members[place])).encode()
    return suffixes


def attempt_text(attempt: int) -> str:
    """Return an attempt as it stands in names."""
    if attempt < _PLAIN:
        return str(attempt)
    rest = attempt - _PLAIN
    return bytes((_LETTERS[rest // 36**2], _DIGITS_36[rest // 36 % 36], _DIGITS_36[rest % 36])).decode()


def _member_text(member: int) -> str:
    """Return what stands behind the attempt for a member, nothing for 0."""
    return f"-{np.base_repr(member, 36).lower()}" if member else ""


def naming_ordinal(kind: str, base: str, ordinal: int) -> int:
    """Return the ordinal by which an object of a member is named.

    That is its own, but for the service of a member of a distributed job: whoever replaces that member has its address.
    """
    if kind != "Service" or base != MEMBER_NAME:
        return ordinal
    return ordinal_of(attempt_of(ordinal), place_of(member_of(ordinal)))


def is_named_by(name: str, handle: int, ordinal: int) -> bool:
    """Return whether a name is one of a run's objects, that of the member that it replaced included."""
    if name.endswith(run_suffix(handle, ordinal)):
        return True
    first = naming_ordinal("Service", MEMBER_NAME, ordinal)
    return first != ordinal and name == object_name(MEMBER_NAME, handle, first)


def run_suffix(handle: int, ordinal: int) -> str:
    """Return the name suffix of one run; a microsecond, where `run_suffixes` pays off from some dozens on."""
    letters = "".join([_BASE_32[(handle >> shift) & 31] for shift in _EACH_SHIFT])
    return f"-{letters}-{attempt_text(attempt_of(ordinal))}{_member_text(member_of(ordinal))}"


def object_name(base: str, handle: int, ordinal: int) -> str:
    """Return the name of one object of one run: a DNS label of at most 63 characters.

    Args:
        base: Name in the user's manifest.
        handle: Job handle.
        ordinal: Attempt, 1 to MAX_STORED_ATTEMPT, and member.
    """
    return object_label(base, is_of_member=member_of(ordinal) > 0).decode() + run_suffix(handle, ordinal)
