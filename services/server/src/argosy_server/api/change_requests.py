"""ChangeRequests by ids or selector: cancel, reprioritise, hold, release and preempt, with a preview.

A selector is bounded to the jobs that exist when the request is taken, so one submitted a moment later is never meant.

Source: design section 5, "Change requests"; `proto/argosy/api/v1/job.proto`, "JobSelector".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy.api.v1 import job_pb2
from argosy.lease.v1 import lease_pb2
from argosy_core.access import Permissions, Verb
from argosy_core.errors import FieldViolation, InvalidRequest
from argosy_core.job.identity import handles_of_ending, parse_id
from argosy_core.job.states import JobState
from argosy_runtime.metrics import METRICS
from argosy_server.api.codecs.changes_codec import encode_change_requests
from argosy_server.api.codecs.names import NAME_RULE, is_name
from argosy_server.api.codecs.selectors import parse_label_selector
from argosy_store.replicas.api import ApiStore
from argosy_store.replicas.change_requests import BoundedFilter, ChangeRequestName
from argosy_store.replicas.job_filters import JobFilter
from argosy_store.rows import JobRecord

__all__ = [
    "ChangeRequest",
    "ChangeRequestOutcome",
    "has_endings",
    "make_change_request",
    "one_each",
    "read_endings",
    "read_filter",
    "read_ids",
]

_SAMPLE_COUNT: Final = 20
_LOOK_UP_COUNT: Final = 1000
_MAX_ENDING: Final = 12  # characters; what is longer is a whole id
_MAX_ENDINGS: Final = 20  # each is looked for on every day, with each number that ends so
_MOST_NUMBERS: Final = 8
_ENDING_DAYS: Final = 400
_KINDS: Final[Mapping[ChangeRequestName, lease_pb2.ChangeRequestKind]] = {
    "cancel": lease_pb2.CHANGE_REQUEST_KIND_CANCEL,
    "reprioritize": lease_pb2.CHANGE_REQUEST_KIND_REPRIORITIZE,
    "hold": lease_pb2.CHANGE_REQUEST_KIND_HOLD,
    "release": lease_pb2.CHANGE_REQUEST_KIND_RELEASE,
    "preempt": lease_pb2.CHANGE_REQUEST_KIND_PREEMPT,
}
_VERBS: Final[Mapping[ChangeRequestName, Verb]] = {
    "cancel": Verb.CANCEL,
    "reprioritize": Verb.REPRIORITIZE,
    "hold": Verb.REPRIORITIZE,
    "release": Verb.REPRIORITIZE,
    "preempt": Verb.PREEMPT,
}
_OPEN: Final[frozenset[int]] = frozenset({JobState.QUEUED, JobState.LEASED, JobState.RUNNING})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRequest:
    """What is asked of which jobs."""

    kind: ChangeRequestName
    """What is asked."""
    job_ids: tuple[str, ...] | None
    """Ids, or None where a selector says which."""
    selector: job_pb2.JobSelector | None
    """Selector, or None where ids say which."""
    is_preview: bool
    """Whether to count only."""
    priority: int = 0
    """New priority."""
    reason: str = ""
    """Who asked and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRequestOutcome:
    """What a change request did, or would do."""

    job_count: int
    """Open jobs meant."""
    unknown_ids: tuple[str, ...]
    """Ids that name no job."""
    sample: tuple[JobRecord, ...]
    """Up to 20 of the jobs."""


