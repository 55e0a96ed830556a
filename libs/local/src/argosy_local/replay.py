"""Replaying a workload through a mesh: submit at the trace's times over the API, follow the events to the end.

Every queue has a sender, which keeps the order of its jobs, and a follower, which watches its job set. Both repeat
while anything cannot be reached, so killing any process of the mesh and starting it again does not end a replay; what
was due meanwhile goes out in larger calls.

Source: design section 9; section 5, "Submit" (client ids make repeated calls harmless).
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import numpy as np

from argosy_client import EventBatch, JobDraft, JobEvent, LastRound, PodGroup, Queue, QueueShare, Shares, split_drafts
from argosy_core.errors import AlreadyExists, ArgosyError, BackendUnavailable, NotAllowedNow, NotFound, QuotaExceeded
from argosy_local.round_totals import RoundTotals
from argosy_local.witness import Witness, WitnessClient
from argosy_workload.manifests import MAX_BATCH_SIZE, Submitter
from argosy_workload.model import Workload
from argosy_workload.records import MOST_PLACED, RunRecords, RunState
from argosy_workload.timing import ReplayPlan

__all__ = ["AWAY_S", "Replay", "ReplayClient", "ReplayProgress"]

AWAY_S: Final = 900.0
"""How long the mesh may be away before a replay gives up, seconds."""
_TICK_S: Final = 0.05
_LOOK_S: Final = 0.5
_MAX_CALL_JOBS: Final = 500
_BUSY_PAUSE_S: Final = 0.2
_STALL_S: Final = 180.0
_TERMINAL: Final = {"succeeded": RunState.SUCCEEDED, "failed": RunState.FAILED, "cancelled": RunState.CANCELLED}


class ReplayClient(WitnessClient, Protocol):
    """What a replay asks of a client; `argosy_client.ArgosyClient` has it."""

    @property
    def retry_count(self) -> int:
        """Calls repeated so far."""
        ...

    async def create_queue(self, queue: Queue) -> Queue:
        """Make a queue."""
        ...

    async def submit(self, drafts: Sequence[JobDraft]) -> tuple[str, ...]:
        """Submit jobs, all of them or none."""
        ...

    def watch(self, queue: str, job_set: str) -> AsyncIterator[EventBatch]:
        """Follow a job set."""
        ...

    async def get_last_round(self) -> LastRound:
        """Return what the leader did last."""
        ...

    async def get_shares(self, pool: str = "") -> Shares:
        """Return what the queues have."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayProgress:
    """How far a replay is."""

    counts: dict[str, int]
    """Jobs by state."""
    submitted_count: int
    """Jobs acknowledged."""
    finished_count: int
    """Jobs that ended."""
    elapsed_s: float
    """Real seconds since its start."""
    shares: tuple[QueueShare, ...] = ()
    """What each queue had when a leader was last asked."""
    reasons: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By queue, how many of its first jobs waited for what then."""


@dataclass(slots=True)
class _QueueRun:
    """One queue of the replay."""

    name: str
    rows: list[int] = field(default_factory=list)
    due: deque[int] = field(default_factory=deque)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    acknowledged: asyncio.Event = field(default_factory=asyncio.Event)
    row_by_id: dict[str, int] = field(default_factory=dict)
    early: list[JobEvent] = field(default_factory=list)  # events of jobs whose submit is not answered yet
    finished: set[int] = field(default_factory=set)
    done: asyncio.Event = field(default_factory=asyncio.Event)


class Replay:
    """One replay of a plan.

    Args:
        client: Client of the mesh's server; its retries bound how long the server may be away.
        plan: What to submit, and how fast.
        run_id: Name of the job sets and prefix of the client ids; another run needs another one.
        cluster_speed: Simulated seconds per real second of the clusters; the plan's own if they were started for it.
        tell: Is told the progress a few times a second.
    """

    def __init__(
        self,
        client: ReplayClient,
        plan: ReplayPlan,
        *,
        run_id: str,
        cluster_speed: float | None = None,
        tell: Callable[[ReplayProgress], None] = lambda _: None,
    ) -> None:
        """Prepare; nothing is called before `run`."""
        self._client = client
        self._plan = plan
        self._run_id = run_id
        self._tell = tell
        self._start_s = 0.0  # wall clock, since events carry it
        self._event_s = 0.0  # last time that something happened, or nobody was there to let it happen
        self._answer_s = 0.0  # last time that a leader answered
        self._shares: tuple[QueueShare, ...] = ()
        self._over = asyncio.Event()
        self._witness = Witness(client)
        self._is_watched = len(plan.workload) <= MOST_PLACED
        self._manifests = _manifests(plan.workload, (cluster_speed or plan.speed) / plan.speed)
        self._estimate_s = plan.workload.estimates_s(speed=plan.speed).tolist()
        self._lifetime_s = plan.workload.lifetimes_s(speed=plan.speed).tolist()
        self._queues = [_QueueRun(queue.name) for queue in plan.workload.queues]
        for row, queue in enumerate(plan.workload.queue.tolist()):
            self._queues[queue].rows.append(row)
        self.records = RunRecords.start(plan.workload, speed=plan.speed)
        """What happened to each job, seconds since the start."""
        self.rounds = RoundTotals()
        """What the leaders did."""
        self.counters: Counter[str] = Counter()
        """Calls that were repeated or refused for a while."""
        self.notes: list[str] = []
        """What a reader of the report must know."""

    async def run(self) -> RunRecords:
        """Submit everything, wait until every job has ended, and return what happened.

        Raises:
            ArgosyError: The server was away for longer than the client repeats, or refused a job.
        """
        for wanted in self._plan.workload.queues:
            await self._make_queue(Queue(name=wanted.name, weight=wanted.weight))
        await self._look()
        self._start_s = self._event_s = self._answer_s = time.time()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._dispatch(), name="dispatch")
                for queue in self._queues:
                    if queue.rows:
                        group.create_task(self._send(queue), name=f"send {queue.name}")
                        group.create_task(self._follow(queue), name=f"follow {queue.name}")
                group.create_task(self._observe(), name="observe")
        except BaseExceptionGroup as group_error:
            raise _first_error(group_error) from None
        await self._look()
        await self._tell_apart()
        self.counters["calls repeated"] = self._client.retry_count
        return self.records

    async def _tell_apart(self) -> None:
        """Note what only the mesh knows of each job: where it was, what it was promised."""
        if not self._is_watched:
            return
        self.records.promises.extend(self._witness.promises.values())
        for queue in self._queues:
            rows = queue.row_by_id
            placed = await self._witness.placements(queue.name, self._run_id, rows, start_s=self._start_s)
            self.records.placements.extend(placed)

    async def _make_queue(self, queue: Queue) -> None:
        try:
            await self._client.create_queue(queue)
        except AlreadyExists:
            self.notes.append(f"Queue {queue.name} was there already and keeps its own weight.")

    # --- submitting -----------------------------------------------------------------------------------------------

    async def _dispatch(self) -> None:
        """Give each job to its queue's sender when its time has come."""
        due_s = self._plan.workload.submit_s / self._plan.speed
        queue_column = self._plan.workload.queue
        done = 0
        while done < len(due_s):
            elapsed_s = time.time() - self._start_s
            upto = int(np.searchsorted(due_s, elapsed_s, side="right"))
            for row in range(done, upto):
                queue = self._queues[queue_column[row]]
                queue.due.append(row)
                queue.wake.set()
            done = upto
            if done < len(due_s):
                await asyncio.sleep(max(_TICK_S, float(due_s[done]) - (time.time() - self._start_s)))

    async def _send(self, queue: _QueueRun) -> None:
        sent = 0
        while sent < len(queue.rows):
            await queue.wake.wait()
            queue.wake.clear()
            while queue.due:
                rows = [queue.due.popleft() for _ in range(min(len(queue.due), _MAX_CALL_JOBS))]
                drafts = [self._draft(queue, row) for row in rows]
                first = 0
                for part in split_drafts(drafts):
                    await self._submit(queue, rows[first : first + len(part)], part)
                    first += len(part)
                sent += len(rows)

    def _draft(self, queue: _QueueRun, row: int) -> JobDraft:
        workload, manifest = self._plan.workload, self._manifests[row]
        estimate_s = self._estimate_s[row] if self._estimate_s[row] >= 0 else None
        count = workload.shapes[workload.shape[row]].member_count
        group = PodGroup(name="work", minimum=count, maximum=count, template=manifest, whole_nodes=False)
        return JobDraft(
            queue=queue.name,
            job_set=self._run_id,
            manifests=(manifest,) if count == 1 else (),
            groups=() if count == 1 else (group,),
            priority=int(workload.priority[row]),
            client_id=f"{self._run_id}-{row}",
            estimate_s=estimate_s,
            time_limit_s=estimate_s if workload.estimates_are_limits else None,
            lifetime_s=self._lifetime_s[row] if self._lifetime_s[row] >= 0 else None,
        )

    async def _submit(self, queue: _QueueRun, rows: Sequence[int], part: Sequence[JobDraft]) -> None:
        self.records.submit_s[rows] = time.time() - self._start_s
        while True:
            try:
                ids = await self._client.submit(part)
                break
            except QuotaExceeded:
                self.counters["submits refused for load"] += 1
                await asyncio.sleep(_BUSY_PAUSE_S)
        self.records.acknowledged_s[rows] = time.time() - self._start_s
        queue.row_by_id.update(zip(ids, rows, strict=True))
        early, queue.early = queue.early, []
        for event in early:
            self._apply(queue, event)
        queue.acknowledged.set()

    # --- following ------------------------------------------------------------------------------------------------

    async def _follow(self, queue: _QueueRun) -> None:
        await queue.acknowledged.wait()
        async with asyncio.TaskGroup() as group:
            reader = group.create_task(self._read(queue), name=f"read {queue.name}")
            await queue.done.wait()
            reader.cancel()
        if all(other.done.is_set() for other in self._queues if other.rows):
            self._over.set()

    async def _read(self, queue: _QueueRun) -> None:
        async for batch in self._client.watch(queue.name, self._run_id):
            for event in batch.events:
                self._apply(queue, event)
            if batch.events:
                self._event_s = time.time()

    def _apply(self, queue: _QueueRun, event: JobEvent) -> None:
        row = queue.row_by_id.get(event.job_id)
        if row is None:
            queue.early.append(event)
            return
        records, at_s = self.records, event.time_s - self._start_s
        if event.kind == "leased":
            records.leased_s[row], records.state[row] = at_s, RunState.LEASED
        elif event.kind == "running":
            records.running_s[row], records.state[row] = at_s, RunState.RUNNING
        elif event.kind == "requeued":
            self.counters["runs lost or returned"] += 1
            records.leased_s[row] = records.running_s[row] = np.nan
            records.state[row] = RunState.QUEUED
        elif event.kind in _TERMINAL:
            records.finished_s[row], records.state[row] = at_s, _TERMINAL[event.kind]
            queue.finished.add(row)
            if len(queue.finished) == len(queue.rows):
                queue.done.set()

    # --- observing ------------------------------------------------------------------------------------------------

    async def _observe(self) -> None:
        while not self._over.is_set():
            await self._look()
            await self._look_at_waiting()
            self._check_stall()
            self._tell(self.progress())
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await self._over.wait()
        self._tell(self.progress())

    def _check_stall(self) -> None:
        """Give up if jobs wait for nothing: all are submitted, none runs, and nothing has happened for long.

        The time without a leader does not count, as long as one comes back.

        Raises:
            NotAllowedNow: So it is.
            BackendUnavailable: No leader has come back.
        """
        if time.time() - self._answer_s > AWAY_S:
            raise BackendUnavailable(f"no leader has answered for {AWAY_S:.0f} s; `argosy status` shows what runs")
        is_submitted = not np.isnan(self.records.acknowledged_s).any()
        is_idle = not np.isin(self.records.state, (RunState.LEASED, RunState.RUNNING)).any()
        if is_submitted and is_idle and time.time() - self._event_s > _STALL_S:
            waiting = [
                one for queue in self._queues for one, row in queue.row_by_id.items() if row not in queue.finished
            ]
            raise NotAllowedNow(
                f"{len(waiting):,} jobs wait, nothing runs, and nothing has happened for {_STALL_S:.0f} s; "
                f"`argosy explain {waiting[0]}` says why if the mesh is kept up"
            )

    async def _look(self) -> None:
        try:
            async with asyncio.timeout(_LOOK_S * 4):
                self.rounds.look(await self._client.get_last_round())
                self._shares = (await self._client.get_shares()).shares
        except (BackendUnavailable, NotFound, TimeoutError):
            # No leader for a moment: its totals are looked at again soon. Nothing can happen until there is one.
            self._event_s = time.time()
        else:
            self._answer_s = time.time()

    async def _look_at_waiting(self) -> None:
        """Ask why jobs wait, of a replay that is not too large to be looked at so closely."""
        if not self._is_watched:
            return
        state = self.records.state
        waiting = {
            queue.name: [one for one in queue.row_by_id.items() if state[one[1]] == RunState.QUEUED]
            for queue in self._queues
        }
        now_s = time.time() - self._start_s
        # Watching is no reason to give up: what cannot be had now is asked for with the next look.
        with suppress(BackendUnavailable, NotFound, TimeoutError):
            async with asyncio.timeout(_LOOK_S * 4):
                await self._witness.look(waiting, start_s=self._start_s, now_s=now_s)

    def progress(self) -> ReplayProgress:
        """Return how far the replay is."""
        counts = np.bincount(self.records.state[~np.isnan(self.records.acknowledged_s)], minlength=len(RunState) + 1)
        return ReplayProgress(
            counts={state.name.lower(): int(counts[state]) for state in RunState},
            submitted_count=sum(len(queue.row_by_id) for queue in self._queues),
            finished_count=sum(len(queue.finished) for queue in self._queues),
            elapsed_s=time.time() - self._start_s,
            shares=self._shares,
            reasons=self._witness.reasons,
        )


def _manifests(workload: Workload, run_factor: float) -> list[str]:
    """Return the pod manifest of each job, run times multiplied by a factor; jobs alike share one object."""
    submitter = Submitter(workload if run_factor == 1 else replace(workload, run_s=workload.run_s * run_factor))
    manifests: list[str] = []
    for first in range(0, len(workload), MAX_BATCH_SIZE):
        part = submitter.submission(first, min(first + MAX_BATCH_SIZE, len(workload)))
        texts = [spec.decode() for spec in part.specs]
        manifests += [texts[spec] for spec in part.spec]
    return manifests


def _first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the error that tells most: one of ours, else the first."""
    ours = group.subgroup(ArgosyError)
    error: BaseException = ours or group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
