"""What samplers tell of nodes: nothing grows with the nodes that went, and nothing is taken that leaves a gap."""

from __future__ import annotations

import numpy as np
import pytest

from argosy_core.errors import InvalidRequest
from argosy_core.scheduler import CapacityColumns, ClusterView, PoolState, set_cluster, update_capacity
from argosy_core.scheduler.memory.capacity_bounds import NODE_BOUNDS
from argosy_testkit.leader_world import LeaderWorld

READY = 1


def told(rows: list[int], names: list[str], *, total: int = 8, incarnation: int = 1) -> CapacityColumns:
    """Return nodes of 8 millicores each."""
    count = len(rows)
    cpu = np.full((count, 1), 8, dtype=np.int64)
    return CapacityColumns(
        incarnation=incarnation,
        resources=("cpu",),
        node=np.array(rows, dtype=np.int32),
        names=tuple(names),
        allocatable=cpu,
        free=cpu,
        flag=np.full(count, READY, dtype=np.int8),
        total=np.array([total], dtype=np.int64),
        total_free=np.array([total], dtype=np.int64),
        node_count=count,
        placement_count=0,
        fitting=np.zeros(0, np.int32),
        fitting_room=np.zeros(0, np.int32),
    )


def test_leader_forgets_the_names_of_nodes_that_went() -> None:
    """Rows of a sampler are given to new nodes; the names that nothing runs on any more go."""
    world = LeaderWorld(clusters={"a": 1})
    (handle,) = world.submit(1)
    world.round()
    (slot,) = world.state.live.slots(np.array([handle])).tolist()
    nodes = world.state.clusters.nodes[0]
    name = nodes.names[int(world.state.live.node[slot])]
    world.state.node_failures.note([(1, 1, (0, int(world.state.live.node[slot])))], world.now_s)
    incarnation = int(world.state.clusters.incarnation[0])
    for number in range(3_000):
        update_capacity(world.state, "a", told([0], [f"n{number}"], incarnation=incarnation))
    assert len(nodes.names) < 1_100
    node = int(world.state.live.node[slot])
    assert nodes.names[node] == name
    assert nodes.names[int(nodes.translate(np.array([0]))[0])] == "n2999"
    assert world.state.node_failures.nodes_of(0) == [node]
    assert nodes.intern([name]).tolist() == [node]


def test_nodes_are_numbered_without_gaps() -> None:
    """One with a high number would cost the memory of as many; with a new incarnation all are told again."""
    state = PoolState()
    set_cluster(state, ClusterView(name="a", connected=True, incarnation=1))
    update_capacity(state, "a", told([1, 0], ["n1", "n0"]))
    with pytest.raises(InvalidRequest, match="node 3 is told, but only 3 nodes"):
        update_capacity(state, "a", told([3], ["n3"]))
    update_capacity(state, "a", told([2], ["n2"]))
    with pytest.raises(InvalidRequest, match="node 2 is told, but only 1 nodes"):
        update_capacity(state, "a", told([2], ["n2"], incarnation=2))
    assert state.clusters.nodes[0].by_sampler.size >= 3


def test_sums_over_all_clusters_stay_countable() -> None:
    """Totals that would wrap what a pool has are refused, and nothing of the message is taken."""
    state = PoolState()
    for number in range(5):
        bound = (("cpu", 1 << 60),)
        set_cluster(state, ClusterView(name=str(number), connected=True, incarnation=1, max_capacity=bound))
    for number in range(4):
        update_capacity(state, str(number), told([0], ["n"], total=1 << 60))
    with pytest.raises(InvalidRequest, match="more of a resource than a leader can count"):
        update_capacity(state, "4", told([0], ["n"], total=1 << 60))
    assert state.clusters.nodes[4].names == []
    update_capacity(state, "3", told([0], ["n"], total=8))
    update_capacity(state, "4", told([0], ["n"], total=1 << 59))
    assert (state.clusters.total.sum(axis=0) >= 0).all()


def bounded(most: int | None = None) -> ClusterView:
    """Return the cluster `a`, with so many millicores at most."""
    bound = () if most is None else (("cpu", most),)
    return ClusterView(name="a", connected=True, incarnation=1, max_capacity=bound)


def test_lying_cluster_counts_no_more_than_its_nodes_can_have() -> None:
    """Nobody set a bound: as many of the largest machines as it named, and no share shifts further."""
    state = PoolState()
    set_cluster(state, bounded())
    update_capacity(state, "a", told([0, 1], ["n0", "n1"], total=1 << 60))
    assert state.clusters.total[0].max() == state.clusters.free[0].max() == 2 * NODE_BOUNDS["cpu"]
    assert state.clusters.uncounted("a") == {"cpu": (1 << 60, 2 * NODE_BOUNDS["cpu"])}
    names = [f"n{number}" for number in range(2, 100_000)]
    update_capacity(state, "a", told(list(range(2, 100_000)), names, total=1 << 60))
    assert state.clusters.total[0].max() == 100_000 * NODE_BOUNDS["cpu"]


def test_cluster_counts_no_more_than_an_administrator_said() -> None:
    """The bound holds for what was told before, too, and what was told counts again once it is lifted."""
    state = PoolState()
    set_cluster(state, bounded())
    update_capacity(state, "a", told([0], ["n0"], total=8000))
    assert (state.clusters.total[0].max(), state.clusters.uncounted("a")) == (8000, {})
    set_cluster(state, bounded(5000))
    assert (state.clusters.total[0].max(), state.clusters.free[0].max()) == (5000, 5000)
    assert state.clusters.uncounted("a") == {"cpu": (8000, 5000)}
    update_capacity(state, "a", told([0], ["n0"], total=9000))
    assert state.clusters.total[0].max() == 5000
    set_cluster(state, bounded())
    assert (state.clusters.total[0].max(), state.clusters.uncounted("a")) == (9000, {})


def test_node_that_no_machine_is_ends_in_an_error_that_names_it() -> None:
    """Nothing of the message is taken."""
    state = PoolState()
    set_cluster(state, bounded())
    columns = told([0], ["n0"])
    columns.allocatable[0, 0] = NODE_BOUNDS["cpu"] + 1
    with pytest.raises(InvalidRequest, match=r"node 'n0' has 8388609 of cpu; no machine has more than 8388608"):
        update_capacity(state, "a", columns)
    assert state.clusters.nodes[0].names == []
