"""Measures the scheduling core alone: sampling, decision, commit and the ledger, without network or storage.

Whole rounds are played by one leader and several clusters in one process: sample every class at a third of the clusters
(Cp = 33 %, Np = 4 %), decide, commit with three candidates, until all pods are placed or nothing fits any more. Times
are of the processor, so that other processes do not disturb them.

Source: design section 8, "Cost".
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import ceil

import numpy as np
import numpy.typing as npt

from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger, PodEvents
from argosy_core.nodes import NodeSpec
from argosy_core.placement import CandidatePool, NodeSampler, SampleRequest, commit, decide

__all__ = ["run"]

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

_CORES_PER_NODE = 32
_MEMORY_PER_NODE = 128 << 30
_NODES_PER_CLUSTER = 3125
_CANDIDATES = 3
_CLUSTERS_TO_SAMPLE = 0.33
_NODES_TO_SAMPLE = 0.04
_PODS_PER_ROUND = 2000
_WAITING = 1000
_MAX_IN_VAIN = 20


@dataclass(slots=True)
class _Spent:
    """Seconds and items per phase."""

    seconds: dict[str, float] = field(default_factory=dict)
    """Seconds by phase."""
    items: dict[str, int] = field(default_factory=dict)
    """Classes or runs by phase."""

    @contextmanager
    def on(self, phase: str, items: int) -> Iterator[None]:
        """Add the time of the block to a phase."""
        begin = time.process_time()
        yield
        self.seconds[phase] = self.seconds.get(phase, 0.0) + time.process_time() - begin
        self.items[phase] = self.items.get(phase, 0) + items

    def us(self, phase: str) -> float:
        """Return microseconds per item of a phase."""
        return round(1e6 * self.seconds.get(phase, 0.0) / max(1, self.items.get(phase, 0)), 2)


@dataclass(slots=True)
class _World:
    """Clusters of one pool, and the state of the benchmark."""

    ledgers: list[NodeLedger]
    """One per cluster."""
    samplers: list[NodeSampler]
    """One per cluster."""
    requests: Int64s
    """(classes, 3) cpu, memory, pods."""
    rng: np.random.Generator
    """All randomness."""
    spent: _Spent = field(default_factory=_Spent)
    """What the phases cost."""
    next_handle: int = 1
    """Next run."""

    def play_round(self, class_ids: Int32s) -> tuple[Int32s, Int32s, Int64s]:
        """Sample, decide and commit runs of the given classes.

        Returns:
            Cluster and node of each run, -1 where it was not placed; its handle.
        """
        classes, wanted = np.unique(class_ids, return_counts=True)
        pool = CandidatePool(classes.astype(np.int32), self.requests[classes])
        asked = ceil(_CLUSTERS_TO_SAMPLE * len(self.samplers))
        drawn = self.rng.random((len(classes), len(self.samplers))).argsort(axis=1) < asked
        for cluster, sampler in enumerate(self.samplers):
            mine = np.flatnonzero(drawn[:, cluster])
            request = SampleRequest(
                class_ids=classes[mine].astype(np.int32),
                wanted=wanted[mine].astype(np.int32),
                complete=np.zeros(len(mine), np.int8),
                resources=("cpu", "memory", "pods"),
                nodes_to_sample_ratio=_NODES_TO_SAMPLE,
            )
            with self.spent.on("sample", len(mine)):
                reply = sampler.sample(request, self.rng)
            with self.spent.on("decide", 0):
                pool.add(cluster, request.class_ids, reply)
        with self.spent.on("decide", len(class_ids)):
            decision = decide(pool, class_ids, _CANDIDATES, self.rng)
        handles = np.arange(self.next_handle, self.next_handle + len(class_ids), dtype=np.int64)
        self.next_handle += len(class_ids)
        clusters = np.full(len(class_ids), -1, np.int32)
        nodes = np.full(len(class_ids), -1, np.int32)
        has = np.diff(decision.offset) > 0
        first = np.full(len(class_ids), -1, np.int32)
        first[has] = decision.cluster[decision.offset[:-1][has]]
        run_of = np.repeat(np.arange(len(class_ids)), np.diff(decision.offset))
        for cluster, ledger in enumerate(self.ledgers):
            mine = np.flatnonzero(first == cluster)
            if not len(mine):
                continue
            # Candidates in other clusters would be later stages; with one leader nothing conflicts.
            chosen = (first[run_of] == cluster) & (decision.cluster == cluster)
            offsets = np.concatenate(([0], np.cumsum(np.bincount(run_of[chosen], minlength=len(class_ids))[mine])))
            with self.spent.on("commit", len(mine)):
                placed, _ = commit(
                    ledger,
                    Members.of(handles[mine], np.ones(len(mine), np.int32)),
                    class_ids=class_ids[mine],
                    offsets=offsets.astype(np.int32),
                    candidates=decision.node[chosen],
                )
            clusters[mine[placed >= 0]] = cluster
            nodes[mine] = placed
        return clusters, nodes, handles


def run(nodes: int = 10_000, pods: int = 20_000, *, seed: int = 0) -> dict[str, dict[str, float]]:
    """Measure placements of identical and of all-different pods, filling an empty pool and on a full one.

    Args:
        nodes: Nodes of the pool, in clusters of at most 3,125.
        pods: Pods to place.
        seed: Seed of all randomness.

    Returns:
        By case: placements per second, and microseconds per class (`sample_us`, per cluster and class) or run
        (`decide_us`, `commit_us`, and for the ledger `observe_us`, `end_us`). On a full pool 1,000 pods wait and at
        most 100 end between rounds of `round_ms`.
    """
    return {
        "identical": _measure_filling(nodes, pods, class_count=1, seed=seed),
        "all-different": _measure_filling(nodes, pods, class_count=pods, seed=seed),
        "identical, full": _measure_full(nodes, pods, class_count=1, seed=seed),
        "all-different, full": _measure_full(nodes, pods, class_count=_WAITING, seed=seed),
        "ledger": _measure_ledger(min(nodes, _NODES_PER_CLUSTER), pods),
    }


def _build(nodes: int, requests: Int64s, seed: int) -> _World:
    """Return a pool of empty clusters in which all classes are defined."""
    cluster_count = -(-nodes // _NODES_PER_CLUSTER)
    ledgers = [NodeLedger() for _ in range(cluster_count)]
    total = {"cpu": _CORES_PER_NODE * 1000, "memory": _MEMORY_PER_NODE, "pods": 110}
    for cluster, ledger in enumerate(ledgers):
        ledger.put_nodes([NodeSpec(name=f"n{index}", total=total) for index in range(cluster, nodes, cluster_count)])
    for class_id, (cpu, memory, _) in enumerate(requests.tolist()):
        definition = SchedulingClass(requests=(("cpu", cpu), ("memory", memory)))
        for ledger in ledgers:
            ledger.define_class(class_id, definition)
    samplers = [NodeSampler(ledger) for ledger in ledgers]
    return _World(ledgers=ledgers, samplers=samplers, requests=requests, rng=np.random.default_rng(seed))


def _requests(class_count: int, cores: int = 1) -> Int64s:
    """Return distinct requests of about the given cores and 2 GiB."""
    number = np.arange(class_count, dtype=np.int64)
    return np.stack([1000 * cores - number % 500, (2 << 30) + (number << 12), np.ones_like(number)], axis=1)


def _measure_filling(nodes: int, pods: int, *, class_count: int, seed: int) -> dict[str, float]:
    """Place pods on an empty pool."""
    world = _build(nodes, _requests(class_count), seed)
    class_ids = (np.arange(pods) % class_count).astype(np.int32)
    placed, begin = 0, time.process_time()
    for start in range(0, pods, _PODS_PER_ROUND):
        clusters, _, _ = world.play_round(class_ids[start : start + _PODS_PER_ROUND])
        placed += int(np.count_nonzero(clusters >= 0))
    seconds = time.process_time() - begin
    spent = world.spent
    return {
        "placed": placed,
        "placements_per_s": round(placed / seconds),
        "sample_us": spent.us("sample"),
        "decide_us": spent.us("decide"),
        "commit_us": spent.us("commit"),
    }


def _measure_full(nodes: int, pods: int, *, class_count: int, seed: int) -> dict[str, float]:
    """Keep a full pool full: 1,000 pods wait, a few others end between rounds, and their room is taken again."""
    rounds, ending = 10, max(1, min(pods, 2000) // 20)
    world = _build(nodes, _requests(class_count, cores=20), seed)
    order = (np.arange(_WAITING) % class_count).astype(np.int32)
    live: list[list[int]] = [[] for _ in world.ledgers]

    def place(class_ids: Int32s) -> int:
        clusters, _, handles = world.play_round(class_ids)
        for cluster, mine in enumerate(live):
            mine.extend(handles[clusters == cluster].tolist())
        return int(np.count_nonzero(clusters >= 0))

    # A node has room for one such pod; a round sees a part of the pool only, so that one in vain is not the end.
    in_vain = 0
    while sum(map(len, live)) < nodes and in_vain < _MAX_IN_VAIN:
        in_vain = 0 if place(np.tile(order, 4)) else in_vain + 1
    placed, world.spent, begin = 0, _Spent(), time.process_time()
    for _ in range(rounds):
        for ledger, mine in zip(world.ledgers, live, strict=True):
            count = max(1, ending // len(world.ledgers))
            ledger.release(Members.of(mine[-count:], np.ones(len(mine[-count:]))))
            del mine[-count:]
        placed += place(order)
    seconds = time.process_time() - begin
    return {
        "placed": placed,
        "placements_per_s": round(placed / seconds),
        "round_ms": round(1e3 * seconds / rounds, 2),
        "sample_us": world.spent.us("sample"),
        "decide_us": world.spent.us("decide"),
        "commit_us": world.spent.us("commit"),
    }


def _measure_ledger(nodes: int, pods: int) -> dict[str, float]:
    """Observe, end and release pods that were placed, in batches of a round's size."""
    world = _build(nodes, _requests(1), 0)
    ledger, spent = world.ledgers[0], _Spent()
    generator = np.random.default_rng(1)
    for start in range(0, pods, _PODS_PER_ROUND):
        count = min(_PODS_PER_ROUND, pods - start)
        keys = Members.of(np.arange(start + 1, start + 1 + count), np.ones(count, np.int32))
        rows = generator.integers(0, len(ledger.nodes), count).astype(np.int32)
        with spent.on("commit", count):
            placed, _ = commit(
                ledger,
                keys,
                class_ids=np.zeros(count, np.int32),
                offsets=np.arange(count + 1, dtype=np.int32),
                candidates=rows,
            )
        uids = generator.integers(0, 255, (count, 16), dtype=np.uint8)
        requests = np.repeat(world.requests, count, axis=0)
        for phase, ended in (("observe", False), ("end", True)):
            events = PodEvents(
                members=keys, uids=uids, nodes=rows, ended=np.full(count, ended) | (placed < 0), requests=requests
            )
            with spent.on(phase, count):
                ledger.observe(events)
        with spent.on("release", count):
            ledger.release(keys)
    return {f"{phase}_us": spent.us(phase) for phase in ("commit", "observe", "end", "release")}
