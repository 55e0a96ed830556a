"""A machine's wall clock may be set by days at any moment: no session, leadership, job or time is lost by it."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from argosy_kube.simulated.client import SimulatedCluster
from argosy_local.compose import UNCAPPED, ClusterPlan, MeshPlan
from argosy_local.mesh import Mesh

from .replayed import JOB_COUNT, replaying

pytestmark = pytest.mark.timeout(240)

DAY_S = 86_400
SLACK_S = 60.0
"""Times of a slow machine; a clock that is set is off by days."""


class Clocks:
    """Wall clocks of a mesh's processes."""

    def __init__(self, folder: Path) -> None:
        """None is wrong."""
        self.folder = folder

    def set(self, mesh: Mesh, role: str, offset_s: int) -> int:
        """Set the clock of a process off by so much; return which process it is."""
        (pid,) = [status.pid for status in mesh.status() if status.role == role]
        with (self.folder / str(pid)).open("r+b") as file:  # it is there once the process reads it
            file.write(offset_s.to_bytes(8, "little", signed=True))
        return pid


@pytest.fixture(scope="module")
def clocks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clocks]:
    """Every process that is started from now on has a wall clock that can be set."""
    folder = tmp_path_factory.mktemp("clocks")
    folder.chmod(0o777)
    library = folder / "wall_clock.so"
    source = Path(__file__).with_name("wall_clock.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_PRELOAD", str(library))
        patch.setenv("WALL_CLOCK_FOLDER", str(folder))
        yield Clocks(folder)


@pytest.fixture(scope="module")
def mesh(clocks: Clocks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    """Two clusters of 100 cores, so that jobs wait, run and end all the time."""
    plans = tuple(ClusterPlan(name=f"c{number}", kinds="25:cpu=4,memory=16Gi") for number in (1, 2))
    mesh = Mesh(tmp_path_factory.mktemp("mesh") / "mesh")
    mesh.up(MeshPlan(clusters=plans, standby_count=1, flags=UNCAPPED))
    try:
        yield mesh
    finally:
        mesh.down()


@pytest.mark.parametrize("role", ["api", "leader", "sampler-c1", "executor-c1"])
async def test_a_clock_that_is_set_by_days_in_the_middle_of_work_changes_nothing(
    mesh: Mesh, clocks: Clocks, role: str
) -> None:
    """Ahead first, then back: every job runs once, times are right, and whoever led or was connected still is."""
    await asyncio.to_thread(mesh.await_ready)
    begun_s, before = time.time(), _standing(mesh)
    set_role = before[0] if role == "leader" else role
    name = f"jump-{role}"
    async with replaying(mesh.server, name) as load:
        pid = clocks.set(mesh, set_role, 3 * DAY_S)
        while load.replay.progress().finished_count <= JOB_COUNT // 2:  # noqa: ASYNC110 - a count that grows
            await asyncio.sleep(0.05)
        assert clocks.set(mesh, set_role, -3 * DAY_S) == pid
        work = await load.end()
    assert clocks.set(mesh, set_role, 0) == pid

    assert sum(len(set(ids)) for ids, _ in work) == JOB_COUNT
    for name in mesh.cluster_names:
        cluster = SimulatedCluster(mesh.address(f"cluster-{name}"), installation="argosy")
        audit = await cluster.audit()
        await cluster.close()
        assert (audit.double_runs, audit.overcommits) == (0, 0)
    assert _standing(mesh) == before
    earliest_s, latest_s = _times(mesh, f"jump-{role}")
    assert begun_s - SLACK_S < earliest_s <= latest_s < time.time() + SLACK_S


def _standing(mesh: Mesh) -> tuple[str, int, list[tuple[str, str, int]]]:
    """Return who leads, by which epoch, and by which number each cluster's sampler and executor have sessions."""
    with psycopg.connect(mesh.database_url) as database:
        address, epoch = database.execute("SELECT address, epoch FROM pools").fetchone() or ("", 0)
        sessions = database.execute(
            "SELECT cluster, role, incarnation FROM cluster_pools ORDER BY cluster, role"
        ).fetchall()
    roles = {mesh.address(role): role for role in ("leader", "leader-2")}
    return roles[address], epoch, sessions


def _times(mesh: Mesh, prefix: str) -> tuple[float, float]:
    """Return the earliest and the latest time that is stored of a replay's jobs and runs, seconds."""
    with psycopg.connect(mesh.database_url) as database:
        row = database.execute(
            "SELECT min(t), max(t) FROM jobs JOIN queues USING (queue_id) JOIN runs USING (handle), "
            "LATERAL unnest(ARRAY[submit_time_us, jobs.end_time_us, lease_time_us, start_time_us, runs.end_time_us]) t"
            " WHERE queues.name LIKE %s",
            [f"{prefix}-%"],
        ).fetchone()
    assert row is not None
    return row[0] / 1e6, row[1] / 1e6
