"""Which jobs a filter means, and how they are found in steps of bounded size.

What changes in a row of `jobs` has no index, so that updates stay HOT: a filter by state is a look at rows. Rows are
therefore looked at some thousands at a time, ever more where most of them are of other states, in the order of handles,
and whoever asks may stop between two steps. Which rows those are comes from an index: by labels (of which each distinct
set stands once), by job set, by queue through its job sets, or by the primary key.

Source: design section 4, "States and rows"; section 7, invariant 11.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

import sqlalchemy as sa
from psycopg.pq.abc import PGresult
from sqlalchemy.dialects.postgresql import JSONB

from argosy_core.job.identity import DAY_SHIFT
from argosy_core.job.states import JobState
from argosy_store.postgres.connection import StoreConnection
from argosy_store.schema.tables import job_metadata, job_sets, jobs, objects, queues, runs

__all__ = [
    "OPEN_STATES",
    "WINDOW",
    "JobFilter",
    "LabelRequirement",
    "Window",
    "bigint_array",
    "by_index",
    "filter_conditions",
    "read_windows",
    "state_expression",
    "window_conditions",
]

WINDOW: Final = 5000
"""Most jobs that may be meant which one statement reads."""
_WIDE_WINDOW: Final = 50_000
"""Most rows of jobs that one statement looks at to leave out those of other states: about 20 ms."""
_MAX_KEYS: Final = 1000
"""Most job sets, or distinct sets of labels, that are looked through side by side; more are no narrow choice."""
_DAY_US: Final = 86_400_000_000
OPEN_STATES: Final = frozenset({JobState.QUEUED, JobState.LEASED, JobState.RUNNING})
"""States of jobs that have not ended."""
_OPEN_DAYS: Final = (
    "SELECT coalesce(min(day) FILTER (WHERE NOT day = ANY (closed_days)), 0)::bigint << 40,"
    " coalesce(min(day), 0)::bigint << 40 FROM partition_state, unnest(days) AS day"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRequirement:
    """One requirement of a label selector; all must hold."""

    key: str
    """Label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """Kubernetes operator; equality is In with one value."""
    values: tuple[str, ...] = ()
    """Values for In and NotIn. NotIn holds for jobs without the label."""

    @property
    def is_positive(self) -> bool:
        """Whether only jobs that have the label can be meant."""
        return self.operator in {"In", "Exists"}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs are meant: all conditions hold."""

    queue_id: int | None = None
    """Queue."""
    among_queues: tuple[str, ...] | None = None
    """Names of the only queues that are looked at where none is chosen; None looks at all."""
    job_set: str | None = None
    """Name of the job set."""
    states: frozenset[int] = frozenset()
    """JobStates; none means all."""
    labels: tuple[LabelRequirement, ...] = ()
    """Requirements on labels."""
    handles: tuple[int, ...] = ()
    """Handles; none means all."""
    from_time_us: int | None = None
    """Accepted at this time or later, microseconds since the Unix epoch."""
    before_time_us: int | None = None
    """Accepted before this time."""

    @property
    def means_open_only(self) -> bool:
        """Whether no job that has ended is meant."""
        return bool(self.states) and self.states <= OPEN_STATES

    @property
    def needs_rows(self) -> bool:
        """Whether more must be looked at than what is indexed."""
        if self.among_queues is not None:
            return True
        return bool(self.states or self.labels) or (self.from_time_us, self.before_time_us) != (None, None)


@dataclass(frozen=True, slots=True)
class Window:
    """Jobs that may be meant, between where the last window ended and where this one does."""

    handles: list[int]
    """Their handles, in order, at most `WINDOW`; may be empty."""
    last_handle: int
    """Of the job that was looked at last: what follows it was not."""


def _window(handles: list[int]) -> Window:
    return Window(handles, handles[-1])


@dataclass(frozen=True, slots=True)
class _Rows:
    """What a statement has found."""

    handles: list[int]
    """Handles of jobs that may be meant, in order."""
    last_handle: int
    """Of the row that was looked at last; 0 if there was none."""
    is_last: bool
    """Nothing follows."""

    def windows(self) -> Iterator[Window]:
        """Cut what was found into windows; the last one ends where the rows do."""
        cuts = [self.handles[first : first + WINDOW] for first in range(0, len(self.handles), WINDOW)]
        yield from (_window(cut) for cut in cuts[:-1])
        if self.last_handle:
            yield Window(cuts[-1] if cuts else [], self.last_handle)


@dataclass(frozen=True, slots=True)
class _Source:
    """An index that leads to the jobs of some keys in the order of their handles."""

    column: str
    """Its first column."""
    kind: str
    """Type of the keys."""
    keys: list[Any]
    """Keys."""


def by_index(connection: StoreConnection) -> AbstractContextManager[PGresult]:
    """Open a transaction in which jobs are found by index only, whatever statistics say or lack."""
    return connection.transaction_block(
        "BEGIN READ ONLY; SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off;"
        " SET LOCAL enable_mergejoin = off"
    )


def read_windows(
    connection: StoreConnection,
    job_filter: JobFilter,
    *,
    after_handle: int = 0,
    newest_first: bool = False,
    size: int = WINDOW,
) -> Iterator[Window]:
    """Yield jobs that may be meant, in order and at most `WINDOW` at a time; all that are meant are among them.

    Args:
        connection: Where, inside `by_index`.
        job_filter: Which jobs are meant. Handles are looked at here, and states as far as a job's row tells them;
            `window_conditions` is for the rest.
        after_handle: Only those that follow it; 0 for all.
        newest_first: Descending.
        size: Most rows that the first statement looks at; each later one looks at four times as many, at most `WINDOW`,
            or `_WIDE_WINDOW` where it leaves out other states.

    Complexity: O(rows looked at) a step, times the keys that lead to them.
    """
    if job_filter.handles:
        chosen = sorted(set(job_filter.handles), reverse=newest_first)
        rest = [h for h in chosen if not after_handle or (h < after_handle if newest_first else h > after_handle)]
        yield from (_window(rest[first : first + size]) for first in range(0, len(rest), size))
        return
    bounds = _bounds(connection, job_filter)
    sources = _sources(connection, job_filter)
    # Labels are found by bitmap alone; a bitmap of jobs would hold all that a key leads to.
    connection.run("SET LOCAL enable_bitmapscan = off")
    if any(not source.keys for source in sources):
        return
    stored = _stored_states(job_filter.states)
    look = partial(_look, connection, bounds=bounds, stored=stored, newest_first=newest_first)
    begun: list[_Rows] = []
    for one in sources:
        begun.append(look(one, after=after_handle, size=size))
        if begun[-1].is_last:  # that is all of them
            yield from begun[-1].windows()
            return
    source = sources[0] if sources else None
    rows = begun[0] if begun else look(None, after=after_handle, size=size)
    while True:
        yield from rows.windows()
        if rows.is_last:
            return
        size = min(size * 4, _WIDE_WINDOW if stored else WINDOW)
        rows = look(source, after=rows.last_handle, size=size)


def window_conditions(handles: Sequence[int]) -> list[sa.ColumnElement[bool]]:
    """Return the conditions that a job is one of a window; the range leaves out the partitions of other days."""
    return [
        jobs.c.handle == sa.any_(bigint_array(handles)),
        jobs.c.handle >= min(handles),
        jobs.c.handle <= max(handles),
    ]


def _bounds(connection: StoreConnection, job_filter: JobFilter) -> list[str]:
    """Return conditions on the handle of a job `j`: it begins with the day of the submit."""
    bounds = []
    if job_filter.from_time_us is not None:
        bounds.append(f"j.handle >= {job_filter.from_time_us // _DAY_US << DAY_SHIFT}")
    if job_filter.before_time_us is not None:
        bounds.append(f"j.handle < {(job_filter.before_time_us // _DAY_US + 1) << DAY_SHIFT}")
    if job_filter.means_open_only:
        row = connection.execute(_OPEN_DAYS).fetchone()
        assert row is not None
        bounds.append(f"(j.handle >= {row[0]} OR j.handle < {row[1]})")
    return bounds


def _sources(connection: StoreConnection, job_filter: JobFilter) -> list[_Source]:
    """Return the indexes that lead to all jobs that are meant; those with too many keys are left out."""
    sources = []
    positive = [_label_condition(requirement) for requirement in job_filter.labels if requirement.is_positive]
    if positive:
        found = connection.select(sa.select(job_metadata.c.hash).where(*positive).limit(_MAX_KEYS + 1)).fetchall()
        sources.append(_Source("metadata_hash", "uuid", [row[0] for row in found]))
    by_set = []
    if job_filter.queue_id is not None:
        by_set.append(job_sets.c.queue_id == job_filter.queue_id)
    if job_filter.among_queues is not None:
        by_set.append(job_sets.c.queue_id.in_(_queue_ids(job_filter.among_queues)))
    if job_filter.job_set is not None:
        by_set.append(job_sets.c.name == job_filter.job_set)
    if by_set:
        found = connection.select(sa.select(job_sets.c.job_set_id).where(*by_set).limit(_MAX_KEYS + 1)).fetchall()
        sources.append(_Source("job_set_id", "bigint", [row[0] for row in found]))
    return [source for source in sources if len(source.keys) <= _MAX_KEYS]


def _look(
    connection: StoreConnection,
    source: _Source | None,
    *,
    bounds: Sequence[str],
    stored: Sequence[int],
    newest_first: bool,
    after: int,
    size: int,
) -> _Rows:
    """Look at the next rows of jobs that a source leads to, in order, and leave out those of other states.

    Args:
        connection: Where.
        source: The index; None for the primary key.
        bounds: Conditions on the handle of a job `j`.
        stored: Values of the column of the state; none means any.
        newest_first: Descending.
        after: Only those that follow this handle; 0 for all.
        size: Most rows.
    """
    order, follows, last = ("DESC", "<", "min") if newest_first else ("ASC", ">", "max")
    conditions = [*bounds, *([f"j.handle {follows} {int(after)}"] if after else [])]
    if source is not None:
        conditions.append(f"j.{source.column} = k.key")
    columns = ("handle", "state") if stored else ("handle",)
    rows = (
        f"SELECT {', '.join(f'j.{name}' for name in columns)} FROM jobs j WHERE {' AND '.join(conditions) or 'true'}"
        f" ORDER BY j.handle {order} LIMIT {size}"
    )
    if source is not None:
        rows = (
            f"SELECT {', '.join(f'c.{name}' for name in columns)} FROM unnest(%s::{source.kind}[]) AS k (key)"
            f" CROSS JOIN LATERAL ({rows}) c ORDER BY c.handle {order} LIMIT {size}"
        )
    meant = f" FILTER (WHERE w.state IN ({', '.join(str(state) for state in stored)}))" if stored else ""
    statement = f"SELECT array_agg(w.handle){meant}, count(*), {last}(w.handle) FROM ({rows}) w"
    row = connection.execute(statement.encode(), [source.keys] if source is not None else None).fetchone()
    assert row is not None
    return _Rows(
        handles=sorted(row[0] or (), reverse=newest_first), last_handle=row[2] or 0, is_last=int(row[1]) < size
    )


def _stored_states(states: frozenset[int]) -> list[int]:
    """Return the values of the column of the state that jobs in some states have; none for all states."""
    return sorted({0 if state in OPEN_STATES else int(state) for state in states})


def bigint_array(values: Sequence[int]) -> sa.BindParameter[Any]:
    """Return a bigint[] parameter."""
    return sa.bindparam(None, [int(value) for value in values], type_=sa.ARRAY(sa.BigInteger))


def state_expression() -> sa.ColumnElement[int]:
    """Return the JobState of a row of `jobs`: its own when it has ended, else what its live run's pods say."""
    pod_state = sa.func.min(objects.c.state)
    live = (
        sa.select(sa.case((pod_state <= JobState.LEASED, int(JobState.LEASED)), else_=int(JobState.RUNNING)))
        .select_from(
            runs.join(objects, sa.and_(runs.c.handle == objects.c.handle, runs.c.attempt == objects.c.attempt))
        )
        .where(runs.c.handle == jobs.c.handle, runs.c.end_time_us.is_(None), objects.c.kind == "Pod")
        .group_by(runs.c.attempt)
        .order_by(runs.c.attempt.desc())
        .limit(1)
        .correlate(jobs)
        .scalar_subquery()
    )
    return sa.case((jobs.c.state != 0, jobs.c.state), else_=sa.func.coalesce(live, int(JobState.QUEUED)))


