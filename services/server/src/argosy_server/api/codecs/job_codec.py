"""Jobs and runs as messages of the public API.

Source: `proto/argosy/api/v1/job.proto`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from argosy.api.v1 import job_pb2
from argosy_core.job.reading.after import decode_after
from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.reading.families import is_operator
from argosy_core.job.reading.pod_groups import is_of_groups, read_groups
from argosy_core.job.reading.retry_rules import ReplacedMembers, RetryRules, rules_of
from argosy_core.job.states import RunState
from argosy_core.job.tables.members import place_of, replacement_of
from argosy_core.scheduler import Explanation, FilterCount, QueueStanding, StartBand
from argosy_server.api.scaling import scaling_message
from argosy_server.api.submits.families import parent_message, without_marks
from argosy_store.rows import JobRecord, RunRecord

__all__ = ["explain_response", "id_characters", "job_ids", "job_message", "split_body", "timestamp"]

_MEMBER_FAILURES: Final = {
    ReplacedMembers.LOST: job_pb2.MEMBER_FAILURE_REPLACE_LOST,
    ReplacedMembers.ALL: job_pb2.MEMBER_FAILURE_REPLACE,
}
_VARIANT: Final = np.uint64(1 << 63)
_NO_DATE_S: Final = 253_370_764_800
"""The year 9999, the last that a timestamp has."""
_ID_LENGTH: Final = 36
_MOST_CLASSES: Final = 4096  # whose requests are remembered; they never change
_HEXADECIMAL: Final = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
# Where each byte's first digit stands in 8-4-4-4-12.
_HIGH_NIBBLES: Final = np.array([0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34])


def id_characters(id_highs: npt.NDArray[np.int64], handles: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """Return job ids as ASCII: an (n, 36) array, the same as `argosy_core.job.identity.compose_id` one by one."""
    halves = np.empty((len(handles), 2), dtype=">u8")
    halves[:, 0] = np.ascontiguousarray(id_highs).view(np.uint64)
    halves[:, 1] = np.ascontiguousarray(handles).view(np.uint64) | _VARIANT
    raw = halves.view(np.uint8).reshape(-1, 16)
    characters = np.full((len(handles), _ID_LENGTH), ord("-"), dtype=np.uint8)
    characters[:, _HIGH_NIBBLES] = _HEXADECIMAL[raw >> 4]
    characters[:, _HIGH_NIBBLES + 1] = _HEXADECIMAL[raw & 15]
    return characters


def job_ids(id_highs: npt.NDArray[np.int64], handles: npt.NDArray[np.int64]) -> list[str]:
    """Return job ids as text, one per handle.

    Complexity: O(n); measured 0.2 us each.
    """
    text = id_characters(id_highs, handles).tobytes().decode("ascii")
    return [text[at : at + _ID_LENGTH] for at in range(0, len(text), _ID_LENGTH)]


def timestamp(time_us: int | None) -> Timestamp | None:
    """Return a moment in microseconds since the Unix epoch as a Timestamp; None and 0 stay unset."""
    if not time_us:
        return None
    return Timestamp(seconds=time_us // 1_000_000, nanos=time_us % 1_000_000 * 1000)


def duration(seconds: int | None) -> Duration | None:
    """Return whole seconds as a Duration; None stays unset."""
    return None if seconds is None else Duration(seconds=seconds)


def _after_message(payload: bytes) -> job_pb2.RunAfter:
    """Return what a job runs after."""
    until, job_ids = decode_after(payload)
    return job_pb2.RunAfter(job_ids=job_ids, until=f"AFTER_UNTIL_{until.name}")


@lru_cache(maxsize=_MOST_CLASSES)
def _requests(class_definition: bytes) -> dict[str, int]:
    """Return what pods of a class request together, by resource; nothing of a class that cannot be read."""
    try:
        return dict(SchedulingClass.parse(class_definition).requests)
    except ValueError:
        return {}


def job_message(record: JobRecord) -> job_pb2.Job:
    """Return a job with its runs, and its spec if it was read."""
    return job_pb2.Job(
        id=record.job_id,
        queue=record.queue,
        job_set=record.job_set,
        state=job_pb2.JobState.Name(record.state),
        priority=record.priority,
        create_time=timestamp(record.submit_time_us),
        end_time=timestamp(record.end_time_us),
        reason=record.reason or "",
        cancel_requested=record.cancel_requested,
        client_id=record.client_id or "",
        labels=without_marks(record.labels),
        annotations=without_marks(record.annotations),
        runs=[_run_message(run) for run in record.runs],
        spec=_spec_message(record.spec_body, record.spec_layout) if record.spec_body is not None else None,
        lifetime=duration(record.lifetime_s),
        time_limit=duration(record.time_limit_s),
        estimate=duration(record.estimate_s),
        submitter=record.submitter or "",
        held=record.held,
        job_set_limit=record.job_set_limit or 0,
        after=_after_message(record.run_after) if record.run_after else None,
        requests=_requests(record.class_definition),
        scaling=scaling_message(record.annotations) if record.annotations else None,
        operator=is_operator(record.annotations),
        parent=parent_message(record),
    )


def _retry_message(rules: RetryRules | None) -> job_pb2.RetryRules | None:
    """Return what a spec says of runs that fail, None for nothing."""
    if rules is None or rules.of_failures() == RetryRules():
        return None
    return job_pb2.RetryRules(
        max_failed_runs=rules.max_failed_runs,
        by_kind=[
            job_pb2.FailureLimit(kind=job_pb2.FailureKind.Name(kind), max_failed_runs=count)
            for kind, count in rules.by_kind
        ],
        first_back_off=_said(rules.first_back_off_s),
        back_off_factor=rules.back_off_factor,
        max_back_off=_said(rules.max_back_off_s),
    )


def _said(seconds: float) -> Duration | None:
    """Return a time as a Duration; 0 stays unset."""
    return _span(seconds) if seconds else None


def _span(seconds: float) -> Duration:
    """Return a time in milliseconds as a Duration."""
    message = Duration()
    message.FromMilliseconds(round(1000 * seconds))
    return message


def _spec_message(body: bytes, layout: bytes) -> job_pb2.JobSpec:
    """Return a spec as it was submitted; members' pods without the names of their templates."""
    rules = rules_of(layout)
    spec = job_pb2.JobSpec(retry=_retry_message(rules))
    if rules is not None and rules.replace_after_s:
        spec.node_lost.replace_after.CopyFrom(_span(rules.replace_after_s))
    if rules is not None and rules.stop_after_s:
        spec.executor_lost.stop_after.CopyFrom(_span(rules.stop_after_s))
    if rules is not None and rules.replaced_members:
        spec.member_failure = _MEMBER_FAILURES[rules.replaced_members]
    spec.MergeFrom(_bag_message(body))
    return spec


