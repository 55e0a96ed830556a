"""The transition table of jobs and runs, and how late reports apply."""

from __future__ import annotations

import numpy as np
import pytest

from argosy_core.errors import InvariantViolation
from argosy_core.job.states import (
    IS_RUN_TERMINAL,
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
    may_follow,
    next_job_state,
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
    """API replicas write submits and change requests; everything else is the leader's."""
    by_api = {event for (_, event), (_, writer) in JOB_TRANSITIONS.items() if writer is Writer.API}
    assert by_api == {
        JobEventKind.SUBMITTED,
        JobEventKind.CANCEL_REQUESTED,
        JobEventKind.HELD,
        JobEventKind.RELEASED,
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
            assert (job_before or 0) <= job_after, "codes of jobs grow from queued to the ends"


def test_lookup_matrix_equals_run_table() -> None:
    """The array and the table say the same; whoever knows nothing of an object takes any state as its first."""
    for before in RunState:
        for reported in RunState:
            assert RUN_MAY_FOLLOW[before, reported] == ((before, reported) in RUN_TRANSITIONS)
    assert all(after == reported for (_, reported), (after, _) in RUN_TRANSITIONS.items())
    assert RUN_MAY_FOLLOW[0, 1:].all()
    assert not RUN_MAY_FOLLOW[:, 0].any()
    before, reported = (codes.reshape(-1).astype(np.int8) for codes in np.indices(RUN_MAY_FOLLOW.shape))
    assert may_follow(before, reported).tolist() == RUN_MAY_FOLLOW.reshape(-1).tolist()


def test_returned_cannot_follow_created() -> None:
    """A pod that was created was placed, so its run is not returned."""
    may_be_returned = [state for state in RunState if RUN_MAY_FOLLOW[state, RunState.RETURNED]]
    assert may_be_returned == [RunState.LEASED]


def test_matrix_lets_through_only_what_moves_on() -> None:
    """Late and repeated reports change nothing; terminal states absorb."""
    before = np.array([1, 3, 3, 4, 6, 8, 3, 0, 2], dtype=np.int8)
    reported = np.array([3, 2, 3, 6, 4, 3, 8, 7, 0], dtype=np.int8)
    after = np.where(RUN_MAY_FOLLOW[before, reported], reported, before)
    assert after.tolist() == [3, 3, 3, 4, 6, 3, 8, 7, 2]


def test_terminal_mask_covers_every_state() -> None:
    """Every state has its place in the mask, and objects have the codes of runs."""
    assert len(IS_RUN_TERMINAL) == len(RUN_RANKS) == max(RunState) + 1
    open_runs = [state for state in RunState if not IS_RUN_TERMINAL[state]]
    assert open_runs == [RunState.LEASED, RunState.CREATED, RunState.RUNNING, RunState.UNKNOWN]
    for state in ObjectState:
        assert RunState(state).name == state.name
    assert not any(array.flags.writeable for array in (RUN_MAY_FOLLOW, RUN_RANKS, IS_RUN_TERMINAL))


@pytest.mark.parametrize(
    ("pod_state", "stop_sent", "gone", "end"),
    [
        pytest.param(ObjectState.SUCCEEDED, True, False, ObjectState.SUCCEEDED, id="success-beats-change request"),
        pytest.param(
            ObjectState.SUCCEEDED, True, True, ObjectState.SUCCEEDED, id="success-beats-change request-then-gone"
        ),
        pytest.param(ObjectState.FAILED, False, False, ObjectState.FAILED, id="own-failure"),
        pytest.param(ObjectState.FAILED, True, True, ObjectState.CANCELLED, id="killed-by-us"),
        pytest.param(ObjectState.RUNNING, True, True, ObjectState.CANCELLED, id="deleted-by-us"),
        pytest.param(ObjectState.RUNNING, False, True, ObjectState.LOST, id="deleted-by-others"),
        pytest.param(ObjectState.UNKNOWN, False, True, ObjectState.LOST, id="node-gone"),
        pytest.param(ObjectState.RUNNING, True, False, ObjectState.RUNNING, id="still-terminating"),
    ],
)
def test_resolve_ends_lets_the_pod_win_over_the_change_request(
    *, pod_state: ObjectState, stop_sent: bool, gone: bool, end: ObjectState
) -> None:
    """What the pod did wins over what was asked."""
    ends = resolve_ends(np.array([pod_state], np.int8), np.array([stop_sent]), np.array([gone]))
    assert ends.tolist() == [end]