def read_filter(
    store: ApiStore,
    selector: job_pb2.JobSelector,
    permissions: Permissions,
    verb: Verb,
    *,
    needs_queue: bool = True,
) -> JobFilter:
    """Return what a selector means to a caller. Blocks.

    Args:
        store: Where queues are.
        selector: Which jobs.
        permissions: What the caller may do.
        verb: What the caller wants to do with the jobs.
        needs_queue: Refuse a selector without queue; else it means the jobs of all queues that it may be done with.

    Raises:
        InvalidRequest: It names no queue and must, or cannot be read.
        NotFound: The queue does not exist, or the caller may not know of it.
        NotPermitted: The caller may not do it with the queue's jobs.
    """
    if needs_queue and not selector.queue:
        raise _wrong("selector.queue", "is needed, so that nobody means all jobs of all queues by accident")
    if selector.job_set and not is_name(selector.job_set):
        raise _wrong("selector.job_set", NAME_RULE)
    if job_pb2.JOB_STATE_UNSPECIFIED in selector.states:
        raise _wrong("selector.states", "must not hold JOB_STATE_UNSPECIFIED")
    labels = parse_label_selector(selector.label_selector, field="selector.label_selector")
    if selector.queue:
        permissions.require(verb, selector.queue)
    allowed = None if selector.queue else permissions.queues_for(verb)
    return JobFilter(
        queue_id=store.get_queue(selector.queue).queue_id if selector.queue else None,
        among_queues=None if allowed is None else tuple(sorted(allowed)),
        job_set=selector.job_set or None,
        states=frozenset(int(state) for state in selector.states),
        labels=labels,
    )


def make_change_request(
    store: ApiStore, change_request: ChangeRequest, permissions: Permissions
) -> ChangeRequestOutcome:
    """Set a change request, or say what it would do. Blocks.

    Raises:
        InvalidRequest: An id or the selector is wrong.
        NotFound: The selector's queue does not exist, or the caller may not know of it.
        NotPermitted: The caller sees the jobs and may not do this with them.
        BackendUnavailable: The database cannot be reached; part of a large selection may have been done: repeat.
    """
    outcome = (
        _change_request_by_ids(store, change_request, permissions)
        if change_request.job_ids is not None
        else _change_request_by_selector(store, change_request, permissions)
    )
    if not change_request.is_preview:
        METRICS.changed_jobs.labels(change_request.kind).inc(outcome.job_count)
    return outcome


def _change_request_by_ids(
    store: ApiStore, change_request: ChangeRequest, permissions: Permissions
) -> ChangeRequestOutcome:
    verb = _VERBS[change_request.kind]
    handles = read_ids(change_request.job_ids or (), field="jobs.ids")
    meant: list[int] = []
    unknown: list[str] = []
    wanted = list(handles.items())
    for start in range(0, len(wanted), _LOOK_UP_COUNT):
        part = wanted[start : start + _LOOK_UP_COUNT]
        found = store.get_jobs([handle for _, handle in part], with_metadata=False)
        records = {record.handle: record for record in found}
        for job_id, handle in part:
            record = records.get(handle)
            # The handle alone leads to the row; the rest of the id must fit too.
            if record is None or record.job_id != job_id:
                unknown.append(job_id)
            elif not permissions.may(verb, record.queue):
                if permissions.may(Verb.WATCH, record.queue):
                    permissions.require(verb, record.queue)
                unknown.append(job_id)
            elif record.state in _meant(change_request.kind):
                meant.append(handle)
    sample = store.get_jobs(meant[:_SAMPLE_COUNT]) if meant else []
    count = len(meant)
    if meant and not change_request.is_preview:
        count = _set(store, change_request, meant)
    return ChangeRequestOutcome(job_count=count, unknown_ids=tuple(unknown), sample=tuple(sample))


def _change_request_by_selector(
    store: ApiStore, change_request: ChangeRequest, permissions: Permissions
) -> ChangeRequestOutcome:
    assert change_request.selector is not None
    job_filter = read_filter(store, change_request.selector, permissions, _VERBS[change_request.kind])
    if change_request.kind == "preempt" and not job_filter.states:
        job_filter = replace(job_filter, states=_meant(change_request.kind))
    target = BoundedFilter(job_filter=job_filter, upper_handle=store.highest_handle())
    sample_handles = store.sample_change_requests(target, _SAMPLE_COUNT)
    sample = store.get_jobs(sample_handles) if sample_handles else []
    # A preview counts, which is a look at every job; a request counts what it finds.
    count = store.count_change_requests(target) if change_request.is_preview else _set(store, change_request, target)
    return ChangeRequestOutcome(job_count=count, unknown_ids=(), sample=tuple(sample))


