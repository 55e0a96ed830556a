"""What the leader notes of nodes, for people."""

import json

import numpy as np

from argosy_core.nodes import NodeTable, Taint
from argosy_core.scheduler.columns.messages import CapacityColumns
from argosy_server.leader.show.notes import NodeNotes


def _columns(
    nodes: dict[int, str], resources: tuple[str, ...], amounts: list[list[int]], flags: list[int]
) -> CapacityColumns:
    """Return changed nodes, as free as they are large."""
    values = np.array(amounts, dtype=np.int64).reshape(len(nodes), len(resources))
    return CapacityColumns(
        incarnation=1,
        resources=resources,
        node=np.array(list(nodes), dtype=np.int32),
        names=tuple(nodes.values()),
        allocatable=values,
        free=values,
        flag=np.array(flags, dtype=np.int8),
        total=np.zeros(len(resources), dtype=np.int64),
        total_free=np.zeros(len(resources), dtype=np.int64),
        node_count=len(nodes),
        placement_count=0,
        fitting=np.zeros(0, np.int32),
        fitting_room=np.zeros(0, np.int32),
    )


def test_nodes_come_and_go_and_are_listed_by_name() -> None:
    """A removed node is not listed; a resource that joins later gets a column of its own."""
    notes = NodeNotes()
    group = json.dumps({"labels": {"zone": "a"}, "taints": []}).encode()
    zero = np.zeros(2, dtype=np.int32)
    notes.take(_columns({1: "b", 0: "a"}, ("cpu",), [[4000], [8000]], [1, 3]), [group], zero)
    notes.take(_columns({2: "c"}, ("gpu", "cpu"), [[2, 1000]], [1]), [b""], zero[:1])

    rows = notes.rows()
    assert [(row.name, row.flag, row.allocatable) for row in rows] == [
        ("a", 3, {"cpu": 8000}),
        ("b", 1, {"cpu": 4000}),
        ("c", 1, {"gpu": 2, "cpu": 1000}),
    ]
    assert rows[0].labels == {"zone": "a"}

    notes.take(_columns({1: "b"}, ("cpu",), [[0]], [4]), [group], zero[:1])
    assert [row.name for row in notes.rows()] == ["a", "c"]


def test_nodes_are_judged_as_they_were_told() -> None:
    """With their labels and taints; those that went are known as such, and what is no taint is left out."""
    notes = NodeNotes()
    taints = [{"key": "only", "value": "gpu", "effect": "NoSchedule"}, 7]
    group = json.dumps({"labels": {"zone": "a"}, "taints": taints}).encode()
    told = _columns({0: "a", 1: "b", 2: "c"}, ("cpu",), [[4000], [8000], [0]], [1, 3, 4])
    notes.take(told, [group, b""], np.array([0, 1, 0], dtype=np.int32))

    table = NodeTable.of(notes.columns())
    assert table.live().tolist() == [0, 1]
    assert table.usable().tolist() == [True, False, False]
    assert table.free[table.axis.index("cpu")].tolist() == [4000, 8000, 0]
    assert table.groups[int(table.group[0])].labels == (("zone", "a"),)
    assert table.groups[int(table.group[0])].taints == (Taint("only", "gpu"),)
    assert not table.groups[int(table.group[1])].labels
