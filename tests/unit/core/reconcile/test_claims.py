"""Whose a run is, where an executor serves the leaders of several pools."""

from __future__ import annotations

import numpy as np

from argosy_core.job.tables.members import Members
from argosy_core.reconcile import Observations, PoolClaims


def seen(*handles: int, gone: bool = False, state: int = 3) -> Observations:
    """Return pods of first attempts."""
    count = len(handles)
    return Observations(
        gone_column=np.full(count, gone),
        handle_column=np.array(handles, dtype=np.int64),
        ordinal_column=np.ones(count, dtype=np.int64),
        object_column=np.zeros(count, dtype=np.int16),
        kind_column=np.zeros(count, dtype=np.int16),
        state_column=np.full(count, state, dtype=np.int8),
        uid_column=np.ones((count, 16), dtype=np.uint8),
        time_us_column=np.zeros(count, dtype=np.int64),
        exit_code_column=np.zeros(count, dtype=np.int32),
        failure_column=np.zeros(count, dtype=np.int8),
        message_column=np.full(count, -1, dtype=np.int32),
        kinds=("Pod",),
        texts=(),
    )


def claim(claims: PoolClaims, pool: int, *handles: int) -> list[list[int]]:
    """Claim first attempts; return the handles of what was held back, by batch."""
    taken = claims.claim(pool, Members.of(handles, np.ones(len(handles))))
    return [one.handle_column.tolist() for one in taken]


def handles(parts: list[Observations]) -> list[list[int]]:
    """Return the handles of each pool's part."""
    return [one.handle_column.tolist() for one in parts]


def test_one_pool_has_every_run() -> None:
    """An executor of one pool asks nobody, and nothing is copied."""
    claims, observed = PoolClaims(1), seen(1, 2)
    assert claims.split(observed)[0] is observed
    assert claims.split_listing(observed, [lambda *_: False])[0] is observed
    assert claim(claims, 0, 1) == []
    assert len(claims.unclaimed()) == 0


def test_what_is_seen_goes_to_the_pool_that_claimed_the_run() -> None:
    """And what was seen before is held back until then, in its last state."""
    claims = PoolClaims(2)
    claim(claims, 0, 1)
    assert handles(claims.split(seen(1, 2, 3))) == [[1], []]
    claims.split(seen(2, state=4))
    assert sorted(claims.unclaimed().handle.tolist()) == [2, 3]
    (late,) = claims.claim(1, Members.of([2], [1]))
    assert (late.handle_column.tolist(), late.state_column.tolist()) == ([2], [4])
    assert handles(claims.split(seen(1, 2, 3))) == [[1], [2]]


def test_leaders_are_told_of_runs_that_nobody_claimed_whenever_there_is_another() -> None:
    """Not again for each change of it."""
    claims = PoolClaims(2)
    assert claims.unclaimed_version == 0
    claims.split(seen(1))
    before = claims.unclaimed_version
    claims.split(seen(1))
    assert claims.unclaimed_version == before > 0
    claims.split(seen(2))
    assert claims.unclaimed_version > before


def test_a_run_that_went_before_anybody_claimed_it_is_forgotten() -> None:
    """There is nothing to tell or to stop."""
    claims = PoolClaims(2)
    claims.split(seen(1, 2))
    claims.split(seen(1, gone=True))
    assert claims.unclaimed().handle.tolist() == [2]
    claims.split_listing(seen(3), [lambda *_: False, lambda *_: False])
    assert claims.unclaimed().handle.tolist() == [3]


def test_claims_last_as_long_as_the_run_is_listed_or_known() -> None:
    """Else they would grow for ever."""
    claims = PoolClaims(2)
    claim(claims, 0, 1, 2)
    claim(claims, 1, 3, 4)
    claims.split_listing(seen(1), [lambda *_: False, lambda handle, _: handle == 3])
    assert handles(claims.split(seen(1, 2, 3, 4))) == [[1], [3]]
    assert sorted(claims.unclaimed().handle.tolist()) == [2, 4]
