"""What a `LeaderWorld` is made of: jobs to be added to, layouts of bags, reports as columns, and plans of nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from argosy_core.arrays import Int32s, Int64s
from argosy_core.job.failure_kind import FailureKind
from argosy_core.job.identity import NOBODY
from argosy_core.job.reading.after import AfterUntil
from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.reading.options import OPTION_NAMES, UNSET, JobOptions, join_options
from argosy_core.job.reading.retry_rules import ReplacedMembers, RetryRules, with_rules
from argosy_core.job.tables.members import Members, member_key
from argosy_core.job.tables.rows import HeldAmounts
from argosy_core.placement import NodeSampler
from argosy_core.scheduler import CapacityColumns, LeasePlan, PoolState, SpecReference, StateColumns
from argosy_core.scheduler.rounds.plan import round_state
from argosy_simulation import WorldPlan
from argosy_simulation.plan import JobIndex

__all__ = [
    "BAG_LAYOUT",
    "KEEP_LOST_LAYOUT",
    "LAYOUTS",
    "LOST_LAYOUT",
    "POD_LAYOUT",
    "REPLACE_LAYOUT",
    "RETRY_LAYOUT",
    "Report",
    "add_jobs",
    "capacity_columns",
    "empty_index",
    "empty_plan",
    "held_amounts",
    "options_of",
    "report_columns",
]

POD_LAYOUT = b'[["Pod","work"]]'
"""Layout of a job of one pod."""
BAG_LAYOUT = b'[["Service","front"],["Pod","one"],["Pod","two"]]'
"""Layout of a bag whose first object is no pod."""
RETRY_LAYOUT = with_rules(
    POD_LAYOUT,
    RetryRules(
        max_failed_runs=3,
        by_kind=((FailureKind.EXIT_CODE, 2), (FailureKind.EVICTED, 1)),
        first_back_off_s=60.0,
        back_off_factor=3.0,
        max_back_off_s=100.0,
    ),
)
"""One pod, three failed runs, and two if the last failed by its exit code; 60 s and then 100 s between them."""
LOST_LAYOUT = with_rules(POD_LAYOUT, RetryRules(replace_after_s=300.0, stop_after_s=300.0))
"""One pod, whose run counts as lost when its node or executor was not heard of for 300 s."""
REPLACE_LAYOUT = with_rules(
    b'[["Service","member"],["Pod","member"]]', RetryRules(max_failed_runs=3, replaced_members=ReplacedMembers.ALL)
)
"""A member of a distributed job, replaced while the others run until three have failed or were lost."""
KEEP_LOST_LAYOUT = with_rules(POD_LAYOUT, RetryRules(replaced_members=ReplacedMembers.LOST))
"""One pod, replaced while the others of its run go on if it is lost, not if it fails."""
LAYOUTS = (POD_LAYOUT, BAG_LAYOUT, RETRY_LAYOUT, LOST_LAYOUT, REPLACE_LAYOUT, KEEP_LOST_LAYOUT)
"""All, by their index in a plan."""
_MOST_CLASSES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One state that an executor reports."""

    handle: int
    """Job handle."""
    state: int
    """ObjectState."""
    attempt: int = 1
    """Attempt."""
    member: int = 0
    """Number of the member in its run."""
    object_index: int = 0
    """Position in the bag."""
    failure: int = 0
    """FailureKind."""
    exit_code: int = 0
    """Exit code."""
    text: str = ""
    """Message."""
    time_us: int = 0
    """When; 0 for now."""


def empty_index(queues: Mapping[str, float], parents: Mapping[str, str] | None = None) -> JobIndex:
    """Return an index without jobs, to be added to."""
    none = np.zeros(0, dtype=np.int32)
    plan = WorldPlan(
        clusters=(),
        queues=tuple(queues.items()),
        classes=(SchedulingClass(requests=()),) * _MOST_CLASSES,
        job_sets=(),
        submit_s=np.zeros(0),
        run_s=np.zeros(0),
        class_index=none,
        job_set=none,
        priority=none,
        exit_code=none,
        layout=none,
        parents=dict(parents or {}),
    )
    job_index = JobIndex(plan)
    job_index.definitions.clear()
    job_index.specs = tuple(
        SpecReference(hash=hashlib.blake2b(text, digest_size=16).digest(), day=20_000, layout=text) for text in LAYOUTS
    )
    return job_index


