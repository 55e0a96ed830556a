"""Groups of nodes that every selector, toleration and platform list sees alike.

A cluster of many thousand nodes has few distinct sets of labels, taints and platform. Filters on those are therefore
evaluated once per group and looked up per node. Labels that by convention are unique per node would make every node a
group of its own; they are kept beside the group (`PER_NODE_LABELS`).

Source: design section 6, "Data layout".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = [
    "ARCHITECTURE_LABEL",
    "HOSTNAME_LABEL",
    "OS_LABEL",
    "PER_NODE_LABELS",
    "GroupTable",
    "NodeGroup",
    "Taint",
]

HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
OS_LABEL: Final = "kubernetes.io/os"
ARCHITECTURE_LABEL: Final = "kubernetes.io/arch"
PER_NODE_LABELS: Final = frozenset({HOSTNAME_LABEL})
"""Labels whose value is a node's own; selectors on them are evaluated per node."""


@dataclass(frozen=True, slots=True, order=True)
class Taint:
    """One taint of a node."""

    key: str
    """Taint key."""
    value: str = ""
    """Taint value."""
    effect: str = "NoSchedule"
    """NoSchedule, PreferNoSchedule or NoExecute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """What selectors, tolerations and platform lists can see of a node; equal for all nodes of the group."""

    labels: tuple[tuple[str, str], ...] = ()
    """Labels, sorted, without those of PER_NODE_LABELS."""
    taints: tuple[Taint, ...] = ()
    """Taints, sorted."""
    platform: tuple[str, str] = ("", "")
    """(operating system, architecture); empty text where not known."""

    @staticmethod
    def of(labels: Mapping[str, str], taints: tuple[Taint, ...], platform: tuple[str, str]) -> NodeGroup:
        """Return the group of a node.

        Its platform is what the well-known labels say, because node selectors are held against them; what else is told
        of it counts where they are missing.
        """
        os, architecture = platform
        return NodeGroup(
            labels=tuple(sorted(item for item in labels.items() if item[0] not in PER_NODE_LABELS)),
            taints=tuple(sorted(taints)),
            platform=(labels.get(OS_LABEL) or os, labels.get(ARCHITECTURE_LABEL) or architecture),
        )


class GroupTable:
    """Groups by index. Indices are stable until `compact`, which raises `compaction`.

    Whoever caches an answer per group index keeps it as long as `compaction` is the same, and extends it when `len`
    grew.
    """

    def __init__(self) -> None:
        """Start without groups."""
        self.compaction = 0
        self._groups: list[NodeGroup] = []
        self._index: dict[NodeGroup, int] = {}

    def __len__(self) -> int:
        """Return how many groups there are, unused ones included."""
        return len(self._groups)

    def __getitem__(self, index: int) -> NodeGroup:
        """Return the group of an index."""
        return self._groups[index]

    def intern(self, group: NodeGroup) -> int:
        """Return the index of a group, adding it if it is new."""
        index = self._index.get(group)
        if index is None:
            index = len(self._groups)
            self._index[group] = index
            self._groups.append(group)
        return index

    def compact(self, used: list[int]) -> dict[int, int]:
        """Drop all groups but the used ones.

        Args:
            used: Indices that stay, each once.

        Returns:
            New index by old index.
        """
        moved = {old: new for new, old in enumerate(used)}
        self._groups = [self._groups[old] for old in used]
        self._index = {group: index for index, group in enumerate(self._groups)}
        self.compaction += 1
        return moved
