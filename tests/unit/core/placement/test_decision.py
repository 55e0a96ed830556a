"""The decision phase: in order over all candidates, deducting as it goes."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from argosy_core.errors import InvalidRequest
from argosy_core.framework import DECISION, CandidateCycle, Entries, Framework, NotNow, Point, Registration
from argosy_core.job.reading.classes import HostPort, SchedulingClass
from argosy_core.placement import CandidatePool, Decider, Decision, DecisionProfile, decide
from argosy_core.plugins import decision_framework
from argosy_core.plugins.scores import spread_over_clusters

PACK = DecisionProfile(spread=False)


@dataclass
class Reply:
    """A sampler's answer, written by hand."""

    node: np.ndarray
    free: np.ndarray
    offset: np.ndarray
    candidate: np.ndarray
    score: np.ndarray
    total_free: np.ndarray


def answer(free: dict[int, int], *classes: list[tuple[int, float]], total: int = 0) -> Reply:
    """Free cores by node, and per class its candidates as (node, score)."""
    nodes = list(free)
    flat = [pair for pairs in classes for pair in pairs]
    return Reply(
        node=np.array(nodes, np.int32),
        free=np.array([[cores, 100] for cores in free.values()], np.int64).reshape(len(nodes), 2),
        offset=np.cumsum([0, *(len(pairs) for pairs in classes)]).astype(np.int32),
        candidate=np.array([nodes.index(node) for node, _ in flat], np.int32),
        score=np.array([score for _, score in flat], np.float32),
        total_free=np.array([total, 0], np.int64),
    )


def pool_of(
    requests: list[int],
    *answers: tuple[int, list[int], Reply],
    profile: DecisionProfile | None = None,
    ports: dict[int, tuple[HostPort, ...]] | None = None,
) -> CandidatePool:
    """A pool of classes 0, 1, ... that ask for cores, from (cluster, classes asked, answer)."""
    pool = CandidatePool(
        np.arange(len(requests), dtype=np.int32),
        np.array([[cores, 1] for cores in requests], np.int64),
        profile,
        ports=ports,
    )
    for cluster, class_ids, reply in answers:
        pool.add(cluster, np.array(class_ids, np.int32), reply)
    return pool


def chosen(decision: Decision) -> list[list[tuple[int, int]]]:
    """Per run its candidates as (cluster, node)."""
    pairs = list(zip(decision.cluster.tolist(), decision.node.tolist(), strict=True))
    return [pairs[begin:end] for begin, end in zip(decision.offset[:-1], decision.offset[1:], strict=True)]


def policy(point: Point, function: Callable[[CandidateCycle], object]) -> DecisionProfile:
    """A profile with one global function."""
    return DecisionProfile(framework=Framework([Registration(point=point, name="policy", function=function)], DECISION))


def run(pool: CandidatePool, *class_ids: int, m: int = 3, seed: int = 0) -> list[list[tuple[int, int]]]:
    """Decide runs of some classes."""
    return chosen(decide(pool, np.array(class_ids, np.int32), m, np.random.default_rng(seed)))


@pytest.mark.parametrize(("devices", "nodes"), [((), [7, 8, 7, 8]), ((0,), [7, 7, 7, 7])])
def test_runs_that_ask_for_devices_fill_the_best_node_first(devices: tuple[int, ...], nodes: list[int]) -> None:
    """Others fall back by what a node was given: 100 points less a quarter are fewer than 90."""
    pool = CandidatePool(np.zeros(1, np.int32), np.array([[1, 1]], np.int64), devices=devices)
    pool.add(0, np.zeros(1, np.int32), answer({7: 4, 8: 4}, [(7, 100.0), (8, 90.0)]))
    assert [one[0][1] for one in run(pool, 0, 0, 0, 0, m=1)] == nodes