def filter_conditions(job_filter: JobFilter) -> list[sa.ColumnElement[bool]]:
    """Return the conditions of a filter on `jobs`."""
    conditions: list[sa.ColumnElement[bool]] = []
    if job_filter.queue_id is not None:
        conditions.append(jobs.c.queue_id == job_filter.queue_id)
    if job_filter.among_queues is not None:
        conditions.append(jobs.c.queue_id.in_(_queue_ids(job_filter.among_queues)))
    if job_filter.job_set is not None:
        sets = sa.select(job_sets.c.job_set_id).where(job_sets.c.name == job_filter.job_set)
        if job_filter.queue_id is not None:
            sets = sets.where(job_sets.c.queue_id == job_filter.queue_id)
        conditions.append(jobs.c.job_set_id.in_(sets))
    if job_filter.states:
        conditions.append(_state_condition(job_filter.states))
    if job_filter.handles:
        conditions.append(jobs.c.handle == sa.any_(bigint_array(job_filter.handles)))
    # Handles begin with the day of the submit, so whole days need not be looked at.
    if job_filter.from_time_us is not None:
        conditions.append(jobs.c.handle >= job_filter.from_time_us // _DAY_US << DAY_SHIFT)
        conditions.append(jobs.c.submit_time_us >= job_filter.from_time_us)
    if job_filter.before_time_us is not None:
        conditions.append(jobs.c.handle < (job_filter.before_time_us // _DAY_US + 1) << DAY_SHIFT)
        conditions.append(jobs.c.submit_time_us < job_filter.before_time_us)
    for requirement in job_filter.labels:
        found = jobs.c.metadata_hash.in_(sa.select(job_metadata.c.hash).where(_label_condition(requirement)))
        # Jobs without labels lack every label.
        conditions.append(found if requirement.is_positive else sa.or_(jobs.c.metadata_hash.is_(None), found))
    return conditions


def _queue_ids(names: Sequence[str]) -> sa.Select[tuple[int]]:
    return sa.select(queues.c.queue_id).where(queues.c.name.in_(names), ~queues.c.deleted)


def _state_condition(states: frozenset[int]) -> sa.ColumnElement[bool]:
    """Return the condition that a job is in one of some states; the cheap column alone decides where it can."""
    ended = sorted(int(state) for state in states - OPEN_STATES)
    waiting = sorted(int(state) for state in states & OPEN_STATES)
    parts: list[sa.ColumnElement[bool]] = []
    if ended:
        parts.append(jobs.c.state.in_(ended))
    if len(waiting) == len(OPEN_STATES):
        parts.append(jobs.c.state == 0)
    elif waiting:
        parts.append(sa.and_(jobs.c.state == 0, state_expression().in_(waiting)))
    return sa.or_(*parts)


def _label_condition(requirement: LabelRequirement) -> sa.ColumnElement[bool]:
    """Return the condition on `job_metadata` that a label requirement holds; the positive ones use the index."""
    labels = job_metadata.c.labels
    has_key: sa.ColumnElement[bool] = labels.has_key(requirement.key)
    has_value = sa.or_(
        sa.false(),
        *(
            labels.contains(sa.cast(sa.literal(json.dumps({requirement.key: value}), sa.Text), JSONB))
            for value in requirement.values
        ),
    )
    match requirement.operator:
        case "In":
            return has_value
        case "NotIn":
            return sa.not_(has_value)
        case "Exists":
            return has_key
        case "DoesNotExist":
            return sa.not_(has_key)
