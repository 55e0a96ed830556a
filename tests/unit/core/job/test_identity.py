"""An id carries its handle; a handle carries its day."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy_core.errors import InvalidRequest
from argosy_core.job.identity import compose_id, first_handle_of_day, handles_of_ending, id_high, parse_id, short_id


@given(
    st.integers(min_value=0, max_value=(1 << 48) - 1),
    st.integers(min_value=0, max_value=4095),
    st.integers(min_value=0, max_value=(1 << 55) - 1),
)
def test_an_id_is_a_version_7_uuid_that_gives_back_its_parts(time_ms: int, random_bits: int, handle: int) -> None:
    """Id to (upper half, handle) and back loses nothing, so no index on ids is needed."""
    high = id_high(time_ms, random_bits)
    text = compose_id(high, handle)
    assert UUID(text).version == 7
    assert parse_id(text) == (high, handle)


def test_ids_order_by_submit_time() -> None:
    """Ids of later milliseconds sort behind earlier ones as text."""
    assert compose_id(id_high(1000, 4095), 9) < compose_id(id_high(1001, 0), 1)


@pytest.mark.parametrize(
    "text", ["", "x", "00000000-0000-0000-0000-000000000000", "6fa459ea-ee8a-4ca4-894e-db77e160355e"]
)
def test_foreign_ids_are_refused(text: str) -> None:
    """A UUID of another kind names no job of ours."""
    with pytest.raises(InvalidRequest, match="job id"):
        parse_id(text)


def test_handles_of_a_day_share_a_range() -> None:
    """Rows of one day share a partition."""
    handle = first_handle_of_day(20_000) + 5
    assert first_handle_of_day(20_000) < handle < first_handle_of_day(20_001)


def test_short_id_is_the_end_that_only_one_job_has() -> None:
    """The digits of the number, at least six; they lead back to the handle, whatever its day was."""
    handle = first_handle_of_day(19_700) + 0x1A2B3C4
    job_id = compose_id(id_high(1, 0), handle)
    assert short_id(job_id) == "1a2b3c4"
    assert short_id(compose_id(id_high(1, 0), first_handle_of_day(3) + 0x2F)) == "00002f"
    day, numbers = range(19_700, 19_701), range(0x1000000, 0x2000000)
    for ending in ("1a2b3c4", "A2B3C4", "0001A2B3C4", job_id[-12:]):
        assert handles_of_ending(ending, day, numbers, most=1) == [handle]
    assert len(handles_of_ending("3c4f", day, range(0x30000), most=3)) == 3
    with pytest.raises(InvalidRequest, match="too short"):
        handles_of_ending("b3c4", day, numbers, most=8)
