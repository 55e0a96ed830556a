"""A whole mesh whose event log is on a real Pulsar broker: bad days of the broker, of the log, and of the leader.

Source: design section 5, "Ingest", "Leader lost"; section 7, invariants 1, 2, 6 and 11.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pulsar
import pytest

from argosy.api.v1 import event_pb2
from argosy.lease.v1 import lease_pb2
from argosy_client import ArgosyClient, JobDraft, JobEvent, Queue, RetryPolicy
from argosy_eventlog.pulsar import PulsarSettings
from argosy_eventlog.pulsar.admin import AdminApi, set_up_events
from argosy_kube.simulated.client import SimulatedCluster
from argosy_local.compose import ClusterPlan, MeshPlan
from argosy_local.mesh import Mesh
from argosy_local.mesh_log import MeshLog
from argosy_local.mesh_state import read_state
from argosy_local.processes import end_process, free_ports, spawn

pytestmark = [pytest.mark.timeout(240)]

QUICK = {
    "server": [
        *("--leader-lease-s", "2", "--leader-heartbeat-s", "1", "--pulsar-publish-timeout-s", "8"),
        *("--leader-max-record-bytes", "300"),
    ],
    "sampler": ["--connect-timeout-s", "1"],
    "executor": ["--connect-timeout-s", "1"],
}
"""Flags by which the dead are replaced within seconds, and a round of some jobs needs several records."""
END_S = 90.0
JOBS_PER_CALL = 10
LEAST_CALLS_AWAY = 25
POD = json.dumps(
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "main", "annotations": {"argosy.dev/simulated-run-time": "0.2s-0.6s"}},
        "spec": {
            "containers": [
                {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1", "memory": "64Mi"}}}
            ]
        },
    }
)


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory, pulsar_broker: Any) -> Iterator[Mesh]:
    """One cluster, two processes that may lead, and the broker between them and the database."""
    settings = PulsarSettings(admin_url=pulsar_broker.admin_url)
    set_up_events(AdminApi(pulsar_broker.service_url, settings), settings, ["default"])
    mesh = Mesh(tmp_path_factory.mktemp("mesh") / "mesh")
    plan = MeshPlan(
        clusters=(ClusterPlan(name="c1", kinds="20:cpu=4,memory=16Gi"),),
        standby_count=1,
        event_log_url=pulsar_broker.service_url,
        event_log_admin_url=pulsar_broker.admin_url,
        flags={**QUICK, "server": [*QUICK["server"], "--events-url", pulsar_broker.service_url]},
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_TRACES_EXPORTER", "console")  # rounds are traced; spans go to the processes' own files
        mesh.up(plan)
        try:
            yield mesh
        finally:
            mesh.down()


@asynccontextmanager
async def _client(mesh: Mesh, queue: str) -> AsyncIterator[ArgosyClient]:
    async with ArgosyClient(mesh.server, retries=RetryPolicy(total_s=60.0)) as client:
        await client.create_queue(Queue(name=queue))
        yield client


async def _submit(client: ArgosyClient, queue: str, call: int) -> list[str]:
    drafts = [
        JobDraft(queue=queue, job_set="all", manifests=(POD,), client_id=f"{queue}-{call}-{number}")
        for number in range(JOBS_PER_CALL)
    ]
    return list(await client.submit(drafts))


async def _check_end(mesh: Mesh, client: ArgosyClient, queue: str, ids: list[str]) -> None:
    """Every job ran once and succeeded, its events are numbered without gap, no node was given away twice."""
    events: list[JobEvent] = []
    async with asyncio.timeout(END_S):
        async for batch in client.watch(queue, "all", until_finished=True):
            events.extend(batch.events)
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    for kind in ("submitted", "leased", "succeeded"):
        counts = Counter(event.job_id for event in events if event.kind == kind)
        assert set(counts) == set(ids)
        assert set(counts.values()) == {1}
    cluster = SimulatedCluster(mesh.address("cluster-c1"), installation="argosy")
    try:
        audit = await cluster.audit()
    finally:
        await cluster.close()
    assert (audit.double_runs, audit.overcommits) == (0, 0)


def _pool(mesh: Mesh) -> tuple[str, int, int]:
    """Return address, epoch and log position of the pool, as the database knows them."""
    with psycopg.connect(mesh.database_url) as database:
        row = database.execute("SELECT address, epoch, log_position FROM pools").fetchone()
    assert row is not None
    return row[0], row[1], row[2]


def _leading_role(mesh: Mesh) -> str:
    address, _, _ = _pool(mesh)
    return next(role for role in ("leader", "leader-2") if mesh.address(role) == address)


def _log_topic(mesh: Mesh) -> str:
    state = read_state(mesh.directory)
    assert state is not None
    return f"persistent://argosy/{MeshLog.of(state.event_log).namespace}/leases-default"


async def test_jobs_go_through_the_log_on_pulsar(mesh: Mesh) -> None:
    """The database holds positions of the topic and no records of its own."""
    async with _client(mesh, "plain") as client:
        ids = [job for call in range(5) for job in await _submit(client, "plain", call)]
        await _check_end(mesh, client, "plain", ids)
    with psycopg.connect(mesh.database_url) as database:
        assert database.execute("SELECT count(*) FROM log_records").fetchone() == (0,)
    assert _pool(mesh)[2] > 1 << 24  # a position of ours; those of Postgres count from 1


async def test_record_of_a_traced_round_carries_its_context_as_a_property(mesh: Mesh, pulsar_broker: Any) -> None:
    """A consumer of the topic finds in the message's properties what stands in the record, without our proto files."""
    async with _client(mesh, "traced") as client:
        with _reader_of_news(pulsar_broker.service_url, _log_topic(mesh)) as next_message:
            ids = await _submit(client, "traced", 0)
            message = await asyncio.to_thread(next_message)
            while not (record := lease_pb2.LeaseBatch.FromString(message.data())).traceparent:
                message = await asyncio.to_thread(next_message)  # a marker, or a round of ends
        assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}", record.traceparent)
        assert message.properties()["traceparent"] == record.traceparent
        await _check_end(mesh, client, "traced", ids)


