"""Which jobs a filter means, and how they are found in steps of bounded size.

What changes in a row of `jobs` has no index, so that updates stay HOT: a filter by state is a look at rows. Rows are
therefore looked at some thousands at a time, ever more where most of them are of other states, in the order of handles,
and whoever asks may stop between two steps. Which rows those are comes from an index: by labels (of which each distinct
set stands once), by job set, by queue through its job sets, or by the primary key.

Source: design section 4, "States and rows"; section 7, invariant 11.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, TypeAlias

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
    "Values",
    "Window",
    "by_index",
    "conditions",
    "filter_values",
    "read_windows",
    "state_expression",
    "window_values",
]

Values: TypeAlias = dict[str, Any]
"""Values of conditions by the names of their parameters; which names there are is the shape of a read."""

WINDOW: Final = 5000
"""Most jobs that may be meant which one statement reads."""
_WIDE_WINDOW: Final = 50_000
"""Most rows of jobs that one statement looks at to leave out those of other states: about 20 ms."""
_MAX_KEYS: Final = 1000
"""Most job sets, or distinct sets of labels, that are looked through side by side; more are no narrow choice."""
_POSITIVE: Final = ("In_", "Exists_")
"""What the names of values begin with of which only jobs that have the label can be meant."""
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
            `conditions` are for the rest.
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
    values = filter_values(job_filter)
    sources = _sources(connection, values)
    looked: Values = {
        name: values[name] for name in ("from_handle", "before_handle", "stored_states") if name in values
    }
    if job_filter.means_open_only:
        row = connection.execute(_OPEN_DAYS).fetchone()
        assert row is not None
        looked["first_open"], looked["first_kept"] = row
    # Labels are found by bitmap alone; a bitmap of jobs would hold all that a key leads to.
    connection.run("SET LOCAL enable_bitmapscan = off")
    if any(not source.keys for source in sources):
        return
    look = partial(_look, connection, values=looked, newest_first=newest_first)
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
        size = min(size * 4, _WIDE_WINDOW if job_filter.states else WINDOW)
        rows = look(source, after=rows.last_handle, size=size)


def window_values(handles: Sequence[int]) -> Values:
    """Return the values of what a window means; the range leaves out the partitions of other days."""
    return {"window": list(handles), "first": min(handles), "last": max(handles)}


def _sources(connection: StoreConnection, values: Values) -> list[_Source]:
    """Return the indexes that lead to all jobs that are meant; those with too many keys are left out."""
    sources = []
    if labels := {name: value for name, value in values.items() if name.startswith(_POSITIVE)}:
        found = connection.select(_metadata_keys, labels).fetchall()
        sources.append(_Source("metadata_hash", [row[0] for row in found]))
    if by_set := {name: value for name, value in values.items() if name in _SET_CONDITIONS}:
        found = connection.select(_job_set_keys, by_set).fetchall()
        sources.append(_Source("job_set_id", [row[0] for row in found]))
    return [source for source in sources if len(source.keys) <= _MAX_KEYS]


def _metadata_keys(names: tuple[str, ...]) -> sa.Select[tuple[Any]]:
    return sa.select(job_metadata.c.hash).where(*map(_label_condition, names)).limit(_MAX_KEYS + 1)


def _job_set_keys(names: tuple[str, ...]) -> sa.Select[tuple[Any]]:
    return _job_sets(names).limit(_MAX_KEYS + 1)


def _look(
    connection: StoreConnection, source: _Source | None, *, values: Values, newest_first: bool, after: int, size: int
) -> _Rows:
    """Look at the next rows of jobs that a source leads to, in order, and leave out those of other states.

    Args:
        connection: Where.
        source: The index; None for the primary key.
        values: Bounds of the handle, and the values of the column of the state if not any will do.
        newest_first: Descending.
        after: Only those that follow this handle; 0 for all.
        size: Most rows.
    """
    if after:
        values = {**values, "below" if newest_first else "after": after}
    column, keys = (source.column, source.keys) if source is not None else (None, None)
    row = connection.select(_rows_looked_at, values, column, newest_first, keys=keys, size=size).fetchone()
    assert row is not None
    return _Rows(
        handles=sorted(row[0] or (), reverse=newest_first), last_handle=row[2] or 0, is_last=int(row[1]) < size
    )


def _rows_looked_at(names: tuple[str, ...], column: str | None, newest_first: bool) -> sa.Select[tuple[Any, ...]]:  # noqa: FBT001 - part of a shape
    size = sa.bindparam("size", type_=sa.Integer)
    by_state = "stored_states" in names
    bounds = conditions([name for name in names if name not in {"stored_states", "first_kept"}])
    rows = sa.select(jobs.c.handle, *([jobs.c.state] if by_state else [])).where(*bounds)
    rows = rows.order_by(jobs.c.handle.desc() if newest_first else jobs.c.handle).limit(size)
    if column is not None:
        keys = sa.func.unnest(_array("keys", jobs.c[column].type)).table_valued("key").render_derived(name="k")
        found = rows.where(jobs.c[column] == keys.c.key).lateral("c")
        rows = sa.select(*found.c).select_from(keys.join(found, sa.true()))
        rows = rows.order_by(found.c.handle.desc() if newest_first else found.c.handle).limit(size)
    looked = rows.subquery("w")
    meant = looked.c.state == sa.any_(_array("stored_states", sa.SmallInteger)) if by_state else sa.true()
    last = sa.func.min(looked.c.handle) if newest_first else sa.func.max(looked.c.handle)
    return sa.select(sa.func.array_agg(looked.c.handle).filter(meant), sa.func.count(), last)


def _array(name: str, kind: Any) -> sa.BindParameter[Any]:  # noqa: ANN401 - SQLAlchemy's types of types
    """Return a parameter that is an array."""
    return sa.bindparam(name, type_=sa.ARRAY(kind))


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


def filter_values(job_filter: JobFilter) -> Values:
    """Return the values of what a filter asks for; requirements on labels are named by operator and place."""
    # Handles begin with the day of the submit, so whole days need not be looked at.
    first_us, end_us = job_filter.from_time_us, job_filter.before_time_us
    some_open = job_filter.states & OPEN_STATES not in {frozenset(), OPEN_STATES}
    named: Values = {
        "queue_id": job_filter.queue_id,
        "among_queues": None if job_filter.among_queues is None else list(job_filter.among_queues),
        "job_set": job_filter.job_set,
        "handles": list(job_filter.handles) or None,
        "stored_states": sorted({0 if state in OPEN_STATES else int(state) for state in job_filter.states}) or None,
        "states": sorted(int(state) for state in job_filter.states) if some_open else None,
        "from_handle": None if first_us is None else first_us // _DAY_US << DAY_SHIFT,
        "from_time_us": first_us,
        "before_handle": None if end_us is None else (end_us // _DAY_US + 1) << DAY_SHIFT,
        "before_time_us": end_us,
    }
    for place, label in enumerate(job_filter.labels):
        pairs = [json.dumps({label.key: value}) for value in label.values]
        named[f"{label.operator}_{place}"] = pairs if label.operator in {"In", "NotIn"} else label.key
    return {name: value for name, value in named.items() if value is not None}


def conditions(names: Collection[str]) -> list[sa.ColumnElement[bool]]:
    """Return the conditions on `jobs` whose values have some names."""
    chosen: list[sa.ColumnElement[bool]] = []
    for name in names:
        if name == "job_set":
            chosen.append(jobs.c.job_set_id.in_(_job_sets(other for other in ("queue_id", name) if other in names)))
        else:
            chosen.append(_CONDITIONS[name] if name in _CONDITIONS else _job_has_labels(name))
    return chosen


def _label_condition(name: str) -> sa.ColumnElement[bool]:
    """Return the condition on `job_metadata` that a label requirement holds; the positive ones use the index."""
    labels = job_metadata.c.labels
    has_key: sa.ColumnElement[bool] = labels.has_key(sa.bindparam(name, type_=sa.Text))
    has_value: sa.ColumnElement[bool] = labels.contains(sa.any_(_array(name, JSONB)))
    by_operator = {"In": has_value, "NotIn": ~has_value, "Exists": has_key, "DoesNotExist": ~has_key}
    return by_operator[name.partition("_")[0]]


def _job_sets(names: Iterable[str]) -> sa.Select[tuple[int]]:
    return sa.select(job_sets.c.job_set_id).where(*(_SET_CONDITIONS[name] for name in names))


def _job_has_labels(name: str) -> sa.ColumnElement[bool]:
    """Return the condition on `jobs` that a label requirement holds."""
    found = jobs.c.metadata_hash.in_(sa.select(job_metadata.c.hash).where(_label_condition(name)))
    # Jobs without labels lack every label.
    return found if name.startswith(_POSITIVE) else sa.or_(jobs.c.metadata_hash.is_(None), found)


_QUEUE_IDS: Final = sa.select(queues.c.queue_id).where(
    queues.c.name == sa.any_(_array("among_queues", sa.Text)), ~queues.c.deleted
)
_SET_CONDITIONS: Final[dict[str, sa.ColumnElement[bool]]] = {
    "queue_id": job_sets.c.queue_id == sa.bindparam("queue_id"),
    "among_queues": job_sets.c.queue_id.in_(_QUEUE_IDS),
    "job_set": job_sets.c.name == sa.bindparam("job_set"),
}
"""Conditions on `job_sets` by the names of their values."""
_CONDITIONS: Final[dict[str, sa.ColumnElement[bool]]] = {
    "queue_id": jobs.c.queue_id == sa.bindparam("queue_id"),
    "among_queues": jobs.c.queue_id.in_(_QUEUE_IDS),
    "stored_states": jobs.c.state == sa.any_(_array("stored_states", sa.SmallInteger)),
    "states": state_expression() == sa.any_(_array("states", sa.SmallInteger)),
    "handle": jobs.c.handle == sa.bindparam("handle"),
    "handles": jobs.c.handle == sa.any_(_array("handles", sa.BigInteger)),
    "from_handle": jobs.c.handle >= sa.bindparam("from_handle"),
    "from_time_us": jobs.c.submit_time_us >= sa.bindparam("from_time_us"),
    "before_handle": jobs.c.handle < sa.bindparam("before_handle"),
    "before_time_us": jobs.c.submit_time_us < sa.bindparam("before_time_us"),
    "first_open": sa.or_(jobs.c.handle >= sa.bindparam("first_open"), jobs.c.handle < sa.bindparam("first_kept")),
    "after": jobs.c.handle > sa.bindparam("after"),
    "below": jobs.c.handle < sa.bindparam("below"),
    "window": jobs.c.handle == sa.any_(_array("window", sa.BigInteger)),
    "first": jobs.c.handle >= sa.bindparam("first"),
    "last": jobs.c.handle <= sa.bindparam("last"),
    "job_set_ids": jobs.c.job_set_id == sa.any_(_array("job_set_ids", sa.BigInteger)),
}
"""Conditions on `jobs` by the names of their values."""
