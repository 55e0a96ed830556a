"""Replaying a workload against a client in memory, which can be slow, busy, or ahead of its own answers."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from argosy_client import (
    EventBatch,
    Explanation,
    Job,
    JobDraft,
    JobEvent,
    JobSelector,
    JobStanding,
    LastRound,
    PromisedStart,
    Queue,
    QueueShare,
    Run,
    Shares,
)
from argosy_core.errors import AlreadyExists, BackendUnavailable, InvalidRequest, NotAllowedNow, QuotaExceeded
from argosy_local import replay as replay_module
from argosy_local.replay import Replay, ReplayProgress
from argosy_workload.model import JobColumns, Shape, Workload, build_workload
from argosy_workload.records import RunState
from argosy_workload.timing import ReplayPlan

LIFE = ("submitted", "leased", "created", "running", "succeeded")


class MemoryClient:
    """Accepts jobs and lets them live at once; events stand in one list per queue."""

    def __init__(self, *, life: Sequence[str] = LIFE) -> None:
        """Let every job live through some events."""
        self.retry_count = 0
        self.life = life
        self.queues: list[Queue] = []
        self.calls: list[list[JobDraft]] = []
        self.refusals: list[Exception] = []
        self.answers_late = False
        self.explained: list[str] = []
        self.is_led = True
        self.events: dict[str, list[JobEvent]] = {}
        self.news = asyncio.Condition()

    async def create_queue(self, queue: Queue) -> Queue:
        """Keep a queue; one name is taken."""
        if queue.name == "taken":
            raise AlreadyExists("there is another")
        self.queues.append(queue)
        return queue

    async def submit(self, drafts: Sequence[JobDraft]) -> tuple[str, ...]:
        """Let the jobs live; answer late if told to."""
        if self.refusals:
            raise self.refusals.pop(0)
        self.calls.append(list(drafts))
        async with self.news:
            for draft in drafts:
                for kind in self.life:
                    self.happen(draft.client_id, draft.queue, kind)
            self.news.notify_all()
        if self.answers_late:
            for _ in range(20):
                await asyncio.sleep(0)
        return tuple(draft.client_id for draft in drafts)

    def happen(self, job_id: str, queue: str, kind: str) -> None:
        """Add an event of a job."""
        events = self.events.setdefault(queue, [])
        events.append(
            JobEvent(
                number=len(events) + 1,
                job_id=job_id,
                kind=kind,
                time_s=time.time() + 0.001 * LIFE.index(kind) if kind in LIFE else time.time(),
                attempt=1,
                cluster="c1",
                node="n1",
                reason="",
            )
        )

    async def watch(self, queue: str, job_set: str) -> AsyncIterator[EventBatch]:
        """Give a queue's events as they come."""
        given = 0
        while True:
            async with self.news:
                while len(self.events.get(queue, [])) == given:
                    await self.news.wait()
                fresh = tuple(self.events[queue][given:])
            given += len(fresh)
            yield EventBatch(events=fresh, cursor=str(given), state_counts={})

    async def get_last_round(self) -> LastRound:
        """Count a conflict for each call, while there is a leader."""
        if not self.is_led:
            raise BackendUnavailable("nobody leads")
        return LastRound(
            round=1,
            epoch=1,
            queued_count=0,
            pending_count=0,
            leased_count=0,
            conflict_count=0,
            class_count=0,
            phases_ms={},
            totals={"conflicts": 4 + len(self.calls)},
            latencies={},
        )

    async def get_job_stages(self, job_ids: Sequence[str]) -> tuple[dict[str, JobStanding], tuple[str, ...]]:
        """Let every job that waits have no room; nobody may ask for no job at all."""
        if not job_ids:
            raise InvalidRequest("ids: must contain at least 1 item")
        return {one: JobStanding(id=one, stage="pending", wait_reason="no_room") for one in job_ids}, ()

    async def explain_job(self, job_id: str) -> Explanation:
        """Promise every job a start on one node, a minute from now."""
        self.explained.append(job_id)
        nothing: dict[str, Any] = dict.fromkeys(one.name for one in fields(Explanation))
        promise = PromisedStart(time=datetime.fromtimestamp(time.time() + 60, UTC), firm=True, node="c1/n7")
        return Explanation(**{**nothing, "promised_start": promise})

    async def list_jobs(self, selector: JobSelector) -> AsyncIterator[Job]:
        """Give the jobs of a queue, each with one run of two members, preempted after two seconds."""
        nothing: dict[str, Any] = dict.fromkeys(one.name for one in fields(Job))
        run: dict[str, Any] = {**dict.fromkeys(one.name for one in fields(Run)), "attempt": 1, "state": "preempted"}
        for event in self.events.get(selector.queue, []):
            if event.kind == "submitted":
                leased = datetime.fromtimestamp(event.time_s, UTC)
                times = {"lease_time": leased, "end_time": leased + timedelta(seconds=2)}
                runs = tuple(Run(**{**run, **times, "member": member, "node": f"n{member}"}) for member in range(2))
                yield Job(**{**nothing, "id": event.job_id, "runs": runs})

    async def get_shares(self, pool: str = "") -> Shares:
        """Have one queue of every pool."""
        return Shares(
            capacity_cores=4,
            shares=(
                QueueShare(
                    queue="a",
                    weight=2,
                    fair_share_ratio=1,
                    usage_cores=3,
                    flow_cores=1,
                    demand_cores=4,
                    entitled_cores=4,
                    queued_count=1,
                    pending_count=2,
                    leased_count=3,
                ),
            ),
        )


