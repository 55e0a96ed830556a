"""Wire messages to values and back; the only module here, beside `client` and `explanations`, that sees protobuf.

Source: CONTRIBUTING.md, "protobuf objects go no further".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from argosy.api.v1 import event_pb2, job_pb2, server_pb2
from argosy_client.scaling_codec import scaling_message, scaling_of
from argosy_client.values import (
    ChangeResult,
    EventBatch,
    Job,
    JobDraft,
    JobEvent,
    JobSelector,
    JobSet,
    JobStanding,
    Run,
    ServerInfo,
    Submitted,
    SubmitWarning,
)
from argosy_core.errors import FieldViolation, InvalidRequest
from argosy_core.job.failure_kind import FailureKind
from argosy_core.job.reading.families import Parent
from argosy_core.job.reading.pod_groups import PodGroup
from argosy_core.job.reading.retry_rules import ReplacedMembers, RetryRules

__all__ = [
    "JOB_STAGE_NAMES",
    "change_result_of",
    "enum_names",
    "event_batch_of",
    "job_of",
    "job_set_of",
    "reason_of",
    "selector_message",
    "server_info_of",
    "submit_message",
    "time_of",
]


def enum_names(enum: Any, prefix: str) -> dict[int, str]:  # noqa: ANN401 - generated types have no common base
    """Return the names of an enum's values without their prefix, in lower case."""
    return {number: name.removeprefix(prefix).lower() for name, number in enum.items()}


_MEMBER_FAILURES: Final = {
    ReplacedMembers.LOST: job_pb2.MEMBER_FAILURE_REPLACE_LOST,
    ReplacedMembers.ALL: job_pb2.MEMBER_FAILURE_REPLACE,
}
_AFTER_NAMES: Final = enum_names(job_pb2.AfterUntil, "AFTER_UNTIL_")
_STATE_NAMES: Final = enum_names(job_pb2.JobState, "JOB_STATE_")
JOB_STAGE_NAMES: Final = enum_names(job_pb2.JobStage, "JOB_STAGE_")
"""Words of the stages of jobs."""
_RUN_STATE_NAMES: Final = enum_names(job_pb2.RunState, "RUN_STATE_")
_FAILURE_NAMES: Final = {**enum_names(job_pb2.FailureKind, "FAILURE_KIND_"), 0: ""}
_EVENT_NAMES: Final = enum_names(event_pb2.JobEventKind, "JOB_EVENT_KIND_")
_FEATURE_NAMES: Final = enum_names(server_pb2.Feature, "FEATURE_")


def submit_message(
    drafts: Sequence[JobDraft], *, client_ids: Sequence[str], validate_only: bool, validation: str = ""
) -> job_pb2.SubmitJobsRequest:
    """Return the request that submits drafts under the given client ids; equal specs travel once.

    Complexity: O(drafts + bytes of their distinct specs).
    """
    request = job_pb2.SubmitJobsRequest(
        validate_only=validate_only,
        validation=f"MANIFEST_VALIDATION_{validation.upper() or 'UNSPECIFIED'}",
    )
    index_by_spec: dict[tuple[object, ...], int] = {}
    for draft, client_id in zip(drafts, client_ids, strict=True):
        key = draft.spec_key
        spec = index_by_spec.get(key)
        if spec is None:
            spec = index_by_spec[key] = len(index_by_spec)
            request.specs.add(
                manifests=draft.manifests,
                groups=map(_group_message, draft.groups),
                retry=_retry_message(draft.retry),
                **_lost_messages(draft.retry),
            )
        request.items.add(
            spec=spec,
            queue=draft.queue,
            job_set=draft.job_set,
            priority=draft.priority,
            client_id=client_id,
            count=draft.count,
            labels=draft.labels,
            annotations=draft.annotations,
            lifetime=_duration_message(draft.lifetime_s),
            time_limit=_duration_message(draft.time_limit_s),
            estimate=_duration_message(draft.estimate_s),
            hold=draft.hold,
            job_set_limit=draft.job_set_limit,
            after=_after_message(draft),
            scaling=scaling_message(draft.scaling),
            operator=draft.operator,
            parent=_parent_message(draft.parent),
        )
    return request


def _retry_message(rules: RetryRules | None) -> job_pb2.RetryRules | None:
    if rules is None or rules.of_failures() == RetryRules():
        return None
    return job_pb2.RetryRules(
        max_failed_runs=rules.max_failed_runs,
        by_kind=[
            job_pb2.FailureLimit(kind=job_pb2.FailureKind.Name(kind.value), max_failed_runs=count)
            for kind, count in rules.by_kind
        ],
        first_back_off=_span_message(rules.first_back_off_s),
        back_off_factor=rules.back_off_factor,
        max_back_off=_span_message(rules.max_back_off_s),
    )


