"""Jobs whose rows cannot be used: each fails with that as its reason, before any round tries it.

They are held like other jobs until then, so that their events are numbered and a run that one has already is followed
to its end. What cannot be read is replaced: a class by one that asks for nothing, a layout by that of a lone pod.

Source: design section 7, invariant 15.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from argosy_core.arrays import Int32s, Int64s, true_places
from argosy_core.job.tables.rows import JobUpdates
from argosy_core.scheduler.columns.codes import EVENT_FAILED, JOB_FAILED
from argosy_core.scheduler.columns.messages import JobColumns, SpecReference
from argosy_core.scheduler.columns.rows import Texts, job_updates
from argosy_core.scheduler.memory.flows import advance_flows
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.outgoing.events import EventBuffer, EventDraft

__all__ = ["UnfitJobs", "fail_unfit", "intern_specs", "note_too_large", "note_unfit", "settle_missing"]

_LONE_POD: Final = b'[["Pod","pod"]]'
_NO_DAY: Final = (1 << 31) - 1
"""Day of the references that stand for specs which cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfitJobs:
    """Answer of `fail_unfit`."""

    events: EventDraft
    """FAILED of those that waited."""
    job_updates: JobUpdates
    """The same jobs."""


def settle_missing(state: PoolState, columns: JobColumns) -> Int64s:
    """Settle what jobs refer to and nobody has: after this, `missing` has nothing to say of the jobs that are left.

    Jobs of a class that is not stored fail with that reason. Those without a queue or a job set have nowhere to stand:
    they are to be left out, and stay as they are in the database.

    Returns:
        The handles of the jobs to leave out.
    """
    for class_id in state.classes.ids.unknown(columns.class_id):
        state.classes.refuse(class_id, f"its scheduling class {class_id} is not stored")
    queues, job_sets = state.queues.ids.unknown(columns.queue), state.job_sets.ids.unknown(columns.job_set)
    if not queues and not job_sets:
        return columns.handle[:0]
    return columns.handle[np.isin(columns.queue, queues) | np.isin(columns.job_set, job_sets)]


def intern_specs(state: PoolState, specs: Sequence[SpecReference]) -> tuple[Int32s, dict[int, str]]:
    """Return the index of each spec, and why some of them, by place, cannot be used."""
    references, bad = [(spec.hash, spec.day, spec.layout) for spec in specs], {}
    try:
        return state.live.specs.intern(references), {}
    except (ValueError, OverflowError):
        for place, reference in enumerate(references):
            try:
                state.live.specs.intern([reference])
            except (ValueError, OverflowError) as error:
                what = f"cannot be read: {error}" if reference[2] else f"of day {reference[1]} is not stored"
                bad[place] = f"its spec {reference[0].hex()} {what}"
                references[place] = (reference[0][:16].ljust(16, b"\0"), _NO_DAY, _LONE_POD)
    return state.live.specs.intern(references), bad


def note_unfit(state: PoolState, slots: Int32s, spec_places: Int32s, bad_specs: dict[int, str]) -> None:
    """Note which of the jobs just added cannot be led.

    Args:
        state: The pool.
        slots: The jobs.
        spec_places: Place of each one's spec among those of `intern_specs`.
        bad_specs: Why some of these cannot be used.
    """
    live, refused = state.live, state.classes.refused
    if refused:
        classes = live.class_index[slots]
        for row in true_places(np.isin(classes, np.fromiter(refused, dtype=np.int64))).tolist():
            state.unfit[int(live.handle[slots[row]])] = refused[int(classes[row])]
    if bad_specs:
        for row in true_places(np.isin(spec_places, np.fromiter(bad_specs, dtype=np.int64))).tolist():
            state.unfit[int(live.handle[slots[row]])] = bad_specs[int(spec_places[row])]


def note_too_large(state: PoolState, slots: Int32s) -> None:
    """Note that jobs cannot be led since labels and annotations of their queues are as large as they may be."""
    live, most_mib = state.live, state.settings.queue_metadata_bytes >> 20
    for slot in slots.tolist():
        name = state.queues.names[int(live.queue[slot])]
        state.unfit[int(live.handle[slot])] = (
            f"labels and annotations of the open jobs of queue {name!r} are {most_mib} MiB, and it may have no more;"
            " submit it with smaller ones, or once others have ended"
        )


def fail_unfit(state: PoolState, now_s: float) -> UnfitJobs | None:
    """End the unfit jobs that wait; None if there are none. One that has a run fails once that has ended.

    Args:
        state: The pool, with no round under way.
        now_s: Now.

    Complexity: O(unfit jobs).
    """
    if not state.unfit:
        return None
    live, state.dependencies.has_doomed = state.live, False
    slots = live.slots(np.fromiter(state.unfit, dtype=np.int64))
    for handle in np.fromiter(state.unfit, dtype=np.int64)[slots < 0].tolist():
        del state.unfit[handle]
    slots = slots[slots >= 0]
    slots = slots[state.stage_is_queued(slots)]
    if not slots.size:
        return None
    texts, events = Texts(), EventBuffer(state, now_s)
    reasons = [state.unfit.pop(handle) for handle in live.handle[slots].tolist()]
    advance_flows(state, now_s)
    events.add(slots, EVENT_FAILED, to_state=JOB_FAILED, reason=np.array([events.reason(text) for text in reasons]))
    updates = job_updates(
        live.handle[slots],
        np.full(slots.size, JOB_FAILED, dtype=np.int16),
        np.full(slots.size, round(now_s * 1e6), dtype=np.int64),
        reason=np.array([texts.index(text) for text in reasons], dtype=np.int64),
        texts=texts,
    )
    draft = events.draft()
    state.remove_jobs(slots, JOB_FAILED)
    state.totals["failed"] += int(slots.size)
    return UnfitJobs(events=draft, job_updates=updates)
