"""A plugin of the commit: at most so many runs per rack between their commit and the first sight of their pods."""

from collections import Counter

import numpy as np

from argosy_core.framework import PlacementBatch
from argosy_core.ledger import PodEvents


class OnePerRack:
    """Reserve and unreserve of `one-per-rack`: keeps count of what starts on each rack, a label of the node."""

    def __init__(self, label: str = "example.com/rack", most: str = "1") -> None:
        """Take the label, and how many may start at once, from the settings."""
        self._label, self._most = label, int(most)
        self._starting: dict[tuple[int, int], str] = {}

    def reserve(self, batch: PlacementBatch) -> np.ndarray:
        """Return (n,): which placements stand; the others are tried again in a later round."""
        counts = Counter(self._starting.values())
        for key, node in zip(batch.members.pairs(), batch.nodes.tolist(), strict=True):
            rack = dict(batch.table.groups[int(batch.table.group[node])].labels).get(self._label, "")
            if counts[rack] < self._most:
                counts[rack] += 1
                self._starting[key] = rack
        return np.array([key in self._starting for key in batch.members.pairs()], dtype=np.bool_)

    def unreserve(self, batch: PlacementBatch) -> None:
        """Forget placements that were given up."""
        for key in batch.members.pairs():
            self._starting.pop(key, None)

    def event(self, event: object) -> None:
        """Forget runs whose pod is seen, and all once a new leader has listed what there is."""
        if isinstance(event, PlacementBatch):
            self._starting.clear()
        for key in event.members.pairs() if isinstance(event, PodEvents) else ():
            self._starting.pop(key, None)
