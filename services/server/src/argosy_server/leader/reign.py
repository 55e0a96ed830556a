"""One leadership, from the taken epoch to its end: load, ingest what the log still holds, decide.

Source: design section 5, "Leader lost": the next leader raises the epoch, publishes a marker, ingests to it, loads,
takes sessions, goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import structlog

from argosy_core.errors import InvalidRequest, InvariantViolation
from argosy_core.scheduler import (
    PoolState,
    Refusals,
    adopt_plan,
    apply_ingested,
    define_classes,
    define_job_sets,
    draft_ingest,
    recover,
    refuse_leases,
    set_cluster,
    set_queues,
)
from argosy_core.scheduler.messages import ClusterView
from argosy_eventlog import drop_stale
from argosy_server.leader import log_codec
from argosy_server.leader.cycle import MARKER_SEQUENCE, NOTHING_REFUSED, Cycle, CycleParts
from argosy_server.leader.desk import LeaderDesk
from argosy_server.leader.effects import EffectDraft
from argosy_server.leader.figures import LeaderFigures
from argosy_server.leader.intake import Intake
from argosy_server.leader.loading import job_set_views, loaded_columns, queue_views
from argosy_server.leader.memory import LeaderMemory
from argosy_server.leader.rows import RowSender
from argosy_server.leader.writer import EffectWriter

if TYPE_CHECKING:
    from collections.abc import Callable

    from argosy_eventlog import EventLog, LogRecord
    from argosy_runtime.traces import TraceSpan
    from argosy_server.config import ServerConfig
    from argosy_server.leader.publishing import Publisher
    from argosy_server.leader.sampler_sessions import SamplerSession
    from argosy_server.leader.sessions import SessionRegistry
    from argosy_server.leader.sync_sessions import SyncSession
    from argosy_store import LeaderStore
    from argosy_store.effects import AppliedEffects
    from argosy_store.leader import Leadership

__all__ = ["Reign"]

_log = structlog.get_logger(__name__)
RECORDS_PER_READ = 100
"""Log records read at once while taking over."""


class Reign:
    """Everything that lives as long as one epoch of this process."""

    def __init__(
        self,
        config: ServerConfig,
        leadership: Leadership,
        *,
        store: LeaderStore,
        log: EventLog,
        publisher: Publisher,
        samplers: SessionRegistry[SamplerSession],
        executors: SessionRegistry[SyncSession],
    ) -> None:
        """Prepare memory, writer, sender and desk."""
        settings = config.leader
        epoch: int = leadership.epoch
        self.memory = LeaderMemory(
            pool=config.pool,
            epoch=epoch,
            state=PoolState(settings.round, decision_profile=settings.make_profile()),
            seed=settings.seed or epoch,
            clock=time.time,
        )
        self._settings = settings
        self._leadership = leadership
        self._store = store
        self._log = log
        self._publisher = publisher
        self._samplers = samplers
        self._writer = EffectWriter(store, epoch)
        self._rows = RowSender(self.memory, store, executors)
        self._figures = LeaderFigures(self.memory, samplers, executors)
        self._intake = Intake(self.memory, store, samplers)
        self._refused: list[npt.NDArray[np.int64]] = []
        self._refusals = Refusals()
        self.desk = LeaderDesk(self.memory, store, self._writer, self._rows)

    async def run(self, *, on_ready: Callable[[Reign], None]) -> None:
        """Load, ingest to the marker, call `on_ready`, and run rounds until cancelled or failed."""
        with contextlib.closing(self._writer), contextlib.closing(self.desk), self._figures.leading():
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._writer.run(), name="writer")
                position = await self._take_over()
                tasks.create_task(self._rows.run(), name="row-sender")
                tasks.create_task(self._figures.run(), name="figures")
                self._figures.note_ready()
                on_ready(self)
                parts = CycleParts(
                    store=self._store,
                    log=self._log,
                    publisher=self._publisher,
                    writer=self._writer,
                    rows=self._rows,
                    samplers=self._samplers,
                    intake=self._intake,
                )
                cycle = Cycle(self.memory, self._settings, parts, log_position=position)
                await cycle.run()

    async def _take_over(self) -> int:
        """Publish the marker, load, and ingest what stands before the marker; return the log position reached."""
        memory = self.memory
        started_s = time.perf_counter()
        marker = log_codec.encode_marker(pool=memory.pool, epoch=memory.epoch, now_us=int(memory.clock() * 1e6))
        marker_position = await self._publisher.append(memory.epoch, MARKER_SEQUENCE, marker)
        draft = await self._load()
        await self._take_changes(draft)
        position = seen = self._leadership.log_position
        highest_epoch = 0
        if position >= marker_position:
            # Another log than before, or one that was lost. What the database has not heard of never happened.
            _log.warning("the log is not the one that was applied", position=position, marker=marker_position)
            await self._move_to(marker_position, draft)
            position = marker_position
        while position < marker_position:
            records = await asyncio.to_thread(self._log.read, seen, RECORDS_PER_READ)
            if not records:
                raise InvariantViolation(f"the log of {memory.pool} ends at {seen}, before the marker just written")
            seen = records[-1].position
            kept, highest_epoch = drop_stale(self._believed(records, highest_epoch), highest_epoch)
            for record in kept:
                await self._ingest(record, draft, position)
                position = record.position
                draft = self._begin_draft()
        await self._writer.wait_until_stored()
        await self._take_back_refused()
        elapsed_s = round(time.perf_counter() - started_s, 3)
        _log.info("took over", epoch=memory.epoch, elapsed_s=elapsed_s, position=position)
        return position

    def _believed(self, records: list[LogRecord], highest_epoch: int) -> list[LogRecord]:
        """Return records so that one that no leader published makes none of ours stale, and is never stale itself.

        On a log that others can write to, it belongs in quarantine; a leader with a later epoch would have fenced us.
        """
        believed: list[LogRecord] = []
        for record in records:
            if 0 < record.epoch <= self.memory.epoch:
                highest_epoch = max(highest_epoch, record.epoch)
                believed.append(record)
            else:
                believed.append(replace(record, epoch=highest_epoch))
        return believed

    async def _move_to(self, position: int, draft: EffectDraft) -> None:
        """Store a draft and a log position behind which everything is still to come."""
        draft.move_log(self._leadership.log_position, position, self._leadership.round_state or b"")
        effects = draft.effects(now_us=int(self.memory.clock() * 1e6))
        if effects is not None:
            await self._writer.put(effects, self._follower(draft.change_ids))

    async def _load(self) -> EffectDraft:
        """Read everything open into memory; return what ended by that."""
        memory = self.memory
        loaded = await asyncio.to_thread(self._store.load)
        memory.definitions.update(loaded.classes)
        define_classes(memory.state, dict(loaded.classes))
        set_queues(memory.state, queue_views(loaded.queues))
        define_job_sets(memory.state, job_set_views(loaded.job_sets))
        for row in loaded.clusters:
            notes = memory.cluster(row.name)
            notes.uid, notes.cordoned, notes.cordon_reason = row.uid, row.cordoned, row.cordon_reason
            notes.cordoned_nodes = tuple(row.cordoned_nodes)
            set_cluster(memory.state, ClusterView(name=row.name, cordoned=row.cordoned))
        effects = recover(memory.state, loaded_columns(loaded), memory.clock())
        draft = self._begin_draft()
        draft.add_job_updates(effects.job_updates)
        draft.add_events(effects.events)
        _log.info("loaded", job_count=effects.job_count, run_count=effects.run_count)
        return draft

    def _begin_draft(self) -> EffectDraft:
        """Return a draft that stands behind those before it."""
        return EffectDraft(self._refusals, self._refusals.begin_draft())

    async def _take_changes(self, draft: EffectDraft) -> None:
        """Take every change that can be read.

        A record of the log may lease a job whose submit its leader had taken, but not yet stored the events of; they
        must come before those of the lease.
        """
        await self._intake.read_all_changes(self._settings.changes_per_round)
        await self._intake.take(draft)

    async def _ingest(self, record: LogRecord, draft: EffectDraft, position: int) -> None:
        """Apply one record that an earlier leader published, or put it into quarantine."""
        memory = self.memory
        round_state = self._leadership.round_state or b""
        span = None
        try:
            decoded = log_codec.decode_lease_batch(record.payload)
            if (decoded.pool, decoded.epoch, decoded.sequence) != (memory.pool, record.epoch, record.sequence):
                raise InvalidRequest(
                    f"record {record.sequence} of epoch {record.epoch} in the log of {memory.pool} says that it is"
                    f" {decoded.sequence} of epoch {decoded.epoch} in that of {decoded.pool}: no leader published it"
                )
        except InvalidRequest as error:
            _log.error("a log record cannot be read and goes to quarantine", position=record.position)
            draft.quarantined.append((record.position, record.payload, error.message))
            memory.count("quarantined", 1)
        else:
            if not decoded.is_marker:
                if memory.traces is not None:
                    span = memory.traces.begin_replay(decoded.traceparent, record.position)
                plan = adopt_plan(memory.state, decoded.plan)
                runs, objects = draft_ingest(memory.state, plan)
                lease = apply_ingested(memory.state, plan, NOTHING_REFUSED, memory.clock())
                draft.add_leases(runs, objects)
                draft.add_job_updates(lease.job_updates)
                draft.add_events(lease.events)
                round_state = log_codec.encode_round_state(decoded.plan.round_state)
        draft.move_log(position, record.position, round_state)
        effects = draft.effects(now_us=int(memory.clock() * 1e6))
        if effects is not None:
            await self._writer.put(effects, self._follower(draft.change_ids, span))

    def _follower(
        self, change_ids: list[int], span: TraceSpan | None = None
    ) -> Callable[[AppliedEffects | None], None]:
        """Return what to do once a record is stored."""

        def follow(applied: AppliedEffects | None) -> None:
            if span is not None:
                span.end()
            self._intake.forget_changes(change_ids)
            if applied is not None:
                self._refused.append(applied.refused_handles)

        return follow

    async def _take_back_refused(self) -> None:
        """Take back leases of records that the database refused, before any executor can ask for its rows."""
        refused = np.concatenate([NOTHING_REFUSED, *self._refused])
        if not refused.size:
            return
        taken_back = refuse_leases(self.memory.state, refused, self.memory.clock())
        self._refusals.note_taken_back(refused)
        draft = self._begin_draft()
        draft.add_events(taken_back.events)
        draft.add_job_updates(taken_back.job_updates)
        effects = draft.effects(now_us=int(self.memory.clock() * 1e6))
        if effects is not None:
            await self._writer.put(effects, lambda _: None)
