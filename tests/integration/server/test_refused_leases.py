"""What the database refuses: what of it is stored, whenever the leader dies."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from argosy.lease.v1 import lease_pb2
from argosy_core.job.states import JobEventKind, JobState
from argosy_core.job.tables.rows import NewObjects, NewRuns
from argosy_core.leader.transaction import Transaction
from argosy_core.scheduler import EventDraft, Refusals
from argosy_core.scheduler.columns.rows import job_ends
from argosy_server.leader.cycle.effects import store_effects
from argosy_testkit.store_world import StoreWorld, encode_change_requests

_Q, _L, _C, _F = (int(state) for state in (JobState.QUEUED, JobState.LEASED, JobState.CANCELLED, JobState.FAILED))
_Stored = list[tuple[int, int, int, int]]
"""(number, kind, state before, state after) of one job's events."""


def _events(world: StoreWorld, handles: np.ndarray, *, first: int, kind: int, states: tuple[int, int]) -> EventDraft:  # type: ignore[type-arg]
    """Return one event of each job."""
    count = len(handles)
    return EventDraft(
        job_set_id=np.array([world.job_set_id]),
        first_number=np.array([first]),
        offset=np.array([0, count]),
        create_time_us=world.day * 86_400_000_000,
        handle=handles,
        id_high=np.zeros(count, dtype=np.int64),
        kind=np.full(count, kind, dtype=np.int8),
        attempt=np.ones(count, dtype=np.int32),
        time_us=np.zeros(count, dtype=np.int64),
        cluster=np.full(count, -1, dtype=np.int32),
        node=np.full(count, -1, dtype=np.int32),
        reason=np.full(count, -1, dtype=np.int32),
        from_state=np.full(count, states[0], dtype=np.int8),
        to_state=np.full(count, states[1], dtype=np.int8),
        texts=(),
    )


def _add_leases(draft: Transaction, handles: np.ndarray) -> None:  # type: ignore[type-arg]
    """Add a lease of each job, one pod each."""
    count = len(handles)
    zeros, ones = np.zeros(count, dtype=np.int32), np.ones(count, dtype=np.int16)
    draft.add_leases(
        NewRuns(
            handle=handles,
            attempt=ones,
            cluster_index=zeros,
            clusters=("east",),
            node_index=zeros,
            nodes=("n1",),
            lease_time_us=np.ones(count, dtype=np.int64),
        ),
        NewObjects(
            handle=handles,
            attempt=ones,
            object_index=np.zeros(count, dtype=np.int16),
            kind_index=zeros,
            kinds=("Pod",),
            name=[b"pod-%d" % handle for handle in handles.tolist()],
        ),
    )


def _stored(world: StoreWorld, handle: int) -> _Stored:
    """Return what is stored of a job."""
    found = []
    for first, _, payload in world.api.read_events(world.job_set_id, 0):
        batch = lease_pb2.EventBatch.FromString(payload)
        names = ("kind", "from_state", "to_state")
        columns = [np.frombuffer(getattr(batch, f"{name}_column"), dtype=np.int8).tolist() for name in names]
        owners = np.frombuffer(batch.handle_column, dtype="<i8").tolist()
        rows = zip(owners, *columns, strict=True)
        found += [(first + place, *row[1:]) for place, row in enumerate(rows) if row[0] == handle]
    return found


@pytest.fixture
def world(database_url: str) -> Iterator[StoreWorld]:
    """Give a database with a queue, a job set, a class and a leader."""
    with StoreWorld(database_url) as made:
        yield made


def test_no_event_of_a_refused_lease_is_stored_with_its_transaction(world: StoreWorld) -> None:
    """A request that came while the round ran: the transaction that refuses the lease stores no LEASED event of it.

    Were it stored, a leader that dies now would leave a job whose events say LEASED and that the next leader, who knows
    nothing of the lease, cancels from QUEUED.
    """
    handles = world.submit_jobs(2)
    refused, fine = handles.tolist()
    world.api.set_change_requests(None, [refused], "cancel", encode=encode_change_requests)
    refusals = Refusals()
    first = Transaction(refusals=refusals, number=refusals.begin_draft())
    first.add_events(_events(world, handles, first=1, kind=JobEventKind.LEASED, states=(_Q, _L)))
    _add_leases(first, handles)
    # Drafted before the leader learns of the refusal: the change request arrives while its memory has the job leased.
    second = Transaction(refusals=refusals, number=refusals.begin_draft())
    second.add_events(_events(world, handles[:1], first=3, kind=JobEventKind.CANCELLED, states=(_L, _C)))
    for draft in (first, second):
        effects = store_effects(draft, 1)
        world.leader.apply(world.epoch, effects)
    assert _stored(world, refused) == [(1, JobEventKind.CANCEL_REQUESTED, _Q, _Q), (3, JobEventKind.CANCELLED, _Q, _C)]
    assert _stored(world, fine) == [(2, JobEventKind.LEASED, _Q, _L)]
    assert world.leader.load().columns.runs.handle.tolist() == [fine]


def test_job_that_is_cancelled_while_the_leader_gives_it_up_was_cancelled_in_row_and_events(world: StoreWorld) -> None:
    """A request that the leader has not heard of: events and row say the same, and the other job has failed in both."""
    handles = world.submit_jobs(2)
    cancelled, failed = handles.tolist()
    world.api.set_change_requests(None, [cancelled], "cancel", encode=encode_change_requests)
    refusals = Refusals()
    draft = Transaction(refusals=refusals, number=refusals.begin_draft())
    draft.add_events(_events(world, handles, first=1, kind=JobEventKind.FAILED, states=(_Q, _F)))
    draft.add_job_ends(job_ends(handles, _F, 1, "no node would have it"))
    effects = store_effects(draft, 1)
    world.leader.apply(world.epoch, effects)
    assert _stored(world, cancelled) == [(1, JobEventKind.CANCELLED, _Q, _C)]
    assert _stored(world, failed) == [(2, JobEventKind.FAILED, _Q, _F)]
    assert [job.state for job in world.api.get_jobs(handles.tolist())] == [JobState.CANCELLED, JobState.FAILED]
