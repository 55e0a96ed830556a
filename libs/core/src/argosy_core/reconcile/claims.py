"""Which leader's each run of a cluster is, and what was seen of runs that are nobody's yet.

A run is the leader's whose row of it is here. What was seen of a run without a row is held back: nothing is concluded,
reported or deleted of it, for its leader may know it, and labels can be written by anybody: only the row says in which
namespace the run's objects are. It is handed over with the row. What no leader knows is deleted by uid, and so is what
may not stay for so long without a leader.

Source: seed 000, several leaders on one cluster; design section 5, "Sync".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import true_places
from argosy_core.job.states import ObjectState
from argosy_core.job.tables.members import Members
from argosy_core.reconcile.columns import Deletes, Observations
from argosy_core.reconcile.kind_table import POD_KIND

__all__ = ["PoolClaims"]

Run = tuple[int, int]
"""Key of a member."""
HaveRows = Callable[[Members], npt.NDArray[np.bool_]]
_SUCCEEDED, _FAILED = int(ObjectState.SUCCEEDED), int(ObjectState.FAILED)
_RETRY_S: Final = 30.0
"""How long a deletion of what was held back has time before it is asked for again."""


@dataclass(slots=True)
class _Held:
    """An object that is held back."""

    observed: Observations
    row: int
    due_s: float = math.inf
    """To be deleted at this moment, monotonic seconds."""


class PoolClaims:
    """The claims of some pools, which are called by numbers from 0, on the runs of one cluster."""

    def __init__(self) -> None:
        """Start without anything seen."""
        self._held: dict[Run, dict[bytes, _Held]] = {}
        """By member and uid: several may claim to be the same object."""
        self._next_due_s = math.inf
        """When the next deletion is due at the earliest, monotonic seconds."""
        self._limit_s = math.inf
        """Least time that anything held back may stay without a leader, seconds."""
        self.unclaimed_version = 0
        """Grows whenever something of a run is seen that nobody has claimed, and with each listing of such."""

    def take(self, members: Members) -> list[Observations]:
        """Return what was held back of members, and hold it back no more: their rows are here.

        Complexity: O(members), and O(objects) of those held back.
        """
        if not self._held:
            return []
        rows: dict[int, tuple[Observations, list[int]]] = {}
        for run in members.pairs():
            for held in self._held.pop(run, {}).values():
                rows.setdefault(id(held.observed), (held.observed, []))[1].append(held.row)
        return [observed.part(np.array(chosen)) for observed, chosen in rows.values()]

    def split(self, observed: Observations, have_rows: Sequence[HaveRows]) -> list[Observations]:
        """Return the changes of each pool's runs, and hold back those of runs that nobody has claimed.

        Args:
            observed: What was seen.
            have_rows: For each pool, of which members it has the rows.
        """
        members = Members(observed.handle_column, observed.ordinal_column)
        claims = [have_row(members) for have_row in have_rows]
        claimed = claims[0]
        for claim in claims[1:]:
            claimed = claimed | claim
        if np.count_nonzero(claimed) < len(members):
            places = true_places(~claimed)
            for place, run in zip(places.tolist(), members[places].pairs(), strict=True):
                self._hold_back(run, observed, place)
        return [observed.part(true_places(claim)) for claim in claims]

    def split_listing(self, observed: Observations, have_rows: Sequence[HaveRows]) -> list[Observations]:
        """Return a listing's part of each pool; what was held back and is not listed any more is forgotten.

        Args:
            observed: All our objects that exist.
            have_rows: For each pool, of which members it has the rows.
        """
        before, self._held = self._held, {}
        parts = self.split(observed, have_rows)
        for run, objects in self._held.items():
            for uid in objects.keys() & before.get(run, {}).keys():
                objects[uid].due_s = before[run][uid].due_s
        self.unclaimed_version += bool(self._held)
        return parts

    def unclaimed(self) -> Members:
        """Return the members of runs that were seen and that nobody has claimed."""
        runs = np.array(list(self._held), dtype=np.int64).reshape(-1, 2)
        return Members(runs[:, 0], runs[:, 1])

    def holds(self, members: Members) -> npt.NDArray[np.bool_]:
        """Return of which members something is held back."""
        return np.array([run in self._held for run in members.pairs()], dtype=np.bool_)

    def discard(self, members: Members, now_s: float, *, keep_finished_s: float, keep_failed_s: float) -> None:
        """Let what is held back of members that no leader knows go: what has ended after its time, all else now.

        Args:
            members: Which.
            now_s: Monotonic seconds.
            keep_finished_s: How long what ended stays from now on, seconds.
            keep_failed_s: How long what failed stays, seconds.
        """
        keep_s = {_SUCCEEDED: keep_finished_s, _FAILED: max(keep_failed_s, keep_finished_s)}
        for run in members.pairs():
            for held in self._held.get(run, {}).values():
                if held.due_s == math.inf:
                    held.due_s = now_s + keep_s.get(int(held.observed.state_column[held.row]), 0.0)
                    self._next_due_s = min(self._next_due_s, held.due_s)

    def take_due(self, now_s: float, *, may_act: bool, silent_s: float) -> Deletes | None:
        """Return the deletions that are due of what is held back, None for none; each is asked for again after a while.

        Args:
            now_s: Monotonic seconds.
            may_act: Whether the session was confirmed recently enough. If not, that goes alone which may not stay for
                so long without a leader: its job is given to another cluster.
            silent_s: For how long no leader was heard, seconds.

        Complexity: O(objects held back), once any may be due.
        """
        if self._limit_s > silent_s and not (may_act and self._next_due_s <= now_s):
            return None
        due, self._next_due_s, self._limit_s = [], math.inf, math.inf
        for held in [held for objects in self._held.values() for held in objects.values()]:
            limit_s = held.observed.stop_after_s.get(held.row, math.inf)
            if limit_s <= silent_s and held.due_s == math.inf:
                held.due_s = now_s
            if held.due_s <= now_s and (may_act or limit_s <= silent_s):
                held.due_s = now_s + _RETRY_S
                due.append(held)
            self._next_due_s = min(self._next_due_s, held.due_s)
            self._limit_s = min(self._limit_s, limit_s if held.due_s == math.inf else math.inf)
        return _deletes(due) if due else None

    def _hold_back(self, run: Run, observed: Observations, row: int) -> None:
        uid = observed.uid_column[row].tobytes()
        if not observed.gone_column[row]:
            objects = self._held.setdefault(run, {})
            before = objects.get(uid)
            if before is None:
                self.unclaimed_version += 1
            self._limit_s = min(self._limit_s, observed.stop_after_s.get(row, math.inf))
            objects[uid] = _Held(observed, row, before.due_s if before is not None else math.inf)
            return
        objects = self._held.get(run, {})
        objects.pop(uid, None)
        if not objects:
            self._held.pop(run, None)


def _deletes(due: list[_Held]) -> Deletes:
    """Return the deletions of objects."""
    kinds: dict[str, int] = {POD_KIND: 0}
    for held in due:
        kinds.setdefault(_kind(held), len(kinds))
    return Deletes(
        uid_column=np.stack([held.observed.uid_column[held.row] for held in due]),
        kind_column=np.array([kinds[_kind(held)] for held in due], dtype=np.int16),
        handle_column=np.array([held.observed.handle_column[held.row] for held in due], dtype=np.int64),
        ordinal_column=np.array([held.observed.ordinal_column[held.row] for held in due], dtype=np.int64),
        object_column=np.array([held.observed.object_column[held.row] for held in due], dtype=np.int16),
        kinds=tuple(kinds),
    )


def _kind(held: _Held) -> str:
    return held.observed.kinds[int(held.observed.kind_column[held.row])]