@contextmanager
def _reader_of_news(url: str, topic: str) -> Iterator[Callable[[], Any]]:
    """Give what waits for the next message of a topic, from now on."""
    client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        reader = client.create_reader(topic, pulsar.MessageId.latest)
        yield lambda: reader.read_next(timeout_millis=30_000)
    finally:
        client.close()


async def test_other_systems_read_what_happened_from_the_relay_s_topic(
    mesh: Mesh, pulsar_broker: Any, tmp_path: Path
) -> None:
    """A relay that starts late catches up; events of a job set come in order, and none is missing."""
    async with _client(mesh, "relayed") as client:
        ids = [job for call in range(3) for job in await _submit(client, "relayed", call)]
        (port,) = free_ports(1)
        relay = spawn(
            [
                *(sys.executable, "-m", "argosy_server", "--role", "relay", "--grpc-listen", f"127.0.0.1:{port}"),
                *("--database-url", mesh.database_url, "--events-url", pulsar_broker.service_url),
            ],
            log=tmp_path / "relay.log",
        )
        try:
            await _check_end(mesh, client, "relayed", ids)
            events = await asyncio.to_thread(_read_relayed, pulsar_broker.service_url, "relayed/all", len(ids))
            async with asyncio.timeout(END_S):
                while _outbox_count(mesh):  # noqa: ASYNC110 - only the database tells
                    await asyncio.sleep(0.05)
        finally:
            end_process(relay)
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    kinds = Counter(event_pb2.JobEventKind.Name(event.kind) for event in events)
    assert kinds["JOB_EVENT_KIND_SUBMITTED"] == kinds["JOB_EVENT_KIND_SUCCEEDED"] == len(ids)
    assert {event.job_id for event in events} == set(ids)


def _outbox_count(mesh: Mesh) -> int:
    with psycopg.connect(mesh.database_url) as database:
        row = database.execute("SELECT count(*) FROM event_outbox").fetchone()
    assert row is not None
    return int(row[0])


def _read_relayed(url: str, key: str, job_count: int) -> list[event_pb2.JobEvent]:
    """Return the events of a job set up to the end of its last job."""
    client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    reader = client.create_reader(PulsarSettings().events_topic("default"), pulsar.MessageId.earliest)
    events: list[event_pb2.JobEvent] = []
    while sum(event.kind == event_pb2.JOB_EVENT_KIND_SUCCEEDED for event in events) < job_count:
        message = reader.read_next(timeout_millis=30_000)
        if message.partition_key() == key:
            events.extend(event_pb2.WatchJobSetResponse.FromString(message.data()).events)
    reader.close()
    client.close()
    return events


async def test_no_job_is_lost_or_run_twice_when_the_broker_is_killed(mesh: Mesh, pulsar_broker: Any) -> None:
    """A publish under way has an unknown result: it is repeated, or the epoch is given up; either way once."""
    async with _client(mesh, "kill") as client:
        ids: list[str] = []
        for call in range(40):
            ids += await _submit(client, "kill", call)
            if call == 15:
                await asyncio.to_thread(pulsar_broker.kill)
                starting = asyncio.create_task(asyncio.to_thread(pulsar_broker.start))
            await asyncio.sleep(0.05)
        await starting
        await _check_end(mesh, client, "kill", ids)


