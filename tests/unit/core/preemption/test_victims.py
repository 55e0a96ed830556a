"""Whom to preempt: only from queues that stay at their shares, least lost work first, and never in turn."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from argosy_core.preemption import Candidates, Excess, Victims, choose_victims, choose_victims_of_nodes

ONE_CORE = np.array([1000], dtype=np.int64)


def running(*rows: tuple[int, int, int, float]) -> Candidates:
    """Return runs of (queue, node, cores, seconds run), numbered from 0."""
    queue, node, cores, elapsed_s = (np.array(column) for column in zip(*rows, strict=True))
    return Candidates(
        run=np.arange(len(rows), dtype=np.int32),
        queue=queue.astype(np.int32),
        node=node.astype(np.int64),
        amounts=(cores * 1000).astype(np.int64)[:, None],
        cores=cores.astype(np.float64),
        elapsed_s=elapsed_s.astype(np.float64),
    )


def excess(*flow: float, capacity: float = 8.0) -> Excess:
    """Return the excess of queues of equal weight that all have work."""
    count = len(flow)
    every = np.ones(count, dtype=np.bool_)
    return Excess(np.array(flow), np.array(flow), weight=np.ones(count), has_work=every, capacity_cores=capacity)


def test_least_lost_work_per_core_is_taken_first_and_no_more_than_is_needed() -> None:
    """The youngest of the queue over its share goes; on another node more would be lost."""
    found = choose_victims(ONE_CORE, 0, running((1, 0, 1, 90.0), (1, 0, 1, 20.0), (1, 1, 1, 30.0)), excess(0.0, 8.0))
    assert found == Victims(0, (1,), 20.0)


def test_large_job_gets_several_victims_of_one_node_and_those_that_become_needless_are_let_go() -> None:
    """Three cores are wanted: one of three is enough, although two smaller ones come first, or may not all go."""
    candidates = running((1, 0, 1, 10.0), (1, 0, 1, 11.0), (1, 0, 3, 12.0))
    for flow in (12.0, 8.0):
        assert choose_victims(3 * ONE_CORE, 0, candidates, excess(0.0, flow)) == Victims(0, (2,), 36.0)
    assert choose_victims(2 * ONE_CORE, 0, candidates, excess(0.0, 8.0)) == Victims(0, (0, 1), 21.0)


@pytest.mark.parametrize(
    ("flow", "why"),
    [
        pytest.param((3.5, 8.0), "its queue would be over its share", id="gainer-at-its-share"),
        pytest.param((0.0, 4.5), "the other would be under its share", id="loser-at-its-share"),
    ],
)
def test_nobody_is_preempted_when_somebody_would_cross_a_share(flow: tuple[float, float], why: str) -> None:
    """Of eight cores each has a share of four."""
    shares = excess(*flow)
    may = shares.may_gain(0, 1.0) and choose_victims(ONE_CORE, 0, running((1, 0, 1, 5.0)), shares) is not None
    assert not may, why


def test_runs_of_the_own_queue_and_of_queues_under_their_share_are_no_victims() -> None:
    """However long they run."""
    candidates = running((0, 0, 1, 99.0), (2, 0, 1, 99.0))
    assert choose_victims(ONE_CORE, 0, candidates, excess(9.0, 9.0, 1.0, capacity=12.0)) is None


def test_queue_without_work_has_no_share() -> None:
    """What it could have is the others'."""
    busy = np.array([True, True, False])
    flow = np.array([2.0, 6.0, 0.0])
    shares = Excess(flow, flow, weight=np.ones(3), has_work=busy, capacity_cores=8.0)
    assert shares.may_gain(0, 2.0)
    assert not shares.may_gain(0, 2.5)
    assert shares.over() == pytest.approx([0.0, 2.0, 0.0], abs=1e-3)


def test_queue_that_held_more_a_moment_ago_gains_nothing_and_one_that_held_less_loses_nothing() -> None:
    """Gaining goes by flow, which remembers; losing by usage, so that nobody falls below the share for the past."""
    shares = Excess(
        np.array([4.5, 9.0]), np.array([1.0, 4.0]), weight=np.ones(2), has_work=np.ones(2, np.bool_), capacity_cores=8.0
    )
    assert not shares.may_gain(0, 1.0)
    assert shares.over() == pytest.approx([0.0, 0.0], abs=1e-3)


