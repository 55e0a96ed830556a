"""Measuring a whole mesh under an open-loop load at rising rates.

Per rate: a warm-up, until as many jobs end as begin, then a window in which everything is counted from differences:
the leader's histograms, the processes' CPU time, the database's rows and log. A rate is *held* if all of it was
accepted, as many jobs ended as were sent, and the number of waiting jobs did not grow.

Source: design section 8; section 6 ("which queues count is stated with every figure").
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import secrets
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from argosy_client import ArgosyClient, Queue, Shares
from argosy_core.errors import BackendUnavailable
from argosy_local.bench_plan import BenchPlan
from argosy_local.load_generator import LoadOrder
from argosy_local.mesh import Mesh
from argosy_local.process_status import POSTGRES
from argosy_local.processes import usage
from argosy_local.round_totals import Histogram, RoundTotals
from argosy_store.postgres.statistics import DatabaseStatistics, read_statistics

__all__ = ["MeshBench", "RateResult"]

_SAMPLE_S: Final = 0.5
_SLOW_SAMPLE_S: Final = 2.0
_STARTUP_S: Final = 60.0
_HELD_RATIO: Final = 0.97
_GROWTH_RATIO: Final = 0.01
_LIVE_FLOOR: Final = 10_000
_BROKER: Final = "broker"
_COMBINED: Final = "cluster agents"
_CENTRAL_ROLES: Final = ("api", "leader", "samplers", _COMBINED, POSTGRES, _BROKER)


@dataclass(frozen=True, slots=True, kw_only=True)
class RateResult:
    """What came of one rate; percentiles in milliseconds, CPU in microseconds per job that ended."""

    rate: float
    """Jobs per second offered."""
    held: bool
    """Accepted and finished as fast as offered, without more and more jobs waiting."""
    accepted_per_s: float
    """Jobs per second acknowledged."""
    finished_per_s: float
    """Jobs per second that ended."""
    waiting_start: float
    """Jobs queued or pending at the beginning of the window (mean of its first tenth)."""
    waiting_end: float
    """The same at its end."""
    latency_ms: dict[str, dict[str, float | None]]
    """Submit to acknowledged (by the client, from the appointed time), considered, leased, running, finished."""
    cpu_us_per_job: dict[str, float]
    """By role; samplers, executors and clusters are sums."""
    central_cpu_us_per_job: float
    """API, leader, samplers (combined: whole cluster agents), Postgres and broker together."""
    cores_used: float
    """Cores busy with the mesh and its load."""
    database: dict[str, float]
    """Rows inserted, updated, deleted and log bytes per job, and the ratio of HOT updates."""
    peak_rss_bytes: dict[str, int]
    """Most memory by role."""
    live_count: float
    """Jobs queued, pending, leased or running, mean."""
    leader_bytes_per_live_job: float | None
    """Growth of the leader's memory since its start over the jobs it holds; None for fewer than 10,000 jobs, which what
    every leader needs would outweigh."""
    utilisation_ratio: float | None
    """Cores placed over cores there are, mean."""
    fairness: dict[str, float]
    """Jain index of usage over entitlement, and largest deviation from it as a ratio of the pool; means."""
    counters: dict[str, int]
    """The leader's totals: rounds, conflicts, retries and so on."""
    generator: dict[str, Any]
    """Errors by code, and calls held up by a full generator."""
    notes: tuple[str, ...] = ()
    """Why it was not held."""

    def to_builtins(self) -> dict[str, Any]:
        """Return the result as a JSON-ready dictionary."""
        return dataclasses.asdict(self)


@dataclass(slots=True)
class _Window:
    """What is sampled while a rate runs."""

    times_s: list[float] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    live: list[int] = field(default_factory=list)
    utilisation: list[float] = field(default_factory=list)
    jain: list[float] = field(default_factory=list)
    deviation: list[float] = field(default_factory=list)
    peak_rss: dict[str, int] = field(default_factory=dict)
    leader_rss: list[int] = field(default_factory=list)
    rounds: RoundTotals = field(default_factory=RoundTotals)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Snapshot:
    """Totals at a moment."""

    time_s: float
    cpu_s: dict[str, float]
    database: DatabaseStatistics


