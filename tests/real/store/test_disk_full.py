"""The database's disk is full, while jobs are submitted and a leader writes."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from testbed.postgres import server_version

from argosy_core.errors import BackendUnavailable
from argosy_core.job.states import JobState
from argosy_store import ApiStore, Effects, EmbeddedPostgres, JobFilter, LeaderStore, migrate
from argosy_testkit.store_world import StoreWorld, encode_parts
from argosy_testkit.submissions import make_job_ends, make_leases, make_objects, make_run_ends

_SIZE = "192m"
_BATCH = 50
_TIMEOUT_S = 120.0


@pytest.fixture
def disk() -> Iterator[Path]:
    """Give a small disk of its own, which takes the right to mount one."""
    path = Path(tempfile.mkdtemp(prefix="argosy-disk-"))
    path.chmod(0o755)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={_SIZE},mode=0755", "tmpfs", str(path)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"a small disk cannot be mounted (this test needs root): {done.stderr}"
    yield path
    subprocess.run(["umount", str(path)], check=True)
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def server(disk: Path) -> Iterator[EmbeddedPostgres]:
    """Give a durable server on the small disk."""
    settings = {"shared_buffers": "16MB", "max_wal_size": "64MB", "min_wal_size": "32MB", "wal_buffers": "1MB"}
    made = EmbeddedPostgres(disk / "pg", settings=settings, start_timeout_s=5)
    made.start()
    yield made
    made.stop()


class _Worker(threading.Thread):
    """Does something again and again until told to stop; while the database cannot serve, it tries again."""

    def __init__(self, action: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._action = action
        self.stopping = threading.Event()
        self.done_count = 0
        self.unavailable_count = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Work."""
        try:
            while not self.stopping.is_set():
                try:
                    self._action()
                    self.done_count += 1
                except BackendUnavailable:
                    self.unavailable_count += 1
                    time.sleep(0.02)
        except BaseException as error:
            self.failure = error
            raise


class _Load:
    """Submits with client ids, and a leader that leases and ends what was submitted.

    Args:
        world: The stores.
    """

    def __init__(self, world: StoreWorld) -> None:
        """Begin with nothing."""
        self.world = world
        self.api = ApiStore(world.url)
        for pool in (self.api._connections._read, self.api._connections._bulk):
            pool.timeout = 0.5
        self.leader = LeaderStore(world.url, "default")
        self.acknowledged: dict[str, int] = {}
        self.ended: set[int] = set()
        self._number = 0
        self._request = world.request(_BATCH, client_ids=self._keys())
        self._epoch = 0
        self._position = 0

    def _keys(self) -> list[str]:
        self._number += _BATCH
        return [f"k{self._number + place}" for place in range(_BATCH)]

    def submit(self) -> None:
        """Submit a request; one that was not answered is repeated as it is."""
        (result,) = self.api.submit([self._request], encode_parts)
        assert result.accepted
        self.acknowledged.update(zip(self._request.client_ids, result.handles.tolist(), strict=True))  # type: ignore[arg-type]
        self._request = self.world.request(_BATCH, client_ids=self._keys())

    def lead(self) -> None:
        """Lease and end a batch; after a failure begin again from what the database says, as a new leader."""
        if not self._epoch:
            leadership = self.leader.try_lead("loaded", "h:1", 600)
            assert leadership is not None
            self._epoch, self._position = leadership.epoch, leadership.log_position
        try:
            handles = np.sort(self.leader.load().columns.jobs.handle)[:_BATCH]
            if not handles.size:
                return
            live = set(self.leader.load().columns.runs.handle.tolist())
            waiting = np.array([handle for handle in handles.tolist() if handle not in live], dtype=np.int64)
            if waiting.size:
                leases = Effects(
                    log_position=(self._position, self._position + 1),
                    new_runs=make_leases(waiting),
                    new_objects=make_objects(waiting),
                )
                self.leader.apply(self._epoch, leases)
                self._position += 1
            ends = Effects(
                log_position=(self._position, self._position + 1),
                run_updates=make_run_ends(handles),
                job_updates=make_job_ends(handles),
            )
            self.leader.apply(self._epoch, ends)
            self._position += 1
            self.ended.update(handles.tolist())
        except BackendUnavailable:
            self._epoch = 0
            raise

    def close(self) -> None:
        """Close the stores."""
        self.api.close()
        self.leader.close()


def _fill(path: Path) -> None:
    """Write until no byte is left."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with suppress(OSError):
        for size in (1 << 20, 4096, 1):
            with suppress(OSError):
                while True:
                    os.write(descriptor, bytes(size))
    os.close(descriptor)


def _await(condition: Callable[[], bool], workers: list[_Worker], server: EmbeddedPostgres) -> None:
    """Wait for something, while a supervisor starts the server whenever it has ended."""
    deadline = time.monotonic() + _TIMEOUT_S
    while not condition():
        assert [worker.failure for worker in workers] == [None] * len(workers)
        assert time.monotonic() < deadline
        if server.pid is None:
            with suppress(BackendUnavailable):
                server.start()
        time.sleep(0.05)


def test_full_disk_refuses_and_loses_nothing_and_ends_by_itself(
    server: EmbeddedPostgres, disk: Path, note_part: Callable[[str, str], None]
) -> None:
    """Submits and the leader's transactions are refused as UNAVAILABLE; with space again all goes on."""
    note_part("Postgres, embedded, on a disk that gets full", server_version(server.url))
    migrate(server.url)
    world = StoreWorld(server.url)
    world.api.reserve_numbers(1)
    world.api._end_number += 10_000_000  # numbers come from memory, so that submits alone need the database
    world.leader.resign(world.epoch)
    load = _Load(world)
    workers = [_Worker(load.submit), _Worker(load.lead)]
    for worker in workers:
        worker.start()
    _await(lambda: all(worker.done_count >= 5 for worker in workers), workers, server)
    for _ in range(2):
        refused = [worker.unavailable_count for worker in workers]

        def everybody_refused(before: list[int] = refused) -> bool:
            _fill(disk / "filler")  # what the server gives back is taken, too
            return all(worker.unavailable_count > count + 2 for worker, count in zip(workers, before, strict=True))

        _await(everybody_refused, workers, server)
        (disk / "filler").unlink()
        done = [worker.done_count for worker in workers]

        def everybody_goes_on(before: list[int] = done) -> bool:
            return all(worker.done_count > count + 5 for worker, count in zip(workers, before, strict=True))

        _await(everybody_goes_on, workers, server)
    for worker in workers:
        worker.stopping.set()
    for worker in workers:
        worker.join(_TIMEOUT_S)
        assert worker.failure is None
    load.close()
    stored: dict[str, int] = {}
    states: dict[int, int] = {}
    after = 0
    while page := world.list_jobs(JobFilter(), after_handle=after, limit=5000):
        for job in page:
            assert job.client_id is not None
            assert job.client_id not in stored
            stored[job.client_id] = job.handle
            states[job.handle] = job.state
        after = page[-1].handle
    assert load.acknowledged.items() <= stored.items()
    assert len(stored) - len(load.acknowledged) <= _BATCH
    assert all(states[handle] == JobState.SUCCEEDED for handle in load.ended)
    world.close()
