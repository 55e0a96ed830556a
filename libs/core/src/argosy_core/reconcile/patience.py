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

from argosy_core.job.states import FailureKind, ObjectState
from argosy_core.reconcile.run_table import Phase, RunTable

__all__ = ["Patience", "Waiting"]

Int64Array = npt.NDArray[np.int64]

_SWEEP_S: Final = 5.0
"""How often all pods are looked at for those that wait for too long without a word why."""
_CREATED: Final = int(ObjectState.CREATED)
_FAILED: Final = int(ObjectState.FAILED)
_PRESENT: Final = int(Phase.PRESENT)
_INFRASTRUCTURE: Final = int(FailureKind.INFRASTRUCTURE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long things may wait, seconds; 0 means for ever."""

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
        patience: How long they may.
    """

    def __init__(self, table: RunTable, patience: Patience) -> None:
        """Start with nothing waiting."""
        self._table = table
        self._patience = patience
        self._next_sweep_s = 0.0

    def note(self, slots: Int64Array, failures: npt.NDArray[np.int8], now_s: float) -> tuple[Int64Array, Int64Array]:
        """Note which pods wait for what cannot be had; return (those that newly do, those whose reason is to be kept).

        Of images and broken containers the first reason is the telling one, for a back-off follows; of all else, as
        volumes and sandboxes, the last.

        Args:
            slots: Objects that were observed, each once.
            failures: int8[n], what each has failed of if it waits for too long; 0 if it does not wait for anything.
            now_s: Monotonic seconds.
        """
        table = self._table
        stuck = (failures > 0) & (table.state[slots] == _CREATED)
        table.stuck_s[slots[~stuck]] = 0.0
        if not stuck.any():
            return slots[:0], slots[:0]
        is_fresh = stuck & (table.stuck_s[slots] == 0.0)
        fresh: Int64Array = slots[is_fresh]
        told: Int64Array = slots[is_fresh | (stuck & (failures == _INFRASTRUCTURE) & ~table.stop[slots])]
        table.stuck_s[fresh] = now_s
        table.stuck_kind[slots[stuck]] = failures[stuck]
        return fresh, told

    def due_s(self, now_s: float) -> list[float]:
        """Return when what begins to wait now is to be looked at again."""
        patience = self._patience
        return [now_s + limit_s for limit_s in {patience.image_s, patience.pending_s} if limit_s > 0]

    def sweep(self, now_s: float) -> list[Int64Array]:
        """Return pods that have waited for too long without a word why; looks now and then only."""
        if now_s < self._next_sweep_s or self._patience.pending_s <= 0:
            return []
        self._next_sweep_s = now_s + _SWEEP_S
        table = self._table
        pending = (table.state == _CREATED) & (table.phase == _PRESENT) & ~table.stop & (table.kind == 0)
        late = np.flatnonzero(pending & (table.present_s + self._patience.pending_s <= now_s))
        return [late] if late.size else []

    def give_up(self, slots: Int64Array, now_s: float) -> None:
        """Let those of some pods go that have waited for too long."""
        table, patience = self._table, self._patience
        slots = slots[(table.state[slots] == _CREATED) & (table.phase[slots] == _PRESENT) & ~table.stop[slots]]
        if not slots.size:
            return
        stuck = table.stuck_s[slots] > 0.0
        quick = stuck & (table.stuck_kind[slots] != _INFRASTRUCTURE)
        limit_s = np.where(quick, patience.image_s, patience.pending_s)
        since_s = np.where(stuck, table.stuck_s[slots], table.present_s[slots])
        late = (limit_s > 0) & (since_s + limit_s <= now_s) & (table.kind[slots] == 0)
        for slot, seconds, is_stuck in zip(
            slots[late].tolist(), limit_s[late].tolist(), stuck[late].tolist(), strict=True
        ):
            table.failure[slot] = table.stuck_kind[slot] if is_stuck else _INFRASTRUCTURE
            why = table.message[slot] or "nobody says why"
            table.message[slot] = f"the pod did not start for {seconds:.0f} s: {why}"
        table.stop[slots[late]] = True
        table.end_state[slots[late]] = _FAILED

    def refuse(self, slots: Int64Array, now_s: float) -> Int64Array:
        """Take objects that a quota stands against; return those for which it has for too long.

        Args:
            slots: Objects that are not there and were put off.
            now_s: Monotonic seconds.
        """
        table, limit_s = self._table, self._patience.quota_s
        fresh = slots[table.stuck_s[slots] == 0.0]
        table.stuck_s[fresh] = now_s
        if limit_s <= 0:
            return slots[:0]
        return slots[table.stuck_s[slots] + limit_s <= now_s]
