"""A cluster joins with an invitation, renews what it got, and is out within seconds once it is revoked."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from argosy.api.v1 import access_pb2, access_pb2_grpc
from argosy.channel_credentials import ChannelCredentials, hash_token
from argosy.openssl import certificate_times, make_request
from argosy_cli.certificates import CertificateText, make_authority
from argosy_client import ArgosyClient, JobDraft, Queue
from argosy_cluster_agent.app import start
from argosy_cluster_agent.config import ClusterAgentConfig
from argosy_core.access import ClusterPart
from argosy_core.errors import ArgosyError, InvalidRequest, NotAllowedNow, NotAuthenticated, NotPermitted
from argosy_kube.simulated.__main__ import make_host
from argosy_kube.simulated.server import serve_cluster
from argosy_runtime.access.guard import AccessSettings
from argosy_runtime.channel import call_metadata, open_channel
from argosy_runtime.errors import from_rpc_error
from argosy_runtime.grpc_server import GrpcSettings
from argosy_runtime.joining import JoinSettings, Membership
from argosy_runtime.lifecycle import Lifecycle
from argosy_testkit.cluster_contract import LAB_NODES

TIMEOUT_S = 50.0
POD = """{"apiVersion": "v1", "kind": "Pod", "metadata": {"annotations": {"argosy.dev/simulated-run-time": "0.1"}},
"spec": {"containers": [{"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1", "memory": "1Gi"},
"limits": {"cpu": "1", "memory": "1Gi"}}}]}}"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with an authority, a server's certificate and the tokens of root and of cluster lab."""
    folder = tmp_path_factory.mktemp("authority")
    made = make_authority(folder, installation="argosy", days=2)
    made.issue(CertificateText(name="server", uri="spiffe://argosy/server", hosts=("127.0.0.1", "localhost")))
    made.issue(CertificateText(name="cluster-lab", uri="spiffe://argosy/cluster/lab"))
    entries = [{"name": "root", "sha256": hash_token("root's")}, {"cluster": "lab", "sha256": hash_token("lab's")}]
    (folder / "tokens.yaml").write_text(yaml.safe_dump({"tokens": entries}))
    (folder / "root").write_text("root's")
    (folder / "lab").write_text("lab's")
    return folder


@pytest.fixture
async def api(serve: Any, database_url: str, authority: Path) -> AsyncIterator[Any]:
    """Give a server that invites clusters: one port for tokens, one for certificates."""
    access = AccessSettings(
        tokens_file=str(authority / "tokens.yaml"),
        admins=("user:root",),
        authority_file=str(authority / "authority.pem"),
        authority_key_file=str(authority / "authority.key"),
    )
    grpc = GrpcSettings(
        listen="127.0.0.1:0",
        mutual_listen="127.0.0.1:0",
        certificate_file=str(authority / "server.pem"),
        key_file=str(authority / "server.key"),
        client_authority_file=str(authority / "authority.pem"),
    )
    async with serve(database_url, role="both", access=access, grpc=grpc) as api:
        yield api


def credentials(authority: Path, token: str = "") -> ChannelCredentials:
    """Return how the server is known, and a token's holder."""
    token_file = str(authority / token) if token else ""
    return ChannelCredentials(authority_file=str(authority / "authority.pem"), token_file=token_file)


def root_of(api: Any, authority: Path) -> ArgosyClient:
    """Return the administrator's client."""
    return ArgosyClient(api.app.server.address, credentials=credentials(authority, "root"))


async def invite(api: Any, authority: Path, folder: Path, cluster: str = "lab") -> JoinSettings:
    """Return how a process joins that was just invited."""
    async with root_of(api, authority) as root:
        invitation = await root.invite_cluster(cluster)
    _write(folder / "invitation", invitation.token.encode())
    return JoinSettings(
        folder=str(folder / "own"), token_file=str(folder / "invitation"), address=api.app.server.address
    )


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _read(path: Path) -> bytes:
    return path.read_bytes()


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def member(api: Any, authority: Path, join: JoinSettings, part: ClusterPart = ClusterPart.SAMPLER) -> Membership:
    """Return a process of the cluster lab."""
    addresses = (api.app.server.mutual_address,)
    return Membership(join, credentials(authority), cluster="lab", part=part, server_addresses=addresses)


