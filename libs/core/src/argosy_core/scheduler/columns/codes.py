"""Codes of states and events as plain integers.

Members of an IntEnum are slow partners for arrays: NumPy looks for array protocols on them at every comparison. The hot
functions use these instead; the meaning is that of the enums of `argosy_core.job.states` and of `WaitReason`.

Source: design section 8.
"""

from __future__ import annotations

from typing import Final

from argosy_core.job.states import FailureKind, JobEventKind, JobState, ObjectState, RunState
from argosy_core.placement import CommitOutcome, WaitReason

__all__ = [
    "COMMIT_CONFLICT",
    "COMMIT_NODE_UNAVAILABLE",
    "COMMIT_PLACED",
    "COMMIT_REFUSED",
    "EVENT_CANCELLED",
    "EVENT_CANCEL_REQUESTED",
    "EVENT_CREATED",
    "EVENT_FAILED",
    "EVENT_HELD",
    "EVENT_LEASED",
    "EVENT_MEMBER_ENDED",
    "EVENT_MEMBER_LEASED",
    "EVENT_MEMBER_RUNNING",
    "EVENT_RELEASED",
    "EVENT_REPRIORITIZED",
    "EVENT_REQUEUED",
    "EVENT_RUNNING",
    "EVENT_SUBMITTED",
    "EVENT_SUCCEEDED",
    "EVENT_UNKNOWN",
    "FAILURE_INFRASTRUCTURE",
    "JOB_CANCELLED",
    "JOB_FAILED",
    "JOB_LEASED",
    "JOB_QUEUED",
    "JOB_RUNNING",
    "JOB_SUCCEEDED",
    "OBJECT_CANCELLED",
    "OBJECT_CREATED",
    "OBJECT_FAILED",
    "OBJECT_LEASED",
    "OBJECT_LOST",
    "OBJECT_RUNNING",
    "OBJECT_SUCCEEDED",
    "OBJECT_UNKNOWN",
    "REASON_FAULT",
    "REASON_NONE",
    "REASON_NO_ROOM",
    "REASON_RETURNED",
    "RUN_CANCELLED",
    "RUN_CREATED",
    "RUN_FAILED",
    "RUN_LEASED",
    "RUN_LOST",
    "RUN_PREEMPTED",
    "RUN_RETURNED",
    "RUN_RUNNING",
    "RUN_SUCCEEDED",
    "RUN_UNKNOWN",
]

COMMIT_CONFLICT: Final = int(CommitOutcome.CONFLICT)
COMMIT_NODE_UNAVAILABLE: Final = int(CommitOutcome.NODE_UNAVAILABLE)
COMMIT_PLACED: Final = int(CommitOutcome.PLACED)
COMMIT_REFUSED: Final = int(CommitOutcome.REFUSED)
FAILURE_INFRASTRUCTURE: Final = int(FailureKind.INFRASTRUCTURE)
EVENT_CANCELLED: Final = int(JobEventKind.CANCELLED)
EVENT_CANCEL_REQUESTED: Final = int(JobEventKind.CANCEL_REQUESTED)
EVENT_CREATED: Final = int(JobEventKind.CREATED)
EVENT_FAILED: Final = int(JobEventKind.FAILED)
EVENT_HELD: Final = int(JobEventKind.HELD)
EVENT_LEASED: Final = int(JobEventKind.LEASED)
EVENT_MEMBER_ENDED: Final = int(JobEventKind.MEMBER_ENDED)
EVENT_MEMBER_LEASED: Final = int(JobEventKind.MEMBER_LEASED)
EVENT_MEMBER_RUNNING: Final = int(JobEventKind.MEMBER_RUNNING)
EVENT_RELEASED: Final = int(JobEventKind.RELEASED)
EVENT_REPRIORITIZED: Final = int(JobEventKind.REPRIORITIZED)
EVENT_REQUEUED: Final = int(JobEventKind.REQUEUED)
EVENT_RUNNING: Final = int(JobEventKind.RUNNING)
EVENT_SUBMITTED: Final = int(JobEventKind.SUBMITTED)
EVENT_SUCCEEDED: Final = int(JobEventKind.SUCCEEDED)
EVENT_UNKNOWN: Final = int(JobEventKind.UNKNOWN)
JOB_CANCELLED: Final = int(JobState.CANCELLED)
JOB_FAILED: Final = int(JobState.FAILED)
JOB_LEASED: Final = int(JobState.LEASED)
JOB_QUEUED: Final = int(JobState.QUEUED)
JOB_RUNNING: Final = int(JobState.RUNNING)
JOB_SUCCEEDED: Final = int(JobState.SUCCEEDED)
OBJECT_CANCELLED: Final = int(ObjectState.CANCELLED)
OBJECT_CREATED: Final = int(ObjectState.CREATED)
OBJECT_FAILED: Final = int(ObjectState.FAILED)
OBJECT_LEASED: Final = int(ObjectState.LEASED)
OBJECT_LOST: Final = int(ObjectState.LOST)
OBJECT_RUNNING: Final = int(ObjectState.RUNNING)
OBJECT_SUCCEEDED: Final = int(ObjectState.SUCCEEDED)
OBJECT_UNKNOWN: Final = int(ObjectState.UNKNOWN)
REASON_FAULT: Final = int(WaitReason.FAULT)
REASON_NONE: Final = int(WaitReason.NONE)
REASON_NO_ROOM: Final = int(WaitReason.NO_ROOM)
REASON_RETURNED: Final = int(WaitReason.RETURNED)
RUN_CANCELLED: Final = int(RunState.CANCELLED)
RUN_CREATED: Final = int(RunState.CREATED)
RUN_FAILED: Final = int(RunState.FAILED)
RUN_LEASED: Final = int(RunState.LEASED)
RUN_PREEMPTED: Final = int(RunState.PREEMPTED)
RUN_RETURNED: Final = int(RunState.RETURNED)
RUN_LOST: Final = int(RunState.LOST)
RUN_RUNNING: Final = int(RunState.RUNNING)
RUN_SUCCEEDED: Final = int(RunState.SUCCEEDED)
RUN_UNKNOWN: Final = int(RunState.UNKNOWN)
