"""Traces of the executor: a span per batch of creates, below the sending of the rows that it makes true.

Made only if the process traces.

Source: design section 9, "Traces".
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from argosy_core.job.identity import compose_id
from argosy_core.job.tables.members import attempt_of
from argosy_runtime.columns import unpack_column
from argosy_runtime.traces import JOB_BATCH_LIMIT, TraceSpan, Tracing, active

if TYPE_CHECKING:
    from argosy.executor.v1 import executor_pb2
    from argosy_core.reconcile import Creates
    from argosy_core.reconcile.columns import BoolArray, Int64Array

__all__ = ["CreateTraces", "create_traces"]

_MESSAGE_LIMIT: Final = 32
_JOB_LIMIT: Final = 10_000


@dataclass(slots=True)
class CreateTraces:
    """Makes the executor's spans."""

    tracing: Tracing
    """Makes spans."""
    cluster: str
    """Cluster."""
    _messages: deque[tuple[str, Int64Array]] = field(default_factory=lambda: deque(maxlen=_MESSAGE_LIMIT))
    """Context and handles of the last messages of rows that were traced."""
    _jobs: OrderedDict[int, tuple[str, int]] = field(default_factory=OrderedDict)
    """Context of the submit, and when the row came in nanoseconds, of traced jobs by handle."""

    def note_rows(self, rows: executor_pb2.ObjectRows, handles: Int64Array) -> None:
        """Note rows that came.

        Args:
            rows: The message.
            handles: Its jobs.
        """
        if rows.traceparent:
            self._messages.append((rows.traceparent, handles))
        if rows.traced.traceparents:
            traced = unpack_column(rows.traced.handle_column, "int64", name="rows.traced.handle_column").tolist()
            now_ns = time.time_ns()
            self._jobs.update(zip(traced, ((text, now_ns) for text in rows.traced.traceparents), strict=False))
            while len(self._jobs) > _JOB_LIMIT:
                self._jobs.popitem(last=False)

    def begin(self, creates: Creates) -> TraceSpan:
        """Begin a batch of creates: below the message that its rows came with, or linked to them if they are several.

        Complexity: O(n log n) in NumPy for each of the last messages.
        """
        handles = creates.handle_column
        sources = [text for text, held in self._messages if np.isin(handles, held, assume_unique=False).any()]
        span = self.tracing.begin(
            "objects.create",
            kind="consumer",
            parent=sources[0] if len(sources) == 1 else "",
            links=sources if len(sources) > 1 else (),
            cluster=self.cluster,
            object_count=len(creates),
        )
        traced = self._traced(handles)
        span.note_jobs(
            [compose_id(int(creates.id_high_column[place]), handle) for handle, place in traced.items()],
            int(np.unique(handles).size),
        )
        return span

    def end(self, span: TraceSpan, creates: Creates, exists: BoolArray) -> None:
        """End a batch of creates, and tell traced jobs what became of theirs.

        Args:
            span: That of the batch.
            creates: What was asked for.
            exists: (n,) whether the object is there now.
        """
        for handle, place in self._traced(creates.handle_column).items():
            mine = creates.handle_column == handle
            traceparent, came_ns = self._jobs[handle]
            job = self.tracing.begin(
                "job.create", parent=traceparent, links=[span.traceparent], start_ns=came_ns, cluster=self.cluster
            )
            job.note(
                job_id=compose_id(int(creates.id_high_column[place]), handle),
                attempt=attempt_of(int(creates.ordinal_column[place])),
                node=creates.nodes[int(creates.node_column[place])],
                object_count=int(mine.sum()),
            )
            if bool(exists[mine].all()):
                del self._jobs[handle]
                job.end()
            else:  # they are tried again, or the run fails
                job.end(error="not every object was created")
        span.note(created_count=int(exists.sum()))
        span.end()

    def _traced(self, handles: Int64Array) -> dict[int, int]:
        """Return the place of the first object of each traced job, for so many jobs as a batch gives spans to."""
        if not self._jobs:
            return {}
        known = np.fromiter(self._jobs, dtype=np.int64, count=len(self._jobs))
        places: dict[int, int] = {}
        for place in np.flatnonzero(np.isin(handles, known)).tolist():
            places.setdefault(int(handles[place]), place)
            if len(places) == JOB_BATCH_LIMIT:
                break
        return places


def create_traces(cluster: str) -> CreateTraces | None:
    """Return what makes an executor's spans, None if this process does not trace."""
    tracing = active()
    return CreateTraces(tracing, cluster) if tracing is not None else None
