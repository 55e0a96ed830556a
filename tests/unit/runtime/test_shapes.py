"""A message is taken if all its fields are as they may be, and refused as a whole otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from argosy.sampler.v1 import sampler_pb2
from argosy_core.errors import InvalidRequest
from argosy_runtime.shapes import Column, Entries, Number, Shape, Text, read_message

SHAPE: Shape = {
    "resources": Entries(of="resource", most=3, longest=5, shortest=1, distinct=True),
    "names": Entries(of="node", most=9, longest=9, optional=True),
    "node_column": Column("int32", ("node",), 0, 9, distinct=True),
    "free_column": Column("int64", ("node", "resource"), -5, 5),
    "groups": Entries(of="group", most=9, longest=4),
    "group_column": Column("int32", ("node",), -1, into="group"),
    "total_column": Column("float32", ("total",), 0, 1, extra=1),
    "flag_column": Column("int8", ("node",), optional=True),
    "node_count": Number(least=0, most=7),
}


def packed(kind: str, *values: float) -> bytes:
    """Return a packed column."""
    return np.array(values, dtype=kind).tobytes()


GOOD: dict[str, Any] = {
    "resources": ["cpu", "gpu"],
    "names": ["a", "b"],
    "node_column": packed("<i4", 0, 9),
    "free_column": packed("<i8", 1, 2, -5, 5),
    "groups": [b"{}"],
    "group_column": packed("<i4", -1, 0),
    "total_column": packed("<f4", 0.5),
    "node_count": 7,
}


def read(**changes: Any) -> dict[str, Any]:
    """Read a message that is good but for some changes."""
    return read_message(sampler_pb2.Capacity(**{**GOOD, **changes}), SHAPE, where="it", sizes={"total": 0})


def test_fields_come_as_arrays_of_their_dimensions_and_as_tuples() -> None:
    """What may be left out is empty."""
    fields = read()
    assert fields["free_column"].tolist() == [[1, 2], [-5, 5]]
    assert (fields["names"], fields["node_count"], fields["flag_column"].size) == (("a", "b"), 7, 0)
    assert read(names=[])["names"] == ()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"resources": ["cpu"] * 4}, "it.resources has 4 entries; at most 3"),
        ({"resources": ["cpu", "cpu"]}, "it.resources has an entry twice"),
        ({"resources": ["cpu", ""]}, "it.resources has ''"),
        ({"resources": ["cpu", "x" * 6]}, "it.resources has 'xxxxxx', whose length is not 1 to 5"),
        ({"resources": ["cpu", "a\x1b"]}, "characters that cannot be printed"),
        ({"names": ["a"]}, "it.node_column has 2 elements; its message's other columns call for 1"),
        ({"node_column": packed("<i4", 3, 3)}, "it.node_column has a value twice"),
        ({"node_column": packed("<i4", 0, 10)}, "it.node_column has 10, not between 0 and 9"),
        ({"node_column": packed("<i4", -1, 0)}, "it.node_column has -1, not between 0 and 9"),
        ({"node_column": b"abc"}, "it.node_column"),
        ({"free_column": packed("<i8", 1)}, "it.free_column has 1 elements"),
        ({"free_column": packed("<i8", 1, 2, 3, -6)}, "it.free_column has -6"),
        ({"group_column": packed("<i4", 0, 1)}, "it.group_column has 1, not between -1 and 0"),
        ({"groups": [b"12345"]}, "it.groups"),
        ({"total_column": packed("<f4", float("nan"))}, "it.total_column has nan"),
        ({"total_column": b""}, "it.total_column has 0 elements"),
        ({"node_count": 8}, "it.node_count is 8, not between 0 and 7"),
    ],
)
def test_message_is_refused_if_one_field_does_not_fit(changes: dict[str, Any], text: str) -> None:
    """The error says which field, and what is wrong with it."""
    with pytest.raises(InvalidRequest) as caught:
        read(**changes)
    assert text in caught.value.message or text in str(caught.value.violations)


def test_single_text_is_bounded() -> None:
    """Bytes count as characters do."""
    shape: Shape = {"address": Text(longest=2)}
    assert read_message(sampler_pb2.Redirect(address="ab"), shape, where="it") == {"address": "ab"}
    with pytest.raises(InvalidRequest, match="at most 2"):
        read_message(sampler_pb2.Redirect(address="abc"), shape, where="it")
