"""The load of the kill tests: a trace written by hand, replayed as `argosy replay` does it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from argosy_client import ArgosyClient, JobDraft, JobEvent, RetryPolicy
from argosy_local.replay import Replay
from argosy_workload.native import read_native, read_native_nodes
from argosy_workload.report import Report, build_report
from argosy_workload.timing import plan_speed

END_S = 90.0
"""Longest wait for the end of all jobs; they take some seconds."""
PATIENT = RetryPolicy(total_s=END_S)
QUEUE_COUNT = 4
"""Each has a sender of its own, so that at any moment some call is under way."""
LINES = 40
JOBS_PER_LINE = 20
JOB_COUNT = LINES * JOBS_PER_LINE
_HEAD = """\
version: argosy.dev/workload/v1
source: by hand
nodes:
  - {count: 25, cluster: c1, allocatable: {cpu: "4", memory: 16Gi}}
  - {count: 25, cluster: c2, allocatable: {cpu: "4", memory: 16Gi}}
shapes:
  one: {requests: {cpu: "1", memory: 64Mi}}
jobs:
"""


def write_trace(name: str) -> str:
    """Return a trace of some seconds that keeps 200 cores busy, in queues called after its name."""
    return _HEAD + "\n".join(
        f"  - {{shape: one, queue: {name}-{line % QUEUE_COUNT}, submit: {60 * line}ms, "
        f"run: {300 + 100 * (7 * line % 10)}ms, count: {JOBS_PER_LINE}}}"
        for line in range(LINES)
    )


class RecordingClient(ArgosyClient):
    """A client that keeps what it was promised."""

    def __init__(self, address: str) -> None:
        """Promise nothing yet."""
        super().__init__(address, retries=PATIENT)
        self.ids: defaultdict[str, list[str]] = defaultdict(list)
        """Ids of acknowledged jobs by queue."""
        self.is_under_way = asyncio.Event()
        """Half of the trace is acknowledged."""

    @property
    def acknowledged_count(self) -> int:
        """Jobs acknowledged so far."""
        return sum(len(ids) for ids in self.ids.values())

    async def submit(
        self, drafts: Sequence[JobDraft], *, validate_only: bool = False, repeat: bool = True
    ) -> tuple[str, ...]:
        """Submit, and keep the ids once they are answered."""
        answered = await super().submit(drafts, validate_only=validate_only, repeat=repeat)
        for draft, job_id in zip(drafts, answered, strict=True):
            self.ids[draft.queue].append(job_id)
        if self.acknowledged_count >= JOB_COUNT // 2:
            self.is_under_way.set()
        return answered


@dataclass(kw_only=True)
class ReplayUnderWay:
    """A replay in the middle of its trace."""

    name: str
    client: RecordingClient
    replay: Replay
    ended: asyncio.Task[Report] = field(init=False)

    async def end(self) -> list[tuple[list[str], list[JobEvent]]]:
        """Wait for the replay's end; return, for each queue, the ids that were acknowledged and all events there are.

        The events are read anew, by a watch that has not seen the replay.
        """
        report = await self.ended
        assert (report.job_count, report.states) == (JOB_COUNT, {"succeeded": JOB_COUNT})
        assert {queue.name: queue.finished_count for queue in report.queues} == {
            f"{self.name}-{number}": JOB_COUNT // QUEUE_COUNT for number in range(QUEUE_COUNT)
        }
        for stage in ("acknowledged", "leased", "running"):
            timed = report.latency_ms[stage]
            assert timed is not None
            assert timed.count == JOB_COUNT
        return [(ids, await follow(self.client, queue, self.name)) for queue, ids in self.client.ids.items()]


async def follow(client: ArgosyClient, queue: str, job_set: str) -> list[JobEvent]:
    """Return every event of a job set once all its jobs have ended."""
    events: list[JobEvent] = []
    async with asyncio.timeout(END_S):
        async for batch in client.watch(queue, job_set, until_finished=True):
            events.extend(batch.events)
    return events


@asynccontextmanager
async def replaying(server: str, name: str) -> AsyncIterator[ReplayUnderWay]:
    """Give a replay through a server, once half of its jobs are acknowledged."""
    text = write_trace(name)
    nodes = read_native_nodes(Path(name), text=text)
    assert nodes is not None
    async with RecordingClient(server) as client:
        replay = Replay(client, plan_speed(read_native(Path(name), text=text), 1.0), run_id=name)

        async def run() -> Report:
            async with asyncio.timeout(END_S):
                return build_report(await replay.run(), nodes, title=name)

        under_way = ReplayUnderWay(name=name, client=client, replay=replay)
        under_way.ended = asyncio.create_task(run())
        begun = asyncio.create_task(client.is_under_way.wait())
        try:
            await asyncio.wait({begun, under_way.ended}, return_when=asyncio.FIRST_COMPLETED)
            assert begun.done(), under_way.ended
            yield under_way
        finally:
            for task in (begun, under_way.ended):
                task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await under_way.ended
