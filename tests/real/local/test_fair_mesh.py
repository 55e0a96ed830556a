"""Fairness over time in the mesh that `argosy up` makes: 640 cores, whose queues fill, come late and cannot run.

The same worlds run in virtual time in `tests/unit/simulation`, where half time and run times are five times as long.
All is judged by the times at which leases and ends were recorded: what a queue holds, it holds in the leader's eyes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest

from argosy_client import ArgosyClient, JobDraft, JobSelector, Queue, QueueShare
from argosy_core.queueing import advance_flow
from argosy_local.compose import UNCAPPED, ClusterPlan, MeshPlan
from argosy_local.mesh import Mesh

pytestmark = pytest.mark.timeout(240)

Times = npt.NDArray[np.float64]

CORES = 640
CLUSTERS = ("c1", "c2")
HALF_TIME_S = 2.0
RUN_TIME = "1s-3s"
TICK_S = 0.02
WINDOW = 200
"""Ticks over which shares are compared: four seconds."""


@pytest.fixture(scope="module", name="mesh")
def running_mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    """The mesh of `argosy up`, but for a half time that suits a test."""
    plan = MeshPlan(
        clusters=tuple(ClusterPlan(name=name, kinds="10:cpu=32,memory=128Gi") for name in CLUSTERS),
        flags={
            # Nothing is promised, or nodes would be emptied for the jobs that need whole ones.
            "server": (
                *UNCAPPED["server"],
                "--leader-round-half-time-s",
                str(HALF_TIME_S),
                "--leader-round-promised-nodes-ratio",
                "0",
            )
        },
    )
    mesh = Mesh(tmp_path_factory.mktemp("fair") / "mesh")
    mesh.up(plan)
    try:
        yield mesh
    finally:
        mesh.down()


class Pool:
    """The pool of a mesh, as its users see it."""

    def __init__(self, client: ArgosyClient) -> None:
        """Use a client."""
        self.client = client
        self._queues: set[str] = set()

    async def fill(self, queue: str, count: int, *, weight: float = 1.0, run_time: str = RUN_TIME) -> None:
        """Make a queue with jobs of one core; none of them may start before the leader knows them all."""
        await self.client.create_queue(Queue(name=queue, weight=weight))
        await self.client.cordon_queue(queue)
        await self.submit(queue, count, run_time=run_time)
        await self.until(queue, lambda share: share.queued_count == count)
        await self.client.uncordon_queue(queue)

    async def submit(
        self,
        queue: str,
        count: int,
        *,
        run_time: str = RUN_TIME,
        cores: int = 1,
        selector: dict[str, str] | None = None,
    ) -> None:
        """Submit equal jobs, in a job set of their queue's name."""
        self._queues.add(queue)
        container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": str(cores), "memory": "64Mi"}}}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"annotations": {"argosy.dev/simulated-run-time": run_time}},
            "spec": {"containers": [container], "nodeSelector": selector or {}},
        }
        await self.client.submit([JobDraft(queue=queue, job_set=queue, manifests=(json.dumps(pod),), count=count)])

    async def shares(self, queue: str) -> list[QueueShare]:
        """Return a queue's share, or nothing if it has no jobs."""
        return [share for share in (await self.client.get_shares()).shares if share.queue == queue]

    async def until(self, queue: str, is_so: Callable[[QueueShare], bool]) -> None:
        """Wait until the leader tells something of a queue."""
        while not any(is_so(share) for share in await self.shares(queue)):  # noqa: ASYNC110 - only the leader can tell
            await asyncio.sleep(0.05)

    async def until_few_wait(self, queue: str, count: int) -> None:
        """Wait until at most so many of a queue's jobs wait."""
        while any(share.queued_count > count for share in await self.shares(queue)):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.05)

    async def submitted_s(self, queue: str) -> float:
        """Return when the last job of a queue was accepted, seconds since the epoch."""
        async for job in self.client.list_jobs(JobSelector(queue=queue), page_size=1, newest_first=True):
            assert job.create_time is not None
            return job.create_time.timestamp()
        raise AssertionError(queue)

    async def end(self, queue: str) -> Times:
        """End a queue's jobs; return (run, 2): when each was leased and ended, seconds since the epoch, by lease."""
        await self.client.cancel_jobs(JobSelector(queue=queue))
        async for _ in self.client.watch(queue, queue, until_finished=True):
            pass
        runs = [run async for job in self.client.list_jobs(JobSelector(queue=queue)) for run in job.runs]
        rows = [
            (run.lease_time.timestamp(), run.end_time.timestamp()) for run in runs if run.lease_time and run.end_time
        ]
        assert len(rows) == len(runs)
        return np.array(sorted(rows)).reshape(-1, 2)

    async def leave(self) -> None:
        """Leave nothing behind that another test would wait for or share with, however this one ended."""
        for cluster in CLUSTERS:
            await self.client.uncordon_cluster(cluster)
        for queue in self._queues:
            await self.client.cancel_jobs(JobSelector(queue=queue))


