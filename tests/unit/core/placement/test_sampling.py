"""The sampling phase: windows, Np, strategies, memory of full clusters, explanations."""

import gc

import numpy as np
import pytest
from tests.unit.core.placement.sampled import ask, candidates, make_ledger, take

from argosy_core.errors import InvalidRequest
from argosy_core.framework import Framework, Point, Registration
from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.ledger import NodeLedger
from argosy_core.nodes import NodeSpec
from argosy_core.placement import NodeSampler, SampleRequest, sample
from argosy_core.placement.strategies import RandomStrategy
from argosy_core.plugins import Profile, build_framework


def test_best_candidates_come_first_with_what_is_free_on_them() -> None:
    """All of a small cluster is looked at; the emptiest node stands first."""
    ledger = make_ledger([4, 16, 8, 2], [2])
    reply = ask(ledger, 0, wanted=2, ratio=1.0, resources=("pods", "cpu", "unheard-of"))
    assert candidates(reply) == [1, 2, 0, 3]
    assert np.all(np.diff(reply.score) <= 0)
    assert reply.score[0] == pytest.approx(100 * (14 / 16 + 1) / 2, abs=0.01)
    assert reply.node.tolist() == [0, 1, 2, 3]
    assert reply.free.tolist() == [[110, 4, 0], [110, 16, 0], [110, 8, 0], [110, 2, 0]]
    assert reply.total_free.tolist() == [440, 30, 0]
    assert (reply.examined.tolist(), reply.eligible.tolist(), reply.complete.tolist()) == ([4], [4], [1])


@pytest.mark.parametrize(
    ("ratio", "node_count", "eligible"),
    [(0.04, 1000, 40), (0.07, 100, 7), (0.041, 1000, 41), (0.0, 1000, 1), (1.0, 300, 300), (0.5, 3, 2)],
    ids=["2-smart", "no-rounding-error", "rounded-up", "at-least-one", "all", "tiny"],
)
def test_looking_ends_when_np_eligible_nodes_are_found(ratio: float, node_count: int, eligible: int) -> None:
    """Np of the nodes, rounded up, at least one; on an empty cluster as many are looked at (8 or more)."""
    reply = ask(make_ledger([4] * node_count, [1]), 0, wanted=4 * eligible, ratio=ratio)
    expected = min(node_count, max(8, eligible))
    assert (reply.examined.tolist(), reply.eligible.tolist()) == ([expected], [expected])
    assert len(reply.candidate) == min(expected, max(4, eligible))


def test_pool_that_packs_is_offered_the_nodes_in_use_first_wherever_they_are() -> None:
    """All nodes are looked at, however small Np is, and all classes are offered the same ones."""
    ledger = make_ledger([8] * 100, [1, 2])
    assert take(ledger, 93, 0, 1)
    reply = ask(ledger, 0, 1, node_score="fewest-nodes", ratio=0.01)
    assert [candidates(reply, position)[0] for position in (0, 1)] == [93, 93]
    with pytest.raises(InvalidRequest, match="node_score is 'best', but must be one of least-allocated"):
        ask(ledger, 0, node_score="best")


def test_looking_goes_on_while_nodes_are_not_eligible() -> None:
    """With every fourth node large enough, about four times as many are looked at."""
    reply = ask(make_ledger([8 if i % 4 == 0 else 1 for i in range(1000)], [4]), 0)
    assert reply.eligible[0] >= 40
    assert 100 <= reply.examined[0] <= 400


def test_candidates_are_no_more_than_pods_that_wait_need() -> None:
    """One node per waiting pod and some to spare, so that answers stay small."""
    ledger = make_ledger([4] * 1000, [1])
    assert len(ask(ledger, 0, wanted=1).candidate) == 5
    assert len(ask(ledger, 0, wanted=7, spare_count=2).candidate) == 9
    assert len(ask(ledger, 0, wanted=160).candidate) == 40


