"""Tests of packed columns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.lease.v1 import lease_pb2
from argosy_core.errors import InvalidRequest
from argosy_core.job.tables.members import Members
from argosy_runtime.columns import (
    ColumnType,
    check_indices,
    member_columns,
    pack_column,
    read_columns,
    read_members,
    unpack_column,
)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20))
def test_column_unpacks_to_what_was_packed(values: list[int]) -> None:
    """Packing and unpacking is the identity."""
    assert unpack_column(pack_column(values, "int64"), "int64", name="x").tolist() == values


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([1, -1], "int8", b"\x01\xff"),
        ([1], "int16", b"\x01\x00"),
        ([258], "int32", b"\x02\x01\x00\x00"),
        ([1], "int64", b"\x01" + bytes(7)),
        ([1.0], "float64", b"\x00\x00\x00\x00\x00\x00\xf0\x3f"),
        ([], "int32", b""),
    ],
)
def test_column_is_packed_little_endian(values: list[float], kind: ColumnType, expected: bytes) -> None:
    """The bytes are those the protocol states, on any machine."""
    assert pack_column(values, kind) == expected
    assert pack_column(np.array(values, dtype=">f8" if kind == "float64" else ">i8"), kind) == expected


@pytest.mark.parametrize(("value", "kind"), [(128, "int8"), (-129, "int8"), (1 << 31, "int32")])
def test_column_refuses_value_that_would_wrap(value: int, kind: ColumnType) -> None:
    """A value that does not fit is a fault, not another value."""
    with pytest.raises(OverflowError):
        pack_column(np.array([value]), kind)


def test_uuid_column_has_sixteen_bytes_an_element() -> None:
    """Uids are rows of 16 bytes."""
    data = bytes(range(32))
    rows = unpack_column(data, "uuid", name="uid")
    assert rows.shape == (2, 16)
    assert pack_column(rows, "uuid") == data


def test_column_names_field_whose_length_is_broken() -> None:
    """A truncated column says which and why."""
    with pytest.raises(InvalidRequest) as caught:
        unpack_column(b"123", "int32", name="leases.attempt_column")
    assert caught.value.violations[0].field == "leases.attempt_column"
    assert "3 bytes, not a multiple of 4" in caught.value.violations[0].description


def test_read_columns_refuses_columns_of_different_lengths() -> None:
    """All columns of a message have one length."""
    message = lease_pb2.Stops(handle_column=pack_column([1, 2], "int64"), attempt_column=pack_column([1], "int32"))
    with pytest.raises(InvalidRequest) as caught:
        read_columns(message, {"handle_column": "int64", "attempt_column": "int32"}, where="stops")
    assert caught.value.violations[0].field == "stops.attempt_column"
    assert "1 elements" in caught.value.violations[0].description


@pytest.mark.parametrize(
    ("indices", "bound", "optional", "is_right"),
    [
        ([0, 1], 2, False, True),
        ([2], 2, False, False),
        ([-1], 2, False, False),
        ([-1], 0, True, True),
        ([], 0, False, True),
    ],
)
def test_check_indices_keeps_lookups_inside_their_list(
    *, indices: list[int], bound: int, optional: bool, is_right: bool
) -> None:
    """An index from outside points into its list, or is -1 where that means none."""
    array = np.array(indices, dtype=np.int32)
    if is_right:
        check_indices(array, bound, name="x", optional=optional)
    else:
        with pytest.raises(InvalidRequest):
            check_indices(array, bound, name="x", optional=optional)


KEY_COLUMNS: dict[str, ColumnType] = {"handle_column": "int64", "attempt_column": "int32"}


@pytest.mark.parametrize(("numbers", "size_bytes"), [([0, 0], 0), ([0, 1], 4)])
def test_members_survive_the_wire_and_cost_nothing_where_each_is_the_only_one(
    numbers: list[int], size_bytes: int
) -> None:
    """Numbers of members travel only if one of them is not 0."""
    members = Members.of([7, 7], [1, 2], np.array(numbers))
    message = lease_pb2.Stops(**member_columns(members))
    assert len(message.member_column) == size_bytes
    read = read_members(message, read_columns(message, KEY_COLUMNS), where="stops")
    assert read.pairs() == members.pairs()


@pytest.mark.parametrize(("attempt", "numbers"), [(1, [1]), (1, [0, -1]), (-1, [])])
def test_members_that_do_not_fit_their_message_are_refused(attempt: int, numbers: list[int]) -> None:
    """A broken key is the sender's fault; it never becomes another run's."""
    message = lease_pb2.Stops(
        handle_column=pack_column([7, 7], "int64"),
        attempt_column=pack_column([1, attempt], "int32"),
        member_column=pack_column(numbers, "int16"),
    )
    columns = read_columns(message, KEY_COLUMNS)
    with pytest.raises(InvalidRequest):
        read_members(message, columns, where="stops")
