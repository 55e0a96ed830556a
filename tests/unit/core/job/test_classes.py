"""Scheduling classes as they are stored and read again."""

import pytest

from argosy_core.job.classes import SchedulingClass
from argosy_core.resources import MAX_AMOUNT


def test_parse_counts_amounts_above_what_can_be_counted_as_the_most() -> None:
    """A class that an earlier version stored stops no leader: it asks for more than any node has."""
    parsed = SchedulingClass.parse(b'{"requests":{"cpu":10000000000000000000,"memory":5}}')
    assert parsed.requests == (("cpu", MAX_AMOUNT), ("memory", 5))


@pytest.mark.parametrize("definition", [b"{}", b"[]", b'{"requests":[]}', b'{"requests":{"cpu":null}}', b"{"])
def test_parse_refuses_what_is_no_definition(definition: bytes) -> None:
    """Nothing half read comes out."""
    with pytest.raises(ValueError, match=r"."):
        SchedulingClass.parse(definition)
