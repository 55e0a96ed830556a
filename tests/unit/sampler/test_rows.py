"""Rows of the node table that are given to new nodes: who remembers one asks whether it still means the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import structlog

from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.ledger import NodeLedger
from argosy_core.nodes import NodeSpec
from argosy_core.plugins import build_framework
from argosy_core.resources import DEFAULT_AXIS
from argosy_kube.kubernetes.api.documents import Metadata
from argosy_kube.kubernetes.reading.columns import SharedTables
from argosy_kube.port import Change, ObjectEvents, PodPhase
from argosy_sampler.codec import CapacityWriter
from argosy_sampler.informer import Informer
from argosy_server.leader.sessions.cluster_codec import capacity_columns

ROOM = {"cpu": 4000, "pods": 10}


def told_rows(message: Any) -> list[int]:
    """Return which rows a message is about."""
    rows: list[int] = np.frombuffer(message.node_column, dtype="<i4").tolist()
    return rows


def test_no_row_is_told_before_those_below_it() -> None:
    """The leader takes no number that leaves a gap; rows that only hold a name are otherwise of no interest."""
    ledger = NodeLedger()
    writer = CapacityWriter(ledger)
    ledger.put_nodes([NodeSpec(name="a", total=ROOM)])
    assert told_rows(writer.next_message(with_nodes=False)) == [0]
    ledger.rows_of_names(["of a pod", "of another"])
    ledger.put_nodes([NodeSpec(name="b", total=ROOM)])
    assert told_rows(writer.next_message(with_nodes=False)) == [1, 2, 3]
    ledger.put_nodes([NodeSpec(name="b", total={**ROOM, "cpu": 1})])
    assert told_rows(writer.next_message(with_nodes=False)) == [3]


def test_pods_of_a_node_that_went_are_not_booked_on_the_one_that_has_its_row() -> None:
    """The names of one table of nodes are looked up again once rows have lost theirs."""
    ledger = NodeLedger()
    cluster: Any = None
    backoff: Any = None
    informer = Informer(cluster, ledger, framework=build_framework(), backoff=backoff, log=structlog.get_logger())
    tables = SharedTables()

    def pod_on(node: str, number: int, phase: PodPhase = PodPhase.RUNNING) -> ObjectEvents:
        rows = tables.begin()
        request = rows.tables.requests.intern({"cpu": 1000})
        metadata = Metadata(uid=f"00000000-0000-4000-8000-{number:012}")
        state = (rows.tables.nodes.intern(node), phase, 0, -1, request)
        rows.add(Change.ADDED, metadata, kind=0, run=None, time_us=1, state=state)
        return rows.build(number)

    names = [f"n{number}" for number in range(100)]
    ledger.put_nodes([NodeSpec(name=name, total=ROOM) for name in names])
    for number, name in enumerate(["n7", "n8"]):
        informer.take_pods(pod_on(name, number, PodPhase.SUCCEEDED))
    ledger.remove_nodes(names)
    fresh = ledger.put_nodes([NodeSpec(name=f"new-{number}", total=ROOM) for number in range(50)])
    informer.take_pods(pod_on("n8", 2))
    informer.take_pods(pod_on("n7", 3))
    assert (ledger.nodes.free[0, fresh] == 4000).all()
    assert ledger.nodes.free[0, ledger.nodes.index_of(["n7", "n8"])].tolist() == [-1000, -1000]
    ledger.check_invariants()


def test_resources_that_no_node_has_are_not_told() -> None:
    """Classes bring new ones for as long as a sampler lives; a message with more than a leader counts is refused."""
    ledger = NodeLedger()
    ledger.put_nodes([NodeSpec(name="a", total={**ROOM, "gpu": 3}), NodeSpec(name="b", total=ROOM)])
    for number in range(300):
        ledger.define_class(number, SchedulingClass(requests=((f"example.com/r{number}", 1),)))
    message = CapacityWriter(ledger).next_message()
    assert message is not None
    assert set(message.resources) == {*DEFAULT_AXIS.names, "gpu"}
    columns, gpu = capacity_columns(message, 1), list(message.resources).index("gpu")
    assert columns.allocatable[:, gpu].tolist() == [3, 0]
    assert (columns.total[gpu], columns.total_free[0]) == (3, 8000)
