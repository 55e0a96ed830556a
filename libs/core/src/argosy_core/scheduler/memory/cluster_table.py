"""The clusters of a pool as their samplers described them, each with a small dense index.

Owns what a cluster has, what of it is free and counts, and what its nodes are called. Columns are public arrays; the
functions of `argosy_core.scheduler` alone change them. May import how much is believed (`capacity_bounds`); knows no
class, queue or pool.

Source: design section 6, "Data layout".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Int32s, Int64s, has_true
from argosy_core.errors import InvalidRequest, InvariantViolation, NotFound
from argosy_core.job.tables.interning import distinct
from argosy_core.scheduler.memory.capacity_bounds import counted_total

__all__ = [
    "ClusterTable",
    "NodeNames",
]

_MAX_SUM: Final = 1 << 62
"""Most of one resource that all clusters of a pool may have."""
_SPARE_NAMES: Final = 1000


class NodeNames:
    """Names of one cluster's nodes; an index means the same name until they are compacted."""

    def __init__(self) -> None:
        """Start empty."""
        self.names: list[str] = []
        self._index: dict[str, int] = {}
        self.by_sampler: npt.NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        """Index for each sampler node index of the present incarnation, -1 where none was told."""
        self.told_end = 0
        """One more than the highest sampler node index that was told."""

    def __deepcopy__(self, memo: dict[int, object]) -> NodeNames:
        """Return a copy in a fraction of the time that looking at each name takes."""
        other = copy(self)
        vars(other).update(names=list(self.names), _index=dict(self._index), by_sampler=self.by_sampler.copy())
        return other

    def intern(self, names: Sequence[str]) -> npt.NDArray[np.int32]:
        """Return the index of each name, adding what is new."""
        result = np.empty(len(names), dtype=np.int32)
        for row, name in enumerate(names):
            index = self._index.get(name)
            if index is None:
                index = len(self.names)
                self.names.append(name)
                self._index[name] = index
            result[row] = index
        return result

    @property
    def is_crowded(self) -> bool:
        """Whether most names may be of nodes that went long ago."""
        return len(self.names) > 2 * self.told_end + _SPARE_NAMES

    def compact(self, used: npt.NDArray[np.integer]) -> npt.NDArray[np.int32]:
        """Forget the names that neither the sampler has told nor anybody uses.

        Args:
            used: Indices that somebody else holds, distinct or not.

        Returns:
            New index by old index, -1 for those that are forgotten.
        """
        kept = np.unique(np.concatenate([used, self.by_sampler[self.by_sampler >= 0]])).astype(np.int32)
        moved = np.full(len(self.names), -1, dtype=np.int32)
        moved[kept] = np.arange(kept.size, dtype=np.int32)
        self.names = [self.names[index] for index in kept.tolist()]
        self._index = {name: index for index, name in enumerate(self.names)}
        known = self.by_sampler >= 0
        self.by_sampler[known] = moved[self.by_sampler[known]]
        return moved

    def translate(self, sampler_nodes: npt.NDArray[np.integer]) -> npt.NDArray[np.int32]:
        """Return the index for each sampler node index, -1 where none was told."""
        if self.by_sampler.size == 0:
            return np.full(sampler_nodes.size, -1, dtype=np.int32)
        nodes = self.by_sampler.take(sampler_nodes, mode="clip")
        untold = (sampler_nodes < 0) | (sampler_nodes >= self.by_sampler.size)
        if has_true(untold):
            nodes[untold] = -1
        return nodes


