"""Postgres' binary forms, against the layout its protocol documents."""

import struct
import uuid

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy_core.job.identity import compose_id
from argosy_store.postgres.binary import (
    BYTEA,
    INT2,
    INT4,
    INT8,
    TEXT,
    UUID,
    Column,
    Kind,
    array,
    bytes_array,
    copy_buffer,
    fields,
    indexed_fields,
    job_id_column,
    read_array,
    scalar,
    text_array,
    uuid_column,
)

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)


def field(value: bytes | None) -> bytes:
    """Return one field as COPY has it."""
    return struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value


def test_copy_buffer_holds_header_rows_and_trailer() -> None:
    """Field count, then length and value of each field, big-endian, for every row."""
    buffer = copy_buffer([Column(INT8, np.array([1, -2])), Column(INT2, 7)], 2, [fields([b"a", None])])
    row = struct.Struct(">hiqih")
    expected = row.pack(3, 8, 1, 2, 7) + field(b"a") + row.pack(3, 8, -2, 2, 7) + field(None)
    assert buffer == HEADER + expected + b"\xff\xff"


def test_copy_buffer_without_rows_is_header_and_trailer() -> None:
    """Nothing to copy is no special case."""
    assert copy_buffer([Column(INT8, np.empty(0))], 0, [[]]) == HEADER + b"\xff\xff"


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (INT8, [-(2**63), 0, 2**63 - 1]),
        (INT4, [-(2**31), 2**31 - 1]),
        (INT2, [-(2**15), 2**15 - 1]),
        (INT8, []),
    ],
)
def test_read_array_gives_back_what_array_was_given(kind: Kind, values: list[int]) -> None:
    """Every value of every fixed type survives the way there and back."""
    packed = array(kind, values).value
    assert read_array(packed if values else None, kind).tolist() == values


def test_read_array_gives_back_uuids() -> None:
    """They are bytes in network order."""
    given_values = uuid_column(bytes(range(32)))
    assert read_array(array(UUID, given_values).value, UUID).tolist() == given_values.tolist()


@pytest.mark.parametrize(
    ("kind", "values", "packed"),
    [
        (INT8, [1, -1], [struct.pack(">q", 1), struct.pack(">q", -1)]),
        (INT4, [5], [struct.pack(">i", 5)]),
        (INT2, [3, 4, 5], [struct.pack(">h", value) for value in (3, 4, 5)]),
    ],
    ids=["int8", "int4", "int2"],
)
def test_array_has_header_and_elements(kind: Kind, values: list[int], packed: list[bytes]) -> None:
    """One dimension, possibly with nulls, counted from 1."""
    header = struct.pack(">iiiii", 1, 1, kind.oid, len(values), 1)
    parameter = array(kind, np.array(values))
    assert parameter == (kind.array_oid, header + b"".join(map(field, packed)))


def test_array_without_elements_has_no_dimension() -> None:
    """Postgres writes an empty array so."""
    assert array(INT8, []).value == struct.pack(">iii", 0, 0, INT8.oid)
    assert text_array([]).value == struct.pack(">iii", 0, 0, TEXT.oid)


@given(st.lists(st.one_of(st.none(), st.binary(max_size=300)), min_size=1, max_size=10))
def test_bytes_array_keeps_values_and_nulls(values: list[bytes | None]) -> None:
    """Byte strings of any length and NULLs stand side by side."""
    parameter = bytes_array(values)
    assert parameter.oid == BYTEA.array_oid
    assert parameter.value == struct.pack(">iiiii", 1, 1, BYTEA.oid, len(values), 1) + b"".join(map(field, values))


def test_indexed_fields_take_texts_from_a_table_and_null_for_none() -> None:
    """A negative index is NULL; texts are UTF-8."""
    assert indexed_fields(np.array([1, -1, 0, 1]), ["a", "é"]) == [
        field("é".encode()), field(None), field(b"a"), field("é".encode()),
    ]  # fmt: skip


@given(st.integers(-(2**63), 2**63 - 1), st.integers(1, 2**55 - 1))
def test_job_id_column_is_the_id_that_people_see(high: int, handle: int) -> None:
    """The id in the database and the id in answers are one."""
    column = job_id_column(np.array([high]), np.array([handle]))
    assert str(uuid.UUID(bytes=column[0].tobytes())) == compose_id(high, handle)


@pytest.mark.parametrize(
    ("kind", "value", "packed"),
    [
        (INT8, -3, struct.pack(">q", -3)),
        (TEXT, "é", "é".encode()),
        (BYTEA, b"\0\1", b"\0\1"),
        (TEXT, None, None),
    ],
)
def test_scalar_packs_one_value(kind: Kind, value: int | str | bytes | None, packed: bytes | None) -> None:
    """One value as Postgres sends it."""
    assert scalar(kind, value) == (kind.oid, packed)
