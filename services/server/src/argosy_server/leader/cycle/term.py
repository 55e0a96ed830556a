"""One leader term of this process, from the taken epoch to its end: drives the machine and does what it says.

Instructions for the database and the log are carried out by tasks and threads, those for clusters are put in their
sessions' outboxes. Whatever fails, and is not one cluster's affair, ends the term.

Source: design section 5.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import structlog

from argosy_core.errors import AlreadyExists, ArgosyError, InvalidRequest
from argosy_core.job.tables.members import Members
from argosy_core.leader import LeaderMachine
from argosy_core.leader import instructions as say
from argosy_core.leader.cycle import MARKER_SEQUENCE
from argosy_core.leader.events import (
    Loaded,
    MarkerPublished,
    Origin,
    OriginKind,
    PluginAnswered,
    Published,
    RecordsRead,
    Role,
    Stored,
)
from argosy_core.leader.suspects import origins_of
from argosy_runtime.metrics import METRICS
from argosy_server.leader.cycle.changes import ChangeReader
from argosy_server.leader.cycle.driver import LeaderDriver
from argosy_server.leader.cycle.writer import EffectWriter
from argosy_server.leader.hot import HotSettings
from argosy_server.leader.log import codec as log_codec
from argosy_server.leader.log.trimming import LogTrimmer
from argosy_server.leader.sessions.binding import ClusterBinder
from argosy_server.leader.sessions.rows import RowSender
from argosy_server.leader.show.gauges import LeaderGauges
from argosy_server.leader.show.notes import LeaderNotes
from argosy_server.leader.takeover.loading import loaded_pool

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from argosy_core.leader.events import Event
    from argosy_eventlog import EventLog
    from argosy_runtime.traces import TraceSpan
    from argosy_server.config import ServerConfig
    from argosy_server.leader.log.publishing import ReportingStore
    from argosy_server.leader.sessions.executors import SyncSession
    from argosy_server.leader.sessions.outbox import SessionTable
    from argosy_server.leader.sessions.samplers import SamplerSession
    from argosy_server.leader.show.round_traces import LeaseTrace
    from argosy_store import LeaderStore
    from argosy_store.binding import Binding
    from argosy_store.terms.effects import AppliedEffects
    from argosy_store.terms.election import Leadership

__all__ = ["LeaderTerm"]

_log = structlog.get_logger(__name__)
_NAMED_SUSPECTS = 10
_SUSPECTS_PERIOD_S = 10.0
RECORDS_PER_READ = 100
"""Log records read at once while taking over."""


class LeaderTerm:
    """Everything that lives as long as one epoch of this process.

    Args:
        config: The server's configuration.
        leadership: The epoch, and how far the log is applied.
        store: Database.
        log: The event log.
        election: What publishes, and knows what time it is.
        samplers: Sessions of samplers.
        executors: Sessions of executors.
    """

    def __init__(
        self,
        config: ServerConfig,
        leadership: Leadership,
        *,
        store: LeaderStore,
        log: EventLog,
        election: ReportingStore,
        samplers: SessionTable[SamplerSession],
        executors: SessionTable[SyncSession],
    ) -> None:
        """Prepare the machine and what carries out its instructions."""
        settings = config.leader
        self.pool, self.epoch = config.pool, leadership.epoch
        self.seed = settings.seed or self.epoch
        self.notes = LeaderNotes(config.pool)
        machine = LeaderMachine(
            config.pool,
            self.epoch,
            settings=settings.machine(),
            rng=np.random.default_rng(self.seed),
            observer=self.notes.clock,
            decision_profile=settings.make_profile(),
        )
        self.driver = LeaderDriver(machine, election.clock)
        for role in Role:
            METRICS.ended_sessions.labels(self.pool, role)  # counted from 0, so that the first one is seen to come
        self._settings = settings
        self._leadership = leadership
        self._store = store
        self._log = log
        self._publisher = election.open_publisher(log)
        self._samplers = samplers
        self._executors = executors
        self._binder = ClusterBinder(store, self.epoch, fence_s=settings.fence_s)
        self._writer = EffectWriter(store, self.epoch)
        self._rows = RowSender(self.notes, store, self.feed)
        self.hot = HotSettings(config)
        self._changes = ChangeReader(self.driver, store, self.notes, self.hot)
        self._trimmer = LogTrimmer(log, kept_count=settings.kept_log_count, period_s=settings.log_trim_s)
        self._gauges = LeaderGauges(config.pool, machine, self.notes.clock, samplers=samplers, executors=executors)
        self._tasks = asyncio.TaskGroup()
        self._traces: dict[int, LeaseTrace] = {}
        self._replays: dict[int, TraceSpan] = {}
        self._started_s = time.perf_counter()
        self._on_ready: Callable[[LeaderTerm], None] = lambda _: None

    async def run(self, *, on_ready: Callable[[LeaderTerm], None]) -> None:
        """Take over, call `on_ready`, and lead until cancelled or failed.

        Raises:
            StateConflict: The epoch is no longer ours.
            BackendUnavailable: The log or the database cannot be reached.
        """
        self._on_ready = on_ready
        parts = (self._writer, self._binder, self.driver)
        with contextlib.ExitStack() as stack:
            for part in parts:
                stack.enter_context(contextlib.closing(part))
            stack.enter_context(self._gauges.leading())
            async with self._tasks:
                self._spawn(self._drive(), "machine")
                self._spawn(self._write(), "writer")
                self._spawn(self._rows.run(), "row-sender")
                self._started_s = time.perf_counter()
                self.driver.start(self._carriers())

    async def _drive(self) -> None:
        """Drive the machine; what it cannot handle is stored as suspect before the term ends."""
        try:
            await self.driver.run()
        except Exception as error:
            await self._suspect(self.driver.blamed, error)
            raise

    async def _write(self) -> None:
        """Write transactions; what stands in one that the database can never take is suspect.

        That is one with a value which cannot be stored, or with a row that is there: whoever loads anew would write it
        again.
        """
        try:
            await self._writer.run(self._stored)
        except (InvalidRequest, AlreadyExists) as error:
            transaction = self._writer.present
            if transaction is not None:
                changes = origins_of(OriginKind.CHANGE, transaction.change_ids)
                reporters = (Origin(OriginKind.EXECUTOR, cluster) for cluster in transaction.reporters)
                records = origins_of(OriginKind.RECORD, transaction.log[1:] if transaction.log is not None else ())
                await self._suspect((*changes, *reporters, *records), error)
            raise

    async def _suspect(self, origins: Sequence[Origin], error: Exception) -> None:
        """Store what ended the term."""
        if not origins:
            return
        text = f"{type(error).__name__}: {error}"
        for origin in origins[:_NAMED_SUSPECTS]:
            _log.error("what ended the leadership is set aside", reason=f"{' '.join(origin)}: {text}")
        pairs = [(origin.kind.value, origin.key) for origin in origins]
        try:
            await asyncio.to_thread(self._store.note_suspects, self.epoch, pairs, text)
        except ArgosyError as failure:
            _log.warning("what ended the leadership cannot be noted", reason=failure.message)

    async def _show_suspects(self) -> None:
        """Show how many inputs are set aside, until cancelled."""
        while True:
            with contextlib.suppress(ArgosyError):
                METRICS.suspects.labels(self.pool).set(await asyncio.to_thread(self._store.count_suspects))
            await asyncio.sleep(_SUSPECTS_PERIOD_S)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._tasks.create_task(work, name=name)

    def _carriers(self) -> dict[type, Callable[[Any], None]]:
        """Return what carries out each kind of instruction."""
        return {
            say.PublishMarker: lambda _: self._spawn(self._publish_marker(), "publish-marker"),
            say.Load: lambda _: self._spawn(self._load(), "load"),
            say.ReadChanges: lambda _: self._read_changes(),
            say.ReadRecords: lambda it: self._spawn(self._read_records(it.after), "read-records"),
            say.Serve: self._serve,
            say.Publish: lambda it: self._spawn(self._publish(it), "publish"),
            say.Store: self._writer.put,
            say.Welcome: self._welcome,
            say.SendCordons: self._to_sampler(lambda session, it: session.send_cordons(it)),
            say.SendWeights: self._to_sampler(lambda session, it: session.send_weights(it)),
            say.SendPlacements: self._to_sampler(lambda session, it: session.send_placements(it)),
            say.SendSample: self._to_sampler(lambda session, it: session.send_sample(it)),
            say.SendCommit: self._to_sampler(lambda session, it: session.send_commit(it)),
            say.SendReleases: self._to_sampler(lambda session, it: session.send_releases(it)),
            say.SendRows: self._to_executor(
                lambda session, it: self._rows.put(it.rows, session, self._traces.get(it.round_number))
            ),
            say.SendStops: self._to_executor(lambda session, it: self._rows.put(it.runs, session)),
            say.Listen: self._to_executor(lambda session, _: session.listening.set()),
            say.Acknowledge: self._to_executor(lambda session, it: session.acknowledge(it.batch)),
            say.Close: self._close,
            say.CallPlugin: self._call_plugin,
            say.NoteExcess: lambda it: self._spawn(self._note_excess(it), "note-excess"),
            say.Warn: lambda it: _log.warning("the leader found something amiss", reason=f"{it.text}: {it.subject}"),
        }

    # --- what streams need --------------------------------------------------------------------------------------------

    @property
    def inbox_has_room(self) -> asyncio.Event:
        """Set while states of executors are taken."""
        return self.driver.inbox_has_room

    def feed(self, event: Event) -> None:
        """Hand an event to the machine; after the end nothing comes of it."""
        self.driver.feed(event)

    async def bind(self, role: Role, hello: Any) -> Binding:  # noqa: ANN401 - a hello of either proto
        """Bind the process that says hello; see `ClusterBinder.bind`."""
        bound = await self._binder.bind(role, hello)
        self.notes.note_cluster(bound.cluster)
        return bound

    async def note_fault(self, cluster: str, role: Role, host: str, reason: str) -> None:
        """Tell operators, now and later, that a session was ended for what was said there."""
        METRICS.ended_sessions.labels(self.pool, role).inc()
        _log.warning("a session is ended for what was said there", peer=str(role), cluster=cluster, reason=reason)
        await self._binder.note_fault(cluster, role, host, reason)

    async def _note_excess(self, it: say.NoteExcess) -> None:
        """Tell operators, now and in the audit, that a cluster tells of more than counts."""
        _log.warning("a cluster tells of more capacity than counts", cluster=it.session.cluster, reason=it.text)
        await self._binder.note_excess(it.session.cluster, it.text)

    async def without_foreign(self, runs: Members) -> Members:
        """Return runs without those of other pools' jobs; the database is asked of those that are not held here."""
        slots = self.driver.machine.state.live.slots(runs.handle)
        strange = np.unique(runs.handle[slots < 0])
        if not strange.size:
            return runs
        foreign = await asyncio.to_thread(self._store.read_foreign_jobs, strange.tolist())
        own = ~np.isin(runs.handle, np.array(foreign, dtype=np.int64))
        return runs[own]

    # --- taking over --------------------------------------------------------------------------------------------------

    async def _publish_marker(self) -> None:
        payload = log_codec.encode_marker(pool=self.pool, epoch=self.epoch, now_us=self.driver.clock.now().db_us)
        position = await self._publisher.append(self.epoch, MARKER_SEQUENCE, payload)
        self.feed(MarkerPublished(position=position))

    async def _load(self) -> None:
        loaded = await asyncio.to_thread(self._store.load)
        for row in loaded.clusters:
            self.notes.note_cluster(row)
        self._trimmer.note_stored(self._leadership.log_position)
        event: Loaded = loaded_pool(loaded, self._leadership.log_position, self.hot)
        self.feed(event)
        _log.info("loaded", job_count=event.columns.jobs.handle.size, run_count=event.columns.runs.handle.size)

    def _read_changes(self) -> None:
        if self._changes.is_polling:
            self._changes.want()
        else:
            self._spawn(self._read_all_changes(), "read-changes")

    async def _read_all_changes(self) -> None:
        await self._changes.read(self.driver.machine.budget().changes)

    async def _read_records(self, after: int) -> None:
        records = await asyncio.to_thread(self._log.read, after, RECORDS_PER_READ)
        read = []
        for record in records:
            decoded, traceparent = log_codec.read_record(record, self.pool)
            if self.notes.traces is not None and decoded.plan is not None:
                self._replays[record.position] = self.notes.traces.begin_replay(traceparent, record.position)
            read.append(decoded)
        self.feed(RecordsRead(records=tuple(read)))

    def _serve(self, _: say.Serve) -> None:
        elapsed_s = round(time.perf_counter() - self._started_s, 3)
        _log.info("took over", epoch=self.epoch, elapsed_s=elapsed_s)
        self._changes.is_polling = True
        self._spawn(self._changes.poll(self._settings.poll_ms / 1000), "poll-changes")
        self._spawn(self._trimmer.run(), "trim-log")
        self._spawn(self._gauges.run(), "gauges")
        self._spawn(self._show_suspects(), "suspects")
        self._gauges.note_ready()
        self._on_ready(self)

    # --- the log and the database -------------------------------------------------------------------------------------

    async def _publish(self, publish: say.Publish) -> None:
        """Append a plan's records, one after another."""
        plan, trace, traceparent = publish.plan, None, ""
        positions: list[int] = []
        if self.notes.traces is not None:
            started_ns = publish.begin_time_us * 1000
            trace = self.notes.traces.begin_lease(plan, started_ns=started_ns, phases_ms=self.notes.clock.phases_ms)
            self._traces[plan.round_number] = trace
            traceparent = trace.traceparent
        for sequence, record in enumerate(publish.records, publish.first_sequence):
            payload = log_codec.encode_lease_batch(
                record, pool=self.pool, epoch=self.epoch, sequence=sequence, traceparent=traceparent
            )
            positions.append(await self._publisher.append(self.epoch, sequence, payload, traceparent=traceparent))
        if trace is not None:
            trace.published(positions[-1])
        self.feed(Published(position=positions[-1], positions=tuple(positions)))

    def _stored(self, store: say.Store, applied: AppliedEffects) -> None:
        """Tell the machine of a commit."""
        position = store.transaction.log[1] if store.transaction.log is not None else 0
        if position:
            self._trimmer.note_stored(position)
        replay = self._replays.pop(position, None)
        if replay is not None:
            replay.end()
        trace = self._traces.get(store.round_number)
        if trace is not None:
            trace.stored(applied.refused_handles)
        self.feed(Stored(number=store.number, refused=applied.refused_handles))
        self._traces.pop(store.round_number, None)

    def _call_plugin(self, call: say.CallPlugin) -> None:
        """Call pre-bind plugins on a thread, which nobody waits for: one that hangs must not keep the term from ending.

        The machine bounds how many calls are under way, and how long their placements wait.
        """
        loop = asyncio.get_running_loop()

        def run() -> None:
            answer = PluginAnswered(number=call.number, verdicts=call.framework.pre_bind(call.batch))
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self.feed, answer)

        threading.Thread(target=run, name="pre-bind", daemon=True).start()

    # --- sessions -----------------------------------------------------------------------------------------------------

    def _to_sampler(self, send: Callable[[SamplerSession, Any], None]) -> Callable[[Any], None]:
        """Return what gives an instruction to the sampler's session that it names, if that is open."""

        def carry_out(instruction: Any) -> None:  # noqa: ANN401 - every instruction to a session has it
            session = self._samplers.get(instruction.session)
            if session is not None:
                send(session, instruction)

        return carry_out

    def _to_executor(self, send: Callable[[SyncSession, Any], None]) -> Callable[[Any], None]:
        """Return what gives an instruction to the executor's session that it names, if that is open."""

        def carry_out(instruction: Any) -> None:  # noqa: ANN401 - every instruction to a session has it
            session = self._executors.get(instruction.session)
            if session is not None:
                send(session, instruction)

        return carry_out

    def _welcome(self, welcome: say.Welcome) -> None:
        sampler, executor = self._samplers.get(welcome.session), self._executors.get(welcome.session)
        if sampler is not None:
            sampler.welcome(self.epoch, self._settings.heartbeat_s, self.notes.cluster(sampler.cluster))
        if executor is not None:
            executor.welcome(self.epoch, self._settings, is_first=welcome.is_first)

    def _close(self, close: say.Close) -> None:
        for session in (self._samplers.get(close.session), self._executors.get(close.session)):
            if session is not None:
                session.close(close.reason, is_fault=close.is_fault)