@pytest.mark.parametrize("strategy", ["random", "round-robin"])
@pytest.mark.parametrize(
    ("wanted", "node_count", "held_count"),
    [(160, 40, 160), (161, 45, 180), (500, 129, 516), (4000, 1000, 4000), (9000, 1000, 4000)],
    ids=["np-suffices", "one-more", "many", "all-there-is", "more-than-there-is"],
)
def test_looking_goes_on_until_the_nodes_hold_all_pods_that_wait(
    wanted: int, node_count: int, held_count: int, strategy: str
) -> None:
    """Np nodes of four cores hold 160 pods of one core; where more wait, as many nodes as hold them, and 4 to spare."""
    reply = ask(make_ledger([4] * 1000, [1]), 0, wanted=wanted, strategy=strategy)
    assert len(candidates(reply)) == node_count
    assert int(reply.free[:, 0].sum()) == held_count


def test_looking_goes_on_for_the_class_alone_that_lacks_room() -> None:
    """Of classes asked together, those of which few pods wait look no further than Np and get what they need."""
    sampler = NodeSampler(make_ledger([4] * 1000, [1, 1]))
    request = SampleRequest(
        class_ids=np.array([0, 1], np.int32),
        wanted=np.array([2, 800], np.int32),
        complete=np.zeros(2, np.int8),
        resources=("cpu",),
        nodes_to_sample_ratio=0.04,
    )
    reply = sampler.sample(request, np.random.default_rng(0))
    assert (len(candidates(reply, 0)), len(candidates(reply, 1))) == (6, 204)
    assert (reply.examined[0], reply.examined[1] >= 200) == (40, True)


def test_classes_known_to_fit_on_few_nodes_are_answered_all_that_hold_their_pods() -> None:
    """The memory of scarce classes bounds where is looked, not how much is answered."""
    sampler = NodeSampler(make_ledger([4 if i % 10 == 0 else 1 for i in range(1000)], [2]))
    for _ in range(2):
        assert len(candidates(ask(sampler, 0, wanted=500))) == 100


def test_classes_asked_together_look_at_different_nodes() -> None:
    """Each class has a window of its own, so that a round does not crowd on a few nodes."""
    reply = ask(make_ledger([4] * 1000, [1] * 50), *range(50))
    assert len(reply.node) > 150
    for position in range(50):
        assert len(set(candidates(reply, position))) == 5


@pytest.mark.parametrize("strategy", ["random", "round-robin"])
def test_no_node_is_offered_twice_to_one_class(strategy: str) -> None:
    """However often the window moves on, a node takes at most one of the m places."""
    ledger = make_ledger([1 if i % 3 else 8 for i in range(100)], [4] * 5)
    sampler = NodeSampler(ledger)
    for _ in range(5):
        reply = ask(sampler, 0, 1, 2, 3, 4, wanted=100, ratio=0.3, strategy=strategy)
        for position in range(5):
            nodes = candidates(reply, position)
            assert len(set(nodes)) == len(nodes) >= 30


def test_round_robin_goes_on_where_the_last_request_stopped() -> None:
    """One cursor for all requests, with wrap-around (seed 000)."""
    sampler = NodeSampler(make_ledger([4] * 20, [1]))
    seen = [sorted(candidates(ask(sampler, 0, wanted=32, ratio=0.4, strategy="round-robin"))) for _ in range(3)]
    assert seen == [list(range(8)), list(range(8, 16)), [0, 1, 2, 3, 16, 17, 18, 19]]


def test_random_strategy_treats_all_nodes_alike() -> None:
    """Over many requests every node is offered about equally often."""
    sampler = NodeSampler(make_ledger([4] * 50, [1]))
    counts = np.zeros(50)
    for seed in range(400):
        counts[candidates(ask(sampler, 0, wanted=40, ratio=0.2, seed=seed))] += 1
    assert counts.sum() == 4000
    assert 40 < counts.min() <= counts.max() < 125


