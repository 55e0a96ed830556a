"""A transaction of the machine as the store's `Effects`: what rounds and reports have to be stored, merged.

One cycle may hold several reports about one object and events of one job set from several causes; a bulk update must
name each row once, and one row of events per job set is enough.

Source: design section 1, "One writer per fact"; section 8.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from argosy_core.leader.transaction import Transaction
from argosy_core.scheduler import Refusals
from argosy_core.scheduler.events import EventDraft
from argosy_core.scheduler.messages import JobPriorities as CorePriorities
from argosy_core.scheduler.messages import JobUpdates as CoreJobUpdates
from argosy_core.scheduler.messages import NewObjects as CoreObjects
from argosy_core.scheduler.messages import NewRuns as CoreRuns
from argosy_core.scheduler.messages import ObjectUpdates as CoreObjectUpdates
from argosy_core.scheduler.messages import RunUpdates as CoreRunUpdates
from argosy_server.leader.log.codec import encode_event_group, encode_round_state
from argosy_store.effects import (
    AppliedEffects,
    Effects,
    EventRow,
    JobPriorities,
    JobUpdates,
    NewObjects,
    NewRuns,
    ObjectUpdates,
    QuarantinedRecord,
    RunUpdates,
)

__all__ = ["merge_events", "store_effects"]

Array = npt.NDArray[Any]


def _join(arrays: Sequence[Array]) -> Array:
    """Return arrays one behind the other."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _join_indices(indices: Sequence[Array], tables: Sequence[tuple[str, ...]]) -> tuple[Array, tuple[str, ...]]:
    """Return index columns over one joined table of texts; -1 stays."""
    if len(indices) == 1:
        return indices[0], tables[0]
    moved: list[Array] = []
    joined: list[str] = []
    for index, table in zip(indices, tables, strict=True):
        moved.append(np.where(index >= 0, index + len(joined), -1).astype(np.int32))
        joined.extend(table)
    return np.concatenate(moved), tuple(joined)


def _last_of_each(*keys: Array) -> Array:
    """Return, in key order, the position of the last element of each distinct key."""
    count = len(keys[0])
    order = np.lexsort((np.arange(count), *reversed(keys)))
    is_last = np.ones(count, dtype=np.bool_)
    if count > 1:
        same = np.ones(count - 1, dtype=np.bool_)
        for key in keys:
            sorted_key = key[order]
            same &= sorted_key[1:] == sorted_key[:-1]
        is_last[:-1] = ~same
    return order[is_last]


def merge_events(drafts: Sequence[EventDraft]) -> EventDraft | None:
    """Return drafts as one, with one group per job set; None if there are no events.

    The drafts must be in the order in which they were drafted, so that numbers of a job set follow each other.

    Complexity: O(n log n) in the number of events.
    """
    drafts = [draft for draft in drafts if len(draft)]
    if len(drafts) <= 1:
        return drafts[0] if drafts else None
    job_set = np.concatenate([np.repeat(draft.job_set_id, np.diff(draft.offset)) for draft in drafts])
    number = np.concatenate(
        [
            np.repeat(draft.first_number - draft.offset[:-1], np.diff(draft.offset)) + np.arange(len(draft))
            for draft in drafts
        ]
    )
    order = np.lexsort((number, job_set))
    sorted_sets = job_set[order]
    starts = np.flatnonzero(np.concatenate(([True], sorted_sets[1:] != sorted_sets[:-1])))
    texts: dict[str, int] = {}
    columns: dict[str, Array] = {}
    for name in ("cluster", "node", "reason"):
        columns[name] = np.concatenate([_intern(getattr(draft, name), draft.texts, texts) for draft in drafts])[order]
    for name in ("handle", "id_high", "kind", "attempt", "time_us", "from_state", "to_state"):
        columns[name] = np.concatenate([getattr(draft, name) for draft in drafts])[order]
    return EventDraft(
        job_set_id=sorted_sets[starts],
        first_number=number[order][starts],
        offset=np.append(starts, len(order)).astype(np.int64),
        create_time_us=drafts[-1].create_time_us,
        texts=tuple(texts),
        **columns,
    )


def _intern(index: Array, table: tuple[str, ...], texts: dict[str, int]) -> Array:
    """Return an index column over the shared table of texts, which grows by what is new."""
    if not table:
        return index
    moved = np.array([texts.setdefault(text, len(texts)) for text in table] + [-1], dtype=np.int32)
    return moved[index]  # -1 takes the last element, which is -1


