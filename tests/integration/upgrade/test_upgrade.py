"""From a database and live pods of commit 7171428, which `make_fixture.py` recorded, to this version."""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from alembic import command
from tests.integration.server.conftest import Api, serve

from argosy.api.v1 import job_pb2
from argosy_core.errors import NotAllowedNow
from argosy_local.processes import end_process, free_ports, spawn
from argosy_store import ApiStore, LeaderStore
from argosy_store.postgres.connection import sqlalchemy_engine
from argosy_store.schema.inspection import Finding
from argosy_store.schema.upgrade import upgrade
from argosy_store.schema.versions import migration_config
from argosy_testkit.fake_kube_api import FakeKubeApi

FIXTURE = Path(__file__).parent / "from_7171428.json.gz"
LONGEST_S = 150.0  # a guard against what hangs, not a measure
POLL_S = 0.05


@pytest.fixture
def left(empty_database_url: str) -> dict[str, Any]:
    """Give what was left of the old mesh: its database, restored, and the objects of its cluster."""
    content: dict[str, Any] = json.loads(gzip.decompress(FIXTURE.read_bytes()))
    engine = sqlalchemy_engine(empty_database_url)
    with engine.connect() as connection:
        config = migration_config()
        config.attributes["connection"] = connection
        command.upgrade(config, "0006")
        connection.commit()
    engine.dispose()
    tables: dict[str, str] = content["tables"]
    (state,) = (text for name, text in tables.items() if name.startswith("partition_state"))
    with psycopg.connect(empty_database_url) as connection:
        for day in state.split("\t")[1].strip("{}").split(","):
            connection.execute("SELECT argosy_make_partitions(%s)", [int(day)])
        for name, text in tables.items():
            connection.execute(f"TRUNCATE {name.split()[0]}".encode())
            with connection.cursor().copy(f"COPY {name} FROM STDIN".encode()) as copy:
                copy.write(text)
        identities = connection.execute(
            "SELECT table_name, column_name FROM information_schema.columns WHERE is_identity = 'YES'"
            " AND table_schema = 'public'"
        ).fetchall()
        for table, column in identities:
            sequence = f"pg_get_serial_sequence('{table}', '{column}')"
            connection.execute(f"SELECT setval({sequence}, greatest(max({column}), 1)) FROM {table}".encode())
    return {"url": empty_database_url, "objects": content["objects"]}


def texts(findings: list[Finding]) -> dict[str, str]:
    """Return what was found, by subject; nothing is a problem."""
    assert not [finding for finding in findings if finding.is_problem]
    return {finding.subject: finding.text for finding in findings}


def test_upgrade_tells_what_goes_on(left: dict[str, Any]) -> None:
    """The tables move, every job and live run is there, and repeating it finds the same."""
    first = texts(upgrade(left["url"]))
    assert first["tables"].startswith("from version 0006 to ")
    assert first["jobs"] == "7 open, 2 changes that no leader has read"
    assert first["cluster lab"] == "4 runs go on"
    again = texts(upgrade(left["url"]))
    assert again["tables"].endswith("as before")
    assert {**again, "tables": first["tables"]} == first


def test_upgrade_is_refused_while_somebody_leads_or_is_connected(left: dict[str, Any]) -> None:
    """Nothing is changed before all services have stopped."""
    url = left["url"]
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE pools SET leader_id = 'x', expire_time = clock_timestamp() + interval '1 h'")
    with pytest.raises(NotAllowedNow, match="pool default by"):
        upgrade(url)
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE pools SET leader_id = ''")
    with (
        psycopg.connect(url, application_name="argosy-api"),
        psycopg.connect(url, application_name="argosy-maintenance"),  # as of a command that has just ended
        pytest.raises(NotAllowedNow, match=r": argosy-api \(1\); stop them"),
    ):
        upgrade(url)
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchone() == ("0006",)
    assert texts(upgrade(url))["cluster lab"] == "4 runs go on"


def test_upgrade_names_runs_that_nobody_would_take_over(left: dict[str, Any]) -> None:
    """What a leader could not go on with is a problem, with what to do about it."""
    with psycopg.connect(left["url"]) as connection:
        connection.execute("DELETE FROM clusters")
        connection.execute("DELETE FROM job_specs")
    problems = {finding.subject: finding for finding in upgrade(left["url"]) if finding.is_problem}
    assert problems["jobs"].text.endswith("without spec 7, without scheduling class 0, without job set 0")
    assert problems["cluster lab"].advice.startswith("start the executor of lab")