def workload(*queues: str, submit_s: Sequence[float] = ()) -> Workload:
    """Return one job of one core per named queue."""
    count = len(queues)
    return build_workload(
        JobColumns(
            submit_s=np.array(submit_s or [0.0] * count),
            run_s=np.full(count, 10.0),
            queue=list(queues),
            shape=[Shape.of({"cpu": 1000})] * count,
            client_ids=[str(number) for number in range(count)],
        ),
        source="test",
    )


def plan(jobs: Workload, *, speed: float = 100.0) -> ReplayPlan:
    """Return a plan."""
    return ReplayPlan(workload=jobs, speed=speed, expected_s=1.0)


async def test_replay_fills_the_records_of_every_job() -> None:
    """Every job has the times of its stages in order, and its end."""
    client, told = MemoryClient(), list[ReplayProgress]()
    one = Replay(client, plan(workload("a", "b", "a")), run_id="r", tell=told.append)

    records = await one.run()

    assert (records.state == RunState.SUCCEEDED).all()
    assert (records.submit_s <= records.acknowledged_s).all()
    assert (records.leased_s < records.running_s).all()
    assert (records.running_s < records.finished_s).all()
    assert told[-1].counts["succeeded"] == told[-1].finished_count == told[-1].submitted_count == 3
    assert [queue.name for queue in client.queues] == ["a", "b"]
    assert one.rounds.totals == {"conflicts": 2}


async def test_replay_sends_jobs_in_order_at_their_scaled_times() -> None:
    """Trace times divided by the speed; what is due together goes in one call, in submit order."""
    client = MemoryClient()
    jobs = workload("a", "a", "a", submit_s=[0.0, 0.0, 30.0])

    records = await Replay(client, plan(jobs, speed=100.0), run_id="r").run()

    assert [[draft.client_id for draft in call] for call in client.calls] == [["r-0", "r-1"], ["r-2"]]
    assert records.submit_s[2] >= 0.3
    assert client.calls[0][0].job_set == "r"


async def test_replay_takes_events_that_come_before_the_answer() -> None:
    """A job may have ended before its submit is answered."""
    client = MemoryClient()
    client.answers_late = True

    records = await asyncio.wait_for(Replay(client, plan(workload("a")), run_id="r").run(), 10)

    assert records.state.tolist() == [RunState.SUCCEEDED]


async def test_replay_waits_while_the_server_is_busy() -> None:
    """A refusal for load is no end; the same jobs go out again."""
    client = MemoryClient()
    client.refusals = [QuotaExceeded("busy")]
    one = Replay(client, plan(workload("a")), run_id="r")

    await one.run()

    assert one.counters["submits refused for load"] == 1
    assert len(client.calls) == 1


async def test_replay_ends_with_the_error_of_a_job_that_is_refused() -> None:
    """What the server will never take ends the replay with the server's words, not with a group of them."""
    client = MemoryClient()
    client.refusals = [InvalidRequest("no such namespace")]

    with pytest.raises(InvalidRequest, match="no such namespace"):
        await Replay(client, plan(workload("a")), run_id="r").run()


async def test_replay_counts_the_last_run_of_a_job_that_was_queued_again() -> None:
    """Times of a run that was lost do not stand in the report."""
    client = MemoryClient(life=("submitted", "leased", "running", "requeued", "leased", "failed"))
    one = Replay(client, plan(workload("a")), run_id="r")

    records = await one.run()

    assert records.state.tolist() == [RunState.FAILED]
    assert np.isnan(records.running_s).all()
    assert not np.isnan(records.leased_s).any()
    assert one.counters["runs lost or returned"] == 1


async def test_replay_uses_a_queue_that_is_there_already() -> None:
    """Another weight is the server's business; the report says so."""
    one = Replay(MemoryClient(), plan(workload("taken")), run_id="r")

    await one.run()

    assert one.notes == ["Queue taken was there already and keeps its own weight."]


