"""Which pool each run of a cluster is of, where the leaders of several pools place on it.

A leader claims a run by its row, or by the word that it shall stop. What was seen of a run that nobody has claimed is
held back: nothing is concluded, reported or deleted of it, for another leader may know it.

Source: seed 000, several leaders on one cluster; design section 5, "Sync".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from argosy_core.arrays import true_places
from argosy_core.job.tables.members import Members
from argosy_core.reconcile.columns import Observations

__all__ = ["PoolClaims"]

Run = tuple[int, int]
"""Key of a member."""
_UNCLAIMED = -1


class PoolClaims:
    """The claims of some pools on the runs of one cluster; with a single pool every run is that pool's.

    Args:
        pool_count: How many pools there are; they are called by numbers from 0.
    """

    def __init__(self, pool_count: int) -> None:
        """Start without claims."""
        self._pool_count = pool_count
        self._pools: dict[Run, int] = {}
        self._held_back: dict[Run, dict[int, tuple[Observations, int]]] = {}
        self.unclaimed_version = 0
        """Grows whenever a run was seen that nobody has claimed."""

    def claim(self, pool: int, members: Members) -> list[Observations]:
        """Take a leader's word that members are its pool's; return what was held back of them, to be taken before it.

        Complexity: O(runs), and O(objects) of those held back.
        """
        if self._pool_count == 1:
            return []
        runs = members.pairs()
        self._pools.update(dict.fromkeys(runs, pool))
        rows: dict[int, tuple[Observations, list[int]]] = {}
        for run in runs:
            for observed, row in self._held_back.pop(run, {}).values():
                rows.setdefault(id(observed), (observed, []))[1].append(row)
        return [observed.part(np.array(chosen)) for observed, chosen in rows.values()]

    def split(self, observed: Observations) -> list[Observations]:
        """Return the changes of each pool's runs, and hold back those of runs that nobody has claimed."""
        if self._pool_count == 1:
            return [observed]
        runs = _runs(observed)
        pools = np.fromiter((self._pools.get(run, _UNCLAIMED) for run in runs), np.int64, len(observed))
        for row in true_places(pools == _UNCLAIMED).tolist():
            self._hold_back(runs[row], observed, row)
        return [observed.part(true_places(pools == pool)) for pool in range(self._pool_count)]

    def split_listing(self, observed: Observations, knows: Sequence[Callable[[int, int], bool]]) -> list[Observations]:
        """Return a listing's part of each pool; claims on what is neither listed nor known any more are forgotten.

        Args:
            observed: All our objects that exist.
            knows: For each pool, whether it knows a member of a run, by its key.
        """
        if self._pool_count > 1:
            self._held_back.clear()
            listed = set(_runs(observed))
            self._pools = {run: pool for run, pool in self._pools.items() if run in listed or knows[pool](*run)}
        return self.split(observed)

    def unclaimed(self) -> Members:
        """Return the members of runs that were seen and that nobody has claimed."""
        runs = np.array(list(self._held_back), dtype=np.int64).reshape(-1, 2)
        return Members(runs[:, 0], runs[:, 1])

    def _hold_back(self, run: Run, observed: Observations, row: int) -> None:
        objects = self._held_back.setdefault(run, {})
        if not observed.gone_column[row]:
            if not objects:
                self.unclaimed_version += 1
            objects[int(observed.object_column[row])] = observed, row
            return
        objects.pop(int(observed.object_column[row]), None)
        if not objects:
            del self._held_back[run]


def _runs(observed: Observations) -> list[Run]:
    """Return the member that each change is about."""
    return list(zip(observed.handle_column.tolist(), observed.ordinal_column.tolist(), strict=True))
