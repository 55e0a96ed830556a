"""What a leader reads of the changes that are visible, with what they refer to.

Source: design section 5, "Take changes".
"""

from __future__ import annotations

import numpy as np

from argosy_core.arrays import Int64s
from argosy_core.leader import LeaderMachine
from argosy_core.leader.events import Change, ChangesRead, OriginKind, References
from argosy_core.scheduler import ChangeRequestColumns, EndedJobs, JobColumns
from argosy_simulation.durable import DurableStore
from argosy_simulation.plan import JobIndex

__all__ = ["held_jobs", "read_changes"]


def read_changes(store: DurableStore, job_index: JobIndex, machine: LeaderMachine) -> ChangesRead:
    """Return every change that can be seen, in order of ids, and what of it the machine lacks."""
    ids = [key for key in sorted(store.changes) if not store.is_suspect(OriginKind.CHANGE, key)]
    changes = [_change(store, job_index, change_id) for change_id in ids]
    names = sorted({name for change in changes for name in change.clusters})
    lacking = machine.lacking(changes)
    rows = np.array([job_index.index(handle) for handle in lacking.ended], dtype=np.int64)
    ended_sets = job_index.plan.job_set[rows].astype(np.int64) + 1
    ended = np.array(lacking.ended, dtype=np.int64)
    job_set_ids = sorted({*lacking.job_set_ids, *ended_sets.tolist()})
    references = References(
        classes={class_id: job_index.definitions[class_id] for class_id in lacking.class_ids},
        queues=tuple(queue for queue in job_index.queues() if queue.queue_id in lacking.queue_ids),
        job_sets=tuple(job_index.job_set_views({key: store.event_numbers.get(key, 0) for key in job_set_ids})),
        clusters={name: store.cluster_settings(name) for name in names},
        ended=EndedJobs(handle=ended, id_high=ended * 7, job_set=ended_sets) if ended.size else None,
    )
    return ChangesRead(changes=tuple(changes), references=references)


def _change(store: DurableStore, job_index: JobIndex, change_id: int) -> Change:
    change = store.changes[change_id]
    if isinstance(change, str):
        return Change(change_id=change_id, clusters=(change,))
    if isinstance(change, ChangeRequestColumns):
        return Change(change_id=change_id, requests=change)
    return Change(change_id=change_id, jobs=_jobs(store, job_index, change))


def _jobs(store: DurableStore, job_index: JobIndex, rows: Int64s) -> JobColumns:
    """Return accepted jobs as they were submitted."""
    submit_time_us = [store.jobs[handle].submit_time_us for handle in job_index.handles(rows).tolist()]
    columns = job_index.columns(rows, np.array(submit_time_us, dtype=np.int64), job_index.plan.priority[rows])
    return store.with_states(columns)


def held_jobs(store: DurableStore, job_index: JobIndex) -> tuple[int, ...]:
    """Return the handles of the jobs that suspect changes accepted."""
    suspect = [change for key, change in store.changes.items() if store.is_suspect(OriginKind.CHANGE, key)]
    jobs = [change for change in suspect if not isinstance(change, str | ChangeRequestColumns)]
    return tuple(handle for rows in jobs for handle in job_index.handles(rows).tolist())
