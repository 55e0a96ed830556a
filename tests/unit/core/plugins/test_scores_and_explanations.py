"""Scores, profiles, explanations and the nearest miss."""

import numpy as np
import pytest

from argosy_core.errors import InvalidRequest
from argosy_core.framework import CandidateCycle, Cycle, Point
from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.ledger import NodeLedger
from argosy_core.nodes import NodeSpec, Taint
from argosy_core.plugins import (
    FILTERS,
    Profile,
    build_framework,
    count_and_compare,
    decision_framework,
    turned_away_text,
)
from argosy_core.plugins.scores import fewest_nodes

GI = 1 << 30
GB = 10**9


def build(nodes: list[NodeSpec], *requests: dict[str, int]) -> NodeLedger:
    """A ledger with nodes and one class per request."""
    ledger = NodeLedger()
    ledger.put_nodes(nodes)
    for class_id, request in enumerate(requests):
        ledger.define_class(class_id, SchedulingClass(requests=tuple(sorted(request.items()))))
    return ledger


def score(name: str, nodes: list[NodeSpec], *requests: dict[str, int]) -> list[list[float]]:
    """Scores of each class on each node, rounded to two digits."""
    ledger = build(nodes, *requests)
    cycle = Cycle(ledger.nodes, ledger.classes.batch(np.arange(len(requests))), ledger.nodes.live()[None, :])
    framework = build_framework(Profile(scores={name: 1.0}))
    return [[round(value, 2) for value in row] for row in framework.score(cycle).tolist()]


TWO = [
    NodeSpec(name="small", total={"cpu": 4000, "memory": 8 * GI}),
    NodeSpec(name="large", total={"cpu": 16000, "memory": 32 * GI}),
]


def test_least_allocated_prefers_the_node_with_the_larger_free_share() -> None:
    """A pod of 2 cores and 4Gi leaves half of 4 cores and 8Gi, and seven eighths of 16 cores and 32Gi."""
    assert score("least-allocated", TWO, {"cpu": 2000, "memory": 4 * GI}) == [[50.0, 87.5]]


def test_most_allocated_is_the_contrary() -> None:
    """It prefers the node that is fuller with the pod."""
    assert score("most-allocated", TWO, {"cpu": 2000, "memory": 4 * GI}) == [[50.0, 12.5]]


def test_alignment_prefers_what_is_free_in_the_proportions_asked_for() -> None:
    """Of two nodes with as many accelerators, a pod of many cores goes where those are left, one of few where not."""
    nodes = [
        NodeSpec(name="cores", total={"cpu": 8000, "example.com/gpu": 4}),
        NodeSpec(name="few", total={"cpu": 2000, "example.com/gpu": 4}),
    ]
    many, few, none = score(
        "alignment",
        nodes,
        {"cpu": 4000, "example.com/gpu": 2},
        {"cpu": 500, "example.com/gpu": 1},
        {"cpu": 1000},
    )
    assert many == [100.0, 85.75]
    assert few[1] == 100.0 > few[0]
    assert none == [70.71, 24.25]


def test_alignment_of_nothing_left_is_none() -> None:
    """A node without anything free is no direction."""
    nodes = [NodeSpec(name="a", total={"cpu": 0, "memory": 0}), NodeSpec(name="b", total={"cpu": 1000})]
    assert score("alignment", nodes, {"cpu": 1000}) == [[0.0, 100.0]]


def test_least_allocated_counts_an_accelerator_only_for_pods_that_ask_for_one() -> None:
    """The mean is over cpu, memory and what else the pod asks for, whoever is judged beside it."""
    nodes = [NodeSpec(name="g", total={"cpu": 4000, "memory": 8 * GI, "example.com/gpu": 4})]
    half = {"cpu": 2000, "memory": 4 * GI}
    assert score("least-allocated", nodes, half, {**half, "example.com/gpu": 3}) == [[50.0], [41.67]]


def test_keep_devices_takes_off_what_stays_free_of_the_devices_asked_for() -> None:
    """Nodes with 8 GPUs, with 2, and with none: a pod with a GPU leaves 7 of 8, or 1 of 2; one without, all of them."""
    plain = {"cpu": 4000, "memory": 8 * GI}
    nodes = [
        NodeSpec(name="eight", total={**plain, "example.com/gpu": 8}),
        NodeSpec(name="two", total={**plain, "example.com/gpu": 2, "example.com/nic": 1, "ephemeral-storage": 9 * GI}),
        NodeSpec(name="none", total=plain),
    ]
    scores = score("keep-devices", nodes[:2], {"cpu": 1}, {"cpu": 1, "example.com/gpu": 1})
    assert scores == [[-100.0, -100.0], [-87.5, -50.0]]
    assert score("keep-devices", nodes, {"cpu": 1}) == [[-100.0, -100.0, 0.0]]
    assert score("keep-devices", nodes[2:], {"cpu": 1}) == [[0.0]]


