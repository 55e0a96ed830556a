"""A version is replaced by the next one, and put back, while jobs are submitted, run and end.

The next version is the present one with one migration more: the order of things, and what each checks when it starts,
are those of any two versions that work with each other's tables.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from argosy_client.values import JobEvent
from argosy_kube.simulated.client import SimulatedCluster
from argosy_local.compose import UNCAPPED, ClusterPlan, MeshPlan
from argosy_local.mesh import Mesh
from argosy_store.schema.versions import SchemaVersion, read_version

from .replayed import replaying

pytestmark = [pytest.mark.timeout(240)]

NEXT = "9999"
QUICK = {
    "server": ["--leader-lease-s", "2", "--leader-heartbeat-s", "1", *UNCAPPED["server"]],
    "sampler": ["--connect-timeout-s", "1"],
    "executor": ["--connect-timeout-s", "1"],
}
REPLACED = ("api", "leader-2", "leader", "sampler-c1", "executor-c1", "sampler-c2", "executor-c2")
"""Every process but the clusters and the database, in an order in which somebody may replace them."""
MIGRATION = '''
"""What the next version brings: a column of a table that is written all the time, and a table of its own."""
from alembic import op

revision, down_revision, branch_labels, depends_on = "{next}", "{present}", None, None


def upgrade() -> None:
    op.execute("ALTER TABLE runs ADD COLUMN of_the_next_version text NOT NULL DEFAULT 'none'")
    op.execute("CREATE TABLE tables_of_the_next_version (id bigint PRIMARY KEY)")
'''
"""Additions, as a version must be content with that shall work beside the one before: `schema_support` stays."""
START = """
import os
import argosy_store.schema.migrate as migrate
import argosy_store.schema.versions as versions

present = migrate.migration_config


def migration_config():
    config = present()
    places = (os.path.join(config.get_main_option("script_location"), "versions"), {versions!r})
    config.set_main_option("path_separator", "os")
    config.set_main_option("version_locations", os.pathsep.join(places))
    return config


migrate.migration_config = migration_config
versions.newest_version = lambda: {next!r}
"""


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    """Two clusters of 100 cores, an API and two leaders, one of which stands by."""
    clusters = tuple(ClusterPlan(name=f"c{number}", kinds="25:cpu=4,memory=16Gi") for number in (1, 2))
    mesh = Mesh(tmp_path_factory.mktemp("mesh") / "mesh")
    mesh.up(MeshPlan(clusters=clusters, standby_count=1, flags=QUICK))
    try:
        yield mesh
    finally:
        mesh.down()


@pytest.fixture
def next_version(mesh: Mesh, tmp_path: Path) -> dict[str, str]:
    """Return the variables under which a process is one of the next version."""
    (tmp_path / "versions").mkdir()
    migration = MIGRATION.format(next=NEXT, present=read_version(mesh.database_url).wanted)
    (tmp_path / "versions" / f"{NEXT}_next.py").write_text(migration)
    (tmp_path / "sitecustomize.py").write_text(START.format(versions=str(tmp_path / "versions"), next=NEXT))
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))}


def admin(mesh: Mesh, command: str, environment: dict[str, str]) -> tuple[int, str]:
    """Run a command of `argosy admin` on the mesh's database; return its code, and what it said."""
    arguments = [sys.executable, "-m", "argosy_cli", "admin", command, "--database-url", mesh.database_url]
    done = subprocess.run(
        arguments, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout + done.stderr


async def replace(mesh: Mesh, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace every process, one after the other, as a rolling update does."""
    with monkeypatch.context() as patched:
        for name, value in environment.items():
            patched.setenv(name, value)
        for role in REPLACED:
            await asyncio.to_thread(mesh.kill, role, signal.SIGTERM)
            await asyncio.to_thread(mesh.start, role)
            await asyncio.to_thread(mesh.await_ready)


def version_of(mesh: Mesh) -> SchemaVersion:
    """Return the tables' version beside ours."""
    return read_version(mesh.database_url)


async def assert_each_ran_once(mesh: Mesh, work: list[tuple[list[str], list[JobEvent]]]) -> None:
    """Every acknowledged job succeeded once, its events are numbered without a gap, and nothing ran twice at once."""
    for ids, events in work:
        assert [event.number for event in events] == list(range(1, len(events) + 1))
        for kind in ("submitted", "succeeded"):
            assert Counter(event.job_id for event in events if event.kind == kind) == Counter(ids)
    for name in mesh.cluster_names:
        cluster = SimulatedCluster(mesh.address(f"cluster-{name}"), installation="argosy")
        try:
            audit = await cluster.audit()
        finally:
            await cluster.close()
        assert (audit.double_runs, audit.overcommits) == (0, 0)


async def test_next_version_replaces_this_one_and_is_put_back_under_load(
    mesh: Mesh, next_version: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables first, then processes one by one; put back, this version works with tables that are newer than it."""
    present = version_of(mesh)
    assert present.present == present.wanted
    async with replaying(mesh.server, "update") as load:
        code, said = await asyncio.to_thread(admin, mesh, "check", next_version)
        assert code != 0
        assert "argosy admin migrate" in said
        assert (await asyncio.to_thread(admin, mesh, "migrate", next_version))[0] == 0
        await replace(mesh, next_version, monkeypatch)
        work = await load.end()
    tables = version_of(mesh)
    assert (tables.present, tables.wanted, tables.works) == (NEXT, present.wanted, True)
    async with replaying(mesh.server, "back") as load:
        await replace(mesh, {}, monkeypatch)
        work += await load.end()
    await assert_each_ran_once(mesh, work)
    with psycopg.connect(mesh.database_url) as database:
        counted = database.execute("SELECT count(*) FROM runs WHERE of_the_next_version = 'none'").fetchone()
    assert counted is not None
    assert counted[0] >= sum(len(ids) for ids, _ in work)
