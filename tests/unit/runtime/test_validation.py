"""Tests of validation at the edge."""

from __future__ import annotations

import pytest
from google.protobuf.message import Message

from argosy.api.v1 import access_pb2, cluster_pb2, event_pb2, job_pb2, queue_pb2, scheduling_pb2, server_pb2
from argosy_core.errors import InvalidRequest
from argosy_runtime.validation import check_in_pieces, check_request, violations_of
from buf.validate import validate_pb2

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


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (job_pb2.BatchGetJobsRequest(ids=[""] * 1001), "ids"),
        (job_pb2.BatchGetJobsRequest(ids=[""] * 200_000), "ids"),
        (job_pb2.CancelJobsRequest(jobs=job_pb2.JobIds(ids=[""] * 200_000)), "jobs.ids"),
        (
            SUBMIT(
                specs=[job_pb2.JobSpec(manifests=["{}"])],
                items=[job_pb2.JobItem(queue="red", job_set="a", labels={str(n): "" for n in range(100_000)})],
            ),
            "items[0].labels",
        ),
    ],
)
def test_list_that_is_too_long_is_told_and_not_looked_into(message: Message, field: str) -> None:
    """Megabytes of wrong elements, of which each would be a violation, are one: their list."""
    (violation,) = violations_of(message)
    assert violation.field == field


def test_of_a_large_message_the_first_violation_is_told() -> None:
    """A request within all bounds may still have a hundred thousand faults, which nobody reads."""
    items = [job_pb2.JobItem(queue="red", job_set="a" * 30, spec=-1) for _ in range(1000)]
    spec = job_pb2.JobSpec(manifests=["{}"])
    (violation,) = violations_of(SUBMIT(specs=[spec], items=items))
    assert violation.description.endswith("further faults of so large a request are not looked for")
    assert len(violations_of(SUBMIT(specs=[spec], items=items[:200]))) == 200


def test_every_list_of_a_request_has_a_bound() -> None:
    """A list without one would be looked through to its end, however long it is."""
    unbounded = []
    for module in (access_pb2, cluster_pb2, event_pb2, job_pb2, queue_pb2, scheduling_pb2, server_pb2):
        for message in module.DESCRIPTOR.message_types_by_name.values():
            for field in message.fields if message.name.endswith("Request") else ():
                rules = field.GetOptions().Extensions[validate_pb2.field]
                if field.is_repeated and not (rules.repeated.max_items or rules.map.max_pairs):
                    unbounded.append(f"{message.name}.{field.name}")
    assert unbounded == []


def test_of_a_message_of_many_elements_the_first_violation_is_told() -> None:
    """Two bytes make an element that breaks two rules, so bytes alone do not bound how many violations are written."""
    grants = [access_pb2.Grant()] * 257
    assert len(violations_of(access_pb2.AddGrantsRequest(grants=grants[:256]))) == 512
    (violation,) = violations_of(access_pb2.AddGrantsRequest(grants=grants))
    assert violation.description.endswith("further faults of so large a request are not looked for")


def check_pieces(message: Message) -> tuple[int, str]:
    """Return after how many pieces a message was found good or bad, and the field that is wrong."""
    pieces = 1
    try:
        for _ in check_in_pieces(message):
            pieces += 1
    except InvalidRequest as error:
        return pieces, error.violations[0].field
    return pieces, ""


def test_long_request_is_checked_a_hundred_elements_at_a_time() -> None:
    """Whoever checks 1,000 specifications and as many items can let others go on 18 times."""
    spec = job_pb2.JobSpec(groups=[job_pb2.PodGroup(name="a", min=1, template="{}")])
    item = job_pb2.JobItem(queue="red", job_set="a")
    assert check_pieces(SUBMIT(specs=[spec] * 1000, items=[item] * 1000)) == (19, "")
    assert check_pieces(SUBMIT(specs=[spec] * 100, items=[item] * 100)) == (1, "")


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (SUBMIT(specs=[job_pb2.JobSpec()] * 1001, items=[job_pb2.JobItem()]), (1, "specs")),
        (SUBMIT(specs=[job_pb2.JobSpec(manifests=["{}"])] * 200), (1, "items")),
        (SUBMIT(specs=[job_pb2.JobSpec(manifests=["{}"])] * 250 + [job_pb2.JobSpec()]), (1, "items")),
        (
            SUBMIT(
                specs=[job_pb2.JobSpec(manifests=["{}"])] * 250 + [job_pb2.JobSpec()],
                items=[job_pb2.JobItem(queue="red", job_set="a")],
            ),
            (3, "specs[250]"),
        ),
        (
            SUBMIT(
                specs=[job_pb2.JobSpec(manifests=["{}"])],
                items=[job_pb2.JobItem(queue="red", job_set="a")] * 420 + [job_pb2.JobItem(queue="red")],
            ),
            (5, "items[420].job_set"),
        ),
    ],
)
def test_pieces_find_what_a_whole_check_finds(message: Message, expected: tuple[int, str]) -> None:
    """The first violation is told with its path, in the piece in which it is; that of the lists' length at once."""
    assert check_pieces(message) == expected
    with pytest.raises(InvalidRequest):
        check_request(message)


def test_submits_have_no_rules_that_pieces_would_not_see() -> None:
    """Rules of the whole message, and of a list other than how long it is, hold for all of it together."""
    assert not SUBMIT.DESCRIPTOR.GetOptions().HasExtension(validate_pb2.message)
    for field in SUBMIT.DESCRIPTOR.fields:
        if field.is_repeated:
            rules = field.GetOptions().Extensions[validate_pb2.field]
            assert {one.name for one, _ in rules.ListFields()} == {"repeated"}
            assert {one.name for one, _ in rules.repeated.ListFields()} == {"min_items", "max_items"}
