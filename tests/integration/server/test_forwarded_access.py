"""A replica that forwards proves who it is, and its leader asks what the caller may do: over TLS, one hop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml

from argosy.api.v1 import access_pb2, queue_pb2, scheduling_pb2, scheduling_pb2_grpc
from argosy.channel_credentials import ChannelCredentials, hash_token, open_aio_channel
from argosy_core.scheduler import PoolShares, QueueShares
from argosy_runtime.access.guard import AccessSettings
from argosy_runtime.grpc_server import GrpcSettings

CERTIFICATES = Path(__file__).parents[2] / "certificates"
AUTHORITY = str(CERTIFICATES / "authority.pem")
NAMES = ("root", "alice", "mallory")


class View:
    """A leader's memory of two queues' shares."""

    def shares(self) -> PoolShares:
        """Answer red's and blue's share."""
        values = dict.fromkeys(
            ("weight", "fair_share_ratio", "usage_cores", "flow_cores", "demand_cores", "entitled_cores"), 1.0
        )
        counts = dict.fromkeys(("queued_count", "pending_count", "leased_count"), 1)
        return PoolShares(
            queues=tuple(QueueShares(queue=name, **values, **counts) for name in ("red", "blue")), capacity_cores=1.0
        )


class Role:
    """Leads pool default."""

    def servicers(self) -> Sequence[Any]:
        """Serve no clusters."""
        return ()

    async def start(self, life: Any, *, address: str) -> None:
        """Need nothing."""

    def view(self, pool: str) -> Any:
        """Answer for pool default."""
        return View() if pool == "default" else None

    async def stop(self) -> None:
        """Need nothing."""


def bearer(token: str) -> tuple[tuple[str, str], ...]:
    """Return the metadata of a call with a token."""
    return (("authorization", f"Bearer {token}"),)


@pytest.fixture
async def secured(serve: Any, database_url: str, leader_store: Any, tmp_path: Path) -> AsyncIterator[grpc.aio.Channel]:
    """Give a channel to a replica beside a leader, both over TLS, with alice's grant on red."""
    entries: list[dict[str, Any]] = [{"name": name, "sha256": hash_token(name)} for name in NAMES]
    (tmp_path / "tokens.yaml").write_text(
        yaml.safe_dump({"tokens": [*entries, {"server": True, "sha256": hash_token("replica")}]})
    )
    (tmp_path / "own").write_text("replica\n")
    options = {
        "access": AccessSettings(tokens_file=str(tmp_path / "tokens.yaml"), admins=("user:root",)),
        "grpc": GrpcSettings(
            listen="127.0.0.1:0",
            certificate_file=str(CERTIFICATES / "server.pem"),
            key_file=str(CERTIFICATES / "server.key"),
        ),
        "credentials": ChannelCredentials(authority_file=AUTHORITY, token_file=str(tmp_path / "own")),
    }
    async with (
        serve(database_url, leader=Role(), role="both", **options) as leader,
        serve(database_url, **options) as replica,
        open_aio_channel(replica.app.server.address, ChannelCredentials(authority_file=AUTHORITY), []) as channel,
    ):
        leader_store.try_lead("leader", leader.app.server.address, 600.0)
        for name in ("red", "blue"):
            request = queue_pb2.CreateQueueRequest(queue=queue_pb2.Queue(name=name))
            await call(channel, "QueueService/CreateQueue", request, "root")
        grant = access_pb2.Grant(subject="user:alice", queue="red", verb="watch")
        await call(channel, "AccessService/AddGrants", access_pb2.AddGrantsRequest(grants=[grant]), "root")
        yield channel


async def call(channel: grpc.aio.Channel, method: str, request: Any, caller: str) -> bytes:
    """Return the bytes that a method answers."""
    path = f"/argosy.api.v1.{method}"
    answer: bytes = await channel.unary_unary(path)(request.SerializeToString(), metadata=bearer(caller), timeout=60)
    return answer


async def test_leader_asks_what_the_caller_of_a_replica_may_see(secured: grpc.aio.Channel) -> None:
    """The forwarded call answers each caller what it may see; the replica's own name opens nothing more."""
    seen = {}
    for caller in ("root", "alice", "mallory"):
        stub = scheduling_pb2_grpc.SchedulingServiceStub(secured)
        answer = await stub.GetShares(scheduling_pb2.GetSharesRequest(), metadata=bearer(caller), timeout=60)
        seen[caller] = [share.queue for share in answer.shares]
    assert seen == {"root": ["red", "blue"], "alice": ["red"], "mallory": []}


async def test_replica_that_its_leader_does_not_know_says_so(secured: grpc.aio.Channel, tmp_path: Path) -> None:
    """It is the operator's to mend: the caller is neither unknown nor refused."""
    (tmp_path / "own").write_text("another\n")
    with pytest.raises(grpc.aio.AioRpcError, match=r"credentials\.token_file") as caught:
        await call(secured, "SchedulingService/GetShares", scheduling_pb2.GetSharesRequest(), "root")
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE


async def test_server_by_itself_may_do_nothing_but_forward(secured: grpc.aio.Channel) -> None:
    """The token of servers administers nothing and speaks for no cluster."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call(secured, "AccessService/ListGrants", access_pb2.ListGrantsRequest(), "replica")
    assert caught.value.code() == grpc.StatusCode.PERMISSION_DENIED
