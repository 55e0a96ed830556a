"""A leader whose database or log does not answer: who dials it is let in, or refused at once, and never kept waiting.

Source: design section 5, "Sync" and "Sampler session"; section 7, invariant 11.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import grpc
import psycopg
import pytest

from argosy.executor.v1 import executor_pb2, executor_pb2_grpc
from argosy.sampler.v1 import sampler_pb2, sampler_pb2_grpc
from argosy_core.errors import BackendUnavailable
from argosy_server.leader import role
from argosy_server.leader.settings import LeaderSettings
from argosy_store.log import PostgresLog
from argosy_store.schema.inspection import Finding, inspect_database

from .test_streams import place_everything

TIMEOUT_S = 50.0
ANSWER_S = 4.5
"""A sampler gives up a dial after 5 s."""
DIAL_COUNT = 40
"""More clusters than there are threads for calls that block, whatever the machine."""
LOOK_S = 1.0
"""How often a process looks who leads."""
SETTINGS = LeaderSettings(lease_s=1.5, heartbeat_s=0.5, fence_s=5.0)


def _rows(url: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as database:
        return database.execute(statement.encode()).fetchall()


async def _await_row(url: str, statement: str) -> None:
    """Wait until a request is answered by true."""
    async with asyncio.timeout(TIMEOUT_S):
        while await asyncio.to_thread(_rows, url, statement) != [(True,)]:  # noqa: ASYNC110 - only the database tells
            await asyncio.sleep(0.05)


async def _await_waiting(url: str, name: str) -> None:
    """Wait until a session of that name waits for a lock."""
    waiting = f"application_name = '{name}' AND wait_event_type = 'Lock'"
    await _await_row(url, f"SELECT count(*) > 0 FROM pg_stat_activity WHERE {waiting}")


@asynccontextmanager
async def _locked(url: str, table: str) -> AsyncIterator[None]:
    """Let nobody touch a table meanwhile."""
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE".encode())
        yield


def _hello(kind: str, cluster: str) -> Any:
    """Return the first message of a sampler or an executor."""
    fields: dict[str, Any] = {"cluster": cluster, "cluster_uid": f"uid-{cluster}", "pool": "default"}
    fields["process_id"] = bytes(16)
    if kind == "sampler":
        return sampler_pb2.SessionRequest(hello=sampler_pb2.Hello(**fields))
    return executor_pb2.SyncRequest(hello=executor_pb2.Hello(**fields))


async def _dial(api: Any, kind: str, cluster: str) -> str:
    """Dial as a cluster does; return the first answer's kind, the code of a refusal, or that there was no answer."""
    method: Any = (
        sampler_pb2_grpc.SamplerServiceStub(api.channel).Session
        if kind == "sampler"
        else executor_pb2_grpc.ExecutorServiceStub(api.channel).Sync
    )
    call = method()
    try:
        async with asyncio.timeout(ANSWER_S):
            await call.write(_hello(kind, cluster))
            first = await call.read()
            return (await call.code()).name if first is grpc.aio.EOF else str(first.WhichOneof("message"))
    except grpc.RpcError as error:
        return error.code().name
    except TimeoutError:
        return "no answer"
    finally:
        call.cancel()


async def _dial_many(api: Any) -> Counter[str]:
    """Dial as many clusters at once."""
    kinds = ("sampler", "executor")
    return Counter(await asyncio.gather(*(_dial(api, kinds[n % 2], f"many-{n}") for n in range(DIAL_COUNT))))


async def _await_welcome(api: Any) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while await _dial(api, "sampler", "c1") != "welcome":  # noqa: ASYNC110 - only the server tells
            await asyncio.sleep(0.05)


async def test_a_leader_whose_transaction_waits_refuses_sessions_and_takes_them_once_it_is_through(
    database_url: str, serve: Any
) -> None:
    """Binding a cluster's name waits behind the transaction, and so does the lease, which nobody else can take."""
    async with serve(database_url, role="both", leader_settings=SETTINGS) as api:
        await api.make_queue("red")
        await _await_welcome(api)
        ((epoch,),) = _rows(database_url, "SELECT epoch FROM pools")
        async with _locked(database_url, "job_set_events"):
            await api.submit({"client_id": "blocks"})
            await _await_waiting(database_url, "argosy-leader")
            assert [await _dial_many(api) for _ in range(2)] == [{"UNAVAILABLE": DIAL_COUNT}] * 2
        await _await_welcome(api)
        assert await _dial(api, "executor", "c1") == "welcome"
        assert await _dial_many(api) == {"welcome": DIAL_COUNT}
        assert _rows(database_url, "SELECT epoch FROM pools") == [(epoch,)]


