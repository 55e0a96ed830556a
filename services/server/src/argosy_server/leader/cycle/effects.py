"""A transaction of the machine as the store's `Effects`: what rounds and reports have to be stored, merged.

One cycle may hold several reports about one object and events of one job set from several causes; a bulk update must
name each row once, and one row of events per job set is enough.

Source: design section 1, "One writer per fact"; section 8.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from argosy_core.job.tables.rows import JobUpdates, ObjectUpdates, RunUpdates
from argosy_core.leader.transaction import Transaction
from argosy_core.scheduler import Refusals
from argosy_core.scheduler.columns.messages import join_members
from argosy_core.scheduler.outgoing.events import EventDraft
from argosy_eventlog import QuarantinedLogRecord
from argosy_server.leader.log.codec import encode_event_group, encode_round_state
from argosy_store.terms.effects import AppliedEffects, Effects, EventRow

__all__ = ["merge_events", "store_effects"]

Array = npt.NDArray[Any]
RowsT = TypeVar("RowsT", ObjectUpdates, RunUpdates, JobUpdates)


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
        object_updates=_merged(transaction.objects, "handle", "attempt", "object_index", texts="message"),
        ended_updates=transaction.ended_objects,
        run_updates=_merged(transaction.run_ends, "handle", "attempt", texts="reason"),
        job_updates=_merged(transaction.job_ends, "handle", texts="reason"),
        held=transaction.held,
        placed=transaction.placed,
        new_runs=transaction.new_runs,
        new_objects=transaction.new_objects,
        added_runs=transaction.added_runs,
        added_objects=transaction.added_objects,
        log_position=transaction.log,
        round_state=encode_round_state(state) if state is not None else None,
        deleted_change_ids=np.array(sorted(transaction.change_ids), dtype=np.int64) if transaction.change_ids else None,
        quarantined=[
            QuarantinedLogRecord(position=bad.position, payload=bad.payload, error=bad.error, create_time_us=time_us)
            for bad in transaction.set_aside
        ],
        queued_counts=transaction.queued_counts,
        queued_count_time_us=time_us,
        contacts=transaction.contacts,
    )


def _merged(parts: Sequence[RowsT], *keys: str, texts: str = "") -> RowsT | None:
    """Return the rows of all parts as one, sorted by key, of each key the last one; None without parts.

    Args:
        parts: Columns of one type, in the order in which they arose.
        keys: Names of the columns that tell which row is meant.
        texts: What the type's table of texts holds: column `<texts>_index` points into table `<texts>s`.
    """
    if not parts:
        return None
    columns = {one.name: [getattr(part, one.name) for part in parts] for one in fields(parts[0])}
    table: list[str] = []
    if texts:
        indices = columns[f"{texts}_index"]
        for place, known in enumerate(columns.pop(f"{texts}s")):
            indices[place] = np.where(indices[place] >= 0, indices[place] + len(table), -1).astype(np.int32)
            table.extend(known)
    numbers = columns.pop("member", None)
    joined: dict[str, Any] = {name: np.concatenate(arrays) for name, arrays in columns.items()}
    member = None if numbers is None else join_members(list(zip(numbers, map(len, columns["handle"]), strict=True)))
    if member is not None:
        joined["member"], keys = member, (*keys, "member")
    last = _last_of_each(*(joined[key] for key in keys))
    joined = {name: values[last] for name, values in joined.items()}
    if texts:
        joined[f"{texts}s"] = tuple(table)
    return type(parts[0])(**joined)


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