def test_best_candidate_over_all_clusters_comes_first_and_the_others_from_its_cluster() -> None:
    """As many as m; who loses the first finds another in the same commit."""
    pool = pool_of(
        [1],
        (0, [0], answer({5: 9, 6: 9, 7: 9}, [(5, 30), (6, 90), (7, 10)])),
        (3, [0], answer({5: 9}, [(5, 50)])),
    )
    assert run(pool, 0) == [[(0, 6), (0, 5), (0, 7)]]


def test_further_candidates_are_nobodys_first_choice_and_each_is_one_runs_alone() -> None:
    """Else who loses its node takes another's, who takes the next one's, and so on."""
    nodes = dict.fromkeys(range(12), 1)
    pool = pool_of([1], (0, [0], answer(nodes, [(node, 99 - node) for node in nodes])))
    candidates = run(pool, *[0] * 4)
    assert [one[0][1] for one in candidates] == [0, 1, 2, 3]
    others = [node for one in candidates for _, node in one[1:]]
    assert sorted(others) == list(range(4, 12))
    assert all(one[1:] == sorted(one[1:]) for one in candidates)


@pytest.mark.parametrize("seed", range(8))
def test_further_candidates_of_two_classes_are_different_nodes_while_there_are_enough(seed: int) -> None:
    """Room that one run's further candidate stands for is not there for another's, of whatever class."""
    offered = [(node, 99 - node) for node in range(4)]
    pool = pool_of([1, 1], (0, [0, 1], answer(dict.fromkeys(range(4), 1), offered, offered)))
    first, second = run(pool, 0, 1, m=2, seed=seed)
    assert sorted(node for _, node in first + second) == [0, 1, 2, 3]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("node_count", "run_count"), [(13, 4), (40, 4), (40, 12)])
@pytest.mark.parametrize("room", [2, 9])
def test_among_many_a_further_candidate_is_one_runs_alone_and_of_its_cluster(
    room: int, node_count: int, run_count: int, seed: int
) -> None:
    """Whatever room it has; each of two clusters has enough for two more for each run."""
    nodes = dict.fromkeys(range(node_count), room)
    offered = [(node, 99 - node) for node in nodes]
    pool = pool_of([1], (0, [0], answer(nodes, offered)), (1, [0], answer(nodes, offered)))
    candidates = run(pool, *[0] * run_count, seed=seed)
    assert all(len(one) == 3 for one in candidates)
    others = [entry for one in candidates for entry in one[1:]]
    assert len(set(others)) == len(others) == 2 * run_count
    assert all(cluster == one[0][0] for one in candidates for cluster, _ in one[1:])
    assert all(one[1:] == sorted(one[1:]) for one in candidates), "best first"


def test_a_runs_first_choice_stays_there_as_a_further_candidate_of_others() -> None:
    """Ten nodes with room for all, each the first of one run: at most the last run finds but its own left."""
    nodes = dict.fromkeys(range(10), 9)
    for seed in range(30):
        pool = pool_of([1], (0, [0], answer(nodes, [(node, 50) for node in nodes])))
        candidates = run(pool, *[0] * 10, m=2, seed=seed)
        assert len({one[0] for one in candidates}) == 10
        assert len({one[1] for one in candidates}) >= 9


