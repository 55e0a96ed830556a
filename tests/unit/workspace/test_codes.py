"""Enums that the core and a wire have in common have the same names and numbers there."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import pytest

from argosy.api.v1 import event_pb2, job_pb2
from argosy.autoscale.v1 import permit_pb2
from argosy.executor.v1 import executor_pb2
from argosy.sampler.v1 import sampler_pb2
from argosy_core.job.failure_kind import FailureKind
from argosy_core.job.reading.after import AfterUntil
from argosy_core.job.states import FAILURE_REASONS, JobEventKind, JobStage, JobState, ObjectState, RunState
from argosy_core.ledger.permit_records import RefusalReason
from argosy_core.permits.messages import Directive
from argosy_core.placement import CommitOutcome
from argosy_core.placement.reasons import WaitReason

COMMON = [
    ("FAILURE_KIND", FailureKind, executor_pb2.FailureKind),
    ("FAILURE_KIND", FailureKind, job_pb2.FailureKind),
    ("OBJECT_STATE", ObjectState, executor_pb2.ObjectState),
    ("JOB_STATE", JobState, job_pb2.JobState),
    ("RUN_STATE", RunState, job_pb2.RunState),
    ("JOB_STAGE", JobStage, job_pb2.JobStage),
    ("JOB_EVENT_KIND", JobEventKind, event_pb2.JobEventKind),
    ("AFTER_UNTIL", AfterUntil, job_pb2.AfterUntil),
    ("WAIT_REASON", WaitReason, job_pb2.WaitReason),
    ("COMMIT_OUTCOME", CommitOutcome, sampler_pb2.CommitOutcome),
    ("REFUSAL_REASON", RefusalReason, permit_pb2.RefusalReason),
    ("DIRECTIVE", Directive, permit_pb2.Directive),
]


@pytest.mark.parametrize(
    ("prefix", "ours", "wire"), COMMON, ids=[f"{wire.DESCRIPTOR.full_name}" for _, _, wire in COMMON]
)
def test_enum_of_the_core_is_that_of_the_wire(prefix: str, ours: type[IntEnum], wire: Any) -> None:
    """A number that one side knows alone could be neither stored, nor answered, nor shown; 0 is nothing on both."""
    assert {f"{prefix}_{one.name}": one.value for one in ours if one} == {
        name: number for name, number in wire.items() if number
    }


def test_every_kind_of_failure_has_a_text_for_people() -> None:
    """It is shown where an executor gave no message."""
    assert [kind for kind in FailureKind if not FAILURE_REASONS[kind] and kind] == []
