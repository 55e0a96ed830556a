"""Jobs that take a port of their node, from the round to the ledgers."""

from __future__ import annotations

import pytest

from argosy_core.job.reading.classes import HostPort, SchedulingClass
from argosy_core.scheduler import LeasePlan, RoundSettings, define_classes
from argosy_testkit.leader_world import LeaderWorld


def _take_port(world: LeaderWorld, class_id: int, *, cpu: int, host_ip: str = "") -> None:
    """Define a class that takes port 80 of its node."""
    definition = SchedulingClass(requests=(("cpu", cpu),), host_ports=(HostPort("TCP", 80, host_ip),))
    world.job_index.definitions[class_id] = definition.definition()
    define_classes(world.state, world.job_index.definitions)


@pytest.mark.parametrize("spread", [True, False])
def test_no_job_fails_for_want_of_a_port_while_nodes_are_free(*, spread: bool) -> None:
    """A hundred jobs of two classes that take one port, 170 free nodes: each gets a node of its own."""
    settings = RoundSettings(spread=spread, clusters_to_sample_ratio=1.0)
    world = LeaderWorld(clusters={"a": 85, "b": 85}, settings=settings)
    _take_port(world, 2, cpu=1000)
    _take_port(world, 3, cpu=500, host_ip="10.0.0.1")
    handles = world.submit(50, class_id=2) + world.submit(50, class_id=3)
    places: set[tuple[str, str]] = set()
    leased: list[int] = []
    for _ in range(20):
        world.now_s += 30.0  # longer than any back-off
        plan = world.round()
        assert plan.failed_handle.size == 0
        leased += plan.handle.tolist()
        places.update(_places(plan))
    assert sorted(leased) == handles
    assert len(places) == 100


def _places(plan: LeasePlan) -> list[tuple[str, str]]:
    """Names of cluster and node of each lease."""
    columns = zip(plan.cluster.tolist(), plan.node.tolist(), strict=True)
    return [(plan.clusters[cluster], plan.nodes[node]) for cluster, node in columns]
