"""The node table: columns, generations, groups, cordons, host ports."""

import numpy as np
import pytest

from argosy_core.job.reading.classes import HostPort
from argosy_core.nodes import HOSTNAME_LABEL, NodeColumns, NodeFlag, NodeSpec, NodeTable, PortClaims, Taint

WEB = HostPort("TCP", 8080)


def node(name: str, *, cpu: int = 4000, **fields: object) -> NodeSpec:
    """A node of `cpu` millicores and 1000 bytes."""
    return NodeSpec(name=name, total={"cpu": cpu, "memory": 1000}, **fields)  # type: ignore[arg-type]


def amounts(*rows: tuple[int, int, int]) -> np.ndarray:
    """(resource, n) amounts of n pods given as (cpu, memory, pods)."""
    return np.array(rows, np.int64).T


def test_allocatable_is_total_minus_system_from_the_first_day() -> None:
    """What the system keeps is never offered (seed 001)."""
    table = NodeTable()
    table.put([NodeSpec(name="a", total={"cpu": 4000, "memory": 1000}, system={"cpu": 500, "memory": 100})])
    assert table.allocatable[:, 0].tolist() == [3500, 900, 110]
    assert table.free[:, 0].tolist() == [3500, 900, 110]
    assert table.system[:, 0].tolist() == [500, 100, 0]


def test_put_keeps_what_is_reserved_when_a_node_changes_its_size() -> None:
    """A changed node is re-derived: free is the new allocatable minus what is taken, even if that is negative."""
    table = NodeTable()
    rows = table.put([node("a")])
    table.take(rows, amounts((3000, 10, 1)))
    table.put([node("a", cpu=2000)])
    assert table.free[:, 0].tolist() == [-1000, 990, 109]
    table.put([node("a", cpu=8000)])
    assert table.free[0, 0] == 5000


def test_put_counts_only_real_changes() -> None:
    """Describing a node as it is changes no generation of it, so resending all nodes costs the leader nothing."""
    table = NodeTable()
    table.put([node("a"), node("b")])
    before = table.generation
    table.put([node("a"), node("b", cpu=5000)])
    assert table.changed_since(before).tolist() == [1]
    assert table.changed_since(table.generation).tolist() == []


def test_rows_are_stable_when_nodes_come_and_go() -> None:
    """A hole is filled by the same name only while there are few."""
    table = NodeTable()
    table.put([node("a"), node("b")])
    table.take(np.array([0]), amounts((1000, 0, 1)))
    assert table.remove(["a", "nobody"]).tolist() == [0]
    assert table.put([node("c")]).tolist() == [2]
    assert table.flags[0] == NodeFlag.REMOVED
    assert table.allocatable[:, 0].tolist() == [0, 0, 0]
    assert table.free[:, 0].tolist() == [-1000, 0, -1]
    assert table.live().tolist() == [1, 2]
    assert table.remove(["a"]).tolist() == []
    assert table.put([node("a")]).tolist() == [0]
    assert table.free[:, 0].tolist() == [3000, 1000, 109]
    assert table.flags[0] == NodeFlag.READY


def test_table_keeps_its_size_while_nodes_come_and_go() -> None:
    """A day of nodes that are added and taken away leaves memory flat; whatever is booked keeps its row and name."""
    table, alive, step = NodeTable(), 200, 100
    (booked,) = table.put([node("booked")]).tolist()
    table.take(np.array([booked]), amounts((1000, 0, 1)))
    table.remove(["booked"])
    begun = table.put([node(f"n{number}", cpu=1000) for number in range(alive)])
    assert not table.renamed_since(begun, 0).any()
    for begin in range(alive, 10_000, step):
        table.put([node(f"n{number}", cpu=begin) for number in range(begin, begin + step)])
        table.remove([f"n{number}" for number in range(begin - alive, begin - alive + step)])
    assert len(table) < 4 * alive
    assert table.live().size == alive
    assert {table.names[row] for row in table.live().tolist()} == {f"n{number}" for number in range(9_800, 10_000)}
    assert table.index_of(["booked", "n0", "n9999"]).tolist()[:2] == [booked, -1]
    assert (table.names[booked], table.free[0, booked]) == ("booked", -1000)
    last = int(table.index_of(["n9999"])[0])
    assert (table.allocatable[0, last], table.free[0, last]) == (9_900, 9_900)
    assert table.renamed_since(np.array([last, booked, -1, 10**6]), 1).tolist() == [True, False, False, False]


