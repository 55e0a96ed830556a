"""Messages of argosy.sampler.v1 to and from values of the core; protobuf objects go no further.

Source: `proto/argosy/sampler/v1/sampler.proto`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from argosy.sampler.v1 import sampler_pb2
from argosy_core.arrays import Int32s, Int64s
from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.reading.findings import printable
from argosy_core.job.reading.permit_rules import PermitRules
from argosy_core.job.reading.scaling import SCALED
from argosy_core.job.tables.members import Members
from argosy_core.job.tables.rows import HeldAmounts
from argosy_core.ledger import NodeLedger, PodSizes
from argosy_core.nodes import NodeGroup
from argosy_core.placement import CommitReply, CommitRequest, Placements, PlaceReply, SampleReply, SampleRequest
from argosy_core.placement.delegated import MOST_PLACED
from argosy_core.resources import DEFAULT_AXIS
from argosy_core.scheduler import MAX_TOTAL
from argosy_runtime.columns import check_indices, member_columns, pack_column, read_columns, read_members, unpack_column

__all__ = [
    "CapacityWriter",
    "class_definitions",
    "commit_response",
    "held_amounts_message",
    "moves_message",
    "place_response",
    "placed_runs_message",
    "pod_sizes_message",
    "read_commit",
    "read_dropped_classes",
    "read_place_request",
    "read_placements",
    "read_release",
    "read_rules",
    "read_sample",
    "read_weights",
    "sample_response",
]

_ROOMY_AXIS = 64
"""Resources up to which nobody looks whether nodes have them."""
_MAX_TEXT = 1000
"""Longest text that a leader takes, characters."""
_NO_CLASSES = np.zeros(0, np.int32)


def class_definitions(messages: Iterable[sampler_pb2.ClassDefinition]) -> list[tuple[int, SchedulingClass]]:
    """Return the classes that a message defines.

    Raises:
        InvalidRequest: One is no definition of a class.
    """
    definitions: list[tuple[int, SchedulingClass]] = []
    for message in messages:
        try:
            definitions.append((message.class_id, SchedulingClass.parse(message.definition)))
        except ValueError as cause:
            raise InvalidRequest(f"class {message.class_id} has no readable definition") from cause
    return definitions


def read_placements(message: sampler_pb2.PlacementList) -> Placements:
    """Return a part of the full list.

    Raises:
        InvalidRequest: Columns do not fit each other.
    """
    columns: dict[str, Any] = read_columns(
        message,
        {"handle_column": "int64", "attempt_column": "int32", "class_column": "int32", "node_column": "int32"},
        where="placements",
    )
    check_indices(columns["node_column"], len(message.nodes), name="placements.node_column")
    return Placements(
        members=read_members(message, columns, where="placements"),
        class_ids=columns["class_column"],
        node=columns["node_column"],
        nodes=tuple(message.nodes),
    )


def read_sample(message: sampler_pb2.SampleRequest) -> SampleRequest:
    """Return a request.

    Raises:
        InvalidRequest: Columns do not fit each other.
    """
    columns: dict[str, Any] = read_columns(
        message,
        {"class_column": "int32", "wanted_column": "int32", "complete_column": "int8"},
        where="sample",
    )
    return SampleRequest(
        round_number=message.round,
        deadline_ms=message.deadline_ms,
        class_ids=columns["class_column"],
        wanted=columns["wanted_column"],
        complete=columns["complete_column"],
        resources=tuple(message.resources),
        nodes_to_sample_ratio=message.nodes_to_sample_ratio,
        strategy=message.strategy or "random",
        extra_count=message.extra_count,
        for_promise=np.frombuffer(message.for_promise_column, dtype=np.int8) != 0,
        is_delegated=message.delegated,
        node_score=message.node_score,
        kept=unpack_column(message.kept_column, "int32", name="sample.kept_column"),
        going=read_release(message.going),
    )


def read_dropped_classes(message: sampler_pb2.SampleRequest) -> list[int]:
    """Return the classes that the leader has dropped.

    Raises:
        InvalidRequest: They are no column.
    """
    column: Any = unpack_column(message.dropped_class_column, "int32", name="sample.dropped_class_column")
    return column.tolist()  # type: ignore[no-any-return]


def sample_response(reply: SampleReply, request: SampleRequest) -> sampler_pb2.SampleResponse:
    """Return an answer as a message."""
    return sampler_pb2.SampleResponse(
        round=request.round_number,
        incarnation=reply.incarnation,
        node_column=pack_column(reply.node, "int32"),
        free_column=pack_column(np.ascontiguousarray(reply.free), "int64"),
        offset_column=pack_column(reply.offset, "int32"),
        candidate_column=pack_column(reply.candidate, "int32"),
        score_column=reply.score.astype("<f4", copy=False).tobytes(),
        examined_column=pack_column(reply.examined, "int32"),
        eligible_column=pack_column(reply.eligible, "int32"),
        filters=reply.filters,
        filter_texts=_told(reply.filter_texts),
        rejection_column=pack_column(reply.rejection, "int32"),
        total_free_column=pack_column(reply.total_free, "int64"),
        complete_column=pack_column(reply.complete, "int8"),
        nearest_misses=_told(reply.nearest_misses),
        reason_column=pack_column(reply.reason, "int8"),
        texts=_told(reply.texts),
        retry_after_column=reply.retry_after_s.astype("<f4", copy=False).tobytes(),
        node_kinds_column=pack_column(reply.node_kinds, "int64"),
        could_hold_offset_column=pack_column(reply.could_hold_offset, "int32"),
        could_hold_column=pack_column(reply.could_hold, "int32"),
    )


def read_commit(message: sampler_pb2.CommitRequest) -> CommitRequest:
    """Return members of runs to place.

    Raises:
        InvalidRequest: Columns do not fit each other.
    """
    columns: dict[str, Any] = read_columns(
        message, {"handle_column": "int64", "attempt_column": "int32", "class_column": "int32"}, where="commit"
    )
    count = len(columns["handle_column"])
    offsets: Any = unpack_column(message.offset_column, "int32", name="commit.offset_column", count=count + 1)
    candidates: Any = unpack_column(message.candidate_column, "int32", name="commit.candidate_column")
    return CommitRequest(
        round_number=message.round,
        stage=message.stage,
        members=read_members(message, columns, where="commit"),
        class_ids=columns["class_column"],
        offset=offsets,
        candidate=candidates,
    )


def commit_response(reply: CommitReply, request: CommitRequest) -> sampler_pb2.CommitResponse:
    """Return the outcome of each commit as a message."""
    return sampler_pb2.CommitResponse(
        round=request.round_number,
        stage=request.stage,
        incarnation=reply.incarnation,
        node_column=pack_column(reply.node, "int32"),
        outcome_column=pack_column(reply.outcome, "int8"),
    )


def held_amounts_message(held: HeldAmounts) -> sampler_pb2.HeldAmounts:
    """Return what members of runs hold, base units or -1 for what their class says."""
    return sampler_pb2.HeldAmounts(
        **member_columns(held.members), resources=held.names, amount_column=pack_column(held.amounts, "int64")
    )


def placed_runs_message(members: Members, nodes: Sequence[str]) -> sampler_pb2.PlacedRuns:
    """Return where members of runs are placed that were leased to the cluster as a whole."""
    names = {name: index for index, name in enumerate(dict.fromkeys(nodes))}
    column = np.array([names[node] for node in nodes], dtype=np.int32)
    return sampler_pb2.PlacedRuns(
        **member_columns(members), node_column=pack_column(column, "int32"), nodes=list(names)
    )


def read_place_request(message: sampler_pb2.PlaceRunsRequest) -> Members:
    """Return the members of runs that are to be placed.

    Raises:
        InvalidRequest: Columns do not fit each other, or there are too many.
    """
    columns = read_columns(message, {"handle_column": "int64", "attempt_column": "int32"}, where="place_runs")
    members = read_members(message, columns, where="place_runs")
    if len(members) > MOST_PLACED:
        raise InvalidRequest(f"place_runs names {len(members)} members of runs; {MOST_PLACED} are the most")
    return members


def place_response(reply: PlaceReply) -> sampler_pb2.PlaceRunsResponse:
    """Return where members are placed, and why others are returned, as a message."""
    nodes = {name: index for index, name in enumerate(name for name in dict.fromkeys(reply.nodes) if name)}
    reasons = {text: index for index, text in enumerate(text for text in dict.fromkeys(reply.reasons) if text)}
    return sampler_pb2.PlaceRunsResponse(
        node_column=pack_column([nodes.get(name, -1) for name in reply.nodes], "int32"),
        nodes=list(nodes),
        reason_column=pack_column([reasons.get(text, -1) for text in reply.reasons], "int32"),
        reasons=_told(tuple(reasons)),
    )


def moves_message(members: Members) -> sampler_pb2.Moves:
    """Return members of runs whose pods are to be moved."""
    return sampler_pb2.Moves(**member_columns(members))


def pod_sizes_message(sizes: PodSizes) -> sampler_pb2.PodSizes:
    """Return scaled pods as they are."""
    return sampler_pb2.PodSizes(
        **member_columns(sizes.members),
        resources=SCALED,
        requested_column=pack_column(sizes.requested.T, "int64"),
        approved_column=pack_column(sizes.approved.T, "int64"),
        actual_column=pack_column(sizes.actual.T, "int64"),
        state_column=pack_column(sizes.state, "int8"),
    )


def read_weights(message: sampler_pb2.QueueWeights) -> dict[str, float]:
    """Return what queues weigh.

    Raises:
        InvalidRequest: Columns do not fit each other.
    """
    weights = read_columns(message, {"weight_column": "float64"}, where="queue_weights")["weight_column"].tolist()
    if len(weights) != len(message.queues):
        raise InvalidRequest("queue_weights has not one weight for each queue")
    return dict(zip(message.queues, weights, strict=True))


def read_rules(message: sampler_pb2.PermitRules) -> PermitRules:
    """Return how permits are given.

    Raises:
        InvalidRequest: No permit can be given so.
    """
    return PermitRules(
        watermark=message.watermark,
        unit=message.unit,
        node_watermarks=dict(message.node_watermarks),
        node_units=dict(message.node_units),
        node_system=dict(message.node_system),
        lease_s=message.lease_s,
        margin_s=message.margin_s,
        rises_per_s=message.rises_per_s,
    )


def read_release(message: sampler_pb2.Release) -> Members:
    """Return the members whose placements ended.

    Raises:
        InvalidRequest: Columns do not fit each other.
    """
    columns = read_columns(message, {"handle_column": "int64", "attempt_column": "int32"}, where="release")
    return read_members(message, columns, where="release")


class CapacityWriter:
    """Writes what changed of the nodes since it wrote last.

    Args:
        ledger: Whose nodes.
    """

    def __init__(self, ledger: NodeLedger) -> None:
        """Start as if nothing had been written."""
        self._ledger = ledger
        self._generation = -1
        self._told = -1
        self._told_count = 0
        self._placement_count = -1
        self._compaction = -1
        self._groups: dict[int, bytes] = {}

    def start_over(self) -> None:
        """Let the next message hold every node, as on a new stream."""
        self._generation, self._told_count = -1, 0

    def next_message(
        self, *, with_nodes: bool = True, fitting: tuple[Int32s, Int64s] | None = None
    ) -> sampler_pb2.Capacity | None:
        """Return the totals and the nodes that changed, or None if nothing did and no class fits.

        Args:
            fitting: Classes that wait and now fit some node, and how many pods of each.
            with_nodes: False leaves out nodes of which only the free amounts changed: those interest people. The next
                round needs totals, and what nodes there are.
        """
        table = self._ledger.nodes
        placement_count = self._ledger.placement_count
        told = self._generation if with_nodes else self._told
        has_fitting = fitting is not None and len(fitting[0])
        if told == table.generation and self._placement_count == placement_count and not has_fitting:
            return None
        totals = table.totals()
        with_nodes = with_nodes or self._generation < 0
        rows = table.changed_since(self._generation) if with_nodes else table.described_since(self._told)
        if not with_nodes and len(table) > self._told_count:
            # The leader takes no number before those below it, and rows that only hold a name are not described.
            rows = np.union1d(rows, np.arange(self._told_count, len(table), dtype=np.int32))
        self._told_count = len(table)
        if with_nodes:
            self._generation = table.generation
        self._told, self._placement_count = table.generation, placement_count
        names = table.names
        # Most messages tell of totals alone.
        distinct, group = np.unique(table.group[rows], return_inverse=True) if rows.size else (rows, rows)
        held = self._held_columns()
        return sampler_pb2.Capacity(
            resources=[table.axis.names[column] for column in held.tolist()],
            node_column=pack_column(rows, "int32"),
            names=[names[row] for row in rows.tolist()],
            allocatable_column=pack_column(table.allocatable[np.ix_(held, rows)].T, "int64"),
            free_column=pack_column(table.free[np.ix_(held, rows)].T, "int64"),
            flag_column=table.flags[rows].astype(np.int8).tobytes(),
            groups=[self._group(index) for index in distinct.tolist()],
            group_column=pack_column(group, "int32"),
            total_column=pack_column(_bounded(totals.allocatable[held]), "int64"),
            total_free_column=pack_column(_bounded(totals.free[held]), "int64"),
            node_count=totals.node_count,
            placement_count=placement_count,
            fitting_class_column=pack_column(fitting[0] if fitting else _NO_CLASSES, "int32"),
            fitting_room_column=pack_column(_room(fitting[1]) if fitting else _NO_CLASSES, "int32"),
        )

    def _held_columns(self) -> npt.NDArray[np.intp]:
        """Return the resources to tell of: where there are many, those that some node has or lacks.

        Classes and pods bring others for as long as this process lives, and a leader takes no more than it counts.
        """
        table = self._ledger.nodes
        if len(table.axis) <= _ROOMY_AXIS:
            return np.arange(len(table.axis))
        held = ((table.allocatable != 0) | (table.free != 0)).any(axis=1)
        held[: len(DEFAULT_AXIS)] = True
        return np.flatnonzero(held)

    def _group(self, index: int) -> bytes:
        groups = self._ledger.nodes.groups
        if groups.compaction != self._compaction:
            self._groups.clear()
            self._compaction = groups.compaction
        text = self._groups.get(index)
        if text is None:
            text = self._groups[index] = _group_json(groups[index])
        return text


def _told(texts: Iterable[str]) -> list[str]:
    """Return what plugins and filters say as the leader takes it."""
    return [printable(text[:_MAX_TEXT]) for text in texts]


def _bounded(totals: Int64s) -> Int64s:
    """Return totals within what a message holds. NumPy's `clip` costs three times as much for a few elements."""
    return np.minimum(np.maximum(totals, 0), MAX_TOTAL)


def _room(counts: Int64s) -> Int32s:
    """Return counts as they are told; more than an int32 holds is as good as that."""
    return np.minimum(counts, np.iinfo(np.int32).max).astype(np.int32)


def _group_json(group: NodeGroup) -> bytes:
    taints = [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in group.taints]
    return json.dumps({"labels": dict(group.labels), "taints": taints}, separators=(",", ":")).encode()