def test_share_that_is_met_exactly_is_met_whatever_sums_are_rounded() -> None:
    """Eight jobs of a little more than a core each: the fourth of a queue that has three is within its share."""
    flow = np.array([3 * 1.000244, 5 * 1.000244])
    shares = excess(*flow, capacity=8 * 1.000244)
    assert shares.may_gain(0, 1.000244)
    assert shares.over()[1] >= 1.000244


def _fight(seed: int) -> list[tuple[int, int, int]]:
    """Return (step, winner, loser) of each preemption among queues that always want more, on slots of one core."""
    rng = np.random.default_rng(seed)
    queues, slots = int(rng.integers(2, 6)), int(rng.integers(4, 40))
    weight = rng.integers(1, 6, queues).astype(np.float64)
    owner = np.where(rng.random(slots) < 0.7, rng.integers(0, queues), -1)
    began, flow, told = np.zeros(slots), np.zeros(queues), []
    busy = np.ones(queues, dtype=np.bool_)
    for step in range(120):
        usage = np.bincount(owner[owner >= 0], minlength=queues).astype(np.float64)
        flow = usage + np.maximum(flow - usage, 0.0) * 0.7
        for slot in np.flatnonzero(owner < 0).tolist():  # filling: the smallest flow by weight
            owner[slot] = int(np.argmin((flow + 1.0) / weight))
            flow[owner[slot]] += 1.0
            began[slot] = step
        usage = np.bincount(owner[owner >= 0], minlength=queues).astype(np.float64)
        shares = Excess(flow.copy(), usage, weight=weight, has_work=busy, capacity_cores=float(slots))
        for queue in rng.permutation(queues).tolist():
            if not shares.may_gain(queue, 1.0):
                continue
            candidates = running(*((int(owner[slot]), slot, 1, step - began[slot]) for slot in range(slots)))
            found = choose_victims(ONE_CORE, queue, candidates, shares)
            if found is not None:
                (run,) = found.runs
                told.append((step, queue, int(owner[run])))
                shares.note(int(owner[run]), -1.0)
                shares.note(queue, 1.0)
                flow[queue] += 1.0
                owner[run], began[run] = queue, step
        if rng.random() < 0.02:  # a job ends now and then
            owner[rng.integers(0, slots)] = -1
    return told


@pytest.mark.parametrize("seed", range(25))
def test_two_queues_never_evict_each_other_in_turn(seed: int) -> None:
    """With all work preemptible at once and everybody wanting more, nobody strikes back."""
    told = _fight(seed)
    pairs = {(winner, loser) for _, winner, loser in told}
    assert not {(loser, winner) for winner, loser in pairs} & pairs
    assert all(before <= after for (before, _, _), (after, _, _) in pairwise(told))


def test_fights_do_preempt() -> None:
    """What never preempts proves nothing."""
    assert sum(len(_fight(seed)) for seed in range(25)) > 50


def test_victims_of_several_nodes_go_whole_and_least_lost_work_first() -> None:
    """What is missing comes back on every node; the run on both nodes is one, and needless ones are let go."""
    candidates = running((1, 0, 2, 30.0), (1, 1, 2, 20.0), (1, 0, 2, 10.0), (1, 0, 2, 10.0))
    candidates.run[3] = 2
    candidates.node[3] = 1
    missing = np.array([[2000], [2000]], dtype=np.int64)
    found = choose_victims_of_nodes(missing, 0, candidates, excess(0.0, 16.0, capacity=16.0))
    assert found == ((2,), 20.0)
    assert missing.tolist() == [[2000], [2000]]
    alone = candidates.only(candidates.run != 2)
    assert choose_victims_of_nodes(missing, 0, alone, excess(0.0, 16.0, capacity=16.0)) == ((1, 0), 100.0)


def test_victims_of_several_nodes_leave_their_queues_their_shares() -> None:
    """Of eight cores each has four: of six two may go, and no more; none of the own queue's."""
    candidates = running((1, 0, 2, 1.0), (1, 1, 2, 1.0), (0, 1, 2, 1.0))
    shares = excess(0.0, 6.0)
    one, both = np.array([[2000], [0]], dtype=np.int64), np.array([[2000], [2000]], dtype=np.int64)
    assert choose_victims_of_nodes(one, 0, candidates, shares) == ((0,), 2.0)
    assert choose_victims_of_nodes(both, 0, candidates, shares) is None
