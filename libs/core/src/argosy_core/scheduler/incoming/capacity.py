"""What comes in of clusters: whether one may be given work, its nodes, and what it has and what is free there.

Owns how the memory takes over a sampler's word; may import the memory and how much of that is believed.

Source: design section 5, "Sampler session".
"""

from __future__ import annotations

from typing import Final

import numpy as np

from argosy_core.arrays import Int32s, has_true, true_places
from argosy_core.job.tables.ids import grow
from argosy_core.placement import WaitReason
from argosy_core.scheduler.columns.messages import (
    CapacityColumns,
    ClusterView,
)
from argosy_core.scheduler.memory.capacity_bounds import check_growth, check_nodes
from argosy_core.scheduler.memory.cluster_table import NodeNames
from argosy_core.scheduler.memory.resource_columns import ensure_columns
from argosy_core.scheduler.memory.state import PoolState

__all__ = [
    "set_cluster",
    "update_capacity",
]

_READY: Final = 1
"""Flags of a node that may be given work."""
_REMOVED: Final = 4


def set_cluster(state: PoolState, view: ClusterView) -> None:
    """Add a cluster or change whether it may be given work.

    A new incarnation drops the meaning of sampler node indices: nothing is placed there until capacity has come again.
    """
    clusters = state.clusters
    index = clusters.add(view.name)
    usable = bool(clusters.usable()[index])
    if view.connected != clusters.connected[index]:
        clusters.session[index] += 1
    if view.incarnation and view.incarnation != clusters.incarnation[index]:
        _start_incarnation(state, index, view.incarnation)
    clusters.connected[index] = view.connected
    clusters.forgotten.discard(index)
    clusters.cordoned[index] = view.cordoned
    _bound(state, index, dict(view.max_capacity))
    if view.delegated != clusters.delegated[index]:
        clusters.delegated[index] = view.delegated
        state.waits.clear_cluster(index)  # what was said of nodes is not what is said of all of them
    state.room.cordoned_nodes.pop(index, None)
    if view.cordoned_nodes:
        state.room.cordoned_nodes[index] = frozenset(view.cordoned_nodes)
    state.ensure_class_grid()
    if not usable and clusters.usable()[index]:
        state.waits.clear_cluster(index)
    state.change_count += 1


def _bound(state: PoolState, index: int, most: dict[str, int]) -> None:
    """Let so much of a cluster count, also of what was told before."""
    clusters = state.clusters
    if most == clusters.most.get(index, {}):
        return
    clusters.most[index] = most
    if index in clusters.told:
        resources, told = clusters.told[index]
        counted = clusters.counted(index, resources, told, node_count=clusters.nodes[index].told_end)
        clusters.total[index] = state.in_axis_order(counted, resources)
        clusters.free[index] = np.minimum(clusters.free[index], clusters.total[index])


def _start_incarnation(state: PoolState, index: int, incarnation: int) -> None:
    """Forget what the sampler's node indices meant."""
    clusters = state.clusters
    clusters.incarnation[index] = incarnation
    clusters.session[index] += 1
    clusters.nodes[index].by_sampler = np.zeros(0, dtype=np.int32)
    clusters.nodes[index].told_end = 0
    clusters.resources[index] = ()
    clusters.allocatable[index] = np.zeros((0, 0), dtype=np.int64)
    state.waits.clear_cluster(index)


def update_capacity(state: PoolState, cluster: str, columns: CapacityColumns) -> None:
    """Take in nodes that changed and the cluster's totals.

    Args:
        state: The pool.
        cluster: Name; the cluster must be known.
        columns: What the sampler sent.

    Raises:
        NotFound: The cluster is not known.
        InvalidRequest: It has more nodes, resources or capacity than a pool counts, a node that cannot be, or numbers
            nodes with gaps; none of that was taken.
    """
    clusters = state.clusters
    index = clusters.index(cluster)
    is_new = columns.incarnation != clusters.incarnation[index]
    told = () if is_new else clusters.resources[index]
    resources = told + tuple(name for name in columns.resources if name not in told)
    told_end = 0 if is_new else clusters.nodes[index].told_end
    check_growth(columns.node, told_end, len(resources))
    check_nodes(columns.names, columns.allocatable, columns.resources)
    ensure_columns(state, resources)
    node_count = max(told_end, int(columns.node.max(initial=-1)) + 1)
    counted = clusters.counted(index, columns.resources, columns.total, node_count=node_count)
    total = state.in_axis_order(counted, columns.resources)
    clusters.check_total(index, total)
    clusters.told[index] = columns.resources, columns.total
    if is_new:
        _start_incarnation(state, index, columns.incarnation)
    if columns.node.size:
        _update_nodes(state, index, columns, resources)
    free = np.minimum(state.in_axis_order(columns.total_free, columns.resources), total)
    if has_true(free > clusters.free[index]) or has_true(total != clusters.total[index]):
        state.change_count += 1
        state.hasten_promised(cluster=index)
    _wake(state, index, columns)
    clusters.total[index], clusters.free[index] = total, free
    clusters.told_count[index] += 1
    clusters.node_count[index] = columns.node_count


def _wake(state: PoolState, index: int, columns: CapacityColumns) -> None:
    """Let the classes be asked again of which a sampler says that they now fit."""
    found = [state.classes.ids.find(class_id) for class_id in columns.fitting.tolist()]
    known = np.array([row is not None for row in found], dtype=np.bool_)
    if has_true(known):
        classes = np.array([row for row in found if row is not None], dtype=np.int32)
        state.ensure_class_grid()
        room = columns.fitting_room[known]
        if len(state.returns):
            classes, room = _put_off(state, index, classes, room)
        state.waits.wake(classes, index, room)
        state.change_count += 1
        if state.round is not None:
            state.round.note_woken(index, classes)


def _put_off(state: PoolState, index: int, classes: Int32s, room: Int32s) -> tuple[Int32s, Int32s]:
    """Return the classes that are woken now; those that the cluster has just returned again are a little later."""
    later = state.returns.not_before_s(classes, index)
    later[state.waits.reason[classes, index] != WaitReason.RETURNED] = 0.0
    for place in true_places(later > 0).tolist():
        state.waits.hasten(WaitReason.RETURNED, later[place], classes=classes[place : place + 1], cluster=index)
    return classes[later == 0], room[later == 0]


def _update_nodes(state: PoolState, index: int, columns: CapacityColumns, resources: tuple[str, ...]) -> None:
    """Take in names and allocatable of some nodes, of a cluster with these resources."""
    clusters = state.clusters
    names: NodeNames = clusters.nodes[index]
    end = int(columns.node.max()) + 1
    names.told_end = max(names.told_end, end)
    names.by_sampler = grow(names.by_sampler, end, -1)
    names.by_sampler[columns.node] = names.intern(columns.names)
    matrix = clusters.allocatable[index]
    matrix = grow(np.pad(matrix, ((0, 0), (0, len(resources) - matrix.shape[1]))), end)
    gone = (columns.flag & _REMOVED) != 0
    matrix[columns.node] = 0
    place = np.array([resources.index(name) for name in columns.resources], dtype=np.int32)
    matrix[np.ix_(columns.node, place)] = np.where(gone[:, None], 0, columns.allocatable)
    clusters.resources[index], clusters.allocatable[index] = resources, matrix
    clusters.ready[index] = grow(clusters.ready[index], end)
    clusters.ready[index][columns.node] = columns.flag == _READY
    clusters.largest[index] = state.in_axis_order(matrix.max(axis=0), resources)
    if names.is_crowded and state.round is None:
        state.compact_node_names(index)
