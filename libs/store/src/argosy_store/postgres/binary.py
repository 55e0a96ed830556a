"""Postgres' binary forms, made and read by NumPy: COPY buffers and array parameters.

A column of fixed width becomes two fields of one structured big-endian array, so a thousand rows cost a handful of
NumPy calls. Texts are joined as bytes; a text that comes from a table is encoded once and then only referred to.

Source: design section 8, "numeric rows as binary COPY and arrays from NumPy".
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from argosy_store.postgres.connection import Parameter

__all__ = [
    "BYTEA",
    "INT2",
    "INT4",
    "INT8",
    "TEXT",
    "UUID",
    "Column",
    "Kind",
    "array",
    "bytes_array",
    "copy_buffer",
    "copy_rows",
    "fields",
    "indexed_fields",
    "job_id_column",
    "read_array",
    "scalar",
    "text_array",
    "uuid_column",
]

_COPY_HEADER: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_COPY_TRAILER: Final = b"\xff\xff"
_NULL_FIELD: Final = b"\xff\xff\xff\xff"
_INT32: Final = struct.Struct(">i")
_ARRAY_HEADER_BYTES: Final = 20
_VARIANT: Final = np.uint64(0b10 << 62)


class Kind(NamedTuple):
    """A Postgres type."""

    oid: int
    """Its object id."""
    array_oid: int
    """Object id of its array type."""
    dtype: str
    """NumPy form of a value on the wire; empty for types of variable width."""


BYTEA: Final = Kind(17, 1001, "")
INT8: Final = Kind(20, 1016, ">i8")
INT2: Final = Kind(21, 1005, ">i2")
INT4: Final = Kind(23, 1007, ">i4")
TEXT: Final = Kind(25, 1009, "")
UUID: Final = Kind(2950, 2951, "V16")


class Column(NamedTuple):
    """One column of fixed width."""

    kind: Kind
    """Its type."""
    values: npt.NDArray[Any] | int
    """Values, one per row, or one value for all rows. UUIDs are void16 in network order."""


def uuid_column(packed: bytes | npt.NDArray[Any]) -> npt.NDArray[np.void]:
    """Return packed UUIDs (16 bytes each, network order) as a column."""
    return np.frombuffer(packed, dtype="V16")


def job_id_column(id_highs: npt.NDArray[np.int64], handles: npt.NDArray[np.int64]) -> npt.NDArray[np.void]:
    """Return job ids as a UUID column, made of their upper halves and the handles."""
    halves = np.empty((len(handles), 2), dtype=">u8")
    halves[:, 0] = id_highs.astype(np.uint64)
    halves[:, 1] = handles.astype(np.uint64) | _VARIANT
    return halves.reshape(-1).view("V16")


def scalar(kind: Kind, value: int | str | bytes | None) -> Parameter:
    """Return one value as a parameter."""
    if value is None:
        return Parameter(kind.oid, None)
    if isinstance(value, str):
        return Parameter(kind.oid, value.encode())
    if isinstance(value, bytes):
        return Parameter(kind.oid, value)
    return Parameter(kind.oid, np.array(value, dtype=kind.dtype).tobytes())


@lru_cache(maxsize=64)
def _element_dtype(value: str) -> np.dtype[Any]:
    """Return the layout of an array's element: its length, then its value."""
    return np.dtype([("size", ">i4"), ("value", value)])


def array(kind: Kind, values: npt.NDArray[Any] | Sequence[int]) -> Parameter:
    """Return values of fixed width as an array parameter. Complexity: O(n), no Python object per element."""
    given = np.asarray(values) if kind.dtype == "V16" else np.asarray(values, dtype=kind.dtype)
    elements = np.empty(len(given), dtype=_element_dtype(kind.dtype))
    elements["size"] = np.dtype(kind.dtype).itemsize
    elements["value"] = given
    return Parameter(kind.array_oid, _array_header(kind, len(given)) + elements.tobytes())