def test_growth_keeps_every_column() -> None:
    """Growing beyond the first capacity loses nothing."""
    table = NodeTable()
    rows = table.put([node(f"n{i}", cpu=1000 + i, labels={"zone": str(i % 3)}) for i in range(500)])
    assert rows.tolist() == list(range(500))
    assert table.allocatable[0].tolist() == [1000 + i for i in range(500)]
    assert table.usable().all()
    assert len(table.groups) == 3
    assert table.index_of(["n499", "nobody", "n0"]).tolist() == [499, -1, 0]


def test_axis_grows_when_a_node_has_a_new_resource() -> None:
    """A resource that one node has is 0 on the others."""
    table = NodeTable()
    table.put([node("a")])
    table.put([NodeSpec(name="g", total={"cpu": 1000, "example.com/gpu": 8})])
    assert table.axis.names == ("cpu", "memory", "pods", "example.com/gpu")
    assert table.free[3].tolist() == [0, 8]
    assert table.inverse_allocatable[3].tolist() == [0.0, 0.125]


def test_amounts_taken_twice_on_one_node_add_up_and_may_go_negative() -> None:
    """Reservation is immediate and also negative (seed 000)."""
    table = NodeTable()
    table.put([node("a"), node("b")])
    table.take(np.array([0, 0, 1]), amounts((3000, 1, 1), (3000, 1, 1), (5, 5, 1)))
    assert table.free[0].tolist() == [-2000, 3995]


def test_nodes_rise_only_where_more_may_fit_than_before() -> None:
    """Taking, rolling back, removing and cordoning are no rise; giving, growing, uncordoning and relabelling are."""
    table = NodeTable()
    rows = table.put([node("a"), node("b")])
    pod = amounts((1, 1, 1), (1, 1, 1))

    def risen(change: object) -> list[int]:
        generation = table.generation
        assert callable(change)
        change()
        return table.risen_since(generation).tolist()

    assert risen(lambda: table.take(rows, pod)) == []
    assert risen(lambda: table.roll_back(rows, pod)) == []
    assert risen(lambda: table.put([node("a", cpu=3999)])) == []
    assert risen(lambda: table.put([node("a", cpu=4001)])) == [0]
    assert risen(lambda: table.set_cordons(["b"])) == []
    assert risen(lambda: table.set_cordons([])) == [1]
    assert risen(lambda: table.put([node("b", labels={"zone": "x"})])) == [1]
    assert risen(lambda: table.put([node("b", labels={"zone": "x"}, taints=(Taint("k"),))])) == [1]
    assert risen(lambda: table.put([node("b", labels={"zone": "x"}, taints=(Taint("k"),), ready=False)])) == []
    assert risen(lambda: table.give(rows[:1], amounts((1, 1, 1)))) == [0]
    assert risen(lambda: table.take_ports(1, (WEB,))) == []
    assert risen(lambda: table.give_ports(1, (WEB,))) == [1]
    assert risen(lambda: table.remove(["a"])) == []
    assert risen(lambda: table.put([node("a")])) == [0]


def test_nodes_are_described_anew_where_anything_but_reservations_changed() -> None:
    """Taking and giving change what is free, and not what a node is; names alone are no node yet."""
    table = NodeTable()
    rows = table.put([node("a"), node("b")])
    pod = amounts((1, 1, 1), (1, 1, 1))

    def described(change: object) -> list[int]:
        generation = table.generation
        assert callable(change)
        change()
        return table.described_since(generation).tolist()

    assert table.described_since(0).tolist() == [0, 1]
    assert described(lambda: table.take(rows, pod)) == []
    assert described(lambda: table.roll_back(rows, pod)) == []
    assert described(lambda: table.give(rows, pod)) == []
    assert described(lambda: table.put([node("a"), node("b", cpu=5000)])) == [1]
    assert described(lambda: table.set_cordons(["a"])) == [0]
    assert described(lambda: table.put([node("a", labels={"zone": "x"})])) == [0]
    assert described(lambda: table.put([node("a", labels={"zone": "x"}, ready=False)])) == [0]
    assert described(lambda: table.hold_name("c")) == []
    assert described(lambda: table.put([NodeSpec(name=f"n{number}", total={}) for number in range(99)]))[-1] == 101
    assert described(lambda: table.remove(["b"])) == [1]


