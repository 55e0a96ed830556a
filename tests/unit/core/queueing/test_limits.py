"""Which jobs may start below the limits of a queue."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy_core.queueing import QueueLimits, keep_within

_AMOUNTS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12)


@pytest.mark.parametrize(
    ("amounts", "left", "count", "kept"),
    [
        pytest.param([2, 2, 2], 4, 9, [True, True, False], id="as-many-as-fit"),
        pytest.param([2, 9, 2], 4, 9, [True, False, True], id="what-fits-passes-what-does-not"),
        pytest.param([1, 1, 1], 9, 2, [True, True, False], id="no-more-than-the-count"),
        pytest.param([1, 0], -3, 9, [False, True], id="over-the-limit-only-what-asks-for-none"),
        pytest.param([1], 9, 0, [False], id="no-job-left"),
    ],
)
def test_jobs_start_below_the_limits_in_their_order(
    amounts: list[int], left: int, count: int, kept: list[bool]
) -> None:
    """Each if it fits beside those before it that may."""
    column = np.array(amounts, dtype=np.int64)[:, None]
    assert keep_within(column, np.array([left], dtype=np.int64), count).tolist() == kept


@given(amounts=_AMOUNTS, left=st.tuples(st.integers(0, 12), st.integers(0, 12)), count=st.integers(0, 8))
def test_keeping_within_limits_is_the_plain_loop(
    amounts: list[tuple[int, int]], left: tuple[int, int], count: int
) -> None:
    """Computed for many at once, the same as one after the other."""
    held, kept = [0, 0], []
    for one in amounts:
        fits = sum(kept) < count and all(h + a <= most for h, a, most in zip(held, one, left, strict=True))
        held = [h + a for h, a in zip(held, one, strict=True)] if fits else held
        kept.append(fits)
    columns = np.array(amounts, dtype=np.int64).reshape(-1, 2)
    assert keep_within(columns, np.array(left, dtype=np.int64), count).tolist() == kept


def test_a_queue_without_limits_has_none() -> None:
    """Then nothing is looked at."""
    assert not QueueLimits()
    assert QueueLimits(max_running_count=1)
    assert QueueLimits(max_running_amounts=(("cpu", 0),))
