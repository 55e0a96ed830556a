"""Jobs that end with others: children of jobs that submitted them.

A parent that is not live here has ended, for a child is accepted only while its parent is open, and both are of one
pool. That is seen when changes are taken, when all that stood before them has been.

Source: seed 003, "Elasticity and dynamic resource creation".
"""

from __future__ import annotations

import numpy as np

from argosy_core.arrays import Int32s, Int64s
from argosy_core.job.reading.families import read_bound_parent
from argosy_core.job.tables.live import LiveJobs

__all__ = ["Children"]


class Children:
    """Which live jobs end with which."""

    def __init__(self) -> None:
        """Start with none."""
        self._of: dict[int, dict[int, None]] = {}
        """Handle of a parent -> its children."""
        self._parents: dict[int, int] = {}
        """Handle of a child -> its parent."""
        self.orphans: dict[int, None] = {}
        """Handles of children that may have lost their parents, new ones among them."""

    def __len__(self) -> int:
        """Return the number of children."""
        return len(self._parents)

    def note(self, live: LiveJobs, slots: Int32s) -> None:
        """Take note which of some new jobs end with others.

        Complexity: a look at each distinct metadata; Python work per child.
        """
        texts = [text for text in np.unique(live.metadata[slots]).tolist() if text >= 0]
        parents = {text: read_bound_parent(live.metadata_texts.value(text)) for text in texts}
        bound = [text for text, parent in parents.items() if parent is not None]
        if not bound:
            return
        chosen = slots[np.isin(live.metadata[slots], bound)]
        for child, text in zip(live.handle[chosen].tolist(), live.metadata[chosen].tolist(), strict=True):
            parent = parents[text] or 0
            self._of.setdefault(parent, {})[child] = None
            self._parents[child] = parent
            self.orphans[child] = None

    def end(self, handles: Int64s) -> None:
        """Take note that jobs have ended: their children are orphans."""
        for handle in handles.tolist():
            self.orphans.update(self._of.pop(handle, {}))
            self.orphans.pop(handle, None)
            parent = self._parents.pop(handle, None)
            siblings = self._of.get(parent, {}) if parent is not None else {}
            siblings.pop(handle, None)
            if parent in self._of and not siblings:
                del self._of[parent]

    def take_orphans(self) -> dict[int, int]:
        """Return (child, parent) of those that may have lost their parents, once."""
        found = {child: self._parents[child] for child in self.orphans if child in self._parents}
        self.orphans = {}
        return found
