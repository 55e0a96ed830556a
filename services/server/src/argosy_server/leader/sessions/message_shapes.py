"""What samplers and executors may say: for each message its fields, their types, how many, and in which range.

Whatever does not fit ends the session that said it, before anything is touched (`streams.py`). A test holds that every
field of every message stands here.

Source: the protos of argosy.sampler.v1 and argosy.executor.v1; design section 7, invariant 15.
"""

from __future__ import annotations

from typing import Final

from argosy_core.job.states import FailureKind, ObjectState
from argosy_core.job.tables.members import MAX_ATTEMPT, MAX_MEMBER
from argosy_core.placement import CommitOutcome, WaitReason
from argosy_core.resources import MAX_AMOUNT
from argosy_core.scheduler import MAX_NODES, MAX_TOTAL
from argosy_runtime.shapes import Column, Entries, Number, Shape, Text

__all__ = [
    "CAPACITY",
    "COMMIT_RESPONSE",
    "HELD_AMOUNTS",
    "HELLO_RUNS",
    "LOG_CHUNK",
    "LOG_END",
    "MAX_TEXT",
    "PLACED_RUNS",
    "POD_SIZES",
    "READY",
    "SAMPLE_RESPONSE",
    "SEEN_RUNS",
    "STATE_BATCH",
]

MAX_TEXT: Final = 1000
"""Longest text for people that a sampler tells, characters."""
_MAX_STATE_TEXT: Final = 256
_MAX_NAME: Final = 253
"""Longest name of a node or plugin, characters."""
_MAX_RESOURCE_NAME: Final = 317
"""A prefix, a slash, a name."""
_MAX_RESOURCES: Final = 256
"""Resources that one cluster may name, as many as a pool counts."""
_MAX_GROUP_BYTES: Final = 64 << 10
"""Labels and taints of one node as JSON."""
_MAX_CLASSES: Final = 100_000
"""Classes that one message may name."""
_MAX_FILTERS: Final = 256
_MAX_RUNS: Final = 10_000_000
_MAX_SCORE: Final = 1e18
_MAX_HANDLE: Final = (1 << 55) - 1
_MAX_INT64: Final = (1 << 63) - 1
_END_OF_TIME_US: Final = 253_402_300_800_000_000 - 1
_MAX_CHUNK_BYTES: Final = 32 << 10
_MAX_STATUS: Final = 16

CAPACITY: Final[Shape] = {
    "resources": Entries(of="resource", most=_MAX_RESOURCES, longest=_MAX_RESOURCE_NAME, shortest=1, distinct=True),
    "names": Entries(of="node", most=MAX_NODES, longest=_MAX_NAME, shortest=1),
    "node_column": Column("int32", ("node",), 0, MAX_NODES - 1, distinct=True),
    "flag_column": Column("int8", ("node",), 0, 7),
    "groups": Entries(of="group", most=MAX_NODES, longest=_MAX_GROUP_BYTES),
    "group_column": Column("int32", ("node",), into="group"),
    "allocatable_column": Column("int64", ("node", "resource"), -MAX_AMOUNT, MAX_AMOUNT),
    "free_column": Column("int64", ("node", "resource"), -MAX_AMOUNT, MAX_AMOUNT),
    "total_column": Column("int64", ("resource",), -MAX_TOTAL, MAX_TOTAL),
    "total_free_column": Column("int64", ("resource",), 0, MAX_TOTAL),
    "node_count": Number(least=0, most=MAX_NODES),
    "placement_count": Number(least=0, most=_MAX_RUNS),
    "fitting_class_column": Column("int32", ("fitting class",), 0, distinct=True),
    "fitting_room_column": Column("int32", ("fitting class",), 0),
}

SAMPLE_RESPONSE: Final[Shape] = {
    "round": Number(least=0, most=_MAX_INT64),
    "incarnation": Number(least=0, most=_MAX_INT64),
    "node_column": Column("int32", ("node",), -1, MAX_NODES - 1, distinct=True),
    "free_column": Column("int64", ("node", "resource"), -MAX_TOTAL, MAX_TOTAL),
    "offset_column": Column("int32", ("class",), 0, extra=1),
    "candidate_column": Column("int32", ("candidate",), into="node"),
    "score_column": Column("float32", ("candidate",), -_MAX_SCORE, _MAX_SCORE),
    "examined_column": Column("int32", ("class",), 0),
    "eligible_column": Column("int32", ("class",), 0),
    "complete_column": Column("int8", ("class",), 0, 1),
    "reason_column": Column("int8", ("class",), 0, int(WaitReason.FAULT)),
    "filters": Entries(of="filter", most=_MAX_FILTERS, longest=_MAX_NAME),
    "filter_texts": Entries(of="filter", most=_MAX_FILTERS, longest=MAX_TEXT),
    "rejection_column": Column("int32", ("class", "filter"), 0),
    "total_free_column": Column("int64", ("resource",), 0, MAX_TOTAL),
    "nearest_misses": Entries(of="class", most=_MAX_CLASSES, longest=MAX_TEXT, optional=True),
    "texts": Entries(of="class", most=_MAX_CLASSES, longest=MAX_TEXT, optional=True),
    "retry_after_column": Column("float32", ("class",), optional=True),
    "node_kinds_column": Column("int64", ("class",), -1, optional=True),
    "could_hold_offset_column": Column("int32", ("class",), 0, extra=1, optional=True),
    "could_hold_column": Column("int32", ("could hold",), into="node"),
}