def test_lost_opportunity_is_what_is_left_on_the_node() -> None:
    """The seed's example: 72 cores and 128 GB, a pod of 50 cores and 32 GB, lost are 22 cores and 96 GB."""
    nodes = [NodeSpec(name="node", total={"cpu": 72_000, "memory": 128 * GB})]
    lost_percent = 100 * (22 / 72 + 96 / 128) / 2
    assert score("lost-opportunity", nodes, {"cpu": 50_000, "memory": 32 * GB}) == [[round(100 - lost_percent, 2)]]


def test_lost_opportunity_prefers_the_smaller_node() -> None:
    """Less is lost if the pod goes to a smaller node; measured against the largest node of the cluster."""
    nodes = [
        NodeSpec(name="seed", total={"cpu": 72_000, "memory": 128 * GB}),
        NodeSpec(name="smaller", total={"cpu": 54_000, "memory": 64 * GB}),
    ]
    (values,) = score("lost-opportunity", nodes, {"cpu": 50_000, "memory": 32 * GB})
    lost = [(22 / 72 + 96 / 128) / 2, (4 / 72 + 32 / 128) / 2]
    assert values == [round(100 - 100 * share, 2) for share in lost]
    assert values[1] > values[0]


def test_lost_opportunity_keeps_accelerators_for_those_who_need_them() -> None:
    """A pod without an accelerator loses less on a node without one."""
    nodes = [
        NodeSpec(name="plain", total={"cpu": 4000, "memory": 8 * GI}),
        NodeSpec(name="gpu", total={"cpu": 4000, "memory": 8 * GI, "example.com/gpu": 8}),
    ]
    (values,) = score("lost-opportunity", nodes, {"cpu": 1000})
    assert values[0] > values[1]


def test_fewest_nodes_prefers_a_node_in_use_and_of_these_the_one_on_which_least_is_left() -> None:
    """An empty node that would be left with less comes behind one that is in use already."""
    nodes = [NodeSpec(name=name, total={"cpu": cores * 1000}) for name, cores in (("a", 16), ("b", 8), ("c", 4))]
    ledger = build(nodes, {"cpu": 2000})
    slot = np.zeros(2, np.int32)
    ledger.reserve(slot, np.array([0, 1], np.int32))
    cycle = Cycle(ledger.nodes, ledger.classes.batch(np.array([0])), ledger.nodes.live()[None, :])
    (values,) = fewest_nodes(cycle).tolist()
    assert values[1] > values[0] > values[2]
    assert values == [50 + 50 * (1 - 12 / 16), 50 + 50 * (1 - 4 / 16), 50 * (1 - 2 / 16)]


def test_profile_gives_order_and_weights() -> None:
    """A profile chooses plugins by name, in its order, with its weights."""
    framework = build_framework(
        Profile(filters=("resources", "node-ready"), scores={"most-allocated": 2.0, "lost-opportunity": 0.5})
    )
    assert framework.filter_names == ("resources", "node-ready")
    ledger = build(TWO, {"cpu": 2000, "memory": 4 * GI})
    cycle = Cycle(ledger.nodes, ledger.classes.batch(np.array([0])), ledger.nodes.live()[None, :])
    most, lost = 50.0, 100 * (1 - (2 / 16 + 4 / 32) / 2)
    assert framework.score(cycle)[0, 0] == pytest.approx(2 * most + 0.5 * lost)


class Both:
    """A plugin object with points of both profiles."""

    explanation = "too warm: {nodes}"
    reads_nodes_only = True

    def filter(self, cycle: Cycle) -> None:
        """Let all pass."""

    def score(self, cycle: Cycle) -> np.ndarray:
        """Return ten points for every node."""
        return np.full((1, cycle.shape[1]), 10.0)

    def score_candidates(self, cycle: CandidateCycle) -> np.ndarray:
        """Return five points for every candidate."""
        return np.full(cycle.shape, 5.0)


def test_plugin_object_is_called_at_the_points_of_its_profile() -> None:
    """Behind the built-in plugins; its score has the weight that the profile gives it, else 1."""
    framework = build_framework(Profile(filters=("resources",), scores={"both": 0.5}), {"both": Both(), "two": Both()})
    assert framework.filter_names == ("resources", "both", "two")
    assert framework.filters_read_nodes_only
    assert framework.filter_texts[1:] == ("too warm: {nodes}",) * 2
    assert [(s.name, s.weight) for s in framework.registered(Point.SCORE)] == [("both", 0.5), ("two", 1.0)]
    decision = decision_framework({"both": Both()}, scores={"both": 2.0, "spread-over-clusters": 3.0})
    assert [(s.name, s.weight) for s in decision.registered(Point.SCORE)] == [
        ("spread-over-clusters", 3.0), ("both", 2.0),
    ]  # fmt: skip
    assert decision.filter_names == ()


class Filtering:
    """A plugin of the sampling profile that says nothing of what its answer depends on."""

    def filter(self, cycle: Cycle) -> None:
        """Let all pass."""


