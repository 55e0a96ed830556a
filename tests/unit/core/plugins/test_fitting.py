"""What nodes say of a class: how many could hold it, and what is missing if none could."""

from __future__ import annotations

import pytest

from argosy_core.job.reading.classes import MatchExpression, SchedulingClass, Toleration
from argosy_core.nodes import NodeSpec, NodeTable, Taint
from argosy_core.plugins import find_missing, judge

_GI = 1 << 30


def _tables() -> dict[str, NodeTable]:
    """Return two clusters: one of plain nodes, one with a large, a tainted and a fast one."""
    plain, other = NodeTable(), NodeTable()
    plain.put([NodeSpec(name=f"p{n}", total={"cpu": 4000, "memory": 16 * _GI}, labels={"disk": "hdd"}) for n in (0, 1)])
    arch = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    other.put(
        [
            NodeSpec(name="large", total={"cpu": 8000, "memory": 8 * _GI}, labels={"disk": "hdd", **arch}),
            NodeSpec(name="fast", total={"cpu": 2000, "memory": 64 * _GI}, labels={"disk": "nvme", **arch}),
            NodeSpec(name="gpu", total={"cpu": 4000, "gpu": 2}, labels={"gpu": "yes"}, taints=(Taint("only", "gpu"),)),
        ]
    )
    return {"plain": plain, "other": other}


def _class(cpu: int = 1000, /, *, more: dict[str, int] | None = None, **fields: object) -> SchedulingClass:
    requests = tuple(sorted({"cpu": cpu, **(more or {})}.items()))
    return SchedulingClass(requests=requests, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("definition", "missing"),
    [
        pytest.param(_class(8000), (), id="the largest holds it"),
        pytest.param(
            _class(9000), ("it asks for 9 cpu, and the largest node, other/large, has 8",), id="larger than any node"
        ),
        pytest.param(
            _class(more={"fpga": 1}), ("it asks for 1 fpga, and no node has any",), id="a resource that no node has"
        ),
        pytest.param(
            _class(node_selector=(("disk", "ssd"),)),
            ("no node has disk=ssd; nodes have disk=hdd, nvme",),
            id="a value that no node has",
        ),
        pytest.param(
            _class(node_selector=(("zone", "a"),)),
            ("no node has zone=a; no node has a label zone",),
            id="a label that no node has",
        ),
        pytest.param(
            _class(
                affinity=((MatchExpression("disk", "NotIn", ("hdd", "nvme")), MatchExpression("gpu", "Lt", ("1",))),)
            ),
            ("no node has gpu Lt 1; nodes have gpu=yes",),
            id="an expression that holds nowhere",
        ),
        pytest.param(
            _class(platforms=(("linux", "arm64"),)),
            ("no node runs linux/arm64; nodes run /, linux/amd64",),
            id="a platform that no node runs",
        ),
        pytest.param(_class(node_name="p9"), ("there is no node p9",), id="a node that is not there"),
        pytest.param(
            _class(more={"gpu": 1}),
            ("it does not tolerate the taints of every node that suits it: only=gpu:NoSchedule",),
            id="taints that it does not tolerate",
        ),
        pytest.param(_class(more={"gpu": 1}, tolerations=(Toleration("only", "Exists"),)), (), id="tolerated"),
        pytest.param(
            _class(4000, node_selector=(("disk", "nvme"),)),
            ("none of the 1 nodes that its selectors and tolerations allow has more than 2 cpu",),
            id="each thing is somewhere, but not together",
        ),
        pytest.param(
            _class(node_selector=(("disk", "hdd"), ("gpu", "yes"))),
            ("nodes have each label, platform or toleration that it asks for, but no node has all of them",),
            id="each label is somewhere, but not together",
        ),
    ],
)
def test_missing_names_what_no_node_has_with_what_there_is(
    definition: SchedulingClass, missing: tuple[str, ...]
) -> None:
    """So that whoever reads it knows what to change: the job, or the nodes."""
    assert find_missing(_tables(), definition) == missing


def test_nothing_can_be_said_before_a_cluster_has_told_of_its_nodes() -> None:
    """Nodes may come any moment."""
    assert find_missing({"empty": NodeTable()}, _class()) == ("no cluster has told of any node",)


def test_nodes_that_could_hold_a_pod_are_counted_with_the_largest_whatever_runs_there() -> None:
    """Nodes that are full, cordoned or not ready could; cordoned ones are named, since somebody can free them."""
    table = _tables()["plain"]
    table.put(
        [
            NodeSpec(name="big", total={"cpu": 9000, "memory": 4 * _GI}, unschedulable=True),
            NodeSpec(name="down", total={"cpu": 4000}, ready=False),
        ]
    )
    table.take(table.index_of(["p0"]), table.axis.vector({"cpu": 3500})[:, None])
    fit = judge(table, _class(1000))
    assert (fit.node_count, fit.able_count, fit.usable_count, fit.fitting_count) == (4, 4, 2, 1)
    assert (fit.cordoned, fit.largest, fit.largest_amounts) == (("big",), "big", {"cpu": 9000})
    turned_away = {name: count for name, count in zip(fit.filters, fit.rejections, strict=True) if count}
    assert turned_away == {"node-ready": 2, "resources": 1}