def store_effects(transaction: Transaction, time_us: int) -> Effects:
    """Return a transaction as the database takes it: each row once, and one row of events per job set.

    Args:
        transaction: What the machine wants stored.
        time_us: When it was drafted, microseconds since the Unix epoch.
    """
    events = merge_events(transaction.events)
    state = transaction.round_state
    return Effects(
        events=_EventMaker(transaction.refusals, transaction.number, events) if events is not None else (),
        object_updates=_object_updates(transaction.objects),
        run_updates=_run_updates(transaction.run_ends),
        job_updates=_job_updates(transaction.job_ends),
        job_priorities=_job_priorities(transaction.priorities),
        new_runs=_new_runs(transaction.new_runs),
        new_objects=_new_objects(transaction.new_objects),
        log_position=transaction.log,
        round_state=encode_round_state(state) if state is not None else None,
        deleted_change_ids=np.array(sorted(transaction.change_ids), dtype=np.int64) if transaction.change_ids else None,
        quarantined=[
            QuarantinedRecord(position=bad.position, payload=bad.payload, error=bad.error, create_time_us=time_us)
            for bad in transaction.set_aside
        ],
        queued_counts=transaction.queued_counts,
        queued_count_time_us=time_us,
        clusters_contact=transaction.contacts,
    )


def _new_runs(runs: CoreRuns | None) -> NewRuns | None:
    if runs is None:
        return None
    return NewRuns(
        handles=runs.handle,
        attempts=runs.attempt,
        cluster_index=runs.cluster_index,
        clusters=runs.clusters,
        node_index=runs.node_index,
        nodes=runs.nodes,
        lease_time_us=runs.lease_time_us,
    )


def _new_objects(objects: CoreObjects | None) -> NewObjects | None:
    if objects is None:
        return None
    return NewObjects(
        handles=objects.handle,
        attempts=objects.attempt,
        objects=objects.object_index,
        kind_index=objects.kind_index,
        kinds=objects.kinds,
        names=objects.name,
    )


def _object_updates(parts: list[CoreObjectUpdates]) -> ObjectUpdates | None:
    """Return the last state of each object."""
    if not parts:
        return None
    handle, attempt = _join([p.handle for p in parts]), _join([p.attempt for p in parts])
    place = _join([p.object_index for p in parts])
    last = _last_of_each(handle, attempt, place)
    uid = np.frombuffer(b"".join(p.uid for p in parts), dtype="V16")
    message_index, messages = _join_indices([p.message_index for p in parts], [p.messages for p in parts])
    return ObjectUpdates(
        handles=handle[last],
        attempts=attempt[last],
        objects=place[last],
        states=_join([p.state for p in parts])[last],
        uids=uid[last],
        message_index=message_index[last] if messages else None,
        messages=messages,
        start_time_us=_join([p.start_time_us for p in parts])[last],
    )


def _run_updates(parts: list[CoreRunUpdates]) -> RunUpdates | None:
    """Return the ends of runs."""
    if not parts:
        return None
    handle, attempt = _join([p.handle for p in parts]), _join([p.attempt for p in parts])
    last = _last_of_each(handle, attempt)
    reason_index, reasons = _join_indices([p.reason_index for p in parts], [p.reasons for p in parts])
    return RunUpdates(
        handles=handle[last],
        attempts=attempt[last],
        states=_join([p.state for p in parts])[last],
        start_time_us=_join([p.start_time_us for p in parts])[last],
        end_time_us=_join([p.end_time_us for p in parts])[last],
        exit_codes=_join([p.exit_code for p in parts])[last],
        failures=_join([p.failure for p in parts])[last],
        reason_index=reason_index[last],
        reasons=reasons,
    )


def _job_updates(parts: list[CoreJobUpdates]) -> JobUpdates | None:
    """Return the ends of jobs."""
    if not parts:
        return None
    handle = _join([p.handle for p in parts])
    last = _last_of_each(handle)
    reason_index, reasons = _join_indices([p.reason_index for p in parts], [p.reasons for p in parts])
    return JobUpdates(
        handles=handle[last],
        states=_join([p.state for p in parts])[last],
        end_time_us=_join([p.end_time_us for p in parts])[last],
        reason_index=reason_index[last],
        reasons=reasons,
    )


def _job_priorities(parts: list[CorePriorities]) -> JobPriorities | None:
    """Return the last priority of each job."""
    if not parts:
        return None
    handle = _join([p.handle for p in parts])
    last = _last_of_each(handle)
    return JobPriorities(handles=handle[last], priorities=_join([p.priority for p in parts])[last])


class _EventMaker:
    """Makes the rows of events, once in advance, and again inside the transaction if something was refused."""

    def __init__(self, refusals: Refusals, number: int, events: EventDraft) -> None:
        """Make them as if nothing will be refused."""
        self._refusals = refusals
        self._number = number
        self._events = events
        self._rows = _event_rows(events)

    def __call__(self, applied: AppliedEffects) -> list[EventRow]:
        """Return the rows; called on the writer's thread."""
        (corrected,) = self._refusals.correct(
            self._number, [self._events], applied.refused_handles, ended_before=applied.absorbed_handles
        )
        return self._rows if corrected is self._events else _event_rows(corrected)


def _event_rows(events: EventDraft) -> list[EventRow]:
    """Return one row per job set."""
    groups: Iterable[Any] = events.groups()
    return [
        EventRow(
            job_set_id=group.job_set_id,
            first_number=group.first_number,
            last_number=group.last_number,
            create_time_us=events.create_time_us,
            payload=encode_event_group(group),
        )
        for group in groups
    ]
