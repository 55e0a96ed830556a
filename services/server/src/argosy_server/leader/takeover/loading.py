"""What the store reads for a new leader, as the machine takes it.

Source: design section 5, "Leader lost".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

import structlog

from argosy_core.errors import InvalidRequest
from argosy_core.leader.events import ClusterSettings, Loaded, Origin, OriginKind
from argosy_core.queueing import QueueLimits
from argosy_core.scheduler.columns.messages import JobSetView, QueueView, RoundStateColumns
from argosy_server.leader.log.codec import decode_changes, decode_round_state
from argosy_store.rows import read_amounts

if TYPE_CHECKING:
    from argosy_server.leader.hot import HotSettings
    from argosy_store.rows import ClusterRow, QueueRow
    from argosy_store.terms.load import LoadedPool

_log = structlog.get_logger(__name__)

_MOST: Final = (1 << 63) - 1
_MOST_RATIO: Final = 1e6
"""Greatest weight and rate that the API takes."""
_Number = TypeVar("_Number", int, float)

__all__ = ["cluster_settings", "job_set_views", "loaded_pool", "queue_views"]


def queue_views(rows: Iterable[QueueRow]) -> list[QueueView]:
    """Return queues as the scheduler sees them."""
    return [_queue_view(row) for row in rows]


def _queue_view(row: QueueRow) -> QueueView:
    """Return a queue; one whose row says what nobody may set is cordoned, so that it costs its own jobs alone."""
    is_cordoned = row.cordoned or row.deleted
    try:
        weight = _checked(row.weight, _MOST_RATIO)
        limits = QueueLimits(
            max_running_count=_checked(row.max_running_count, _MOST),
            max_running_amounts=_amounts(row.max_running_amounts),
            lease_rate_per_s=_checked(row.lease_rate_per_s, _MOST_RATIO),
        )
    except ValueError as error:
        _log.error("a stored queue cannot be used and is cordoned", queue=row.name, reason=str(error))
        weight, limits, is_cordoned = 0.0, QueueLimits(), True
    return QueueView(
        queue_id=row.queue_id,
        name=row.name,
        weight=weight,
        cordoned=is_cordoned,
        parent=row.parent,
        preempts_unexpired=row.preempts_unexpired,
        preempts_endless=row.preempts_endless,
        limits=limits,
    )


def _checked(number: _Number, most: _Number) -> _Number:
    """Return a number from 0 to the most that there may be.

    Raises:
        ValueError: It is none that anybody may set.
    """
    if not 0 <= number <= most:
        raise ValueError(f"{number} is below 0, too much or no number")
    return number


def _amounts(texts: Iterable[str]) -> tuple[tuple[str, int], ...]:
    """Return stored amounts by resource.

    Raises:
        ValueError: They cannot be read, or one cannot be counted.
    """
    given = tuple(texts)
    if None in given:
        raise ValueError("an amount is missing")
    return tuple((name, _checked(amount, _MOST)) for name, amount in read_amounts(given).items())


def cluster_settings(row: ClusterRow) -> ClusterSettings:
    """Return what an administrator decided about a cluster; one whose bound cannot be read is given no work."""
    is_cordoned = row.cordoned
    try:
        most = _amounts(row.max_capacity)
    except ValueError as error:
        _log.error("the stored bound of a cluster cannot be used; it is cordoned", cluster=row.name, reason=str(error))
        most, is_cordoned = (), True
    return ClusterSettings(
        name=row.name,
        cordoned=is_cordoned,
        cordoned_nodes=tuple(row.cordoned_nodes),
        max_capacity=most,
        forgotten=row.forgotten,
        delegated=row.delegated,
    )


def job_set_views(rows: Mapping[int, tuple[int, str, int]]) -> list[JobSetView]:
    """Return job sets as the scheduler sees them."""
    return [
        JobSetView(job_set_id=job_set_id, queue_id=queue_id, name=name, last_event_number=last)
        for job_set_id, (queue_id, name, last) in rows.items()
    ]


def loaded_pool(loaded: LoadedPool, log_position: int, hot: HotSettings) -> Loaded:
    """Return what was read as the machine takes it.

    Args:
        loaded: What was read.
        log_position: Position up to which the log had been applied when the epoch was taken.
        hot: Reads what was set of the pool's rounds.
    """
    return Loaded(
        columns=replace(loaded.columns, round_state=_round_state(loaded.round_state)),
        classes=loaded.classes,
        queues=tuple(queue_views(loaded.queues)),
        clusters=tuple(cluster_settings(row) for row in loaded.clusters),
        log_position=log_position,
        settings=hot.take(loaded.settings),
        suspects=frozenset(_origins(loaded.suspects)),
        unreadable=loaded.unreadable,
        held=tuple(handle for payload in loaded.suspect_changes for handle in _accepted(payload)),
    )


def _origins(suspects: Iterable[tuple[str, str]]) -> list[Origin]:
    """Return what is set aside; what a newer version has set aside and we do not know of is left to that version."""
    known = {kind.value for kind in OriginKind}
    named = {OriginKind.SAMPLER, OriginKind.EXECUTOR}
    return [
        Origin(OriginKind(kind), key)
        for kind, key in suspects
        if kind in known and (kind in named or (key.isdecimal() and int(key) <= _MOST))
    ]


def _accepted(payload: bytes) -> list[int]:
    """Return the handles of the jobs that a change accepts; none if it cannot be read."""
    try:
        jobs = decode_changes(payload).jobs
    except Exception:  # noqa: BLE001 - it is suspect because of what it does
        return []
    return jobs.handle.tolist() if jobs is not None else []


def _round_state(payload: bytes) -> RoundStateColumns | None:
    """Return the state of the last round; None, from which flows begin anew, if it cannot be read."""
    try:
        return decode_round_state(payload)
    except InvalidRequest as error:
        _log.error("the state of the last round cannot be read", reason=error.message)
        return None
