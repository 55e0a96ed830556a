"""Traces of the leader: a span per round that decided something, per record of the log, per message of rows.

::

    round (decided) ── lease publish ── lease ingest
                                   └─── rows send ──> executor
    submit (the caller's trace) ── job decide, job lease

Made only if the process traces; the leader then holds, for jobs that their submitter traces, the context of the submit.
They are forgotten with the leadership, and the oldest when there are too many.

Source: design section 9, "Traces".
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from argosy_core.job.identity import compose_id
from argosy_runtime.traces import JOB_BATCH_LIMIT, TraceSpan, Tracing, active

if TYPE_CHECKING:
    from argosy_core.arrays import Int64s
    from argosy_core.scheduler.columns.messages import JobColumns
    from argosy_core.scheduler.outgoing.effects import ExecutorRows, LeasePlan

__all__ = ["LeaseTrace", "RoundTraces", "TracedJob", "round_traces"]

_JOB_LIMIT: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedJob:
    """A job that its submitter traces."""

    job_id: str
    """Id."""
    traceparent: str
    """W3C context of the submit."""
    submit_time_us: int
    """Acceptance, microseconds since the Unix epoch."""


@dataclass(slots=True)
class LeaseTrace:
    """The spans of one round's record, from its publish to its storing."""

    tracing: Tracing
    """Makes spans."""
    publish: TraceSpan
    """The publish."""
    jobs: dict[int, tuple[TracedJob, TraceSpan]]
    """Traced jobs of the record, each with the span of its lease, by handle."""
    ingest: TraceSpan | None = None
    """The storing, once it is under way."""

    @property
    def traceparent(self) -> str:
        """W3C context that goes with the record."""
        return self.publish.traceparent

    def published(self, position: int) -> None:
        """Note that the record stands in the log; its storing begins."""
        self.publish.note(log_position=position)
        self.publish.end()
        self.ingest = self.tracing.begin("lease.ingest", kind="consumer", parent=self.traceparent)

    def stored(self, refused: Int64s) -> None:
        """Note that the leases are stored, but for some that the database refused."""
        if self.ingest is not None:
            self.ingest.note(refused_count=int(refused.size))
            self.ingest.end()
        turned_down = set(refused.tolist())
        for handle, (_, span) in self.jobs.items():
            span.end(error="a change request was set while the round ran" if handle in turned_down else "")


@dataclass(slots=True)
class RoundTraces:
    """Makes the leader's spans."""

    tracing: Tracing
    """Makes spans."""
    pool: str
    """Pool."""
    _jobs: OrderedDict[int, TracedJob] = field(default_factory=OrderedDict)

    def note_jobs(self, jobs: JobColumns, traceparents: Mapping[int, str]) -> None:
        """Note accepted jobs that are traced.

        Args:
            jobs: Accepted jobs.
            traceparents: Contexts of the traced ones among them by handle.
        """
        wanted = np.fromiter(traceparents, dtype=np.int64, count=len(traceparents))
        for index in np.flatnonzero(np.isin(jobs.handle, wanted)).tolist():
            handle = int(jobs.handle[index])
            self._jobs[handle] = TracedJob(
                job_id=compose_id(int(jobs.id_high[index]), handle),
                traceparent=traceparents[handle],
                submit_time_us=int(jobs.submit_time_us[index]),
            )
        while len(self._jobs) > _JOB_LIMIT:
            self._jobs.popitem(last=False)

    def find(self, handles: Int64s) -> dict[int, TracedJob]:
        """Return the traced ones among jobs, at most so many as a batch gives spans to.

        Complexity: O(n log n) in NumPy if any job is traced, else O(1).
        """
        if not self._jobs:
            return {}
        known = np.fromiter(self._jobs, dtype=np.int64, count=len(self._jobs))
        found = handles[np.isin(handles, known)][:JOB_BATCH_LIMIT].tolist()
        return {handle: self._jobs[handle] for handle in found}

    def begin_lease(self, plan: LeasePlan, *, started_ns: int, phases_ms: Mapping[str, float]) -> LeaseTrace:
        """Record a round that decided something, and begin the publish of its record.

        Args:
            plan: What was decided.
            started_ns: When the round began, nanoseconds since the Unix epoch.
            phases_ms: How long its phases took until now.
        """
        jobs = self.find(plan.handle)
        lease_count = int(plan.handle.size)
        round_ = self.tracing.begin(
            "round",
            links=[job.traceparent for job in jobs.values()],
            start_ns=started_ns,
            pool=self.pool,
            round=plan.round_number,
            lease_count=lease_count,
            stop_count=len(plan.stops),
            failed_job_count=int(plan.failed_handle.size),
        )
        round_.note(**{f"phase.{phase.replace(' ', '_')}_ms": took_ms for phase, took_ms in phases_ms.items()})
        round_.note_jobs([job.job_id for job in jobs.values()], lease_count)
        leases: dict[int, tuple[TracedJob, TraceSpan]] = {}
        places = dict(zip(plan.handle.tolist(), range(lease_count), strict=True)) if jobs else {}
        for handle, job in jobs.items():
            place = places[handle]
            where: dict[str, str | int] = {
                "job_id": job.job_id,
                "attempt": int(plan.attempt[place]),
                "cluster": plan.clusters[int(plan.cluster[place])],
                "node": plan.nodes[int(plan.node[place])],
            }
            decide = self.tracing.begin(
                "job.decide",
                parent=job.traceparent,
                links=[round_.traceparent],
                start_ns=job.submit_time_us * 1000,
            )
            decide.note(**where)
            decide.end()
            lease = self.tracing.begin("job.lease", parent=job.traceparent)
            lease.note(**where)
            leases[handle] = (job, lease)
        publish = self.tracing.begin("lease.publish", kind="producer", parent=round_.traceparent, pool=self.pool)
        publish.note(lease_count=lease_count)
        round_.end()
        return LeaseTrace(tracing=self.tracing, publish=publish, jobs=leases)

    def begin_replay(self, traceparent: str, position: int) -> TraceSpan:
        """Begin the storing of a record that an earlier leader published."""
        return self.tracing.begin(
            "lease.ingest", kind="consumer", parent=traceparent, pool=self.pool, log_position=position, replayed=True
        )

    def begin_rows(self, rows: ExecutorRows, lease: LeaseTrace | None) -> TraceSpan:
        """Begin the sending of rows to an executor.

        Args:
            rows: The rows.
            lease: The record that they come from; without one they answer a comparison.
        """
        span = self.tracing.begin(
            "rows.send",
            kind="producer",
            parent=lease.traceparent if lease is not None else "",
            cluster=rows.cluster,
            row_count=int(rows.handle.size),
            pool=self.pool,
        )
        jobs: Iterable[TracedJob] = self.find(rows.handle).values()
        span.note_jobs([job.job_id for job in jobs], int(rows.handle.size))
        return span


def round_traces(pool: str) -> RoundTraces | None:
    """Return what makes a leader's spans, None if this process does not trace."""
    tracing = active()
    return RoundTraces(tracing, pool) if tracing is not None else None