async def test_no_job_is_lost_or_run_twice_when_leaders_are_killed(mesh: Mesh) -> None:
    """Effects and position are one transaction: a successor applies what was published and not yet stored, once."""
    _, epoch, position = _pool(mesh)
    async with _client(mesh, "leaders") as client:
        ids: list[str] = []
        for call in range(40):
            ids += await _submit(client, "leaders", call)
            if call in {10, 25}:
                role = _leading_role(mesh)
                await asyncio.to_thread(mesh.kill, role)
                await asyncio.to_thread(mesh.start, role)
            await asyncio.sleep(0.05)
        await _check_end(mesh, client, "leaders", ids)
    assert _pool(mesh)[1] > epoch
    assert _pool(mesh)[2] > position


async def test_submits_are_taken_while_the_broker_is_away_and_the_leader_recovers_alone(
    mesh: Mesh, pulsar_broker: Any
) -> None:
    """The leader gives up its epoch and tries again, in bounded memory; clients notice nothing but the wait."""
    _, epoch, _ = _pool(mesh)
    async with _client(mesh, "away") as client:
        ids = await _submit(client, "away", 0)
        await asyncio.to_thread(pulsar_broker.kill)
        try:
            before = {role: mesh.usage(role).rss_bytes for role in ("leader", "leader-2")}
            given_up_until_s = time.monotonic() + END_S
            call = 1
            while _pool(mesh)[1] == epoch or call < LEAST_CALLS_AWAY:
                assert time.monotonic() < given_up_until_s, "the leader should have given up its epoch"
                ids += await _submit(client, "away", call)  # answered while the broker is away, so without it
                call += 1
                await asyncio.sleep(0.2)
            grown = {role: mesh.usage(role).rss_bytes - before[role] for role in before}
            assert max(grown.values()) < 100 << 20
        finally:
            await asyncio.to_thread(pulsar_broker.start)
        await _check_end(mesh, client, "away", ids)


async def test_poison_in_the_log_is_quarantined_and_a_successor_goes_on(mesh: Mesh, pulsar_broker: Any) -> None:
    """What cannot be read is kept where it can be looked at, and leases behind it are ingested."""
    async with _client(mesh, "poison") as client:
        ids = await _submit(client, "poison", 0)
        await _check_end(mesh, client, "poison", ids)
        # The leader goes first: while it is there, nobody else may publish.
        role = _leading_role(mesh)
        await asyncio.to_thread(mesh.kill, "leader")
        await asyncio.to_thread(mesh.kill, "leader-2")
        try:
            await asyncio.to_thread(_publish_poison, pulsar_broker.service_url, _log_topic(mesh))
        finally:
            await asyncio.to_thread(mesh.start, "leader" if role == "leader-2" else "leader-2")
            await asyncio.to_thread(mesh.start, role)
        ids += await _submit(client, "poison", 1)
        await _check_end(mesh, client, "poison", ids)
    with psycopg.connect(mesh.database_url) as database:
        rows = database.execute("SELECT payload, position FROM quarantine").fetchall()
    assert [bytes(row[0]) for row in rows] == [b"\xff\xff poison"]
    assert rows[0][1] < _pool(mesh)[2]


def _publish_poison(url: str, topic: str) -> None:
    client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    deadline_s = time.monotonic() + 100
    while True:
        try:
            producer = client.create_producer(topic, batching_enabled=False)
            break
        except pulsar.PulsarException:  # the broker has not noticed yet that the leader is dead
            assert time.monotonic() < deadline_s
            time.sleep(0.1)
    producer.send(b"\xff\xff poison", properties={"epoch": "1000", "sequence": "1"})
    producer.close()
    client.close()


async def test_a_log_that_lost_everything_stops_nobody(mesh: Mesh) -> None:
    """The database is the truth: a position beyond the log's end means another log, which is taken up at its end."""
    async with _client(mesh, "lost") as client:
        role = _leading_role(mesh)
        for one in ("leader", "leader-2"):
            await asyncio.to_thread(mesh.kill, one)
        with psycopg.connect(mesh.database_url) as database:
            database.execute("UPDATE pools SET log_position = %s", [1 << 60])
        await asyncio.to_thread(mesh.start, role)
        ids = await _submit(client, "lost", 0)
        await _check_end(mesh, client, "lost", ids)
        assert _pool(mesh)[2] < 1 << 60