class MeshBench:
    """Measures a mesh that is up.

    Args:
        mesh: The mesh.
        plan: What is measured.
        tell: Is told what happens.
    """

    def __init__(self, mesh: Mesh, plan: BenchPlan, *, tell: Callable[[str], None] = lambda _: None) -> None:
        """Prepare; nothing is sent before `run`."""
        self._mesh = mesh
        self._plan = plan
        self._tell = tell
        self._idle_leader_rss = mesh.usage("leader").rss_bytes

    async def run(self) -> list[RateResult]:
        """Measure every rate up to the first that is not held.

        Raises:
            BackendUnavailable: The mesh or a load generator does not work.
        """
        results = []
        async with self._mesh.open_client(timeout_s=20.0) as client:
            for queue in self._plan.load.queues():
                await client.create_queue(Queue(name=queue.name, weight=queue.weight))
            for rate in self._plan.rates:
                self._tell(
                    f"{rate:,.0f} jobs/s: {self._plan.warm_up_s:g} s to warm up, {self._plan.window_s:g} s counted"
                )
                result = await self._measure(client, rate)
                results.append(result)
                self._tell(
                    f"  {'held' if result.held else 'not held'}: {result.finished_per_s:,.0f} jobs/s ended, "
                    f"{result.central_cpu_us_per_job:,.0f} us of CPU a job"
                )
                if not result.held and self._plan.stops_early:
                    break
        return results

    # --- one rate -------------------------------------------------------------------------------------------------

    async def _measure(self, client: ArgosyClient, rate: float) -> RateResult:
        generators = [await self._start_generator(rate, number) for number in range(self._plan.generator_count)]
        try:
            for generator in generators:
                assert generator.stdin is not None
                generator.stdin.write(b"\n")
                await generator.stdin.drain()
            await asyncio.sleep(self._plan.warm_up_s)
            window = _Window()
            before = await self._snapshot()
            await self._observe(client, window)
            after = await self._snapshot()
            sent = [await self._result_of(generator) for generator in generators]
        finally:
            for generator in generators:
                if generator.returncode is None:
                    generator.kill()
                    await generator.wait()
        return self._evaluate(rate, window, (before, after), sent)

    async def _start_generator(self, rate: float, number: int) -> asyncio.subprocess.Process:
        plan = self._plan
        order = LoadOrder(
            server=self._mesh.server,
            rate=rate / plan.generator_count,
            seconds=plan.warm_up_s + plan.window_s,
            skip_s=plan.warm_up_s,
            connection_count=plan.connection_count,
            max_call_count=256,
            prefix=f"{secrets.token_hex(4)}-",
            seed=number,
            load=dataclasses.asdict(plan.load),
            credentials=dataclasses.asdict(self._mesh.credentials),
        )
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "argosy_local.load_generator", json.dumps(dataclasses.asdict(order))),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
        assert process.stdout is not None
        async with asyncio.timeout(_STARTUP_S):
            if not await process.stdout.readline():
                raise BackendUnavailable("the load generator ended before it began")
        return process

    async def _result_of(self, generator: asyncio.subprocess.Process) -> dict[str, Any]:
        assert generator.stdout is not None
        async with asyncio.timeout(_STARTUP_S):
            line = await generator.stdout.readline()
            await generator.wait()
        if not line:
            raise BackendUnavailable(f"the load generator ended with code {generator.returncode}")
        result: dict[str, Any] = json.loads(line)
        return result

    async def _snapshot(self) -> _Snapshot:
        database = await asyncio.to_thread(read_statistics, self._mesh.database_url)
        cpu_s = self._mesh.cpu_seconds()
        if self._plan.broker_pid:
            cpu_s[_BROKER] = usage(self._plan.broker_pid).cpu_s
        return _Snapshot(time_s=time.monotonic(), cpu_s=self._by_group(cpu_s), database=database)

    async def _observe(self, client: ArgosyClient, window: _Window) -> None:
        start_s = time.monotonic()
        slow_due_s = start_s
        await self._sample(client, window)
        while (now_s := time.monotonic()) < start_s + self._plan.window_s:
            if now_s >= slow_due_s:
                slow_due_s = now_s + _SLOW_SAMPLE_S
                await self._sample_slowly(client, window)
            await asyncio.sleep(min(_SAMPLE_S, max(start_s + self._plan.window_s - now_s, 0.01)))
            await self._sample(client, window)

    async def _sample(self, client: ArgosyClient, window: _Window) -> None:
        answer = await client.get_last_round()
        window.rounds.look(answer)
        window.times_s.append(time.monotonic())
        window.waiting.append(answer.queued_count + answer.pending_count)
        window.leader_rss.append(self._mesh.usage("leader").rss_bytes)

    async def _sample_slowly(self, client: ArgosyClient, window: _Window) -> None:
        if self._plan.broker_pid:
            window.peak_rss[_BROKER] = usage(self._plan.broker_pid).peak_rss_bytes
        for role in self._mesh.roles:
            used = self._mesh.usage(role)
            group = _group_of(role)
            window.peak_rss[group] = max(window.peak_rss.get(group, 0), used.peak_rss_bytes)
        with suppress(BackendUnavailable):
            shares = await client.get_shares()
            window.live.append(sum(s.queued_count + s.pending_count + s.leased_count for s in shares.shares))
            _add_fairness(window, shares)
            clusters = [cluster async for cluster in client.list_clusters()]
            total = sum(cluster.total.get("cpu", 0) for cluster in clusters)
            free = sum(cluster.free.get("cpu", 0) for cluster in clusters)
            if total:
                window.utilisation.append((total - free) / total)

    # --- figures --------------------------------------------------------------------------------------------------

    def _evaluate(
        self,
        rate: float,
        window: _Window,
        snapshots: tuple[_Snapshot, _Snapshot],
        sent: Sequence[dict[str, Any]],
    ) -> RateResult:
        before, after = snapshots
        elapsed_s = after.time_s - before.time_s
        finished = window.rounds.histograms.get("finished", Histogram()).count
        jobs = max(finished, 1)
        cpu_s = {group: after.cpu_s[group] - before.cpu_s.get(group, 0.0) for group in after.cpu_s}
        run_s = self._plan.warm_up_s + self._plan.window_s
        generator_us = 1e6 * sum(one["cpu_s"] for one in sent) / max(sum(one["accepted_count"] for one in sent), 1)
        cpu_us = {group: 1e6 * seconds / jobs for group, seconds in cpu_s.items()}
        accepted_per_s = sum(one["accepted_count"] for one in sent) / run_s
        finished_per_s = finished / elapsed_s
        notes = _reasons(rate, window, sent, (accepted_per_s, finished_per_s))
        tenth = max(len(window.waiting) // 10, 1)
        live = float(np.mean(window.live)) if window.live else 0.0
        growth = float(np.mean(window.leader_rss)) - self._idle_leader_rss
        return RateResult(
            rate=rate,
            held=not notes,
            accepted_per_s=accepted_per_s,
            finished_per_s=finished_per_s,
            waiting_start=float(np.mean(window.waiting[:tenth])),
            waiting_end=float(np.mean(window.waiting[-tenth:])),
            latency_ms=_latencies(window.rounds, sent),
            cpu_us_per_job={**cpu_us, "generator": generator_us},
            central_cpu_us_per_job=sum(cpu_us.get(group, 0.0) for group in _CENTRAL_ROLES),
            cores_used=(sum(cpu_s.values()) + sum(one["cpu_s"] for one in sent) * elapsed_s / run_s) / elapsed_s,
            database=_database_figures(after.database - before.database, jobs),
            peak_rss_bytes=window.peak_rss,
            live_count=live,
            leader_bytes_per_live_job=growth / live if live >= _LIVE_FLOOR else None,
            utilisation_ratio=float(np.mean(window.utilisation)) if window.utilisation else None,
            fairness={
                "jain_index": float(np.mean(window.jain)) if window.jain else 1.0,
                "largest_deviation_ratio": float(np.mean(window.deviation)) if window.deviation else 0.0,
            },
            counters=dict(window.rounds.totals),
            generator={
                "processes": len(sent),
                "held_up_count": sum(one["held_up_count"] for one in sent),
                "errors": {code: count for one in sent for code, count in one["errors"].items()},
            },
            notes=tuple(notes),
        )

    def _by_group(self, by_role: dict[str, float]) -> dict[str, float]:
        groups: dict[str, float] = {}
        for role, value in by_role.items():
            groups[_group_of(role)] = groups.get(_group_of(role), 0.0) + value
        return groups


def _group_of(role: str) -> str:
    kind, dash, _ = role.partition("-")
    if kind == "combined":
        return _COMBINED
    if kind == "leader":
        return kind
    return f"{kind}s" if dash else role


def _add_fairness(window: _Window, shares: Shares) -> None:
    """Compare usage with entitlement over the queues that have work."""
    usage = np.array([share.usage_cores for share in shares.shares if share.demand_cores > 0])
    entitled = np.array([share.entitled_cores or 0.0 for share in shares.shares if share.demand_cores > 0])
    if not len(usage) or not usage.sum() or not (entitled > 0).all():
        return
    ratios = usage / entitled
    window.jain.append(float(ratios.sum() ** 2 / (len(ratios) * (ratios**2).sum())))
    window.deviation.append(float(np.abs(usage - entitled).max() / max(shares.capacity_cores or 0.0, 1e-9)))


def _reasons(rate: float, window: _Window, sent: Sequence[dict[str, Any]], rates: tuple[float, float]) -> list[str]:
    """Return why a rate was not held; nothing if it was."""
    accepted_per_s, finished_per_s = rates
    notes = []
    errors = sum(sum(one["errors"].values()) for one in sent)
    if errors:
        notes.append(f"{errors} calls failed")
    if accepted_per_s < rate * _HELD_RATIO:
        notes.append(f"only {accepted_per_s:,.0f} jobs/s were accepted")
    if finished_per_s < rate * _HELD_RATIO:
        notes.append(f"only {finished_per_s:,.0f} jobs/s ended")
    if len(window.waiting) > 2:
        growth_per_s = float(np.polyfit(np.array(window.times_s) - window.times_s[0], window.waiting, 1)[0])
        if growth_per_s > rate * _GROWTH_RATIO:
            notes.append(f"waiting jobs grew by {growth_per_s:,.0f} a second")
    return notes


def _latencies(rounds: RoundTotals, sent: Sequence[dict[str, Any]]) -> dict[str, dict[str, float | None]]:
    # Several generators share one load evenly, so the mean of their percentiles is close to the percentile of all.
    names = ("p50_ms", "p99_ms")
    acknowledged: dict[str, float | None] = {}
    for name in names:
        known = [one["acknowledged"][name] for one in sent if one["acknowledged"][name] is not None]
        acknowledged[name] = float(np.mean(known)) if known else None
    found = {"acknowledged": acknowledged}
    for stage in ("considered", "leased", "running", "finished"):
        histogram = rounds.histograms.get(stage, Histogram())
        found[stage] = {
            name: histogram.quantile_ms(level) if histogram.count else None
            for name, level in zip(names, (0.5, 0.99), strict=True)
        }
    return found


def _database_figures(done: DatabaseStatistics, jobs: int) -> dict[str, float]:
    return {
        "inserted_per_job": done.inserted_count / jobs,
        "updated_per_job": done.updated_count / jobs,
        "deleted_per_job": done.deleted_count / jobs,
        "hot_ratio": done.hot_updated_count / done.updated_count if done.updated_count else 1.0,
        "wal_bytes_per_job": done.wal_bytes / jobs,
    }