def _bag_message(body: bytes) -> job_pb2.JobSpec:
    """Return the objects of a spec."""
    if not is_of_groups(body):
        return job_pb2.JobSpec(manifests=split_body(body))
    others, groups = read_groups(body)
    return job_pb2.JobSpec(
        manifests=[json.dumps(manifest, separators=(",", ":")) for manifest in others],
        groups=[
            job_pb2.PodGroup(
                name=group.name,
                min=group.minimum,
                max=group.maximum,
                template=group.template,
                max_hops=group.max_hops if group.max_hops >= 0 else None,
                shares_nodes=not group.whole_nodes,
                after=group.after,
            )
            for group in groups
        ],
    )


def _run_message(run: RunRecord) -> job_pb2.Run:
    return job_pb2.Run(
        attempt=run.attempt,
        state=job_pb2.RunState.Name(run.state),
        cluster=run.cluster,
        node=run.node,
        lease_time=timestamp(run.lease_time_us),
        start_time=timestamp(run.start_time_us),
        end_time=timestamp(run.end_time_us),
        exit_code=run.exit_code if run.exit_code or run.state == RunState.SUCCEEDED else None,
        reason=run.reason or "",
        failure=job_pb2.FailureKind.Name(run.failure or 0),
        member=place_of(run.member),
        replacement=replacement_of(run.member),
    )


