"""Who calls is known before a message is read: tokens, certificates, acting as others, and streams that end."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import ssl
import warnings
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml
from grpc_health.v1 import health_pb2, health_pb2_grpc

from argosy.api.v1 import event_pb2, event_pb2_grpc, queue_pb2, queue_pb2_grpc
from argosy.channel_credentials import ChannelCredentials, UnusableCredentialsError, hash_token, open_aio_channel
from argosy_core.access import ANYONE, Grant, Permissions, Principal, Role, Rule, Verb, permissions_of
from argosy_core.errors import InvalidRequest
from argosy_runtime.access.files import WatchedFiles
from argosy_runtime.access.guard import CALLER, AccessSettings, Guard
from argosy_runtime.access.tokens import TokenFile, read_tokens
from argosy_runtime.grpc_server import GrpcServer, GrpcSettings

CERTIFICATES = Path(__file__).parents[2] / "certificates"
GET = "/argosy.api.v1.QueueService/GetQueue"
WATCH = "/argosy.api.v1.EventService/WatchJobSet"
RULES: Mapping[str, Rule] = {GET: ANYONE, WATCH: Rule(verb=Verb.WATCH)}
ALICE = {"name": "alice", "groups": ["research"], "sha256": hash_token("alice's")}
SERVER = {"server": True, "sha256": hash_token("server's")}
FACADE = {"name": "facade", "sha256": hash_token("facade's")}


class Queues(queue_pb2_grpc.QueueServiceServicer):
    """Answers who called, as the name of a queue; a request named `broken` is never read."""

    async def GetQueue(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        """Answer with the caller."""
        principal = CALLER.get().principal
        return queue_pb2.GetQueueResponse(queue=queue_pb2.Queue(name=principal.name, namespaces=principal.groups))


class Events(event_pb2_grpc.EventServiceServicer):
    """Streams one answer and then waits for ever."""

    async def WatchJobSet(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802 - the protocol's name
        """Send one batch and wait."""
        CALLER.get().require(Verb.WATCH, request.queue)
        yield event_pb2.WatchJobSetResponse(cursor="one")
        await asyncio.Event().wait()


class Door:
    """A server with a guard, its tokens and what is granted."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        """Write the tokens."""
        self.file = folder / "tokens.yaml"
        self.write_tokens(ALICE, SERVER, FACADE)
        self.grants = [
            Grant(subject="group:research", queue="red", verb="watch"),
            Grant(subject="user:root", queue="", verb="admin"),
            Grant(subject="user:facade", queue="", verb="impersonator"),
        ]
        access = AccessSettings(tokens_file=str(self.file), check_again_s=0.02)
        self.server = GrpcServer(
            GrpcSettings(listen="127.0.0.1:0", **settings),
            guard=Guard(access, rules=RULES, permissions_of=self._permissions_of),
        )
        self.server.add(queue_pb2_grpc.add_QueueServiceServicer_to_server, Queues(), "argosy.api.v1.QueueService")
        self.server.add(event_pb2_grpc.add_EventServiceServicer_to_server, Events(), "argosy.api.v1.EventService")

    async def _permissions_of(self, principal: Principal) -> Permissions:
        return permissions_of(principal, self.grants)

    def write_tokens(self, *entries: Mapping[str, Any]) -> None:
        """Write the file of tokens."""
        self.file.write_text(yaml.safe_dump({"tokens": [dict(entry) for entry in entries]}), encoding="utf-8")


@asynccontextmanager
async def open_door(folder: Path, **settings: Any) -> AsyncIterator[tuple[Door, grpc.aio.Channel]]:
    """Run a guarded server with a channel to it."""
    door = Door(folder, **settings)
    await door.server.start()
    channel = grpc.aio.insecure_channel(door.server.address)
    try:
        yield door, channel
    finally:
        await channel.close()
        await door.server.stop(0)


def bearer(token: str, **more: str) -> tuple[tuple[str, str], ...]:
    """Return the metadata of a call with a token."""
    return (("authorization", f"Bearer {token}"), *((key.replace("_", "-"), value) for key, value in more.items()))


async def ask(channel: grpc.aio.Channel, *metadata: tuple[str, str]) -> tuple[str, tuple[str, ...]]:
    """Return who the server takes a caller for."""
    answer = await queue_pb2_grpc.QueueServiceStub(channel).GetQueue(
        queue_pb2.GetQueueRequest(name="x"), metadata=metadata, timeout=5
    )
    return answer.queue.name, tuple(answer.queue.namespaces)


async def code_of(call: Any) -> grpc.StatusCode:
    """Return the code that a call fails with."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code()


