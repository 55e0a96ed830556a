"""Reading `changes` for the machine, with everything that they refer to.

Rows are decoded and what the machine lacks of them is read before it is told of them, so that no round waits for a
read.

Source: design section 5, "Take changes".
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.after import FORGOTTEN
from argosy_core.leader.events import Change, ChangedSettings, ChangesRead, ClusterSettings, EndsRead, References
from argosy_core.leader.transaction import SetAside
from argosy_core.scheduler import EndedJobs
from argosy_server.leader.log.codec import DecodedChanges, decode_changes
from argosy_server.leader.takeover.loading import cluster_settings, job_set_views, queue_views

if TYPE_CHECKING:
    from argosy_core.leader import LeaderMachine
    from argosy_server.leader.cycle.driver import LeaderDriver
    from argosy_server.leader.hot import HotSettings
    from argosy_server.leader.show.notes import LeaderNotes
    from argosy_store import LeaderStore

__all__ = ["ChangeReader", "pause_s"]

_ENDS_PERIOD_S: Final = 1.0
"""How often it is read what has become of other leaders' jobs, seconds."""
_MOST_PERIODS: Final = 5
"""Periods between two reads where nothing has come for long."""
_QUIET_RATIO: Final = 0.01
"""Share of the time since the last change that is waited for the next: nobody who waited 2 s notices 20 ms."""


