"""Filling below a tree of queues, against the plain rule at each level."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy_core.queueing import MICRO, Filled, FillingLimits, FillingQueues, fill, walk
from argosy_core.scheduler.memory.branches import Branches


@dataclass
class Node:
    """A queue of the plain rule: its own jobs stand among the queues below it as a child of weight 1."""

    weight: float
    flow: float = 0.0
    usage: int = 0
    children: list[Node] = field(default_factory=list)
    jobs: list[int] = field(default_factory=list)
    rank: tuple[float, int] = (0.0, 0)

    def has_work(self) -> bool:
        """Tell whether a job is left here or below."""
        return bool(self.jobs) or any(child.has_work() for child in self.children)


class World:
    """A tree drawn at random, as columns and as nodes."""

    def __init__(self, draw: Callable[[st.SearchStrategy], object], *, largest: int = 4) -> None:  # type: ignore[type-arg]
        """Draw up to eight queues with jobs of one class."""
        count = draw(st.integers(2, 8))
        above = [draw(st.integers(-1, index - 1)) for index in range(count)]
        self.count = count
        self.weight = np.array([draw(st.sampled_from([0.5, 1.0, 2.0, 3.0])) for _ in range(count)])
        self.flow = np.array([draw(st.sampled_from([0.0, 1.0, 5.0])) for _ in range(count)])
        self.sizes = [[draw(st.integers(1, largest)) for _ in range(draw(st.integers(0, 6)))] for _ in range(count)]
        self.branches = Branches()
        self.branches.parents = {index: f"q{up}" for index, up in enumerate(above) if up >= 0}
        self.branches.arrange({index: f"q{index}" for index in range(count)}, self.flow)
        self.above = above
        self.slots = [np.arange(len(jobs), dtype=np.int32) + 100 * index for index, jobs in enumerate(self.sizes)]

    def size(self, slots: np.ndarray) -> np.ndarray:
        """Return the usage of jobs."""
        return np.array([self.sizes[slot // 100][slot % 100] * MICRO for slot in slots.tolist()], dtype=np.int64)

    def queues(self) -> FillingQueues:
        """Return the columns that filling takes."""
        rows = np.array([index for index in range(self.count) if self.sizes[index]], dtype=np.int64)
        usage, slots = np.zeros(self.count, dtype=np.int64), [self.slots[row] for row in rows.tolist()]
        ids = np.arange(1, self.count + 1, dtype=np.int64)
        return FillingQueues(
            queue_id=ids[rows],
            weight=self.weight[rows],
            flow=self.flow[rows],
            usage=usage[rows],
            least_usage=0,
            heads=lambda positions, count: [(slots[at][:count], count >= slots[at].size) for at in positions],
            job_usage=self.size,
            job_class=lambda jobs: np.zeros(jobs.size, dtype=np.int32),
            tree=self.branches.tree(rows, queue_id=ids, weight=self.weight, flow=self.flow, usage=usage),
        )

    def jobs(self) -> Filled:
        """Return all jobs, each of its own class, queue by queue."""
        parts = [part for part in self.slots if part.size]
        slots = np.concatenate([np.zeros(0, np.int32), *parts])
        rows = np.repeat(np.arange(len(parts)), [part.size for part in parts])
        return Filled(slots=slots, rows=rows, usage=self.size(slots), classes=slots.copy())

    def plain(self, fits: Callable[[int], bool]) -> list[int]:
        """Return the jobs in the order in which the plain rule places them."""
        nodes = [Node(weight=float(weight)) for weight in self.weight]
        roots = []
        for index, node in enumerate(nodes):
            own = Node(weight=float(self.weight[index]), flow=float(self.flow[index]), jobs=self.slots[index].tolist())
            own.rank = (own.flow / own.weight, index + 1)
            if index in self.above:
                own.weight, own.rank = 1.0, (own.flow, index + 1)
                node.flow = float(self.branches.flow[index])
                node.rank = (node.flow / node.weight, index + 1)
                node.children.append(own)
            else:
                nodes[index] = own
        for index, up in enumerate(self.above):
            (nodes[up].children if up >= 0 else roots).append(nodes[index])
        placed: list[int] = []
        while any(root.has_work() for root in roots):
            path = _next(roots)
            slot = path[-1].jobs.pop(0)
            if fits(slot):
                placed.append(slot)
                for node in path:
                    node.usage += self.sizes[slot // 100][slot % 100]
        return placed

    def job_size(self, node: Node) -> int:
        """Return the size of a leaf's next job."""
        return self.sizes[node.jobs[0] // 100][node.jobs[0] % 100]


_WORLD: list[World] = []


def _next(siblings: list[Node]) -> list[Node]:
    """Return the path down to the queue whose turn it is."""
    best: tuple[tuple[float, float, int], list[Node]] | None = None
    for node in siblings:
        if not node.has_work():
            continue
        path = [node, *(_next(node.children) if node.children else [])]
        key = max(node.flow, node.usage + _WORLD[-1].job_size(path[-1])) / node.weight
        if best is None or (key, *node.rank) < best[0]:
            best = ((key, *node.rank), path)
    assert best is not None
    return best[1]


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_filling_below_a_tree_is_the_plain_rule_at_each_level(data: st.DataObject) -> None:
    """Merged level by level, the same jobs in the same order as one decision after the other."""
    world = World(data.draw)
    _WORLD[:] = [world]
    total = sum(map(len, world.sizes))
    if not total or world.queues().tree is None:
        return
    none = np.zeros(1, dtype=np.int64)
    limits = FillingLimits(
        usage_limit=1 << 60,
        min_count=0,
        max_count=total,
        room=none + total,
        waiting=none + total,
        counted=np.ones(1, dtype=np.bool_),
    )
    assert fill(world.queues(), limits).slots.tolist() == world.plain(lambda _: True)


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_walking_below_a_tree_is_the_plain_rule_where_jobs_find_no_place(data: st.DataObject) -> None:
    """A job that finds none raises nothing, here and above."""
    world = World(data.draw)
    _WORLD[:] = [world]
    jobs = world.jobs()
    if not jobs.slots.size or world.queues().tree is None:
        return
    refused = set(data.draw(st.lists(st.sampled_from(jobs.slots.tolist()), unique=True)))
    queues = world.queues()
    placed = walk(queues, jobs, lambda job, _: int(jobs.slots[job]) not in refused)
    assert jobs.slots[placed].tolist() == world.plain(lambda slot: slot not in refused)


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_usage_below_a_tree_is_within_one_largest_job_per_level_of_weighted_max_min(data: st.DataObject) -> None:
    """From an idle pool, with more demand than there is, no branch lacks more of its share than that."""
    largest = 3
    world = World(data.draw, largest=largest)
    world.flow[:] = 0.0
    world.branches.flow[:] = 0.0
    _WORLD[:] = [world]
    capacity = data.draw(st.integers(5, 30))
    world.sizes = [[data.draw(st.integers(1, largest))] * 60 for _ in range(world.count)]
    world.slots = [np.arange(60, dtype=np.int32) + 100 * index for index in range(world.count)]
    queues, jobs = world.queues(), world.jobs()
    if queues.tree is None:
        return
    left = [capacity * MICRO]

    def place(job: int, _: int) -> bool:
        if jobs.usage[job] > left[0]:
            left[0] = 0
            return False
        left[0] -= int(jobs.usage[job])
        return True

    placed = walk(queues, jobs, place)
    held = np.bincount(jobs.slots[placed] // 100, jobs.usage[placed] / MICRO, minlength=world.count)
    branch = world.branches.sum_below(held)
    parents = world.branches.is_parent()

    def check(up: int, exact: float, levels: int) -> None:
        children = [index for index in range(world.count) if world.branches.above[index] == up]
        weight = world.weight[children].sum() + (1.0 if up >= 0 else 0.0)
        for child in children:
            share = exact * world.weight[child] / weight
            assert share - branch[child] <= largest * levels + 1e-9
            if parents[child]:
                check(child, share, levels + 1)

    check(-1, float(held.sum()), 1)