def add_jobs(  # noqa: PLR0913 - one argument per thing that a test may care about
    job_index: JobIndex,
    count: int,
    *,
    submit_s: float,
    queue: int = 1,
    class_id: int = 1,
    priority: int = 0,
    job_set: str = "set",
    layout: bytes = POD_LAYOUT,
    options: tuple[int, ...] | None = None,
    after: tuple[AfterUntil, Sequence[int]] | None = None,
    parent: int | None = None,
    submitter: int = NOBODY,
) -> Int64s:
    """Add equal jobs to an index, and return their rows; a class that is not defined has one core.

    Options are as of `options_of`; `after` names the handles of jobs to wait for, `parent` one to end with.
    """
    if class_id not in job_index.definitions:
        job_index.definitions[class_id] = SchedulingClass(requests=(("cpu", 1000),)).definition()
    plan, owner = job_index.plan, (queue - 1, job_set)
    job_sets = plan.job_sets if owner in plan.job_sets else (*plan.job_sets, owner)

    def more(column: Int32s, value: int) -> Int32s:
        return np.append(column, np.full(count, value, dtype=np.int32))

    known = (plan.options, plan.submit_s.size)
    times_s = np.append(plan.submit_s, np.full(count, submit_s))
    job_index.plan = replace(
        plan,
        job_sets=job_sets,
        submit_s=times_s,
        run_s=np.zeros(times_s.size),
        class_index=more(plan.class_index, class_id - 1),
        job_set=more(plan.job_set, job_sets.index(owner)),
        priority=more(plan.priority, priority),
        exit_code=more(plan.exit_code, 0),
        layout=more(plan.layout, LAYOUTS.index(layout)),
        options=join_options([known, (None if options is None else options_of(*[options] * count), count)]),
        submitter=more(plan.submitters(), submitter),
    )
    rows = np.arange(times_s.size - count, times_s.size, dtype=np.int64)
    if after is not None:
        named = after[0], tuple(job_index.index(handle) for handle in after[1])
        job_index.plan = replace(job_index.plan, after={**job_index.plan.after, **dict.fromkeys(rows.tolist(), named)})
    if parent is not None:
        bound = dict.fromkeys(rows.tolist(), job_index.index(parent))
        job_index.plan = replace(job_index.plan, families={**job_index.plan.families, **bound})
    return rows


def held_amounts(amounts: Mapping[tuple[int, int], int], resource: str) -> HeldAmounts:
    """Return what members, (handle, ordinal), hold of a resource as columns; -1 for what the class says."""
    return HeldAmounts(
        members=Members(*np.array(list(amounts), dtype=np.int64).T),
        names=(resource,),
        amounts=np.array(list(amounts.values()), dtype=np.int64)[:, None],
    )


def options_of(*rows: tuple[int, ...]) -> JobOptions:
    """Return (lifetime, time limit, estimate, held, job set limit) of jobs; nothing is said of what is left out."""
    full = [row + (UNSET,) * (len(OPTION_NAMES) - len(row)) for row in rows]
    columns = (np.array(values, dtype=np.int32) for values in zip(*full, strict=True))
    return JobOptions(**dict(zip(OPTION_NAMES, columns, strict=True)))


def report_columns(reports: Sequence[Report], now_s: float) -> StateColumns:
    """Return what an executor reports as columns; what has no time of its own was seen now."""
    texts = tuple(dict.fromkeys(report.text for report in reports if report.text))
    keys = [member_key(report.handle, report.attempt, report.member) for report in reports]
    members = Members(*np.array(keys, dtype=np.int64).reshape(-1, 2).T)
    return StateColumns(
        handle=members.handle,
        attempt=members.attempt,
        member=members.numbers(),
        object_index=np.array([report.object_index for report in reports], dtype=np.int16),
        state=np.array([report.state for report in reports], dtype=np.int8),
        time_us=np.array([report.time_us or round(now_s * 1e6) for report in reports], dtype=np.int64),
        exit_code=np.array([report.exit_code for report in reports], dtype=np.int32),
        failure=np.array([report.failure for report in reports], dtype=np.int8),
        message=np.array([texts.index(r.text) if r.text else -1 for r in reports], dtype=np.int32),
        uid=bytes(16 * len(reports)),
        texts=texts,
    )


def capacity_columns(sampler: NodeSampler, incarnation: int) -> CapacityColumns:
    """Return all that a sampler tells of its nodes."""
    ledger = sampler.ledger
    table, totals = ledger.nodes, ledger.totals()
    rows = np.arange(len(table), dtype=np.int32)
    fitting, room = sampler.take_fitting()
    return CapacityColumns(
        incarnation=incarnation,
        resources=ledger.axis.names,
        node=rows,
        names=tuple(table.names[row] for row in rows.tolist()),
        allocatable=np.ascontiguousarray(table.allocatable[:, rows].T),
        free=np.ascontiguousarray(table.free[:, rows].T),
        flag=table.flags.astype(np.int8),
        total=totals.allocatable,
        total_free=totals.free,
        node_count=totals.node_count,
        placement_count=ledger.placement_count,
        fitting=fitting,
        fitting_room=room.astype(np.int32),
    )


def empty_plan(state: PoolState, now_s: float) -> LeasePlan:
    """Return a plan that decides nothing."""
    none, nobody = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32)
    return LeasePlan(
        round_number=state.round_number,
        create_time_us=round(now_s * 1e6),
        handle=none,
        attempt=nobody,
        cluster=nobody,
        node=nobody,
        clusters=(),
        nodes=(),
        stops=Members.of(none, nobody),
        failed_handle=none,
        failed_reasons=(),
        round_state=round_state(state),
        releases=(),
    )
