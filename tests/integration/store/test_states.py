"""States of objects, runs and jobs as a leader's transactions store them."""

import time

import numpy as np
import psycopg
import pytest
from tests.integration.store.stored import object_states

from argosy_core.job.tables.rows import ObjectUpdates
from argosy_store import Effects
from argosy_testkit.store_world import StoreWorld
from argosy_testkit.submissions import make_job_ends, make_reports, make_run_ends


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        ([2, 3, 4], 4),
        ([3, 2], 3),
        ([4, 5], 4),
        ([5, 3, 4], 5),
        ([3, 8], 8),
        ([3, 8, 3], 3),
        ([8, 2], 8),
        ([8, 4], 4),
        ([7, 8], 7),
        ([6, 4], 6),
        ([2, 2], 2),
    ],
)
def test_object_states_advance_by_rank_and_terminal_ones_absorb(
    world: StoreWorld, reports: list[int], expected: int
) -> None:
    """States never go back, terminal states never change, unknown stands beside running."""
    handles = world.submit_jobs(1)
    world.lease(handles)
    for state in reports:
        world.leader.apply(world.epoch, Effects(object_updates=make_reports(handles, state)))
    assert object_states(world) == [expected]


def test_object_updates_take_the_furthest_of_several_reports_of_one_object(world: StoreWorld) -> None:
    """In one batch the report that goes furthest counts, in whatever order they come."""
    handles = world.submit_jobs(2)
    world.lease(handles)
    first, second = handles.tolist()
    world.leader.apply(
        world.epoch,
        Effects(
            object_updates=ObjectUpdates(
                handle=np.array([second, first, first, second, first]),
                attempt=np.ones(5, dtype=np.int16),
                object_index=np.zeros(5, dtype=np.int16),
                state=np.array([3, 2, 4, 2, 3], dtype=np.int16),
                uid=np.zeros(5, dtype="V16"),
                message_index=np.full(5, -1, dtype=np.int32),
                messages=(),
                start_time_us=np.zeros(5, dtype=np.int64),
            )
        ),
    )
    assert object_states(world) == [4, 3]


def test_object_updates_keep_what_they_do_not_carry(world: StoreWorld) -> None:
    """Uid, message and start stay unless a report brings them."""
    handles = world.submit_jobs(2)
    world.lease(handles)
    ones, zeros = np.ones(2, dtype=np.int16), np.zeros(2, dtype=np.int16)
    uid = bytes(range(16))
    world.leader.apply(
        world.epoch,
        Effects(
            object_updates=ObjectUpdates(
                handle=handles, attempt=ones, object_index=zeros, state=ones * 2,
                uid=np.frombuffer(uid + bytes(16), dtype="V16"),
                message_index=np.array([0, -1], dtype=np.int32), messages=("pulling",),
                start_time_us=np.array([0, 7], dtype=np.int64),
            )
        ),
    )  # fmt: skip
    world.leader.apply(world.epoch, Effects(object_updates=make_reports(handles, 3)))
    with psycopg.connect(world.url) as connection:
        rows = connection.execute("SELECT uid, message, start_time_us, state FROM objects ORDER BY handle").fetchall()
    assert [(row[0].bytes if row[0] else None, *row[1:]) for row in rows] == [
        (uid, "pulling", None, 3),
        (None, None, 7, 3),
    ]


@pytest.mark.parametrize("second", [4, 5, 6])
def test_a_job_that_has_ended_never_changes(world: StoreWorld, second: int) -> None:
    """Terminal states of jobs and runs never change, and the leader is told what was absorbed."""
    handles = world.submit_jobs(2)
    world.lease(handles)
    ends = Effects(
        run_updates=make_run_ends(handles[:1], 5, reason="exit 1"),
        job_updates=make_job_ends(handles[:1], 5, reason="x"),
    )
    world.leader.apply(world.epoch, ends)
    before = world.api.get_job(int(handles[0]))
    later = Effects(
        run_updates=make_run_ends(handles, second, reason="late"),
        job_updates=make_job_ends(handles, second, reason="late", end_time_us=int(time.time() * 1e6)),
    )
    applied = world.leader.apply(world.epoch, later)
    assert applied.absorbed_handles.tolist() == [handles[0]]
    assert world.api.get_job(int(handles[0])) == before
    other = world.api.get_job(int(handles[1]))
    assert other is not None
    assert (other.state, other.reason, other.runs[0].state) == (second, "late", second)
