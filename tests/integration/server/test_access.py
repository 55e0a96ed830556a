"""Permissions of a running server: every method has a rule, and clusters speak for themselves alone."""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import grpc
import psycopg
import pytest
import structlog
import yaml
from prometheus_client import generate_latest

import argosy
from argosy.api.v1 import access_pb2, queue_pb2, server_pb2
from argosy.channel_credentials import INVITATION_PREFIX, hash_token, new_token
from argosy.executor.v1 import executor_pb2, executor_pb2_grpc
from argosy.sampler.v1 import sampler_pb2, sampler_pb2_grpc
from argosy_runtime.access.guard import AccessSettings, OidcSettings
from argosy_runtime.logs import set_up_logs
from argosy_runtime.metrics import METRICS_REGISTRY
from argosy_server.api.rules import RULES
from argosy_testkit.fake_issuer import CLIENT_ID, FakeIssuer

CERTIFICATES = Path(__file__).parents[2] / "certificates"

TIMEOUT_S = 50.0
ELSEWHERE = ("argosy.plugin.", "argosy.autoscale.", "argosy.sampler.v1.PlacementService")
"""Services that others than the server serve begin so."""
TOKENS = (
    {"name": "root"},
    {"name": "alice"},
    {"cluster": "west"},
    {"cluster": "west", "part": "sampler"},
)


def bearer(token: str) -> tuple[tuple[str, str], ...]:
    """Return the metadata of a call with a token."""
    return (("authorization", f"Bearer {token}"),)


@pytest.fixture
def access(tmp_path: Path) -> AccessSettings:
    """Give settings with the tokens `root`, `alice`, `west` and `west/sampler`, of whom root is an administrator."""
    entries = [{**entry, "sha256": hash_token("/".join(filter(None, (*entry.values(),))))} for entry in TOKENS]
    (tmp_path / "tokens.yaml").write_text(yaml.safe_dump({"tokens": entries}))
    return AccessSettings(tokens_file=str(tmp_path / "tokens.yaml"), admins=("user:root",), grants_keep_s=0.001)


def test_every_method_has_a_rule_and_every_rule_a_method() -> None:
    """A method of the protocol without a rule fails here, as does a rule whose method is gone."""
    modules = [
        importlib.import_module(module.name)
        for module in pkgutil.walk_packages(argosy.__path__, "argosy.")
        if module.name.endswith("_pb2")
    ]
    methods = {
        f"/{service.full_name}/{method.name}"
        for module in modules
        for service in module.DESCRIPTOR.services_by_name.values()
        for method in service.methods
        if not service.full_name.startswith(ELSEWHERE)
    }
    assert {path for path in RULES if not path.startswith("/grpc.")} == methods


async def refusal(call: Any) -> grpc.StatusCode:
    """Return the code with which a stream ends."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        async for _ in call:
            pass
    return caught.value.code()


def syncs(channel: grpc.aio.Channel, token: str, cluster: str) -> Any:
    """Return the stream of an executor that says it is of a cluster."""
    hello = executor_pb2.Hello(cluster=cluster, cluster_uid="uid", process_id=bytes(16), pool="default")
    requests = iter([executor_pb2.SyncRequest(hello=hello)])
    return executor_pb2_grpc.ExecutorServiceStub(channel).Sync(requests, metadata=bearer(token), timeout=TIMEOUT_S)


def sessions(channel: grpc.aio.Channel, token: str, cluster: str) -> Any:
    """Return the stream of a sampler that says it is of a cluster."""
    hello = sampler_pb2.Hello(cluster=cluster, cluster_uid="uid", process_id=bytes(16), pool="default")
    requests = iter([sampler_pb2.SessionRequest(hello=hello)])
    return sampler_pb2_grpc.SamplerServiceStub(channel).Session(requests, metadata=bearer(token), timeout=TIMEOUT_S)


async def test_cluster_speaks_for_no_other_whatever_its_hello_says(
    serve: Any, database_url: str, access: AccessSettings
) -> None:
    """A hello of another cluster, a part of another kind and a person are refused before anything is bound."""
    async with serve(database_url, role="both", access=access) as api:
        denied = grpc.StatusCode.PERMISSION_DENIED
        assert await refusal(syncs(api.channel, "west", "east")) == denied
        assert await refusal(sessions(api.channel, "west", "east")) == denied
        assert await refusal(syncs(api.channel, "west/sampler", "west")) == denied
        assert await refusal(syncs(api.channel, "root", "west")) == denied
        with psycopg.connect(database_url) as connection:
            assert connection.execute("SELECT count(*) FROM clusters").fetchone() == (0,)


async def test_cluster_is_let_in_with_its_own_name(serve: Any, database_url: str, access: AccessSettings) -> None:
    """The token of a cluster opens both streams for it."""
    async with serve(database_url, role="both", access=access) as api:
        hello = executor_pb2.Hello(cluster="west", cluster_uid="uid", process_id=bytes(16), pool="default")
        for stub, request in (
            (executor_pb2_grpc.ExecutorServiceStub(api.channel).Sync, executor_pb2.SyncRequest(hello=hello)),
            (
                sampler_pb2_grpc.SamplerServiceStub(api.channel).Session,
                sampler_pb2.SessionRequest(
                    hello=sampler_pb2.Hello(cluster="west", cluster_uid="uid", process_id=bytes(16), pool="default")
                ),
            ),
        ):
            answer = await welcome(stub, request)
            assert answer.WhichOneof("message") == "welcome"


async def welcome(method: Any, request: Any) -> Any:
    """Return the first answer to a hello, which is said again until the process leads."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            call = method(metadata=bearer("west"))
            try:
                await call.write(request)
                answer = await call.read()
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                answer = grpc.aio.EOF
            call.cancel()
            if answer is not grpc.aio.EOF and answer.WhichOneof("message") == "welcome":
                return answer