def _lost_messages(rules: RetryRules | None) -> dict[str, Any]:
    """Return what a spec says of nodes and executors that are not heard of, and of members, by field."""
    said: dict[str, Any] = {}
    if rules is not None and rules.replaced_members:
        said["member_failure"] = _MEMBER_FAILURES[rules.replaced_members]
    if rules is not None and rules.replace_after_s:
        said["node_lost"] = job_pb2.NodeLost(replace_after=_span_message(rules.replace_after_s))
    if rules is not None and rules.stop_after_s:
        said["executor_lost"] = job_pb2.ExecutorLost(stop_after=_span_message(rules.stop_after_s))
    return said


def _span_message(seconds: float) -> Duration | None:
    """Return a time in milliseconds; 0 stays unset."""
    if not seconds:
        return None
    message = Duration()
    message.FromMilliseconds(round(1000 * seconds))
    return message


def _retry_of(message: job_pb2.JobSpec) -> RetryRules | None:
    has_rules = any(message.HasField(name) for name in ("retry", "node_lost", "executor_lost"))
    replaced = {value: key for key, value in _MEMBER_FAILURES.items()}.get(message.member_failure, ReplacedMembers.NONE)
    if not has_rules and not replaced:
        return None
    given, known = message.retry, {kind.value for kind in FailureKind}
    return RetryRules(
        max_failed_runs=given.max_failed_runs,
        # A newer server may know kinds that this client does not.
        by_kind=tuple((FailureKind(one.kind), one.max_failed_runs) for one in given.by_kind if one.kind in known),
        first_back_off_s=given.first_back_off.ToMilliseconds() / 1000,
        back_off_factor=given.back_off_factor,
        max_back_off_s=given.max_back_off.ToMilliseconds() / 1000,
        replace_after_s=message.node_lost.replace_after.ToMilliseconds() / 1000,
        stop_after_s=message.executor_lost.stop_after.ToMilliseconds() / 1000,
        replaced_members=replaced,
    )


def _group_message(group: PodGroup) -> job_pb2.PodGroup:
    return job_pb2.PodGroup(
        name=group.name,
        min=group.minimum,
        max=group.maximum,
        template=group.template,
        max_hops=group.max_hops if group.max_hops >= 0 else None,
        shares_nodes=not group.whole_nodes,
        after=group.after,
    )


def _group_of(message: job_pb2.PodGroup) -> PodGroup:
    return PodGroup(
        name=message.name,
        minimum=message.min,
        maximum=message.max or message.min,
        template=message.template,
        max_hops=message.max_hops if message.HasField("max_hops") else -1,
        whole_nodes=not message.shares_nodes,
        after=message.after,
    )


def submitted_of(response: job_pb2.SubmitJobsResponse) -> Submitted:
    """Return the answer of a submit."""
    return Submitted(
        job_ids=tuple(response.job_ids),
        warnings=tuple(SubmitWarning(field=told.field, description=told.description) for told in response.warnings),
        existing=tuple(response.existing_jobs),
    )


def selector_message(selector: JobSelector) -> job_pb2.JobSelector:
    """Return a selector as it is sent, with the names of states as numbers.

    Raises:
        InvalidRequest: A state has no such name.
    """
    known: dict[str, Any] = {name: number for number, name in _STATE_NAMES.items() if number}
    violations = tuple(
        FieldViolation(field="states", description=f"{state!r} is no state of a job; there are {', '.join(known)}")
        for state in selector.states
        if state not in known
    )
    if violations:
        raise InvalidRequest(violations[0].description, violations=violations)
    return job_pb2.JobSelector(
        queue=selector.queue,
        job_set=selector.job_set,
        states=[known[state] for state in selector.states],
        label_selector=selector.label_selector,
    )


def job_of(message: job_pb2.Job) -> Job:
    """Return the job of a message."""
    return Job(
        id=message.id,
        queue=message.queue,
        job_set=message.job_set,
        state=_STATE_NAMES.get(message.state, "unspecified"),
        priority=message.priority,
        create_time=time_of(message, "create_time"),
        end_time=time_of(message, "end_time"),
        reason=message.reason,
        cancel_requested=message.cancel_requested,
        client_id=message.client_id,
        labels=dict(message.labels),
        annotations=dict(message.annotations),
        runs=tuple(_run_of(run) for run in message.runs),
        manifests=tuple(message.spec.manifests),
        groups=tuple(map(_group_of, message.spec.groups)),
        retry=_retry_of(message.spec),
        lifetime_s=_seconds_of(message, "lifetime"),
        time_limit_s=_seconds_of(message, "time_limit"),
        estimate_s=_seconds_of(message, "estimate"),
        submitter=message.submitter,
        held=message.held,
        job_set_limit=message.job_set_limit,
        after=tuple(message.after.job_ids),
        after_until=_AFTER_NAMES.get(message.after.until, "") if message.HasField("after") else "",
        requests=dict(message.requests),
        scaling=scaling_of(message.scaling) if message.HasField("scaling") else None,
        operator=message.operator,
        parent=_parent_of(message) if message.HasField("parent") else None,
    )


