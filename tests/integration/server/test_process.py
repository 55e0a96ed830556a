"""Tests of argosy-server as a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import psycopg
import pytest
import structlog
from grpc_health.v1 import health_pb2, health_pb2_grpc
from psycopg.conninfo import conninfo_to_dict
from tests.integration.server.conftest import make_config

from argosy.api.v1 import queue_pb2, queue_pb2_grpc
from argosy_runtime.lifecycle import Lifecycle
from argosy_server.__main__ import main
from argosy_server.app import start_server
from argosy_store.embedded import EmbeddedPostgres


@contextmanager
def server_process(*flags: str) -> Iterator[subprocess.Popen[str]]:
    """Run the server with flags; it is gone afterwards."""
    command = [sys.executable, "-m", "argosy_server", "--role", "api", "--grpc-listen", "127.0.0.1:0", *flags]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def read_logs(process: subprocess.Popen[str], until: str) -> list[dict[str, Any]]:
    """Return log lines up to one with an event."""
    lines: list[dict[str, Any]] = []
    assert process.stderr is not None
    for line in process.stderr:
        lines.append(json.loads(line))
        if lines[-1]["event"] == until:
            return lines
    raise AssertionError(f"the process ended before {until!r}: {lines}")


async def test_busy_thread_hands_the_interpreter_over_within_a_quarter_of_a_millisecond(database_url: str) -> None:
    """The event loop asks for it many times in each call, so what computes for one caller holds up all others less."""
    before, found = sys.getswitchinterval(), []
    life = Lifecycle("server", drain_s=2.0)

    async def start(of: Lifecycle) -> None:
        await start_server(make_config(database_url), of)
        found.append(sys.getswitchinterval())
        of.request_stop()

    try:
        await life.run(start)
    finally:
        sys.setswitchinterval(before)
    assert found == [pytest.approx(0.000_25)]


def test_server_process_serves_and_drains_on_sigterm(database_url: str) -> None:
    """It logs its configuration without secrets, serves, answers health, and leaves with 0 when asked to."""
    with server_process("--database-url", database_url) as process:
        logs = read_logs(process, "listening")
        assert logs[0]["event"] == "configuration"
        assert logs[0]["config"]["api"]["gather_ms"] == 2.0
        assert all(line["service"] == "server" for line in logs)
        with grpc.insecure_channel(logs[-1]["address"]) as channel:
            health = health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(service="argosy.api.v1.JobService"), timeout=60
            )
            assert health.status == health_pb2.HealthCheckResponse.SERVING
            stub = queue_pb2_grpc.QueueServiceStub(channel)
            stub.CreateQueue(queue_pb2.CreateQueueRequest(queue=queue_pb2.Queue(name="red")), timeout=60)
        process.send_signal(signal.SIGTERM)
        assert [line["event"] for line in read_logs(process, "stopped")][-2:] == ["draining", "stopped"]
        assert process.wait(timeout=20) == 0


def test_leader_tells_an_address_of_ipv6_as_it_is_dialled(database_url: str) -> None:
    """Manifests put `$(POD_IP)` before the port, without brackets."""
    flags = ("--role", "leader", "--pool", "six", "--advertise", "fd00::7:50051")
    with server_process("--database-url", database_url, *flags) as process:
        read_logs(process, "leading")
        with psycopg.connect(database_url) as connection:
            rows = connection.execute("SELECT address FROM pools WHERE pool = 'six'").fetchall()
    assert rows == [("[fd00::7]:50051",)]


def test_server_is_not_ready_while_it_has_no_database(database_url: str, postgres_server: EmbeddedPostgres) -> None:
    """A service sends calls to others meanwhile; it goes on by itself, and its process was alive all the time."""
    name = conninfo_to_dict(database_url)["dbname"]

    def allow(*, connections: bool) -> None:
        with psycopg.connect(postgres_server.url, autocommit=True) as connection:
            connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS {connections}'.encode())
            if not connections:
                connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])

    with server_process("--database-url", database_url, "--not-ready-after-s", "0.5") as process:
        address = read_logs(process, "listening")[-1]["address"]
        with grpc.insecure_channel(address) as channel:

            def health(service: str = "") -> int:
                request = health_pb2.HealthCheckRequest(service=service)
                return int(health_pb2_grpc.HealthStub(channel).Check(request, timeout=60).status)

            while health() != health_pb2.HealthCheckResponse.SERVING:
                pass  # on a slow machine a look at the database may take longer than it may, too
            allow(connections=False)
            read_logs(process, "not ready")
            while health() == health_pb2.HealthCheckResponse.SERVING:
                pass  # the answer follows the word
            assert health("liveness") == health_pb2.HealthCheckResponse.SERVING
            allow(connections=True)
            read_logs(process, "ready again")
            while health() != health_pb2.HealthCheckResponse.SERVING:
                pass


@pytest.fixture
def plain_logs() -> Iterator[None]:
    """Undo what a server's main does to the logs of this process."""
    yield
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


@pytest.mark.parametrize(
    ("reason", "text"), [("not migrated", "run `argosy admin migrate`"), ("no database", "Postgres cannot serve now")]
)
def test_server_says_why_it_cannot_start(
    *, reason: str, text: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str], plain_logs: None
) -> None:
    """A database that cannot be used is one line with the reason and exit code 2, without a traceback."""
    url = "postgresql://nobody@127.0.0.1:1/none?connect_timeout=1"
    if reason == "not migrated":
        url = request.getfixturevalue("empty_database_url")
    assert main(["--role", "api", "--grpc-listen", "127.0.0.1:0", "--database-url", url]) == 2
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [text in line["reason"] for line in lines if line["event"] == "cannot run"] == [True]
    assert "Traceback" not in json.dumps(lines)