@asynccontextmanager
async def agent(api: Any, authority: Path, folder: Path, **changes: Any) -> AsyncIterator[None]:
    """Run a cluster agent on a simulated cluster."""
    host = make_host("lab", LAB_NODES, speed=1.0, flush_interval_s=0.002)
    async with serve_cluster(host, f"unix:{folder / 's'}") as cluster:
        clock = asyncio.ensure_future(host.run())
        config = ClusterAgentConfig(
            cluster="lab",
            cluster_address=cluster,
            server_addresses=(api.app.server.mutual_address,),
            credentials=credentials(authority),
            drain_s=0.1,
        )
        life = Lifecycle("cluster agent", drain_s=0.1)

        async def begin(of: Lifecycle) -> None:
            await start(of, replace(config, **changes))

        running = asyncio.ensure_future(life.run(begin))
        yield
        life.request_stop()
        await running
        clock.cancel()


async def is_connected(root: ArgosyClient) -> bool:
    """Return whether both processes of lab hold a session."""
    found = [one async for one in root.list_clusters()]
    return bool(found) and found[0].sampler_connected and found[0].executor_connected


async def until(root: ArgosyClient, *, connected: bool) -> None:
    """Return once lab is connected, or is not."""
    async with asyncio.timeout(TIMEOUT_S):
        while await is_connected(root) != connected:  # noqa: ASYNC110 - no event tells it to a client
            await asyncio.sleep(0.05)


def test_revocation_is_looked_at_often_enough_to_count_within_5_s() -> None:
    """What the docs promise of a session that is open: how long an answer is kept, and then until it is asked again."""
    settings = AccessSettings()
    assert settings.check_again_s + settings.grants_keep_s <= 5.0


async def test_invited_cluster_runs_a_job_and_is_out_once_revoked(api: Any, authority: Path, tmp_path: Path) -> None:
    """From an invitation to a first job; a revocation ends open sessions, lets none in again, and is in the audit."""
    join = await invite(api, authority, tmp_path)
    async with root_of(api, authority) as root, agent(api, authority, tmp_path, join=join):
        await root.create_queue(Queue(name="red", namespaces=("default",)))
        await root.submit([JobDraft(queue="red", job_set="one", manifests=(POD,))])
        async with asyncio.timeout(TIMEOUT_S):
            async for batch in root.watch("red", "one", until_finished=True):
                last = batch
        assert last.state_counts["succeeded"] == 1
        await root.revoke_cluster("lab")
        await until(root, connected=False)
        with pytest.raises(NotAuthenticated):
            await member(api, authority, join).renew("lab")
        assert not await is_connected(root)
        said = [(one.kind, one.name, one.detail) async for one in root.list_audit_records(name="lab")]
    assert {("Cluster", "lab", detail) for detail in ("invitation", "certificate of its sampler", "revoked")} <= {*said}


async def test_invitation_is_good_for_one_process_of_each_part(api: Any, authority: Path, tmp_path: Path) -> None:
    """The same process may ask again when its answer was lost; another with the same token is refused."""
    join = await invite(api, authority, tmp_path)
    first = member(api, authority, join)
    await first.join("uid")
    _write(Path(first.credentials.certificate_file), b"")
    await first.join("uid")
    await member(api, authority, join, ClusterPart.EXECUTOR).join("uid")
    with pytest.raises(NotPermitted, match="another sampler"):
        await member(api, authority, replace(join, folder=str(tmp_path / "thief"))).join("uid")


async def test_name_is_bound_to_the_uid_of_its_first_process(api: Any, authority: Path, tmp_path: Path) -> None:
    """A process of another cluster gets no certificate of this name, invited or not."""
    join = await invite(api, authority, tmp_path)
    await member(api, authority, join).join("uid")
    with pytest.raises(NotAllowedNow, match="bound to another cluster"):
        await member(api, authority, join, ClusterPart.EXECUTOR).join("other")


