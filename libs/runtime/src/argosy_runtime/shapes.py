"""What a message may hold, field by field, as a table: element type, how many, and in which range.

A peer may send anything. `read_message` looks at every field that a table names before anything is made of one, and
costs a few NumPy passes over what was sent; a message that does not fit is refused as a whole.

::

    NODES = {
        "names": Entries(of="node", most=100_000, longest=253, shortest=1),
        "free_column": Column("int64", of=("node", "resource"), least=-MAX, most=MAX),
    }
    fields = read_message(message, NODES, where="capacity", sizes={"resource": 3})

Source: `proto/argosy/lease/v1/lease.proto`, "Columns"; design section 8.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from google.protobuf.message import Message

from argosy_core.errors import FieldViolation, InvalidRequest
from argosy_runtime.columns import ColumnType, unpack_column

__all__ = ["Column", "Entries", "Number", "Shape", "Text", "read_message"]

_SHOWN = 60
_FEW = 32
"""Up to so many values Python is faster than array calls."""
_FLOATS = ("float32", "float64")


@dataclass(frozen=True, slots=True)
class Column:
    """A packed array."""

    kind: ColumnType
    """Element type."""
    of: tuple[str, ...]
    """Dimensions, row-major; whoever comes first with one dimension says how long that is."""
    least: float | None = None
    """Smallest value."""
    most: float | None = None
    """Greatest value."""
    into: str = ""
    """Elements are positions in this dimension, and below its size."""
    extra: int = 0
    """Elements more than records."""
    optional: bool = False
    """It may be empty whatever its dimensions say."""
    distinct: bool = False
    """No value stands twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """A list of texts or bytes."""

    of: str
    """Its dimension."""
    most: int
    """How many there may be."""
    longest: int
    """Most characters, or bytes, of one."""
    shortest: int = 0
    """Fewest of one."""
    optional: bool = False
    """It may be empty whatever its dimension says."""
    distinct: bool = False
    """None stands twice."""
    plain: bool = True
    """Texts have no control characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A single integer."""

    least: int
    """Smallest value."""
    most: int
    """Greatest value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A single text, or bytes."""

    longest: int
    """Most characters, or bytes."""


Shape: TypeAlias = Mapping[str, Column | Entries | Number | Text]
"""What a message may hold, by field, in the order in which it is read."""


def read_message(
    message: Message, shape: Shape, *, where: str, sizes: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """Return the fields of a message, all of which fit: columns as read-only arrays, lists as tuples.

    Args:
        message: The message.
        shape: What it may hold.
        where: Path of the message, put before the names of fields in errors.
        sizes: Dimensions that are known beforehand, as those of the request that it answers.

    Raises:
        InvalidRequest: A field does not fit; the text says which, and why.

    Complexity: O(bytes) in NumPy, and Python work per text; distinct columns are sorted.
    """
    known = dict(sizes or {})
    fields: dict[str, Any] = {}
    for name, rule in shape.items():
        path, value = f"{where}.{name}", getattr(message, name)
        if isinstance(rule, Column):
            fields[name] = _read_column(value, rule, path, known)
        elif isinstance(rule, Number):
            if not rule.least <= value <= rule.most:
                raise _wrong(path, f"is {value}, not between {rule.least} and {rule.most}")
            fields[name] = value
        elif isinstance(rule, Text):
            if len(value) > rule.longest:
                raise _wrong(path, f"has a length of {len(value)}; at most {rule.longest} are taken")
            fields[name] = value
        else:
            fields[name] = _read_entries(tuple(value), rule, path, known)
    return fields


def _read_entries(values: tuple[Any, ...], rule: Entries, path: str, known: dict[str, int]) -> tuple[Any, ...]:
    """Return a list that fits."""
    count = len(values)
    if count > rule.most:
        raise _wrong(path, f"has {count} entries; at most {rule.most} are taken")
    if not (rule.optional and not count) and count != known.setdefault(rule.of, count):
        raise _wrong(path, f"has {count} entries, not one for each {rule.of}, of which there are {known[rule.of]}")
    lengths = list(map(len, values))
    if count and not rule.shortest <= min(lengths) <= max(lengths) <= rule.longest:
        wrong = values[lengths.index(min(lengths) if min(lengths) < rule.shortest else max(lengths))]
        raise _wrong(path, f"has {wrong[:_SHOWN]!r}, whose length is not {rule.shortest} to {rule.longest}")
    if rule.plain and count and isinstance(values[0], str) and not "".join(values).isprintable():
        wrong = next(value for value in values if not value.isprintable())
        raise _wrong(path, f"has {wrong[:_SHOWN]!r}, with characters that cannot be printed")
    if rule.distinct and len(set(values)) != count:
        raise _wrong(path, "has an entry twice")
    return values


def _read_column(data: bytes, rule: Column, path: str, known: dict[str, int]) -> npt.NDArray[Any]:
    """Return an array that fits, of as many dimensions as its rule names."""
    array: npt.NDArray[Any] = unpack_column(data, rule.kind, name=path)
    if rule.optional and not array.size:
        return array
    is_flat = len(rule.of) == 1
    if is_flat:
        wanted = known.setdefault(rule.of[0], len(array) - rule.extra) + rule.extra
    else:
        wanted = prod([known[dimension] for dimension in rule.of]) + rule.extra
    if len(array) != wanted:
        raise _wrong(path, f"has {len(array)} elements; its message's other columns call for {wanted}")
    if array.size and rule.kind != "uuid":
        _check_range(array, rule, path, known)
    return array if is_flat else array.reshape([known[dimension] for dimension in rule.of])


def _check_range(array: npt.NDArray[Any], rule: Column, path: str, known: dict[str, int]) -> None:
    """Do nothing if all values are in their range, and distinct if they have to be."""
    most = known[rule.into] - 1 if rule.into else rule.most
    least = 0 if rule.into and rule.least is None else rule.least
    if array.size <= _FEW and rule.kind not in _FLOATS:
        values = array.tolist()
        low, high = min(values), max(values)
    else:
        low, high = np.minimum.reduce(array).item(), np.maximum.reduce(array).item()  # one NaN makes both NaN
    if not ((least is None or low >= least) and (most is None or high <= most)):
        wrong = high if least is None or low >= least else low
        raise _wrong(path, f"has {wrong}, not between {least} and {most}")
    if rule.distinct and array.size > 1:
        ordered = np.sort(array)
        if (ordered[1:] == ordered[:-1]).any():
            raise _wrong(path, "has a value twice")


def _wrong(path: str, description: str) -> InvalidRequest:
    return InvalidRequest(
        f"a message of a session does not fit: {path} {description}",
        violations=(FieldViolation(field=path, description=description),),
    )