def _array_header(kind: Kind, count: int) -> bytes:
    """Return the header of a one-dimensional array; an array without elements has no dimension."""
    if count == 0:
        return struct.pack(">iii", 0, 0, kind.oid)
    return struct.pack(">iiiii", 1, 1, kind.oid, count, 1)


def fields(values: Iterable[bytes | None]) -> list[bytes]:
    """Return texts or byte strings with their lengths before them; None becomes NULL."""
    pack = _INT32.pack
    return [_NULL_FIELD if value is None else pack(len(value)) + value for value in values]


def indexed_fields(index: npt.NDArray[np.integer[Any]], table: Sequence[str | bytes]) -> list[bytes]:
    """Return one field per row out of a table of texts; a negative index becomes NULL.

    Complexity: O(table) encodings and O(n) list look-ups.
    """
    encoded = fields(entry.encode() if isinstance(entry, str) else entry for entry in table)
    encoded.append(_NULL_FIELD)
    # -1 is the last entry, which is NULL.
    return list(map(encoded.__getitem__, index.tolist()))


def text_array(encoded: Sequence[bytes], kind: Kind = TEXT) -> Parameter:
    """Return fields, as `fields` and `indexed_fields` make them, as an array parameter."""
    return Parameter(kind.array_oid, _array_header(kind, len(encoded)) + b"".join(encoded))


def bytes_array(values: Iterable[bytes | None]) -> Parameter:
    """Return byte strings as a bytea[] parameter."""
    return text_array(fields(values), BYTEA)


@lru_cache(maxsize=64)
def _row_dtype(values: tuple[str, ...]) -> np.dtype[Any]:
    """Return the layout of a row of fixed columns: field count, then length and value of each."""
    layout: list[tuple[str, str]] = [("count", ">i2")]
    for position, value in enumerate(values):
        layout += [(f"size{position}", ">i4"), (f"value{position}", value)]
    return np.dtype(layout)


def copy_rows(columns: Sequence[Column], count: int, variable_count: int = 0) -> npt.NDArray[Any]:
    """Return the fixed part of rows for COPY as a structured array.

    Args:
        columns: Columns in the order of the statement.
        count: Number of rows.
        variable_count: Number of further columns that will be appended to each row.
    """
    rows = np.empty(count, dtype=_row_dtype(tuple(column.kind.dtype for column in columns)))
    rows["count"] = len(columns) + variable_count
    for position, (kind, values) in enumerate(columns):
        rows[f"size{position}"] = np.dtype(kind.dtype).itemsize
        rows[f"value{position}"] = values
    return rows


def copy_buffer(columns: Sequence[Column], count: int, variable: Sequence[Sequence[bytes]] = ()) -> bytes:
    """Return a whole COPY buffer.

    Args:
        columns: Columns of fixed width, first in the statement.
        count: Number of rows.
        variable: Fields of the columns after them, one list per column, as `fields` makes them.

    Complexity: O(bytes); per row only one join of byte strings, and that only with variable columns.
    """
    rows = copy_rows(columns, count, len(variable))
    if not variable:
        return b"".join((_COPY_HEADER, rows.tobytes(), _COPY_TRAILER))
    fixed: list[bytes] = rows.view(f"V{rows.dtype.itemsize}").tolist()
    parts = chain.from_iterable(zip(fixed, *variable, strict=True))
    return b"".join(chain((_COPY_HEADER,), parts, (_COPY_TRAILER,)))


def read_array(value: bytes | None, kind: Kind) -> npt.NDArray[Any]:
    """Return a one-dimensional array in binary form, of a type of fixed width and without NULL; no value is no element.

    Returns:
        A native array; UUIDs as void16. Complexity: O(n), no Python object per element.
    """
    if value is None:
        return np.empty(0, dtype=kind.dtype.replace(">", "="))
    elements = np.frombuffer(value, dtype=_element_dtype(kind.dtype), offset=_ARRAY_HEADER_BYTES)["value"]
    return elements.copy() if kind.dtype == "V16" else elements.astype(kind.dtype.replace(">", "="))
