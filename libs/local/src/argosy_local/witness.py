"""What a replay's events do not tell: why jobs wait, which starts they are promised, and where their runs were.

A running mesh is asked now and then, for the first jobs that wait of each queue only, so that watching costs little.

Source: design section 9, "demo", "report".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Final, Protocol

from argosy_client import Explanation, Job, JobSelector, JobStanding
from argosy_workload.records import GivenPromise, Placement

__all__ = ["Waiting", "Witness", "WitnessClient"]

Waiting = Mapping[str, Sequence[tuple[str, int]]]
"""By queue, the (id, row) of its jobs that wait, in order of submit."""

_MOST_QUEUES: Final = 12
"""Queues that are asked for."""
_MOST_JOBS: Final = 1000
"""Jobs of a queue that are asked for; as many as one call takes."""
_HEADS: Final = 3
"""Jobs of a queue that are asked for a promise: those for which nothing is free, in their order."""


class WitnessClient(Protocol):
    """What a witness asks of a client; `argosy_client.ArgosyClient` has it."""

    async def get_job_stages(self, job_ids: Sequence[str]) -> tuple[dict[str, JobStanding], tuple[str, ...]]:
        """Return where jobs stand."""
        ...

    async def explain_job(self, job_id: str) -> Explanation:
        """Return where a job stands and why it waits."""
        ...

    def list_jobs(self, selector: JobSelector) -> AsyncIterator[Job]:
        """Give the selected jobs."""
        ...


class Witness:
    """Looks at a mesh while a workload is replayed.

    Args:
        client: Client of the mesh's server.
    """

    def __init__(self, client: WitnessClient) -> None:
        """Have seen nothing."""
        self._client = client
        self.reasons: dict[str, Counter[str]] = {}
        """By queue, how many of its first jobs wait for what, as of the last look; for their turn is the empty text."""
        self.promises: dict[int, GivenPromise] = {}
        """By row, what each job was promised last, in seconds of `look`'s clock."""

    async def look(self, waiting: Waiting, *, start_s: float, now_s: float) -> None:
        """Ask why jobs wait and what they are promised.

        Args:
            waiting: The jobs that wait; queues and jobs beyond the first ones are not asked for.
            start_s: When the replay's clock began, seconds since the Unix epoch.
            now_s: Now, on the replay's clock.

        Raises:
            ArgosyError: The mesh cannot be reached.
        """
        reasons = {}
        for queue, jobs in [(queue, jobs) for queue, jobs in waiting.items() if jobs][:_MOST_QUEUES]:
            asked = dict(jobs[:_MOST_JOBS])
            standings, _ = await self._client.get_job_stages(list(asked))
            of = {job_id: standings[job_id].wait_reason for job_id in asked if _waits(standings.get(job_id))}
            reasons[queue] = Counter(of.values())
            for job_id in [job_id for job_id, reason in of.items() if reason == "no_room"][:_HEADS]:
                await self._ask_promise(job_id, asked[job_id], start_s=start_s, now_s=now_s)
        self.reasons = reasons

    async def _ask_promise(self, job_id: str, row: int, *, start_s: float, now_s: float) -> None:
        """Note what a job is promised, if that is news."""
        promised = (await self._client.explain_job(job_id)).promised_start
        if promised is None or promised.time is None:
            return
        moment_s, known = promised.time.timestamp() - start_s, self.promises.get(row)
        if known is None or known.moment_s != moment_s:
            self.promises[row] = GivenPromise(
                row=row,
                given_s=now_s,
                moment_s=moment_s,
                is_firm=promised.firm,
                nodes=(promised.node.rpartition("/")[2],),
            )

    async def placements(self, queue: str, job_set: str, rows: Mapping[str, int], *, start_s: float) -> list[Placement]:
        """Return where the runs of a queue's jobs were.

        Args:
            queue: The queue.
            job_set: Its job set.
            rows: Row of each job, by id; others are left out.
            start_s: When the replay's clock began, seconds since the Unix epoch.

        Raises:
            ArgosyError: The mesh cannot be reached.
        """
        return [
            Placement(
                row=rows[job.id],
                attempt=run.attempt,
                cluster=run.cluster,
                node=run.node,
                lease_s=_seconds(run.lease_time, start_s),
                end_s=_seconds(run.end_time, start_s),
                state=run.state,
                reason=run.reason,
            )
            async for job in self._client.list_jobs(JobSelector(queue=queue, job_set=job_set))
            if job.id in rows
            for run in job.runs
        ]


def _waits(standing: JobStanding | None) -> bool:
    return standing is not None and standing.stage in {"queued", "pending"}


def _seconds(moment: datetime | None, start_s: float) -> float:
    """Return seconds since the start, NaN for what has not happened."""
    return float("nan") if moment is None else moment.timestamp() - start_s