@pytest.mark.parametrize("seed", range(4))
def test_further_candidates_of_many_runs_are_shared_once_each_node_is_some_runs(seed: int) -> None:
    """Twelve nodes with room for all: the first six runs have them alone, and nobody goes without."""
    nodes = dict.fromkeys(range(12), 60)
    pool = pool_of([1], (0, [0], answer(nodes, [(node, 99 - node) for node in nodes])))
    candidates = run(pool, *[0] * 20, seed=seed)
    assert all(len({node for _, node in one}) == 3 for one in candidates)
    counts = np.bincount([node for one in candidates for _, node in one[1:]], minlength=12)
    assert counts.min() >= 1


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("m", [2, 3, 5])
def test_candidates_that_hundreds_of_runs_share_are_given_in_turn(seed: int, m: int) -> None:
    """Each run has m nodes, best first behind its own, and every node serves about as many runs as another."""
    nodes = dict.fromkeys(range(12), 60)
    pool = pool_of([1], (0, [0], answer(nodes, [(node, 99 - node) for node in nodes])))
    candidates = [[node for _, node in one] for one in run(pool, *[0] * 300, m=m, seed=seed)]
    assert all(len(set(one)) == m and one[1:] == sorted(one[1:]) for one in candidates)
    counts = np.bincount([node for one in candidates for node in one[1:]], minlength=12)
    assert counts.max() <= 1.5 * counts.min()


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("run_count", [4, 5])
def test_few_nodes_of_a_cluster_are_one_runs_alone_beside_many_of_another(run_count: int, seed: int) -> None:
    """All first choices are the best node; the five others of its cluster, among sixty-six, go to one run each."""
    few, many = dict.fromkeys(range(6), 60), dict.fromkeys(range(60), 60)
    pool = pool_of(
        [1],
        (0, [0], answer(few, [(node, 999 - node) for node in few])),
        (1, [0], answer(many, [(node, 99 - node) for node in many])),
        profile=PACK,
    )
    candidates = run(pool, *[0] * run_count, m=2, seed=seed)
    assert [one[0] for one in candidates] == [(0, 0)] * run_count
    assert {cluster for cluster, _ in (one[1] for one in candidates)} == {0}
    assert len({one[1] for one in candidates} - {(0, 0)}) == run_count


def test_what_another_class_was_given_is_a_further_candidate_of_those_that_have_no_other() -> None:
    """All classes look at the room that first choices left, before any of them is given some."""
    pool = pool_of([1, 1], (0, [0, 1], answer({1: 1, 2: 1, 3: 1}, [(1, 90), (3, 10)], [(2, 90), (3, 10)])))
    assert run(pool, 0, 1, m=2) == [[(0, 1), (0, 3)], [(0, 2), (0, 3)]]


def test_further_candidates_are_shared_where_there_are_not_enough() -> None:
    """A node that holds more than one is a candidate of several; what first choices fill is none's."""
    pool = pool_of([1], (0, [0], answer({1: 1, 2: 1, 3: 1}, [(1, 90), (2, 80), (3, 10)])))
    assert run(pool, 0, 0, m=2) == [[(0, 1), (0, 3)], [(0, 2), (0, 3)]]


def test_last_choices_come_behind_all_others_and_serve_where_there_is_no_other() -> None:
    """However good their scores; a run of another job set gets them as usual."""
    pool = pool_of([1], (0, [0], answer({1: 9, 2: 9, 3: 1}, [(1, 90), (2, 80), (3, 10)])), profile=PACK)
    decider = Decider(pool, 2, np.random.default_rng(0))
    pool.merge(np.random.default_rng(0))
    for last in ({1, 2}, {1, 2}, {1}, set()):
        assert decider.place(0, frozenset(np.flatnonzero(np.isin(pool.node, list(last))).tolist()))
    assert chosen(decider.decision()) == [
        [(0, 3), (0, 1)],
        [(0, 1), (0, 2)],
        [(0, 2), (0, 1)],
        [(0, 1), (0, 2)],
    ]


def test_first_choice_is_taken_off_so_that_runs_of_all_classes_share_a_node_rightly() -> None:
    """Walking pending in order: what an earlier run of another class took is gone."""
    reply = answer({1: 4, 2: 3}, [(1, 90), (2, 10)], [(1, 90), (2, 10)])
    pool = pool_of([3, 2], (0, [0, 1], reply), profile=PACK)
    assert run(pool, 0, 1, 0, 1) == [[(0, 1)], [(0, 2)], [], []]


def test_run_without_a_fitting_candidate_gets_none() -> None:
    """It has an empty part; the others are not affected."""
    pool = pool_of([5, 1, 1], (0, [0, 1], answer({1: 4}, [(1, 90)], [(1, 50)])))
    assert run(pool, 0, 1, 2) == [[], [(0, 1)], []]


