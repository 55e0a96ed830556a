"""Runs that were leased to the cluster as a whole: their sampler is asked for nodes, and nothing is made before.

A row names `ANY_NODE` until the leader has stored which node the sampler chose, and comes again with it. So whoever
restarts in between finds the choice in the rows, or asks again and gets the same answer. What fits nowhere ends as
returned. A sampler that says nothing for long ends it, too: another cluster may have room.

Source: seed 003 "Executor implementation"; design section 5, "Delegated clusters"; decision 0022.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.job.states import IS_RUN_TERMINAL, FailureKind
from argosy_core.job.tables.members import Members
from argosy_core.nodes import ANY_NODE
from argosy_core.placement.messages import PlaceReply
from argosy_core.reconcile.columns import RunRows
from argosy_core.reconcile.machine import Phase
from argosy_core.reconcile.object_table import ObjectTable

__all__ = ["Unplaced"]

Int64Array = npt.NDArray[np.int64]

_MOST_ASKED: Final = 5_000
"""Members in one request; the others are asked for with the next."""
_AGAIN_S: Final = 5.0
"""After how long it is asked again for what was answered with a node, and whose row has not come with it."""
_RETRY_S: Final = 1.0
"""After how long it is asked again for what was not answered."""
_TIMEOUT_S: Final = 60.0
"""After how long without any answer a run is returned."""
_NO_SLOTS: Final = np.zeros(0, dtype=np.int64)


@dataclass(slots=True)
class _Asked:
    """What is known of one member."""

    heard_s: float
    """When its row came, or its sampler said something of it last."""
    next_s: float
    """When it is to be asked for next."""


class Unplaced:
    """Members of runs without a node; empty while no cluster is delegated.

    Args:
        table: The objects.
    """

    def __init__(self, table: ObjectTable) -> None:
        """Start with none."""
        self._table = table
        self._asked: dict[tuple[int, int], _Asked] = {}

    def __len__(self) -> int:
        """Return how many members have no node."""
        return len(self._asked)

    def take_rows(self, rows: RunRows, now_s: float) -> Int64Array:
        """Take note of rows that were taken; return the objects of members that have nodes by them.

        Complexity: nothing unless a row names `ANY_NODE` or some member has no node; else Python work per row.
        """
        if not self._asked and ANY_NODE not in rows.nodes:
            return _NO_SLOTS
        found: list[int] = []
        members = Members(rows.handle_column, rows.ordinal_column)
        for key, node in zip(members.pairs(), rows.node_column.tolist(), strict=True):
            if rows.nodes[node] != ANY_NODE:
                found += self._give(key, rows.nodes[node])
            elif key not in self._asked and self._open(key):
                self._asked[key] = _Asked(now_s, now_s)
        return np.array(found, dtype=np.int64)

    def _give(self, key: tuple[int, int], node: str) -> list[int]:
        """Give a member its node; return its objects that are to be made there."""
        if self._asked.pop(key, None) is None:
            return []
        slots = self._open(key)
        for slot in slots:
            recipe = self._table.recipe[slot]
            self._table.recipe[slot] = (*recipe[:2], node, *recipe[3:])
        return slots

    def _open(self, key: tuple[int, int]) -> list[int]:
        """Return the objects of a member that wait for a node."""
        table = self._table
        return [
            slot
            for slot in table.slots_of(key)
            if slot >= 0
            and table.phase[slot] == Phase.ABSENT
            and not table.stop[slot]
            and not IS_RUN_TERMINAL[table.state[slot]]
            and table.recipe[slot] is not None
            and table.recipe[slot][2] == ANY_NODE
        ]

    def without(self, slots: Int64Array) -> Int64Array:
        """Return those of some objects whose members have nodes."""
        if not self._asked or not slots.size:
            return slots
        return slots[[key not in self._asked for key in self._table.members(slots).pairs()]]

    def members(self) -> Members:
        """Return the members without a node."""
        return Members.from_pairs(list(self._asked))

    def next_s(self) -> float | None:
        """Return when a sampler is to be asked next, monotonic seconds; None if never."""
        return min(asked.next_s for asked in self._asked.values()) if self._asked else None

    def take_due(self, now_s: float) -> Members | None:
        """Return the members to ask for now, None if there are none; those that are stopped or over are forgotten."""
        if not self._asked:
            return None
        due = [key for key, asked in self._asked.items() if asked.next_s <= now_s]
        for key in [key for key in due if not self._open(key)]:
            del self._asked[key]
        due = [key for key in due if key in self._asked][:_MOST_ASKED]
        for key in due:
            self._asked[key].next_s = now_s + _AGAIN_S
        return Members.from_pairs(due) if due else None

    def take_response(self, members: Members, reply: PlaceReply | None, now_s: float) -> Int64Array:
        """Take a sampler's answer; return the objects of members that it does not place, which are to end.

        Args:
            members: What was asked for.
            reply: The answer, None if there was none.
            now_s: Now, monotonic seconds.
        """
        returned: list[int] = []
        for place, key in enumerate(members.pairs()):
            asked = self._asked.get(key)
            if asked is None:
                continue
            node, why = ("", "") if reply is None else (reply.nodes[place], reply.reasons[place])
            if node:
                asked.heard_s = now_s
                continue
            asked.next_s = min(asked.next_s, now_s + _RETRY_S)
            if not why and now_s - asked.heard_s >= _TIMEOUT_S:
                why = f"the cluster's sampler has not answered for {_TIMEOUT_S:.0f} s"
            if why:
                returned += self._give_back(key, why)
        return np.array(returned, dtype=np.int64)

    def _give_back(self, key: tuple[int, int], why: str) -> list[int]:
        """Note why a member is returned; return its objects."""
        slots = self._open(key)
        del self._asked[key]
        for slot in slots:
            record = self._table.trouble(slot)
            record.failure, record.message = FailureKind.RETURNED, why
        return slots