def split_body(body: bytes) -> Iterator[str]:
    """Yield the elements of a JSON array, each as it stands there.

    Args:
        body: The array without space around its commas, as `argosy_core.job.reading.spec.read_bag` makes it.
    """
    decoder = json.JSONDecoder()
    text = body.decode()
    position = 1
    while position < len(text) - 1:
        start = position + len(text[position:]) - len(text[position:].lstrip())
        _, end = decoder.raw_decode(text, start)
        # Spaces after a manifest belong to it: they were received and hashed.
        comma = text.find(",", end) if text[end:].lstrip().startswith(",") else len(text) - 1
        yield text[position:comma]
        position = comma + 1


def explain_response(record: JobRecord | None, explanation: Explanation) -> job_pb2.ExplainJobResponse:
    """Return where a job stands as a message; without the job if it is only planned."""
    promise = explanation.promise
    return job_pb2.ExplainJobResponse(
        # Who asks why a job waits gets no secrets of its bag besides; GetJob has the spec.
        job=job_message(replace(record, spec_body=None)) if record is not None else None,
        stage=job_pb2.JobStage.Name(explanation.stage),
        summary=explanation.summary,
        queue_position=explanation.queue_position,
        filters=_filter_counts(explanation.filters),
        examined_node_count=explanation.examined_node_count,
        nearest_miss=explanation.nearest_miss,
        failed_attempt_count=explanation.failed_attempt_count,
        queue_flow_per_weight=explanation.queue_flow_per_weight,
        least_flow_per_weight=explanation.least_flow_per_weight,
        last_choice_nodes=explanation.last_choice_nodes,
        wait_reason=job_pb2.WaitReason.Name(explanation.reason),
        cluster_reasons=[
            job_pb2.ClusterWaitReason(
                cluster=one.cluster,
                reason=job_pb2.WaitReason.Name(one.reason),
                text=one.text,
                filters=_filter_counts(one.filters),
                examined_node_count=one.examined_node_count,
                able_node_count=one.able_node_count if one.able_node_count >= 0 else None,
            )
            for one in explanation.cluster_reasons
        ],
        promised_start=job_pb2.PromisedStart(
            time=timestamp(round(promise.moment_s * 1e6)), firm=promise.is_firm, node=promise.node
        )
        if promise is not None
        else None,
        why=explanation.why,
        queue_standing=_queue_standing(explanation.standing) if explanation.standing is not None else None,
        expected_start=_start_band(explanation.start) if explanation.start is not None else None,
        largest_node=explanation.largest_node,
        missing=explanation.missing,
    )


def _filter_counts(counts: Sequence[FilterCount]) -> list[job_pb2.FilterCount]:
    return [job_pb2.FilterCount(filter=one.filter, node_count=one.node_count, text=one.text) for one in counts]


def _queue_standing(standing: QueueStanding) -> job_pb2.QueueStanding:
    return job_pb2.QueueStanding(
        usage_cores=standing.usage_cores,
        share_cores=standing.share_cores,
        flow_per_weight=standing.flow_per_weight,
        before_count=standing.before_count,
        first_before=[
            job_pb2.QueueBefore(queue=one.queue, flow_per_weight=one.flow_per_weight) for one in standing.first_before
        ],
        usage_ratio=standing.usage_ratio,
        share_ratio=standing.share_ratio,
        dominant_resource=standing.dominant_resource,
        dominant_ratio=standing.dominant_ratio,
        weightless_resources=standing.weightless_resources,
    )


def _start_band(band: StartBand) -> job_pb2.StartBand:
    latest, likely = (
        timestamp(round(moment_s * 1e6)) if moment_s < _NO_DATE_S else None
        for moment_s in (band.latest_s, band.likely_s)
    )
    earliest = timestamp(round(min(band.earliest_s, _NO_DATE_S) * 1e6))
    return job_pb2.StartBand(earliest=earliest, latest=latest, likely=likely)