class ChangeReader:
    """Reads changes for one machine; one read at a time.

    Args:
        driver: Drives the machine.
        store: Where changes are.
        notes: Takes note of clusters' settings and of traced jobs.
        hot: Reads what was set of the pool's rounds.
    """

    def __init__(self, driver: LeaderDriver, store: LeaderStore, notes: LeaderNotes, hot: HotSettings) -> None:
        """Start with nothing read."""
        self._driver = driver
        self._machine: LeaderMachine = driver.machine
        self._store = store
        self._notes = notes
        self._hot = hot
        self._ends_due_s = 0.0
        self._wanted = asyncio.Event()
        self.is_polling = False
        """Whether `poll` runs or is about to: from then on nobody else reads."""
        self.last_change_s = time.monotonic()
        """When a change was read last, monotonic seconds."""

    async def poll(self, period_s: float) -> None:
        """Read what is visible again and again, as much as the machine takes, and whenever it wants that."""
        while True:
            await self._read_ends()
            limit = self._machine.budget().changes
            if limit:
                await self.read(limit, tells_none=False)
            else:
                self._wanted.clear()
            now_s = time.monotonic()
            to_round_s, quiet_s = self._machine.earliest_round_s() - now_s, now_s - self.last_change_s
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s(period_s, to_round_s, quiet_s=quiet_s)):
                    await self._wanted.wait()

    def want(self) -> None:
        """Have `poll` read now and hand in what there is, also if it is nothing; a read under way is taken for that."""
        self._wanted.set()

    async def read(self, limit: int, *, tells_none: bool = True) -> None:
        """Read up to `limit` rows and hand in those that the machine does not hold; if none, only if that is wanted.

        Args:
            limit: Rows that are looked at.
            tells_none: Whether it is wanted anyway.
        """
        rows = await asyncio.to_thread(self._store.read_changes, limit, self._machine.is_new)
        decoded = [_decode(row_id, payload) for row_id, payload in rows if self._machine.is_new(row_id)]
        if decoded:
            self.last_change_s = time.monotonic()
        elif not tells_none and not self._wanted.is_set():
            return
        changes = [await self._with_ends(change) for change, _ in decoded]
        contents = [content for _, content in decoded if content is not None]
        self._note_traced(contents)
        references = await self._read_references(changes, contents)
        self._wanted.clear()  # before the machine hears of it, and may want another
        self._driver.feed(ChangesRead(changes=tuple(changes), references=references))

    async def _with_ends(self, change: Change) -> Change:
        """Return a change with what has become of the jobs that its jobs wait for."""
        jobs = change.jobs
        if jobs is None or jobs.after is None:
            return change
        states = await asyncio.to_thread(self._store.read_states, jobs.after.other)
        return replace(change, jobs=replace(jobs, after=jobs.after.with_states(states)))

    async def _read_ends(self) -> None:
        """Now and then read what has become of jobs that others wait for and that are not live here."""
        handles, now_s = self._machine.unsettled(), time.monotonic()
        if not handles or now_s < self._ends_due_s:
            return
        self._ends_due_s = now_s + _ENDS_PERIOD_S
        states = await asyncio.to_thread(self._store.read_states, handles)
        self._driver.feed(EndsRead(states={handle: states.get(handle, FORGOTTEN) for handle in handles}))

    def _note_traced(self, contents: Sequence[DecodedChanges]) -> None:
        """Note which jobs their submitter traces."""
        if self._notes.traces is not None:
            for content in contents:
                if content.jobs is not None and content.traceparents:
                    self._notes.traces.note_jobs(content.jobs, content.traceparents)

    async def _read_references(self, changes: Sequence[Change], contents: Sequence[DecodedChanges]) -> References:
        """Read what the machine lacks, and what changed."""
        lacking = self._machine.lacking(changes)
        queue_ids = {*lacking.queue_ids, *(queue_id for content in contents for queue_id in content.changed_queue_ids)}
        names = sorted({name for content in contents for name in content.changed_clusters})
        store, classes, queues = self._store, {}, []
        if lacking.class_ids:
            classes = await asyncio.to_thread(store.read_classes, list(lacking.class_ids))
        if queue_ids:
            queues = await asyncio.to_thread(store.read_queues, sorted(queue_ids))
        ended = await self._read_ended(lacking.ended)
        job_set_ids = {*lacking.job_set_ids, *(ended.job_set.tolist() if ended is not None else ())}
        job_sets = await asyncio.to_thread(store.read_job_sets, sorted(job_set_ids)) if job_set_ids else {}
        # What another pool's leader numbers by now is no longer known here, and read anew if it comes back.
        moved = tuple(row.queue_id for row in queues if row.pool != self._machine.pool)
        return References(
            classes=classes,
            queues=tuple(queue_views([row for row in queues if row.queue_id not in moved])),
            deleted_queue_ids=(*moved, *(row.queue_id for row in queues if row.deleted)),
            job_sets=tuple(job_set_views(job_sets)),
            clusters=await self._read_clusters(names),
            ended=ended,
            settings=await self._read_settings() if any(content.changed_settings for content in contents) else None,
        )

    async def _read_settings(self) -> ChangedSettings | None:
        """Read what was set of the pool's rounds."""
        return self._hot.take(await asyncio.to_thread(self._store.read_settings))

    async def _read_ended(self, handles: Iterable[int]) -> EndedJobs | None:
        """Read jobs that the API ended and that the machine does not hold."""
        wanted = list(handles)
        if not wanted:
            return None
        rows = await asyncio.to_thread(self._store.read_ended_jobs, wanted)
        columns = np.array(rows, dtype=np.int64).reshape(-1, 3).T.copy()
        return EndedJobs(handle=columns[0], id_high=columns[1], job_set=columns[2])

    async def _read_clusters(self, names: list[str]) -> dict[str, ClusterSettings]:
        """Read clusters' settings again: cordons, and whether they were forgotten."""
        if not names:
            return {}
        rows = await asyncio.to_thread(self._store.read_clusters, names)
        for row in rows:
            self._notes.note_cluster(row)
        return {row.name: cluster_settings(row) for row in rows}


def pause_s(period_s: float, to_round_s: float, *, quiet_s: float = 0.0) -> float:
    """Return how long to wait before `changes` is read again, seconds.

    While no round may begin nothing is read: one read then sees all that several would have seen, each of which costs
    the leader and the database as much as a few jobs. A pool where nothing happens is looked at less often,
    for fifty reads a second are most of what its idle leader does.

    Args:
        period_s: Least time between two reads.
        to_round_s: How long no round will begin, whatever is read; 0 or less if one may begin.
        quiet_s: Since when no change was read.
    """
    idle_s = min(quiet_s * _QUIET_RATIO, _MOST_PERIODS * period_s)
    return max(period_s, idle_s, to_round_s)


def _decode(row_id: int, payload: bytes) -> tuple[Change, DecodedChanges | None]:
    """Return a row as the machine takes it, and all that it says."""
    try:
        content = decode_changes(payload)
    except Exception as error:  # noqa: BLE001 - a row that cannot be read must not end one term after the other
        text = error.message if isinstance(error, InvalidRequest) else f"{type(error).__name__}: {error}"
        return Change(change_id=row_id, bad=SetAside(payload=payload, error=text)), None
    return (
        Change(
            change_id=row_id, jobs=content.jobs, requests=content.change_requests, clusters=content.changed_clusters
        ),
        content,
    )
