"""Intake: what arrived since the last round goes into the scheduler's state and into the round's transaction.

Source: design section 5, "Take changes" and "Sync".
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import structlog

from argosy_core.errors import InvalidRequest
from argosy_core.scheduler import (
    define_classes,
    define_job_sets,
    forget_cluster,
    join_states,
    missing,
    next_due_s,
    note_ended,
    remove_queues,
    set_cluster,
    set_queues,
    take_jobs,
    take_states,
    take_wishes,
)
from argosy_core.scheduler.messages import (
    ClusterRuns,
    ClusterView,
    EndedJobs,
    Int64s,
    JobColumns,
    SpecReference,
    StateColumns,
    WishColumns,
)
from argosy_server.leader.loading import job_set_views, queue_views
from argosy_server.leader.log_codec import decode_changes

if TYPE_CHECKING:
    from argosy_server.leader.effects import EffectDraft
    from argosy_server.leader.memory import LeaderMemory, ReportedStates
    from argosy_server.leader.sampler_sessions import SamplerSession
    from argosy_server.leader.sessions import SessionRegistry
    from argosy_server.leader.settings import LeaderSettings
    from argosy_store import LeaderStore

__all__ = ["Intake"]

_log = structlog.get_logger(__name__)
_RUNNING = 3
_TERMINAL = (4, 5, 6)


class Intake:
    """Feeds the scheduler's state from `changes` and from the executors' reports."""

    def __init__(self, memory: LeaderMemory, store: LeaderStore, samplers: SessionRegistry[SamplerSession]) -> None:
        """Start with nothing read."""
        self._memory = memory
        self._store = store
        self._samplers = samplers
        self._rows: list[tuple[int, bytes]] = []
        self._held_ids: set[int] = set()
        self._deleted_ids: set[int] = set()  # since the read under way began: it may still have seen them

    def due_in_s(self) -> float:
        """Return after how long a round could find work without news, seconds; infinite if it could not."""
        now_s = self._memory.clock()
        return 0.0 if self._rows else max(next_due_s(self._memory.state, now_s) - now_s, 0.0)

    async def poll_changes(self, settings: LeaderSettings) -> None:
        """Read visible rows of `changes` again and again; rows that are held are not read twice."""
        while True:
            limit = settings.changes_per_round + len(self._held_ids)
            if len(self._rows) < settings.changes_per_round and not self._memory.deciding:
                self._deleted_ids.clear()
                rows = await asyncio.to_thread(self._store.read_changes, limit)
                known = self._held_ids | self._deleted_ids
                fresh = [(row_id, payload) for row_id, payload in rows if row_id not in known]
                if fresh:
                    self._held_ids.update(row_id for row_id, _ in fresh)
                    self._rows.extend(fresh)
                    self._memory.news.set()
            await asyncio.sleep(settings.poll_ms / 1000)

    async def read_all_changes(self, limit: int) -> None:
        """Read every visible row of `changes`, so many at a time."""
        while True:
            rows = await asyncio.to_thread(self._store.read_changes, limit + len(self._held_ids))
            fresh = [row for row in rows if row[0] not in self._held_ids]
            if not fresh:
                return
            self._held_ids.update(row_id for row_id, _ in fresh)
            self._rows.extend(fresh)

    def forget_changes(self, change_ids: Iterable[int]) -> None:
        """Note that rows are deleted for good."""
        self._deleted_ids.update(change_ids)
        self._held_ids.difference_update(change_ids)

    async def take(self, draft: EffectDraft) -> list[ReportedStates]:
        """Put everything that arrived into the state; return the reports to answer once it is stored."""
        rows, self._rows = self._rows, []
        jobs: list[JobColumns] = []
        for change_id, payload in rows:
            draft.change_ids.append(change_id)
            try:
                changes = decode_changes(payload)
            except InvalidRequest as error:
                _log.error("a change cannot be read and goes to quarantine", change_id=change_id, reason=error.message)
                draft.quarantined.append((0, payload, error.message))
                self._memory.count("quarantined", 1)
                continue
            if changes.jobs is not None:
                jobs.append(changes.jobs)
                self._note_traced(changes.jobs, changes.traceparents)
            if changes.wishes is not None or changes.changed_queue_ids or changes.changed_clusters:
                await self._take_jobs(jobs, draft)
                jobs = []
            if changes.changed_queue_ids:
                await self._read_queues(changes.changed_queue_ids)
            if changes.changed_clusters:
                await self._read_clusters(changes.changed_clusters, draft)
            if changes.wishes is not None:
                await self._take_wishes(changes.wishes, draft)
        await self._take_jobs(jobs, draft)
        reported = self._memory.take_inbox()
        by_cluster: dict[str, list[StateColumns]] = {}
        for states in reported:
            by_cluster.setdefault(states.session.cluster, []).append(states.columns)
        for cluster, columns in by_cluster.items():
            self._take_states(cluster, join_states(columns), draft)
        return reported

    def _note_traced(self, jobs: JobColumns, traceparents: Mapping[int, str]) -> None:
        """Note which jobs their submitter traces."""
        if traceparents and self._memory.traces is not None:
            self._memory.traces.note_jobs(jobs, traceparents)

    async def _take_jobs(self, parts: list[JobColumns], draft: EffectDraft) -> None:
        """Take accepted jobs of several changes at once, after reading what they refer to."""
        if not parts:
            return
        jobs = join_jobs(parts)
        await self._define_missing(jobs)
        now_s = self._memory.clock()
        self._memory.note_latency("considered", jobs.submit_time_us, int(now_s * 1e6))
        taken = take_jobs(self._memory.state, jobs, now_s)
        draft.add_events(taken.events)
        self._memory.count("submitted", taken.added_count)

    async def _define_missing(self, jobs: JobColumns) -> None:
        """Read classes, queues and job sets that the state does not know yet."""
        lacking = missing(self._memory.state, jobs)
        if lacking.class_ids:
            definitions = await asyncio.to_thread(self._store.read_classes, list(lacking.class_ids))
            self._memory.definitions.update(definitions)
            define_classes(self._memory.state, definitions)
        if lacking.queue_ids:
            await self._read_queues(lacking.queue_ids)
        if lacking.job_set_ids:
            await self._define_job_sets(list(lacking.job_set_ids))

    async def _define_job_sets(self, job_set_ids: list[int]) -> None:
        """Read job sets; one that the state knows keeps its own event number."""
        rows = await asyncio.to_thread(self._store.read_job_sets, job_set_ids)
        define_job_sets(self._memory.state, job_set_views(rows), self._memory.clock())

    async def _take_wishes(self, wishes: WishColumns, draft: EffectDraft) -> None:
        """Take wishes; jobs that ended without this leader having held them get their event all the same."""
        now_s = self._memory.clock()
        effects = take_wishes(self._memory.state, wishes, now_s)
        draft.add_events(effects.events)
        draft.add_job_updates(effects.job_updates)
        draft.add_job_priorities(effects.job_priorities)
        self.release(effects.releases)
        if effects.unknown_ended.size:
            rows = await asyncio.to_thread(self._store.read_ended_jobs, effects.unknown_ended)
            await self._define_job_sets(sorted({row[2] for row in rows}))
            ended = EndedJobs(
                handle=np.array([row[0] for row in rows], dtype=np.int64),
                id_high=np.array([row[1] for row in rows], dtype=np.int64),
                job_set=np.array([row[2] for row in rows], dtype=np.int64),
            )
            draft.add_events(note_ended(self._memory.state, ended, reason=wishes.reason, now_s=now_s))

    def _take_states(self, cluster: str, columns: StateColumns, draft: EffectDraft) -> None:
        """Take one executor's reports."""
        now_s = self._memory.clock()
        self.note_handles("running", columns.handle[columns.state == _RUNNING])
        self.note_handles("finished", columns.handle[np.isin(columns.state, _TERMINAL)])
        effects = take_states(self._memory.state, cluster, columns, now_s)
        draft.add_states(effects)
        self.release((effects.releases,))
        if effects.stops.handle.size:
            draft.stops.append(effects.stops)
        self._memory.count("requeued", effects.requeued_count)
        self._memory.count("stale", effects.stale_count)

    def note_handles(self, stage: str, handles: Int64s) -> None:
        """Count the time from submit to a stage for jobs that are in the state."""
        live = self._memory.state.live
        slots = live.slots(handles)
        submit_time_us = live.submit_time_us[slots[slots >= 0]]
        self._memory.note_latency(stage, submit_time_us, int(self._memory.clock() * 1e6))

    async def _read_queues(self, queue_ids: tuple[int, ...]) -> None:
        """Read queues again."""
        rows = await asyncio.to_thread(self._store.read_queues, list(queue_ids))
        set_queues(self._memory.state, queue_views(rows))
        remove_queues(self._memory.state, [row.queue_id for row in rows if row.deleted])

    async def _read_clusters(self, names: tuple[str, ...], draft: EffectDraft) -> None:
        """Read clusters' settings again: cordons, and whether they were forgotten."""
        rows = await asyncio.to_thread(self._store.read_clusters, list(names))
        for row in rows:
            notes = self._memory.cluster(row.name)
            notes.cordoned, notes.cordon_reason = row.cordoned, row.cordon_reason
            notes.cordoned_nodes = tuple(row.cordoned_nodes)
            session = self._samplers.get(row.name)
            connected = session is not None and session.ready
            incarnation = session.incarnation if session is not None else 0
            view = ClusterView(name=row.name, connected=connected, cordoned=row.cordoned, incarnation=incarnation)
            set_cluster(self._memory.state, view)
            if session is not None:
                session.send_cordons(notes.cordoned_nodes)
            if row.forgotten:
                effects = forget_cluster(self._memory.state, row.name, self._memory.clock())
                draft.add_states(effects)
                self._memory.count("requeued", effects.requeued_count)

    def release(self, releases: tuple[ClusterRuns, ...]) -> None:
        """Tell samplers of placements that ended; one that is not connected gets the full list when it is."""
        for runs in releases:
            session = self._samplers.get(runs.cluster)
            if session is not None and runs.handle.size:
                session.hold_release(runs)


