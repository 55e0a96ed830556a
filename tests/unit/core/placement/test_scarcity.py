"""What is remembered of a full cluster, so that it is not searched again and again."""

import numpy as np
import pytest
from tests.unit.core.placement.sampled import ask, candidates, make_ledger, take

from argosy_core.framework import Point, Registration
from argosy_core.job.reading.classes import HostPort, SchedulingClass
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger, PodEvents
from argosy_core.nodes import NodeSpec
from argosy_core.placement import NodeSampler
from argosy_core.plugins import build_framework


def test_full_cluster_is_searched_once_and_then_only_where_something_rose(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known not to fit is not looked at again until a node changes in its favour."""
    ledger = make_ledger([4] * 500, [3, 4])
    sampler, looked = NodeSampler(ledger), []
    original = sampler.ranker.rank

    def rank(slots: np.ndarray, nodes: np.ndarray, *rest: object, **options: object) -> object:
        looked.append(nodes.size)
        return original(slots, nodes, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(sampler.ranker, "rank", rank)
    for node in range(500):
        assert take(ledger, node, 0, node + 1)
    reply = ask(sampler, 1)
    assert (reply.examined.tolist(), reply.complete.tolist(), len(reply.candidate)) == ([500], [1], 0)
    assert sum(looked) == 500
    looked.clear()
    reply = ask(sampler, 1)
    assert (reply.examined.tolist(), reply.complete.tolist(), len(reply.candidate)) == ([500], [1], 0)
    assert sum(looked) == 0
    ledger.release(Members.of([8, 9], [1, 1]))
    reply = ask(sampler, 1)
    assert sum(looked) == 2
    assert sorted(candidates(reply)) == [7, 8]
    assert take(ledger, 7, 1, 1000)
    looked.clear()
    assert candidates(ask(sampler, 1)) == [8]
    assert take(ledger, 8, 1, 1001)
    assert candidates(ask(sampler, 1)) == []
    assert sum(looked) <= 4


def test_node_that_fitted_and_rose_again_is_offered_once() -> None:
    """What is remembered to fit and what has risen since overlap; a node still takes one of the m places."""
    ledger = make_ledger([4] * 100, [1, 3])
    sampler = NodeSampler(ledger)
    for node in range(100):
        for pod in range(4):
            assert take(ledger, node, 0, node * 4 + pod + 1)
    assert candidates(ask(sampler, 1)) == []
    for pod in range(3):
        ledger.release(Members.of([5 * 4 + pod + 1], [1]))
    assert candidates(ask(sampler, 1)) == [5]
    ledger.release(Members.of([5 * 4 + 4], [1]))
    assert candidates(ask(sampler, 1)) == [5]


@pytest.mark.parametrize("event", ["node-added", "uncordoned", "labelled", "other-gone", "grown", "port-given-back"])
def test_memory_of_a_full_cluster_sees_every_change_that_may_help(event: str) -> None:
    """Whatever makes room for a class that fitted nowhere, the next look finds it."""
    ledger = NodeLedger()
    big = {"cpu": 4, "memory": 10}
    labels = {"zone": "x"}
    ledger.put_nodes([NodeSpec(name=f"n{i}", total={"cpu": 1}, labels=labels) for i in range(20)])
    port = HostPort("TCP", 80)
    ledger.define_class(0, SchedulingClass(requests=(("cpu", 2),), node_selector=(("zone", "x"),), host_ports=(port,)))
    other = PodEvents(
        members=Members.of([0], [0]), uids=np.full((1, 16), 3, np.uint8), nodes=np.array([20], np.int32),
        ended=np.array([False]), requests=np.array([[3 if event == "other-gone" else 0, 0, 1]]),
        host_ports={0: (port,)} if event == "port-given-back" else {},
    )  # fmt: skip
    helpful = NodeSpec(name="help", total=big, labels=labels)
    if event == "labelled":
        ledger.put_nodes([NodeSpec(name="help", total=big)])
    elif event == "grown":
        ledger.put_nodes([NodeSpec(name="help", total={"cpu": 1}, labels=labels)])
    elif event != "node-added":
        ledger.put_nodes([helpful])
    if event == "uncordoned":
        ledger.set_cordons(["help"])
    if event in {"other-gone", "port-given-back"}:
        ledger.observe(other)
    sampler = NodeSampler(ledger)
    assert candidates(ask(sampler, 0)) == []
    if event == "uncordoned":
        ledger.set_cordons([])
    elif event in {"other-gone", "port-given-back"}:
        ledger.observe(
            PodEvents(
                members=other.members, uids=other.uids, nodes=other.nodes, ended=np.array([True]),
                requests=other.requests,
            )
        )  # fmt: skip
    else:
        ledger.put_nodes([helpful])
    assert candidates(ask(sampler, 0)) == [20]


def test_memory_is_not_used_with_filters_that_look_elsewhere() -> None:
    """A filter that depends on more than the node's row is asked anew each time."""
    ledger, open_now = make_ledger([4] * 30, [1]), [False]
    framework = build_framework()
    framework.register(
        Registration(point=Point.FILTER, name="hours", function=lambda _: np.array([open_now]), reads_nodes_only=False)
    )
    sampler = NodeSampler(ledger, framework)
    assert candidates(ask(sampler, 0)) == []
    open_now[0] = True
    assert len(candidates(ask(sampler, 0))) == 4
