"""Where callers are asked who they are, a sampler's permits are for the agents of its cluster."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
import yaml

from argosy.autoscale.v1 import permit_pb2, permit_pb2_grpc
from argosy.channel_credentials import hash_token
from argosy.sampler.v1 import sampler_pb2, sampler_pb2_grpc
from argosy_runtime.access.guard import CallerSettings
from argosy_runtime.grpc_server import GrpcSettings
from argosy_sampler.app import RULES, make_server

TOKENS = {
    "agent": {"cluster": "lab", "part": "agent"},
    "all": {"cluster": "lab"},
    "sampler": {"cluster": "lab", "part": "sampler"},
    "foreign": {"cluster": "west", "part": "agent"},
    "root": {"name": "root"},
}


def test_every_method_of_a_sampler_has_a_rule() -> None:
    """A method without a rule would be nobody's."""
    methods = {
        f"/{service.full_name}/{method.name}"
        for service in (
            permit_pb2.DESCRIPTOR.services_by_name["PermitService"],
            sampler_pb2.DESCRIPTOR.services_by_name["PlacementService"],
        )
        for method in service.methods
    }
    assert set(RULES) == methods


@pytest.mark.parametrize(
    ("token", "admitted"),
    [("agent", True), ("all", True), ("sampler", False), ("foreign", False), ("root", False), ("none", False)],
)
async def test_permits_are_for_agents_of_the_cluster(tmp_path: Path, *, token: str, admitted: bool) -> None:
    """Another part, another cluster, a user and a stranger are refused; an agent comes as far as the closed sampler."""
    entries = [{**entry, "sha256": hash_token(name)} for name, entry in TOKENS.items()]
    (tmp_path / "tokens.yaml").write_text(yaml.safe_dump({"tokens": entries}))
    access = CallerSettings(tokens_file=str(tmp_path / "tokens.yaml"))
    server, _ = make_server(GrpcSettings(listen="127.0.0.1:0"), access, cluster="lab")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(server.address) as channel:
            stub = permit_pb2_grpc.PermitServiceStub(channel)
            stream = stub.Session(metadata=(("authorization", f"Bearer {token}"),), timeout=50)
            refused = {grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED}
            await stream.done_writing()
            assert (await stream.code() not in refused) is admitted
    finally:
        await server.stop(0)


@pytest.mark.parametrize(
    ("token", "refusal"),
    [("executor", grpc.StatusCode.FAILED_PRECONDITION), ("agent", grpc.StatusCode.PERMISSION_DENIED)],
)
async def test_placements_are_for_the_executor_of_the_cluster(
    tmp_path: Path, *, token: str, refusal: grpc.StatusCode
) -> None:
    """Another part is refused; the executor comes as far as the sampler, which has not listed its cluster."""
    tokens = {**TOKENS, "executor": {"cluster": "lab", "part": "executor"}}
    entries = [{**entry, "sha256": hash_token(name)} for name, entry in tokens.items()]
    (tmp_path / "tokens.yaml").write_text(yaml.safe_dump({"tokens": entries}))
    access = CallerSettings(tokens_file=str(tmp_path / "tokens.yaml"))
    server, _ = make_server(GrpcSettings(listen="127.0.0.1:0"), access, cluster="lab")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(server.address) as channel:
            stub = sampler_pb2_grpc.PlacementServiceStub(channel)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.PlaceRuns(
                    sampler_pb2.PlaceRunsRequest(pool="default"),
                    metadata=(("authorization", f"Bearer {token}"),),
                    timeout=5,
                )
            assert caught.value.code() == refusal
    finally:
        await server.stop(0)