def test_pool_is_full_once_no_class_fits_what_is_left_anywhere() -> None:
    """Whatever a class of the round still fits is not full, nor is what was not decided upon."""
    reply = answer({1: 4, 2: 3}, [(1, 90), (2, 10)], [(1, 90), (2, 10)])
    pool = pool_of([3, 2], (0, [0, 1], reply), profile=PACK)
    assert not pool.is_full
    run(pool, 1, 0)
    assert not pool.is_full  # two cores are left at the first
    run(pool, 1)
    assert pool.is_full


def test_full_pool_leaves_no_further_candidates_and_draws_none() -> None:
    """Where nothing is left nobody looks for more: what is drawn next is what would be drawn after first choices."""
    nodes = dict.fromkeys(range(20), 1)
    pool, rng = pool_of([1], (0, [0], answer(nodes, [(node, 50) for node in nodes]))), np.random.default_rng(1)
    decider = Decider(pool, 3, rng)
    assert all(decider.place(0) for _ in nodes)
    assert pool.is_full
    state = rng.bit_generator.state
    assert [len(entries) for entries in chosen(decider.decision())] == [1] * 20
    assert rng.bit_generator.state == state


def test_spread_gives_identical_runs_to_different_nodes() -> None:
    """A node's score shrinks with what it was given, so equal nodes take turns."""
    nodes = dict.fromkeys(range(4), 8)
    pool = pool_of([1], (0, [0], answer(nodes, [(node, 80) for node in nodes])))
    firsts = Counter(candidates[0] for candidates in run(pool, *[0] * 12))
    assert firsts == {(0, node): 3 for node in nodes}


def test_spread_prefers_a_much_better_node_until_it_is_as_full() -> None:
    """Scores of 80 and 40: the better node takes runs until half of it is given away."""
    pool = pool_of([1], (0, [0], answer({1: 100, 2: 100}, [(1, 80), (2, 40)])))
    firsts = [candidates[0][1] for candidates in run(pool, *[0] * 120)]
    assert set(firsts[:50]) == {1}
    assert Counter(firsts)[2] > 10


def test_packing_fills_the_best_node_first() -> None:
    """With scores as sampled the best node is used until nothing more fits."""
    pool = pool_of([2], (0, [0], answer({1: 5, 2: 9}, [(1, 80), (2, 40)])), profile=PACK)
    assert [candidates[0][1] for candidates in run(pool, *[0] * 6)] == [1, 1, 2, 2, 2, 2]


def test_order_among_equals_is_random_and_repeatable() -> None:
    """Nodes of equal score are not always taken in the same order; one seed gives one order."""

    def order(seed: int) -> tuple[tuple[int, int], ...]:
        pool = pool_of([1], (0, [0], answer(dict.fromkeys(range(6), 9), [(n, 50) for n in range(6)])))
        return tuple(run(pool, 0, m=6, seed=seed)[0])

    orders = {order(seed) for seed in range(10)}
    assert len(orders) > 5
    assert order(3) == order(3)


def test_candidates_of_a_run_are_distinct() -> None:
    """A node takes one of the m places only."""
    nodes = dict.fromkeys(range(5), 100)
    pool = pool_of([1, 1], (0, [0, 1], answer(nodes, *[[(n, 50 + n) for n in nodes]] * 2)))
    for candidates in run(pool, *[0, 1, 1, 0] * 20, m=4):
        assert len(candidates) == len(set(candidates)) == 4