async def test_replay_gives_up_when_jobs_wait_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs that fit nowhere would wait for ever."""
    monkeypatch.setattr(replay_module, "_STALL_S", 0.0)

    with pytest.raises(NotAllowedNow, match=r"1 jobs wait, nothing runs.*argosy explain r-0"):
        await Replay(MemoryClient(life=("submitted",)), plan(workload("a")), run_id="r").run()


async def test_replay_waits_for_a_leader_that_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can happen without a leader, so jobs that wait for one do not wait for nothing."""
    monkeypatch.setattr(replay_module, "_STALL_S", 0.1)
    monkeypatch.setattr(replay_module, "_LOOK_S", 0.01)
    client, looks = MemoryClient(life=("submitted",)), list[ReplayProgress]()
    client.is_led = False

    def tell(progress: ReplayProgress) -> None:
        looks.append(progress)
        client.is_led = len(looks) > 40

    with pytest.raises(NotAllowedNow, match="1 jobs wait"):
        await Replay(client, plan(workload("a")), run_id="r", tell=tell).run()

    assert len(looks) > 40


async def test_replay_gives_up_when_no_leader_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mesh that nobody will lead again ends no job."""
    monkeypatch.setattr(replay_module, "AWAY_S", 0.0)
    client = MemoryClient(life=("submitted",))
    client.is_led = False

    with pytest.raises(BackendUnavailable, match="no leader has answered for 0 s"):
        await Replay(client, plan(workload("a")), run_id="r").run()


async def test_replay_on_clusters_of_another_speed_scales_run_times() -> None:
    """10 s of trace at speed 100 are 0.1 real seconds, whatever speed the clusters run at."""
    client = MemoryClient()

    await Replay(client, plan(workload("a")), run_id="r", cluster_speed=1.0).run()

    assert '"argosy.dev/simulated-run-time":"0.1s"' in client.calls[0][0].manifests[0]


async def test_replay_sends_estimates_and_limits_in_real_seconds() -> None:
    """At a speed of 100 an estimate of 250 s is 3 s; it is a time limit only if the trace's estimates are."""
    jobs = replace(workload("a", "a"), estimate_s=np.array([250.0, np.nan]))
    for is_limit in (False, True):
        client = MemoryClient()
        await Replay(client, plan(replace(jobs, estimates_are_limits=is_limit)), run_id="r").run()
        sent = [(draft.estimate_s, draft.time_limit_s) for drafts in client.calls for draft in drafts]
        assert sent == [(3, 3 if is_limit else None), (None, None)]


async def test_replay_sends_gangs_as_one_group_of_pods_and_lifetimes_in_real_seconds() -> None:
    """A shape of three pods is a group that begins whole; a lifetime of 0 stays one."""
    jobs = workload("a", "a")
    jobs = replace(jobs, shapes=(replace(jobs.shapes[0], member_count=3),), lifetime_s=np.array([0.0, 250.0]))
    client = MemoryClient()

    await Replay(client, plan(jobs), run_id="r").run()

    first, second = (draft for drafts in client.calls for draft in drafts)
    assert first.manifests == ()
    assert [(group.minimum, group.maximum) for group in first.groups] == [(3, 3)]
    assert (first.lifetime_s, second.lifetime_s) == (0, 3)


async def test_replay_asks_why_jobs_wait_and_what_they_are_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reasons are counted by queue; the first jobs of each without room are asked for a promise."""
    monkeypatch.setattr(replay_module, "_LOOK_S", 0.01)
    jobs = workload("a", "a", "a", "a", "b")
    client, seen = MemoryClient(life=("submitted",)), asyncio.Event()

    def tell(progress: ReplayProgress) -> None:
        if progress.reasons == {"a": {"no_room": 4}, "b": {"no_room": 1}}:
            seen.set()

    one = Replay(client, plan(jobs), run_id="r", tell=tell)

    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        running = group.create_task(one.run())
        await seen.wait()
        async with client.news:
            for number, queue in enumerate("aaaab"):
                client.happen(f"r-{number}", queue, "succeeded")
            client.news.notify_all()
        records = await running

    assert set(client.explained) == {"r-0", "r-1", "r-2", "r-4"}
    promised = sorted((one.row, one.is_firm, one.nodes) for one in records.promises)
    assert promised == [(row, True, ("n7",)) for row in (0, 1, 2, 4)]
    assert all(50 < one.moment_s - one.given_s < 70 for one in records.promises)


async def test_replay_notes_where_each_run_was() -> None:
    """All members of every run, with their times on the replay's clock and how they ended."""
    records = await Replay(MemoryClient(), plan(workload("a", "b")), run_id="r").run()

    assert [(one.row, one.node, one.state) for one in records.placements] == [
        (0, "n0", "preempted"),
        (0, "n1", "preempted"),
        (1, "n0", "preempted"),
        (1, "n1", "preempted"),
    ]
    assert all(0 <= one.lease_s < 60 and one.end_s == pytest.approx(one.lease_s + 2) for one in records.placements)


async def test_replay_of_very_many_jobs_is_not_looked_at_so_closely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a number of jobs nobody asks for single ones."""
    monkeypatch.setattr(replay_module, "MOST_PLACED", 1)
    client = MemoryClient()

    records = await Replay(client, plan(workload("a", "b")), run_id="r").run()

    assert (client.explained, list(records.placements)) == ([], [])
