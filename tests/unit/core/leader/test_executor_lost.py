"""Runs of a cluster whose executor is not heard of: kept, or given up after the time that their specs say."""

from __future__ import annotations

import numpy as np

from argosy_core.job.reading.stop_note import read_stop_note
from argosy_core.job.states import JobState
from argosy_core.scheduler.incoming.ingest import executor_rows
from argosy_core.scheduler.runs.outcomes import silent_states
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import LOST_LAYOUT, POD_LAYOUT

STOP_AFTER_S = 300.0


def leased(layout: bytes) -> tuple[LeaderWorld, int, int]:
    """Return a world with a leased job, its slot, and the index of its cluster."""
    world = LeaderWorld(clusters={"a": 2, "b": 2})
    (handle,) = world.submit(1, layout=layout)
    world.round()
    slot = int(world.state.live.slots(np.array([handle]))[0])
    return world, slot, int(world.state.live.cluster[slot])


def test_run_is_lost_once_its_executor_was_not_heard_of_for_as_long_as_its_spec_says() -> None:
    """Not before, and once only; the margin is in the moment from which silence counts."""
    world, slot, cluster = leased(LOST_LAYOUT)
    world.state.silence.begin(cluster, world.now_s)
    assert silent_states(world.state, world.now_s + STOP_AFTER_S - 1.0) == []
    ((name, columns),) = silent_states(world.state, world.now_s + STOP_AFTER_S)
    assert (name, columns.handle.tolist()) == (
        world.state.clusters.names[cluster],
        [int(world.state.live.handle[slot])],
    )


def test_run_without_the_word_is_waited_for_and_an_executor_that_is_back_keeps_its_runs() -> None:
    """No job runs twice unless it says that it may."""
    world, _, cluster = leased(POD_LAYOUT)
    world.state.silence.begin(cluster, world.now_s)
    assert silent_states(world.state, world.now_s + 1e6) == []
    world, slot, cluster = leased(LOST_LAYOUT)
    world.state.silence.begin(cluster, world.now_s)
    world.state.silence.end(cluster)
    assert silent_states(world.state, world.now_s + 1e6) == []
    assert world.state.live.state[slot] == JobState.LEASED


def test_rows_tell_executors_how_long_a_run_may_stay_without_a_leader() -> None:
    """The note goes with the metadata of the job; other jobs have none."""
    for layout, expected in ((LOST_LAYOUT, [STOP_AFTER_S]), (POD_LAYOUT, [])):
        world, slot, cluster = leased(layout)
        held = world.state.live.live_members(np.array([slot], dtype=np.int32))
        rows = executor_rows(world.state, cluster, held)
        assert [read_stop_note(text) for text in rows.metadata if text] == expected