async def test_certificate_is_renewed_for_the_same_key(api: Any, authority: Path, tmp_path: Path) -> None:
    """A process renews by itself with what it has, at two thirds of the time; both certificates count meanwhile."""
    process = member(api, authority, await invite(api, authority, tmp_path))
    await process.join("uid")
    path, key = Path(process.credentials.certificate_file), Path(process.credentials.key_file)
    before = _read(path), _read(key)
    begin_s, end_s = certificate_times(before[0])
    assert abs(await process.due_in_s() - (end_s - begin_s) * 2 / 3) < 60.0
    await process.renew("uid")
    assert (_read(path) == before[0], _read(key) == before[1]) == (False, True)
    assert _mode(key) == 0o600
    _write(path, before[0])
    await process.renew("uid")


async def test_once_invited_nothing_else_speaks_for_a_cluster(api: Any, authority: Path, tmp_path: Path) -> None:
    """A token of a file, and a certificate that an operator signed, count for a cluster that was never invited only."""
    by_hand = replace(
        credentials(authority),
        certificate_file=str(authority / "cluster-lab.pem"),
        key_file=str(authority / "cluster-lab.key"),
    )
    async with root_of(api, authority) as root:
        for proof in (by_hand, credentials(authority, "lab")):
            address = api.app.server.mutual_address if proof is by_hand else api.app.server.address
            async with ArgosyClient(address, credentials=proof) as lab:
                assert (await lab.who_am_i()).cluster == "lab"
        await root.invite_cluster("lab")
        await asyncio.sleep(0)
        for proof in (by_hand, credentials(authority, "lab")):
            address = api.app.server.mutual_address if proof is by_hand else api.app.server.address
            async with ArgosyClient(address, credentials=proof) as lab:
                with pytest.raises(NotAuthenticated, match="fetched with an invitation"):
                    await lab.who_am_i()


async def test_invitation_opens_nothing_but_the_door(api: Any, authority: Path, tmp_path: Path) -> None:
    """Its holder may not even ask who it is; its token is in no row."""
    await invite(api, authority, tmp_path)
    async with ArgosyClient(
        api.app.server.address, credentials=credentials(authority, str(tmp_path / "invitation"))
    ) as guest:
        with pytest.raises(NotPermitted, match="fetch their certificates"):
            await guest.who_am_i()
    token = (tmp_path / "invitation").read_text()
    with psycopg.connect(api.url) as connection:
        rows = connection.execute("SELECT * FROM cluster_invitations").fetchall()
    assert rows
    assert token not in str(rows)


async def test_of_a_request_nothing_counts_but_its_key(api: Any, authority: Path, tmp_path: Path) -> None:
    """The certificate says what the caller was admitted as; what is no request for a key of P-256 is refused."""
    join = await invite(api, authority, tmp_path)
    key = tmp_path / "key"
    proof = replace(credentials(authority), token_file=join.token_file)

    async def ask(request: bytes) -> str:
        channel = open_channel(join.address, proof)
        try:
            answer = await access_pb2_grpc.AccessServiceStub(channel).JoinCluster(
                access_pb2.JoinClusterRequest(certificate_request=request.decode(), part="agent", cluster_uid="uid"),
                metadata=call_metadata(join.address, proof),
            )
        except Exception as error:
            raise from_rpc_error(error) from error  # type: ignore[arg-type]
        finally:
            await channel.close()
        return str(answer.certificate)

    broken = make_request("x", key).replace(b"A", b"B")
    rsa = ("openssl", "req", "-new", "-newkey", "rsa:2048", "-nodes", "-keyout", "/dev/null", "-subj", "/CN=x")
    weak = await asyncio.to_thread(subprocess.run, rsa, capture_output=True, check=True)
    for request in (b"nothing", broken, weak.stdout):
        with pytest.raises((InvalidRequest, ArgosyError), match="certificate"):
            await ask(request)
    names = ("-addext", "subjectAltName=URI:spiffe://argosy/server", "-subj", "/CN=server")
    greedy = ("openssl", "req", "-new", "-key", str(key), *names)
    made = await asyncio.to_thread(subprocess.run, greedy, capture_output=True, check=True)
    shown = ("openssl", "x509", "-noout", "-text")
    pem = await ask(made.stdout)
    text = await asyncio.to_thread(subprocess.run, shown, input=pem, capture_output=True, text=True, check=True)
    assert "URI:spiffe://argosy/cluster/lab/agent" in text.stdout
    assert "spiffe://argosy/server" not in text.stdout
    assert "CN = agent of lab" in text.stdout
