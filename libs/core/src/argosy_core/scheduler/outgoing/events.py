"""Events of job sets: numbered without gap as they are drafted, grouped per job set for the store.

Source: design section 7, invariant 6; argosy.lease.v1.EventBatch.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Int8s, Int16s, Int32s, Int64s, has_true, spread, true_places
from argosy_core.job.tables.interning import distinct
from argosy_core.scheduler.columns.codes import (
    EVENT_CANCELLED,
    EVENT_SUBMITTED,
    JOB_CANCELLED,
    JOB_QUEUED,
)

if TYPE_CHECKING:
    from argosy_core.scheduler.memory.state import PoolState

__all__ = ["Detail", "EventBuffer", "EventDraft", "EventGroup"]


_FEW_EVENTS: Final = 24
_COLUMNS: Final = {
    "job_set": np.int32,
    "handle": np.int64,
    "id_high": np.int64,
    "kind": np.int8,
    "attempt": np.int32,
    "time_us": np.int64,
    "cluster": np.int32,
    "node": np.int32,
    "reason": np.int32,
    "before": np.int8,
    "after": np.int8,
    "member": np.int16,
}
"""Types of the columns of events, in the order in which they are collected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventGroup:
    """Events of one job set, ready to be encoded: one row of job_set_events."""

    job_set_id: int
    """Job set."""
    first_number: int
    """Number of the first event."""
    last_number: int
    """Number of the last event."""
    handle: Int64s
    """Job handles."""
    id_high: Int64s
    """Upper 64 bits of the job ids."""
    kind: Int8s
    """Values of JobEventKind."""
    attempt: Int32s
    """Attempts, 0 where the event has no run."""
    time_us: Int64s
    """When it happened."""
    cluster: Int32s
    """Index into `texts`, or -1."""
    node: Int32s
    """Index into `texts`, or -1."""
    reason: Int32s
    """Index into `texts`, or -1."""
    from_state: Int8s
    """Job states before."""
    to_state: Int8s
    """Job states after."""
    texts: tuple[str, ...]
    """Texts used, each once."""
    member: Int16s | None = None
    """Numbers of the members that events are about, 0 where they are about none or member 0; None where all are 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventDraft:
    """Numbered events, sorted by job set, in order within each; g groups, n events."""

    job_set_id: Int64s
    """g job sets."""
    first_number: Int64s
    """g numbers of the groups' first events."""
    offset: Int64s
    """g + 1 positions in the event columns."""
    create_time_us: int
    """When the events were drafted."""
    handle: Int64s
    """n job handles."""
    id_high: Int64s
    """n upper 64 bits of the job ids."""
    kind: Int8s
    """n values of JobEventKind."""
    attempt: Int32s
    """n attempts, 0 where the event has no run."""
    time_us: Int64s
    """n moments."""
    cluster: Int32s
    """n indices into `texts`, or -1."""
    node: Int32s
    """n indices into `texts`, or -1."""
    reason: Int32s
    """n indices into `texts`, or -1."""
    from_state: Int8s
    """n job states before."""
    to_state: Int8s
    """n job states after."""
    texts: tuple[str, ...]
    """Texts of all groups."""
    member: Int16s | None = None
    """n numbers of members, 0 where the event is of none or of member 0; None where all are 0."""

    def __len__(self) -> int:
        """Return the number of events."""
        return int(self.handle.size)

    def groups(self) -> list[EventGroup]:
        """Return one group per job set, each with only the texts it uses. Complexity: O(events) and some per group."""
        offsets = self.offset.tolist()
        groups = []
        for row, (job_set_id, first) in enumerate(
            zip(self.job_set_id.tolist(), self.first_number.tolist(), strict=True)
        ):
            part = slice(offsets[row], offsets[row + 1])
            texts, cluster, node, reason = self._local_texts(part)
            groups.append(
                EventGroup(
                    job_set_id=job_set_id,
                    first_number=first,
                    last_number=first + offsets[row + 1] - offsets[row] - 1,
                    handle=self.handle[part],
                    id_high=self.id_high[part],
                    kind=self.kind[part],
                    attempt=self.attempt[part],
                    time_us=self.time_us[part],
                    cluster=cluster,
                    node=node,
                    reason=reason,
                    from_state=self.from_state[part],
                    to_state=self.to_state[part],
                    texts=texts,
                    member=None if self.member is None else self.member[part],
                )
            )
        return groups

    def _local_texts(self, part: slice) -> tuple[tuple[str, ...], Int32s, Int32s, Int32s]:
        """Return the texts that some events use, and their three text columns pointing into these."""
        columns = (self.cluster[part], self.node[part], self.reason[part])
        if not self.texts:
            return (), *columns
        size = columns[0].size
        if size <= _FEW_EVENTS:  # as below, at a fifth of the cost: most groups of a round of many job sets are a few
            values = [column.tolist() for column in columns]
            known = sorted(set().union(*values) - {-1})
            place = {text: at for at, text in enumerate(known)}
            few = [np.array([place.get(text, -1) for text in column], dtype=np.int32) for column in values]
            return tuple(self.texts[index] for index in known), few[0], few[1], few[2]
        used, inverse = np.unique(np.concatenate(columns), return_inverse=True)
        # -1 sorts first and stays -1.
        shift = 1 if used[0] == -1 else 0
        local = (inverse.ravel() - shift).astype(np.int32)
        texts = tuple(self.texts[index] for index in used[shift:].tolist())
        return texts, local[:size], local[size : 2 * size], local[2 * size :]


