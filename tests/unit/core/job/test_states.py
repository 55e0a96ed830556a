"""The transition table of jobs and runs, and how late reports apply."""

from __future__ import annotations

import numpy as np
import pytest

from argosy_core.errors import InvariantViolation
from argosy_core.job.states import (
    IS_JOB_TERMINAL,
    IS_RUN_TERMINAL,
    JOB_EVENT_OF_RUN_STATE,
    JOB_RANKS,
    JOB_STATE_OF_RUN_STATE,
    JOB_TRANSITIONS,
    RUN_MAY_FOLLOW,
    RUN_RANKS,
    RUN_TRANSITIONS,
    InvalidTransition,
    JobEventKind,
    JobState,
    ObjectState,
    RunState,
    Writer,
    advance_states,
    is_advance,
    next_job_state,
    next_run_state,
    resolve_ends,
)


@pytest.mark.parametrize(
    ("events", "end"),
    [
        pytest.param("SUBMITTED LEASED CREATED RUNNING SUCCEEDED", JobState.SUCCEEDED, id="success"),
        pytest.param("SUBMITTED LEASED CREATED RUNNING FAILED", JobState.FAILED, id="failure"),
        pytest.param("SUBMITTED LEASED SUCCEEDED", JobState.SUCCEEDED, id="overtaken"),
        pytest.param("SUBMITTED CANCEL_REQUESTED CANCELLED", JobState.CANCELLED, id="cancelled-in-queue"),
        pytest.param("SUBMITTED LEASED RUNNING CANCEL_REQUESTED CANCELLED", JobState.CANCELLED, id="cancelled-running"),
        pytest.param("SUBMITTED LEASED RUNNING REQUEUED LEASED RUNNING SUCCEEDED", JobState.SUCCEEDED, id="retried"),
        pytest.param("SUBMITTED LEASED RUNNING UNKNOWN RUNNING SUCCEEDED", JobState.SUCCEEDED, id="node-came-back"),
        pytest.param("SUBMITTED LEASED RUNNING UNKNOWN REQUEUED", JobState.QUEUED, id="node-lost"),
        pytest.param("SUBMITTED FAILED", JobState.FAILED, id="ten-failed-attempts"),
        pytest.param("SUBMITTED REPRIORITIZED LEASED REPRIORITIZED CREATED", JobState.LEASED, id="reprioritised"),
    ],
)
def test_job_state_follows_table_for_legal_histories(events: str, end: JobState) -> None:
    """Each legal history of events leads to its state."""
    state = None
    for name in events.split():
        state = next_job_state(state, JobEventKind[name])
    assert state == end


@pytest.mark.parametrize("state", [JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED])
@pytest.mark.parametrize("event", list(JobEventKind))
def test_job_state_never_leaves_terminal_state_for_any_event(state: JobState, event: JobEventKind) -> None:
    """Terminal states never change."""
    with pytest.raises(InvalidTransition):
        next_job_state(state, event)


@pytest.mark.parametrize(
    ("state", "event"),
    [
        pytest.param(None, JobEventKind.LEASED, id="lease-before-submit"),
        pytest.param(JobState.QUEUED, JobEventKind.RUNNING, id="run-without-lease"),
        pytest.param(JobState.LEASED, JobEventKind.LEASED, id="second-lease"),
        pytest.param(JobState.RUNNING, JobEventKind.CREATED, id="backwards"),
        pytest.param(JobState.QUEUED, JobEventKind.SUBMITTED, id="second-submit"),
    ],
)
def test_invalid_transition_carries_history_for_what_is_not_in_table(
    state: JobState | None, event: JobEventKind
) -> None:
    """What is not in the table raises with the job's history."""
    with pytest.raises(InvalidTransition, match="job 7") as caught:
        next_job_state(state, event, subject="job 7", history=[JobEventKind.SUBMITTED, "moved"])
    assert caught.value.state == state
    assert caught.value.event == event
    assert caught.value.history == (JobEventKind.SUBMITTED, "moved")
    assert "submitted -> moved" in caught.value.message
    assert isinstance(caught.value, InvariantViolation)


def test_writers_are_api_before_and_leader_after_the_lease() -> None:
    """API replicas write submits and wishes; everything else is the leader's."""
    by_api = {event for (_, event), (_, writer) in JOB_TRANSITIONS.items() if writer is Writer.API}
    assert by_api == {
        JobEventKind.SUBMITTED,
        JobEventKind.CANCEL_REQUESTED,
        JobEventKind.REPRIORITIZED,
        JobEventKind.CANCELLED,
    }
    assert {writer for _, writer in RUN_TRANSITIONS.values()} == {Writer.LEADER}


