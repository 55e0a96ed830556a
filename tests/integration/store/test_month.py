"""A month of maintenance while jobs come and go, with the days of a database whose clock is set."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np
import psycopg
import pytest

from argosy_core.job.identity import DAY_SHIFT
from argosy_store import Effects, EventRow, ensure_partitions, retain
from argosy_testkit.postgres import set_database_time
from argosy_testkit.store_world import StoreWorld, encode_parts
from argosy_testkit.submissions import make_job_ends, make_leases, make_objects, make_run_ends

DAY_US = 86_400_000_000
DAYS = 30
RETENTION_DAYS = 7
JOBS = 20
EVERY_TENTH_STAYS = 10
SLOWEST_S = 10.0
"""Longest time of one transaction: many times what it takes, and less than any lock or statement may be waited for."""


class _Month:
    """What goes on day by day.

    Args:
        world: The stores.
    """

    def __init__(self, world: StoreWorld) -> None:
        """Begin today."""
        self.world = world
        self.day = world.day
        self.submitted: list[np.ndarray] = []  # type: ignore[type-arg]
        self.open: list[int] = []
        self.slowest_s = 0.0
        self.failures: list[BaseException] = []
        self._event_number = 0
        self._turns = {"submit": 0, "lead": 0}
        self._turned = threading.Condition()
        self._over = False

    def run(self) -> None:
        """Submit and lead in threads while days pass; maintenance goes on meanwhile, as a server does it."""
        threads = [
            threading.Thread(target=self._repeat, args=[name, action])
            for name, action in (("submit", self._submit), ("lead", self._lead))
        ]
        for thread in threads:
            thread.start()
        try:
            for day in range(self.world.day, self.world.day + DAYS):
                self.day = day
                set_database_time(self.world.url, day * DAY_US + DAY_US // 2)
                ensure_partitions(self.world.url, days_ahead=4)
                retain(self.world.url, RETENTION_DAYS)
                self._await_turns()
        finally:
            self._over = True
            for thread in threads:
                thread.join(60)
        assert self.failures == []
        while self.submitted:
            self._lead()

    def _repeat(self, name: str, action: Callable[[], None]) -> None:
        try:
            while not self._over:
                started_s = time.monotonic()
                action()
                self.slowest_s = max(self.slowest_s, time.monotonic() - started_s)
                with self._turned:
                    self._turns[name] += 1
                    self._turned.notify_all()
        except BaseException as error:
            self.failures.append(error)
            raise

    def _await_turns(self) -> None:
        """Wait until everybody has done something since."""
        with self._turned:
            goal = {name: count + 1 for name, count in self._turns.items()}
            assert self._turned.wait_for(
                lambda: self.failures or all(self._turns[name] >= count for name, count in goal.items()), 60
            )

    def _submit(self) -> None:
        if len(self.submitted) > 5:
            time.sleep(0.001)  # the leader is behind; this is no wait for anything
        (result,) = self.world.api.submit([self.world.request(JOBS, day=self.day)], encode_parts)
        assert result.accepted, result.error
        self.submitted.append(result.handles)

    def _lead(self) -> None:
        """Lease and end what was submitted, but for every tenth job, which stays open for ever."""
        world = self.world
        if not self.submitted:
            world.leader.read_changes(1)
            return
        handles = self.submitted.pop(0)
        staying = handles[::EVERY_TENTH_STAYS]
        ending = np.setdiff1d(handles, staying)
        world.leader.apply(world.epoch, Effects(new_runs=make_leases(handles), new_objects=make_objects(handles)))
        self.open += staying.tolist()
        number, self._event_number = self._event_number + 1, self._event_number + 1
        time_us = int(handles[0] >> DAY_SHIFT) * DAY_US
        changes = np.array([row[0] for row in world.leader.read_changes(1000)], dtype=np.int64)
        world.leader.apply(
            world.epoch,
            Effects(
                deleted_change_ids=changes,
                run_updates=make_run_ends(ending),
                job_updates=make_job_ends(ending, end_time_us=time_us),
                events=[
                    EventRow(
                        job_set_id=world.job_set_id,
                        first_number=number,
                        last_number=number,
                        create_time_us=time_us,
                        payload=b"e",
                    )
                ],
            ),
        )


@pytest.mark.timeout(180)
def test_a_month_passes_under_load_without_anybody_having_to_wait(world: StoreWorld) -> None:
    """Days to come are there, aged ones leave with what ended, open jobs stay, and no transaction waits long."""
    month = _Month(world)
    month.run()
    assert month.slowest_s < SLOWEST_S
    last = world.day + DAYS - 1
    retain(world.url, RETENTION_DAYS)
    with psycopg.connect(world.url) as connection:
        (days,) = connection.execute("SELECT days FROM partition_state").fetchone() or ([],)
        assert days == list(range(last - RETENTION_DAYS, last + 4))
        rows = connection.execute("SELECT handle, state, end_time_us FROM jobs").fetchall()
        assert {row[0] for row in rows if row[1] == 0} == set(month.open)
        oldest_us = (last - RETENTION_DAYS) * DAY_US
        assert all(row[2] >= oldest_us for row in rows if row[1] != 0)
        for table in ("runs", "objects"):
            found = connection.execute(f"SELECT DISTINCT handle FROM {table}").fetchall()
            assert {row[0] for row in found} == {row[0] for row in rows}
        oldest_event = connection.execute("SELECT min(create_time_us) FROM job_set_events").fetchone()
    assert oldest_event is not None
    assert oldest_event[0] >= oldest_us
    loaded = world.leader.load()
    assert sorted(loaded.columns.jobs.handle.tolist()) == sorted(month.open)
    assert len(month.open) >= DAYS
