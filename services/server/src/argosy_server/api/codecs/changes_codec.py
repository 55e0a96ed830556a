"""Payloads of `changes`: what an API replica tells the leader with each transaction.

Source: `proto/argosy/lease/v1/lease.proto`, "Changes".
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

import numpy as np
import numpy.typing as npt

from argosy.lease.v1 import lease_pb2
from argosy_core.job.identity import DAY_SHIFT, submitter_number
from argosy_core.job.reading.after import AfterJobs, join_after
from argosy_core.job.reading.options import UNSET, JobOptions, join_options
from argosy_runtime.columns import pack_column
from argosy_runtime.traces import JOB_BATCH_LIMIT
from argosy_store.replicas.submits import SubmitRequest

__all__ = ["encode_change_requests", "encode_cluster_changes", "encode_queue_changes", "encode_submitted"]


def encode_submitted(parts: Sequence[tuple[SubmitRequest, npt.NDArray[np.bool_]]]) -> bytes:
    """Return the news of accepted jobs.

    Args:
        parts: Requests and, per job, whether it was really inserted; repeats of earlier jobs are no news.

    Complexity: O(jobs) in NumPy, O(specs) in Python; each spec is named once however many requests use it.
    """
    specs: dict[tuple[int, bytes], int] = {}
    references: list[lease_pb2.SpecReference] = []
    metadata: dict[bytes, int] = {}
    columns: dict[str, list[npt.NDArray[np.generic]]] = {}
    for request, keep in parts:
        day = int(request.handles[0]) >> DAY_SHIFT
        table = np.empty(len(request.specs), dtype=np.int32)
        for place, spec in enumerate(request.specs):
            key = (day, spec.hash)
            known = specs.setdefault(key, len(specs))
            if known == len(references):
                references.append(lease_pb2.SpecReference(hash=spec.hash, day=day, layout=spec.layout))
            table[place] = known
        # -1 stands for none and so takes the last element.
        names = np.array([*(metadata.setdefault(text, len(metadata)) for text in request.metadata), -1], dtype=np.int32)
        rows = slice(None) if bool(keep.all()) else keep
        for name, values in (
            ("handle", request.handles),
            ("id_high", request.id_highs),
            ("queue", request.queue_ids),
            ("job_set", request.job_set_ids),
            ("class", request.class_ids),
            ("priority", request.priorities),
            ("submit_time_us", request.submit_time_us),
            ("spec", table[request.spec_index]),
            ("metadata", names[request.metadata_index]),
        ):
            columns.setdefault(name, []).append(values[rows])
    kept = [(None if request.options is None else request.options[keep], int(keep.sum())) for request, keep in parts]
    options = join_options(kept)
    joined = {name: np.concatenate(pieces) for name, pieces in columns.items()}
    traced = [
        (request.handles[keep][:JOB_BATCH_LIMIT], request.traceparent) for request, keep in parts if request.traceparent
    ]
    return lease_pb2.Changes(
        submitted=lease_pb2.SubmittedJobs(
            handle_column=pack_column(joined["handle"], "int64"),
            id_high_column=pack_column(joined["id_high"], "int64"),
            queue_column=pack_column(joined["queue"], "int32"),
            job_set_column=pack_column(joined["job_set"], "int64"),
            class_column=pack_column(joined["class"], "int32"),
            priority_column=pack_column(joined["priority"], "int32"),
            submit_time_us_column=pack_column(joined["submit_time_us"], "int64"),
            spec_column=pack_column(joined["spec"], "int32"),
            metadata_column=pack_column(joined["metadata"], "int32"),
            specs=references,
            metadata=list(metadata),
            **({} if options is None else _option_columns(options)),
            **_after_columns(parts),
            submitter_column=_submitter_column(parts),
        ),
        traced=_traced_jobs(traced) if traced else None,
    ).SerializeToString()


def _after_columns(parts: Sequence[tuple[SubmitRequest, npt.NDArray[np.bool_]]]) -> dict[str, bytes]:
    """Return what kept jobs wait for as columns; there are none if they wait for nothing."""
    pairs = join_after(
        [
            AfterJobs.of_payloads(request.handles[keep].tolist(), compress(request.run_after, keep.tolist()))
            for request, keep in parts
            if request.run_after
        ]
    )
    if pairs is None:
        return {}
    return {
        "after_handle_column": pack_column(pairs.handle, "int64"),
        "after_other_high_column": pack_column(pairs.other_high, "int64"),
        "after_other_column": pack_column(pairs.other, "int64"),
        "after_until_column": pack_column(pairs.until, "int8"),
    }


def _submitter_column(parts: Sequence[tuple[SubmitRequest, npt.NDArray[np.bool_]]]) -> bytes:
    """Return who submitted kept jobs as a column, which is empty if nobody knows."""
    if not any(request.submitter for request, _ in parts):
        return b""
    counts = [int(keep.sum()) for _, keep in parts]
    numbers = np.array([submitter_number(request.submitter) for request, _ in parts], dtype=np.int32)
    return pack_column(np.repeat(numbers, counts), "int32")


def _option_columns(options: JobOptions) -> dict[str, bytes]:
    """Return what is said of jobs as columns; one in which nothing is said is empty."""
    return {
        f"{name}_column": pack_column(values, "int32")
        for name, values in options.columns().items()
        if (values != UNSET).any()
    }


def _traced_jobs(parts: Sequence[tuple[npt.NDArray[np.int64], str]]) -> lease_pb2.TracedJobs:
    """Return jobs with the contexts of their submits."""
    counts = [len(handles) for handles, _ in parts]
    return lease_pb2.TracedJobs(
        handle_column=pack_column(np.concatenate([handles for handles, _ in parts]), "int64"),
        context_column=pack_column(np.repeat(np.arange(len(parts)), counts), "int32"),
        traceparents=[traceparent for _, traceparent in parts],
    )


def encode_change_requests(
    handles: npt.NDArray[np.int64],
    ended: npt.NDArray[np.int8],
    *,
    kind: lease_pb2.ChangeRequestKind,
    priority: int,
    reason: str,
) -> bytes:
    """Return the news of change requests of one kind.

    Args:
        handles: Jobs.
        ended: 1 where the job ended in the change request's own transaction.
        kind: What is asked.
        priority: New priority, for a reprioritisation.
        reason: Who asked and why.
    """
    count = len(handles)
    return lease_pb2.Changes(
        change_requests=lease_pb2.ChangeRequests(
            handle_column=pack_column(handles, "int64"),
            kind_column=pack_column(np.full(count, int(kind), dtype=np.int8), "int8"),
            priority_column=pack_column(np.full(count, priority, dtype=np.int32), "int32"),
            ended_column=pack_column(np.asarray(ended, dtype=np.int8), "int8"),
            reason=reason,
        )
    ).SerializeToString()


def encode_queue_changes(queue_ids: Sequence[int]) -> bytes:
    """Return the news that queues' rows changed."""
    return lease_pb2.Changes(changed_queue_ids=queue_ids).SerializeToString()


def encode_settings_change() -> bytes:
    """Return the news that the settings of a pool's rounds changed."""
    return lease_pb2.Changes(changed_settings=True).SerializeToString()


def encode_cluster_changes(clusters: Sequence[str]) -> bytes:
    """Return the news that clusters' settings changed."""
    return lease_pb2.Changes(changed_clusters=clusters).SerializeToString()
