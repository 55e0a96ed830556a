"""Messages of samplers and executors to and from the columns of `argosy_core.scheduler`.

Source: the protos of argosy.sampler.v1 and argosy.executor.v1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from argosy.executor.v1 import executor_pb2
from argosy.sampler.v1 import sampler_pb2
from argosy_core.arrays import has_true, true_places
from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.permit_rules import PermitRules
from argosy_core.job.tables.members import Members
from argosy_core.job.tables.rows import HeldAmounts, PlacedNodes
from argosy_core.placement import CommitOutcome, CommitReply, CommitRequest, Placements, SampleReply, SampleRequest
from argosy_core.scheduler.columns.messages import CapacityColumns, StateColumns
from argosy_runtime.columns import member_columns, pack_column
from argosy_runtime.shapes import read_message
from argosy_server.leader.sessions.message_shapes import (
    CAPACITY,
    COMMIT_RESPONSE,
    HELD_AMOUNTS,
    HELLO_RUNS,
    PLACED_RUNS,
    SAMPLE_RESPONSE,
    SEEN_RUNS,
    STATE_BATCH,
)

__all__ = [
    "capacity_columns",
    "commit_reply",
    "commit_request",
    "held_amounts",
    "hello_runs",
    "moves",
    "placed_runs",
    "placement_parts",
    "queue_weights",
    "sample_reply",
    "sample_request",
    "seen_runs",
    "state_columns",
]

PLACEMENTS_PER_PART = 50_000
"""Placements in one message: about 1 MiB, well under what a message may hold."""


def capacity_columns(message: sampler_pb2.Capacity, incarnation: int) -> CapacityColumns:
    """Return what a sampler says of its nodes.

    Raises:
        InvalidRequest: A field is not as it may be.
    """
    fields = read_message(message, CAPACITY, where="capacity")
    return CapacityColumns(
        incarnation=incarnation,
        resources=fields["resources"],
        node=fields["node_column"],
        names=fields["names"],
        allocatable=fields["allocatable_column"],
        free=fields["free_column"],
        flag=fields["flag_column"],
        total=fields["total_column"],
        total_free=fields["total_free_column"],
        node_count=fields["node_count"],
        placement_count=fields["placement_count"],
        fitting=fields["fitting_class_column"],
        fitting_room=fields["fitting_room_column"],
    )


def held_amounts(message: sampler_pb2.HeldAmounts) -> HeldAmounts:
    """Return what members of runs hold by now.

    Raises:
        InvalidRequest: A field is not as it may be.
    """
    fields = read_message(message, HELD_AMOUNTS, where="held_amounts")
    return HeldAmounts(
        members=Members.of(fields["handle_column"], fields["attempt_column"], _numbers(fields["member_column"])),
        names=fields["resources"],
        amounts=fields["amount_column"],
    )


def placed_runs(message: sampler_pb2.PlacedRuns) -> PlacedNodes:
    """Return where members of runs are placed.

    Raises:
        InvalidRequest: A field is not as it may be, or a member stands twice.
    """
    fields = read_message(message, PLACED_RUNS, where="placed_runs")
    members = Members.of(fields["handle_column"], fields["attempt_column"], _numbers(fields["member_column"]))
    if not members.are_distinct():
        raise InvalidRequest("placed_runs names a member of a run twice")
    return PlacedNodes(members=members, nodes=tuple(fields["nodes"][node] for node in fields["node_column"].tolist()))


def moves(message: sampler_pb2.Moves) -> Members:
    """Return the members of runs that are to be moved.

    Raises:
        InvalidRequest: A field is not as it may be.
    """
    fields = read_message(message, HELLO_RUNS, where="moves")
    return Members.of(fields["handle_column"], fields["attempt_column"], _numbers(fields["member_column"]))


def queue_weights(weights: Mapping[str, float], rules: PermitRules) -> sampler_pb2.QueueWeights:
    """Return what queues weigh and how permits are given as a message."""
    column = pack_column(np.array([*weights.values()], np.float64), "float64")
    said = sampler_pb2.PermitRules(
        watermark=rules.watermark,
        unit=rules.unit,
        node_watermarks=rules.node_watermarks,
        node_units=rules.node_units,
        node_system=rules.node_system,
        lease_s=rules.lease_s,
        margin_s=rules.margin_s,
        rises_per_s=rules.rises_per_s,
    )
    return sampler_pb2.QueueWeights(queues=weights, weight_column=column, rules=said)


def sample_request(
    request: SampleRequest, *, epoch: int, classes: Iterable[tuple[int, bytes]], dropped: Sequence[int] = ()
) -> sampler_pb2.SampleRequest:
    """Return a request as a message.

    Args:
        request: What to ask.
        epoch: Epoch of the leader.
        classes: Definitions of the classes that this stream has not seen.
        dropped: Ids of those it has seen and that count for nothing any more.
    """
    return sampler_pb2.SampleRequest(
        round=request.round_number,
        epoch=epoch,
        classes=[sampler_pb2.ClassDefinition(class_id=class_id, definition=body) for class_id, body in classes],
        class_column=pack_column(request.class_ids, "int32"),
        wanted_column=pack_column(request.wanted, "int32"),
        resources=request.resources,
        nodes_to_sample_ratio=request.nodes_to_sample_ratio,
        deadline_ms=request.deadline_ms,
        complete_column=pack_column(request.complete, "int8"),
        strategy=request.strategy,
        extra_count=request.extra_count,
        for_promise_column=pack_column(request.for_promise, "int8"),
        dropped_class_column=pack_column(np.array(dropped, np.int32), "int32"),
        delegated=request.is_delegated,
        node_score=request.node_score,
        kept_column=pack_column(request.kept, "int32"),
        going=sampler_pb2.Release(epoch=epoch, **member_columns(request.going)) if len(request.going) else None,
    )


def sample_reply(message: sampler_pb2.SampleResponse, request: SampleRequest) -> SampleReply:
    """Return an answer, checked against its request.

    Raises:
        InvalidRequest: A field does not fit the request, or is not as it may be.
    """
    sizes = {"class": len(request.class_ids), "resource": len(request.resources)}
    fields = read_message(message, SAMPLE_RESPONSE, where="sample", sizes=sizes)
    offset = fields["offset_column"]
    if offset[0] != 0 or offset[-1] != len(fields["candidate_column"]) or np.any(np.diff(offset) < 0):
        raise InvalidRequest("sample.offset_column does not rise from 0 to the number of candidates")
    could_hold_offset = fields["could_hold_offset_column"]
    ends = could_hold_offset[[0, -1]].tolist() if could_hold_offset.size else [0, 0]
    if ends != [0, len(fields["could_hold_column"])] or np.any(np.diff(could_hold_offset) < 0):
        raise InvalidRequest("sample.could_hold_offset_column does not rise from 0 to the number of nodes told")
    retry_after_s = fields["retry_after_column"]
    return SampleReply(
        incarnation=fields["incarnation"],
        node=fields["node_column"],
        free=fields["free_column"],
        offset=offset,
        candidate=fields["candidate_column"],
        score=fields["score_column"],
        examined=fields["examined_column"],
        eligible=fields["eligible_column"],
        filters=fields["filters"],
        filter_texts=fields["filter_texts"],
        rejection=fields["rejection_column"],
        total_free=fields["total_free_column"],
        complete=fields["complete_column"],
        nearest_misses=fields["nearest_misses"] or ("",) * sizes["class"],
        reason=fields["reason_column"],
        texts=fields["texts"],
        retry_after_s=np.where(np.isfinite(retry_after_s), retry_after_s, np.float32(0)),
        node_kinds=fields["node_kinds_column"],
        could_hold_offset=could_hold_offset,
        could_hold=fields["could_hold_column"],
    )


def commit_request(request: CommitRequest, *, epoch: int) -> sampler_pb2.CommitRequest:
    """Return runs to place as a message."""
    return sampler_pb2.CommitRequest(
        round=request.round_number,
        stage=request.stage,
        epoch=epoch,
        **member_columns(request.members),
        class_column=pack_column(request.class_ids, "int32"),
        offset_column=pack_column(request.offset, "int32"),
        candidate_column=pack_column(request.candidate, "int32"),
    )


def commit_reply(message: sampler_pb2.CommitResponse, request: CommitRequest) -> CommitReply:
    """Return the outcome of each commit, checked against its request.

    Raises:
        InvalidRequest: A field does not fit the request, or is not as it may be.
    """
    count = len(request.members)
    fields = read_message(message, COMMIT_RESPONSE, where="commit", sizes={"member": count})
    node, outcome = fields["node_column"], fields["outcome_column"]
    placed = true_places(outcome == CommitOutcome.PLACED)
    # The place of each member that is its candidate: one pass over all candidates of the request.
    owner = np.repeat(np.arange(count), np.diff(request.offset))
    offered = np.zeros(count, dtype=np.bool_)
    offered[owner[request.candidate == node[owner]]] = True
    if has_true(
        request.of_gang
    ):  # which of its nodes a gang gets is the sampler's to say, but for those it may not have
        offered = np.where(request.of_gang, ~offered & (node >= 0), offered)
    if not offered[placed].all():
        raise InvalidRequest("commit.node_column places a member of a run on a node that was not its candidate")
    return CommitReply(incarnation=fields["incarnation"], node=node, outcome=outcome)


def placement_parts(
    placements: Placements, definitions: Sequence[tuple[int, bytes]]
) -> list[sampler_pb2.PlacementList]:
    """Return a full list of placements in parts, the last one marked.

    Args:
        placements: All placements of the cluster.
        definitions: Definitions of the classes used; they travel with the first part.
    """
    parts: list[sampler_pb2.PlacementList] = []
    count = len(placements.members)
    for start in range(0, max(count, 1), PLACEMENTS_PER_PART):
        part = slice(start, start + PLACEMENTS_PER_PART)
        used, node = np.unique(placements.node[part], return_inverse=True)
        parts.append(
            sampler_pb2.PlacementList(
                **member_columns(placements.members[part]),
                class_column=pack_column(placements.class_ids[part], "int32"),
                node_column=pack_column(node, "int32"),
                nodes=[placements.nodes[index] for index in used.tolist()],
            )
        )
    parts[0].classes.extend(sampler_pb2.ClassDefinition(class_id=i, definition=body) for i, body in definitions)
    parts[-1].last = True
    return parts


def state_columns(message: executor_pb2.StateBatch) -> StateColumns:
    """Return the states an executor reports.

    Raises:
        InvalidRequest: A field is not as it may be.
    """
    fields = read_message(message, STATE_BATCH, where="states")
    return StateColumns(
        handle=fields["handle_column"],
        attempt=fields["attempt_column"],
        member=_numbers(fields["member_column"]),
        object_index=fields["object_column"],
        state=fields["state_column"],
        time_us=fields["time_us_column"],
        exit_code=fields["exit_code_column"],
        failure=fields["failure_column"],
        message=fields["message_column"],
        uid=message.uid_column,
        texts=tuple([text.replace("\0", " ") for text in fields["texts"]]),  # the database takes no zero byte
    )


def hello_runs(message: executor_pb2.Hello) -> Members:
    """Return the members of runs that an executor knows.

    Raises:
        InvalidRequest: A column is not as it may be.
    """
    fields = read_message(message, HELLO_RUNS, where="hello")
    return Members.of(fields["handle_column"], fields["attempt_column"], _numbers(fields["member_column"]))


def seen_runs(message: executor_pb2.SeenRuns) -> Members:
    """Return members of runs of which objects were seen, and whose pool the executor does not know.

    Raises:
        InvalidRequest: A column is not as it may be.
    """
    fields = read_message(message, SEEN_RUNS, where="seen")
    return Members.of(fields["handle_column"], fields["attempt_column"], _numbers(fields["member_column"]))


def _numbers(column: npt.NDArray[np.int16]) -> npt.NDArray[np.int16] | None:
    """Return numbers of members as the core has them: None where the message leaves them out, since all are 0."""
    return column if column.size else None
