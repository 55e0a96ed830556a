"""What the store reads for a new leader, as the machine takes it.

Source: design section 5, "Leader lost".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

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

__all__ = ["cluster_settings", "job_set_views", "loaded_pool", "queue_views"]


def queue_views(rows: Iterable[QueueRow]) -> list[QueueView]:
    """Return queues as the scheduler sees them."""
    return [
        QueueView(
            queue_id=row.queue_id,
            name=row.name,
            weight=row.weight,
            cordoned=row.cordoned or row.deleted,
            parent=row.parent,
            preempts_unexpired=row.preempts_unexpired,
            preempts_endless=row.preempts_endless,
            limits=QueueLimits(
                max_running_count=row.max_running_count,
                max_running_amounts=tuple(read_amounts(row.max_running_amounts).items()),
                lease_rate_per_s=row.lease_rate_per_s,
            ),
        )
        for row in rows
    ]


def cluster_settings(row: ClusterRow) -> ClusterSettings:
    """Return what an administrator decided about a cluster."""
    return ClusterSettings(
        name=row.name,
        cordoned=row.cordoned,
        cordoned_nodes=tuple(row.cordoned_nodes),
        max_capacity=tuple(read_amounts(row.max_capacity).items()),
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
        suspects=frozenset(Origin(OriginKind(kind), key) for kind, key in loaded.suspects),
        held=tuple(handle for payload in loaded.suspect_changes for handle in _accepted(payload)),
    )


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
