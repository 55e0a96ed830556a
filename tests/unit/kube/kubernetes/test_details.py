"""Which container a reason is about, and what is said of it."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from argosy_kube.failure_table import NOT_READY, describe_wait
from argosy_kube.kubernetes.api.documents import POD, Metadata
from argosy_kube.kubernetes.ours.observing import apply_health, state_of
from argosy_kube.kubernetes.reading.columns import LOST_REASON, EventRows, EventTables, SharedTables
from argosy_kube.kubernetes.reading.details import detail_of, one_line
from argosy_kube.kubernetes.reading.nodes import NodeHealth, NodeStates
from argosy_kube.kubernetes.reading.pods import exit_and_reason, phase_of
from argosy_kube.port import MAX_DETAIL_LENGTH, Change, Detail, PodPhase, Selector
from argosy_kube.simulated.shared import select_events


def terminated(name: str, code: int, reason: str = "Error", message: str | None = None) -> dict[str, Any]:
    """Return the status of a container that has ended."""
    return {"name": name, "state": {"terminated": {"exitCode": code, "reason": reason, "message": message}}}


def waiting(name: str, reason: str, message: str | None = None) -> dict[str, Any]:
    """Return the status of a container that waits."""
    return {"name": name, "state": {"waiting": {"reason": reason, "message": message}}}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param({"phase": "Running"}, None, id="nothing-to-say"),
        pytest.param(
            {
                "phase": "Failed",
                "containerStatuses": [
                    terminated("fine", 0), terminated("main", 3, message="no input\n"), terminated("late", 5)
                ],
            },
            Detail("main", "no input"),
            id="first-that-failed",
        ),
        pytest.param(
            {"phase": "Failed", "initContainerStatuses": [terminated("setup", 1)]}, Detail("setup", ""), id="init"
        ),
        pytest.param(
            {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory.",
             "containerStatuses": [terminated("main", 137, message="?")]},
            Detail("", "The node was low on resource: memory."),
            id="the-pod-s-own-reason-comes-first",
        ),
        pytest.param(
            {"phase": "Failed", "containerStatuses": [terminated("main", 137)], "conditions": [
                {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "room"}
            ]},
            Detail("", "room"),
            id="disruption",
        ),
        pytest.param(
            {"phase": "Pending", "containerStatuses": [
                waiting("new", "ContainerCreating"), waiting("main", "ErrImagePull", "no such image")
            ]},
            Detail("main", "no such image"),
            id="image",
        ),
        pytest.param(
            {"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are free"}
            ]},
            Detail("", "0/3 nodes are free"),
            id="unschedulable",
        ),
        pytest.param({"phase": "Pending", "containerStatuses": [waiting("main", "ContainerCreating")]}, None, id="new"),
    ],
)  # fmt: skip
def test_detail_is_that_of_the_reason(status: dict[str, Any], expected: Detail | None) -> None:
    """Container and message belong to what `exit_and_reason` chose."""
    read = POD.decode(msgspec.json.encode({"status": status}))
    phase = phase_of(read.status)
    assert detail_of(read, phase, exit_and_reason(read, phase)[1]) == expected


def test_killed_by_a_deletion_says_nothing_of_the_container() -> None:
    """Its exit code is that of the kill."""
    pod = POD.decode(msgspec.json.encode({"status": {"containerStatuses": [terminated("main", 143)]}}))
    assert detail_of(pod, PodPhase.FAILED, "Deleted") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(None, "", id="none"),
        pytest.param("a\n\tb  c\x00\x1b[31m\ud800", "a b c [31m", id="what-does-not-print"),
        pytest.param("a" * 5000 + "z" * 106, "a" * 53 + "…" + "z" * 106, id="long-loses-its-middle"),
        pytest.param(" " * 5000 + "x", "x", id="bounded-before-it-is-looked-at"),
    ],
)
def test_message_of_anybody_is_one_bounded_line(text: str | None, expected: str) -> None:
    """A container says what it likes; databases and terminals need not bear all of it."""
    assert one_line(text) == expected
    assert len(expected) <= MAX_DETAIL_LENGTH


def test_details_stay_with_their_rows() -> None:
    """Through pages that are folded, cut and joined, selections, and the loss of a node."""
    tables = EventTables()
    node = tables.nodes.intern("gone")
    rows, more = EventRows(tables), EventRows(tables)

    def add(rows: EventRows, handle: int, *, ours: bool = True, node: int = -1) -> None:
        run = (handle, 1, 0) if ours else None
        metadata = Metadata(uid=f"00000000-0000-4000-8000-{handle:012}")
        state = (node, PodPhase.PENDING, 0, -1, -1)
        rows.add(Change.ADDED, metadata, kind=0, run=run, time_us=1, state=state, detail=Detail(f"c{handle}"))

    add(rows, 1)
    begin = rows.filling(lambda handle: add(rows, handle))
    begin()([2])
    begin()  # the list begins again
    add(rows, 3, ours=False)
    add(more, 4, node=node)
    add(more, 5)
    rows.extend(more)
    events = rows.build(9)
    assert {place: detail.container for place, detail in events.details.items()} == {0: "c1", 1: "c3", 2: "c4", 3: "c5"}
    ours = select_events(events, Selector.OURS)
    assert {int(ours.handle_column[place]): detail.container for place, detail in ours.details.items()} == {
        1: "c1",
        4: "c4",
        5: "c5",
    }
    states = NodeStates()
    states.set("gone", NodeHealth.LOST)
    apply_health(events, states, tables.texts.intern("NodeLost"))
    assert np.flatnonzero(events.phase_column == PodPhase.FAILED).tolist() == [2]
    assert sorted(events.details) == [0, 1, 3]


def test_tables_that_have_grown_large_are_begun_anew() -> None:
    """Rows mean something with their own tables, so nodes and requests of long ago cost nothing."""
    shared = SharedTables()
    first = shared.begin()
    for number in range(10_001):
        first.tables.nodes.intern(f"node-{number}")
    last = shared.begin()
    assert shared.begin().tables is last.tables is not first.tables
    assert (len(first.tables.nodes), len(last.tables.nodes)) == (10_001, 0)
    assert last.tables.texts.texts[LOST_REASON] == "NodeLost"


@pytest.mark.parametrize(
    ("labels", "status", "expected"),
    [
        pytest.param({}, {}, (PodPhase.RUNNING, ""), id="nobody-waits"),
        pytest.param({"argosy.dev/awaited": "true"}, {}, (PodPhase.PENDING, NOT_READY), id="not-ready-yet"),
        pytest.param(
            {"argosy.dev/awaited": "true"},
            {"conditions": [{"type": "Ready", "status": "True"}]},
            (PodPhase.RUNNING, ""),
            id="ready",
        ),
        pytest.param(
            {"argosy.dev/awaited": "true"},
            {"containerStatuses": [waiting("main", "CrashLoopBackOff")]},
            (PodPhase.PENDING, "CrashLoopBackOff"),
            id="says-why",
        ),
    ],
)
def test_pod_for_which_others_wait_starts_by_being_ready(
    labels: dict[str, str], status: dict[str, Any], expected: tuple[PodPhase, str]
) -> None:
    """Members that wait for another begin when it is ready, so it counts as started then, and waits until then."""
    pod = POD.decode(msgspec.json.encode({"metadata": {"labels": labels}, "status": {"phase": "Running", **status}}))
    phase, _, reason = state_of(pod)
    assert (phase, reason) == expected
    if reason == NOT_READY:
        assert "not ready" in describe_wait(reason)
