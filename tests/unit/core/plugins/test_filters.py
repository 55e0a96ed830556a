"""The built-in filters, one rule at a time."""

import numpy as np
import pytest

from argosy_core.framework import Cycle
from argosy_core.job.reading.classes import HostPort, MatchExpression, SchedulingClass, Toleration
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger
from argosy_core.nodes import HOSTNAME_LABEL, NodeSpec, Taint
from argosy_core.plugins import DEFAULT_PROFILE, Profile, build_framework
from argosy_core.plugins.filters import runs_on, tolerates
from argosy_core.plugins.selection import holds

ROOM = {"cpu": 4000, "memory": 1000}


def passing(nodes: list[NodeSpec], *classes: SchedulingClass, only: str | None = None) -> list[list[str]]:
    """Per class, the names of the nodes that pass all filters, or only the named one."""
    ledger = NodeLedger()
    ledger.put_nodes(nodes)
    for class_id, definition in enumerate(classes):
        ledger.define_class(class_id, definition)
    cycle = Cycle(ledger.nodes, ledger.classes.batch(np.arange(len(classes))), ledger.nodes.live()[None, :])
    framework = build_framework(Profile(filters=(only,)) if only else DEFAULT_PROFILE)
    alive = np.broadcast_to(framework.filter(cycle), cycle.shape)
    return [[ledger.nodes.names[row] for row in np.flatnonzero(mask)] for mask in alive]


def pod(*requests: tuple[str, int], **fields: object) -> SchedulingClass:
    """A class that asks for `requests`."""
    return SchedulingClass(requests=requests, **fields)  # type: ignore[arg-type]


def test_filters_stand_in_the_order_of_the_seed() -> None:
    """Ready, resources, constraints, taints, platform, host ports: the first that fails is the one counted."""
    assert build_framework().filter_names == (
        "node-ready", "resources", "node-selector", "taints", "platform", "host-ports",
    )  # fmt: skip


def test_node_ready_wants_a_node_that_is_ready_and_not_cordoned() -> None:
    """Unready and cordoned nodes take nothing."""
    nodes = [
        NodeSpec(name="ok", total=ROOM),
        NodeSpec(name="down", total=ROOM, ready=False),
        NodeSpec(name="cordoned", total=ROOM, unschedulable=True),
    ]
    assert passing(nodes, pod(), only="node-ready") == [["ok"]]


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        ((("cpu", 4000),), ["a", "b"]),
        ((("cpu", 4001),), ["b"]),
        ((("cpu", 1), ("memory", 1001)), ["b"]),
        ((("example.com/gpu", 1),), ["g"]),
        ((("cpu", 9000),), []),
        ((("unheard-of", 1),), []),
        ((), ["a", "b", "g"]),
    ],
    ids=["exact", "one-more", "each-resource", "only-one-has-it", "too-much", "nobody-has-it", "nothing"],
)
def test_resources_compares_each_resource_that_is_asked_for(
    requests: tuple[tuple[str, int], ...], expected: list[str]
) -> None:
    """As much must be free of each resource asked for."""
    nodes = [
        NodeSpec(name="a", total=ROOM),
        NodeSpec(name="b", total={"cpu": 8000, "memory": 2000}),
        NodeSpec(name="g", total={"example.com/gpu": 2}),
    ]
    assert passing(nodes, pod(*requests)) == [expected]


def test_resources_does_not_mind_a_shortage_of_what_is_not_asked_for() -> None:
    """A node below zero in memory still takes a pod that needs none."""
    nodes = [NodeSpec(name="a", total={"cpu": 4000, "memory": 0}, system={"memory": 50})]
    assert passing(nodes, pod(("cpu", 1)), pod(("memory", 1)), only="resources") == [["a"], []]


def test_resources_counts_pods() -> None:
    """A node that takes no more pods is full whatever it has free."""
    assert passing([NodeSpec(name="a", total={**ROOM, "pods": 0})], pod(("cpu", 1))) == [[]]


@pytest.mark.parametrize(
    ("operator", "values", "value", "expected"),
    [
        ("In", ("a", "b"), "a", True), ("In", ("a",), "c", False), ("In", ("a",), None, False),
        ("NotIn", ("a",), "a", False), ("NotIn", ("a",), "c", True), ("NotIn", ("a",), None, True),
        ("Exists", (), "", True), ("Exists", (), None, False),
        ("DoesNotExist", (), "x", False), ("DoesNotExist", (), None, True),
        ("Gt", ("5",), "6", True), ("Gt", ("5",), "5", False), ("Gt", ("5",), "x", False), ("Gt", ("5",), None, False),
        ("Lt", ("5",), "-4", True), ("Lt", ("5",), "5", False), ("Lt", ("x",), "1", False), ("Gt", (), "1", False),
    ],
)  # fmt: skip
def test_operators_follow_kubernetes(
    *, operator: str, values: tuple[str, ...], value: str | None, expected: bool
) -> None:
    """NotIn and DoesNotExist hold without the label; Gt and Lt compare integers."""
    assert holds(MatchExpression("k", operator, values), value) is expected  # type: ignore[arg-type]