def test_plugin_that_does_not_promise_to_read_nodes_only_is_asked_anew() -> None:
    """The safe rule is the default."""
    assert build_framework().filters_read_nodes_only
    assert not build_framework(plugins={"p": Filtering()}).filters_read_nodes_only


@pytest.mark.parametrize(
    ("name", "plugin", "text"),
    [
        ("p", object(), "plugin 'p' has nothing that the decision profile calls: queue_sort, filter_candidates"),
        ("p", Filtering(), "plugin 'p' has nothing that the decision profile calls"),
        ("p", type("P", (), {"score_candidates": 3})(), "plugin 'p': score_candidates is no method but 3"),
        ("spread-over-clusters", Both(), "plugin 'spread-over-clusters' is registered twice at score"),
    ],
    ids=["nothing", "other-profile", "no-method", "name-taken"],
)
def test_plugin_object_that_makes_no_sense_is_refused(name: str, plugin: object, text: str) -> None:
    """What would never be called, or could not be told apart, is a mistake."""
    with pytest.raises(InvalidRequest) as refusal:
        decision_framework({name: plugin}, scores={"spread-over-clusters": 1.0})
    assert text in refusal.value.message


@pytest.mark.parametrize(
    ("profile", "text"),
    [
        (Profile(filters=("resource",)), "there is no filter 'resource'; there are node-ready, resources"),
        (Profile(scores={"best": 1.0}), "there is no score 'best'; there are least-allocated"),
        (Profile(scores={"least-allocated": 0.0}), "the weight of 'least-allocated' is 0.0, but must be positive"),
    ],
    ids=["filter", "score", "weight"],
)
def test_profile_that_makes_no_sense_is_refused_with_what_would(profile: Profile, text: str) -> None:
    """The message names what is wrong and what there is."""
    with pytest.raises(InvalidRequest, match=text):
        build_framework(profile)


@pytest.mark.parametrize(
    ("text", "count", "said"),
    [
        (FILTERS["resources"][1], 1, "insufficient resources on 1 node"),
        (FILTERS["node-ready"][1], 7, "7 nodes not available for new pods"),
        ("{nodes} of {0.__class__} with {} and {nodes}", 2, "2 nodes of {0.__class__} with {} and 2 nodes"),
        ("no number", 3, "no number"),
    ],
    ids=["one", "many", "other-braces", "without"],
)
def test_text_of_a_filter_is_told_with_the_number_of_nodes(text: str, count: int, said: str) -> None:
    """Whatever else stands in a plugin's text stays as it is."""
    assert turned_away_text(text, count) == said


NODES = [
    NodeSpec(name="n0", total={"cpu": 4000, "memory": 8 * GI}, ready=False),
    NodeSpec(name="n1", total={"cpu": 4000, "memory": 8 * GI}),
    NodeSpec(name="n2", total={"cpu": 6000, "memory": 4 * GI}),
    NodeSpec(name="n3", total={"cpu": 64000, "memory": 64 * GI}, taints=(Taint("k"),)),
]


def test_counts_name_the_first_failing_filter_of_each_node() -> None:
    """A node counts once, for the filter that turned it away first."""
    ledger = build(NODES, {"cpu": 8000, "memory": 8 * GI})
    framework = build_framework()
    counts, _ = count_and_compare(framework, ledger.nodes, ledger.classes, np.array([0], np.int32))
    row = dict(zip(framework.filter_names, counts[0].tolist(), strict=True))
    assert {name: count for name, count in row.items() if count} == {"node-ready": 1, "resources": 2, "taints": 1}


def test_nearest_miss_fails_fewest_filters_and_lacks_least() -> None:
    """n1 lacks half the cores, n2 a quarter of the cores but half the memory; n3 fails one filter and lacks nothing."""
    ledger = build(NODES, {"cpu": 8000, "memory": 8 * GI})
    (found,) = count_and_compare(build_framework(), ledger.nodes, ledger.classes, np.array([0], np.int32))[1]
    assert found is not None
    assert (found.name, dict(found.lacks), found.filters) == ("n3", {}, ("taints",))
    assert found.text() == "node n3 does not pass taints"


def test_nearest_miss_says_what_is_missing() -> None:
    """Among nodes that fail the same number of filters the smallest shortage wins; amounts are quantities."""
    ledger = build(NODES[:3], {"cpu": 7500, "memory": 6 * GI})
    (found,) = count_and_compare(build_framework(), ledger.nodes, ledger.classes, np.array([0], np.int32))[1]
    assert found is not None
    assert found.text() == "node n2 lacks 1500m cpu, 2Gi memory"
    assert found.node == 2


def test_nearest_miss_of_an_empty_cluster_is_none() -> None:
    """Without nodes nothing came close."""
    ledger = build([], {"cpu": 1})
    assert count_and_compare(build_framework(), ledger.nodes, ledger.classes, np.array([0], np.int32))[1] == [None]