COMMIT_RESPONSE: Final[Shape] = {
    "round": Number(least=0, most=_MAX_INT64),
    "stage": Number(least=0, most=1 << 30),
    "incarnation": Number(least=0, most=_MAX_INT64),
    "node_column": Column("int32", ("member",), -1, MAX_NODES - 1),
    "outcome_column": Column("int8", ("member",), 1, int(max(CommitOutcome))),
}

READY: Final[Shape] = {"placement_count": Number(least=0, most=_MAX_RUNS)}

HELD_AMOUNTS: Final[Shape] = {
    "handle_column": Column("int64", ("member",), 0, _MAX_HANDLE),
    "attempt_column": Column("int32", ("member",), 0, MAX_ATTEMPT),
    "member_column": Column("int16", ("member",), 0, MAX_MEMBER, optional=True),
    "resources": Entries(of="resource", most=_MAX_RESOURCES, longest=_MAX_RESOURCE_NAME, shortest=1, distinct=True),
    "amount_column": Column("int64", ("member", "resource"), -1, MAX_AMOUNT),
}

PLACED_RUNS: Final[Shape] = {
    "nodes": Entries(of="node", most=MAX_NODES, longest=_MAX_NAME, shortest=1),
    "handle_column": Column("int64", ("member",), 0, _MAX_HANDLE),
    "attempt_column": Column("int32", ("member",), 0, MAX_ATTEMPT),
    "member_column": Column("int16", ("member",), 0, MAX_MEMBER, optional=True),
    "node_column": Column("int32", ("member",), into="node"),
}

POD_SIZES: Final[Shape] = {
    "handle_column": Column("int64", ("member",), 0, _MAX_HANDLE),
    "attempt_column": Column("int32", ("member",), 0, MAX_ATTEMPT),
    "member_column": Column("int16", ("member",), 0, MAX_MEMBER, optional=True),
    "resources": Entries(of="resource", most=_MAX_RESOURCES, longest=_MAX_RESOURCE_NAME, shortest=1, distinct=True),
    "requested_column": Column("int64", ("member", "resource"), 0, MAX_AMOUNT),
    "approved_column": Column("int64", ("member", "resource"), 0, MAX_AMOUNT),
    "actual_column": Column("int64", ("member", "resource"), 0, MAX_AMOUNT),
    "state_column": Column("int8", ("member",), 1, 6),
}

HELLO_RUNS: Final[Shape] = {
    "handle_column": Column("int64", ("member",), 0, _MAX_HANDLE),
    "attempt_column": Column("int32", ("member",), 0, MAX_ATTEMPT),
    "member_column": Column("int16", ("member",), 0, MAX_MEMBER, optional=True),
}
"""Those fields of an executor's hello that are not checked by its own rules."""

SEEN_RUNS: Final[Shape] = {
    "handle_column": Column("int64", ("member",), 0, _MAX_HANDLE),
    "attempt_column": Column("int32", ("member",), 0, MAX_ATTEMPT),
    "member_column": Column("int16", ("member",), 0, MAX_MEMBER, optional=True),
}

STATE_BATCH: Final[Shape] = {
    "batch": Number(least=1, most=_MAX_INT64),
    "sent_time_us": Number(least=0, most=_END_OF_TIME_US),
    "texts": Entries(of="text", most=_MAX_CLASSES, longest=_MAX_STATE_TEXT, plain=False),
    "handle_column": Column("int64", ("state",), 0, _MAX_HANDLE),
    "attempt_column": Column("int32", ("state",), 0, MAX_ATTEMPT),
    "object_column": Column("int16", ("state",), 0),
    "state_column": Column("int8", ("state",), 1, int(max(ObjectState))),
    "time_us_column": Column("int64", ("state",), 0, _END_OF_TIME_US),
    "exit_code_column": Column("int32", ("state",)),
    "failure_column": Column("int8", ("state",), 0, int(max(FailureKind))),
    "message_column": Column("int32", ("state",), -1, into="text"),
    "uid_column": Column("uuid", ("state",)),
    "member_column": Column("int16", ("state",), 0, MAX_MEMBER, optional=True),
}

LOG_CHUNK: Final[Shape] = {
    "request": Number(least=0, most=_MAX_INT64),
    "data": Text(longest=_MAX_CHUNK_BYTES),
}

LOG_END: Final[Shape] = {
    "request": Number(least=0, most=_MAX_INT64),
    "code": Number(least=0, most=_MAX_STATUS),
    "message": Text(longest=MAX_TEXT),
}