@pytest.mark.parametrize(
    ("unschedulable", "cordons", "usable"),
    [(False, [], True), (True, [], False), (False, ["a"], False), (True, ["a"], False), (False, ["other"], True)],
    ids=["free", "by-kubernetes", "by-administrator", "by-both", "another-node"],
)
def test_cordons_of_kubernetes_and_administrator_both_count(
    *, unschedulable: bool, cordons: list[str], usable: bool
) -> None:
    """A node is cordoned if either says so, whichever was told first."""
    for nodes_first in (True, False):
        table = NodeTable()
        if nodes_first:
            table.put([node("a", unschedulable=unschedulable)])
        table.set_cordons(cordons)
        table.put([node("a", unschedulable=unschedulable)])
        assert table.usable().tolist() == [usable]
        table.set_cordons([])
        assert table.usable().tolist() == [not unschedulable]


def test_cordoning_a_removed_node_does_not_bring_it_back() -> None:
    """A cordon for a node that went is remembered for its return only."""
    table = NodeTable()
    table.put([node("a")])
    table.remove(["a"])
    table.set_cordons(["a"])
    assert table.flags.tolist() == [NodeFlag.REMOVED]
    table.put([node("a")])
    assert table.flags.tolist() == [NodeFlag.READY | NodeFlag.CORDONED]


def test_hostnames_do_not_split_groups() -> None:
    """Labels that are a node's own would make every node a group; they are kept per node."""
    table = NodeTable()
    table.put([node(f"n{i}", labels={"zone": "z", HOSTNAME_LABEL: f"h{i}"}) for i in range(10)])
    assert len(table.groups) == 1
    assert table.hostnames[3] == "h3"


def test_platform_is_that_of_the_labels_else_what_the_node_tells() -> None:
    """Selectors are held against labels; a node without them has the platform that it tells."""
    table = NodeTable()
    table.put([node("a", labels={"kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64"})])
    table.put([node("b", labels={"kubernetes.io/os": "linux"}, platform=("windows", "amd64"))])
    assert [table.groups[int(group)].platform for group in table.group] == [("linux", "arm64"), ("linux", "amd64")]


def test_labels_that_change_all_the_time_cost_no_memory() -> None:
    """Groups that no node has any more are dropped, and the caches' version number grows with it."""
    table = NodeTable()
    for beat in range(500):
        table.put([node("a", labels={"beat": str(beat)}), node("b", labels={"zone": "x"})])
    assert len(table.groups) < 150
    assert table.groups.compaction > 0
    assert dict(table.groups[int(table.group[0])].labels) == {"beat": "499"}
    assert dict(table.groups[int(table.group[1])].labels) == {"zone": "x"}


def test_totals_count_usable_nodes_and_no_negative_free() -> None:
    """Sums leave out cordoned, unready and removed nodes; a node below zero counts as full."""
    table = NodeTable()
    table.put([node("a"), node("b"), node("c", ready=False), node("d")])
    table.set_cordons(["d"])
    table.take(np.array([0]), amounts((9000, 1, 1)))
    totals = table.totals()
    assert totals.allocatable.tolist() == [8000, 2000, 220]
    assert totals.free.tolist() == [4000, 1999, 219]
    assert (totals.node_count, totals.usable_count) == (4, 2)


def test_host_ports_are_counted_per_node() -> None:
    """A port is in use until as many pods gave it back as took it."""
    table = NodeTable()
    table.put([node("a")])
    table.take_ports(0, (WEB,))
    table.take_ports(0, (WEB,))
    table.give_ports(0, (WEB,))
    assert table.ports.counts() == {(WEB, 0): 1}
    table.give_ports(0, (WEB,))
    assert table.ports.counts() == {}


