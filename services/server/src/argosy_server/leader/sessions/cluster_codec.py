"""Messages of samplers and executors to and from the columns of `argosy_core.scheduler`.

Source: the protos of argosy.sampler.v1 and argosy.executor.v1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from argosy.executor.v1 import executor_pb2
from argosy.sampler.v1 import sampler_pb2
from argosy_core.errors import InvalidRequest
from argosy_core.job.states import FailureKind
from argosy_core.placement import CommitReply, CommitRequest, Placements, SampleReply, SampleRequest, WaitReason
from argosy_core.scheduler.messages import CapacityColumns, StateColumns
from argosy_runtime.columns import check_indices, member_columns, pack_column, read_columns, unpack_column

__all__ = [
    "capacity_columns",
    "commit_reply",
    "commit_request",
    "placement_parts",
    "sample_reply",
    "sample_request",
    "state_columns",
]

PLACEMENTS_PER_PART = 50_000
"""Placements in one message: about 1 MiB, well under what a message may hold."""
MAX_NODES = 1 << 21
"""Nodes of one cluster, as many as a sampler can number."""
MAX_NODE_NAME = 253
"""Longest name of a node, characters."""
MAX_RESOURCE_NAME = 317
"""Longest name of a resource, characters: a prefix, a slash, a name."""
MAX_RESOURCES = 256
"""Resources that one cluster may name; each is a column for all of them."""
_UID_BYTES = 16
_SCORE_BYTES = 4
_END_OF_TIME_US = 253_402_300_800_000_000


def _check_names(names: Sequence[str], most: int, *, name: str) -> None:
    """Do nothing if all names can be stored.

    Raises:
        InvalidRequest: One is empty, too long, or has a zero byte.
    """
    for value in names:
        if not value or len(value) > most or "\0" in value:
            raise InvalidRequest(f"{name} has {value[:60]!r}; names have 1 to {most} characters and no zero byte")


def _matrix(data: bytes, rows: int, columns: int, name: str) -> npt.NDArray[np.int64]:
    """Return an int64 row-major matrix column."""
    array: Any = unpack_column(data, "int64", name=name, count=rows * columns)
    matrix: npt.NDArray[np.int64] = array.reshape(rows, columns)
    return matrix


def capacity_columns(message: sampler_pb2.Capacity, incarnation: int) -> CapacityColumns:
    """Return what a sampler says of its nodes.

    Raises:
        InvalidRequest: Columns do not fit each other.
    """
    columns: dict[str, Any] = read_columns(
        message, {"node_column": "int32", "flag_column": "int8", "group_column": "int32"}
    )
    nodes, resources = len(columns["node_column"]), len(message.resources)
    if len(message.names) != nodes:
        raise InvalidRequest(f"capacity names {len(message.names)} nodes but describes {nodes}")
    check_indices(columns["group_column"], len(message.groups), name="capacity.group_column")
    check_indices(columns["node_column"], MAX_NODES, name="capacity.node_column")
    _check_names(message.names, MAX_NODE_NAME, name="capacity.names")
    _check_names(message.resources, MAX_RESOURCE_NAME, name="capacity.resources")
    if len(set(message.resources)) != resources or resources > MAX_RESOURCES:
        raise InvalidRequest(f"capacity.resources must be distinct and at most {MAX_RESOURCES}")
    total: Any = unpack_column(message.total_column, "int64", name="capacity.total_column", count=resources)
    total_free: Any = unpack_column(
        message.total_free_column, "int64", name="capacity.total_free_column", count=resources
    )
    fitting: dict[str, Any] = read_columns(
        message, {"fitting_class_column": "int32", "fitting_room_column": "int32"}, where="capacity"
    )
    return CapacityColumns(
        incarnation=incarnation,
        resources=tuple(message.resources),
        node=columns["node_column"],
        names=tuple(message.names),
        allocatable=_matrix(message.allocatable_column, nodes, resources, "capacity.allocatable_column"),
        free=_matrix(message.free_column, nodes, resources, "capacity.free_column"),
        flag=columns["flag_column"],
        total=total,
        total_free=total_free,
        node_count=message.node_count,
        placement_count=message.placement_count,
        fitting=fitting["fitting_class_column"],
        fitting_room=fitting["fitting_room_column"],
    )


def sample_request(
    request: SampleRequest, *, epoch: int, classes: Iterable[tuple[int, bytes]]
) -> sampler_pb2.SampleRequest:
    """Return a request as a message.

    Args:
        request: What to ask.
        epoch: Epoch of the leader.
        classes: Definitions of the classes that this stream has not seen.
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
    )