def test_later_calls_of_a_round_see_what_is_left() -> None:
    """A second stage decides over the same pool."""
    pool = pool_of([2], (0, [0], answer({1: 4}, [(1, 80)])))
    assert run(pool, 0) == [[(0, 1)]]
    assert run(pool, 0, 0) == [[(0, 1)], []]


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_one_candidate_is_the_one_that_the_general_choice_would_take(seed: int, *, spread: bool) -> None:
    """Runs of which one candidate is wanted have a shorter way through the same heap, until nothing is left."""
    rng = np.random.default_rng(seed)
    free = dict(enumerate(rng.integers(1, 12, 30).tolist()))
    classes = [[(node, float(rng.integers(0, 20))) for node in free if rng.random() < 0.8] for _ in range(4)]
    order = rng.integers(0, 4, 300).tolist()
    decided = []
    for takes_best in (False, True):
        ports = {3: (HostPort("TCP", 80),)}
        pool = pool_of(
            [1, 2, 3, 1], (0, [0, 1, 2, 3], answer(free, *classes)), profile=DecisionProfile(spread=spread), ports=ports
        )
        decider = Decider(pool, 1, np.random.default_rng(seed), takes_best=takes_best)
        placed = [decider.place(class_id) for class_id in order]
        decided.append((placed, chosen(decider.decision()), pool.room.free))
    assert decided[0] == decided[1]
    assert 0 < sum(decided[0][0]) < len(order)


def test_more_candidates_than_a_run_looks_at_are_still_there_for_the_next() -> None:
    """A hundred full-size runs of many classes find the hundred nodes that are there."""
    nodes = dict.fromkeys(range(100), 1)
    pool = pool_of([1] * 4, (0, [0, 1, 2, 3], answer(nodes, *[[(n, n % 7) for n in nodes]] * 4)))
    decided = run(pool, *[0, 1, 2, 3] * 25, 0)
    assert {candidates[0] for candidates in decided[:-1]} == {(0, n) for n in nodes}
    assert decided[-1] == []


def test_global_filter_and_score_change_the_choice() -> None:
    """A global policy may forbid candidates and add points; a score that fails adds none."""
    replies = [(c, [0], answer({1: 9}, [(1, score)], total=total)) for c, score, total in ((0, 50, 10), (1, 40, 100))]

    def broken(_: CandidateCycle) -> np.ndarray:
        raise RuntimeError

    not_cluster_0 = policy(Point.FILTER, lambda cycle: cycle.entries.cluster[cycle.entry] != 0)
    assert run(pool_of([1], *replies), 0) == [[(0, 1), (1, 1)]]
    assert run(pool_of([1], *replies, profile=not_cluster_0), 0) == [[(1, 1)]]
    spread = DecisionProfile(framework=decision_framework(scores={"spread-over-clusters": 1.0}))
    spread.framework.register(Registration(point=Point.SCORE, name="broken", function=broken, weight=5.0))
    assert run(pool_of([1], *replies, profile=spread), 0) == [[(1, 1), (0, 1)]]


def test_global_filter_that_fails_forbids_only_the_classes_that_it_fails_on() -> None:
    """The other classes are decided; the pool says who turned a class away, why, and when to ask again."""

    def odd(cycle: CandidateCycle) -> np.ndarray:
        if 1 in cycle.class_ids:
            raise NotNow("maintenance of licences", retry_after_s=30)
        if 2 in cycle.class_ids:
            raise KeyError("licence")
        return np.ones(cycle.shape, np.bool_)

    reply = answer({1: 9, 2: 9}, *[[(1, 50), (2, 40)]] * 4)
    pool = pool_of([1, 1, 1, 1], (0, [3, 1, 2, 0], reply), profile=policy(Point.FILTER, odd))
    assert run(pool, 0, 1, 2, 3, m=1) == [[(0, 1)], [], [], [(0, 1)]]
    told = {class_id: (f.plugin, f.reason, f.is_objection, f.retry_after_s) for class_id, f in pool.faults.items()}
    assert told == {
        1: ("policy", "maintenance of licences", True, 30),
        2: ("policy", "KeyError: 'licence'", False, 0.0),
    }


