"""Gangs: hops against the least possible, and time, on a fat tree of 31,250 nodes; many small gangs on shared nodes.

Prints one JSON document. Three fat trees of 50 pods of 25 racks of 25 nodes are half, 70 and 90 % full of whole-node
work, strewn over single nodes and, for another run, in blocks as jobs leave it. Gangs of 8 to 512 nodes are placed one
at a time on the same state. `least` is the lowest level at which some subtree has that many free nodes: a bound that no
placement can beat, and for one sub-group always reached by some placement. For several sub-groups the bound holds for
each by itself, so a gang that does not reach it may still be the best there is.

`fat_tree_through_sampler` are such gangs as a sampler's session answers, places and reserves them, in processor time.
`sampler_session` is the small gangs as a sampler's session places them, in one commit of all members, and `whole_round`
as a leader has them placed: chosen, asked for, committed and put into a plan.

Usage: python tests/benchmarks/gangs.py [--gangs 400] [--seed 1]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

import numpy as np

from argosy_core.gang import SubGroup, Topology, place_gang
from argosy_core.job.reading.classes import GangGroup, SchedulingClass
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger
from argosy_core.nodes import NodeSpec
from argosy_core.placement import CommitRequest, NodeSampler, Placements, SampleRequest, SamplerSession
from argosy_testkit.leader_world import LeaderWorld

PODS, RACKS, NODES = 50, 25, 25
NODE_COUNT = PODS * RACKS * NODES
SIZES = (8, 16, 32, 64, 128, 256, 512)


def fat_tree() -> Topology:
    """Return the tree of the whole cluster."""
    rack = [f"{node // NODES}" for node in range(NODE_COUNT)]
    pod = [f"{node // (NODES * RACKS)}" for node in range(NODE_COUNT)]
    return Topology.of(NODE_COUNT, [rack, pod])


def free_nodes(rng: np.random.Generator, full_ratio: float, *, in_blocks: bool) -> np.ndarray:
    """Return which nodes are free: single ones at random, or what is left by blocks of 1 to 64 nodes side by side."""
    free = np.ones(NODE_COUNT, dtype=bool)
    if not in_blocks:
        free[rng.permutation(NODE_COUNT)[: round(NODE_COUNT * full_ratio)]] = False
        return free
    while free.mean() > 1 - full_ratio:
        size = int(2 ** rng.integers(0, 7))
        first = int(rng.integers(0, NODE_COUNT - size))
        free[first : first + size] = False
    return free


def whole(size: int, eligible: np.ndarray) -> SubGroup:
    """Return a sub-group of whole nodes."""
    return SubGroup(request=np.array([1000]), minimum=size, maximum=size, eligible=eligible)


def cut(rng: np.random.Generator, pod_count: int, group_count: int) -> tuple[int, ...]:
    """Return the sizes of the sub-groups of a gang, each of them one pod or more."""
    cuts = np.sort(rng.choice(np.arange(1, pod_count), group_count - 1, replace=False))
    return tuple(np.diff([0, *cuts.tolist(), pod_count]).tolist())


def least_hops(topology: Topology, free: np.ndarray, size: int) -> int:
    """Return the fewest hops with which so many free nodes lie together, -1 if there are not so many."""
    for level in range(1, topology.level_count):
        if np.bincount(topology.subtrees[level], weights=free).max() >= size:
            return topology.hops_of(level)
    return -1


def measure(topology: Topology, rng: np.random.Generator, count: int, *, group_count: int) -> list[dict[str, Any]]:
    """Place gangs in each state; return a row for each."""
    rows = []
    for full_ratio in (0.5, 0.7, 0.9):
        for in_blocks in (False, True):
            open_ = free_nodes(rng, full_ratio, in_blocks=in_blocks)
            amounts = np.where(open_, 1000, 0)[None, :].astype(np.int64)
            eligible = np.ones(NODE_COUNT, dtype=bool)
            least_count, placed_count, times_s = 0, 0, []
            for _ in range(count):
                sizes = cut(rng, int(rng.choice(SIZES)), group_count)
                groups = [whole(size, eligible) for size in sizes]
                began_s = time.perf_counter()
                places = place_gang(topology, amounts, groups, empty=open_)
                times_s.append(time.perf_counter() - began_s)
                if places is not None:
                    placed_count += 1
                    bound = max(least_hops(topology, open_, size) for size in sizes)
                    least_count += max(places.hops) == bound
            rows.append(
                {
                    "full_ratio": full_ratio,
                    "in_blocks": in_blocks,
                    "sub_groups": group_count,
                    "gangs": count,
                    "placed": placed_count,
                    "fewest_hops_ratio": round(least_count / max(placed_count, 1), 4),
                    "p50_ms": round(float(np.quantile(times_s, 0.5)) * 1000, 3),
                    "p99_ms": round(float(np.quantile(times_s, 0.99)) * 1000, 3),
                }
            )
    return rows


def through_sampler(topology: Topology, rng: np.random.Generator, count: int, group_count: int) -> list[dict[str, Any]]:
    """Have a sampler's session answer and place gangs of whole nodes in each state; return a row for each.

    The time of a gang is that of the question whether it fits and of the commit of all its members; then it is let go.
    """
    rows = []
    racks = [f"{node // NODES}" for node in range(NODE_COUNT)]
    specs = [
        NodeSpec(name=f"n{node}", total={"cpu": 1000}, labels={"rack": rack, "pod": f"{int(rack) // RACKS}"})
        for node, rack in enumerate(racks)
    ]
    pod, empty = SchedulingClass(requests=(("cpu", 1000),)), np.zeros(0, np.int32)
    for full_ratio in (0.5, 0.7, 0.9):
        for in_blocks in (False, True):
            ledger = NodeLedger(topology=["rack", "pod"])
            ledger.put_nodes(specs)
            session = SamplerSession(ledger, NodeSampler(ledger), rng)
            session.define([(1, pod)])
            open_ = free_nodes(rng, full_ratio, in_blocks=in_blocks)
            full = np.flatnonzero(~open_).astype(np.int32)
            taken = Placements(
                members=Members.of(full + 10_000, np.ones(full.size)),
                class_ids=np.ones(full.size, np.int32),
                node=np.arange(full.size, dtype=np.int32),
                nodes=tuple(f"n{node}" for node in full.tolist()),
            )
            session.take_placements(taken, is_last=True)
            place = np.array([int(name[1:]) for name in ledger.nodes.names])
            least_count, placed_count, times_s, classes = 0, 0, [], dict[tuple[int, ...], int]()
            for number in range(count):
                sizes = cut(rng, int(rng.choice(SIZES)), group_count)
                if sizes not in classes:
                    classes[sizes] = 2 + len(classes)
                    groups = [GangGroup(pod=pod, minimum=size, maximum=size, whole_nodes=True) for size in sizes]
                    session.define([(classes[sizes], SchedulingClass.of_gang(groups))])
                members = Members.of(np.full(sum(sizes), number + 1), np.ones(sum(sizes)), np.arange(sum(sizes)))
                began_s = time.process_time()
                session.sample(1, asked_for(np.array([classes[sizes]], np.int32), 1, ("cpu",)))
                reply = session.commit(
                    1,
                    CommitRequest(
                        members=members,
                        class_ids=np.full(sum(sizes), classes[sizes], np.int32),
                        offset=np.zeros(sum(sizes) + 1, np.int32),
                        candidate=empty,
                    ),
                )
                times_s.append(time.process_time() - began_s)
                if (reply.node >= 0).all():
                    placed_count += 1
                    parts = np.split(place[reply.node], np.cumsum(sizes)[:-1])
                    hops = max(topology.hops_between(part) for part in parts)
                    least_count += hops == max(least_hops(topology, open_, size) for size in sizes)
                    session.release(1, members)
            rows.append(
                {
                    "full_ratio": full_ratio,
                    "in_blocks": in_blocks,
                    "sub_groups": group_count,
                    "gangs": count,
                    "placed": placed_count,
                    "fewest_hops_ratio": round(least_count / max(placed_count, 1), 4),
                    "p50_ms": round(float(np.quantile(times_s, 0.5)) * 1000, 3),
                    "p99_ms": round(float(np.quantile(times_s, 0.99)) * 1000, 3),
                }
            )
    return rows


def asked_for(class_ids: np.ndarray, wanted: int, resources: tuple[str, ...]) -> SampleRequest:
    """Return a request about some classes."""
    return SampleRequest(
        class_ids=class_ids,
        wanted=np.full(class_ids.size, wanted, np.int32),
        complete=np.zeros(class_ids.size, np.int8),
        resources=resources,
        nodes_to_sample_ratio=0.04,
    )


def small_gangs(rng: np.random.Generator, *, gang_count: int = 3000, node_count: int = 5000) -> dict[str, Any]:
    """Place gangs of three pods on shared nodes of 32 cores, taking what each gets; return the time of one."""
    topology = Topology.of(node_count, [[f"{node // 25}" for node in range(node_count)]])
    free = np.full((2, node_count), 32_000, dtype=np.int64)
    free -= rng.integers(0, 24_000, (1, node_count))
    eligible = np.ones(node_count, dtype=bool)
    requests = rng.integers(1, 5, gang_count) * 1000
    placed, began_s = 0, time.perf_counter()
    for request in requests.tolist():
        group = SubGroup(request=np.array([request, request]), minimum=3, maximum=3, eligible=eligible)
        places = place_gang(topology, free, [group])
        if places is not None:
            placed += 1
            np.subtract.at(free, (slice(None), places.nodes[0]), group.request[:, None])
    taken_s = time.perf_counter() - began_s
    return {
        "gangs": gang_count,
        "nodes": node_count,
        "placed": placed,
        "ms_per_gang": round(taken_s / gang_count * 1000, 3),
    }


def in_a_session(rng: np.random.Generator, *, gang_count: int = 3000, node_count: int = 5000) -> dict[str, Any]:
    """Commit gangs of three through a sampler's session; return the processor time of one, that of a sample apart."""
    ledger, nothing = NodeLedger(topology=["rack"]), np.zeros(0, np.int32)
    ledger.put_nodes(
        [
            NodeSpec(
                name=f"n{node}",
                total={"cpu": 32_000 - int(used), "memory": 1 << 37},
                labels={"rack": f"{node // 25}"},
            )
            for node, used in enumerate(rng.integers(0, 24_000, node_count))
        ]
    )
    session = SamplerSession(ledger, NodeSampler(ledger), rng)
    session.define((cores, gang_of_three(cores)) for cores in range(1, 5))
    empty = Placements(members=Members.of([], []), class_ids=nothing, node=nothing, nodes=())
    session.take_placements(empty, is_last=True)
    class_ids = np.arange(1, 5, dtype=np.int32)
    began_s = time.process_time()
    session.sample(1, asked_for(class_ids, gang_count // 4, ("cpu", "memory")))
    sampled_s = time.process_time()
    reply = session.commit(
        1,
        CommitRequest(
            members=Members.of(
                np.repeat(np.arange(gang_count), 3), np.ones(3 * gang_count), np.tile(np.arange(3), gang_count)
            ),
            class_ids=np.repeat(rng.integers(1, 5, gang_count), 3).astype(np.int32),
            offset=np.zeros(3 * gang_count + 1, np.int32),
            candidate=nothing,
        ),
    )
    ended_s = time.process_time()
    return {
        "gangs": gang_count,
        "nodes": node_count,
        "placed": int((reply.node >= 0).sum()) // 3,
        "sample_ms": round((sampled_s - began_s) * 1000, 1),
        "ms_per_gang": round((ended_s - sampled_s) / gang_count * 1000, 3),
    }


def in_a_round(*, gang_count: int = 3000, node_count: int = 5000) -> dict[str, Any]:
    """Have a leader place gangs of three of one class; return the processor time of one in a whole round."""
    world = LeaderWorld(clusters={"a": node_count}, node_amounts={"cpu": 32_000, "memory": 1 << 37})
    world.job_index.definitions[2] = gang_of_three(4).definition()
    world.submit(gang_count, class_id=2)
    began_s = time.process_time()
    plan = world.plan()
    taken_s = time.process_time() - began_s
    leased = int(np.unique(plan.handle).size)
    return {"gangs": gang_count, "leased": leased, "ms_per_gang": round(taken_s / max(leased, 1) * 1000, 3)}


def gang_of_three(cores: int) -> SchedulingClass:
    """Return the class of three pods of some cores."""
    pod = SchedulingClass(requests=(("cpu", 1000 * cores), ("memory", 1 << 30)))
    return SchedulingClass.of_gang([GangGroup(pod=pod, minimum=3, maximum=3)])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gangs", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    rng = np.random.default_rng(chosen.seed)
    topology = fat_tree()
    document = {
        "benchmark": "gangs",
        "nodes": NODE_COUNT,
        "fat_tree": [row for count in (1, 3) for row in measure(topology, rng, chosen.gangs, group_count=count)],
        "fat_tree_through_sampler": [
            row for count in (1, 3) for row in through_sampler(topology, rng, chosen.gangs, count)
        ],
        "shared_nodes": small_gangs(rng),
        "sampler_session": in_a_session(rng),
        "whole_round": in_a_round(),
    }
    sys.stdout.write(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
