"""Answers per (part of a class, group of nodes), evaluated once each and looked up for as many nodes as one likes.

Source: design section 6, "nodes grouped by (labels, taints, platform) so that selectors are evaluated per group".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from argosy_core.nodes import GroupTable, NodeGroup

__all__ = ["GroupResults"]

Bools = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.int32]


class GroupResults:
    """A growing table of yes and no: part number by group index.

    Args:
        matches: Whether the part of a number accepts a group.
    """

    def __init__(self, matches: Callable[[int, NodeGroup], bool]) -> None:
        """Start with nothing evaluated."""
        self._matches = matches
        self._answers = np.zeros((0, 0), np.bool_)
        self._part_count = 0
        self._group_count = 0
        self._compaction = -1

    def look_up(self, groups: GroupTable, part_count: int, parts: Indices, group: Indices) -> Bools:
        """Return (k, n): whether part `parts[k]` accepts group `group[k or 0, n]`.

        Args:
            groups: The groups.
            part_count: Number of parts there are; new ones are evaluated now.
            parts: k part numbers.
            group: (k, n) or (1, n) group indices.

        Complexity: one call of `matches` per new (part, group) pair over the life of the object.
        """
        self._evaluate(groups, part_count)
        if self._group_count == 1:
            return np.asarray(self._answers[parts, 0][:, None])
        return np.asarray(self._answers[parts[:, None], group])

    def all_true(self, groups: GroupTable, part_count: int) -> bool:
        """Return whether every part accepts every group, so that nobody has to look."""
        self._evaluate(groups, part_count)
        return bool(self._answers[: self._part_count, : self._group_count].all())

    def _evaluate(self, groups: GroupTable, part_count: int) -> None:
        """Fill in what is missing."""
        if self._compaction != groups.compaction:
            self._compaction = groups.compaction
            self._part_count = self._group_count = 0
        if part_count == self._part_count and len(groups) == self._group_count:
            return
        height, width = self._answers.shape
        if part_count > height or len(groups) > width:
            grown = np.zeros((max(2 * height, part_count), max(2 * width, len(groups))), np.bool_)
            grown[:height, :width] = self._answers
            self._answers = grown
        for number in range(part_count):
            begin = self._group_count if number < self._part_count else 0
            for index in range(begin, len(groups)):
                self._answers[number, index] = self._matches(number, groups[index])
        self._part_count, self._group_count = part_count, len(groups)
