"""Calls begin in the order of their urgency, no faster than they may."""

from __future__ import annotations

import asyncio

import pytest

from argosy_kube.kubernetes.api.rate_limiter import Priority, RateLimiter


def make(*, per_s: float = 0.0, burst: int = 1, concurrency: int = 1) -> RateLimiter:
    """Return a limiter on the loop's clock."""
    clock = asyncio.get_running_loop().time
    return RateLimiter(per_s=per_s, burst_count=burst, concurrency=concurrency, monotonic=clock)


async def test_deletes_and_reads_go_before_creates() -> None:
    """Of those that wait the most urgent goes first, and of equals the one that came first."""
    limiter = make()
    order: list[str] = []
    await limiter.enter(Priority.CREATE)

    async def call(name: str, priority: Priority) -> None:
        async with limiter.turn(priority):
            order.append(name)

    async with asyncio.TaskGroup() as group:
        for name, priority in (
            ("create 1", Priority.CREATE),
            ("create 2", Priority.CREATE),
            ("delete", Priority.DELETE),
            ("list", Priority.READ),
        ):
            group.create_task(call(name, priority))
        await asyncio.sleep(0)
        limiter.leave()
    assert order == ["list", "delete", "create 1", "create 2"]


async def test_no_more_calls_than_allowed_are_under_way() -> None:
    """The bound holds whatever comes, and a cancelled call gives its place back."""
    limiter = make(concurrency=2)
    under_way = most = 0

    async def call() -> None:
        nonlocal under_way, most
        async with limiter.turn(Priority.READ):
            under_way += 1
            most = max(most, under_way)
            try:
                await asyncio.sleep(0)
            finally:
                under_way -= 1

    tasks = [asyncio.ensure_future(call()) for _ in range(20)]
    await asyncio.sleep(0)
    for task in tasks[::3]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert most == 2
    async with asyncio.timeout(50), limiter.turn(Priority.CREATE), limiter.turn(Priority.CREATE):
        pass


@pytest.mark.parametrize(("burst", "least_s"), [(1, 0.18), (10, 0.08)])
async def test_rate_is_kept_in_the_long_run(burst: int, least_s: float) -> None:
    """Beyond the burst calls are spread evenly: 20 calls at 100 a second."""
    limiter = make(per_s=100.0, burst=burst, concurrency=100)
    began_s = asyncio.get_running_loop().time()
    for _ in range(20):
        async with limiter.turn(Priority.CREATE):
            pass
    assert asyncio.get_running_loop().time() - began_s >= least_s


async def test_pause_holds_back_every_call() -> None:
    """While the API server asks us to wait nothing begins."""
    limiter = make(concurrency=9)
    limiter.pause(0.1)
    began_s = asyncio.get_running_loop().time()
    async with limiter.turn(Priority.READ):
        assert asyncio.get_running_loop().time() - began_s >= 0.09
