"""The kustomize bases come up secured: servers speak TLS, and know whom `make-secrets.sh` made tokens for."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from argosy.api.v1 import access_pb2, access_pb2_grpc
from argosy_client import ArgosyClient, ChannelCredentials
from argosy_cluster_agent.config import ClusterAgentConfig
from argosy_core.access import ANYONE, Permissions, Principal
from argosy_core.errors import NotAuthenticated
from argosy_executor.config import ExecutorConfig
from argosy_runtime.access.guard import CALLER, Guard
from argosy_runtime.config import load_config
from argosy_runtime.grpc_server import GrpcServer
from argosy_sampler.config import SamplerConfig
from argosy_server.config import ServerConfig

KUSTOMIZE = Path(__file__).resolve().parents[3] / "deploy" / "kustomize"
MOUNTED = "/etc/argosy/identity"
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
    assert changed == {"tokens.yaml"}  # whoever is known stays so, and nothing else has to be applied again
    return folder


def mounted(folder: Path) -> set[str]:
    """Return the files of the one secret that a folder makes, all of them there."""
    (secret,) = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))["secretGenerator"]
    assert all((folder / name).is_file() for name in secret["files"])
    return {Path(name).name for name in secret["files"]}


def pod_of(name: str) -> tuple[dict[str, str], str]:
    """Return the variables of a deployment's pod, and the secret that it mounts."""
    documents = yaml.safe_load_all((KUSTOMIZE / f"{name}.yaml").read_text(encoding="utf-8"))
    (pod,) = (one["spec"]["template"]["spec"] for one in documents if one["kind"] == "Deployment")
    (container,) = pod["containers"]
    (secret,) = (volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume)
    assert {"name": "identity", "mountPath": MOUNTED, "readOnly": True} in container["volumeMounts"]
    values = {one["name"]: one.get("value", "info" if "LOG_LEVEL" in one["name"] else "x") for one in container["env"]}
    return values, secret


def at(folder: Path, values: dict[str, str]) -> dict[str, str]:
    """Return variables whose mounted files are those of a folder."""
    return {name: value.replace(MOUNTED, str(folder)) for name, value in values.items()}


def named_files(values: dict[str, str]) -> Iterator[str]:
    """Yield the names of the mounted files that variables name."""
    return (Path(value).name for value in values.values() if value.startswith(MOUNTED))


@pytest.mark.parametrize("name", SERVERS)
async def test_server_of_a_base_knows_whom_tokens_were_made_for_and_nobody_else(made: Path, name: str) -> None:
    """With the files of the script and the variables of the manifest; it listens on the network without `insecure`."""
    values, secret = pod_of(name)
    assert secret == "argosy-server"
    assert set(named_files(values)) == mounted(made)
    own = {**at(made / "server", values), "ARGOSY_SERVER_GRPC_LISTEN": "127.0.0.1:0"}
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
    values, secret = pod_of(name)
    assert secret == "argosy-cluster"
    assert set(named_files(values)) == mounted(made / "clusters" / "east")
    config = load_config(PARTS[name], [], at(made / "clusters" / "east", values))
    assert config.credentials.server_name == "argosy-server"


def test_what_was_made_is_for_its_owner_alone(made: Path) -> None:
    """No other user of the machine reads a key or a token; the authority's key is in no secret."""
    assert {path.stat().st_mode & 0o077 for path in made.rglob("*")} == {0}
    assert "authority.key" not in mounted(made) | mounted(made / "clusters" / "west")
