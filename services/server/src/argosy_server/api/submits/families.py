"""Jobs that submit jobs: which jobs a request may name as parents, and how its jobs are marked.

Source: docs/operators.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from argosy.api.v1 import job_pb2
from argosy_core.access import Verb
from argosy_core.errors import FieldViolation, InvalidRequest, NotFound
from argosy_core.job.identity import parse_id
from argosy_core.job.reading.families import (
    FAMILY_KEYS,
    MAX_GENERATION,
    family_marks,
    generation_of,
    is_operator,
    parent_of,
)
from argosy_runtime.access.guard import CALLER
from argosy_server.api.queue_cache import QueueCache
from argosy_server.api.submits.submit_items import ItemColumns, Metadata
from argosy_store.rows import JobRecord

__all__ = ["parent_message", "with_marks", "without_marks"]


async def with_marks(
    items: ItemColumns, queues: QueueCache, read_jobs: Callable[[Sequence[int]], Awaitable[list[JobRecord]]]
) -> ItemColumns:
    """Return items with the labels and annotations of their places in their families.

    Args:
        items: The items.
        queues: Queues by name.
        read_jobs: Reads jobs by their handles.

    Raises:
        InvalidRequest: A parent has ended, is no operator, is of another pool, or has too many parents above it.
        NotFound: A parent does not exist, or the caller may not submit to its queue.
    """
    if not items.parents and not items.operators:
        return items
    named = {parent.job_id.lower(): parse_id(parent.job_id)[1] for parent in items.parents.values()}
    found = {record.job_id: record for record in await read_jobs(list(named.values()))} if named else {}
    permissions = CALLER.get().permissions
    found = {job_id: one for job_id, one in found.items() if permissions.may(Verb.SUBMIT, one.queue)}
    known = await queues.find({record.queue for record in found.values()} | set(items.queues)) if found else {}
    missing: list[FieldViolation] = []
    faults: list[FieldViolation] = []
    marks: dict[int, Metadata] = {}
    for number in sorted({*items.parents, *items.operators}):
        parent, generation = items.parents.get(number), 0
        if parent is not None:
            field = f"items[{number}].parent.job_id"
            record = found.get(parent.job_id.lower())
            if record is None:
                missing.append(FieldViolation(field=field, description=f"there is no job {parent.job_id}"))
                continue
            generation = generation_of(record.annotations) + 1
            pools = {known[name].pool for name in (record.queue, items.queues[number]) if name in known}
            if fault := _fault(record, generation, is_of_pool=len(pools) == 1):
                faults.append(FieldViolation(field=field, description=fault))
        labels, annotations = family_marks(parent, generation, may_have_children=number in items.operators)
        marks[number] = tuple(sorted(labels.items())), tuple(sorted(annotations.items()))
    if missing or faults:
        error = NotFound if missing else InvalidRequest
        raise error("nothing was accepted because of jobs named as parents", violations=(*missing, *faults))
    return replace(items, marks=marks)


def _fault(parent: JobRecord, generation: int, *, is_of_pool: bool) -> str:
    """Return why a job cannot have a child; empty if it can."""
    if parent.end_time_us is not None:
        return f"job {parent.job_id} has ended"
    if not is_operator(parent.annotations):
        return f"job {parent.job_id} is no operator: it was submitted without that word"
    if not is_of_pool:
        return f"job {parent.job_id} is of another pool"
    if generation > MAX_GENERATION:
        return f"job {parent.job_id} has {MAX_GENERATION} parents above it, which is the most that a job can have"
    return ""


def parent_message(record: JobRecord) -> job_pb2.ParentJob | None:
    """Return whose child a job is, None if nobody's."""
    parent = parent_of(record.labels, record.annotations)
    return None if parent is None else job_pb2.ParentJob(job_id=parent.job_id, outlives=parent.outlives)


def without_marks(pairs: Mapping[str, str]) -> dict[str, str]:
    """Return labels or annotations of a job without ours."""
    return {key: value for key, value in pairs.items() if key not in FAMILY_KEYS}
