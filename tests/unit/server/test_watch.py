"""Watchers share polls, not errors."""

import asyncio
from collections.abc import Collection

from argosy_core.errors import BackendUnavailable, OutOfRange
from argosy_server.api.store_threads import StoreThreads
from argosy_server.api.watch import EventRows, WatchHub


class Events:
    """Job set 1 has a row, the events of job set 2 have aged out, job set 3 stands in a database that is gone."""

    def __init__(self) -> None:
        """Start with nothing asked."""
        self.read: list[tuple[int, int]] = []
        self.last_number = 9

    def last_event_numbers(self, job_set_ids: Collection[int]) -> dict[int, int]:
        """Return the same for each."""
        return dict.fromkeys(job_set_ids, self.last_number)

    def read_events(self, job_set_id: int, after_number: int, limit_rows: int) -> EventRows:
        """Return the row, or raise."""
        del limit_rows
        self.read.append((job_set_id, after_number))
        if job_set_id == 2:
            raise OutOfRange("too old")
        if job_set_id == 3:
            raise BackendUnavailable("gone")
        return [(after_number + 1, after_number + 1, b"row")]


async def ask(*job_set_ids: int) -> list[object]:
    """Return what watchers of job sets get at one poll."""
    threads = StoreThreads(reader_count=1, submit_count=1)
    hub = WatchHub(Events(), threads, poll_s=0.001)
    polling = asyncio.create_task(hub.poll())
    requests = (hub.read_next(job_set_id, 4) for job_set_id in job_set_ids)
    answers = await asyncio.wait_for(asyncio.gather(*requests, return_exceptions=True), 10)
    assert hub.poll_count == 1
    assert not polling.done()
    polling.cancel()
    threads.close()
    return list(answers)


async def test_error_of_one_watcher_reaches_nobody_else() -> None:
    """Who asks for events that are gone is told; others of the same poll get theirs."""
    rows, error = await ask(1, 2)
    assert rows == [(5, 5, b"row")]
    assert isinstance(error, OutOfRange)


async def test_database_that_is_gone_is_asked_once_for_all() -> None:
    """Each watcher hears it, and none of them waits for a time-out of its own; polls go on."""
    answers = await ask(3, 3, 3)
    assert all(isinstance(answer, BackendUnavailable) for answer in answers)


async def test_made_up_positions_cost_a_poll_nothing() -> None:
    """A poll reads a job set once, from where most stand; others read by themselves, and who is ahead waits."""
    events, threads = Events(), StoreThreads(reader_count=1, submit_count=1)
    hub = WatchHub(events, threads, poll_s=0.001)
    polling = asyncio.create_task(hub.poll())
    made_up = [hub.read_next(1, number) for number in (1, 2, 9, 10, 1 << 40)]
    *answers, _ = await asyncio.gather(hub.read_next(1, 4), *made_up, hub.read_next(1, 4))
    assert [len(rows) for rows in answers] == [1, 1, 1, 0, 0, 0]
    assert events.read[0] == (1, 4)
    assert sorted(events.read) == [(1, 1), (1, 2), (1, 4)]
    polling.cancel()
    threads.close()


async def test_watcher_without_news_is_not_woken() -> None:
    """One that waits for ever is answered by its first news, whoever else is answered at each poll before."""
    events, threads = Events(), StoreThreads(reader_count=1, submit_count=1)
    hub = WatchHub(events, threads, poll_s=0.001)
    polling = asyncio.create_task(hub.poll())
    waiting = asyncio.create_task(hub.read_next(1, 9, quiet_polls=0))
    assert await hub.read_next(1, 9, quiet_polls=3) == []
    assert hub.poll_count == 3
    assert not waiting.done()
    events.last_number = 10
    assert len(await asyncio.wait_for(waiting, 60)) == 1
    polling.cancel()
    threads.close()
