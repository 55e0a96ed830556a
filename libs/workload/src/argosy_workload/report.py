"""Reports: what a run did, in figures that can be compared.

Latencies are real milliseconds and exist for replays only; waiting, slowdown, utilisation and fairness are in trace
time, so that a replay and a simulation of one workload stand side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from argosy_core.errors import InvalidRequest
from argosy_core.resources import PODS
from argosy_workload.fairness import WAITING_RATIO, Fairness, fill_weighted, integrate_steps, measure_fairness
from argosy_workload.fcfs import simulate_fcfs
from argosy_workload.model import NodeSet, Workload
from argosy_workload.records import RunRecords, RunState
from argosy_workload.story import Happening, NodeMap, draw_nodes, tell_story

__all__ = [
    "REPORT_VERSION",
    "FirstCome",
    "Percentiles",
    "QueueResult",
    "Report",
    "ScalingSeries",
    "Series",
    "add_first_come",
    "build_report",
]

FloatArray = npt.NDArray[np.float64]

REPORT_VERSION: Final = "argosy.dev/run-report/v1"
"""Value of `version` in a report's JSON."""
SLOWDOWN_BOUND_S: Final = 10.0
"""Run times below this count as this in the bounded slowdown, trace seconds."""
INTERVAL_COUNT: Final = 240
"""Intervals of the series over time."""
CURVE_COUNT: Final = 201
"""Points of a distribution's curve: exact to half a percent of the jobs."""
_STAGES: Final = ("acknowledged", "considered", "leased", "running")


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """A distribution; the unit is stated where it is used."""

    count: int
    """Values that are known."""
    mean: float
    """Mean."""
    p50: float
    """Median."""
    p90: float
    """90th percentile."""
    p99: float
    """99th percentile."""
    max: float
    """Largest."""
    curve: tuple[float, ...]
    """Quantiles at evenly spaced levels from 0 to 1, for plots."""

    @staticmethod
    def of(values: FloatArray) -> Percentiles | None:
        """Return the distribution of the values that are not NaN, None if there are none."""
        known = values[~np.isnan(values)]
        if not len(known):
            return None
        p50, p90, p99 = np.quantile(known, (0.5, 0.9, 0.99)).tolist()
        curve = tuple(np.quantile(known, np.linspace(0, 1, CURVE_COUNT)).tolist())
        return Percentiles(
            count=len(known), mean=float(known.mean()), p50=p50, p90=p90, p99=p99, max=float(known.max()), curve=curve
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueResult:
    """What one queue got."""

    name: str
    """Queue."""
    weight: float
    """Weight."""
    job_count: int
    """Jobs submitted."""
    finished_count: int
    """Jobs that reached a terminal state."""
    mean_wait_s: float | None
    """Mean time from submit to running, trace seconds."""
    wait_s: Percentiles | None
    """The distribution of the same."""
    held_ratio: float
    """Share of all that was held."""
    ideal_ratio: float
    """Share that weighted water-filling gives it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Means over equal intervals of the run."""

    edges_s: tuple[float, ...]
    """Ends of the intervals, trace seconds; one more than there are intervals."""
    utilisation: dict[str, tuple[float, ...]]
    """Resource name to the ratio of the pool's capacity that running pods ask for."""
    waiting: tuple[float, ...]
    """Jobs between submit and running."""
    running: tuple[float, ...]
    """Jobs running."""
    held: dict[str, tuple[float, ...]]
    """Queue to the ratio of the pool that it held; the largest queues only."""
    ideal: dict[str, tuple[float, ...]]
    """Queue to what weighted water-filling gives it; the same queues."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingSeries:
    """Processors of pods that are resized, at moments of the run; all cores."""

    at_s: tuple[float, ...]
    """The moments, trace seconds."""
    requested: tuple[float, ...]
    """What was asked for."""
    approved: tuple[float, ...]
    """What was permitted."""
    used: tuple[float, ...]
    """What pods used."""
    pod_count: tuple[int, ...] = ()
    """How many pods they were; empty for a single one."""
    short_ratio: float = 0.0
    """Part of the moments of pods at which they would have used more than they had."""
    resize_count: int = 0
    """Resizes in all."""
    pods: dict[str, ScalingSeries] = field(default_factory=dict)
    """The same of a few pods, by name, those with most changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstCome:
    """The same jobs on the same nodes, served strictly in the order of their submits: what a report is held against."""

    makespan_s: float
    """From the first submit to the last end, trace seconds."""
    fairness: Fairness
    """Against weighted water-filling."""
    queues: tuple[QueueResult, ...]
    """Per queue, in the order of the report's."""
    series: Series
    """Over time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The report of one run."""

    version: str = REPORT_VERSION
    """Form of the document."""
    title: str
    """What was run and how."""
    source: str
    """Where the workload comes from."""
    clock: str
    """`real` for replays, `virtual` for simulations."""
    speed: float
    """Trace seconds per second of the clock."""
    node_count: int
    """Nodes."""
    capacity: dict[str, int]
    """Base units by resource name."""
    job_count: int
    """Jobs submitted."""
    states: dict[str, int]
    """Jobs by state at the end."""
    elapsed_s: float
    """From the first submit to the last end, seconds of the clock."""
    makespan_s: float
    """The same in trace seconds."""
    throughput_per_s: float
    """Jobs that ended, per second of the clock."""
    latency_ms: dict[str, Percentiles | None]
    """Submit to acknowledged, considered, leased, running: real milliseconds; empty for simulations."""
    wait_s: Percentiles | None
    """Submit to running, trace seconds."""
    bounded_slowdown: Percentiles | None
    """max(1, (wait + run) / max(run, 10 s)), in trace time, over jobs that ran."""
    utilisation: dict[str, float]
    """Resource name to the mean ratio over the run."""
    utilisation_loaded: dict[str, float]
    """The same over the intervals in which more than 1 % of the pool was waited for: it could have been fuller."""
    fairness: Fairness
    """Against weighted water-filling."""
    queues: tuple[QueueResult, ...]
    """Per queue, largest weight first."""
    series: Series
    """Over time."""
    counters: dict[str, int]
    """Conflicts, retries and what else was counted."""
    first_come: FirstCome | None = None
    """First come, first served; None where nobody asked for it."""
    notes: tuple[str, ...] = ()
    """What a reader must know."""
    settings: dict[str, str] = field(default_factory=dict)
    """What the run was started with."""
    happenings: tuple[Happening, ...] = ()
    """What is worth telling, in order of time."""
    scaling: ScalingSeries | None = None
    """Pods that were resized; None where nothing was."""
    node_map: NodeMap | None = None
    """What ran on which node, for pictures; None where nobody knows."""

    def to_builtins(self) -> dict[str, Any]:
        """Return the report as a JSON-ready dictionary, without what is for pictures alone."""
        return asdict(replace(self, node_map=None))


@dataclass(frozen=True, slots=True)
class _Clock:
    """Times of all jobs in trace seconds since the first submit."""

    submit_s: FloatArray
    leased_s: FloatArray
    running_s: FloatArray
    finished_s: FloatArray
    end_s: float
    """Last thing that happened."""


def build_report(
    records: RunRecords,
    nodes: NodeSet,
    *,
    title: str,
    counters: Mapping[str, int] | None = None,
    notes: Iterable[str] = (),
    settings: Mapping[str, str] | None = None,
) -> Report:
    """Return the report of a run.

    Args:
        records: What happened to each job; rows that were never submitted (submit is NaN) are left out.
        nodes: What the jobs ran on.
        title: What was run and how.
        counters: What was counted; `conflicts` and `retries` are 0 if they are missing.
        notes: What a reader must know, beside the notes of the records and nodes.
        settings: What the run was started with.

    Raises:
        InvalidRequest: No job was submitted.

    Complexity: O(n log n) in jobs, times the number of resources.
    """
    rows = np.flatnonzero(~np.isnan(records.submit_s))
    if not len(rows):
        raise InvalidRequest(f"{title}: no job was submitted, so there is nothing to report")
    clock, start_s = _trace_clock(records, rows), float(records.submit_s[rows].min())
    states = np.bincount(records.state[rows], minlength=max(RunState) + 1)
    elapsed_s = clock.end_s / records.speed
    ended = int(states[[RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED]].sum())
    series, fairness, waited = _over_time(records, nodes, rows, clock)
    wait_s = clock.running_s - clock.submit_s
    run_s = records.run_s[rows]
    slowdown = np.maximum(1.0, (wait_s + run_s) / np.maximum(run_s, SLOWDOWN_BOUND_S))
    return Report(
        title=title,
        source=records.source,
        clock="virtual" if records.virtual else "real",
        speed=records.speed,
        node_count=len(nodes),
        capacity=nodes.capacity(),
        job_count=len(rows),
        states={state.name.lower(): int(states[state]) for state in RunState if states[state]},
        elapsed_s=elapsed_s,
        makespan_s=clock.end_s,
        throughput_per_s=ended / elapsed_s if elapsed_s > 0 else 0.0,
        latency_ms={} if records.virtual else _latencies(records, rows),
        wait_s=Percentiles.of(wait_s),
        bounded_slowdown=Percentiles.of(slowdown),
        utilisation={name: float(np.mean(values)) for name, values in series.utilisation.items()},
        utilisation_loaded={
            name: float(np.array(values)[waited].mean()) if waited.any() else 0.0
            for name, values in series.utilisation.items()
        },
        fairness=fairness,
        queues=_queue_results(records, rows, wait_s, fairness),
        series=series,
        counters={"conflicts": 0, "retries": 0, **(counters or {})},
        notes=tuple(dict.fromkeys((*records.notes, *nodes.notes, *_clock_notes(records), *notes))),
        settings=dict(settings or {}),
        happenings=tell_story(records, start_s=start_s),
        node_map=draw_nodes(records, nodes, start_s=start_s, end_s=max(clock.end_s, 1e-9)),
    )


def add_first_come(report: Report, workload: Workload, nodes: NodeSet) -> Report:
    """Return a report beside which stands what first come, first served would have done with all of the workload.

    Args:
        report: Of a run of the workload, or of a part of it that was stopped.
        workload: Its jobs, in trace time.
        nodes: What they ran on.

    Complexity: that of `simulate_fcfs` and `build_report`.
    """
    other = build_report(simulate_fcfs(workload, nodes), nodes, title=report.title)
    by_name = {queue.name: queue for queue in other.queues}
    return replace(
        report,
        first_come=FirstCome(
            makespan_s=other.makespan_s,
            fairness=other.fairness,
            queues=tuple(by_name[queue.name] for queue in report.queues),
            series=other.series,
        ),
    )


def _clock_notes(records: RunRecords) -> tuple[str, ...]:
    """Return what must be known of times of a replay at high speed."""
    if records.virtual or records.speed <= 1:
        return ()
    latency_s = records.speed / 10
    note = "Trace times are real times multiplied by the speed, so waits contain the mesh's own latency: "
    return (f"{note}100 ms are {latency_s:,.4g} s of the trace.",)


def _trace_clock(records: RunRecords, rows: npt.NDArray[np.intp]) -> _Clock:
    """Return the times of the submitted jobs in trace seconds since the first submit."""
    start_s = float(records.submit_s[rows].min())
    names = ("submit_s", "leased_s", "running_s", "finished_s")
    columns = [(getattr(records, name)[rows] - start_s) * records.speed for name in names]
    end_s = max(float(np.nanmax(column)) for column in columns if not np.isnan(column).all())
    submit_s, leased_s, running_s, finished_s = columns
    return _Clock(submit_s, leased_s, running_s, finished_s, end_s)


def _latencies(records: RunRecords, rows: npt.NDArray[np.intp]) -> dict[str, Percentiles | None]:
    """Return submit to each stage, real milliseconds."""
    submit_s = records.submit_s[rows]
    return {stage: Percentiles.of((getattr(records, f"{stage}_s")[rows] - submit_s) * 1000) for stage in _STAGES}


def _over_time(
    records: RunRecords, nodes: NodeSet, rows: npt.NDArray[np.intp], clock: _Clock
) -> tuple[Series, Fairness, npt.NDArray[np.bool_]]:
    """Return what is plotted over time, the fairness that follows from it, and in which intervals work waited."""
    axis = nodes.axis().extend(name for shape in records.shapes for name, _ in shape.requests)
    capacity = nodes.amounts(axis).sum(axis=0).astype(np.float64)
    measured = [i for i, name in enumerate(axis.names) if name != PODS and capacity[i] > 0]
    table = np.stack([axis.vector(shape.total()) for shape in records.shapes])
    ratios = table[:, measured] / capacity[measured]
    shape = records.shape[rows]
    edges_s = np.linspace(0.0, max(clock.end_s, 1e-9), INTERVAL_COUNT + 1)
    utilisation = {
        axis.names[column]: tuple(
            integrate_steps(clock.running_s, clock.finished_s, ratios[shape, i], edges_s).tolist()
        )
        for i, column in enumerate(measured)
    }
    one = np.ones(len(rows))
    # A job that left without having run stops waiting when it leaves.
    stop_s = np.where(np.isnan(clock.running_s), clock.finished_s, clock.running_s)
    demands, held = _queue_amounts(records, rows, clock, (ratios.mean(axis=1)[shape], edges_s))
    weights = np.array([queue.weight for queue in records.queues])
    lengths_s = np.diff(edges_s)
    fairness = measure_fairness(demands, held, weights, lengths_s)
    ideal = fill_weighted(np.maximum(demands, held), weights, held.sum(axis=1))
    largest = np.argsort(-held.sum(axis=0), kind="stable")[:6].tolist()
    series = Series(
        edges_s=tuple(edges_s.tolist()),
        utilisation=utilisation,
        waiting=tuple(integrate_steps(clock.submit_s, stop_s, one, edges_s).tolist()),
        running=tuple(integrate_steps(clock.running_s, clock.finished_s, one, edges_s).tolist()),
        held={records.queues[q].name: tuple(held[:, q].tolist()) for q in largest},
        ideal={records.queues[q].name: tuple(ideal[:, q].tolist()) for q in largest},
    )
    return series, fairness, (demands - held).sum(axis=1) > WAITING_RATIO


def _queue_amounts(
    records: RunRecords, rows: npt.NDArray[np.intp], clock: _Clock, measure: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Return (demand, held) per interval and queue as ratios of the pool; `measure` = (amount per job, edges)."""
    amounts, edges_s = measure
    queue = records.queue[rows]
    order = np.argsort(queue, kind="stable")
    bounds = np.searchsorted(queue[order], np.arange(len(records.queues) + 1))
    demands = np.zeros((len(edges_s) - 1, len(records.queues)))
    held = np.zeros_like(demands)
    leased_s = np.where(np.isnan(clock.leased_s), clock.running_s, clock.leased_s)
    for q in range(len(records.queues)):
        mine = order[bounds[q] : bounds[q + 1]]
        ends_s = clock.finished_s[mine]
        demands[:, q] = integrate_steps(clock.submit_s[mine], ends_s, amounts[mine], edges_s)
        held[:, q] = integrate_steps(leased_s[mine], ends_s, amounts[mine], edges_s)
    # Sums of many steps leave a rest of rounding where nothing is.
    return np.where(demands < 1e-12, 0.0, demands), np.where(held < 1e-12, 0.0, held)


def _queue_results(
    records: RunRecords, rows: npt.NDArray[np.intp], wait_s: FloatArray, fairness: Fairness
) -> tuple[QueueResult, ...]:
    """Return what each queue got."""
    count = len(records.queues)
    queue = records.queue[rows]
    started = ~np.isnan(wait_s)
    starts = np.bincount(queue[started], minlength=count)
    waits = np.bincount(queue[started], weights=wait_s[started], minlength=count)
    jobs = np.bincount(queue, minlength=count)
    ended = np.bincount(queue[records.state[rows] >= RunState.SUCCEEDED], minlength=count)
    results = [
        QueueResult(
            name=entry.name,
            weight=entry.weight,
            job_count=int(jobs[q]),
            finished_count=int(ended[q]),
            mean_wait_s=float(waits[q] / starts[q]) if starts[q] else None,
            wait_s=Percentiles.of(wait_s[queue == q]),
            held_ratio=fairness.held_ratio[q],
            ideal_ratio=fairness.ideal_ratio[q],
        )
        for q, entry in enumerate(records.queues)
    ]
    return tuple(sorted(results, key=lambda result: (-result.weight, -result.held_ratio, result.name)))
