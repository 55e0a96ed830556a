"""Kubernetes quantities to int64 base units and back.

Source: design section 9, "Kubernetes conventions"; the suffixes are those of Kubernetes resource quantities.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

from argosy_core.errors import InvalidRequest

__all__ = ["MAX_AMOUNT", "base_units_per_unit", "format_amount", "is_whole", "max_job_amount", "parse_quantity"]

MAX_AMOUNT = 2**62
"""Largest amount that is accepted, so that sums of two never overflow int64."""

_MAX_JOB_MILLICORES = 10**9
_MAX_JOB_AMOUNT = 2**56
"""64 PiB of memory; sums over a hundred such jobs stay within int64."""

_QUANTITY = re.compile(
    r"^([+-]?)(\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})"
    r"(?:([eE])([+-]?\d{1,2})|(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|n|u))?$"
)
_SUFFIXES: dict[str, Fraction] = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}


def base_units_per_unit(name: str) -> int:
    """Return how many base units one unit of a resource has: 1000 for cpu (millicores), 1 for anything else."""
    return 1000 if name == "cpu" else 1


def max_job_amount(name: str) -> int:
    """Return the most of a resource that one job may ask for, base units: a million cores, 2^56 of anything else."""
    return _MAX_JOB_MILLICORES if name == "cpu" else _MAX_JOB_AMOUNT


def _read(text: str) -> Fraction | None:
    """Return the value of a quantity without its sign, None if it is none."""
    match = _QUANTITY.match(text)
    if match is None:
        return None
    _, number, _, exponent, suffix = match.groups()
    value = Fraction(number if not number.startswith(".") else "0" + number)
    return value * (Fraction(10) ** int(exponent) if exponent else _SUFFIXES[suffix or ""])


def is_whole(text: str) -> bool:
    """Return whether a quantity is a whole number, as 2, 2.0, 1e3 and 2k; what is no quantity at all counts as one."""
    value = _read(text)
    return value is None or value.denominator == 1


@lru_cache(maxsize=4096)
def parse_quantity(name: str, text: str) -> int:
    """Return a Kubernetes quantity as base units of the named resource, rounded up.

    Args:
        name: Resource name, as `cpu`, `memory`, `nvidia.com/gpu`.
        text: Quantity, as `500m`, `2`, `1.5Gi`, `1e3`.

    Raises:
        InvalidRequest: The text is no quantity, is negative, or is too large.
    """
    value = _read(text)
    if value is None:
        msg = f"{text[:40]!r} is not a quantity of {name}; write a number with an optional suffix, as 500m, 2 or 1.5Gi"
        raise InvalidRequest(msg)
    if text.startswith("-") and value:
        msg = f"{text!r} is negative; an amount of {name} is 0 or more"
        raise InvalidRequest(msg)
    value *= base_units_per_unit(name)
    amount = -(-value.numerator // value.denominator)
    if amount > MAX_AMOUNT:
        msg = f"{text!r} is too large an amount of {name}"
        raise InvalidRequest(msg)
    return amount


def format_amount(name: str, amount: int) -> str:
    """Return base units as a short Kubernetes quantity that parses back to the same amount."""
    if name == "cpu":
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if name in {"memory", "ephemeral-storage", "storage"} or name.startswith("hugepages-"):
        for suffix in ("Pi", "Ti", "Gi", "Mi", "Ki"):
            unit = int(_SUFFIXES[suffix])
            if amount and amount % unit == 0:
                return f"{amount // unit}{suffix}"
    return str(amount)
