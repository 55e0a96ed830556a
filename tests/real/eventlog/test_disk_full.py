"""The disk of the log's bookie is full while jobs are submitted: it takes no more records, until it has room again.

Full is what the bookie calls so (`diskUsageThreshold`): it must stop before its last byte, past which it ends itself.

Source: design section 5, "Ingest", "Leader lost"; section 7, invariants 1, 2, 6 and 8.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from argosy_client import ArgosyClient, JobDraft, JobEvent, Queue, RetryPolicy
from argosy_core.errors import BackendUnavailable
from argosy_kube.simulated.client import SimulatedCluster
from argosy_local.compose import ClusterPlan, MeshPlan
from argosy_local.mesh import Mesh
from testbed.pulsar import Broker

pytestmark = [pytest.mark.timeout(300)]

_DISK_BYTES = 256 << 20
_LEFT_BYTES = 15 << 20
"""Room left when the disk counts as full: 94 % are in use."""
_BOOKIE = {
    "diskUsageThreshold": "0.9",
    "diskUsageWarnThreshold": "0.85",
    "diskUsageLwmThreshold": "0.85",
    "diskCheckInterval": "500",
    "logSizeLimit": "8388608",
    "journalMaxSizeMB": "32",
    "journalMaxBackups": "1",
    "entryLogFilePreallocationEnabled": "false",
    "minUsableSizeForIndexFileCreation": "1048576",
    "minUsableSizeForEntryLogCreation": "1048576",
    "minUsableSizeForHighPriorityWrites": "1048576",
}
"""A bookie that is content with a small disk, and looks at it often."""
_SERVER = ("--leader-lease-s", "2", "--leader-heartbeat-s", "1", "--pulsar-publish-timeout-s", "3")
_FLAGS = {
    "server": [*_SERVER, "--pulsar-operation-timeout-s", "2"],
    "sampler": ["--connect-timeout-s", "1"],
    "executor": ["--connect-timeout-s", "1"],
}
_FULL_S = 12.0
_END_S = 90.0
_JOBS_PER_CALL = 5
_POD = (
    '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"main",'
    '"annotations":{"argosy.dev/simulated-run-time":"0.1s-0.3s"}},"spec":{"containers":[{"name":"main",'
    '"image":"busybox","resources":{"requests":{"cpu":"1","memory":"64Mi"}}}]}}'
)


@pytest.fixture
def disk() -> Iterator[Path]:
    """Give a small disk of its own, which takes the right to mount one."""
    path = Path(tempfile.mkdtemp(prefix="argosy-disk-"))
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES},mode=0777", "tmpfs", str(path)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"a small disk cannot be mounted (this test needs root): {done.stderr}"
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)  # threads of the killed broker may need a moment longer
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def broker(disk: Path, start_broker: Callable[..., Broker]) -> Broker:
    """Give a broker whose bookie has the small disk, and which goes before the disk does."""
    return start_broker("pulsar-small-disk", "on a disk that gets full", _BOOKIE, disk=disk)


@pytest.fixture
def mesh(tmp_path: Path, broker: Broker) -> Iterator[Mesh]:
    """Give a mesh that replaces its leader within seconds."""
    mesh = Mesh(tmp_path / "mesh")
    plan = MeshPlan(
        clusters=(ClusterPlan(name="c1", kinds="4:cpu=4,memory=16Gi"),),
        event_log_url=broker.service_url,
        event_log_admin_url=broker.admin_url,
        flags=_FLAGS,
    )
    mesh.up(plan)
    try:
        yield mesh
    finally:
        mesh.down()


def _fill(disk: Path, left_bytes: int) -> None:
    """Write until only so many bytes are left."""
    with (disk / "filler").open("ab", buffering=0) as filler, suppress(OSError):
        while (free := _free_bytes(disk) - left_bytes) > 0:
            filler.write(bytes(min(free, 1 << 20)))


def _free_bytes(disk: Path) -> int:
    found = os.statvfs(disk)
    return found.f_bavail * found.f_frsize


class Load:
    """Jobs that were accepted, and how long that took.

    Args:
        client: The mesh's.
    """

    def __init__(self, client: ArgosyClient) -> None:
        """Begin with none."""
        self.client = client
        self.ids: list[str] = []

    async def submit(self) -> None:
        """Submit some."""
        draft = JobDraft(queue="team", job_set="all", manifests=(_POD,))
        self.ids += await self.client.submit([draft] * _JOBS_PER_CALL)

    async def submit_for(self, duration_s: float) -> None:
        """Submit several times a second."""
        end_s = time.monotonic() + duration_s
        while time.monotonic() < end_s:
            await self.submit()
            await asyncio.sleep(0.3)

    async def events(self) -> list[JobEvent]:
        """Return all events once everything has ended."""
        found: list[JobEvent] = []
        async with asyncio.timeout(_END_S):
            async for batch in self.client.watch("team", "all", until_finished=True):
                found.extend(batch.events)
        return found


def _run_count(mesh: Mesh) -> int:
    with psycopg.connect(mesh.database_url) as database:
        row = database.execute("SELECT count(*) FROM runs").fetchone()
    assert row is not None
    return int(row[0])


async def _check_all_ran_once(mesh: Mesh, load: Load) -> None:
    """Every job that was accepted was leased once and succeeded once, and no node was given away twice."""
    events = await load.events()
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    for kind in ("submitted", "leased", "succeeded"):
        counts = Counter(event.job_id for event in events if event.kind == kind)
        assert set(counts) == set(load.ids), kind
        assert set(counts.values()) == {1}, kind
    cluster = SimulatedCluster(mesh.address("cluster-c1"), installation="argosy")
    try:
        audit = await cluster.audit()
    finally:
        await cluster.close()
    assert (audit.double_runs, audit.overcommits, audit.pods_created) == (0, 0, len(load.ids))


async def _is_told(mesh: Mesh, load: Load) -> bool:
    """Return whether who asks for the shares or clusters hears that nobody decides, and the leader's log says why."""
    with suppress(BackendUnavailable):
        await load.client.get_shares()
        return False
    clusters = [cluster async for cluster in load.client.list_clusters()]
    text = mesh.log_path("leader").read_text(encoding="utf-8")
    is_said = "leadership ended" in text and "Pulsar cannot serve" in text
    return is_said and [(one.sampler_connected, one.executor_connected) for one in clusters] == [(False, False)]


async def test_a_full_disk_of_the_log_refuses_leases_and_nothing_else(mesh: Mesh, disk: Path) -> None:
    """Submits are accepted, nothing is leased, the mesh says so; with room again it goes on, each job once."""
    async with ArgosyClient(mesh.server, retries=RetryPolicy(total_s=0.0)) as client:
        await client.create_queue(Queue(name="team"))
        load = Load(client)
        await load.submit()
        await load.events()
        await asyncio.to_thread(_fill, disk, _LEFT_BYTES)
        await load.submit_for(_FULL_S)
        async with asyncio.timeout(_END_S):
            while not await _is_told(mesh, load):
                await load.submit()  # taken all the while
        leased = _run_count(mesh)
        assert leased < len(load.ids)
        await load.submit_for(1.0)
        assert _run_count(mesh) == leased
        (disk / "filler").unlink()
        await _check_all_ran_once(mesh, load)
