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
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import has_true, true_places
from argosy_core.job.states import IS_RUN_TERMINAL, ObjectState
from argosy_core.reconcile.machine import Phase
from argosy_core.reconcile.object_table import ObjectTable

__all__ = ["NO_PLAN", "Plan", "keep_causes", "plan_runs"]

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
_CREATE, _DELETE, _EXPIRE, _CLOSE, _SUCCEED, _FORGET = range(1, 7)
"""What is done with an object, at most one of it; 0 is nothing."""
_FLAG_COUNT: Final = 5
_FLAGS_MASK: Final = (1 << _FLAG_COUNT) - 1
_STATE_COUNT: Final = IS_RUN_TERMINAL.size
# Arrays, for the reason given in `key_index`.
_STATE_COUNT_0D, _FLAG_COUNT_0D = np.array(_STATE_COUNT), np.array(_FLAG_COUNT)
_POD, _ONE, _NO_STOP = np.array(0, dtype=np.int16), np.array(1, dtype=np.int8), np.array(0, dtype=np.int8)
_NO_SLOTS: Final = np.zeros(0, dtype=np.int64)
_NO_ENDS: Final = np.zeros(0, dtype=np.int8)


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


NO_PLAN: Final = Plan(
    create=_NO_SLOTS,
    delete=_NO_SLOTS,
    delete_ends=_NO_ENDS,
    expire=_NO_SLOTS,
    close=_NO_SLOTS,
    close_ends=_NO_ENDS,
    succeed=_NO_SLOTS,
    forget=_NO_SLOTS,
)
"""Nothing to do."""


class _Runs:
    """The objects of some runs, run by run, and what holds of any or all objects of each.

    Args:
        sizes: How many objects of each run stand one after the other; None where each run has one.
    """

    def __init__(self, sizes: Int64Array | None = None) -> None:
        """Note where each run begins."""
        self._sizes = _NO_SLOTS if sizes is None else sizes
        self._starts = None if sizes is None else np.cumsum(sizes) - sizes

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


def _decide(codes: Int64Array, runs: _Runs) -> tuple[Int8Array, Int8Array]:
    """Return for each object what to do, and the state that it ends in.

    Args:
        codes: What holds of each, see `_codes_of`.
        runs: Which objects are of one run.
    """
    flags, states = codes & _FLAGS_MASK, ((codes >> _FLAG_COUNT) % _STATE_COUNT).astype(np.int8)
    phases = (codes >> _FLAG_COUNT) // _STATE_COUNT
    stop, is_due, is_same, is_pod, has_row = ((flags & 1 << bit) != 0 for bit in range(_FLAG_COUNT))
    is_absent, is_present, is_gone = phases == _ABSENT, phases == _PRESENT, phases == _GONE
    has_ended = IS_RUN_TERMINAL[states]
    is_stored = has_ended & is_same

    causes = runs.first_of(np.where((states == _FAILED) | (states == _LOST), states, 0).astype(np.int8))
    is_ending = runs.any_of(stop) | (causes > 0)
    has_vanished = phases == _VANISHED
    is_held = runs.any_of(has_vanished)
    is_done = ~is_ending & ~is_held & runs.any_of(is_pod) & runs.all_of(~is_pod | (states == _SUCCEEDED))
    may_make = ~is_ending & ~is_held & ~is_done & runs.all_of(has_row)
    # The pods' turn comes when nothing else is still to be made.
    is_turn = ~is_pod | ~runs.any_of(~is_pod & (is_absent | (phases == _CREATING)))

    decisions, ends = np.zeros(codes.size, dtype=np.int8), causes
    closes = ~has_ended & (has_vanished | (is_absent & is_ending))
    decisions[may_make & is_absent & is_due & is_turn & ~has_ended] = _CREATE
    decisions[~has_ended & is_present & is_due & is_ending] = _DELETE
    decisions[is_present & is_due & is_stored & runs.all_of(has_ended)] = _EXPIRE
    decisions[closes] = _CLOSE
    decisions[is_done & ~is_pod & ~has_ended] = _SUCCEED
    decisions[runs.all_of(is_gone & is_stored)] = _FORGET
    close_ends = np.where(is_ending, np.where(causes > 0, causes, _CANCELLED), _LOST)
    return decisions, np.where(closes, close_ends, ends).astype(np.int8)


_SINGLE_DECISIONS, _SINGLE_ENDS = _decide(np.arange(len(Phase) * _STATE_COUNT << _FLAG_COUNT), _Runs())
"""By code: of runs of one object, which nearly all are, it is known beforehand."""


def _codes_of(table: ObjectTable, slots: Int64Array, now_s: float) -> Int64Array:
    """Return what holds of objects, each as one number: phase, state and what else is asked of it."""
    states = table.state[slots]
    flags = table.has_row[slots].view(np.int8)
    for flag in (
        table.kind[slots] == _POD,
        table.stored_state[slots] == states,
        table.not_before_s[slots] <= now_s,
        table.stop[slots] > _NO_STOP,
    ):
        flags = (flags << _ONE) | flag.view(np.int8)
    codes = table.phase[slots].astype(np.int64)
    codes *= _STATE_COUNT_0D
    codes += states
    codes <<= _FLAG_COUNT_0D
    codes |= flags
    return codes


def plan_runs(table: ObjectTable, slots: Int64Array, *, now_s: float) -> Plan:
    """Return what to do with the runs that some objects are of.

    O(objects of these runs); nothing but the gathering of bags is done run by run.

    Args:
        table: Where the objects are; not changed.
        slots: Objects that were touched, each once.
        now_s: Monotonic seconds.
    """
    is_bag = table.is_bag[slots]
    if has_true(is_bag):
        singles = slots[~is_bag]
        bags = [table.slots_of(key) for key in table.members(slots[is_bag]).distinct().pairs()]
        sizes = np.array([1] * singles.size + [len(bag) for bag in bags], dtype=np.int64)
        flat = np.array([slot for bag in bags for slot in bag], dtype=np.int64)
        slots = np.concatenate([singles, flat])
        decisions, ends = _decide(_codes_of(table, slots, now_s), _Runs(sizes))
    else:
        codes = _codes_of(table, slots, now_s)
        decisions, ends = _SINGLE_DECISIONS[codes], _SINGLE_ENDS[codes]
    places = true_places(decisions)
    if not places.size:
        return NO_PLAN
    slots, decisions, ends = slots[places], decisions[places], ends[places]
    parts = {decision: decisions == decision for decision in set(decisions.tolist())}
    chosen = {decision: slots[part] for decision, part in parts.items()}
    return Plan(
        create=chosen.get(_CREATE, _NO_SLOTS),
        delete=chosen.get(_DELETE, _NO_SLOTS),
        delete_ends=ends[parts[_DELETE]] if _DELETE in parts else _NO_ENDS,
        expire=chosen.get(_EXPIRE, _NO_SLOTS),
        close=chosen.get(_CLOSE, _NO_SLOTS),
        close_ends=ends[parts[_CLOSE]] if _CLOSE in parts else _NO_ENDS,
        succeed=chosen.get(_SUCCEED, _NO_SLOTS),
        forget=chosen.get(_FORGET, _NO_SLOTS),
    )


def keep_causes(table: ObjectTable, plan: Plan) -> None:
    """Let what is deleted for something that befell its run end in the state of that."""
    for place in true_places(plan.delete_ends).tolist():
        record = table.trouble(int(plan.delete[place]))
        record.end_state = record.end_state or int(plan.delete_ends[place])