ZONES = [
    NodeSpec(name="n1", total=ROOM, labels={"zone": "x", "cores": "8", HOSTNAME_LABEL: "h1"}),
    NodeSpec(name="n2", total=ROOM, labels={"zone": "y", "cores": "64", HOSTNAME_LABEL: "h2"}),
    NodeSpec(name="n3", total=ROOM, labels={"zone": "y", HOSTNAME_LABEL: "h3"}),
]


def term(*expressions: tuple[str, str, tuple[str, ...]]) -> tuple[MatchExpression, ...]:
    """One term of a required node affinity."""
    return tuple(MatchExpression(*expression) for expression in expressions)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ["n1", "n2", "n3"]),
        ({"node_selector": (("zone", "y"),)}, ["n2", "n3"]),
        ({"node_selector": (("cores", "64"), ("zone", "y"))}, ["n2"]),
        ({"node_selector": (("zone", "nowhere"),)}, []),
        ({"affinity": (term(("cores", "Gt", ("10",))),)}, ["n2"]),
        ({"affinity": (term(("zone", "In", ("x",))), term(("cores", "DoesNotExist", ())))}, ["n1", "n3"]),
        ({"affinity": (term(("zone", "In", ("y",)), ("cores", "Exists", ())),)}, ["n2"]),
        ({"affinity": ((),)}, []),
        ({"affinity": (term(("metadata.name", "In", ("n3",))),)}, ["n3"]),
        ({"affinity": (term(("metadata.name", "NotIn", ("n3",)), ("zone", "In", ("y",))),)}, ["n2"]),
        ({"affinity": (term(("metadata.name", "In", ("n1",))), term(("cores", "Gt", ("10",))))}, ["n1", "n2"]),
        ({"node_selector": ((HOSTNAME_LABEL, "h2"),)}, ["n2"]),
        ({"affinity": (term((HOSTNAME_LABEL, "Exists", ())),)}, ["n1", "n2", "n3"]),
        ({"node_name": "n1"}, ["n1"]),
        ({"node_name": "n1", "node_selector": (("zone", "y"),)}, []),
        ({"node_name": "nobody"}, []),
    ],
    ids=[
        "none", "label", "two-labels", "no-such-value", "greater", "any-term", "all-expressions", "empty-term",
        "name-field", "name-not-in", "name-or-label", "hostname", "hostname-exists", "node-name", "name-and-label",
        "unknown-node",
    ],
)  # fmt: skip
def test_node_selector_wants_labels_affinity_and_name(fields: dict[str, object], expected: list[str]) -> None:
    """All labels, one of the affinity terms with all its expressions, and the named node."""
    assert passing(ZONES, pod(("cpu", 1), **fields), only="node-selector") == [expected]


def test_node_selector_judges_many_classes_together_as_each_alone() -> None:
    """Selectors evaluated per group and per node mix in one batch."""
    classes = [
        pod(), pod(node_selector=(("zone", "y"),)), pod(node_name="n1"),
        pod(affinity=(term(("metadata.name", "NotIn", ("n1",))),)),
    ]  # fmt: skip
    assert passing(ZONES, *classes) == [["n1", "n2", "n3"], ["n2", "n3"], ["n1"], ["n2", "n3"]]


def test_node_selector_sees_nodes_that_came_later_and_labels_that_changed() -> None:
    """What was evaluated before is extended to new groups and made again for changed nodes."""
    ledger = NodeLedger()
    ledger.define_class(1, pod(node_selector=(("zone", "y"),)))
    ledger.define_class(2, pod(node_name="n2"))
    framework = build_framework()
    seen = []
    for nodes in (
        ZONES[:1], ZONES[1:], [NodeSpec(name="n1", total=ROOM, labels={"zone": "y"})],
        [NodeSpec(name="n2", total=ROOM, labels={"zone": "q"})],
    ):  # fmt: skip
        ledger.put_nodes(nodes)
        cycle = Cycle(ledger.nodes, ledger.classes.batch(np.array([0, 1])), ledger.nodes.live()[None, :])
        seen.append([np.flatnonzero(mask).tolist() for mask in framework.filter(cycle)])
    assert seen == [[[], []], [[1, 2], [1]], [[0, 1, 2], [1]], [[0, 2], [1]]]


