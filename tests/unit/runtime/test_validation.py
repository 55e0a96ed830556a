"""Tests of validation at the edge."""

from __future__ import annotations

import pytest
from google.protobuf.message import Message

from argosy.api.v1 import job_pb2, queue_pb2
from argosy_core.errors import InvalidRequest
from argosy_runtime.validation import check_request, violations_of

SUBMIT = job_pb2.SubmitJobsRequest


@pytest.mark.parametrize(
    ("message", "paths"),
    [
        (SUBMIT(), {"specs", "items"}),
        (
            SUBMIT(specs=[job_pb2.JobSpec(manifests=[b""])], items=[job_pb2.JobItem(spec=-1, job_set="a")]),
            {"specs[0].manifests[0]", "items[0].spec", "items[0].queue"},
        ),
        (job_pb2.CancelJobsRequest(), {"target"}),
        (job_pb2.CancelJobsRequest(jobs=job_pb2.JobIds(ids=["x"])), {"jobs.ids[0]"}),
        (
            queue_pb2.CreateQueueRequest(queue=queue_pb2.Queue(name="A b", weight=float("nan"))),
            {"queue.name", "queue.weight"},
        ),
    ],
)
def test_violations_name_every_field_that_breaks_its_rule(message: Message, paths: set[str]) -> None:
    """All violations are reported, each with its path."""
    assert {violation.field for violation in violations_of(message)} == paths
    with pytest.raises(InvalidRequest) as caught:
        check_request(message)
    assert len(caught.value.violations) == len(violations_of(message))


def test_check_request_passes_what_keeps_the_rules() -> None:
    """A good message raises nothing."""
    check_request(queue_pb2.GetQueueRequest(name="red"))