def test_global_filter_postpones_the_classes_it_names() -> None:
    """Without an exception, and for many classes at once."""

    def later(cycle: CandidateCycle) -> None:
        cycle.postpone(cycle.class_ids > 0, "weekend", retry_after_s=5)

    reply = answer({1: 9}, *[[(1, 50)]] * 3)
    pool = pool_of([1, 1, 1], (0, [0, 1, 2], reply), profile=policy(Point.FILTER, later))
    assert run(pool, 0, 1, 2) == [[(0, 1)], [], []]
    assert {class_id: fault.retry_after_s for class_id, fault in pool.faults.items()} == {1: 5, 2: 5}


@pytest.mark.parametrize("spread", [True, False])
def test_negative_scores_keep_their_order_and_still_spread(*, spread: bool) -> None:
    """A score below 0 is worse than one above it, and a node that was given away is worse than before."""
    pool = pool_of([1], (0, [0], answer({1: 9, 2: 9, 3: 9}, [(1, -90), (2, -10), (3, 20)])))
    assert run(pool, 0) == [[(0, 3), (0, 2), (0, 1)]]
    nodes = dict.fromkeys(range(4), 8)
    pairs = [(node, -80 if node else -200) for node in nodes]
    pool = pool_of([1], (0, [0], answer(nodes, pairs)), profile=DecisionProfile(spread=spread))
    firsts = Counter(candidates[0][1] for candidates in run(pool, *[0] * 12))
    assert firsts == ({1: 4, 2: 4, 3: 4} if spread else {next(iter(firsts)): 8, list(firsts)[1]: 4})


@pytest.mark.parametrize("spread", [True, False])
def test_host_port_is_decided_once_per_node(*, spread: bool) -> None:
    """Runs of every class that take clashing ports go to different nodes; without ports they share."""
    nodes = dict.fromkeys(range(6), 9)
    reply = answer(nodes, *[[(n, 50 + n) for n in nodes]] * 3)
    every, one = (HostPort("TCP", 80),), (HostPort("TCP", 80, "10.0.0.1"),)
    pool = pool_of([1, 1, 1], (0, [0, 1, 2], reply), profile=DecisionProfile(spread=spread), ports={0: every, 1: one})
    firsts = [candidates[0] for candidates in run(pool, 0, 1, 0, 1, 0, 1, 0, 2, 2) if candidates]
    assert len(set(firsts[:6])) == 6
    assert len(firsts) == 8


def test_spread_over_clusters_gives_points_by_free_share() -> None:
    """The emptiest cluster has 100 points, one with half of that 50."""
    entries = Entries(
        cluster=np.array([0, 1, 2], np.int16),
        node=np.zeros(3, np.int32),
        free=np.zeros((3, 2), np.int64),
        cluster_free=np.array([[10, 0], [5, 0], [0, 0]]),
        cluster_names=(),
    )
    classes = {0: SchedulingClass(requests=())}
    cycle = CandidateCycle(np.zeros(3, np.int32), np.array([0, 1, 2], np.int32), entries, classes.__getitem__)
    assert spread_over_clusters(cycle).tolist() == [100.0, 50.0, 0.0]


def test_pool_without_answers_decides_nothing() -> None:
    """No sampler answered: every run is left without candidates."""
    assert run(pool_of([1]), 0, 0) == [[], []]
    assert run(pool_of([1], (0, [0], answer({}, []))), 0) == [[]]
    assert run(pool_of([1], (0, [0], answer({1: 1}, [(1, 5)])))) == []


def test_misuse_is_refused() -> None:
    """Answers that do not fit, answers that come too late, and no candidates wanted."""
    pool = pool_of([1])
    with pytest.raises(InvalidRequest, match="does not fit"):
        pool.add(0, np.array([0, 1], np.int32), answer({1: 1}, [(1, 5)]))
    with pytest.raises(InvalidRequest, match="1 or more"):
        run(pool, 0, m=0)
    run(pool, 0)
    with pytest.raises(InvalidRequest, match="too late"):
        pool.add(0, np.array([0], np.int32), answer({1: 1}, [(1, 5)]))
    with pytest.raises(InvalidRequest, match="one request per class"):
        CandidatePool(np.array([1, 2], np.int32), np.zeros((1, 2), np.int64))
