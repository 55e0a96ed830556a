"""The kustomize bases come up secured: servers speak TLS, and know whom `make-secrets.sh` made tokens for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml

from argosy.api.v1 import access_pb2, access_pb2_grpc
from argosy.autoscale.v1 import permit_pb2_grpc
from argosy.channel_credentials import open_aio_channel
from argosy_agent.config import AgentConfig
from argosy_client import ArgosyClient, ChannelCredentials
from argosy_cluster_agent.config import ClusterAgentConfig
from argosy_core.access import ANYONE, Permissions, Principal
from argosy_core.errors import NotAuthenticated
from argosy_executor.config import ExecutorConfig
from argosy_runtime.access.guard import CALLER, Guard
from argosy_runtime.config import load_config
from argosy_runtime.grpc_server import GrpcServer
from argosy_sampler.app import make_server
from argosy_sampler.config import SamplerConfig
from argosy_server.config import ServerConfig

KUSTOMIZE = Path(__file__).resolve().parents[3] / "deploy" / "kustomize"
LISTENING = {"ARGOSY_SAMPLER_GRPC_LISTEN": "127.0.0.1:0", "ARGOSY_SAMPLER_GRPC_HEALTH_LISTEN": ""}
SERVERS = ("server/api", "server/leader", "server-events/relay")
PARTS: dict[str, type[Any]] = {
    "cluster/sampler": SamplerConfig,
    "cluster/executor": ExecutorConfig,
    "cluster-agent/cluster-agent": ClusterAgentConfig,
}


class WhoAmI(access_pb2_grpc.AccessServiceServicer):
    """Answers who calls."""

    async def WhoAmI(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        """Answer the caller's name."""
        return access_pb2.WhoAmIResponse(name=CALLER.get().principal.name)


def make_secrets(folder: Path, *clusters: str) -> None:
    """Run the script as an operator does."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "API_HOSTS": "argosy.example.org"}
    subprocess.run([str(KUSTOMIZE / "make-secrets.sh"), str(folder), *clusters], env=environment, check=True)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the secrets of two clusters, the second of which came later."""
    folder = tmp_path_factory.mktemp("secrets") / "made"
    make_secrets(folder, "west")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    make_secrets(folder, "east")
    changed = {path.name for path, content in before.items() if path.read_bytes() != content}
    # Whoever is known stays so, and nothing else has to be applied again; the authority lists what it signed.
    assert changed == {"tokens.yaml", "certificates.json"}
    assert (folder / "clusters" / "west" / "permits" / "tokens.yaml") not in changed_files(before)
    return folder


def changed_files(before: dict[Path, bytes]) -> set[Path]:
    """Return the files that are no longer as they were."""
    return {path for path, content in before.items() if path.read_bytes() != content}


def mounted(folder: Path) -> dict[str, dict[str, Path]]:
    """Return the files of each secret that a folder makes, by their names in it; all of them are there."""
    secrets = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))["secretGenerator"]
    assert all((folder / name).is_file() for secret in secrets for name in secret["files"])
    return {secret["name"]: {Path(name).name: folder / name for name in secret["files"]} for secret in secrets}


