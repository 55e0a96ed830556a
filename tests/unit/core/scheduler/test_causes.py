"""Why a job waits, with what is known of nodes, cordons and contacts beyond the leader's memory."""

from __future__ import annotations

import pytest

from argosy_core.job.reading.classes import GangGroup, SchedulingClass
from argosy_core.job.states import JobStage
from argosy_core.nodes import NodeSpec, NodeTable
from argosy_core.placement import WaitReason
from argosy_core.scheduler import (
    ClusterReason,
    ClusterStanding,
    Explanation,
    FilterCount,
    StartBand,
    explain_by_nodes,
)

_CLASS = SchedulingClass(requests=(("cpu", 2000),))
_FULL = "every node that could hold it is full now"


def _waiting(reason: WaitReason = WaitReason.NO_ROOM, why: str = _FULL, **fields: object) -> Explanation:
    return Explanation(stage=JobStage.PENDING, summary=f"pending; {why}; more", reason=reason, why=why, **fields)  # type: ignore[arg-type]


def _table(*nodes: NodeSpec) -> NodeTable:
    table = NodeTable()
    table.put(nodes)
    return table


def test_full_nodes_are_counted_and_the_largest_is_named() -> None:
    """From what samplers told, so that the counts are there although nobody was asked yet."""
    table = _table(NodeSpec(name="n0", total={"cpu": 4000}), NodeSpec(name="n1", total={"cpu": 1000}))
    table.take(table.index_of(["n0"]), table.axis.vector({"cpu": 3000})[:, None])
    told = explain_by_nodes(_waiting(), _CLASS, {"a": table}, clusters={"a": ClusterStanding()})
    assert told.reason == WaitReason.NO_ROOM
    assert told.summary == f"pending; {_FULL}; the largest is a/n0 (4 cpu); more"
    assert [(one.filter, one.node_count) for one in told.filters] == [("resources", 2)]
    assert told.examined_node_count == 2
    assert told.nearest_miss == "a: node n0 lacks 1 cpu"
    (cluster,) = told.cluster_reasons
    assert (cluster.cluster, cluster.able_node_count, cluster.filters) == ("a", 1, told.filters)


def test_what_samplers_answered_for_the_job_comes_before_what_they_told_of_nodes() -> None:
    """Filters of a site's own are known to its samplers alone."""
    counts = (FilterCount(filter="warm", node_count=1, text="too warm: 1 node"),)
    reasons = (ClusterReason(cluster="a", reason=WaitReason.MISMATCH, text="", filters=counts),)
    table = _table(NodeSpec(name="n0", total={"cpu": 4000}))
    explanation = _waiting(WaitReason.MISMATCH, "never", filters=counts, cluster_reasons=reasons)
    told = explain_by_nodes(explanation, _CLASS, {"a": table}, clusters={"a": ClusterStanding()})
    assert (told.reason, told.why, told.filters, told.missing) == (WaitReason.MISMATCH, "never", counts, ())
    assert told.cluster_reasons[0].filters == counts


def test_job_whose_nodes_are_cordoned_is_told_which_and_why() -> None:
    """The sampler finds no node for it, but somebody has only to end the cordon."""
    table = _table(NodeSpec(name="n0", total={"cpu": 4000}, unschedulable=True), NodeSpec(name="n1", total={"cpu": 1}))
    standing = ClusterStanding(node_cordons={"n0": "disk"})
    told = explain_by_nodes(_waiting(WaitReason.MISMATCH), _CLASS, {"a": table}, clusters={"a": standing})
    assert (told.reason, told.why) == (WaitReason.CORDONED, "node a/n0 is cordoned: disk")


def test_cluster_that_alone_could_hold_a_job_and_is_away_is_the_reason_not_the_others() -> None:
    """Others have no node for it, and never will."""
    tables = {"a": _table(NodeSpec(name="n0", total={"cpu": 4000})), "b": _table(NodeSpec(name="n1", total={"cpu": 1}))}
    away = {"a": ClusterStanding(away="cluster a is not heard since noon"), "b": ClusterStanding()}
    told = explain_by_nodes(_waiting(WaitReason.MISMATCH), _CLASS, tables, clusters=away)
    assert (told.reason, told.why) == (WaitReason.AWAY, "cluster a is not heard since noon")
    tables["a"].put([NodeSpec(name="n0", total={"cpu": 4000}, ready=False)])
    down = explain_by_nodes(_waiting(WaitReason.MISMATCH), _CLASS, tables, clusters={})
    assert (down.reason, down.why) == (WaitReason.AWAY, "the nodes of a that could hold it are not ready (1)")