def sample_reply(message: sampler_pb2.SampleResponse, request: SampleRequest) -> SampleReply:
    """Return an answer, checked against its request.

    Raises:
        InvalidRequest: Columns do not fit the request or each other.
    """
    classes, resources, filters = len(request.class_ids), len(request.resources), len(message.filters)
    node: Any = unpack_column(message.node_column, "int32", name="sample.node_column")
    offset: Any = unpack_column(message.offset_column, "int32", name="sample.offset_column", count=classes + 1)
    candidate: Any = unpack_column(message.candidate_column, "int32", name="sample.candidate_column")
    check_indices(candidate, len(node), name="sample.candidate_column")
    if offset.size and (offset[0] != 0 or offset[-1] != len(candidate) or np.any(np.diff(offset) < 0)):
        raise InvalidRequest("sample.offset_column does not rise from 0 to the number of candidates")
    per_class: dict[str, Any] = read_columns(
        message,
        {"examined_column": "int32", "eligible_column": "int32", "complete_column": "int8", "reason_column": "int8"},
    )
    check_indices(per_class["reason_column"], len(WaitReason), name="sample.reason_column")
    if len(message.texts) not in {0, classes} or len(message.retry_after_column) not in {0, _SCORE_BYTES * classes}:
        raise InvalidRequest(f"sample.texts and sample.retry_after_column must be empty or have {classes} elements")
    retry_after_s: Any = np.frombuffer(message.retry_after_column, dtype="<f4")
    if len(per_class["examined_column"]) != classes or len(message.nearest_misses) not in {0, classes}:
        raise InvalidRequest(f"the answer does not have one element for each of the {classes} classes asked")
    if len(message.filter_texts) != filters:
        raise InvalidRequest(f"sample.filter_texts must have one element for each of the {filters} filters")
    if len(message.score_column) != _SCORE_BYTES * len(candidate):
        raise InvalidRequest(f"sample.score_column must have one float for each of the {len(candidate)} candidates")
    score: Any = np.frombuffer(message.score_column, dtype="<f4")
    rejection: Any = unpack_column(
        message.rejection_column, "int32", name="sample.rejection_column", count=classes * filters
    )
    total_free: Any = unpack_column(
        message.total_free_column, "int64", name="sample.total_free_column", count=resources
    )
    return SampleReply(
        incarnation=message.incarnation,
        node=node,
        free=_matrix(message.free_column, len(node), resources, "sample.free_column"),
        offset=offset,
        candidate=candidate,
        score=score,
        examined=per_class["examined_column"],
        eligible=per_class["eligible_column"],
        filters=tuple(message.filters),
        filter_texts=tuple(message.filter_texts),
        rejection=rejection.reshape(classes, filters),
        total_free=total_free,
        complete=per_class["complete_column"],
        nearest_misses=tuple(message.nearest_misses) or ("",) * classes,
        reason=per_class["reason_column"],
        texts=tuple(message.texts),
        retry_after_s=np.where(np.isfinite(retry_after_s), retry_after_s, np.float32(0)),
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
        InvalidRequest: Columns do not fit the request.
    """
    columns: dict[str, Any] = read_columns(message, {"node_column": "int32", "outcome_column": "int8"})
    count = len(request.members)
    if len(columns["node_column"]) != count:
        raise InvalidRequest(f"the answer has {len(columns['node_column'])} outcomes for {count} members of runs")
    return CommitReply(incarnation=message.incarnation, node=columns["node_column"], outcome=columns["outcome_column"])


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
        InvalidRequest: Columns do not fit each other.
    """
    columns: dict[str, Any] = read_columns(
        message,
        {
            "handle_column": "int64",
            "attempt_column": "int32",
            "object_column": "int16",
            "state_column": "int8",
            "time_us_column": "int64",
            "exit_code_column": "int32",
            "failure_column": "int8",
            "message_column": "int32",
        },
        where="states",
    )
    check_indices(columns["message_column"], len(message.texts), name="states.message_column", optional=True)
    count = len(columns["handle_column"])
    if len(message.uid_column) != count * _UID_BYTES:
        raise InvalidRequest(f"states.uid_column must have 16 bytes for each of the {count} states")
    time_us = columns["time_us_column"]
    if count and not 0 <= int(time_us.min()) <= int(time_us.max()) < _END_OF_TIME_US:
        raise InvalidRequest("states.time_us_column has a time before 1970 or after 9999")
    failure = columns["failure_column"]
    if count and not 0 <= int(failure.min()) <= int(failure.max()) <= max(FailureKind):
        raise InvalidRequest("states.failure_column has a value that is no FailureKind")
    state = columns["state_column"]
    if count and (state.min() < 1 or state.max() > executor_pb2.ObjectState.OBJECT_STATE_UNKNOWN):
        raise InvalidRequest("states.state_column has a value that is no ObjectState")
    return StateColumns(
        handle=columns["handle_column"],
        attempt=columns["attempt_column"],
        object_index=columns["object_column"],
        state=state,
        time_us=time_us,
        exit_code=columns["exit_code_column"],
        failure=failure,
        message=columns["message_column"],
        uid=message.uid_column,
        texts=tuple([text.replace("\0", " ") for text in message.texts]),  # the database takes no zero byte
    )
