"""Leases that the store refused: what is stored of their events."""

from __future__ import annotations

import numpy as np
import pytest

from argosy_core.job.states import JobEventKind, JobState, next_job_state
from argosy_core.scheduler import EventDraft, Refusals

Q, L, C, F = JobState.QUEUED, JobState.LEASED, JobState.CANCELLED, JobState.FAILED
Event = tuple[int, JobEventKind, int, int]
"""(handle, kind, state before, state after)."""


def _draft(*events: Event) -> EventDraft:
    """Return the events of one job set."""
    count = len(events)
    return EventDraft(
        job_set_id=np.array([7]),
        first_number=np.array([1]),
        offset=np.array([0, count]),
        create_time_us=1,
        handle=np.array([event[0] for event in events], dtype=np.int64),
        id_high=np.zeros(count, dtype=np.int64),
        kind=np.array([event[1] for event in events], dtype=np.int8),
        attempt=np.ones(count, dtype=np.int32),
        time_us=np.zeros(count, dtype=np.int64),
        cluster=np.zeros(count, dtype=np.int32),
        node=np.zeros(count, dtype=np.int32),
        reason=np.full(count, -1, dtype=np.int32),
        from_state=np.array([event[2] for event in events], dtype=np.int8),
        to_state=np.array([event[3] for event in events], dtype=np.int8),
        texts=("c1",),
    )


def _events(drafts: list[EventDraft]) -> list[Event]:
    """Return the events again."""
    return [
        (handle, JobEventKind(kind), before, after)
        for draft in drafts
        for handle, kind, before, after in zip(
            draft.handle.tolist(),
            draft.kind.tolist(),
            draft.from_state.tolist(),
            draft.to_state.tolist(),
            strict=True,
        )
    ]


LEASED: Event = (1, JobEventKind.LEASED, Q, L)
OTHER: Event = (2, JobEventKind.LEASED, Q, L)
STAYS: Event = (1, JobEventKind.CANCEL_REQUESTED, Q, Q)
NOBODY = np.zeros(0, dtype=np.int64)


@pytest.mark.parametrize(
    ("drafted", "stored"),
    [
        pytest.param([LEASED, OTHER], [STAYS, OTHER], id="lease"),
        pytest.param(
            [(1, JobEventKind.REQUEUED, L, Q), LEASED],
            [(1, JobEventKind.REQUEUED, L, Q), STAYS],
            id="earlier-run-ended",
        ),
        pytest.param(
            [LEASED, (1, JobEventKind.CANCELLED, L, C)], [STAYS, (1, JobEventKind.CANCELLED, Q, C)], id="then-cancelled"
        ),
        pytest.param(
            [LEASED, (1, JobEventKind.REPRIORITIZED, L, L)],
            [STAYS, (1, JobEventKind.REPRIORITIZED, Q, Q)],
            id="then-reprioritised",
        ),
        pytest.param([LEASED, (1, JobEventKind.REQUEUED, L, Q)], [STAYS, STAYS], id="then-cluster-forgotten"),
    ],
)
def test_job_stays_queued_in_its_events_when_its_lease_is_refused(drafted: list[Event], stored: list[Event]) -> None:
    """No event says that a refused lease was one, numbers stay, and what is stored is legal."""
    refusals = Refusals()
    number = refusals.begin_draft()
    corrected = refusals.correct(number, [_draft(*drafted)], np.array([1]), ended_before=NOBODY)
    assert _events(corrected) == stored
    for _, kind, before, after in _events(corrected):
        assert next_job_state(JobState(before), kind) == after


def test_later_transactions_are_corrected_until_the_memory_is() -> None:
    """Drafts that were begun before the leader took a lease back still take it for good; later ones do not."""
    refusals = Refusals()
    first = refusals.begin_draft()
    second = refusals.begin_draft()
    refusals.correct(first, [_draft(LEASED)], np.array([1]), ended_before=NOBODY)
    third = refusals.begin_draft()
    refusals.note_taken_back(np.array([1]))
    fourth = refusals.begin_draft()
    cancelled = (1, JobEventKind.CANCELLED, L, C)
    for number in (second, third):
        corrected = refusals.correct(number, [_draft(cancelled)], NOBODY, ended_before=NOBODY)
        assert _events(corrected) == [(1, JobEventKind.CANCELLED, Q, C)]
    drafts = [_draft(LEASED)]
    assert refusals.correct(fourth, drafts, NOBODY, ended_before=NOBODY)[0] is drafts[0]


def test_nothing_is_touched_while_nothing_is_refused() -> None:
    """The usual case costs nothing: the drafts come back as they are."""
    refusals = Refusals()
    draft = _draft(LEASED, OTHER)
    assert refusals.correct(refusals.begin_draft(), [draft], NOBODY, ended_before=NOBODY)[0] is draft


def test_job_that_was_cancelled_while_it_was_given_up_has_the_event_that_its_row_has() -> None:
    """A waiting job that the API cancelled does not fail in its events; a run's own failure stays, and so do others."""
    drafted: list[Event] = [(job, JobEventKind.FAILED, before, F) for job, before in ((1, Q), (2, L), (3, Q))]
    refusals = Refusals()
    corrected = refusals.correct(refusals.begin_draft(), [_draft(*drafted)], NOBODY, ended_before=np.array([1, 2]))
    assert _events(corrected) == [(1, JobEventKind.CANCELLED, Q, C), *drafted[1:]]