class Detail(Enum):
    """What an event says of the job's current run."""

    NO_RUN = "no run"
    """Nothing."""
    ATTEMPT = "attempt"
    """Its attempt."""
    PLACE = "place"
    """Its attempt, cluster and node."""


class EventBuffer:
    """Collects events in causal order, then numbers them."""

    def __init__(self, state: PoolState, now_s: float) -> None:
        """Start empty.

        Args:
            state: Whose job sets give the numbers.
            now_s: Moment of the drafting, seconds since the Unix epoch.
        """
        self._state = state
        self._now_s = now_s
        self._parts: list[tuple[npt.NDArray[np.generic], ...]] = []
        self._reasons: dict[str, int] = {}

    def reason(self, text: str) -> int:
        """Return the index of a reason text, -1 for an empty one."""
        return self._reasons.setdefault(text, len(self._reasons)) if text else -1

    def add_members(
        self,
        slots: Int32s,
        kind: int,
        *,
        numbers: Int16s,
        nodes: Int32s,
        time_us: int | Int64s,
        reason: Int64s | int = -1,
    ) -> None:
        """Add one event for each of some members of runs; their jobs stay in their states.

        Args:
            slots: int32[n] live jobs.
            kind: JobEventKind.
            numbers: Number of each member in its run.
            nodes: Node name index of each in its run's cluster.
            time_us: When it happened, of all or of each.
            reason: Index from `reason`, of all or of each; -1 none.
        """
        if not slots.size:
            return
        to_state = self._state.live.state[slots]
        self.add(slots, kind, to_state=to_state, time_us=time_us, reason=reason, with_run=Detail.PLACE)
        told = dict(zip(_COLUMNS, self._parts[-1], strict=True))
        told |= {"node": nodes.astype(np.int32), "member": numbers.astype(np.int16)}
        self._parts[-1] = tuple(told.values())

    def add(
        self,
        slots: Int32s,
        kind: int,
        *,
        to_state: int | npt.NDArray[np.integer],
        time_us: int | Int64s | None = None,
        reason: int | npt.NDArray[np.integer] = -1,
        with_run: Detail = Detail.NO_RUN,
    ) -> None:
        """Add one event for each live job; the state before is the job's present one, none for SUBMITTED.

        Args:
            slots: int32[n] live jobs.
            kind: JobEventKind.
            to_state: JobState after, of all or of each.
            time_us: When it happened, of all or of each; the moment of drafting if None.
            reason: Index from `reason`, of all or of each; -1 none.
            with_run: What the event says of the current run.
        """
        live = self._state.live
        size = slots.size
        if size == 0:
            return
        moment = round(self._now_s * 1e6) if time_us is None else time_us
        nowhere = np.full(size, -1, dtype=np.int32)
        place = with_run == Detail.PLACE
        no_run = with_run == Detail.NO_RUN
        self._parts.append(
            (
                live.job_set[slots],
                live.handle[slots],
                live.id_high[slots],
                np.full(size, kind, dtype=np.int8),
                np.zeros(size, dtype=np.int32) if no_run else live.attempt[slots].astype(np.int32),
                spread(moment, size, np.int64),
                live.cluster[slots].astype(np.int32) if place else nowhere,
                live.node[slots] if place else nowhere,
                spread(reason, size, np.int32),
                np.zeros(size, dtype=np.int8) if kind == EVENT_SUBMITTED else live.state[slots],
                spread(to_state, size, np.int8),
                np.zeros(size, dtype=np.int16),
            )
        )

    def add_ended(self, handle: Int64s, id_high: Int64s, job_set: Int32s, *, reason: int) -> None:
        """Add one CANCELLED event for each of some jobs that waited and are not live here.

        Args:
            handle: Job handles.
            id_high: Upper 64 bits of the job ids.
            job_set: Job set indices.
            reason: Index from `reason`.
        """
        size = handle.size
        nowhere = np.full(size, -1, dtype=np.int32)
        self._parts.append(
            (
                job_set,
                handle,
                id_high,
                np.full(size, EVENT_CANCELLED, dtype=np.int8),
                np.zeros(size, dtype=np.int32),
                np.full(size, round(self._now_s * 1e6), dtype=np.int64),
                nowhere,
                nowhere,
                np.full(size, reason, dtype=np.int32),
                np.full(size, JOB_QUEUED, dtype=np.int8),
                np.full(size, JOB_CANCELLED, dtype=np.int8),
                np.zeros(size, dtype=np.int16),
            )
        )

    def draft(self) -> EventDraft:
        """Number the events and return them; the numbers are used up. Complexity: O(n log n) in NumPy."""
        if self._parts:
            joined = [np.concatenate(column) for column in zip(*self._parts, strict=True)]
        else:
            joined = [np.zeros(0, dtype=dtype) for dtype in _COLUMNS.values()]
        order = np.argsort(joined[0], kind="stable")
        job_set, handle, id_high, kind, attempt, time_us, cluster, node, reason, before, after, member = (
            column[order] for column in joined
        )
        starts = true_places(np.concatenate([[True], job_set[1:] != job_set[:-1]])) if job_set.size else order
        offset = np.append(starts, job_set.size)
        sets = self._state.job_sets
        touched = job_set[starts]
        first = sets.last_number[touched] + 1
        sets.last_number[touched] += np.diff(offset)
        sets.touched_s[touched] = self._now_s
        cluster, node, texts = self._places(cluster, node)
        return EventDraft(
            job_set_id=sets.job_set_id[touched],
            first_number=first,
            offset=offset.astype(np.int64),
            create_time_us=round(self._now_s * 1e6),
            handle=handle,
            id_high=id_high,
            kind=kind,
            attempt=attempt,
            time_us=time_us,
            cluster=cluster,
            node=node,
            reason=reason,
            from_state=before,
            to_state=after,
            texts=(*self._reasons, *texts),
            member=member if has_true(member != 0) else None,
        )

    def _places(self, cluster: Int32s, node: Int32s) -> tuple[Int32s, Int32s, list[str]]:
        """Return text indices for clusters and nodes, behind the reasons, and the texts."""
        texts: list[str] = []
        rows = true_places(cluster >= 0)
        if rows.size == 0:
            return cluster, node, texts
        clusters = self._state.clusters
        base = len(self._reasons)
        cluster_text, node_text = np.full_like(cluster, -1), np.full_like(node, -1)
        found, inverse = distinct(cluster[rows])
        cluster_text[rows] = base + inverse
        texts.extend(clusters.names[index] for index in found.tolist())
        rows = rows[node[rows] >= 0]
        names, inverse = clusters.node_names(cluster[rows], node[rows])
        node_text[rows] = base + len(texts) + inverse
        texts.extend(names)
        return cluster_text, node_text, texts
