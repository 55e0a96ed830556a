"""Whom a simulated cluster wakes: watchers of nodes for nodes alone, which are looked through at every wake."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from argosy_kube.port import Change, NodeEvents
from argosy_kube.simulated.__main__ import make_host
from argosy_kube.simulated.faults import Fault
from argosy_kube.simulated.host import ClusterHost, wall_clock
from argosy_testkit.cluster_contract import LAB_NODES

NODE = LAB_NODES[0]


class CountedHost(ClusterHost):
    """A host that notes how often the changes of nodes are gone through."""

    def __init__(self) -> None:
        """Have the nodes of the lab, whose changes before now nobody asks for."""
        super().__init__(make_host("lab", LAB_NODES).engine, clock=wall_clock())
        self.tick()
        self.version = self.engine.journal.history.version
        self.looks = 0
        self.looked = asyncio.Event()

    def node_changes(self, version: int) -> NodeEvents:
        """Return what there is, and note it; whoever finds nothing waits from then on."""
        self.looks += 1
        self.looked.set()
        return super().node_changes(version)


async def test_pods_that_come_and_go_wake_no_watcher_of_nodes() -> None:
    """A flush of pods costs a watch of nodes nothing, though it wakes the watchers of objects."""
    host = CountedHost()
    async with asyncio.timeout(50):
        objects = asyncio.create_task(anext(host.watch_blocks(host.version)))
        nodes = asyncio.create_task(anext(host.watch_nodes(host.version)))
        await host.looked.wait()
        host.add_unmanaged_pods(NODE.name, {"cpu": 1}, 3)
        assert await objects is not None
    assert host.looks == 1
    nodes.cancel()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda host: host.put_nodes((NODE,)), Change.MODIFIED),
        (lambda host: host.remove_node(NODE.name), Change.DELETED),
        (lambda host: host.inject(Fault(kind="node-unreachable", node=NODE.name)), Change.MODIFIED),
    ],
    ids=["put", "removed", "unreachable"],
)
async def test_change_of_a_node_wakes_whoever_watches_nodes_alone(
    change: Callable[[ClusterHost], None], told: Change
) -> None:
    """It is told as it happens, not with the bookmark that comes every few seconds and here would be empty."""
    host = CountedHost()
    async with asyncio.timeout(50):
        nodes = asyncio.create_task(anext(host.watch_nodes(host.version)))
        await host.looked.wait()
        change(host)
        events = await nodes
    assert [(Change(kind), node.name) for kind, node in zip(events.change_column, events.nodes, strict=True)] == [
        (told, NODE.name)
    ]