async def test_caller_is_whose_token_was_sent(tmp_path: Path) -> None:
    """A known token names a user and groups; an unknown, a malformed and a missing one are refused."""
    async with open_door(tmp_path) as (_, channel):
        assert await ask(channel, *bearer("alice's")) == ("alice", ("research",))
        for metadata in (bearer("bob's"), (), (("authorization", "Basic x"),), bearer("alice's") * 2):
            assert await code_of(ask(channel, *metadata)) == grpc.StatusCode.UNAUTHENTICATED


async def test_flood_of_invented_tokens_gets_nobody_in_and_keeps_nobody_out(tmp_path: Path) -> None:
    """Each is refused, or told that there are too many; a known one on another connection is served beside."""
    async with open_door(tmp_path) as (door, channel):
        own: Any = [("grpc.use_local_subchannel_pool", 1)]
        async with grpc.aio.insecure_channel(door.server.address, options=own) as other:
            flood = [
                ask(channel, *bearer(f"{kind}{number}")) for number in range(30) for kind in ("", "argosy_", "a.b.")
            ]
            held = asyncio.gather(*map(code_of, flood))
            assert await ask(other, *bearer("alice's")) == ("alice", ("research",))
            assert set(await held) <= {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.RESOURCE_EXHAUSTED}


async def test_stranger_is_refused_before_a_message_is_read(tmp_path: Path) -> None:
    """Bytes that are no message of the method get the answer about the caller, not the one about the bytes."""
    async with open_door(tmp_path) as (_, channel):
        assert await code_of(channel.unary_unary(GET)(b"\xff", timeout=50)) == grpc.StatusCode.UNAUTHENTICATED


async def test_method_without_a_rule_is_nobodys(tmp_path: Path) -> None:
    """What is not in the table is denied to whoever has proved who they are, too."""
    async with open_door(tmp_path) as (_, channel):
        call = channel.unary_unary("/argosy.api.v1.QueueService/ListQueues")(b"", timeout=5, metadata=bearer("alice's"))
        assert await code_of(call) == grpc.StatusCode.PERMISSION_DENIED


async def test_health_asks_nobody(tmp_path: Path) -> None:
    """A probe has no token."""
    async with open_door(tmp_path) as (_, channel):
        answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=50)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def test_acting_as_another_needs_to_be_a_server_or_the_role(tmp_path: Path) -> None:
    """A server passes on whom it serves, a facade acts for users, and nobody else does either."""
    as_bob = {"argosy_acting_as": "bob"}
    async with open_door(tmp_path) as (_, channel):
        assert await ask(channel, *bearer("server's", **as_bob)) == ("bob", ())
        assert await ask(channel, *bearer("facade's", **as_bob)) == ("bob", ())
        assert await code_of(ask(channel, *bearer("alice's", **as_bob))) == grpc.StatusCode.PERMISSION_DENIED
        odd = bearer("server's", argosy_acting_as="bob, the admin")
        assert await code_of(ask(channel, *odd)) == grpc.StatusCode.UNAUTHENTICATED


def test_facade_gets_no_roles_of_whom_it_acts_as() -> None:
    """Who acts as an administrator has what the administrator has on queues, and does not administer."""
    grants = [Grant(subject="user:root", queue="", verb="admin"), Grant(subject="user:root", queue="red", verb="watch")]
    acted = permissions_of(Principal(name="root", acted_by="facade"), grants)
    assert (acted.roles, acted.queues_for(Verb.WATCH)) == (frozenset(), frozenset({"red"}))
    assert permissions_of(Principal(name="root"), grants).roles == {Role.ADMIN}


@pytest.mark.parametrize("loss", ["token", "grant"])
async def test_stream_ends_when_its_caller_loses_what_it_takes(tmp_path: Path, loss: str) -> None:
    """A revoked token, and a revoked grant, end the streams that were opened with them."""
    async with open_door(tmp_path) as (door, channel):
        stream = event_pb2_grpc.EventServiceStub(channel).WatchJobSet(
            event_pb2.WatchJobSetRequest(queue="red", job_set="one"), metadata=bearer("alice's"), timeout=5
        )
        assert (await anext(aiter(stream))).cursor == "one"
        if loss == "token":
            door.write_tokens(SERVER)
        else:
            door.grants[:] = [Grant(subject="user:alice", queue="blue", verb="watch")]
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await anext(aiter(stream))
        wanted = grpc.StatusCode.UNAUTHENTICATED if loss == "token" else grpc.StatusCode.PERMISSION_DENIED
        assert caught.value.code() == wanted


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("tokens: 3", "list"),
        ("[", "YAML"),
        ("tokens: [{name: a, sha256: xx}]", "sha256"),
        (f"tokens: [{{name: a b, sha256: {'a' * 64}}}]", "without spaces"),
        (f"tokens: [{{name: a, cluster: b, sha256: {'a' * 64}}}]", "one of"),
        (f"tokens: [{{cluster: b, part: brain, sha256: {'a' * 64}}}]", "executor, sampler"),
        (f"tokens: [{{name: a, token: secret, sha256: {'a' * 64}}}]", "keys"),
        (f"tokens: [{{name: a, groups: x, sha256: {'a' * 64}}}]", "groups"),
    ],
)
def test_file_of_tokens_is_refused_with_the_entry_that_is_wrong(text: str, wrong: str) -> None:
    """What cannot be read, says two things or holds a token itself is an error."""
    with pytest.raises(InvalidRequest, match=wrong) as caught:
        read_tokens([text.encode()], where="t.yaml")
    assert "secret" not in caught.value.message