@asynccontextmanager
async def pool_of(mesh: Mesh) -> AsyncIterator[Pool]:
    """Give the pool of a mesh."""
    async with ArgosyClient(mesh.server) as client:
        pool = Pool(client)
        try:
            yield pool
        finally:
            await pool.leave()


def held(runs: Times, at_s: Times) -> npt.NDArray[np.int64]:
    """Return how many runs, of a core each, are under way at each moment."""
    return np.searchsorted(runs[:, 0], at_s, "right") - np.searchsorted(np.sort(runs[:, 1]), at_s, "right")


async def test_queues_filled_behind_a_cordon_share_by_weight_from_the_first_start_on(mesh: Mesh) -> None:
    """1 to 9: in each four seconds until a backlog ends the light queue holds 9.5 to 10.5 % of the cores held."""
    async with pool_of(mesh) as pool:
        for cluster in CLUSTERS:
            await pool.client.cordon_cluster(cluster)
        for queue, count, weight in (("light", 290, 1.0), ("heavy", 2610, 9.0)):
            await pool.fill(queue, count, weight=weight)
        for cluster in CLUSTERS:
            await pool.client.uncordon_cluster(cluster)
        for queue in ("light", "heavy"):
            await pool.until_few_wait(queue, 0)
        runs = [await pool.end(queue) for queue in ("light", "heavy")]
    first_s, end_s = min(one[0, 0] for one in runs), min(one[-1, 0] for one in runs)
    assert end_s - first_s > 5
    for begin_s in np.arange(first_s, end_s - 4, 0.25):
        light, heavy = (held(one, np.arange(begin_s, begin_s + 4, TICK_S)).mean() for one in runs)
        assert 0.095 <= light / (light + heavy) <= 0.105, begin_s - first_s


def expected_cores(runs: Sequence[Times], at_s: Times) -> Times:
    """Return (queue, moment): the cores that the flow formula gives each of two queues, weights 1 and 9.

    Each core that is held in truth goes to the queue whose flow divided by weight would be smallest with it, and is
    held for as long as that queue's job of this number was. A queue is there from its first lease on.
    """
    weight, usage, flow = np.array([1.0, 9.0]), np.zeros(2), np.zeros(2)
    pool = held(runs[0], at_s) + held(runs[1], at_s)
    there_s = np.array([one[0, 0] for one in runs])
    ends: list[list[int]] = [[] for _ in at_s]
    following, cores = [0, 0], []
    for tick, now_s in enumerate(at_s):
        flow = advance_flow(flow, usage, elapsed_s=TICK_S, half_time_s=HALF_TIME_S)
        for queue in ends[tick]:
            usage[queue] -= 1
        while usage.sum() < pool[tick]:
            queue = int(np.argmin(np.where(now_s < there_s, np.inf, np.maximum(flow, usage + 1) / weight)))
            begin_s, end_s = runs[queue][following[queue] % len(runs[queue])]
            following[queue] += 1
            usage[queue] += 1
            flow = np.maximum(flow, usage)
            end = tick + max(1, round((end_s - begin_s) / TICK_S))
            if end < at_s.size:
                ends[end].append(queue)
        cores.append(usage.copy())
    return np.array(cores).T