class ClusterTable:
    """Clusters as their samplers described them."""

    def __init__(self, column_count: int) -> None:
        """Start empty.

        Args:
            column_count: Resources of the axis.
        """
        self._index: dict[str, int] = {}
        self.names: list[str] = []
        self.nodes: list[NodeNames] = []
        self.resources: list[tuple[str, ...]] = []
        """Per cluster, the resources that its sampler has told."""
        self.allocatable: list[npt.NDArray[np.int64]] = []
        """Per cluster, (sampler node, resource of its own) allocatable; zeros for nodes that are gone."""
        self.ready: list[npt.NDArray[np.bool_]] = []
        """Per cluster, (sampler node,) whether it may be given work."""
        self.connected: npt.NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        """Whether a sampler session stands and is ready."""
        self.cordoned: npt.NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        """Whether nothing new may be placed."""
        self.delegated: npt.NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        """Whether leases name the cluster only, and its sampler places when its executor asks."""
        self.forgotten: set[int] = set()
        """Clusters that were declared gone and have not been heard of since."""
        self.incarnation: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Incarnation of the sampler."""
        self.session: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Grows whenever the sampler's session begins or ends; what was asked in another session has no answer."""
        self.node_count: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Nodes."""
        self.told_count: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """How often the sampler has told totals of its own accord."""
        self.total: npt.NDArray[np.int64] = np.zeros((0, column_count), dtype=np.int64)
        """Sum of allocatable over usable nodes, as far as it counts (`capacity_bounds`)."""
        self.free: npt.NDArray[np.int64] = np.zeros((0, column_count), dtype=np.int64)
        """Sum of positive free over usable nodes, kept current with commits and releases."""
        self.largest: npt.NDArray[np.int64] = np.zeros((0, column_count), dtype=np.int64)
        """Largest allocatable of any node, per resource."""
        self.most: dict[int, Mapping[str, int]] = {}
        """What clusters have at most, base units by resource, where an administrator said so."""
        self.told: dict[int, tuple[tuple[str, ...], npt.NDArray[np.int64]]] = {}
        """Resources and totals as samplers told them; `total` is what of it counts."""

    def __len__(self) -> int:
        """Return the number of clusters."""
        return len(self.names)

    def add(self, name: str) -> int:
        """Return the index of a cluster, adding it if it is new."""
        index = self._index.get(name)
        if index is not None:
            return index
        index = len(self.names)
        if index >= np.iinfo(np.int16).max:
            raise InvariantViolation(f"more than {np.iinfo(np.int16).max} clusters in one pool")
        self._index[name] = index
        self.names.append(name)
        self.nodes.append(NodeNames())
        self.resources.append(())
        self.allocatable.append(np.zeros((0, 0), dtype=np.int64))
        self.ready.append(np.zeros(0, dtype=np.bool_))
        count = index + 1
        self.connected = np.append(self.connected, False)
        self.cordoned, self.delegated = np.append(self.cordoned, False), np.append(self.delegated, False)
        columns = ("incarnation", "session", "node_count", "told_count")
        for column in (*columns, "total", "free", "largest"):
            values = getattr(self, column)
            row = np.zeros((count - values.shape[0], *values.shape[1:]), dtype=np.int64)
            setattr(self, column, np.concatenate([values, row]))
        return index

    def node_names(self, cluster: npt.NDArray[np.integer], node: Int32s) -> tuple[list[str], Int64s]:
        """Return the names of the distinct ones of n nodes, and for each node the place of its name.

        Args:
            cluster: Cluster of each node.
            node: Its index there, 0 or more.
        """
        width = int(node.max(initial=0)) + 1
        found, inverse = distinct(cluster.astype(np.int64) * width + node)
        return [self.nodes[key // width].names[key % width] for key in found.tolist()], inverse

    def find(self, name: str) -> int | None:
        """Return the index of a cluster, or None."""
        return self._index.get(name)

    def index(self, name: str) -> int:
        """Return the index of a cluster.

        Raises:
            NotFound: The cluster is not known.
        """
        index = self._index.get(name)
        if index is None:
            raise NotFound(f"cluster {name!r} is not known to the scheduler; hand it to `set_cluster` first")
        return index

    def add_columns(self, count: int) -> None:
        """Give every resource array `count` more columns."""
        self.total = np.pad(self.total, ((0, 0), (0, count)))
        self.free = np.pad(self.free, ((0, 0), (0, count)))
        self.largest = np.pad(self.largest, ((0, 0), (0, count)))

    def keep_columns(self, used: npt.NDArray[np.bool_]) -> None:
        """Take the other resources out of every resource array."""
        self.total, self.free, self.largest = (column[:, used] for column in (self.total, self.free, self.largest))

    def counted(
        self, index: int, resources: Sequence[str], total: npt.NDArray[np.int64], *, node_count: int
    ) -> npt.NDArray[np.int64]:
        """Return what of a cluster's told totals counts, if it has named so many nodes."""
        return counted_total(total, resources, node_count=node_count, most=self.most.get(index, {}))

    def uncounted(self, name: str) -> dict[str, tuple[int, int]]:
        """Return what a cluster told and what of it counts, by resource, where that is less."""
        index = self._index.get(name)
        if index not in self.told:
            return {}
        resources, told = self.told[index]
        counted = self.counted(index, resources, told, node_count=self.nodes[index].told_end)
        return {
            resource: (said, most)
            for resource, said, most in zip(resources, told.tolist(), counted.tolist(), strict=True)
            if most < said
        }

    def check_total(self, index: int, total: npt.NDArray[np.int64]) -> None:
        """Do nothing if sums over all clusters stay countable when one has a total, in axis order.

        Raises:
            InvalidRequest: They do not.
        """
        if has_true(total > _MAX_SUM - self.total.sum(axis=0) + self.total[index]):
            raise InvalidRequest("with what this cluster has, its pool has more of a resource than a leader can count")

    def usable(self) -> npt.NDArray[np.bool_]:
        """Return which clusters may be given work."""
        return self.connected & ~self.cordoned
