"""The leader's loop: take what arrived, run a round, publish, ingest, again.

Source: design section 5, "Take changes", "Round", "Ingest".
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt
import structlog

from argosy_core.errors import ArgosyError, BackendUnavailable, InvalidRequest
from argosy_core.scheduler import Refusals, apply_ingested, begin_round, draft_ingest, refuse_leases
from argosy_runtime.metrics import METRICS
from argosy_server.leader import cluster_codec, log_codec
from argosy_server.leader.batches import encode_lease_batches
from argosy_server.leader.effects import EffectDraft
from argosy_server.leader.intake import Intake
from argosy_server.leader.log_trimming import LogTrimmer
from argosy_server.leader.pace import Pace

if TYPE_CHECKING:
    from argosy.sampler.v1 import sampler_pb2
    from argosy_core.scheduler import Round
    from argosy_core.scheduler.effects import LeaseEffects, LeasePlan
    from argosy_core.scheduler.messages import ClusterRuns, CommitQuestion, SampleQuestion
    from argosy_eventlog import EventLog
    from argosy_server.leader.memory import LeaderMemory, ReportedStates
    from argosy_server.leader.publishing import Publisher
    from argosy_server.leader.round_traces import LeaseTrace
    from argosy_server.leader.rows import RowSender
    from argosy_server.leader.sampler_sessions import SamplerSession
    from argosy_server.leader.sessions import SessionRegistry
    from argosy_server.leader.settings import LeaderSettings
    from argosy_server.leader.writer import EffectWriter
    from argosy_store import LeaderStore
    from argosy_store.effects import AppliedEffects

__all__ = ["MARKER_SEQUENCE", "NOTHING_REFUSED", "Cycle", "CycleParts"]

AnswerT = TypeVar("AnswerT")
RELEASE_PATIENCE_S = 0.25
"""How long placements that ended wait for another message to the same sampler."""
CONTACT_PERIOD_S = 5.0
"""How often it is stored when executors were last heard."""
QUEUED_COUNT_PERIOD_S = 1.0
"""How often the numbers of waiting jobs are stored, for the limit at submit."""
MARKER_SEQUENCE = 1
"""Sequence of the record that a new leader publishes first."""
NOTHING_REFUSED = np.empty(0, dtype=np.int64)
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleParts:
    """What a cycle acts through."""

    store: LeaderStore
    """Reads."""
    log: EventLog
    """The event log, to be trimmed."""
    publisher: Publisher
    """What is appended to it goes through this."""
    writer: EffectWriter
    """Ordered transactions."""
    rows: RowSender
    """Rows on their way to executors."""
    samplers: SessionRegistry[SamplerSession]
    """Sessions of samplers."""
    intake: Intake
    """Takes what arrived."""


class Cycle:
    """Runs rounds for one leadership until cancelled."""

    def __init__(self, memory: LeaderMemory, settings: LeaderSettings, parts: CycleParts, *, log_position: int) -> None:
        """Continue the log behind `log_position`, up to which it is stored; the marker was the epoch's first record."""
        self._memory = memory
        self._settings = settings
        self._publisher = parts.publisher
        self._position = log_position
        self._trimmer = LogTrimmer(parts.log, kept_count=settings.kept_log_count, period_s=settings.log_trim_s)
        self._trimmer.note_stored(log_position)
        self._sequence = MARKER_SEQUENCE
        self._pace = Pace(busy_s=settings.window_busy_ms / 1000, busy_rate=settings.busy_jobs_per_s)
        self._counted_s = 0.0
        self._contacts_s = 0.0
        self._started_ns = 0
        self._trace: LeaseTrace | None = None
        self._refusals = Refusals()
        self._next_draft = EffectDraft(self._refusals)
        self._writer = parts.writer
        self._rows = parts.rows
        self._samplers = parts.samplers
        self._intake = parts.intake

    async def run(self) -> None:
        """Run rounds until cancelled.

        Raises:
            StateConflict: The epoch is no longer ours.
            BackendUnavailable: The log or the database cannot be reached.
        """
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._intake.poll_changes(self._settings), name="poll-changes")
            tasks.create_task(self._trimmer.run(), name="trim-log")
            while True:
                await self._wait_for_news()
                await self._run_once()

    async def _wait_for_news(self) -> None:
        """Wait for arrivals, then until they pause or the window ends; not longer than until work is due without them.

        Under load the round does not begin before its pace says so.
        """
        idle_s = self._settings.window_idle_ms / 1000
        window_s = self._settings.window_max_ms / 1000
        news = self._memory.news
        patience_s = min(max(self._intake.due_in_s(), window_s), 1.0)
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await news.wait()
        deadline_s = time.monotonic() + window_s
        await asyncio.sleep(max(self._pace.earliest_s() - time.monotonic(), 0.0))
        if not news.is_set():
            return
        while (remaining_s := deadline_s - time.monotonic()) > 0:
            news.clear()
            try:
                async with asyncio.timeout(min(idle_s, remaining_s)):
                    await news.wait()
            except TimeoutError:
                break
        news.clear()

    async def _run_once(self) -> None:
        """Take what arrived, run one round, publish and hand the effects to the writer."""
        memory = self._memory
        memory.phases_ms = {}
        self._started_ns = time.time_ns()
        self._pace.begin_round(time.monotonic(), max(memory.totals.get("submitted", 0), memory.totals.get("leases", 0)))
        draft, self._next_draft = self._next_draft, EffectDraft(self._refusals)
        draft.number = self._refusals.begin_draft()
        memory.deciding = True
        try:
            with self._timed("take changes"):
                reported = await self._intake.take(draft)
            plan = await self._decide()
            self._release(plan.releases)
            lease = await self._publish(plan, draft) if plan.has_news else None
            await self._store_and_follow(draft, reported, lease)
        finally:
            memory.deciding = False
        for session in self._samplers.all():
            session.forget_questions(plan.round_number)
            # What waits for room waits for just these.
            session.send_releases(memory.epoch, held_for_s=0.0 if memory.state.heads.size else RELEASE_PATIENCE_S)
        self._note_round(plan)

    async def _decide(self) -> LeasePlan:
        """Run one round: prioritise, sample, decide, commit."""
        memory = self._memory
        with self._timed("prioritise"):
            round_ = begin_round(memory.state, memory.clock(), memory.rng)
        with self._timed("sample"):
            await self._sample(round_)
        with self._timed("decide"):
            questions = round_.decide(memory.rng)
        with self._timed("commit"):
            while questions:
                await self._commit(round_, questions)
                questions = round_.next_commits()
        return round_.finish(memory.clock())

    async def _sample(self, round_: Round) -> None:
        """Ask the samplers of the round, all at once."""
        questions = round_.questions
        replies = await asyncio.gather(*(self._ask_sample(question) for question in questions))
        for question, reply in zip(questions, replies, strict=True):
            try:
                columns = cluster_codec.sample_reply(reply, question) if reply is not None else None
                round_.take_sample(question.cluster, columns)
            except InvalidRequest as error:
                self._refuse_answer(question.cluster, error)

    async def _ask_sample(self, question: SampleQuestion) -> sampler_pb2.SampleAnswer | None:
        """Return a sampler's answer, None if there is none in time."""
        session = self._samplers.get(question.cluster)
        if session is None or not session.ready:
            return None
        unseen = [class_id for class_id in question.class_ids.tolist() if class_id not in session.sent_classes]
        session.sent_classes.update(unseen)
        definitions = [(class_id, self._memory.definitions[class_id]) for class_id in unseen]
        session.send_releases(self._memory.epoch)
        request = cluster_codec.sample_request(question, epoch=self._memory.epoch, classes=definitions)
        return await self._answer(session.ask_sample(request), question.cluster)

    async def _commit(self, round_: Round, questions: tuple[CommitQuestion, ...]) -> None:
        """Ask the samplers of one stage to place runs, all at once."""
        replies = await asyncio.gather(*(self._ask_commit(question) for question in questions))
        for question, reply in zip(questions, replies, strict=True):
            columns = None
            if reply is not None:
                try:
                    columns = cluster_codec.commit_reply(reply, question)
                except InvalidRequest as error:
                    self._refuse_answer(question.cluster, error)
            round_.take_commits(question.cluster, columns)

    async def _ask_commit(self, question: CommitQuestion) -> sampler_pb2.CommitAnswer | None:
        """Return a sampler's outcomes, None if they are not known."""
        session = self._samplers.get(question.cluster)
        if session is None or not session.ready:
            return None
        request = cluster_codec.commit_request(question, epoch=self._memory.epoch)
        return await self._answer(session.ask_commit(request), question.cluster)

    async def _answer(self, future: Awaitable[AnswerT], cluster: str) -> AnswerT | None:
        """Wait for an answer; None when the session ends or the time is up."""
        try:
            async with asyncio.timeout(self._settings.answer_timeout_s):
                return await future
        except TimeoutError:
            _log.warning("sampler did not answer in time", cluster=cluster)
        except BackendUnavailable:
            _log.info("sampler left during a round", cluster=cluster)
        return None

    def _refuse_answer(self, cluster: str, error: ArgosyError) -> None:
        """End the session of a sampler whose answers cannot be read."""
        _log.error("sampler answers cannot be read", cluster=cluster, reason=error.message)
        session = self._samplers.get(cluster)
        if session is not None:
            session.close(error.message)

    async def _publish(self, plan: LeasePlan, draft: EffectDraft) -> LeaseEffects:
        """Append the plan to the log, in several records if it is large, and draft its ingest."""
        memory = self._memory
        position = self._position
        trace = None
        if memory.traces is not None:
            trace = memory.traces.begin_lease(plan, started_ns=self._started_ns, phases_ms=memory.phases_ms)
        traceparent = trace.traceparent if trace is not None else ""
        with self._timed("publish"):
            for payload in encode_lease_batches(
                plan,
                pool=memory.pool,
                epoch=memory.epoch,
                sequence=self._sequence + 1,
                max_bytes=self._settings.max_record_bytes,
                traceparent=traceparent,
            ):
                self._sequence += 1
                memory.count("published_records", 1)
                position = await self._publisher.append(memory.epoch, self._sequence, payload, traceparent=traceparent)
        if trace is not None:
            trace.published(position)
        self._trace = trace
        with self._timed("ingest"):
            runs, objects = draft_ingest(memory.state, plan)
            self._intake.note_handles("leased", plan.handle)
            lease = apply_ingested(memory.state, plan, NOTHING_REFUSED, memory.clock())
            memory.unstored_handles.update(runs.handle.tolist())
            draft.add_leases(runs, objects)
            draft.move_log(self._position, position, log_codec.encode_round_state(plan.round_state))
            draft.add_job_updates(lease.job_updates)
            draft.add_events(lease.events)
            self._position = position
        memory.count("leases", int(plan.handle.size))
        return lease

    async def _store_and_follow(
        self, draft: EffectDraft, reported: list[ReportedStates], lease: LeaseEffects | None
    ) -> None:
        """Hand the effects to the writer; what follows a commit is done after it."""
        if lease is not None:
            self._release(lease.releases)
        follow = self._follower(draft, reported, lease)
        now_s = self._memory.clock()
        if now_s - self._counted_s >= QUEUED_COUNT_PERIOD_S:
            self._counted_s = now_s
            queues = self._memory.state.queues
            draft.queued_counts = {queue_id: int(queues.queued_count[index]) for queue_id, index in queues.ids.items()}
        if now_s - self._contacts_s >= CONTACT_PERIOD_S:
            draft.contacts = self._memory.take_contacts()
            self._contacts_s = now_s if draft.contacts else self._contacts_s
        effects = draft.effects(now_us=int(now_s * 1e6))
        if effects is None:
            follow(None)
        else:
            with self._timed("wait for the database"):
                await self._writer.put(effects, follow)

    def _follower(
        self, draft: EffectDraft, reported: list[ReportedStates], lease: LeaseEffects | None
    ) -> Callable[[AppliedEffects | None], None]:
        """Return what to do after the commit: answer executors, send rows and stops.

        A lease that the database refused met a wish that was set while the round ran: it is taken back in memory, and
        no executor hears of it.
        """
        change_ids = draft.change_ids
        leased = [handle for rows in lease.rows for handle in rows.handle.tolist()] if lease is not None else []
        stops = list(draft.stops)
        position = self._position
        trace, self._trace = self._trace, None
        published_count = self._memory.totals.get("published_records", 0)

        def follow(applied: AppliedEffects | None) -> None:
            self._trimmer.note_stored(position)
            self._memory.totals["stored_records"] = published_count
            self._memory.unstored_handles.difference_update(leased)
            self._intake.forget_changes(change_ids)
            for states in reported:
                states.session.acknowledge(states.batch)
            refused = applied.refused_handles if applied is not None else NOTHING_REFUSED
            if refused.size:
                self._take_back(refused)
            if trace is not None:
                trace.stored(refused)
            if lease is not None:
                for rows in lease.rows:
                    self._rows.put_rows(rows.without(refused) if refused.size else rows, trace=trace)
                stops.extend(lease.stops)
            for stop in stops:
                self._rows.put_stops(stop)

        return follow

    def _take_back(self, refused: npt.NDArray[np.int64]) -> None:
        """Take back leases that the database refused; what follows goes with the next cycle."""
        effects = refuse_leases(self._memory.state, refused, self._memory.clock())
        self._refusals.note_taken_back(refused)
        self._next_draft.add_events(effects.events)
        self._next_draft.add_job_updates(effects.job_updates)
        self._release(effects.releases)
        self._memory.count("refused", int(refused.size))
        self._memory.news.set()

    def _release(self, releases: tuple[ClusterRuns, ...]) -> None:
        """Tell samplers of placements that ended."""
        self._intake.release(releases)

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        """Note how long a phase took."""
        started_s = time.perf_counter()
        yield
        elapsed_ms = (time.perf_counter() - started_s) * 1000
        self._memory.phases_ms[phase] = self._memory.phases_ms.get(phase, 0.0) + elapsed_ms

    def _note_round(self, plan: LeasePlan) -> None:
        """Count the round."""
        self._memory.count("rounds", 1)
        for phase, took_ms in self._memory.phases_ms.items():
            METRICS.round_phase_seconds.labels(phase).observe(took_ms / 1000)
        self._memory.last_round = {"round": plan.round_number, "leased_count": int(plan.handle.size)}
