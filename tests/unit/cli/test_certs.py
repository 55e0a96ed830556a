"""`argosy certs`: what is signed opens a server's port, names its holder and can be renewed in place."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from argosy.channel_credentials import ChannelCredentials, open_aio_channel
from argosy_cli.root import run
from argosy_core.access import ClusterPart, Permissions, Principal
from argosy_runtime.access.certificates import certificate_principal
from argosy_runtime.access.guard import AccessSettings, Guard
from argosy_runtime.grpc_server import GrpcServer, GrpcSettings


def certs(*arguments: str) -> int:
    """Run `argosy certs` and return its exit code."""
    return run(["certs", *arguments])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder with an authority of the installation `lab`."""
    assert certs("init", str(tmp_path / "tls"), "--installation", "lab") == 0
    return tmp_path / "tls"


def identity_of(path: Path) -> Principal | None:
    """Return whom the guard of `lab` takes the holder of a certificate for."""
    command = ["openssl", "x509", "-noout", "-ext", "subjectAltName", "-in", str(path)]
    said = subprocess.run(command, capture_output=True, check=True).stdout
    uris = re.findall(rb"URI:([^,\s]+)", said)
    context = {"x509_pem_cert": [path.read_bytes()], "x509_subject_alternative_name": uris}
    found = certificate_principal(context, installation="lab")
    return found and replace(found, certificate="")


def test_certificate_names_its_holder(folder: Path) -> None:
    """Servers, clusters, single parts of them and users are known by what is signed for them."""
    assert certs("issue", str(folder), "--for-servers", "--host", "localhost", "--host", "127.0.0.1") == 0
    assert certs("issue", str(folder), "--cluster", "west") == 0
    assert certs("issue", str(folder), "--cluster", "west", "--part", "sampler") == 0
    assert certs("issue", str(folder), "--user", "alice") == 0
    found = {path.stem: identity_of(path) for path in folder.glob("*.pem") if path.stem != "authority"}
    assert found == {
        "server": Principal(name="server", is_server=True),
        "cluster-west": Principal(name="west", cluster="west"),
        "cluster-west-sampler": Principal(name="west", cluster="west", part=ClusterPart.SAMPLER),
        "user-alice": Principal(name="alice"),
    }
    assert {path.stat().st_mode & 0o077 for path in folder.glob("*.key")} == {0}


async def test_what_is_signed_makes_a_mutual_connection(folder: Path) -> None:
    """A server and a client that trust the authority reach each other; its holder is refused without a certificate."""
    certs("issue", str(folder), "--for-servers", "--host", "127.0.0.1")
    certs("issue", str(folder), "--user", "alice")

    async def nothing(_: Principal) -> Permissions:
        return Permissions()

    authority = str(folder / "authority.pem")
    settings = GrpcSettings(
        listen="127.0.0.1:0",
        certificate_file=str(folder / "server.pem"),
        key_file=str(folder / "server.key"),
        client_authority_file=authority,
    )
    server = GrpcServer(settings, guard=Guard(AccessSettings(installation="lab"), rules={}, permissions_of=nothing))
    await server.start()
    own = {"certificate_file": str(folder / "user-alice.pem"), "key_file": str(folder / "user-alice.key")}
    try:
        codes = []
        for credentials in (
            ChannelCredentials(authority_file=authority, **own),
            ChannelCredentials(authority_file=authority),
        ):
            async with open_aio_channel(server.address, credentials, []) as channel:
                call = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=50)
                codes.append(await call.code())
        assert codes == [grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE]
    finally:
        await server.stop(0)


def test_certificate_that_ends_soon_is_renewed_with_its_key(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only what ends within the days asked for is signed again; key and identity stay."""
    certs("issue", str(folder), "--user", "alice", "--days", "10")
    certs("issue", str(folder), "--user", "bob")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    capsys.readouterr()
    assert run(["certs", "renew", str(folder), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"renewed": ["user-alice"]}
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert {name for name in before if before[name] != after[name]} == {"user-alice.pem"}
    assert identity_of(folder / "user-alice.pem") == Principal(name="alice")


def test_nothing_is_overwritten(folder: Path) -> None:
    """An authority and a certificate that are there stay as they are."""
    certs("issue", str(folder), "--user", "alice")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert certs("init", str(folder)) == 1
    assert certs("issue", str(folder), "--user", "alice") == 1
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--for-servers"],
        ["--for-servers", "--user", "alice", "--host", "x"],
        ["--user", "a/b"],
        ["--user", "a,URI:spiffe://lab/server"],
        ["--part", "sampler", "--user", "alice"],
        ["--for-servers", "--host", "a,URI:spiffe://lab/x"],
        ["--user", "alice", "--host", "x"],
    ],
)
def test_certificate_is_of_one_holder_whose_name_says_nothing_more(folder: Path, arguments: list[str]) -> None:
    """Whose it is must be said once, and no name smuggles another identity in."""
    assert certs("issue", str(folder), *arguments) == 2
    assert {path.name for path in folder.iterdir()} == {"authority.pem", "authority.key", "certificates.json"}


def test_folder_without_an_authority_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error says how to make one."""
    assert certs("issue", str(tmp_path), "--user", "alice") == 3
    assert "argosy certs init" in capsys.readouterr().err