def test_random_order_is_drawn_again_after_as_many_looks_as_there_are_nodes() -> None:
    """One order for ever would offer the same nodes beside each other; one a request would cost a step a node."""
    table, rng, strategy = make_ledger([4] * 50, [1]).nodes, np.random.default_rng(3), RandomStrategy()
    first = strategy.circle(table, rng).tolist()
    strategy.looked(49)
    assert strategy.circle(table, rng).tolist() == first
    strategy.looked(1)
    again = strategy.circle(table, rng).tolist()
    assert again != first
    assert sorted(again) == sorted(first)


def test_same_seed_gives_the_same_sample() -> None:
    """Randomness comes from the generator alone (invariant 14)."""
    replies = [ask(make_ledger([4] * 300, [1, 2]), 0, 1, seed=5) for _ in range(2)]
    assert replies[0].candidate.tolist() == replies[1].candidate.tolist()
    assert replies[0].node.tolist() == replies[1].node.tolist()


def test_deadline_ends_the_look_with_what_was_found() -> None:
    """Once told to stop, no further window is looked at."""
    ledger = make_ledger([1] * 999 + [8], [4, 1])
    sampler, asked = NodeSampler(ledger), []
    request = SampleRequest(
        class_ids=np.array([0, 1], np.int32),
        wanted=np.array([1, 1], np.int32),
        complete=np.zeros(2, np.int8),
        resources=("cpu",),
        nodes_to_sample_ratio=0.04,
    )

    def stop() -> bool:
        asked.append(1)
        return len(asked) > 1

    reply = sampler.sample(request, np.random.default_rng(1), should_stop=stop)
    assert reply.examined.tolist() == [40, 40]
    assert len(candidates(reply, 1)) == 5
    assert reply.complete.tolist() == [0, 0]
    assert sampler.sample(request, np.random.default_rng(1), should_stop=lambda: True).examined.tolist() == [0, 0]


def test_negative_scores_keep_their_order() -> None:
    """Candidates come best first and with their own scores, whatever the sign."""
    framework = Framework([Registration(point=Point.SCORE, name="s", function=lambda cycle: -10.0 * cycle.nodes)])
    reply = ask(NodeSampler(make_ledger([4] * 5, [1]), framework), 0, complete=True)
    assert candidates(reply) == [0, 1, 2, 3]
    assert reply.score.tolist() == [0.0, -10.0, -20.0, -30.0]


def test_crowd_of_classes_on_few_free_nodes_is_spread_over_all_of_them() -> None:
    """On a nearly full cluster a hundred classes together are offered every node that is free, not the same five."""
    ledger = make_ledger([1] * 900 + [8] * 100, [4 + i % 3 for i in range(100)])
    sampler = NodeSampler(ledger)
    for _ in range(2):
        reply = ask(sampler, *range(100), ratio=0.2)
        assert len(reply.node) > 95
        for position in range(100):
            first, last = reply.offset[position], reply.offset[position + 1]
            assert np.all(np.diff(reply.score[first:last]) <= 0)


def test_cluster_without_nodes_answers_completely() -> None:
    """No node is also an answer."""
    reply = ask(make_ledger([], [1]), 0, complete=True)
    assert (reply.complete.tolist(), reply.examined.tolist(), len(reply.candidate)) == ([1], [0], 0)


def test_unknown_class_gets_no_candidate() -> None:
    """A class that is not defined disturbs no other."""
    reply = ask(make_ledger([4] * 10, [1]), 77, 0)
    assert (len(candidates(reply, 0)), len(candidates(reply, 1))) == (0, 4)
    assert reply.complete.tolist()[0] == 0


