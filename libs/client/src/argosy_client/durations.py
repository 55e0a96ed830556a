"""Durations as people write them: `90s`, `1h30m`, `7d`.

Source: design section 9.
"""

from __future__ import annotations

import re
from typing import Final

from argosy_core.errors import InvalidRequest

__all__ = ["duration_text", "parse_duration_s"]

_UNITS_S: Final = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_DURATION: Final = re.compile(r"^(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?$")


def parse_duration_s(text: str) -> int:
    """Return a duration in whole seconds; how long it may be is the server's to say.

    Args:
        text: Days, hours, minutes and seconds in this order, each with its unit; `0` needs none.

    Raises:
        InvalidRequest: It is none, as a number without a unit.
    """
    found = _DURATION.match(text)
    if text == "0":
        return 0
    if found is None or not any(found.groups()):
        raise InvalidRequest(f"{text[:40]!r} is not a duration; write whole numbers with units, as 90s, 1h30m or 7d")
    return sum(int(number or 0) * size for number, size in zip(found.groups(), _UNITS_S.values(), strict=True))


def duration_text(seconds: int) -> str:
    """Return whole seconds as `parse_duration_s` reads them."""
    parts = []
    for unit, size in _UNITS_S.items():
        number, seconds = divmod(seconds, size)
        parts += [f"{number}{unit}"] if number else []
    return "".join(parts) or "0s"