def _after_message(draft: JobDraft) -> job_pb2.RunAfter | None:
    """Return what a job begins after; None stays unset."""
    if not draft.after:
        return None
    return job_pb2.RunAfter(job_ids=draft.after, until=f"AFTER_UNTIL_{draft.after_until.upper()}")


def _parent_message(parent: Parent | None) -> job_pb2.ParentJob | None:
    """Return whose child a job is; None stays unset."""
    return None if parent is None else job_pb2.ParentJob(job_id=parent.job_id, outlives=parent.outlives)


def _parent_of(message: job_pb2.Job) -> Parent:
    return Parent(job_id=message.parent.job_id, outlives=message.parent.outlives)


def _duration_message(seconds: int | None) -> Duration | None:
    """Return whole seconds as a Duration; None stays unset."""
    return None if seconds is None else Duration(seconds=seconds)


def _seconds_of(message: job_pb2.Job, name: str) -> int | None:
    """Return a duration in whole seconds, None if it is not set."""
    return int(getattr(message, name).seconds) if message.HasField(name) else None


def job_set_of(message: job_pb2.JobSet) -> JobSet:
    """Return the job set of a message."""
    return JobSet(
        queue=message.queue,
        name=message.name,
        last_event_number=message.last_event_number,
        state_counts=_state_counts_of(message.state_counts),
    )


def server_info_of(message: server_pb2.GetServerInfoResponse) -> ServerInfo:
    """Return what a server says of itself; features that this client does not know are left out."""
    return ServerInfo(
        version=message.version,
        default_pool=message.default_pool,
        limits={field.name: int(getattr(message.limits, field.name)) for field in message.limits.DESCRIPTOR.fields},
        features=tuple(_FEATURE_NAMES[feature] for feature in message.features if feature in _FEATURE_NAMES),
        kubernetes_version=message.kubernetes_version,
    )


def change_result_of(
    message: job_pb2.CancelJobsResponse
    | job_pb2.ReprioritizeJobsResponse
    | job_pb2.HoldJobsResponse
    | job_pb2.ReleaseJobsResponse
    | job_pb2.PreemptJobsResponse,
) -> ChangeResult:
    """Return what a change request did or would do."""
    return ChangeResult(
        job_count=message.job_count,
        unknown_ids=tuple(message.unknown_ids),
        sample=tuple(job_of(job) for job in message.sample),
    )


def standing_of(message: job_pb2.JobStanding) -> JobStanding:
    """Return where one of many jobs stands."""
    return JobStanding(
        id=message.id,
        stage=JOB_STAGE_NAMES.get(message.stage, "unspecified"),
        wait_reason=reason_of(message.wait_reason),
    )


def reason_of(reason: job_pb2.WaitReason) -> str:
    """Return the word of a reason to wait, empty for none."""
    return job_pb2.WaitReason.Name(reason).removeprefix("WAIT_REASON_").lower().replace("unspecified", "")


def event_batch_of(message: event_pb2.WatchJobSetResponse, *, after_number: int) -> EventBatch:
    """Return a batch of events without those numbered `after_number` or lower, which were given before."""
    return EventBatch(
        events=tuple(
            JobEvent(
                number=event.number,
                job_id=event.job_id,
                kind=_EVENT_NAMES.get(event.kind, "unspecified"),
                time_s=event.event_time.seconds + event.event_time.nanos / 1e9,
                attempt=event.attempt,
                cluster=event.cluster,
                node=event.node,
                reason=event.reason,
                member=event.member,
                replacement=event.replacement,
            )
            for event in message.events
            if event.number > after_number
        ),
        cursor=message.cursor,
        state_counts=_state_counts_of(message.state_counts),
    )


def _run_of(message: job_pb2.Run) -> Run:
    return Run(
        attempt=message.attempt,
        member=message.member,
        replacement=message.replacement,
        state=_RUN_STATE_NAMES.get(message.state, "unspecified"),
        cluster=message.cluster,
        node=message.node,
        lease_time=time_of(message, "lease_time"),
        start_time=time_of(message, "start_time"),
        end_time=time_of(message, "end_time"),
        exit_code=message.exit_code if message.HasField("exit_code") else None,
        reason=message.reason,
        failure=_FAILURE_NAMES.get(message.failure, "unspecified"),
    )


def _state_counts_of(counts: Iterable[job_pb2.JobStateCount]) -> dict[str, int]:
    return {_STATE_NAMES.get(count.state, "unspecified"): count.job_count for count in counts}


def time_of(message: Message, field: str) -> datetime | None:
    """Return a field that is a timestamp; None if it is not set."""
    if not message.HasField(field):
        return None
    timestamp: Timestamp = getattr(message, field)
    return timestamp.ToDatetime(tzinfo=UTC)
