"""What a leadership shows of itself on /metrics.

Everything that can be is read from memory once a second, so that rounds and jobs pay nothing for it.

Source: design section 9, "Metrics on /metrics"; seed 003 "Scheduler metrics".
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from argosy_core.scheduler import count_waiting
from argosy_core.scheduler.memory.flows import non_preemptible_flow
from argosy_runtime.logs import get_logger
from argosy_runtime.metrics import METRICS, observe_counts
from argosy_runtime.plugins import FaultReporter
from argosy_server.leader.show.latency import BOUNDS_MS

if TYPE_CHECKING:
    from prometheus_client import Counter, Histogram

    from argosy_core.leader import LeaderMachine
    from argosy_server.leader.sessions.executors import SyncSession
    from argosy_server.leader.sessions.outbox import SessionTable
    from argosy_server.leader.sessions.samplers import SamplerSession
    from argosy_server.leader.show.notes import PhaseClock

__all__ = ["LeaderGauges"]

_PERIOD_S: Final = 1.0
_BUCKET_S: Final = np.append(BOUNDS_MS, BOUNDS_MS[-1]) / 1000
"""What a duration of each fine bucket counts as, seconds; 5 % above the truth at most."""
_STAGES: Final[tuple[tuple[str, Histogram], ...]] = (
    ("considered", METRICS.considered_seconds),
    ("leased", METRICS.leased_seconds),
)


class LeaderGauges:
    """Shows a leadership while it lasts.

    Args:
        pool: Pool.
        machine: What it knows.
        clock: How long things took.
        samplers: Sessions of samplers.
        executors: Sessions of executors.
    """

    def __init__(
        self,
        pool: str,
        machine: LeaderMachine,
        clock: PhaseClock,
        *,
        samplers: SessionTable[SamplerSession],
        executors: SessionTable[SyncSession],
    ) -> None:
        """Show nothing yet."""
        self._pool = pool
        self._machine = machine
        self._clock = clock
        self._samplers = samplers
        self._executors = executors
        self._counters: tuple[tuple[str, Counter], ...] = (
            *((name, counter.labels(pool)) for name, counter in _POOL_COUNTERS),
            *((state, METRICS.finished_jobs.labels(state)) for state in ("succeeded", "failed", "cancelled")),
            *((name, METRICS.promised_starts.labels(pool, outcome)) for name, outcome in _PROMISES),
        )
        self._shown: dict[str, int] = {}
        self._latencies = {stage: np.zeros(len(_BUCKET_S), dtype=np.int64) for stage, _ in _STAGES}
        self._queues: set[str] = set()
        framework = machine.state.decision_profile.framework
        self._faults = FaultReporter(framework, pool, log=get_logger(pool=pool), monotonic=time.monotonic)

    @contextmanager
    def leading(self) -> Iterator[None]:
        """Say at the end that this process no longer leads and has nothing; `note_ready` says that it does."""
        pool = self._pool
        try:
            yield
        finally:
            self._show_counts()
            METRICS.leading.labels(pool).set(0)
            for gauge in _POOL_GAUGES:
                gauge.labels(pool).set(0)
            self._show_flows({})

    def note_ready(self) -> None:
        """Say that this process leads.

        Not before it has taken over: one that holds the epoch and cannot publish to the log decides nothing, and
        whoever watches the pool must see that.
        """
        METRICS.leading.labels(self._pool).set(1)
        METRICS.leader_epoch.labels(self._pool).set(self._machine.epoch)

    async def run(self) -> None:
        """Show what there is, once a second until cancelled."""
        log = get_logger(pool=self._pool)
        while True:
            try:
                self.show()
            except Exception:
                log.exception("gauges cannot be shown")
            await asyncio.sleep(_PERIOD_S)

    def show(self) -> None:
        """Show what there is now."""
        machine, pool = self._machine, self._pool
        self._show_counts()
        self._faults.report()
        queues = machine.state.queues
        METRICS.queued_jobs.labels(pool).set(int(queues.queued_count.sum()))
        METRICS.pending_jobs.labels(pool).set(int(machine.state.pending_slots().size))
        for reason, count in count_waiting(machine.state).items():
            METRICS.waiting_jobs.labels(pool, reason.name.lower()).set(count)
        METRICS.live_runs.labels(pool).set(int(queues.leased_count.sum()))
        totals = machine.totals
        METRICS.log_lag_records.labels(pool).set(totals.get("published_records", 0) - totals.get("stored_records", 0))
        clusters, lasting = machine.state.clusters, non_preemptible_flow(machine.state)
        METRICS.known_clusters.labels(pool).set(len(clusters) - len(clusters.forgotten))
        METRICS.connected_samplers.labels(pool).set(sum(session.ready for session in self._samplers.all()))
        METRICS.connected_executors.labels(pool).set(len(self._executors.all()))
        self._show_flows(
            {
                name: (float(queues.flow[index]), float(lasting[index]), float(queues.charged_core_s[index]) / 60)
                for index, name in queues.names.items()
            }
        )

    def _show_counts(self) -> None:
        """Add what was counted since the last time."""
        totals = {**self._machine.totals, **self._machine.state.totals}
        for name, counter in self._counters:
            total = totals.get(name, 0)
            counter.inc(total - self._shown.get(name, 0))
            self._shown[name] = total
        estimated, exceeded, _ = self._machine.state.run_history.error
        for name, total in (("true", exceeded), ("false", estimated - exceeded)):
            shown = f"estimated_{name}"
            METRICS.estimated_runs.labels(self._pool, name).inc(total - self._shown.get(shown, 0))
            self._shown[shown] = total
        for stage, histogram in _STAGES:
            counts = self._clock.latencies[stage].counts
            observe_counts(histogram, _BUCKET_S, counts - self._latencies[stage])
            self._latencies[stage] = counts.copy()

    def _show_flows(self, flows: dict[str, tuple[float, ...]]) -> None:
        """Show what `_QUEUE_GAUGES` tell of each queue; one that is gone is no longer shown."""
        for name in self._queues - flows.keys():
            for gauge in _QUEUE_GAUGES:
                with suppress(KeyError):
                    gauge.remove(name)
        for name, values in flows.items():
            for gauge, value in zip(_QUEUE_GAUGES, values, strict=True):
                gauge.labels(name).set(value)
        self._queues = set(flows)


_QUEUE_GAUGES: Final = (
    METRICS.queue_flow_cores,
    METRICS.queue_non_preemptible_flow_cores,
    METRICS.queue_charged_core_min,
)
_POOL_COUNTERS: Final[tuple[tuple[str, Any], ...]] = (
    ("rounds", METRICS.rounds),
    ("leases", METRICS.leased_runs),
    ("conflicts", METRICS.commit_conflicts),
    ("refused", METRICS.refused_leases),
    ("requeued", METRICS.requeued_jobs),
    ("preempted", METRICS.preempted_jobs),
    ("members_grown", METRICS.grown_members),
    ("members_replaced", METRICS.replaced_members),
    ("members_taken_back", METRICS.taken_back_members),
    ("stored_records", METRICS.ingested_records),
    ("quarantined", METRICS.quarantined_records),
    ("abandoned_rounds", METRICS.abandoned_rounds),
    ("foreign_states", METRICS.foreign_states),
)
"""Totals of a leadership by name, and the counter of each."""
_PROMISES: Final = (
    ("promises_firm", "firm"),
    ("promises_expected", "expected"),
    ("promises_kept", "kept"),
    ("promises_broken_capacity", "capacity"),
    ("promises_broken_late", "late"),
    ("promises_broken_share", "share"),
)
"""Totals of a leadership by name, and what they say of promised starts."""
_POOL_GAUGES: Final = (
    METRICS.queued_jobs,
    METRICS.pending_jobs,
    METRICS.live_runs,
    METRICS.log_lag_records,
    METRICS.known_clusters,
    METRICS.connected_samplers,
    METRICS.connected_executors,
)
"""What is nothing when nobody leads here."""