def test_no_class_asked_is_answered_with_totals() -> None:
    """An empty request is legal."""
    reply = sample(
        make_ledger([4] * 10, []),
        SampleRequest(
            class_ids=np.zeros(0, np.int32), wanted=np.zeros(0, np.int32), complete=np.zeros(0, np.int8),
            resources=("cpu",), nodes_to_sample_ratio=0.04,
        ),
        np.random.default_rng(0),
    )  # fmt: skip
    assert reply.offset.tolist() == [0]
    assert reply.total_free.tolist() == [40]


def test_scoring_profile_decides_which_node_is_best() -> None:
    """Packing offers the fullest node that still fits."""
    sampler = NodeSampler(make_ledger([4, 16, 8, 2], [2]), build_framework(Profile(scores={"lost-opportunity": 1.0})))
    assert candidates(ask(sampler, 0, ratio=1.0)) == [3, 0, 2, 1]


def test_more_nodes_are_answered_where_some_may_be_a_last_choice() -> None:
    """Else nodes that refuse everything, and look emptiest, would be all that is answered; here Np finds three."""
    sampler = NodeSampler(make_ledger([4] * 60, [1]))
    assert [len(candidates(ask(sampler, 0, extra_count=extra))) for extra in (0, 20)] == [4, 23]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"ratio": 1.5}, "nodes_to_sample_ratio is 1.5"),
        ({"ratio": float("nan")}, "nodes_to_sample_ratio is nan"),
        ({"extra_count": -1}, "extra_count is -1"),
        ({"strategy": "best"}, "there is no sampling strategy 'best'; there are random, round-robin"),
    ],
    ids=["ratio", "not-a-number", "extra", "strategy"],
)
def test_question_that_makes_no_sense_is_refused(fields: dict[str, object], text: str) -> None:
    """The message says what is wrong and what there is."""
    with pytest.raises(InvalidRequest, match=text):
        ask(make_ledger([1], [1]), 0, **fields)  # type: ignore[arg-type]


def test_sample_leaves_nothing_behind_that_only_the_collector_could_free() -> None:
    """A ring of references would keep megabytes of every round until the collector's next full run, hours later."""
    ledger = make_ledger([4, 4, 1, 2], [1000, 3000, 9000])
    sampler = NodeSampler(ledger)
    request = SampleRequest(
        class_ids=np.arange(3, dtype=np.int32),
        wanted=np.ones(3, np.int32),
        complete=np.array([0, 1, 1], np.int8),
        resources=("cpu",),
        nodes_to_sample_ratio=0.5,
    )
    sampler.sample(request, np.random.default_rng(0))
    gc.collect()
    gc.disable()
    try:
        for seed in range(3):
            sampler.sample(request, np.random.default_rng(seed))
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_sampler_answers_what_it_was_asked() -> None:
    """Every field of the request arrives, and the answer says whose it is."""
    ledger = NodeLedger()
    ledger.put_nodes([NodeSpec(name=f"n{cpu}", total={"cpu": cpu, "memory": 8}) for cpu in (1, 2, 4)])
    ledger.define_class(0, SchedulingClass(requests=(("cpu", 2),)))
    ledger.define_class(1, SchedulingClass(requests=(("cpu", 8),)))
    request = SampleRequest(
        cluster="a",
        round_number=1,
        class_ids=np.array([1, 0], np.int32),
        wanted=np.array([1, 1], np.int32),
        complete=np.array([1, 1], np.int8),
        resources=("memory", "cpu"),
        nodes_to_sample_ratio=1.0,
        deadline_ms=1000,
        strategy="random",
    )
    reply = NodeSampler(ledger, build_framework(), incarnation=7).sample(request, np.random.default_rng(1))
    assert reply.incarnation == 7
    assert reply.offset.tolist() == [0, 0, 2]
    assert reply.examined.tolist() == [3, 3]
    assert reply.eligible.tolist() == [0, 2]
    assert reply.complete.tolist() == [1, 1]
    assert sorted(reply.free.tolist()) == [[8, 2], [8, 4]]
    assert reply.total_free.tolist() == [24, 7]
    assert reply.nearest_misses[0]