def test_stores_of_this_version_read_what_was_left(left: dict[str, Any]) -> None:
    """A leader loads all open jobs with their runs, labels and classes; the API lists them by label."""
    upgrade(left["url"])
    leader, api = LeaderStore(left["url"], "default"), ApiStore(left["url"])
    assert leader.try_lead("l", "h:1", 60) is not None
    loaded = leader.load()
    assert len(loaded.columns.jobs.handle) == 7
    assert len(loaded.columns.runs.handle) == 4
    assert {json.loads(text)["labels"].get("kind") for text in loaded.columns.jobs.metadata} == {"long", None}
    assert len(leader.read_changes(10)) == 2
    leader.close()
    api.close()


async def until(holds: Callable[[], Any]) -> None:
    """Wait for a condition, asked again and again."""
    async with asyncio.timeout(LONGEST_S):
        while not await holds():  # noqa: ASYNC110 - only calls and requests tell
            await asyncio.sleep(POLL_S)


async def jobs_of(server: Api) -> dict[str, Any]:
    """Return the jobs by client id."""
    selector = job_pb2.JobSelector(queue="red")
    found = (await server.jobs.ListJobs(job_pb2.ListJobsRequest(selector=selector))).jobs
    return {job.client_id: job for job in found}


async def test_new_mesh_takes_over_the_pods_that_run(left: dict[str, Any], tmp_path: Path) -> None:
    """Running pods go on and are told of, what waited runs once, what nobody had read is done, nothing runs twice."""
    await asyncio.to_thread(upgrade, left["url"])
    (port,) = free_ports(1)
    async with FakeKubeApi() as kube:
        for plural, documents in left["objects"].items():
            for document in documents:
                metadata = document["metadata"]
                kube.store.objects.setdefault(plural, {})[metadata.get("namespace", ""), metadata["name"]] = document
        kube.store.version = kube.store.floor = 1_000_000
        running = [pod for pod in kube.store.all("pods") if pod["status"]["phase"] == "Running"]
        assert len(running) == 4
        async with serve(left["url"], role="both", retention_days=36_500) as server:
            arguments = [
                *(sys.executable, "-m", "argosy_cluster_agent", "--cluster", "lab"),
                *("--cluster-address", f"kubernetes:{kube.write_kubeconfig(tmp_path / 'kubeconfig')}"),
                *("--server-addresses", server.app.server.address, "--grpc-listen", f"127.0.0.1:{port}"),
                *("--drain-s", "0.1"),
            ]
            agent = spawn(arguments, log=tmp_path / "log")
            try:
                await watch_it_go_on(server, kube, running)
            finally:
                await asyncio.to_thread(end_process, agent)


async def watch_it_go_on(server: Api, kube: FakeKubeApi, running: list[dict[str, Any]]) -> None:
    """See the old pods run on, end them, and see the others run."""

    def posts() -> int:
        return sum(method == "POST" and "/pods" in path for method, path in kube.faults.seen)

    async def has_begun() -> bool:
        has_listed = any(method == "GET" and "/pods" in path for method, path in kube.faults.seen)
        return has_listed and (await jobs_of(server))["cancelled"].HasField("end_time")

    await until(has_begun)
    jobs = await jobs_of(server)
    long = [name for name in jobs if name.startswith("long")]
    assert [jobs[name].state for name in long] == [job_pb2.JOB_STATE_RUNNING] * 4
    assert {pod["metadata"]["uid"] for pod in running} <= {pod["metadata"]["uid"] for pod in kube.store.all("pods")}
    assert posts() == 0  # the node is full
    for pod in running:
        kube.kubelets.finish(kube.store.find("pods", "default", pod["metadata"]["name"]), 0, "Completed")

    async def all_ended() -> bool:
        return all(job.HasField("end_time") for job in (await jobs_of(server)).values())

    await until(all_ended)
    jobs = await jobs_of(server)
    assert Counter(job.state for job in jobs.values()) == {
        job_pb2.JOB_STATE_SUCCEEDED: 9,
        job_pb2.JOB_STATE_CANCELLED: 1,
    }
    assert [[run.attempt for run in job.runs] for job in jobs.values() if job.client_id != "cancelled"] == [[1]] * 9
    assert posts() == 3
    assert await ids_of_repeat(server, jobs["waits"]) == [jobs["waits"].id, jobs["waits/1"].id]


async def ids_of_repeat(server: Api, job: Any) -> list[str]:
    """Submit two jobs again as before the upgrade; return their ids."""
    spec = (await server.jobs.GetJob(job_pb2.GetJobRequest(id=job.id))).job.spec
    item = job_pb2.JobItem(queue="red", job_set="one", client_id="waits", count=2, priority=3)
    return list((await server.jobs.SubmitJobs(job_pb2.SubmitJobsRequest(specs=[spec], items=[item]))).job_ids)