async def test_server_that_asks_nobody_lets_everybody(serve: Any, database_url: str) -> None:
    """Nothing configured is as it was: no token, and everything allowed."""
    async with serve(database_url) as api:
        await api.make_queue("red")
        assert await api.server.GetServerInfo(server_pb2.GetServerInfoRequest())


async def test_token_of_an_issuer_opens_the_api(serve: Any, database_url: str) -> None:
    """Groups that the issuer names are granted roles like any other; a token for others is refused."""
    with FakeIssuer(CERTIFICATES / "server.pem", CERTIFICATES / "server.key") as issuer:
        oidc = OidcSettings(
            issuer=issuer.url, audiences=(CLIENT_ID,), authority_file=str(CERTIFICATES / "authority.pem")
        )
        async with serve(database_url, access=AccessSettings(oidc=oidc, admins=("group:research",))) as api:
            request = access_pb2.WhoAmIRequest()
            who = await api.access.WhoAmI(request, metadata=bearer(issuer.token()))
            assert (who.name, list(who.roles)) == ("alice", ["admin"])
            for token in (issuer.token(aud="others"), "static"):
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await api.access.WhoAmI(request, metadata=bearer(token))
                assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED


def write_root(access: AccessSettings, token: str) -> None:
    """Let a token, and no other, be root's."""
    tokens = {"tokens": [{"name": "root", "sha256": hash_token(token)}]}
    Path(access.tokens_file).write_text(yaml.safe_dump(tokens))


@pytest.fixture
def logs() -> Iterator[StringIO]:
    """Give what is logged from now on, whatever another test has made of the logs of this process."""
    before = structlog.get_config()
    stream = StringIO()
    set_up_logs("server", stream=stream)
    yield stream
    structlog.contextvars.clear_contextvars()
    structlog.configure(**before)


async def test_no_token_is_told_to_anybody(
    serve: Any, database_url: str, access: AccessSettings, logs: StringIO
) -> None:
    """Whatever callers send as proof, good or bad, is in no answer, log, metric or row."""
    with FakeIssuer(CERTIFICATES / "server.pem", CERTIFICATES / "server.key") as issuer:
        authority = str(CERTIFICATES / "authority.pem")
        oidc = OidcSettings(issuer=issuer.url, audiences=(CLIENT_ID,), authority_file=authority)
        good = (new_token(), issuer.token(sub="root", groups=[]))
        forged = issuer.token(sub="root") + "x"
        bad = (
            "unknown-static-token",
            issuer.token(aud="others"),
            issuer.token(exp=1),
            forged,
            INVITATION_PREFIX + "stray",
        )
        write_root(access, good[0])
        told: list[str] = []
        async with serve(database_url, access=replace(access, oidc=oidc)) as api:
            for number, token in enumerate(good):
                queue = queue_pb2.Queue(name=f"q{number}")
                await api.queues.CreateQueue(queue_pb2.CreateQueueRequest(queue=queue), metadata=bearer(token))
            for token in bad:
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await api.access.WhoAmI(access_pb2.WhoAmIRequest(), metadata=bearer(token))
                assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED
                told.append(str(caught.value))
            issuer.close()
            audit = await api.access.ListAuditRecords(access_pb2.ListAuditRecordsRequest(), metadata=bearer(good[1]))
            told.append(str(audit))
            assert len(audit.records) >= len(good)
        told += [logs.getvalue(), generate_latest(METRICS_REGISTRY).decode()]
        with psycopg.connect(database_url) as connection:
            names = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
            for (name,) in names:
                told.append(str(connection.execute(f'SELECT t::text FROM "{name}" t').fetchall()))
    everything = "\n".join(told)
    assert all(sign in everything for sign in ("listening", "argosy_", "q1"))
    for token in (*good, *bad):
        assert token not in everything
        assert token.rpartition(".")[2] not in everything


async def test_administrator_is_who_the_settings_name(serve: Any, database_url: str, access: AccessSettings) -> None:
    """The first administrator needs no grant; others make no queue."""
    async with serve(database_url, access=access) as api:
        request = queue_pb2.CreateQueueRequest(queue=queue_pb2.Queue(name="red"))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await api.queues.CreateQueue(request, metadata=bearer("alice"))
        assert caught.value.code() == grpc.StatusCode.PERMISSION_DENIED
        assert (await api.queues.CreateQueue(request, metadata=bearer("root"))).queue.name == "red"