@pytest.mark.parametrize(
    ("held", "wanted", "is_free"),
    [
        (("TCP", 80), ("TCP", 80), False),
        (("TCP", 80), ("UDP", 80), True),
        (("TCP", 80), ("TCP", 81), True),
        (("TCP", 80, "10.0.0.1"), ("TCP", 80, "10.0.0.2"), True),
        (("TCP", 80, "10.0.0.1"), ("TCP", 80, "10.0.0.1"), False),
        (("TCP", 80), ("TCP", 80, "10.0.0.1"), False),
        (("TCP", 80, "10.0.0.1"), ("TCP", 80), False),
    ],
    ids=["same", "protocol", "number", "other-address", "same-address", "one-of-all", "all-of-one"],
)
def test_ports_clash_as_in_kubernetes(*, held: tuple, wanted: tuple, is_free: bool) -> None:
    """Same protocol and number, and the same address or none on either side; two pods and two nodes likewise."""
    ours, theirs = HostPort(*held), HostPort(*wanted)
    claims = PortClaims()
    claims.take(3, (ours,))
    assert claims.is_free(3, (theirs,)) is is_free
    assert claims.is_free(2, (theirs,))
    assert claims.taken_at((theirs,)) == ([] if is_free else [3])
    assert ours.clashes_with(theirs) is not is_free
    copy = claims.at([1, 3])
    assert copy.is_free(1, (theirs,)) is is_free
    copy.take(1, (theirs,))
    claims.give(3, (ours,))
    assert claims.counts() == {}
    assert len(copy.counts()) == (1 if ours == theirs else 2)


def test_hold_name_keeps_a_row_for_a_node_not_seen_yet() -> None:
    """A placement may name a node before the node is seen; the row then becomes that node."""
    table = NodeTable()
    assert table.hold_name("a") == 0
    assert table.hold_name("a") == 0
    assert table.flags[0] == NodeFlag.REMOVED
    table.take(np.array([0]), amounts((1000, 0, 1)))
    assert table.put([node("a")]).tolist() == [0]
    assert table.free[0, 0] == 3000


def test_table_made_of_columns_is_read_as_the_one_that_was_told() -> None:
    """Amounts, states and groups; so what another process has told can be judged by the same filters."""
    told = NodeTable()
    told.put(
        [
            NodeSpec(name="a", total={"cpu": 4000, "gpu": 2}, labels={"disk": "ssd"}),
            NodeSpec(name="b", total={"cpu": 2000}, ready=False, taints=(Taint("t", "v"),)),
            NodeSpec(name="gone", total={"cpu": 1000}),
        ]
    )
    told.remove(["gone"])
    told.take(np.array([0]), told.axis.vector({"cpu": 500})[:, None])
    copy = NodeTable.of(
        NodeColumns(
            names=told.names,
            groups=[told.groups[index] for index in range(len(told.groups))],
            group=told.group,
            flags=told.flags,
            resources=("gpu", "cpu", "pods"),
            allocatable=told.allocatable[[3, 0, 2]].T,
            free=told.free[[3, 0, 2]].T,
        )
    )
    assert copy.axis == told.axis
    assert (copy.free == told.free).all()
    assert (copy.allocatable == told.allocatable).all()
    assert np.allclose(copy.inverse_allocatable, told.inverse_allocatable)
    assert copy.live().tolist() == told.live().tolist()
    assert copy.usable().tolist() == told.usable().tolist()
    assert [copy.groups[at] for at in copy.group.tolist()] == [told.groups[at] for at in told.group.tolist()]
    assert copy.index_of(["b"]).tolist() == told.index_of(["b"]).tolist()
    copy.put([NodeSpec(name="new", total={"cpu": 1})])
    assert len(copy) == 4
    assert len(NodeTable.of(NodeColumns(
        names=[], groups=[], group=np.zeros(0, np.int32), flags=np.zeros(0, np.uint8), resources=(),
        allocatable=np.zeros((0, 0), np.int64), free=np.zeros((0, 0), np.int64),
    ))) == 0  # fmt: skip
