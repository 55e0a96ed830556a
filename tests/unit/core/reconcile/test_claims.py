"""Whose a run is: the leader's whose row of it is here; what was seen before the row is held back."""

from __future__ import annotations

import numpy as np

from argosy_core.job.tables.members import Members
from argosy_core.reconcile import Observations, PoolClaims
from argosy_core.reconcile.claims import HaveRows


def seen(*handles: int, gone: bool = False, state: int = 3, uid: int = 1, stop_after_s: float = 0.0) -> Observations:
    """Return pods of first attempts."""
    count = len(handles)
    return Observations(
        gone_column=np.full(count, gone),
        handle_column=np.array(handles, dtype=np.int64),
        ordinal_column=np.ones(count, dtype=np.int64),
        object_column=np.zeros(count, dtype=np.int16),
        kind_column=np.zeros(count, dtype=np.int16),
        state_column=np.full(count, state, dtype=np.int8),
        uid_column=np.full((count, 16), uid, dtype=np.uint8),
        time_us_column=np.zeros(count, dtype=np.int64),
        exit_code_column=np.zeros(count, dtype=np.int32),
        failure_column=np.zeros(count, dtype=np.int8),
        message_column=np.full(count, -1, dtype=np.int32),
        namespace_column=np.zeros(count, dtype=np.int32),
        kinds=("Pod",),
        texts=("default",),
        stop_after_s=dict.fromkeys(range(count), stop_after_s) if stop_after_s else {},
    )


def rows(*handles: int) -> HaveRows:
    """Return a pool that has the rows of these jobs."""
    return lambda members: np.isin(members.handle, handles)


def take(claims: PoolClaims, *handles: int) -> list[tuple[int, int]]:
    """Take what was held back of first attempts; return handle and state of each object."""
    taken = claims.take(Members.of(handles, np.ones(len(handles))))
    return [pair for one in taken for pair in zip(one.handle_column.tolist(), one.state_column.tolist(), strict=True)]


def handles(parts: list[Observations]) -> list[list[int]]:
    """Return the handles of each pool's part."""
    return [one.handle_column.tolist() for one in parts]


def test_nothing_is_copied_where_one_pool_has_all_rows() -> None:
    """As nearly always."""
    claims, observed = PoolClaims(), seen(1, 2)
    assert claims.split(observed, [rows(1, 2)])[0] is observed
    assert claims.split_listing(observed, [rows(1, 2)])[0] is observed
    assert len(claims.unclaimed()) == 0
    assert take(claims, 1) == []


def test_what_is_seen_of_a_run_without_a_row_is_held_back_until_its_row_is_here() -> None:
    """One pool or several: labels can be written by anybody, and only the row says where the run lives."""
    claims = PoolClaims()
    assert handles(claims.split(seen(1, 2, 3), [rows(1)])) == [[1]]
    claims.split(seen(2, state=4), [rows(1)])
    assert sorted(claims.unclaimed().handle.tolist()) == [2, 3]
    assert take(claims, 2) == [(2, 4)]
    assert handles(claims.split(seen(1, 2, 3), [rows(1), rows(2)])) == [[1], [2]]


def test_all_that_claim_to_be_one_object_are_held_back() -> None:
    """Whoever came last must not drive out the run's own."""
    claims = PoolClaims()
    claims.split(seen(1, uid=1, state=2), [rows()])
    claims.split(seen(1, uid=2, state=3), [rows()])
    assert take(claims, 1) == [(1, 2), (1, 3)]


def test_leaders_are_told_of_runs_that_nobody_claimed_whenever_there_is_another() -> None:
    """Not again for each change of it, but with each listing: what was asked for then may have failed."""
    claims = PoolClaims()
    assert claims.unclaimed_version == 0
    claims.split(seen(1), [rows()])
    before = claims.unclaimed_version
    claims.split(seen(1), [rows()])
    assert claims.unclaimed_version == before > 0
    claims.split(seen(2), [rows()])
    assert claims.unclaimed_version > before
    before = claims.unclaimed_version
    claims.split_listing(seen(1, 2), [rows()])
    assert claims.unclaimed_version > before


def test_a_run_that_went_before_anybody_claimed_it_is_forgotten() -> None:
    """There is nothing to tell or to stop."""
    claims = PoolClaims()
    claims.split(seen(1, 2), [rows()])
    claims.split(seen(1, gone=True), [rows()])
    assert claims.unclaimed().handle.tolist() == [2]
    claims.split_listing(seen(3), [rows()])
    assert claims.unclaimed().handle.tolist() == [3]


def discard(claims: PoolClaims, handle: int, now_s: float) -> None:
    """Let the pods of a first attempt go."""
    claims.discard(Members.of([handle], [1]), now_s, keep_finished_s=60.0, keep_failed_s=600.0)


def due(claims: PoolClaims, now_s: float, *, may_act: bool = True, silent_s: float = 0.0) -> list[int]:
    """Return the handles of what is to be deleted now."""
    deletes = claims.take_due(now_s, may_act=may_act, silent_s=silent_s)
    return [] if deletes is None else deletes.handle_column.tolist()


def test_what_no_leader_knows_is_deleted_by_uid_and_asked_for_again_after_a_while() -> None:
    """It stays held back until it is gone, so that a call that failed is repeated; nothing goes while fenced."""
    claims = PoolClaims()
    claims.split(seen(1, 2, uid=7), [rows()])
    discard(claims, 1, 100.0)
    assert due(claims, 100.0, may_act=False) == []
    deletes = claims.take_due(100.0, may_act=True, silent_s=0.0)
    assert deletes is not None
    assert (deletes.handle_column.tolist(), deletes.uid_column[0].tolist()) == ([1], [7] * 16)
    claims.split_listing(seen(1, 2, uid=7), [rows()])
    discard(claims, 1, 101.0)
    assert due(claims, 102.0) == []
    assert due(claims, 140.0) == [1]
    claims.split(seen(1, uid=7, gone=True), [rows()])
    assert due(claims, 900.0) == []


def test_what_has_ended_and_no_leader_knows_stays_for_its_time() -> None:
    """Its log is to be read still, as before the executor restarted."""
    claims = PoolClaims()
    claims.split(seen(1, state=4), [rows()])
    claims.split(seen(2, state=5), [rows()])
    discard(claims, 1, 100.0)
    discard(claims, 2, 100.0)
    assert due(claims, 159.0) == []
    assert due(claims, 161.0) == [1]
    claims.split(seen(1, gone=True), [rows()])
    assert due(claims, 701.0) == [2]


def test_a_row_that_comes_after_all_spares_what_was_to_go() -> None:
    """Somebody may have written labels of a run that was not leased yet; whose objects these are, the row decides."""
    claims = PoolClaims()
    claims.split(seen(1), [rows()])
    discard(claims, 1, 100.0)
    assert take(claims, 1) == [(1, 3)]
    assert due(claims, 101.0) == []


def test_what_is_held_back_goes_when_it_may_not_stay_without_a_leader_any_longer() -> None:
    """After a restart without a leader no row comes, and the job is given to another cluster."""
    claims = PoolClaims()
    claims.split(seen(1, stop_after_s=60.0), [rows()])
    claims.split(seen(2), [rows()])
    assert due(claims, 100.0, may_act=False, silent_s=59.0) == []
    assert due(claims, 102.0, may_act=False, silent_s=61.0) == [1]
    assert due(claims, 103.0, may_act=False, silent_s=62.0) == []