def test_files_are_read_again_when_they_change_and_kept_when_they_break(tmp_path: Path) -> None:
    """A changed file counts after a second; one that cannot be used leaves what was said before."""
    path, now_s = tmp_path / "tokens.yaml", 0.0
    path.write_text(f"tokens: [{{name: a, sha256: {'a' * 64}}}]")
    files = WatchedFiles([str(path)], lambda contents: read_tokens(contents, where="t"), clock_s=lambda: now_s)
    seen = []
    for text in (f"tokens: [{{name: bob, sha256: {'a' * 64}}}]", "broken"):
        path.write_text(text)
        seen.append(files.current()["a" * 64].name)
        now_s += 1.0
        seen.append(files.current()["a" * 64].name)
    assert seen == ["a", "bob", "bob", "bob"]


def test_missing_file_of_tokens_stops_the_start(tmp_path: Path) -> None:
    """A server that asks for tokens does not begin without them."""
    with pytest.raises(InvalidRequest, match="cannot be read"):
        TokenFile(str(tmp_path / "none.yaml"))


# --- TLS --------------------------------------------------------------------------------------------------------------

AUTHORITY = ChannelCredentials(authority_file=str(CERTIFICATES / "authority.pem"))


def tls(folder: Path, *, mutual: bool = False) -> dict[str, str]:
    """Return settings of a server with a certificate that lies in a folder."""
    for ending in ("pem", "key"):
        shutil.copy(CERTIFICATES / f"server.{ending}", folder / f"tls.{ending}")
    settings = {"certificate_file": str(folder / "tls.pem"), "key_file": str(folder / "tls.key")}
    return settings | ({"client_authority_file": AUTHORITY.authority_file} if mutual else {})


async def ask_over_tls(address: str, credentials: ChannelCredentials) -> tuple[str, tuple[str, ...]]:
    """Return who a server takes the holder of credentials for."""
    async with open_aio_channel(address, credentials, []) as channel:
        return await ask(channel, *credentials.metadata(address))


async def test_token_travels_over_tls(tmp_path: Path) -> None:
    """A client that knows the authority reaches the server; one without TLS does not."""
    (tmp_path / "token").write_text("alice's\n")
    async with open_door(tmp_path, **tls(tmp_path)) as (door, plain):
        credentials = replace(AUTHORITY, token_file=str(tmp_path / "token"))
        assert await ask_over_tls(door.server.address, credentials) == ("alice", ("research",))
        assert await code_of(ask(plain, *bearer("alice's"))) == grpc.StatusCode.UNAVAILABLE


def offering(version: ssl.TLSVersion, purpose: int = ssl.PROTOCOL_TLS_CLIENT) -> ssl.SSLContext:
    """Return one side of TLS that speaks one version alone, with the old ciphers that old versions need."""
    context = ssl.SSLContext(purpose)
    with warnings.catch_warnings():  # that the version is old
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = version
    context.set_ciphers("ALL:@SECLEVEL=0")
    if purpose == ssl.PROTOCOL_TLS_CLIENT:
        context.load_verify_locations(CERTIFICATES / "authority.pem")
        context.set_alpn_protocols(["h2"])
    else:
        context.load_cert_chain(CERTIFICATES / "server.pem", CERTIFICATES / "server.key")
    return context


def spoken_with_itself(version: ssl.TLSVersion) -> str | None:
    """Return the version that two sides in memory agree on, which shows what a client really offers."""
    sent, got = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        offering(version).wrap_bio(got, sent, server_hostname="localhost"),
        offering(version, ssl.PROTOCOL_TLS_SERVER).wrap_bio(sent, got, server_side=True),
    ]
    for _ in range(4):
        for side in sides:
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    return sides[0].version()


