"""Columns: packed little-endian arrays in `bytes` fields, checked where they come in.

A column that does not fit its message is the sender's fault and is answered with `InvalidRequest`; nothing is read from
a message one of whose columns is wrong.

Source: `proto/argosy/lease/v1/lease.proto`, "Columns"; design section 8.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypedDict

import numpy as np
import numpy.typing as npt
from google.protobuf.message import Message

from argosy_core.errors import FieldViolation, InvalidRequest
from argosy_core.job.tables.members import Members

__all__ = [
    "ColumnType",
    "check_indices",
    "member_columns",
    "pack_column",
    "read_columns",
    "read_member_numbers",
    "read_members",
    "unpack_column",
    "unpack_optional",
]

ColumnType = Literal["int8", "int16", "int32", "int64", "float32", "float64", "uuid"]
"""Element type of a column; `uuid` is 16 bytes an element, as an (n, 16) array of uint8."""

_TYPES: Final[dict[str, np.dtype[np.generic]]] = {
    "int8": np.dtype("i1"),
    "int16": np.dtype("<i2"),
    "int32": np.dtype("<i4"),
    "int64": np.dtype("<i8"),
    "float32": np.dtype("<f4"),
    "float64": np.dtype("<f8"),
}
_UUID_BYTES: Final = 16


def pack_column(values: npt.ArrayLike, kind: ColumnType) -> bytes:
    """Return values as a packed column.

    Args:
        values: One value per record; (n, 16) uint8 for `uuid`.
        kind: Element type; values that do not fit raise OverflowError rather than wrap.

    Complexity: O(n); no copy beyond the bytes if the array has the column's type already.
    """
    if kind == "uuid":
        return np.ascontiguousarray(values, dtype=np.uint8).tobytes()
    array = np.asarray(values)
    target = _TYPES[kind]
    if array.dtype != target:
        if array.size == 0:
            return b""
        if array.dtype.kind in "iu" and target.kind == "i":
            bound = 1 << (8 * target.itemsize - 1)
            if int(array.min()) < -bound or int(array.max()) >= bound:
                raise OverflowError(f"values from {array.min()} to {array.max()} do not fit {kind}")
        array = array.astype(target)
    return array.tobytes()


def unpack_column(data: bytes, kind: ColumnType, *, name: str, count: int | None = None) -> npt.NDArray[Any]:
    """Return a column as a read-only array over the bytes, without a copy.

    Args:
        data: The packed column.
        kind: Element type.
        name: Path of the field, for the error.
        count: Number of elements it must have, if known.

    Raises:
        InvalidRequest: The length is no multiple of the element's, or not `count` elements.
    """
    width = _UUID_BYTES if kind == "uuid" else _TYPES[kind].itemsize
    if len(data) % width:
        raise _wrong(name, f"has {len(data)} bytes, not a multiple of {width} ({kind})")
    if count is not None and len(data) != count * width:
        raise _wrong(name, f"has {len(data) // width} elements; its message's other columns have {count}")
    if kind == "uuid":
        return np.frombuffer(data, dtype=np.uint8).reshape(-1, _UUID_BYTES)
    return np.frombuffer(data, dtype=_TYPES[kind])


def unpack_optional(data: bytes, kind: ColumnType, *, name: str, count: int) -> npt.NDArray[Any] | None:
    """Return a column that may be left out, None if it is; else as `unpack_column`.

    Raises:
        InvalidRequest: It is there, and not of that size.
    """
    return unpack_column(data, kind, name=name, count=count) if data else None


def read_columns(
    message: Message, columns: Mapping[str, ColumnType], *, where: str = ""
) -> dict[str, npt.NDArray[Any]]:
    """Return several columns of one message, all of one length, by field name.

    Args:
        message: Message with the columns.
        columns: Element type by field name.
        where: Path of the message, put before the names in errors.

    Raises:
        InvalidRequest: A column has a broken length, or the lengths differ.
    """
    arrays: dict[str, npt.NDArray[Any]] = {}
    count: int | None = None
    for name, kind in columns.items():
        path = f"{where}.{name}" if where else name
        arrays[name] = unpack_column(getattr(message, name), kind, name=path, count=count)
        count = len(arrays[name])
    return arrays


class MemberColumns(TypedDict):
    """Members of runs as fields of a message."""

    handle_column: bytes
    attempt_column: bytes
    member_column: bytes


def member_columns(members: Members) -> MemberColumns:
    """Return members of runs as columns; that of their numbers is empty if all are 0.

    Complexity: O(n); most runs have one member, and those cost no byte more.
    """
    numbers = members.numbers()
    return {
        "handle_column": pack_column(members.handle, "int64"),
        "attempt_column": pack_column(members.attempt, "int32"),
        "member_column": pack_column(numbers, "int16") if numbers is not None else b"",
    }


def read_members(message: Message, columns: Mapping[str, npt.NDArray[Any]], *, where: str) -> Members:
    """Return the members that a message names by the columns that `member_columns` gives.

    Args:
        message: Message with the columns.
        columns: What `read_columns` gave of it, handle and attempt among them.
        where: Path of the message, put before the names in errors.

    Raises:
        InvalidRequest: The numbers of the members have another length, or a part of a key is negative or too high.
    """
    handles = columns["handle_column"]
    return Members.of(handles, columns["attempt_column"], read_member_numbers(message, len(handles), where=where))


def read_member_numbers(message: Message, count: int, *, where: str) -> npt.NDArray[np.int16] | None:
    """Return the numbers of `count` members in their runs, None if the message says that all are 0.

    Args:
        message: Message with a column of that name.
        count: How many there must be.
        where: Path of the message, put before the name in errors.

    Raises:
        InvalidRequest: There are more or fewer, or one is negative.
    """
    data: bytes = message.member_column  # type: ignore[attr-defined]
    if not data:
        return None
    numbers: npt.NDArray[np.int16] = unpack_column(data, "int16", name=f"{where}.member_column", count=count)
    if numbers.size and numbers.min() < 0:
        raise _wrong(f"{where}.member_column", f"has a member {numbers.min()}; members count from 0")
    return numbers


def check_indices(indices: npt.NDArray[Any], bound: int, *, name: str, optional: bool = False) -> None:
    """Do nothing if all elements are indices into a list of `bound` entries (or -1, where that means none).

    Raises:
        InvalidRequest: One is not.
    """
    if indices.size == 0:
        return
    least = -1 if optional else 0
    low, high = int(indices.min()), int(indices.max())
    if low < least or high >= bound:
        raise _wrong(name, f"has index {low if low < least else high}; the list it points into has {bound} entries")


def _wrong(name: str, description: str) -> InvalidRequest:
    return InvalidRequest(
        "a column of the message is wrong", violations=(FieldViolation(field=name, description=description),)
    )