@pytest.mark.parametrize("late", [1, 0], ids=["heavy-queue-late", "light-queue-late"])
async def test_queue_that_comes_later_gets_what_the_flow_formula_gives(mesh: Mesh, late: int) -> None:
    """Held shares stay within two points of the formula's, also while the one that had it all gets none.

    They are shares of the cores that are held: how many stand idle between two rounds is the machine's doing, and the
    formula's jobs end at other moments than the real ones. Each is the mean of four seconds, two half times, as in the
    test above: a leader that a busy machine halts for half a second gives the same cores that much later.
    """
    names, weights, counts = [f"late{late}-light", f"late{late}-heavy"], (1.0, 9.0), (1700, 3600)
    async with pool_of(mesh) as pool:
        for queue in (1 - late, late):
            await pool.fill(names[queue], counts[queue], weight=weights[queue])
            if queue != late:
                await pool.until(names[queue], lambda share: share.leased_count >= 0.98 * CORES)
        await pool.until_few_wait(names[1], 400 if late else 1100)
        runs = [await pool.end(name) for name in names]
    at_s = np.arange(min(one[0, 0] for one in runs), min(one[-1, 0] for one in runs), TICK_S)
    real, wanted = np.array([held(one, at_s) for one in runs]), expected_cores(runs, at_s)
    begin_s = runs[late][0, 0] - at_s[0]
    assert at_s[-1] - at_s[0] > begin_s + (8 if late else 5)
    for first in range(int(begin_s / TICK_S), at_s.size - WINDOW, 10):
        (light, heavy), (formula_light, formula_heavy) = (
            cores[:, first : first + WINDOW].mean(axis=1) for cores in (real, wanted)
        )
        share, formula = light / (light + heavy), formula_light / (formula_light + formula_heavy)
        assert abs(share - formula) <= 0.02, first * TICK_S - begin_s


async def test_none_of_the_others_starts_before_a_newcomer_beyond_free_capacity(mesh: Mesh) -> None:
    """The pool is full and no run ends; the leader knows the first job of an idle queue; it gets the next core."""
    async with pool_of(mesh) as pool:
        await pool.fill("old", 2 * CORES, run_time="5s-90s")  # one by one: who is leased in one round is so at once
        await pool.until("old", lambda share: share.leased_count == CORES)
        await pool.client.create_queue(Queue(name="newcomer"))
        await pool.submit("newcomer", 1, run_time="1h")
        await pool.until("newcomer", lambda share: share.queued_count + share.pending_count == 1)
        held_then = sum(share.leased_count for share in (await pool.client.get_shares()).shares)
        await pool.until("newcomer", lambda share: share.leased_count == 1)
        others, (newcomer,) = [await pool.end(name) for name in ("old", "newcomer")]
    assert held_then == CORES
    assert (others[:, 0] < newcomer[0]).sum() == CORES


async def test_jobs_that_cannot_run_cost_the_pool_nothing(mesh: Mesh) -> None:
    """Jobs that match no node, then jobs of whole nodes too: utilisation is within 0.01 of what it is without them."""
    async with pool_of(mesh) as pool:
        await pool.fill("stream", 2700, run_time="2s-14s")
        await pool.until_few_wait("stream", 1700)
        await pool.client.create_queue(Queue(name="selector"))
        await pool.submit("selector", 300, selector={"kind": "none"})
        await pool.until_few_wait("stream", 1400)
        await pool.client.create_queue(Queue(name="whole-node"))
        await pool.submit("whole-node", 300, cores=32)
        await pool.until_few_wait("stream", 1100)
        marks_s = [await pool.submitted_s(queue) for queue in ("selector", "whole-node")]
        started = [len(await pool.end(queue)) for queue in ("selector", "whole-node")]
        runs = await pool.end("stream")
    assert started == [0, 0]
    marks_s = [runs[CORES, 0], *marks_s, runs[-1, 0]]
    without, *with_them = (
        held(runs, np.arange(begin_s, end_s, TICK_S)).mean() / CORES for begin_s, end_s in pairwise(marks_s)
    )
    assert without > 0.9
    assert np.abs(np.subtract(with_them, without)).max() <= 0.01
