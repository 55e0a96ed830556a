"""The age of what waits to be relayed is shown by whoever leads, since a dead relay shows nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from argosy_runtime.metrics import METRICS_REGISTRY
from argosy_server.outbox_age import show_outbox_age
from argosy_store.postgres.connection import MAINTENANCE_SETTINGS, connect
from argosy_store.terms.outbox import EventOutbox
from argosy_testkit.postgres import set_database_time

NOW_US = 1_000_000_000
INSERT = "INSERT INTO event_outbox (pool, create_time_us, payload) VALUES ('other', %s, '')"


def shown(pool: str) -> float | None:
    """Return the gauge of a pool."""
    return METRICS_REGISTRY.get_sample_value("argosy_outbox_oldest_seconds", {"pool": pool})


@asynccontextmanager
async def showing(url: str) -> AsyncIterator[None]:
    """Show the age in the background."""
    outbox = EventOutbox(url, "other")
    task = asyncio.ensure_future(show_outbox_age(outbox, "other", interval_s=0.01))
    try:
        yield
    finally:
        task.cancel()
        (end,) = await asyncio.gather(task, return_exceptions=True)
        outbox.close()
    assert isinstance(end, asyncio.CancelledError)


async def test_age_of_the_oldest_row_is_shown_and_nothing_waits_afterwards(database_url: str) -> None:
    """It is the first row that counts, by the database's clock; a pool without rows has an age of nothing."""

    async def until(age_s: float) -> None:
        async with asyncio.timeout(50):
            while shown("other") != age_s:  # noqa: ASYNC110 - nothing tells of a gauge
                await asyncio.sleep(0.01)

    set_database_time(database_url, NOW_US)
    with connect(database_url, MAINTENANCE_SETTINGS) as connection:
        async with showing(database_url):
            await until(0.0)
            for age_s in (400, 30):
                connection.execute(INSERT, [NOW_US - age_s * 1_000_000])
            await until(400.0)
            connection.execute("DELETE FROM event_outbox WHERE pool = 'other'")
            await until(0.0)


@pytest.mark.parametrize(
    ("pool", "events_url", "age_s"),
    [("with-none", "", None), ("with-one", "pulsar://127.0.0.1:1", 0.0)],
    ids=["none relayed", "relayed"],
)
async def test_leader_shows_the_age_where_events_are_relayed(
    database_url: str, serve: Any, *, pool: str, events_url: str, age_s: float | None
) -> None:
    """A leader that relays nothing has no such series, so no alert can mistake it."""
    async with serve(database_url, role="leader", pool=pool, events_url=events_url), asyncio.timeout(50):
        while METRICS_REGISTRY.get_sample_value("argosy_leading", {"pool": pool}) != 1:  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.01)
        while shown(pool) != age_s:  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.01)
