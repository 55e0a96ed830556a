"""What to do next with a bag of several objects.

Rules:

* Other objects come first, and the pods once all of these are there.
* Any failure, and any loss, deletes the bag; what is deleted so ends in the same state as what failed.
* When all pods have succeeded, the other objects have done their work, and go when the pods go.

Source: design section 5, "Sync": "Pods come last in a bag; any failure deletes the bag".
"""

from __future__ import annotations

from dataclasses import dataclass, field

from argosy_core.job.states import IS_RUN_TERMINAL, ObjectState
from argosy_core.reconcile.run_table import Phase, RunTable

__all__ = ["BagPlan", "plan_bag"]


@dataclass(slots=True)
class BagPlan:
    """What to do with the objects of one bag, by slot."""

    create: list[int] = field(default_factory=list)
    """Objects to create now."""
    delete: list[int] = field(default_factory=list)
    """Objects to delete now."""
    finish: list[tuple[int, int]] = field(default_factory=list)
    """(slot, state): objects that end without the cluster having a say."""
    wait: list[int] = field(default_factory=list)
    """Objects that cannot be called absent, or deleted for having ended, while a call could make them again."""
    forget: bool = False
    """The run is over and stored; nothing of it is left."""


def plan_bag(table: RunTable, key: int, *, now_s: float, listed_s: float, settled_at_s: float) -> BagPlan:
    """Return what to do with a bag.

    Args:
        table: Where the objects are; not changed, except for the end states of what shall be deleted.
        key: Run key.
        now_s: Monotonic seconds.
        listed_s: When the last listing that was taken was asked for, monotonic seconds.
        settled_at_s: Moment from which a predecessor can no longer create anything.
    """
    plan = BagPlan()
    slots = table.slots_of_run(key)
    causes = [slot for slot in slots if table.state[slot] in (ObjectState.FAILED, ObjectState.LOST)]
    is_settled = table.is_settled(slots, settled_at_s=settled_at_s, listed_s=listed_s).tolist()
    settled = {slot for slot, holds in zip(slots, is_settled, strict=True) if holds}
    if causes or table.stop[slots].any():
        end = int(table.state[causes[0]]) if causes else ObjectState.CANCELLED
        _plan_end(table, slots, plan, end=end, now_s=now_s, settled=settled)
    elif any(table.phase[slot] == Phase.VANISHED for slot in slots):
        _plan_vanished(table, slots, plan, settled=settled)
    else:
        pods = table.pods(slots)
        others = [slot for slot in slots if table.kind[slot] != 0]
        if pods and all(table.state[slot] == ObjectState.SUCCEEDED for slot in pods):
            plan.finish.extend((slot, ObjectState.SUCCEEDED) for slot in others if not _has_ended(table, slot))
        elif table.is_wanted[slots].all():
            _plan_creation(table, others, pods, plan, now_s=now_s)
    if all(_has_ended(table, slot) for slot in slots):
        # What ended early stays with the others: gone from a bag that goes on, it would look lost to a successor.
        for slot in slots:
            if table.phase[slot] == Phase.PRESENT and _is_stored(table, slot) and table.not_before_s[slot] <= now_s:
                # As long as it is there, no call of a predecessor can make it again.
                (plan.delete if slot in settled else plan.wait).append(slot)
    plan.forget = all(table.phase[slot] == Phase.GONE and _is_stored(table, slot) for slot in slots)
    return plan


def _has_ended(table: RunTable, slot: int) -> bool:
    """Return whether an object's state is terminal."""
    return bool(IS_RUN_TERMINAL[table.state[slot]])


def _is_stored(table: RunTable, slot: int) -> bool:
    """Return whether an object has ended and the leader has stored it."""
    return _has_ended(table, slot) and bool(table.stored_state[slot] == table.state[slot])


def _plan_vanished(table: RunTable, slots: list[int], plan: BagPlan, *, settled: set[int]) -> None:
    """Plan the end of what is gone; until that is certain nothing else happens to the bag."""
    for slot in slots:
        if table.phase[slot] == Phase.VANISHED and not _has_ended(table, slot):
            if slot in settled:
                plan.finish.append((slot, int(table.end_state[slot]) or ObjectState.LOST))
            else:
                plan.wait.append(slot)


def _plan_end(table: RunTable, slots: list[int], plan: BagPlan, *, end: int, now_s: float, settled: set[int]) -> None:
    """Plan the deletion of everything that has not ended."""
    for slot in slots:
        if _has_ended(table, slot):
            continue
        phase = table.phase[slot]
        if phase in (Phase.ABSENT, Phase.VANISHED):
            if slot in settled:
                plan.finish.append((slot, int(table.end_state[slot]) or end))
            else:
                plan.wait.append(slot)
        elif phase == Phase.PRESENT and table.not_before_s[slot] <= now_s:
            table.end_state[slot] = table.end_state[slot] or end
            plan.delete.append(slot)


def _plan_creation(table: RunTable, others: list[int], pods: list[int], plan: BagPlan, *, now_s: float) -> None:
    """Plan the next step of making the bag."""
    for step in (others, pods):
        absent = [slot for slot in step if table.phase[slot] == Phase.ABSENT]
        plan.create.extend(slot for slot in absent if table.not_before_s[slot] <= now_s)
        if absent or any(table.phase[slot] == Phase.CREATING for slot in step):
            return
