"""What gangs hold beyond what they need: members up to their maxima, which come with spare room and go first.

Such *extras* count as their queue's usage, and not as work that cannot be preempted, whatever their job's lifetime.

Source: 003 "Distributed jobs", "Preemption"; decision 0018.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from argosy_core.arrays import Int32s, Int64s
from argosy_core.job.tables.live import LiveJobs
from argosy_core.job.tables.members import Members
from argosy_core.scheduler.columns.messages import ShrinkColumns
from argosy_core.scheduler.memory.live_classes import LiveClasses

__all__ = ["Extras", "preemptible_part"]

_FIRST_QUIET_S: Final = 60.0
"""After extras of a run were stopped it gets none for so long: longer than most grace times."""
_LAST_QUIET_S: Final = 3600.0
_MOST_QUIET: Final = 100_000
_MOST_STORED: Final = 1000
"""Members, and runs, of which the next leader is told."""


def preemptible_part(live: LiveJobs, classes: LiveClasses, slots: Int32s, usage: Int64s) -> Int64s:
    """Return what of the usage of held jobs may be preempted: all of those with a lifetime, of others their extras.

    Args:
        live: The jobs.
        classes: Their classes.
        slots: Jobs.
        usage: Usage of each, micro-cores.
    """
    part: Int64s = np.where(live.lifetime_s[slots] >= 0, usage, 0)
    if classes.elastic:
        grows = (live.lifetime_s[slots] < 0) & np.isin(live.class_index[slots], list(classes.elastic))
        part[grows] = np.maximum(usage[grows] - classes.usage[live.class_index[slots[grows]]], 0)
    return part


@dataclass(slots=True)
class _Quiet:
    """A run of which extras were stopped."""

    until_s: float
    """It grows no more until then, seconds since the Unix epoch."""
    pause_s: float
    """How long that was."""


class Extras:
    """Which extras are to be stopped, and which runs do not grow for a while."""

    def __init__(self) -> None:
        """Start with none."""
        self.due_s = math.inf
        """When a round looks next whether runs may grow, seconds since the Unix epoch; infinite while none could."""
        self.stopping: dict[tuple[int, int], bool] = {}
        """Key of each extra that is to be stopped -> whether its stop was decided in a plan."""
        self.settled_s = -math.inf
        """Until when no more are stopped: those that the last leader stopped are ending, for heads of which it knew."""
        self._quiet: dict[int, _Quiet] = {}

    def store(self, now_s: float) -> ShrinkColumns:
        """Return what the next leader needs: the last members that were stopped, and runs that do not grow now."""
        quiet = [(handle, one) for handle, one in self._quiet.items() if one.until_s > now_s][-_MOST_STORED:]
        keys = np.array([*self.stopping][-_MOST_STORED:], dtype=np.int64).reshape(-1, 2)
        return ShrinkColumns(
            stopping=Members(keys[:, 0].copy(), keys[:, 1].copy()),
            handle=np.array([handle for handle, _ in quiet], dtype=np.int64),
            until_us=np.array([round(one.until_s * 1e6) for _, one in quiet], dtype=np.int64),
            pause_us=np.array([round(one.pause_s * 1e6) for _, one in quiet], dtype=np.int64),
        )

    def restore(self, stored: ShrinkColumns, now_s: float) -> None:
        """Go on with what the last leader began: the same members are stopped once more, and no others meanwhile."""
        self.stopping.update(dict.fromkeys(stored.stopping.pairs(), False))
        if self.stopping:
            self.settled_s = now_s + _FIRST_QUIET_S
        columns = (stored.handle.tolist(), stored.until_us.tolist(), stored.pause_us.tolist())
        for handle, until_us, pause_us in zip(*columns, strict=True):
            pause_s = min(pause_us / 1e6, _LAST_QUIET_S)
            self._quiet[handle] = _Quiet(min(until_us / 1e6, now_s + pause_s), pause_s)

    def stop(self, members: Members, now_s: float) -> None:
        """Have the next plan stop extras; their runs grow no more for a while, each time for longer."""
        self.stopping.update(dict.fromkeys(members.pairs(), False))
        for handle in set(members.handle.tolist()):
            known = self._quiet.pop(handle, None)
            pause_s = _FIRST_QUIET_S if known is None else min(2 * known.pause_s, _LAST_QUIET_S)
            self._quiet[handle] = _Quiet(now_s + pause_s, pause_s)
        while len(self._quiet) > _MOST_QUIET:
            del self._quiet[next(iter(self._quiet))]

    def unsent(self) -> list[tuple[int, int]]:
        """Return the keys of extras whose stop no plan has decided."""
        return [key for key, is_sent in self.stopping.items() if not is_sent]

    def quiet_until_s(self, handle: int) -> float:
        """Return until when a run does not grow, 0 for one that may."""
        known = self._quiet.get(handle)
        return 0.0 if known is None else known.until_s

    def forget(self, handles: list[int]) -> None:
        """Forget jobs."""
        gone = set(handles)
        self.stopping = {key: is_sent for key, is_sent in self.stopping.items() if key[0] not in gone}
        for handle in handles:
            self._quiet.pop(handle, None)