def _set(store: ApiStore, change_request: ChangeRequest, target: Sequence[int] | BoundedFilter) -> int:
    kind = _KINDS[change_request.kind]
    ended_counts: dict[int, int] = {}  # by first handle of the transaction, which may be tried again

    def encode(handles: npt.NDArray[np.int64], ended: npt.NDArray[np.int8]) -> bytes:
        if len(handles):
            ended_counts[int(handles[0])] = int(np.count_nonzero(ended))
        return encode_change_requests(
            handles, ended, kind=kind, priority=change_request.priority, reason=change_request.reason
        )

    result = store.set_change_requests(
        None, target, change_request.kind, encode=encode, priority=change_request.priority, reason=change_request.reason
    )
    METRICS.finished_jobs.labels("cancelled").inc(sum(ended_counts.values()))
    return result.job_count


def read_endings(job_ids: Sequence[str], numbers: range, *, today: int, field: str) -> dict[str, list[int]]:
    """Return the handles that ids may have of which only the end is given, by the end in lower case.

    Args:
        job_ids: Ids, and ends of ids.
        numbers: Numbers that jobs may have.
        today: Present day since the Unix epoch, by the database's clock.
        field: Path of their field, for the error.

    Raises:
        InvalidRequest: There are too many ends, or one is too short.
    """
    found = [text.lower() for text in job_ids if len(text) <= _MAX_ENDING]
    if len(found) > _MAX_ENDINGS:
        raise _wrong(field, f"hold {len(found)} endings of ids, at most {_MAX_ENDINGS} are allowed; give whole ids")
    days = range(today - _ENDING_DAYS, today + 2)
    return {text: handles_of_ending(text, days, numbers, most=_MOST_NUMBERS) for text in found}


def has_endings(job_ids: Sequence[str]) -> bool:
    """Return whether of some ids only the end is given."""
    return any(len(text) <= _MAX_ENDING for text in job_ids)


def one_each(endings: Collection[str], records: Sequence[JobRecord], *, field: str) -> dict[str, JobRecord]:
    """Return the job whose id ends with each text; those that no id ends with are left out.

    Raises:
        InvalidRequest: Several ids end with one of them.
    """
    found: dict[str, JobRecord] = {}
    for ending in endings:
        matches = [record for record in records if record.job_id.endswith(ending)]
        if len(matches) > 1:
            raise _wrong(field, f"{len(matches)} ids end with {ending}; give more of the one that is meant")
        if matches:
            found[ending] = matches[0]
    return found


def _meant(kind: ChangeRequestName) -> frozenset[int]:
    """Return the states of the jobs that a request means, unless it says which: only what has a run is preempted."""
    return _OPEN - {JobState.QUEUED} if kind == "preempt" else _OPEN


def read_ids(job_ids: Sequence[str], *, field: str, endings: Collection[str] = ()) -> dict[str, int]:
    """Return handles by id in canonical form; each job once however often it is named.

    Args:
        job_ids: The ids.
        field: Path of their field, for the error.
        endings: What of them is only the end of an id, in lower case; left out.

    Raises:
        InvalidRequest: Some are no ids of this system; all of them are listed.
    """
    handles: dict[str, int] = {}
    violations: list[FieldViolation] = []
    for index, job_id in enumerate(job_ids):
        if job_id.lower() in endings:
            continue
        try:
            _, handle = parse_id(job_id)
        except InvalidRequest as error:
            violations.append(FieldViolation(field=f"{field}[{index}]", description=error.message))
            continue
        handles[job_id.lower()] = handle
    if violations:
        raise InvalidRequest("some ids are no job ids", violations=tuple(violations))
    return handles


def _wrong(field: str, description: str) -> InvalidRequest:
    violation = FieldViolation(field=field, description=description)
    return InvalidRequest("one field is wrong in the request", violations=(violation,))
