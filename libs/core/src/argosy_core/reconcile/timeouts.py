"""How long pods may wait, and what they are told to have failed of when that was too long.

A pod that waits holds its room, and nobody in its cluster gives it up: not a kubelet that cannot have its image, not a
volume that nobody provides, not a quota that is full.

A pod that is given up is deleted, and only when it is gone has it failed: it could begin to run until then.

Source: design section 5, "Sync"; failures are listed in docs/failures.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import has_true, true_places
from argosy_core.job.states import FailureKind, ObjectState
from argosy_core.reconcile.columns import Observations
from argosy_core.reconcile.machine import Phase
from argosy_core.reconcile.object_table import ObjectTable, Stop

__all__ = ["StartTimeouts", "Waiting"]

Int64Array = npt.NDArray[np.int64]

_SWEEP_S: Final = 5.0
"""How often all pods are looked at for those that wait for too long without a word why."""
_CREATED: Final = int(ObjectState.CREATED)
_FAILED: Final = int(ObjectState.FAILED)
_PRESENT: Final = int(Phase.PRESENT)
_INFRASTRUCTURE: Final = int(FailureKind.INFRASTRUCTURE)
_WANTED: Final = int(Stop.WANTED)
_NONE: Final = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTimeouts:
    """How long things may wait before a pod starts, seconds; 0 means for ever."""

    image_s: float = 300.0
    """For an image that cannot be had, or a container that cannot be made; registries recover, wrong names do not."""
    pending_s: float = 1800.0
    """For anything else that keeps a pod from starting: a volume, a sandbox, a node that does nothing."""
    quota_s: float = 600.0
    """For a quota of the namespace."""


class Waiting:
    """Keeps since when things wait, and gives them up.

    Args:
        table: Where the objects are.
        timeouts: How long they may.
    """

    def __init__(self, table: ObjectTable, timeouts: StartTimeouts) -> None:
        """Start with nothing waiting."""
        self._table = table
        self._timeouts = timeouts
        self._next_sweep_s = 0.0

    def note(self, slots: Int64Array, observed: Observations, now_s: float) -> tuple[Int64Array, list[float]]:
        """Note which pods wait for what cannot be had, and why; return (those that newly do, when to look at them).

        Of images and broken containers the first reason is the telling one, for a back-off follows; of all else, as
        volumes and sandboxes, the last.

        Args:
            slots: Objects that were observed, each once.
            observed: What was seen of each.
            now_s: Monotonic seconds.
        """
        table = self._table
        if not table.troubles and not has_true(observed.failure_column):
            return _NONE, []
        failures = observed.failure_column
        is_stuck = (failures > 0) & (table.state[slots] == _CREATED)
        for _, _, record in table.troubled(slots[~is_stuck]):
            record.stuck_since_s = 0.0
        fresh: list[int] = []
        for place in true_places(is_stuck).tolist():
            slot = int(slots[place])
            record = table.trouble(slot)
            text = int(observed.message_column[place])
            told = observed.texts[text] if text >= 0 else None
            if not record.stuck_since_s:
                record.stuck_since_s = now_s
                record.message = told
                fresh.append(slot)
            elif failures[place] == _INFRASTRUCTURE and not table.stop[slot]:
                record.message = told
            record.stuck_failure = int(failures[place])
        due_s = {self._timeouts.image_s, self._timeouts.pending_s} - {0.0} if fresh else set()
        return np.array(fresh, dtype=np.int64), [now_s + limit_s for limit_s in due_s]

    def sweep(self, now_s: float) -> list[Int64Array]:
        """Return pods that have waited for too long without a word why; looks now and then only."""
        if now_s < self._next_sweep_s or self._timeouts.pending_s <= 0:
            return []
        self._next_sweep_s = now_s + _SWEEP_S
        table = self._table
        is_pending = (table.state == _CREATED) & (table.phase == _PRESENT) & (table.stop == 0) & (table.kind == 0)
        late = true_places(is_pending & (table.present_s + self._timeouts.pending_s <= now_s))
        return [late] if late.size else []

    def give_up(self, slots: Int64Array, now_s: float) -> None:
        """Let those of some pods go that have waited for too long."""
        table, timeouts = self._table, self._timeouts
        slots = slots[table.state[slots] == _CREATED]
        if not slots.size:
            return
        may_wait = (table.phase[slots] == _PRESENT) & (table.stop[slots] == 0)
        slots = slots[may_wait & (table.kind[slots] == 0)]
        if not slots.size:
            return
        since_s = table.present_s[slots]
        limit_s = np.full(slots.size, timeouts.pending_s)
        for place, _, record in table.troubled(slots):
            if record.stuck_since_s:
                since_s[place] = record.stuck_since_s
                is_quick = record.stuck_failure != _INFRASTRUCTURE
                limit_s[place] = timeouts.image_s if is_quick else timeouts.pending_s
        for place in true_places((limit_s > 0) & (since_s + limit_s <= now_s)).tolist():
            slot = int(slots[place])
            record = table.trouble(slot)
            why = record.message or "nobody says why"
            record.message = f"the pod did not start for {limit_s[place]:.0f} s: {why}"
            record.failure = record.stuck_failure if record.stuck_since_s else _INFRASTRUCTURE
            record.end_state = _FAILED
            table.stop[slot] = _WANTED

    def refuse(self, slots: Int64Array, now_s: float) -> npt.NDArray[np.bool_]:
        """Take objects that a quota stands against; return for which of them it has for too long.

        Args:
            slots: Objects that are not there and were put off.
            now_s: Monotonic seconds.
        """
        is_late = np.zeros(slots.size, dtype=np.bool_)
        for place, slot in enumerate(slots.tolist()):
            record = self._table.trouble(slot)
            record.stuck_since_s = record.stuck_since_s or now_s
            is_late[place] = 0 < self._timeouts.quota_s <= now_s - record.stuck_since_s
        return is_late
