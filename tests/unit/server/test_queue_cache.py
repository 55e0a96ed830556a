"""What a replica remembers of queues, and how often it asks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from argosy_server.api.queue_cache import QueueCache
from argosy_server.api.store_threads import StoreThreads
from argosy_store.rows import QueueRow

NAMES = tuple(f"q{number}" for number in range(5))


class Queues:
    """Five queues in memory, and what was asked for."""

    def __init__(self) -> None:
        """Start with nothing asked."""
        self.asked: list[set[str]] = []
        self.waiting = 7
        self.generation = 0

    def queue_policies(self, names: Sequence[str]) -> dict[str, tuple[str, str]]:
        """Return none: no queue has a policy."""
        del names
        return {}

    def find_queues(self, names: Sequence[str]) -> dict[str, tuple[QueueRow, int]]:
        """Answer those that exist."""
        self.asked.append(set(names))
        row = {
            "weight": 1.0,
            "pool": "default",
            "cordoned": False,
            "cordon_reason": "",
            "version": 1,
            "create_time_us": 0,
            "namespaces": (),
            "max_queued_count": 10,
            "parent": "",
            "max_running_count": 0,
            "max_running_amounts": (),
            "submit_rate_per_s": 3.0,
            "lease_rate_per_s": 0.0,
            "preempts_unexpired": False,
            "preempts_endless": False,
            "deleted": False,
        }
        there = [name for name in names if name in NAMES]
        return {name: (QueueRow(queue_id=NAMES.index(name) + 1, name=name, **row), self.waiting) for name in there}


class Clock:
    """A clock that stands still until it is set."""

    now_s = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now_s


@pytest.fixture
async def world() -> AsyncIterator[tuple[QueueCache, Queues, Clock]]:
    """A cache of one second over five queues."""
    threads, queues, clock = StoreThreads(reader_count=1, submit_count=1), Queues(), Clock()
    yield QueueCache(queues, threads, keep_s=1.0, default_limit=10, clock_s=clock), queues, clock
    threads.close()


World = tuple[QueueCache, Queues, Clock]


async def test_queues_in_use_are_read_together(world: World) -> None:
    """Five queues, each used on its own all the time, cost one request a second once they are known."""
    cache, queues, clock = world
    for name in NAMES:
        await cache.find([name])
    assert len(queues.asked) == 5
    for _ in range(10):
        clock.now_s += 0.3
        for name in NAMES:
            assert (await cache.find([name]))[name].name == name
    assert queues.asked[5:] == [set(NAMES)] * 2


async def test_queue_that_nobody_uses_is_not_read_along(world: World) -> None:
    """What was used once does not cost for ever."""
    cache, queues, clock = world
    await cache.find(NAMES)
    for _ in range(3):
        clock.now_s += 1.1
        await cache.find(["q0"])
    assert queues.asked[1:] == [set(NAMES), {"q0"}, {"q0"}]


async def test_queues_of_a_replaced_database_are_read_again(world: World) -> None:
    """An id that another database gave may be another queue's."""
    cache, queues, _ = world
    assert cache.generation == 0
    await cache.find(["q1"])
    queues.generation = 1
    assert cache.generation == 1
    await cache.find(["q1"])
    assert queues.asked == [{"q1"}, {"q1"}]
