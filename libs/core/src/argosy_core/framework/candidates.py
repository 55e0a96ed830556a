"""The decision's cycle: the candidates of all clusters, as filters and scores at the leader see them.

Source: seed 000 "Decision Phase"; design section 5, "Round" 3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import find_begins
from argosy_core.framework.faults import Fault
from argosy_core.job.reading.classes import SchedulingClass

__all__ = ["CandidateCycle", "Entries"]

Bools = npt.NDArray[np.bool_]
Int16s = npt.NDArray[np.int16]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """The nodes that are a candidate of some class; e entries, r resources."""

    cluster: Int16s
    """(e,) number of the cluster."""
    node: Int32s
    """(e,) node index in that cluster."""
    free: Int64s
    """(e, r) base units free on it when it was sampled."""
    cluster_free: Int64s
    """(clusters, r) base units free in each whole cluster."""
    cluster_names: Sequence[str]
    """Names of the clusters by number; empty if they are not known."""


class CandidateCycle:
    """k candidates of all classes of a round.

    Args:
        class_ids: (k,) class of each candidate, all of one class beside each other.
        entry: (k,) position in `entries`.
        entries: The nodes.
        definition: Returns the class of an id; plugins ask it.
    """

    __slots__ = ("_begins", "alive", "class_ids", "definition", "entries", "entry", "faults", "plugin", "state")

    def __init__(
        self, class_ids: Int32s, entry: Int32s, entries: Entries, definition: Callable[[int], SchedulingClass]
    ) -> None:
        """Begin a cycle."""
        self.definition = definition
        self.class_ids = class_ids
        self.entry = entry
        self.entries = entries
        self.alive: Bools = np.ones(len(class_ids), np.bool_)
        """(k,): candidates that no earlier filter turned away."""
        self.state: dict[str, object] = {}
        """Notes by key; trusted plugins may read and write all of them. Gone with the cycle."""
        self.faults: dict[int, Fault] = {}
        """By class id: the error or change request to wait that turned the class away."""
        self.plugin = ""
        """Name of the plugin that is being asked."""
        self._begins = find_begins(class_ids)

    def __len__(self) -> int:
        """Return the number of classes."""
        return len(self._begins)

    @property
    def shape(self) -> tuple[int]:
        """(k,)."""
        return (len(self.class_ids),)

    def postpone(self, candidates: Bools, reason: str, *, retry_after_s: float = 0.0) -> None:
        """Turn away the classes that have one of some candidates; as `Cycle.postpone`."""
        classes = np.isin(self.class_ids[self._begins], self.class_ids[candidates])
        self.turn_away(
            classes, Fault(plugin=self.plugin, reason=reason, is_objection=True, retry_after_s=retry_after_s)
        )

    def turn_away(self, pods: Bools, fault: Fault) -> None:
        """Leave no candidate to some of the classes, because of a fault."""
        gone = self.class_ids[self._begins][pods]
        for class_id in gone.tolist():
            self.faults.setdefault(class_id, fault)
        self.alive = self.alive & ~np.isin(self.class_ids, gone)

    def halves(self) -> tuple[CandidateCycle, CandidateCycle]:
        """Return the cycle as two, with half of the classes each; both write the same notes and faults."""
        middle = int(self._begins[len(self) // 2])
        return self._part(slice(0, middle)), self._part(slice(middle, None))

    def _part(self, candidates: slice) -> CandidateCycle:
        part = CandidateCycle(self.class_ids[candidates], self.entry[candidates], self.entries, self.definition)
        part.alive, part.state, part.faults = self.alive[candidates], self.state, self.faults
        part.plugin = self.plugin
        return part