class _GatedLog(PostgresLog):
    """A log that answers no append while its gate is closed, as one of a broker that is away."""

    gate = threading.Event()

    def append(self, epoch: int, sequence: int, payload: bytes, *, traceparent: str = "") -> int:
        """Wait for the gate, then append."""
        if not self.gate.wait(TIMEOUT_S):
            raise BackendUnavailable("the gate is closed")
        return super().append(epoch, sequence, payload, traceparent=traceparent)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Give the gate of servers' logs, open."""
    monkeypatch.setattr(role, "open_log", lambda config: _GatedLog(config.database_url, config.pool))
    _GatedLog.gate.set()
    yield _GatedLog.gate
    _GatedLog.gate.set()


async def test_a_leader_that_waits_for_its_log_takes_new_sessions_and_keeps_its_lease(
    database_url: str, serve: Any, gate: threading.Event
) -> None:
    """Only what it decided waits: clusters come and go meanwhile. `argosy admin check` says how it is."""
    async with serve(database_url, role="both", leader_settings=SETTINGS) as api:
        await api.make_queue("red")
        await _await_welcome(api)
        ((epoch,),) = _rows(database_url, "SELECT epoch FROM pools")
        executor = executor_pb2_grpc.ExecutorServiceStub(api.channel).Sync()
        await executor.write(_hello("executor", "c1"))
        call = sampler_pb2_grpc.SamplerServiceStub(api.channel).Session()
        await call.write(_hello("sampler", "c1"))
        placing = asyncio.create_task(place_everything(call))
        gate.clear()
        await api.submit({"client_id": "waits"})
        async with asyncio.timeout(TIMEOUT_S):
            while (found := await asyncio.to_thread(_pool_finding, database_url)).status == "ok":
                assert await _dial_many(api) == {"welcome": DIAL_COUNT}
        assert re.match(rf"led, epoch {epoch}, but its leader has published nothing since .* UTC \(\d+ s\)", found.text)
        kept = f"SELECT epoch = {epoch} AND expire_time > clock_timestamp() FROM pools"
        await _await_row(database_url, kept)  # a renewal may be late on a busy machine, and goes on
        gate.set()
        await _await_row(database_url, "SELECT count(*) > 0 FROM runs")
        await _await_row(database_url, "SELECT log_failure_time IS NULL FROM pools")
        async with asyncio.timeout(TIMEOUT_S):
            while f"led, epoch {epoch}, 0 records" not in (await asyncio.to_thread(_pool_finding, database_url)).text:
                pass  # what was published is applied a moment later
        placing.cancel()
        call.cancel()
        executor.cancel()


def _pool_finding(url: str) -> Finding:
    """Return what `argosy admin check` finds about the pool."""
    (found,) = [finding for finding in inspect_database(url, time.time_ns() // 1000) if finding.subject[:4] == "pool"]
    return found


async def test_a_leader_that_cannot_take_over_says_so_instead_of_pointing_to_itself(
    database_url: str, serve: Any
) -> None:
    """It holds the lease, and publishes its marker once the log answers; until then nobody is let in."""
    async with AsyncExitStack() as stack:
        locked = await stack.enter_async_context(AsyncExitStack())
        await locked.enter_async_context(_locked(database_url, "log_records"))
        lasting = replace(SETTINGS, lease_s=10.0)  # a lease that ran out on a busy machine would be nobody's
        api = await stack.enter_async_context(serve(database_url, role="both", leader_settings=lasting))
        await _await_row(database_url, "SELECT count(*) > 0 FROM pools WHERE leader_id <> ''")
        async with asyncio.timeout(TIMEOUT_S):
            while "redirect" in await _dial_many(api):
                pass  # until it has looked who leads it points to nobody
        begun_s = time.monotonic()
        while time.monotonic() - begun_s < 2 * LOOK_S:
            assert await _dial_many(api) == {"UNAVAILABLE": DIAL_COUNT}
        await locked.aclose()
        await _await_welcome(api)
