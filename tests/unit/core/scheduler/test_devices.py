"""Jobs with devices share nodes, so that whole nodes are left for who needs one; all by the default scores."""

from __future__ import annotations

import numpy as np
import pytest

from argosy_core.nodes import NodeSpec
from argosy_core.scheduler import RoundSettings
from argosy_testkit.leader_world import LeaderWorld

GIB = 1 << 30


def world_of(gpu_nodes: int, plain_nodes: int = 0) -> LeaderWorld:
    """A cluster of nodes with 8 GPUs, and of nodes with none."""
    world = LeaderWorld(clusters={"a": 0}, settings=RoundSettings(non_preemptible_excess_ratio=1e9))
    specs = [
        NodeSpec(name=f"n{row:03}", total={"cpu": 96_000, "memory": 512 * GIB, "pods": 110, **gpus})
        for row, gpus in enumerate([{"example.com/gpu": 8}] * gpu_nodes + [{}] * plain_nodes)
    ]
    world.clusters["a"].specs = specs
    world.clusters["a"].ledger.put_nodes(specs)
    world.send_capacity("a")
    return world


def gpus_free(world: LeaderWorld) -> list[int]:
    """Free GPUs of each node that has some."""
    table = world.clusters["a"].ledger.nodes
    row = table.axis.index("example.com/gpu")
    return sorted(table.free[row][table.allocatable[row] > 0].tolist())


def submit_all(world: LeaderWorld, kinds: list[int], **asked: int) -> None:
    """Submit a job of each of some kinds at once, each a class of its own, and run one round."""
    rows = []
    for kind in kinds:
        world.define_class(kind, cpu=4000 + kind, memory=GIB, **{"example.com/gpu": 1, **asked})
        rows.append(world.grow(1, class_id=kind))
    world.store.submit(world.store.next_change_id(), np.concatenate(rows), round(world.now_s * 1e6))
    world.take()
    world.round()


@pytest.mark.parametrize("classes", [1, 16])
def test_jobs_with_a_gpu_fill_one_node_after_the_other(classes: int) -> None:
    """16 jobs of a GPU on seven nodes of eight take two nodes, as one class or as many; five stay whole."""
    world = world_of(7)
    submit_all(world, [1 + number % classes for number in range(16)])
    assert gpus_free(world) == [0, 0, 8, 8, 8, 8, 8]


def test_jobs_that_come_later_open_no_node_while_another_has_a_gpu_left() -> None:
    """Each round goes on where the one before ended, though a sample of a cluster of 60 nodes has but a few of them."""
    world = world_of(60)
    for number in range(11):
        submit_all(world, [1 + number])
    assert gpus_free(world) == [0, 5, *[8] * 58]


def test_jobs_without_a_gpu_keep_off_nodes_whose_gpus_are_free() -> None:
    """There is a node without GPUs, and another whose GPUs are taken: no free GPU loses its cores."""
    world = world_of(3, plain_nodes=1)
    submit_all(world, list(range(1, 9)))
    for number in range(20, 34):
        world.define_class(number, cpu=8000 + number, memory=GIB)
        world.submit(1, class_id=number)
        world.round()
    table = world.clusters["a"].ledger.nodes
    row = table.axis.index("example.com/gpu")
    cores_free = table.free[table.axis.index("cpu")]
    assert cores_free[table.free[row] > 0].tolist() == [96_000, 96_000]
