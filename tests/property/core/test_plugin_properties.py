"""Vectorised plugins answer as plain per-node functions do; sampling offers only what passes every filter."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy_core.framework import (
    Cycle,
    Framework,
    NodeView,
    PodView,
    Point,
    Registration,
    per_node_filter,
    per_node_score,
)
from argosy_core.job.reading.classes import HostPort, MatchExpression, SchedulingClass, Toleration
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger
from argosy_core.nodes import HOSTNAME_LABEL, NodeSpec, Taint
from argosy_core.placement import NodeSampler, SampleRequest
from argosy_core.plugins import build_framework

KEYS = ("zone", "cores", HOSTNAME_LABEL)
VALUES = ("x", "y", "5", "12")
PORTS = (HostPort("TCP", 80), HostPort("UDP", 80), HostPort("TCP", 80, "10.0.0.1"))
GPU = "example.com/gpu"
ARCHITECTURES = ("amd64", "x86_64", "arm64", "aarch64", "")

labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
taints = st.lists(
    st.builds(
        Taint,
        key=st.sampled_from("ab"), value=st.sampled_from(["", "v"]),
        effect=st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"]),
    ),
    max_size=2,
).map(tuple)  # fmt: skip
node_fields = st.fixed_dictionaries(
    {
        "total": st.fixed_dictionaries(
            {"cpu": st.integers(0, 6), "memory": st.integers(0, 6), "pods": st.integers(0, 3)},
            optional={GPU: st.integers(0, 3)},
        ),
        "system": st.fixed_dictionaries({}, optional={"cpu": st.integers(0, 7)}),
        "labels": labels,
        "taints": taints,
        "platform": st.tuples(st.sampled_from(["linux", "windows", ""]), st.sampled_from(ARCHITECTURES)),
        "ready": st.sampled_from([True, True, True, False]),
        "unschedulable": st.sampled_from([False, False, False, True]),
    }
)
expressions = st.one_of(
    st.builds(
        MatchExpression,
        key=st.sampled_from((*KEYS, "metadata.name")),
        operator=st.sampled_from(["In", "NotIn"]),
        values=st.lists(st.sampled_from((*VALUES, "n0", "n1")), min_size=1, max_size=2).map(tuple),
    ),
    st.builds(MatchExpression, key=st.sampled_from(KEYS), operator=st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(
        MatchExpression,
        key=st.sampled_from(KEYS), operator=st.sampled_from(["Gt", "Lt"]),
        values=st.sampled_from([("7",), ("x",)]),
    ),
)  # fmt: skip
classes = st.builds(
    SchedulingClass,
    requests=st.dictionaries(st.sampled_from(["cpu", "memory", GPU]), st.integers(1, 4)).map(
        lambda amounts: tuple(sorted(amounts.items()))
    ),
    node_selector=st.one_of(st.just({}), labels).map(lambda wanted: tuple(sorted(wanted.items()))),
    affinity=st.lists(st.lists(expressions, max_size=2).map(tuple), max_size=2).map(tuple),
    tolerations=st.lists(
        st.builds(
            Toleration,
            key=st.sampled_from(["", "a", "b"]), operator=st.sampled_from(["Equal", "Exists"]),
            value=st.sampled_from(["", "v"]), effect=st.sampled_from(["", "NoSchedule", "NoExecute"]),
        ),
        max_size=2,
    ).map(tuple),
    platforms=st.lists(
        st.tuples(st.sampled_from(["linux", ""]), st.sampled_from(ARCHITECTURES)), max_size=2
    ).map(tuple),
    host_ports=st.lists(st.sampled_from(PORTS), max_size=2, unique=True).map(tuple),
    node_name=st.sampled_from(["", "", "", "n1"]),
)  # fmt: skip


def ready(_: PodView, node: NodeView) -> bool:
    """Plain meaning of node-ready."""
    return node.usable


def resources(pod: PodView, node: NodeView) -> bool:
    """Plain meaning of resources."""
    return all(node.free.get(name, 0) >= amount for name, amount in pod.requests.items())


def _holds(expression: MatchExpression, node: NodeView) -> bool:
    """Plain meaning of one expression."""
    value = node.name if expression.key == "metadata.name" else node.labels.get(expression.key)
    match expression.operator:
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "In":
            return value in expression.values
        case "NotIn":
            return value not in expression.values
    try:
        number, bound = int(value or ""), int(expression.values[0])
    except ValueError:
        return False
    return number > bound if expression.operator == "Gt" else number < bound


def selector(pod: PodView, node: NodeView) -> bool:
    """Plain meaning of node-selector."""
    wanted = pod.definition
    terms = [bool(term) and all(_holds(expression, node) for expression in term) for term in wanted.affinity]
    return (
        wanted.node_name in {"", node.name}
        and all(node.labels.get(key) == value for key, value in wanted.node_selector)
        and (not terms or any(terms))
    )


def tolerated(pod: PodView, node: NodeView) -> bool:
    """Plain meaning of taints."""

    def bears(toleration: Toleration, taint: Taint) -> bool:
        if toleration.effect and toleration.effect != taint.effect:
            return False
        if toleration.operator == "Exists":
            return toleration.key in {"", taint.key}
        return (toleration.key, toleration.value) == (taint.key, taint.value)

    repelling = [taint for taint in node.taints if taint.effect != "PreferNoSchedule"]
    return all(any(bears(toleration, taint) for toleration in pod.definition.tolerations) for taint in repelling)


def platform(pod: PodView, node: NodeView) -> bool:
    """Plain meaning of platform."""
    os, arch = node.platform
    wanted = pod.definition.platforms
    return not wanted or any((not w_os or w_os == os) and (not w_arch or w_arch == arch) for w_os, w_arch in wanted)


def ports(pod: PodView, node: NodeView) -> bool:
    """Plain meaning of host-ports."""
    return not node.host_ports & set(pod.definition.host_ports)


def least(pod: PodView, node: NodeView) -> float:
    """Plain meaning of least-allocated."""
    names = {"cpu", "memory"} | {name for name in pod.requests if name != "pods"}
    shares = [
        max(0.0, (node.free.get(name, 0) - pod.requests.get(name, 0)) / node.allocatable[name])
        if node.allocatable.get(name, 0) > 0
        else 0.0
        for name in sorted(names)
    ]
    return 100 * sum(shares) / len(shares)


def devices_free(pod: PodView, node: NodeView) -> float:
    """Plain meaning of keep-devices."""
    there = {name for name in node.allocatable if name not in {"cpu", "memory", "pods"} and node.allocatable[name] > 0}
    asked = {name for name in pod.requests if name not in {"cpu", "memory", "pods"}}
    shares = [
        max(0.0, (node.free.get(name, 0) - pod.requests.get(name, 0)) / node.allocatable[name])
        if node.allocatable.get(name, 0) > 0
        else 0.0
        for name in sorted(asked or there)
    ]
    return -100 * sum(shares) / max(1, len(shares))


PLAIN = Framework(
    [
        *(
            Registration(point=Point.FILTER, name=name, function=per_node_filter(function))
            for name, function in zip(
                build_framework().filter_names, (ready, resources, selector, tolerated, platform, ports), strict=True
            )
        ),
        Registration(point=Point.SCORE, name="least-allocated", function=per_node_score(least)),
        Registration(point=Point.SCORE, name="keep-devices", function=per_node_score(devices_free), weight=1.5),
    ]
)


def build(nodes: list[dict], definitions: list[SchedulingClass], used: list[tuple[int, int]]) -> NodeLedger:
    """A ledger with nodes, classes, and pods of some classes on some nodes."""
    ledger = NodeLedger()
    rows = ledger.put_nodes([NodeSpec(name=f"n{index}", **fields) for index, fields in enumerate(nodes)])
    for class_id, definition in enumerate(definitions):
        ledger.define_class(class_id, definition)
    for handle, (class_id, node) in enumerate(used):
        slot = np.array([class_id % len(definitions)], np.int32)
        row = rows[node % len(nodes)][None]
        ledger.reserve(slot, row)
        ledger.keep(Members.of([handle + 1], [1]), slot, row)
    return ledger


worlds = st.tuples(
    st.lists(node_fields, min_size=1, max_size=8),
    st.lists(classes, min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 7)), max_size=5),
)


@settings(deadline=None, max_examples=150)
@given(world=worlds)
def test_vectorised_plugins_answer_as_plain_functions_do(world: tuple) -> None:
    """Masks of each filter and of all, and scores of many pods at once equal those of one pod and node."""
    ledger = build(*world)
    batch = ledger.classes.batch(np.arange(len(ledger.classes)))
    live = ledger.nodes.live()
    vectorised, plain = (Cycle(ledger.nodes, batch, live[None, :]) for _ in range(2))
    framework = build_framework()
    each = [np.broadcast_to(mask, vectorised.shape).tolist() for mask in framework.filter_each(vectorised)]
    assert each == [mask.tolist() for mask in PLAIN.filter_each(plain)]
    alive, plain_alive = framework.filter(vectorised), PLAIN.filter(plain)
    assert alive.tolist() == plain_alive.tolist()
    assert np.allclose(framework.score(vectorised)[alive], PLAIN.score(plain)[alive])
    # The same with a row of nodes per pod, and places left empty.
    wide = np.tile(np.append(live, -1), (len(batch), 1))
    per_pod = framework.filter(Cycle(ledger.nodes, batch, wide))
    assert per_pod[:, :-1].tolist() == plain_alive.tolist()
    assert not per_pod[:, -1].any()


@settings(deadline=None, max_examples=100)
@given(
    world=worlds,
    ratio=st.sampled_from([0.0, 0.3, 1.0]),
    strategy=st.sampled_from(["random", "round-robin"]),
    complete=st.booleans(),
    changes=st.lists(st.tuples(st.integers(0, 7), node_fields), max_size=2),
)
def test_sampling_offers_only_and_finds_all_nodes_that_pass_every_filter(
    *, world: tuple, ratio: float, strategy: str, complete: bool, changes: list[tuple[int, dict]]
) -> None:
    """Candidates pass all filters now; a class for which some node passes is offered one, also after changes."""
    ledger = build(*world)
    sampler, rng = NodeSampler(ledger), np.random.default_rng(0)
    count = len(ledger.classes)
    request = SampleRequest(
        class_ids=np.arange(count, dtype=np.int32), wanted=np.full(count, 2, np.int32),
        complete=np.full(count, complete, np.int8), resources=("cpu", GPU), nodes_to_sample_ratio=ratio,
        strategy=strategy,
    )  # fmt: skip
    for change in (None, None, *changes):
        if change is not None:
            ledger.put_nodes([NodeSpec(name=f"n{change[0] % len(world[0])}", **change[1])])
        reply = sampler.sample(request, rng)
        cycle = Cycle(ledger.nodes, ledger.classes.batch(np.arange(count)), ledger.nodes.live()[None, :])
        passing = PLAIN.filter(cycle)
        for class_id in range(count):
            places = reply.candidate[reply.offset[class_id] : reply.offset[class_id + 1]]
            nodes = reply.node[places].tolist()
            right = set(np.flatnonzero(passing[class_id]).tolist())
            assert len(set(nodes)) == len(nodes)
            assert set(nodes) <= right
            assert bool(nodes) == bool(right)
            assert reply.eligible[class_id] <= len(right)
            if reply.complete[class_id]:
                assert reply.eligible[class_id] == len(right)
        assert reply.free[:, 0].tolist() == ledger.nodes.free[0, reply.node].tolist()
        if complete:
            assert reply.complete.all()
            assert (reply.rejection.sum(axis=1) == np.where(passing.any(axis=1), 0, len(ledger.nodes.live()))).all()
            assert [bool(text) for text in reply.nearest_misses] == (~passing.any(axis=1)).tolist()
