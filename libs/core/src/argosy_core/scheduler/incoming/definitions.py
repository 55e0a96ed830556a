"""What jobs refer to comes in: scheduling classes, queues and job sets, and those that go.

Owns how the memory takes them over; may import the memory, but nothing of jobs, samplers or executors.

Source: design section 5, "Take changes".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from argosy_core.arrays import true_places
from argosy_core.scheduler.columns.messages import (
    JobSetView,
    QueueView,
)
from argosy_core.scheduler.memory.resource_columns import add_columns, shrink_axis
from argosy_core.scheduler.memory.state import PoolState

__all__ = [
    "class_definitions",
    "define_classes",
    "define_job_sets",
    "queue_weights",
    "remove_queues",
    "set_queues",
]

_ROOMY_AXIS: Final = 64
"""Resources up to which nobody looks whether they are all still used."""


def define_classes(state: PoolState, definitions: Mapping[int, bytes]) -> None:
    """Add scheduling classes; known ones are left alone.

    Args:
        state: The pool.
        definitions: Class id -> canonical JSON (`argosy_core.job.reading.classes`).

    A class that cannot be used, since it is malformed or asks for more different resources than a pool counts, is
    noted with the reason: its jobs fail with that.

    Complexity: O(definitions), and once in a while O(classes).
    """
    is_crowded = len(state.classes.axis) > _ROOMY_AXIS and state.round is None
    for index in state.classes.drop_idle(0) if is_crowded else state.classes.drop_idle():
        state.waits.clear_class(index)
        state.returns.forget_class(index)
        state.asked_complete.discard(index)
        for key in [key for key in state.answers if key[0] == index]:
            del state.answers[key]
    if is_crowded:
        shrink_axis(state)
    before = len(state.classes.axis)
    for class_id, definition in definitions.items():
        state.classes.define(class_id, definition)
    added = len(state.classes.axis) - before
    if added:
        add_columns(state, added)


def class_definitions(state: PoolState, class_ids: Iterable[int]) -> list[bytes]:
    """Return the definitions of classes, as handed to `define_classes`.

    Raises:
        NotFound: A class is not defined.
    """
    indices = state.classes.ids.indices(np.fromiter(class_ids, dtype=np.int64))
    return [state.classes.definitions[index] for index in indices.tolist()]


def set_queues(state: PoolState, queues: Iterable[QueueView]) -> None:
    """Add queues or change their weight, name, cordon, limits and what they stand below; flow and jobs stay."""
    for view in queues:
        index = state.queues.ids.find(view.queue_id)
        if index is None:
            index = state.queues.add(view.queue_id, state.make_order())
        state.queues.names[index] = view.name
        state.queues.weight[index] = view.weight
        state.queues.cordoned[index] = view.cordoned
        state.queues.branches.forget(index)
        if view.parent:
            state.queues.branches.parents[index] = view.parent
        for rows, is_given in (
            (state.queues.preempts_unexpired, view.preempts_unexpired),
            (state.queues.preempts_endless, view.preempts_endless),
        ):
            (rows.add if is_given else rows.discard)(index)
        state.queues.limits.pop(index, None)
        if view.limits:
            state.queues.limits[index] = view.limits
        state.queues.idle_at[index] = -1
        state.change_count += 1
    state.queues.branches.arrange(state.queues.names, state.queues.flow)


def queue_weights(state: PoolState) -> dict[str, float]:
    """Return what the pool's queues weigh by name, those that weigh anything."""
    queues = state.queues
    rows = true_places((queues.queue_id > 0) & (queues.weight > 0)).tolist()
    return {queues.names[row]: float(queues.weight[row]) for row in rows}


def remove_queues(state: PoolState, queue_ids: Iterable[int]) -> None:
    """Forget queues that were deleted or moved to another pool, with their job sets; unknown ones are ignored.

    A queue that comes back brings the numbers that the other pool's leader gave meanwhile. One that has open jobs is
    kept for as long as that is so, and nothing more is placed of it: what ended them before the queue was deleted
    stands in `changes` and has not been read yet.
    """
    queues = state.queues
    queues.deleted.update(queue_id for queue_id in queue_ids if queue_id in queues.ids)
    for queue_id in sorted(queues.deleted):
        index = queues.ids.indices(np.array([queue_id]))[0]
        queues.cordoned[index] = True
        if not queues.open_count(index):
            queues.drop(queue_id)
            state.job_set_limits.queues.pop(index, None)
            state.job_sets.drop_queue(queue_id)


def define_job_sets(state: PoolState, job_sets: Iterable[JobSetView], now_s: float = 0.0) -> None:
    """Add job sets; a known one keeps its own event number."""
    state.job_sets.drop_idle(now_s)
    for view in job_sets:
        state.job_sets.define(view.job_set_id, view.queue_id, view.name, view.last_event_number)
