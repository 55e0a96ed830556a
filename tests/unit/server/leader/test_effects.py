"""A transaction as the store takes it: each row once, one row of events per job set."""

from __future__ import annotations

import numpy as np

from argosy.lease.v1 import lease_pb2
from argosy_core.job.tables.rows import JobUpdates, ObjectUpdates
from argosy_core.leader.transaction import Transaction
from argosy_core.scheduler.outgoing.events import EventDraft
from argosy_server.leader.cycle.effects import merge_events, store_effects
from argosy_store.terms.effects import AppliedEffects


def _draft(job_sets: list[int], firsts: list[int], counts: list[int], *, kind: int, text: str) -> EventDraft:
    """Return events of one kind, `counts` of them per job set."""
    count = sum(counts)
    return EventDraft(
        job_set_id=np.array(job_sets, dtype=np.int64),
        first_number=np.array(firsts, dtype=np.int64),
        offset=np.cumsum([0, *counts]).astype(np.int64),
        create_time_us=1,
        handle=np.arange(count, dtype=np.int64),
        id_high=np.zeros(count, dtype=np.int64),
        kind=np.full(count, kind, dtype=np.int8),
        attempt=np.ones(count, dtype=np.int32),
        time_us=np.zeros(count, dtype=np.int64),
        cluster=np.zeros(count, dtype=np.int32),
        node=np.full(count, -1, dtype=np.int32),
        reason=np.full(count, -1, dtype=np.int32),
        from_state=np.ones(count, dtype=np.int8),
        to_state=np.full(count, 2, dtype=np.int8),
        texts=(text,),
    )


def test_merged_events_have_one_group_per_job_set_with_numbers_in_order() -> None:
    """Events of a job set from several causes become one row; numbers follow each other without gap."""
    first = _draft([7, 9], [1, 5], [2, 1], kind=1, text="c1")
    second = _draft([7], [3], [2], kind=2, text="c2")
    merged = merge_events([first, second])
    assert merged is not None
    assert merged.job_set_id.tolist() == [7, 9]
    assert merged.first_number.tolist() == [1, 5]
    assert np.diff(merged.offset).tolist() == [4, 1]
    assert merged.kind.tolist() == [1, 1, 2, 2, 1]
    assert [merged.texts[index] for index in merged.cluster.tolist()] == ["c1", "c1", "c2", "c2", "c1"]
    assert (merged.node == -1).all()


def test_events_without_any_make_no_row() -> None:
    """A cycle without events has nothing to merge."""
    assert merge_events([_draft([], [], [], kind=1, text="x")]) is None


def test_event_rows_carry_encoded_batches() -> None:
    """A row's payload is an EventBatch with one element per event of the job set."""
    draft = Transaction()
    draft.add_events(_draft([7], [1], [3], kind=1, text="c1"))
    effects = store_effects(draft, 5)
    assert callable(effects.events)
    (row,) = effects.events(AppliedEffects())
    assert (row.job_set_id, row.first_number, row.last_number) == (7, 1, 3)
    batch = lease_pb2.EventBatch.FromString(row.payload)
    assert np.frombuffer(batch.kind_column, dtype=np.int8).tolist() == [1, 1, 1]
    assert list(batch.texts) == ["c1"]


def _objects(handles: list[int], states: list[int], messages: tuple[str, ...]) -> ObjectUpdates:
    """Return updates of the first object of runs, each with a message."""
    count = len(handles)
    return ObjectUpdates(
        handle=np.array(handles, dtype=np.int64),
        attempt=np.ones(count, dtype=np.int16),
        object_index=np.zeros(count, dtype=np.int16),
        state=np.array(states, dtype=np.int16),
        uid=np.zeros(count, dtype="V16"),
        message_index=np.zeros(count, dtype=np.int32) if messages else np.full(count, -1, dtype=np.int32),
        messages=messages,
        start_time_us=np.array(handles, dtype=np.int64) * 10,
    )


def test_an_object_reported_twice_in_a_cycle_is_updated_once_with_its_last_state() -> None:
    """A bulk update names each row once, else the database would pick one of two values."""
    draft = Transaction()
    draft.objects.extend([_objects([1, 2], [3, 3], ("a",)), _objects([2], [4], ("b",))])
    effects = store_effects(draft, 0)
    updates = effects.object_updates
    assert updates is not None
    assert updates.handle.tolist() == [1, 2]
    assert updates.state.tolist() == [3, 4]
    assert updates.start_time_us.tolist() == [10, 20]
    assert [updates.messages[index] for index in updates.message_index.tolist()] == ["a", "b"]


def test_reasons_of_job_ends_keep_their_texts_when_parts_are_joined() -> None:
    """Indices into the reasons of later parts move behind those of earlier ones; -1 stays."""
    draft = Transaction()
    for handle, reason in ((5, 0), (3, -1), (4, 0)):
        draft.add_job_ends(
            JobUpdates(
                handle=np.array([handle], dtype=np.int64),
                state=np.array([5], dtype=np.int16),
                end_time_us=np.array([9], dtype=np.int64),
                reason_index=np.array([reason], dtype=np.int32),
                reasons=(f"because {handle}",),
            )
        )
    effects = store_effects(draft, 0)
    ends = effects.job_updates
    assert ends is not None
    found = [ends.reasons[index] if index >= 0 else "" for index in ends.reason_index.tolist()]
    assert dict(zip(ends.handle.tolist(), found, strict=True)) == {3: "", 4: "because 4", 5: "because 5"}


def test_a_cycle_in_which_nothing_happened_writes_nothing() -> None:
    """No empty transactions."""
    assert Transaction(queued_counts={1: 5}).is_empty()