@pytest.mark.parametrize("mutual", [False, True], ids=["server", "mutual"])
async def test_old_versions_of_tls_are_refused_on_every_port(tmp_path: Path, *, mutual: bool) -> None:
    """TLS 1.0 and 1.1 are refused, whatever ciphers come with them; 1.2 and 1.3 are taken.

    Each client is shown to be able to speak its version with a server that takes it.
    """
    versions = (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    assert [spoken_with_itself(version) for version in versions] == ["TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"]
    settings = tls(tmp_path, mutual=mutual)
    if mutual:
        settings["mutual_listen"] = "127.0.0.1:0"
    taken: list[str | None] = []
    async with open_door(tmp_path, **settings) as (door, _):
        port = door.server.mutual_port if mutual else door.server.port
        for version in versions:
            context = offering(version)
            if mutual:
                context.load_cert_chain(CERTIFICATES / "alice.pem", CERTIFICATES / "alice.key")
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
            except OSError:  # an alert, or the connection is closed before it comes
                taken.append("refused")
            else:
                taken.append(writer.get_extra_info("ssl_object").version())
                writer.close()
    assert taken == ["refused", "refused", "TLSv1.2", "TLSv1.3"]


async def test_client_certificate_names_its_holder(tmp_path: Path) -> None:
    """Common names are users, SPIFFE identities processes; another installation's are nobody, and none is refused."""
    async with open_door(tmp_path, **tls(tmp_path, mutual=True)) as (door, _):

        def holding(name: str) -> ChannelCredentials:
            files = {"certificate_file": f"{CERTIFICATES / name}.pem", "key_file": f"{CERTIFICATES / name}.key"}
            return replace(AUTHORITY, **files)

        assert (await ask_over_tls(door.server.address, holding("alice")))[0] == "alice"
        assert (await ask_over_tls(door.server.address, holding("west")))[0] == "west"
        foreign = code_of(ask_over_tls(door.server.address, holding("foreign")))
        assert await foreign == grpc.StatusCode.UNAUTHENTICATED
        assert await code_of(ask_over_tls(door.server.address, AUTHORITY)) == grpc.StatusCode.UNAVAILABLE


async def test_new_certificate_serves_new_connections_and_keeps_old_ones(tmp_path: Path) -> None:
    """A certificate that is replaced is shown from the next connection on; no call of the others fails."""
    async with open_door(tmp_path, **tls(tmp_path)) as (door, _):
        address = door.server.address
        async with open_aio_channel(address, AUTHORITY, [("grpc.use_local_subchannel_pool", 1)]) as old:
            assert (await ask(old, *bearer("alice's")))[0] == "alice"
            for ending in ("pem", "key"):
                shutil.copy(CERTIFICATES / f"next-server.{ending}", tmp_path / f"tls.{ending}")
            renewed = replace(AUTHORITY, server_name="next.example")
            async with asyncio.timeout(50):
                while True:
                    async with open_aio_channel(address, renewed, [("grpc.use_local_subchannel_pool", 1)]) as new:
                        try:
                            assert (await ask(new, *bearer("alice's")))[0] == "alice"
                            break
                        except grpc.aio.AioRpcError as error:
                            assert error.code() == grpc.StatusCode.UNAVAILABLE  # noqa: PT017 - until the next look
                    assert (await ask(old, *bearer("alice's")))[0] == "alice"
            assert (await ask(old, *bearer("alice's")))[0] == "alice"


def test_token_is_not_sent_in_the_clear(tmp_path: Path) -> None:
    """Without TLS a token goes to this machine only."""
    (tmp_path / "token").write_text("alice's\n")
    credentials = ChannelCredentials(token_file=str(tmp_path / "token"))
    assert credentials.metadata("127.0.0.1:1") == (("authorization", "Bearer alice's"),)
    with pytest.raises(UnusableCredentialsError, match="in the clear"):
        credentials.metadata("server.example:50051")


async def test_open_address_needs_tls_and_a_guard(tmp_path: Path) -> None:
    """TLS alone lets everybody in, a guard alone lets everybody listen; with both no --grpc-insecure is needed."""
    settings = GrpcSettings(listen="0.0.0.0:0", **tls(tmp_path))
    with pytest.raises(InvalidRequest, match="authentication"):
        GrpcServer(settings)
    door = Door(tmp_path)
    guard = door.server.edge._guard
    with pytest.raises(InvalidRequest, match="TLS"):
        GrpcServer(GrpcSettings(listen="0.0.0.0:0"), guard=guard)
    await GrpcServer(settings, guard=guard).stop(0)


def test_half_of_tls_is_refused(tmp_path: Path) -> None:
    """A certificate without its key serves nobody; a file that holds none of PEM is told at the start."""
    with pytest.raises(InvalidRequest, match="key_file"):
        GrpcSettings(certificate_file="x.pem")
    (tmp_path / "odd").write_text("nothing")
    with pytest.raises(InvalidRequest, match="no certificate with its key"):
        GrpcServer(GrpcSettings(certificate_file=str(tmp_path / "odd"), key_file=str(tmp_path / "odd")))
    mismatched = {"certificate_file": f"{CERTIFICATES / 'server.pem'}", "key_file": f"{CERTIFICATES / 'alice.key'}"}
    with pytest.raises(InvalidRequest, match="no certificate with its key"):
        GrpcServer(GrpcSettings(**mismatched))
