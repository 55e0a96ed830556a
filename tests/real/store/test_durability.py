"""What survives when Postgres is killed."""

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from argosy_core.errors import BackendUnavailable
from argosy_store import ApiStore, Effects, EmbeddedPostgres, JobFilter, LeaderStore, migrate
from argosy_testkit.store_world import StoreWorld, encode_parts

KILLS = 2


@pytest.fixture
def server() -> Iterator[EmbeddedPostgres]:
    """Give a server with our usual, durable settings; a small buffer makes it start fast."""
    directory = Path(tempfile.mkdtemp(prefix="argosy-kill-"))
    directory.chmod(0o755)
    made = EmbeddedPostgres(directory / "pg", settings={"shared_buffers": "16MB", "max_wal_size": "256MB"})
    made.start()
    yield made
    made.stop()
    shutil.rmtree(directory, ignore_errors=True)


class Writer(threading.Thread):
    """Submits jobs with client ids until told to stop, repeating what was not answered, as a client would."""

    def __init__(self, world: StoreWorld, number: int) -> None:
        super().__init__()
        self.world, self.number = world, number
        self.stopping = threading.Event()
        self.acknowledged: dict[str, int] = {}
        self.unavailable_count = 0

    def run(self) -> None:
        """Submit."""
        api = ApiStore(self.world.url)
        first = 1 << 30 | self.number << 24
        while not self.stopping.is_set():
            keys = [f"{self.number}-{first + place}" for place in range(20)]
            request = self.world.request(20, client_ids=keys)
            while not self.stopping.is_set():
                try:
                    result = api.submit([request], encode_parts)[0]
                except BackendUnavailable:
                    self.unavailable_count += 1
                    time.sleep(0.02)
                    continue
                assert result.accepted
                self.acknowledged.update(zip(keys, result.handles.tolist(), strict=True))
                break
            first += 20
        api.close()


def test_kill_of_postgres_under_load_loses_no_acknowledged_submit(server: EmbeddedPostgres) -> None:
    """What was answered OK survives any crash, and repeating what was not answered makes no second job."""
    migrate(server.url)
    world = StoreWorld(server.url)
    # Numbers come from memory here, so that writers need the database for their submits only.
    world.api.reserve_numbers(1)
    world.api._end_number += 10_000_000
    writers = [Writer(world, number) for number in range(3)]
    for writer in writers:
        writer.start()
    for _ in range(KILLS):
        reached = {writer: len(writer.acknowledged) for writer in writers}
        await_progress(writers, reached)
        server.kill()
        server.start()
    await_progress(writers, {writer: len(writer.acknowledged) for writer in writers})
    for writer in writers:
        writer.stopping.set()
    for writer in writers:
        writer.join()
    acknowledged = {key: handle for writer in writers for key, handle in writer.acknowledged.items()}
    assert sum(writer.unavailable_count for writer in writers) > 0
    stored: dict[str | None, int] = {}
    after = 0
    while page := world.list_jobs(JobFilter(), after_handle=after, limit=5000):
        for job in page:
            assert job.client_id not in stored
            stored[job.client_id] = job.handle
        after = page[-1].handle
    assert acknowledged.items() <= stored.items()
    # Whatever else is stored was committed though its answer was lost: at most one batch per writer at the end.
    assert len(stored) - len(acknowledged) <= 20 * len(writers)
    world.close()


def await_progress(writers: list[Writer], reached: dict[Writer, int]) -> None:
    """Wait until every writer has had more submits acknowledged."""
    deadline = time.monotonic() + 100  # a guard against what hangs, not a measure
    while any(len(writer.acknowledged) < reached[writer] + 40 for writer in writers):
        assert time.monotonic() < deadline
        assert all(writer.is_alive() for writer in writers)
        time.sleep(0.005)


def test_stores_go_on_after_a_restart_of_postgres(server: EmbeddedPostgres) -> None:
    """Broken connections are replaced; errors meanwhile are BackendUnavailable, and nothing of the driver's."""
    migrate(server.url)
    with StoreWorld(server.url) as world:
        handles = world.submit_jobs(3)
        late, stranger = world.request(1), LeaderStore(server.url, "default")
        server.kill()
        connections = world.api._connections
        pools = (connections._submits, connections._read, connections._bulk)
        for pool in pools:
            pool.timeout = 0.2
        calls: list[Callable[[], object]] = [
            lambda: world.submit(late),
            lambda: world.api.list_jobs(JobFilter()).jobs,
            world.leader.load,
            lambda: world.leader.apply(world.epoch, Effects(log_position=(0, 1))),
            lambda: world.leader.renew(world.epoch, 10),
            lambda: stranger.read_changes(1),
        ]
        for call in calls:
            with pytest.raises(BackendUnavailable):
                call()
        server.start()
        for pool in pools:
            pool.timeout = 10
        assert world.leader.load().columns.jobs.handle.tolist() == handles.tolist()
        world.leader.apply(world.epoch, Effects(log_position=(0, 1)))
        more = world.submit_jobs(1)
        assert [job.handle for job in world.list_jobs(JobFilter())] == np.sort(np.concatenate([handles, more])).tolist()