def join_jobs(parts: list[JobColumns]) -> JobColumns:
    """Return the jobs of several changes as one; specs and metadata that repeat stand once."""
    if len(parts) == 1:
        return parts[0]
    specs: dict[bytes, int] = {}
    references: list[SpecReference] = []
    metadata: dict[bytes, int] = {}
    spec_columns, metadata_columns = [], []
    for part in parts:
        moved = np.empty(len(part.specs), dtype=np.int32)
        for index, reference in enumerate(part.specs):
            position = specs.setdefault(reference.hash, len(specs))
            if position == len(references):
                references.append(reference)
            moved[index] = position
        spec_columns.append(moved[part.spec])
        places = [metadata.setdefault(body, len(metadata)) for body in part.metadata]
        metadata_columns.append(np.array([*places, -1], dtype=np.int32)[part.metadata_index])
    return JobColumns(
        handle=np.concatenate([part.handle for part in parts]),
        id_high=np.concatenate([part.id_high for part in parts]),
        queue=np.concatenate([part.queue for part in parts]),
        job_set=np.concatenate([part.job_set for part in parts]),
        class_id=np.concatenate([part.class_id for part in parts]),
        priority=np.concatenate([part.priority for part in parts]),
        submit_time_us=np.concatenate([part.submit_time_us for part in parts]),
        spec=np.concatenate(spec_columns),
        metadata_index=np.concatenate(metadata_columns),
        specs=tuple(references),
        metadata=tuple(metadata),
    )
