"""The agent with a sampler and an API server: pods grow and shrink within permits, whatever is lost on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import kubernetes.config  # noqa: F401 - takes a second, which no test's call shall wait for
import pytest
import yaml

from argosy.channel_credentials import ChannelCredentials, hash_token
from argosy_agent.__main__ import main
from argosy_agent.app import start
from argosy_agent.config import AgentConfig
from argosy_core.autoscale import AgentSettings
from argosy_core.errors import InvalidRequest
from argosy_core.reconcile.rendering import INSTALLATION_LABEL, OBJECT_LABEL, RUN_LABEL, run_label
from argosy_local.processes import free_ports
from argosy_runtime.access.guard import CallerSettings
from argosy_runtime.grpc_server import GrpcSettings
from argosy_runtime.lifecycle import Lifecycle
from argosy_sampler.app import start as start_sampler
from argosy_sampler.config import PermitConfig, SamplerConfig
from argosy_testkit.fake_kube_api import FakeKubeApi
from argosy_testkit.fake_kube_api.lab import QUICK, FakeKubeLab
from argosy_testkit.tls_endpoint import Certificates

TIMEOUT_S = 150.0
NOTES = {
    "argosy.dev/simulated-run-time": "1h",
    "argosy.dev/autoscale-min": "cpu=500m,memory=1Gi",
    "argosy.dev/autoscale-max": "cpu=3,memory=6Gi",
}


class Mesh:
    """A fake API server with nodes of four cores and 8 GiB, a sampler and an agent."""

    def __init__(self, lab: FakeKubeLab) -> None:
        """Begin with nothing running."""
        self.lab = lab
        (self.port,) = free_ports(1)

    def make(self, name: str, handle: int, cpu: str, memory: str, **notes: str) -> None:
        """Make a scaled pod of ours on the first node, that runs at once."""
        labels = {INSTALLATION_LABEL: "one", RUN_LABEL: run_label(handle, 1), OBJECT_LABEL: "0"}
        resources = {"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": cpu, "memory": memory}}
        self.lab.make_pod(name, "node-a", resources, annotations=NOTES | notes, labels=labels)

    def cpu(self, name: str) -> str:
        """Return the processors that a pod's container runs with."""
        pod = self.lab.api.store.find("pods", "default", name)
        (status,) = pod["status"].get("containerStatuses") or [{}]
        return status.get("resources", {}).get("requests", {}).get("cpu", "")

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return once something is so."""
        async with asyncio.timeout(TIMEOUT_S):
            await self.lab.api.wait_until(condition)

    @asynccontextmanager
    async def running(self, name: str, begin: Callable[[Lifecycle], Any]) -> AsyncGenerator[None, None]:
        """Run a service."""
        life = Lifecycle(name, drain_s=0.1)
        async with asyncio.TaskGroup() as group:
            group.create_task(life.run(begin))
            yield
            life.request_stop()

    def sampler(self, **others: Any) -> Any:
        """Run the sampler; the server that it dials does not exist, which permits do not need."""
        fields: dict[str, Any] = dict(
            cluster="lab",
            cluster_address=f"kubernetes:{self.lab.kubeconfig}",
            server_addresses=("127.0.0.1:1",),
            installation="one",
            kubernetes=QUICK,
            permits=PermitConfig(lease_s=1.2, margin_s=0.6, unit="cpu=500m,memory=1Gi"),
            grpc=GrpcSettings(listen=f"127.0.0.1:{self.port}"),
        )
        config = SamplerConfig(**fields | others)
        return self.running("sampler", lambda life: start_sampler(life, config))

    def agent(self, **others: Any) -> Any:
        """Run the agent."""
        config = AgentConfig(
            cluster="lab",
            cluster_address=f"kubernetes:{self.lab.kubeconfig}",
            sampler_address=f"127.0.0.1:{self.port}",
            installation="one",
            metrics_interval_s=0.05,
            retry_most_s=0.1,
            kubernetes=QUICK,
            scaling=AgentSettings(resize_timeout_s=0.3, refused_retry_s=0.2, resize_retry_s=0.2, hold_s=0.5),
            grpc=GrpcSettings(listen="127.0.0.1:0"),
            **others,
        )
        return self.running("agent", lambda life: start(life, config))


@pytest.fixture
async def mesh(tmp_path: Path) -> AsyncGenerator[Mesh, None]:
    """Serve a fake API server."""
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(FakeKubeApi(speed=10.0, bookmark_s=0.2))
        yield Mesh(FakeKubeLab(api, api.write_kubeconfig(tmp_path / "kubeconfig"), stack))


async def test_a_pod_grows_with_its_load_as_far_as_its_node_has_room(mesh: Mesh) -> None:
    """Four cores: the other pod keeps two, so the bound of three cannot be reached."""
    mesh.make("busy", 1, "500m", "1Gi")
    mesh.make("other", 2, "2", "4Gi", **{"argosy.dev/autoscale": "off"})
    mesh.lab.api.uses["default", "busy"] = ("4", "700Mi")
    async with mesh.sampler(), mesh.agent():
        await mesh.until(lambda: mesh.cpu("busy") == "2000m")
        pod = mesh.lab.api.store.find("pods", "default", "busy")
        assert pod["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "2000m", "memory": str(4 << 30)}
        assert mesh.cpu("other") == "2"


async def test_room_that_comes_goes_to_the_pod_that_waits_for_it(mesh: Mesh) -> None:
    """What was denied is pushed when another pod ends; the agent need not ask again."""
    mesh.make("busy", 1, "500m", "1Gi")
    mesh.make("other", 2, "3", "5Gi", **{"argosy.dev/autoscale": "off"})
    mesh.lab.api.uses["default", "busy"] = ("4", "700Mi")
    async with mesh.sampler(), mesh.agent():
        await mesh.until(lambda: mesh.cpu("busy") == "1000m")
        other = mesh.lab.api.store.find("pods", "default", "other")
        mesh.lab.api.kubelets.finish(other, 0, "Completed")
        await mesh.until(lambda: mesh.cpu("busy") == "3000m")


async def test_what_an_idle_pod_gives_back_goes_to_one_that_needs_it(mesh: Mesh) -> None:
    """The one shrinks first and tells after, the other asks first and grows after: both fit the node all the time."""
    mesh.make("busy", 1, "500m", "1Gi")
    mesh.make("idle", 2, "3", "6Gi")
    mesh.lab.api.uses["default", "busy"] = ("4", "700Mi")
    mesh.lab.api.uses["default", "idle"] = ("100m", "500Mi")
    async with mesh.sampler(), mesh.agent():
        await mesh.until(lambda: mesh.cpu("idle") == "500m")
        await mesh.until(lambda: mesh.cpu("busy") == "3000m")
    pods = [mesh.lab.api.store.find("pods", "default", name) for name in ("busy", "idle")]
    assert not [pod for pod in pods if pod["status"].get("conditions")], "a node had to refuse a size"


async def test_an_agent_that_is_started_again_takes_its_pods_over_after_the_lease(mesh: Mesh) -> None:
    """And one whose sampler is started again goes on within what it was permitted."""
    mesh.make("busy", 1, "500m", "1Gi")
    mesh.lab.api.uses["default", "busy"] = ("800m", "700Mi")
    async with mesh.sampler(), mesh.agent():
        await mesh.until(lambda: mesh.cpu("busy") == "1500m")
    mesh.lab.api.uses["default", "busy"] = ("4", "700Mi")
    async with mesh.agent(), mesh.sampler():
        await mesh.until(lambda: mesh.cpu("busy") == "3000m")


async def test_an_agent_shows_its_token_over_tls(mesh: Mesh, tmp_path: Path) -> None:
    """A sampler that asks who speaks knows it as the agent of its cluster."""
    authority = Certificates(tmp_path, "authority")
    certificate, key = authority.issue("localhost")
    (tmp_path / "token").write_text("secret")
    entry = {"cluster": "lab", "part": "agent", "sha256": hash_token("secret")}
    (tmp_path / "tokens.yaml").write_text(yaml.safe_dump({"tokens": [entry]}))
    secured = GrpcSettings(listen=f"127.0.0.1:{mesh.port}", certificate_file=str(certificate), key_file=str(key))
    access = CallerSettings(tokens_file=str(tmp_path / "tokens.yaml"))
    known = ChannelCredentials(
        authority_file=str(authority.authority), server_name="localhost", token_file=str(tmp_path / "token")
    )
    mesh.make("busy", 1, "500m", "1Gi")
    mesh.lab.api.uses["default", "busy"] = ("4", "700Mi")
    async with mesh.sampler(grpc=secured, access=access), mesh.agent(credentials=known):
        await mesh.until(lambda: mesh.cpu("busy") == "3000m")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "cluster"),
        (
            ["--cluster", "c", "--cluster-address", "kubernetes", "--sampler-address", "a:1", "--metrics", "x"],
            "metrics",
        ),
    ],
    ids=["nothing set", "unknown source"],
)
def test_main_refuses_a_bad_configuration(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is answered with status 2 and what is wrong."""
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_an_installation_must_be_a_name() -> None:
    """It is the value of a label."""
    with pytest.raises(InvalidRequest, match="installation"):
        AgentConfig(cluster="c", cluster_address="kubernetes", sampler_address="a:1", installation="no name")