@pytest.mark.parametrize(
    ("toleration", "taint", "expected"),
    [
        (Toleration("k", "Equal", "v", "NoSchedule"), Taint("k", "v", "NoSchedule"), True),
        (Toleration("k", "Equal", "w", "NoSchedule"), Taint("k", "v", "NoSchedule"), False),
        (Toleration("k", "Exists"), Taint("k", "v", "NoExecute"), True),
        (Toleration("k", "Exists", "", "NoSchedule"), Taint("k", "v", "NoExecute"), False),
        (Toleration("", "Exists"), Taint("anything", "v", "NoExecute"), True),
        (Toleration("", "Equal", "v"), Taint("k", "v", "NoSchedule"), False),
        (Toleration("other", "Exists"), Taint("k", "", "NoSchedule"), False),
        (Toleration("k", "Equal", ""), Taint("k", "", "NoSchedule"), True),
    ],
    ids=["equal", "other-value", "any-effect", "other-effect", "every-key", "empty-key", "other-key", "empty-value"],
)
def test_tolerations_follow_kubernetes(*, toleration: Toleration, taint: Taint, expected: bool) -> None:
    """Key, value and effect must match, with Exists and empty texts as wild cards."""
    assert tolerates((toleration,), taint) is expected


def test_taints_repel_pods_that_do_not_tolerate_every_one() -> None:
    """NoSchedule and NoExecute repel; PreferNoSchedule does not."""
    nodes = [
        NodeSpec(name="free", total=ROOM),
        NodeSpec(name="soft", total=ROOM, taints=(Taint("k", "", "PreferNoSchedule"),)),
        NodeSpec(name="one", total=ROOM, taints=(Taint("k"),)),
        NodeSpec(name="two", total=ROOM, taints=(Taint("k"), Taint("gone", "", "NoExecute"))),
    ]
    classes = [pod(), pod(tolerations=(Toleration("k", "Exists"),)), pod(tolerations=(Toleration("", "Exists"),))]
    assert passing(nodes, *classes) == [["free", "soft"], ["free", "soft", "one"], ["free", "soft", "one", "two"]]


@pytest.mark.parametrize(
    ("wanted", "node", "expected"),
    [
        ((), ("", ""), True),
        ((("linux", "amd64"),), ("linux", "x86_64"), False),
        ((("linux", "x86_64"),), ("linux", "amd64"), False),
        ((("linux", "aarch64"),), ("linux", "arm64"), False),
        ((("linux", "amd64"),), ("linux", "arm64"), False),
        ((("windows", "amd64"), ("linux", "arm64")), ("linux", "arm64"), True),
        ((("", "arm64"),), ("linux", "arm64"), True),
        ((("linux", ""),), ("linux", "riscv64"), True),
        ((("linux", "amd64"),), ("", ""), False),
    ],
    ids=["every", "x86_64-node", "x86_64-pod", "aarch64", "other-arch", "one-of", "any-os", "any-arch", "unknown-node"],
)
def test_platforms_are_compared_literally(
    *, wanted: tuple[tuple[str, str], ...], node: tuple[str, str], expected: bool
) -> None:
    """As a kubelet compares labels: x86_64 is not amd64, and a pod sent there would be refused for ever."""
    assert runs_on(wanted, node) is expected
    spec = NodeSpec(name="n", total=ROOM, platform=node)
    assert passing([spec], pod(platforms=wanted)) == [["n"] if expected else []]


def test_label_of_a_node_outweighs_the_platform_it_tells() -> None:
    """A kubelet holds selectors against labels; what the node tells counts where it has no such label."""
    labelled = NodeSpec(name="n", total=ROOM, platform=("linux", "amd64"), labels={"kubernetes.io/arch": "x86_64"})
    assert passing([labelled], pod(platforms=(("linux", "x86_64"),))) == [["n"]]


def test_host_ports_want_the_port_free_on_the_node() -> None:
    """Protocol and number together are the port."""
    ledger = NodeLedger()
    rows = ledger.put_nodes([NodeSpec(name="a", total=ROOM), NodeSpec(name="b", total=ROOM)])
    ledger.define_class(1, pod(host_ports=(HostPort("TCP", 80),)))
    ledger.define_class(2, pod(host_ports=(HostPort("UDP", 80), HostPort("TCP", 81))))
    ledger.define_class(3, pod())
    ledger.reserve(np.array([0], np.int32), rows[:1])
    ledger.keep(Members.of([1], [1]), np.array([0], np.int32), rows[:1])
    cycle = Cycle(ledger.nodes, ledger.classes.batch(np.array([0, 1, 2])), rows[None, :])
    assert build_framework().filter(cycle).tolist() == [[False, True], [True, True], [True, True]]