def pod_of(name: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the variables of a deployment's pod, and where it mounts which secret."""
    documents = yaml.safe_load_all((KUSTOMIZE / f"{name}.yaml").read_text(encoding="utf-8"))
    (pod,) = (one["spec"]["template"]["spec"] for one in documents if one["kind"] == "Deployment")
    (container,) = pod["containers"]
    paths = {one["name"]: one["mountPath"] for one in container["volumeMounts"] if one.get("readOnly")}
    secrets = {paths[one["name"]]: one["secret"]["secretName"] for one in pod["volumes"] if "secret" in one}
    values = {one["name"]: one.get("value", "info" if "LOG_LEVEL" in one["name"] else "x") for one in container["env"]}
    return values, secrets


def at(folder: Path, name: str) -> dict[str, str]:
    """Return a pod's variables with the files of the secrets of a folder, each of which the pod must mount."""
    values, paths = pod_of(name)
    files = mounted(folder)
    found = dict(values)
    for path, secret in paths.items():
        named = {key: Path(value).name for key, value in values.items() if value.startswith(f"{path}/")}
        assert set(named.values()) == set(files[secret]), "no file is missing, and none is given that it does not read"
        found |= {key: str(files[secret][file]) for key, file in named.items()}
    assert not any(value.startswith("/etc/argosy/") for value in found.values())
    return found


@pytest.mark.parametrize("name", SERVERS)
async def test_server_of_a_base_knows_whom_tokens_were_made_for_and_nobody_else(made: Path, name: str) -> None:
    """With the files of the script and the variables of the manifest; it listens on the network without `insecure`."""
    own = {**at(made, name), "ARGOSY_SERVER_GRPC_LISTEN": "127.0.0.1:0"}
    config = load_config(ServerConfig, [], own)
    assert not config.grpc.insecure
    assert config.access.admins == ("user:admin",)

    async def nothing(_: Principal) -> Permissions:
        return Permissions()

    server = GrpcServer(config.grpc, guard=Guard(config.access, rules={WHO: ANYONE}, permissions_of=nothing))
    server.add(access_pb2_grpc.add_AccessServiceServicer_to_server, WhoAmI(), "argosy.api.v1.AccessService")
    await server.start()
    callers = {"admin": made / "admin", "west": made / "clusters" / "west", "server": made / "server"}
    try:
        for known_as, folder in callers.items():
            for dialled in ("argosy-server", "argosy-leader.argosy.svc", "argosy.example.org", ""):
                credentials = ChannelCredentials(
                    authority_file=str(folder / "ca.crt"), token_file=str(folder / "token"), server_name=dialled
                )
                async with ArgosyClient(server.address, credentials=credentials) as client:
                    assert (await client.who_am_i()).name == known_as
        stranger = ChannelCredentials(authority_file=str(made / "admin" / "ca.crt"))
        async with ArgosyClient(server.address, credentials=stranger) as client:
            with pytest.raises(NotAuthenticated):
                await client.who_am_i()
    finally:
        await server.stop(0)


WHO = "/argosy.api.v1.AccessService/WhoAmI"


@pytest.mark.parametrize("name", PARTS)
def test_part_of_a_cluster_shows_the_token_that_was_made_for_it(made: Path, name: str) -> None:
    """The secret of its cluster has every file that its variables name; servers are known by one name everywhere."""
    config = load_config(PARTS[name], [], at(made / "clusters" / "east", name))
    assert config.credentials.server_name == "argosy-server"


@pytest.mark.parametrize(("cluster", "admitted"), [("east", True), ("west", False)])
async def test_agent_is_known_at_the_samplers_port_of_its_own_cluster_alone(
    made: Path, *, cluster: str, admitted: bool
) -> None:
    """Permits are asked for over TLS, with the agent's own token, by the names in the manifests of both."""
    sampler = load_config(SamplerConfig, [], {**at(made / "clusters" / "east", "cluster/sampler"), **LISTENING})
    assert not sampler.grpc.insecure
    agent = load_config(AgentConfig, [], at(made / "clusters" / cluster, "agent/agent"))
    server, _ = make_server(sampler.grpc, sampler.access, cluster="east")
    await server.start()
    try:
        metadata = agent.credentials.metadata(server.address)
        async with open_aio_channel(server.address, agent.credentials, ()) as channel:
            stream = permit_pb2_grpc.PermitServiceStub(channel).Session(metadata=metadata, timeout=50)
            await stream.done_writing()
            answer = await stream.code(), await stream.details()
        came_in = grpc.StatusCode.UNAVAILABLE, "the sampler has not yet listed the cluster's pods; dial again"
        refused = grpc.StatusCode.UNAUTHENTICATED, "the token is not known here; it may have been replaced or revoked"
        assert answer == (came_in if admitted else refused)
    finally:
        await server.stop(0)


def test_what_was_made_is_for_its_owner_alone(made: Path) -> None:
    """No other user of the machine reads a key or a token; the authority's key is in no secret."""
    assert {path.stat().st_mode & 0o077 for path in made.rglob("*")} == {0}
    given = [files for folder in (made, made / "clusters" / "west") for files in mounted(folder).values()]
    assert not any("authority.key" in files for files in given)