def test_reasons_that_nodes_do_not_give_stay_as_they_are() -> None:
    """A limit holds a job back wherever there is room."""
    table, band = _table(NodeSpec(name="n0", total={"cpu": 4000})), StartBand(earliest_s=1.0, latest_s=2.0)
    told = explain_by_nodes(_waiting(WaitReason.LIMIT, "over", start=band), _CLASS, {"a": table}, clusters={})
    assert (told.reason, told.why, told.start) == (WaitReason.LIMIT, "over", band)


@pytest.mark.parametrize(
    ("reason", "told_reason"),
    [
        (WaitReason.LIMIT, WaitReason.MISMATCH),
        (WaitReason.RATE, WaitReason.MISMATCH),
        (WaitReason.CONFLICT, WaitReason.MISMATCH),
        (WaitReason.HELD, WaitReason.HELD),
        (WaitReason.DEPENDENCY, WaitReason.DEPENDENCY),
    ],
)
def test_job_that_no_node_can_hold_is_told_that_first_whatever_holds_it_back(
    reason: WaitReason, told_reason: WaitReason
) -> None:
    """Waiting for a limit to end would help it as little; a release and another job's end come before nodes."""
    band = StartBand(earliest_s=1.0, latest_s=2.0)
    table = _table(NodeSpec(name="n0", total={"cpu": 1000}))
    told = explain_by_nodes(_waiting(reason, "over", start=band), _CLASS, {"a": table}, clusters={})
    lacks = "it asks for 2 cpu, and the largest node, a/n0, has 1"
    assert (told.reason, told.missing, told.start) == (told_reason, (lacks,), None)
    assert told.summary == f"pending; no node of any cluster can ever hold it: {lacks}; over; more"


@pytest.mark.parametrize("reason", [WaitReason.FAULT, WaitReason.PLUGIN, WaitReason.PROMISED])
def test_what_samplers_said_of_a_job_themselves_stays_the_reason(reason: WaitReason) -> None:
    """They have looked at nodes that are newer than those told of; what is missing is told beside it."""
    table = _table(NodeSpec(name="n0", total={"cpu": 1000}))
    told = explain_by_nodes(_waiting(reason, "they say so"), _CLASS, {"a": table}, clusters={})
    assert (told.reason, told.why, len(told.missing)) == (reason, "they say so", 1)


def test_job_of_a_cordoned_queue_that_no_node_can_hold_is_told_both() -> None:
    """The end of the cordon would not start it."""
    table = _table(NodeSpec(name="n0", total={"cpu": 1000}))
    told = explain_by_nodes(
        _waiting(WaitReason.CORDONED, "its queue is cordoned"), _CLASS, {"a": table}, clusters={}, queue_cordon="by ann"
    )
    assert told.reason == WaitReason.MISMATCH
    assert told.why.startswith("no node of any cluster can ever hold it: ")
    assert told.why.endswith("; its queue is cordoned: by ann")


def test_nothing_is_made_up_before_any_cluster_is_known() -> None:
    """No nodes are no reason to say never."""
    told = explain_by_nodes(_waiting(WaitReason.AWAY, "no cluster is heard"), _CLASS, {}, clusters={})
    assert (told.reason, told.why, told.cluster_reasons) == (WaitReason.AWAY, "no cluster is heard", ())


def test_gang_is_told_how_many_of_its_pods_fit_and_judged_by_those_that_fewest_nodes_could_hold() -> None:
    """No node is asked for all of its pods; what one pod lacks everywhere is missing."""
    table = _table(NodeSpec(name="n0", total={"cpu": 4000}), NodeSpec(name="n1", total={"cpu": 1000}))
    head = GangGroup(name="head", pod=SchedulingClass(requests=(("cpu", 1000),)), minimum=1, maximum=1)
    work = GangGroup(name="work", pod=_CLASS, minimum=3, maximum=3)
    miss = "a: 2 of 3 pods of work fit"
    told = explain_by_nodes(
        _waiting(WaitReason.MISMATCH, "never", nearest_miss=miss),
        SchedulingClass.of_gang([head, work]),
        {"a": table},
        clusters={"a": ClusterStanding()},
    )
    assert (told.why, told.nearest_miss) == (f"no cluster can ever hold all its pods; {miss}", miss)
    assert told.cluster_reasons[0].able_node_count == 1
    large = GangGroup(name="work", pod=SchedulingClass(requests=(("cpu", 9000),)), minimum=1, maximum=1)
    gang = SchedulingClass.of_gang([head, large])
    told = explain_by_nodes(_waiting(), gang, {"a": table}, clusters={"a": ClusterStanding()})
    assert told.reason == WaitReason.MISMATCH
    assert told.missing