def test_run_transitions_never_lower_rank() -> None:
    """States apply by rank, never backwards; unknown stands beside running."""
    for (before, _), (after, _) in RUN_TRANSITIONS.items():
        rank_before = 0 if before is None else RUN_RANKS[before]
        assert rank_before < RUN_RANKS[after] or {before, after} == {RunState.RUNNING, RunState.UNKNOWN}
    for (job_before, event), (job_after, _) in JOB_TRANSITIONS.items():
        if event != JobEventKind.REQUEUED:
            assert (0 if job_before is None else JOB_RANKS[job_before]) <= JOB_RANKS[job_after]


def test_lookup_matrix_equals_run_table() -> None:
    """The array for batches and the table for single reports say the same."""
    for before in RunState:
        for reported in RunState:
            assert is_advance(before, reported) == ((before, reported) in RUN_TRANSITIONS)
            if is_advance(before, reported):
                assert next_run_state(before, reported) == reported
            else:
                with pytest.raises(InvalidTransition):
                    next_run_state(before, reported)


def test_returned_cannot_follow_created() -> None:
    """A pod that was created was placed, so its run is not returned."""
    assert next_run_state(RunState.LEASED, RunState.RETURNED) == RunState.RETURNED
    with pytest.raises(InvalidTransition):
        next_run_state(RunState.CREATED, RunState.RETURNED)


def test_advance_states_applies_only_what_moves_on() -> None:
    """Late and repeated reports change nothing; terminal states absorb."""
    before = np.array([1, 3, 3, 4, 6, 8, 3, 0, 2], dtype=np.int8)
    reported = np.array([3, 2, 3, 6, 4, 3, 8, 7, 0], dtype=np.int8)
    assert advance_states(before, reported).tolist() == [3, 3, 3, 4, 6, 3, 8, 7, 2]


def test_terminal_masks_and_maps_cover_every_state() -> None:
    """Every state has its mask, its job state and its event."""
    assert [state.name for state in JobState if IS_JOB_TERMINAL[state]] == ["SUCCEEDED", "FAILED", "CANCELLED"]
    open_runs = [state for state in RunState if not IS_RUN_TERMINAL[state]]
    assert open_runs == [RunState.LEASED, RunState.CREATED, RunState.RUNNING, RunState.UNKNOWN]
    for state in RunState:
        event = JobEventKind(JOB_EVENT_OF_RUN_STATE[state])
        start = JobState.QUEUED if state == RunState.LEASED else JobState.LEASED
        assert next_job_state(start, event) == JobState(JOB_STATE_OF_RUN_STATE[state])
    for state in ObjectState:
        assert RunState(state).name == state.name
    assert not RUN_MAY_FOLLOW.flags.writeable


@pytest.mark.parametrize(
    ("pod_state", "stop_sent", "gone", "end"),
    [
        pytest.param(ObjectState.SUCCEEDED, True, False, ObjectState.SUCCEEDED, id="success-beats-wish"),
        pytest.param(ObjectState.SUCCEEDED, True, True, ObjectState.SUCCEEDED, id="success-beats-wish-then-gone"),
        pytest.param(ObjectState.FAILED, False, False, ObjectState.FAILED, id="own-failure"),
        pytest.param(ObjectState.FAILED, True, True, ObjectState.CANCELLED, id="killed-by-us"),
        pytest.param(ObjectState.RUNNING, True, True, ObjectState.CANCELLED, id="deleted-by-us"),
        pytest.param(ObjectState.RUNNING, False, True, ObjectState.LOST, id="deleted-by-others"),
        pytest.param(ObjectState.UNKNOWN, False, True, ObjectState.LOST, id="node-gone"),
        pytest.param(ObjectState.RUNNING, True, False, ObjectState.RUNNING, id="still-terminating"),
    ],
)
def test_resolve_ends_lets_the_pod_win_over_the_wish(
    *, pod_state: ObjectState, stop_sent: bool, gone: bool, end: ObjectState
) -> None:
    """What the pod did wins over what was wished."""
    ends = resolve_ends(np.array([pod_state], np.int8), np.array([stop_sent]), np.array([gone]))
    assert ends.tolist() == [end]
