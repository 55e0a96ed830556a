"""Kinds of objects in the table: whoever submits may name as many as they like."""

from __future__ import annotations

import json

import pytest

from argosy_core.job.states import ObjectState
from argosy_core.job.tables.members import Members
from argosy_core.reconcile import kind_table
from argosy_core.reconcile.machine import Event
from argosy_core.reconcile.object_table import ObjectTable
from argosy_core.reconcile.rendering import RUN_LABEL, BagTemplate, RunIdentity


def test_kinds_that_no_object_has_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table stays as large as what is live, and objects keep their kind."""
    monkeypatch.setattr(kind_table, "_MANY_KINDS", 16)
    table = ObjectTable()
    kept = table.add(Members.of([1], [1]), kinds=table.kind_numbers(["Widget.example.test"]))
    for number in range(1000):
        slots = table.add(Members.of([2], [1]), kinds=table.kind_numbers([f"K{number}.example.test"]))
        assert table.kinds.names[table.kind[slots[0]]] == f"K{number}.example.test"
        table.transit(slots, Event.CLOSE)
        table.forget(slots)
    assert table.kinds.names[0] == "Pod"
    assert table.kinds.names[table.kind[kept[0]]] == "Widget.example.test"
    assert len(table.kinds.names) <= 17


def test_more_kinds_than_can_be_numbered_share_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing overflows, and nothing is taken for a pod."""
    monkeypatch.setattr(kind_table, "_MANY_KINDS", 8)
    monkeypatch.setattr(kind_table, "_MOST_KINDS", 10)
    table = ObjectTable()
    slots = [
        int(table.add(Members.of([number], [1]), kinds=table.kind_numbers([f"K{number}.example.test"]))[0])
        for number in range(40)
    ]
    assert len(table.kinds.names) == 11
    assert table.kind[slots].min() == 1
    assert table.state[slots].tolist() == [ObjectState.LEASED] * 40


def test_custom_resources_are_rendered_as_all_objects_are() -> None:
    """The run's own name and our labels; what the cluster writes is taken away; a pod is no other group's Pod."""
    manifests = [
        {"apiVersion": "x.test/v1", "kind": "Pod", "metadata": {"name": "own", "uid": "u"}, "status": {"a": 1}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "work"}, "spec": {"containers": []}},
    ]
    template = BagTemplate(json.dumps(manifests).encode())
    assert template.kinds == ("Pod.x.test", "Pod")
    run = RunIdentity(installation="i", handle=5, ordinal=2, id_high=1, queue="q", job_set="s", node="n")
    own = template.render(0, run)
    assert own["metadata"]["name"].startswith("own-")
    assert own["metadata"]["labels"][RUN_LABEL] == "5-2"
    assert set(own) == {"apiVersion", "kind", "metadata"}
    assert "uid" not in own["metadata"]
    assert template.render(1, run)["spec"]["nodeName"] == "n"
