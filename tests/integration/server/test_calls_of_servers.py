"""What servers ask each other of their own accord, where callers are asked who they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml

from argosy.api.v1 import queue_pb2
from argosy.channel_credentials import ChannelCredentials, hash_token
from argosy.lease.v1 import outlook_pb2
from argosy_core.job.reading.classes import SchedulingClass
from argosy_runtime.access.guard import AccessSettings

from .tenants import Place, bearer, submit
from .test_leader_calls import FixedRole

ASKED = outlook_pb2.FindMissingRequest(definitions=[SchedulingClass(requests=(("memory", 1),)).definition()])
MISSING = "it asks for 1 memory, and no node has any"


@pytest.fixture
def changes(tmp_path: Path) -> dict[str, Any]:
    """Give settings of servers that know each other, and ann, by tokens."""
    (tmp_path / "token").write_text("server")
    tokens = [{"server": True, "sha256": hash_token("server")}, {"name": "ann", "sha256": hash_token("ann")}]
    (tmp_path / "tokens.yaml").write_text(yaml.safe_dump({"tokens": tokens}))
    return {
        "access": AccessSettings(tokens_file=str(tmp_path / "tokens.yaml"), admins=("user:ann",)),
        "credentials": ChannelCredentials(token_file=str(tmp_path / "token")),
    }


async def test_replica_asks_as_itself_what_its_callers_may_not(
    *, database_url: str, leader_store: Any, serve: Any, changes: dict[str, Any]
) -> None:
    """Who submits is warned through a replica, and may not ask the leader of any class, pool and number of them."""
    async with (
        serve(database_url, leader=FixedRole(), role="both", **changes) as leader,
        serve(database_url, **changes) as replica,
    ):
        leader_store.try_lead("leader", leader.app.server.address, 600.0)
        queue = queue_pb2.Queue(name="red", namespaces=["default"])
        await replica.queues.CreateQueue(queue_pb2.CreateQueueRequest(queue=queue), metadata=bearer("ann"))
        answer = await replica.jobs.SubmitJobs(submit(Place("red", "")), metadata=bearer("ann"))
        assert [one.field for one in answer.warnings] == ["specs[0]"]
        for asked in (leader, replica):
            told = await asked.outlook.FindMissing(ASKED, metadata=bearer("server"))
            assert [list(one.texts) for one in told.classes] == [[MISSING]]
            for caller in (bearer("ann"), (*bearer("server"), ("argosy-acting-as", "ann"))):
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await asked.outlook.FindMissing(ASKED, metadata=caller)
                assert caught.value.code() == grpc.StatusCode.PERMISSION_DENIED
