"""Classes without a candidate: what is said of why."""

import numpy as np
import pytest
from tests.unit.core.placement.sampled import ask, make_ledger, take

from argosy_core.framework import ClassTable, Cycle, Framework, NotNow, Point, Registration
from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.ledger import NodeLedger
from argosy_core.nodes import NodeSpec, NodeTable
from argosy_core.placement import NodeSampler, WaitReason
from argosy_core.placement import explained as explained_classes
from argosy_core.plugins import build_framework


def test_filter_that_fails_on_a_class_is_told_and_asked_again() -> None:
    """An error ends with its cause: nothing of it is remembered, and the other class is answered all the time."""
    ledger, broken = make_ledger([4] * 30, [1, 2]), [True]

    def licences(cycle: Cycle) -> None:
        if broken and 1 in cycle.pods.slots:
            raise NotNow("no licence is left", retry_after_s=7)

    framework = build_framework()
    framework.register(Registration(point=Point.FILTER, name="licences", function=licences))
    sampler = NodeSampler(ledger, framework)
    for _ in range(2):
        reply = ask(sampler, 0, 1)
        assert np.diff(reply.offset).tolist() == [4, 0]
        assert (reply.reason.tolist(), reply.texts) == ([0, WaitReason.PLUGIN], ("", "licences: no licence is left"))
        assert reply.retry_after_s.tolist() == [0, 7]
        assert not reply.complete[1]
    broken.clear()
    reply = ask(sampler, 0, 1)
    assert (np.diff(reply.offset).tolist(), reply.reason.tolist(), reply.texts) == ([4, 4], [0, 0], ())


def test_fault_on_some_nodes_leaves_the_candidates_of_others() -> None:
    """A class that found candidates elsewhere is not told as turned away."""
    ledger = make_ledger([4] * 30, [1])

    def odd(cycle: Cycle) -> None:
        if 0 in cycle.nodes:
            raise KeyError("n0")

    framework = build_framework()
    framework.register(Registration(point=Point.FILTER, name="odd", function=odd))
    replies = [ask(NodeSampler(ledger, framework), 0, complete=complete) for complete in (False, True)]
    assert [len(reply.candidate) for reply in replies] == [4, 0]
    assert [reply.reason.tolist() for reply in replies] == [[0], [WaitReason.FAULT]]


def test_complete_class_looks_at_every_node_and_counts_per_filter() -> None:
    """A class without a candidate learns how many nodes each filter turned away and which came closest."""
    ledger = make_ledger([4] * 30 + [6], [8, 2])
    ledger.set_cordons(["n0", "n1"])
    sampler = NodeSampler(ledger)
    for _ in range(2):
        reply = ask(sampler, 0, 1, complete=True)
        assert reply.filters[:2] == ("node-ready", "resources")
        assert reply.rejection.tolist() == [[2, 29, 0, 0, 0, 0], [0] * 6]
        assert reply.nearest_misses == ("node n30 lacks 2m cpu", "")
        assert reply.complete.tolist() == [1, 1]
        assert reply.examined.tolist() == [31, 31]
        assert reply.eligible.tolist() == [0, 29]
    take(ledger, 30, 1, 1)
    assert ask(sampler, 0, complete=True).nearest_misses == ("node n2 lacks 4m cpu",)


def test_class_that_fits_nowhere_is_explained_also_when_that_was_not_asked() -> None:
    """The first answer tells counts; later ones may repeat them while the oldest are brought up to date in turn."""
    ledger = make_ledger([1] * 10, [8])
    sampler = NodeSampler(ledger)
    assert ask(sampler, 0).rejection.tolist() == [[0, 10, 0, 0, 0, 0]]
    ledger.put_nodes([NodeSpec(name="n3", total={"cpu": 2})])
    assert ask(sampler, 0).nearest_misses == ("node n3 lacks 6m cpu",)


def test_explanations_do_not_cost_a_look_at_every_node_in_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many classes that fit nowhere only a few are explained anew; those asked completely all are."""
    ledger = make_ledger([1] * 2000, [8] * 200)
    sampler, explained = NodeSampler(ledger), []
    original = explained_classes.count_and_compare

    def count(framework: Framework, table: NodeTable, classes: ClassTable, slots: np.ndarray) -> tuple:
        explained.extend(slots.tolist())
        return original(framework, table, classes, slots)

    monkeypatch.setattr(explained_classes, "count_and_compare", count)
    first = ask(sampler, *range(200))
    assert sorted(explained) == list(range(200))
    seen: set[int] = set()
    for cpu in (2, 3, 4, 5, 6, 7, 2):
        ledger.put_nodes([NodeSpec(name="n3", total={"cpu": cpu})])
        explained.clear()
        assert ask(sampler, *range(200)).rejection.tolist() == first.rejection.tolist()
        assert len(explained) < 50
        seen.update(explained)
    assert seen == set(range(200))
    ledger.put_nodes([NodeSpec(name="n3", total={"cpu": 1})])
    explained.clear()
    ask(sampler, *range(200), complete=True)
    assert sorted(explained) == list(range(200))


def test_class_without_a_candidate_is_told_with_the_kinds_of_nodes_that_could_hold_it() -> None:
    """Of one kind are nodes that selectors cannot tell apart, of like size; a kind keeps its bit when nodes come."""
    ledger = NodeLedger()
    gpu, plain = {"cpu": 16, "gpu": 8}, {"cpu": 32}

    def put(name: str, total: dict[str, int], zone: str) -> None:
        ledger.put_nodes([NodeSpec(name=name, total=total, labels={"zone": zone, "kubernetes.io/hostname": name})])

    for number, (total, zone) in enumerate([(gpu, "east"), (plain, "east"), (plain, "west"), (plain, "west")]):
        put(f"n{number}", total, zone)
    asked = [
        ({"cpu": 30}, ()),
        ({"cpu": 1, "gpu": 1}, ()),
        ({"cpu": 30}, (("zone", "west"),)),
        ({"cpu": 1}, ()),
        ({"cpu": 99}, ()),
    ]
    for class_id, (requests, selector) in enumerate([({"cpu": 16}, ()), *asked]):
        definition = SchedulingClass(requests=tuple(requests.items()), node_selector=selector)
        ledger.define_class(class_id, definition)
    sampler = NodeSampler(ledger)
    assert all(take(ledger, node, 0, handle) for handle, node in enumerate([0, 1, 1, 2, 2, 3, 3], 1))

    def kinds() -> list[set[int]]:
        told = ask(sampler, 1, 2, 3, 4, 5).node_kinds.tolist()
        return [{bit for bit in range(63) if bits >> bit & 1} for bits in told]

    large, with_gpu, west, any_node, none = before = kinds()
    assert (len(large), len(with_gpu), len(west), len(any_node), none) == (2, 1, 1, 3, set())
    assert west < large < any_node == large | with_gpu
    put("n4", {"cpu": 0, "gpu": 8}, "north")
    put("n5", {"cpu": 31}, "west")
    assert take(ledger, 5, 0, 9)
    ledger.set_cordons(["n5"])
    assert kinds() == before, "what is cordoned could hold nothing, and what has no core neither"


def test_pre_filter_error_leaves_classes_without_candidates() -> None:
    """No node is offered, and the reason is told."""

    def refuse(_: Cycle) -> None:
        raise NotNow("not today")

    framework = Framework([Registration(point=Point.PRE_FILTER, name="p", function=refuse)])
    reply = ask(NodeSampler(make_ledger([4] * 9, [1]), framework), 0)
    assert (len(reply.candidate), reply.texts) == (0, ("p: not today",))
