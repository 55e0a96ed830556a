"""What to do next with the objects of runs: a run of one pod is a bag of one object.

Rules:

* Other objects come first, and the pods once all of these are there.
* Any failure, any loss and any stop deletes the bag; what is deleted for a failure ends in the state of what failed.
* While an object has vanished and its end is not certain, nothing is made.
* When all pods have succeeded, the other objects have done their work, and go when the pods go.
* What has ended stays with the others: gone from a bag that goes on, it would look lost to a successor.

Source: design section 5, "Sync": "Pods come last in a bag; any failure deletes the bag".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import has_true, true_places
from argosy_core.job.states import IS_RUN_TERMINAL, ObjectState
from argosy_core.reconcile.machine import Phase
from argosy_core.reconcile.object_table import ObjectTable

__all__ = ["Plan", "keep_causes", "plan_runs"]

BoolArray = npt.NDArray[np.bool_]
Int8Array = npt.NDArray[np.int8]
Int64Array = npt.NDArray[np.int64]

# Members of enumerations cost a look-up and a conversion each time an array meets them.
_ABSENT, _CREATING, _PRESENT, _VANISHED, _GONE = (
    int(phase) for phase in (Phase.ABSENT, Phase.CREATING, Phase.PRESENT, Phase.VANISHED, Phase.GONE)
)
_SUCCEEDED, _FAILED, _CANCELLED, _LOST = (
    int(state) for state in (ObjectState.SUCCEEDED, ObjectState.FAILED, ObjectState.CANCELLED, ObjectState.LOST)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do with the objects of some runs, by slot."""

    create: Int64Array
    """Objects to create now, those of a bag in the order of their positions."""
    delete: Int64Array
    """Objects to delete now."""
    delete_ends: Int8Array
    """State that each of `delete` ends in for what befell its run, 0 if only for what befalls itself."""
    expire: Int64Array
    """Objects that have ended, are stored and have had their time: to delete once no call could make them again."""
    close: Int64Array
    """Objects that are not there and end if that is certain."""
    close_ends: Int8Array
    """State that each of `close` ends in, if nothing else is known of it."""
    succeed: Int64Array
    """Objects other than pods whose work is done."""
    forget: Int64Array
    """Objects of runs that are over and stored, and of which nothing is left."""


class _Runs:
    """The objects of some runs, run by run, and what holds of any or all objects of each."""

    def __init__(self, table: ObjectTable, slots: Int64Array) -> None:
        """Gather the objects of the runs that some objects are of."""
        is_bag = table.is_bag[slots]
        self._starts: Int64Array | None = None
        self.slots = slots
        if has_true(is_bag):
            singles = slots[~is_bag]
            bags = [table.slots_of(key) for key in table.members(slots[is_bag]).distinct().pairs()]
            sizes = np.array([1] * singles.size + [len(bag) for bag in bags], dtype=np.int64)
            flat = np.array([slot for bag in bags for slot in bag], dtype=np.int64)
            self.slots = np.concatenate([singles, flat])
            self._starts = np.cumsum(sizes) - sizes
            self._sizes = sizes

    def any_of(self, mask: BoolArray) -> BoolArray:
        """Return for each object whether the mask holds for any object of its run."""
        if self._starts is None:
            return mask
        return np.repeat(np.logical_or.reduceat(mask, self._starts), self._sizes)

    def all_of(self, mask: BoolArray) -> BoolArray:
        """Return for each object whether the mask holds for all objects of its run."""
        if self._starts is None:
            return mask
        return np.repeat(np.logical_and.reduceat(mask, self._starts), self._sizes)

    def first_of(self, values: Int8Array) -> Int8Array:
        """Return for each object the first value of its run's objects that is not 0, or 0."""
        if self._starts is None:
            return values
        places = np.where(values != 0, np.arange(values.size), values.size)
        firsts = np.repeat(np.minimum.reduceat(places, self._starts), self._sizes)
        found: Int8Array = np.append(values, np.int8(0))[firsts]
        return found


def plan_runs(table: ObjectTable, slots: Int64Array, *, now_s: float) -> Plan:
    """Return what to do with the runs that some objects are of.

    O(objects of these runs); nothing but the gathering of bags is done run by run.

    Args:
        table: Where the objects are; not changed.
        slots: Objects that were touched, each once.
        now_s: Monotonic seconds.
    """
    runs = _Runs(table, slots)
    slots = runs.slots
    phases, states, stop = table.phase[slots], table.state[slots], table.stop[slots] > 0
    is_absent, is_present, is_gone = phases == _ABSENT, phases == _PRESENT, phases == _GONE
    is_due = table.not_before_s[slots] <= now_s
    has_ended = IS_RUN_TERMINAL[states]
    is_stored = has_ended & (table.stored_state[slots] == states)

    causes = runs.first_of(np.where((states == _FAILED) | (states == _LOST), states, 0).astype(np.int8))
    is_ending = runs.any_of(stop) | (causes > 0)
    has_vanished = phases == _VANISHED
    is_held = runs.any_of(has_vanished)
    is_pod = table.kind[slots] == 0
    is_done = ~is_ending & ~is_held & runs.any_of(is_pod) & runs.all_of(~is_pod | (states == _SUCCEEDED))
    may_make = ~is_ending & ~is_held & ~is_done & runs.all_of(table.has_row[slots])
    # The pods' turn comes when nothing else is still to be made.
    is_turn = ~is_pod | ~runs.any_of(~is_pod & (is_absent | (phases == _CREATING)))

    closes = ~has_ended & (has_vanished | (is_absent & is_ending))
    deletes = ~has_ended & is_present & is_due & is_ending
    close_ends = np.where(is_ending, np.where(causes > 0, causes, _CANCELLED), _LOST).astype(np.int8)
    return Plan(
        create=slots[may_make & is_absent & is_due & is_turn & ~has_ended],
        delete=slots[deletes],
        delete_ends=causes[deletes],
        expire=slots[is_present & is_due & is_stored & runs.all_of(has_ended)],
        close=slots[closes],
        close_ends=close_ends[closes],
        succeed=slots[is_done & ~is_pod & ~has_ended],
        forget=slots[runs.all_of(is_gone & is_stored)],
    )


def keep_causes(table: ObjectTable, plan: Plan) -> None:
    """Let what is deleted for something that befell its run end in the state of that."""
    for place in true_places(plan.delete_ends).tolist():
        record = table.trouble(int(plan.delete[place]))
        record.end_state = record.end_state or int(plan.delete_ends[place])
