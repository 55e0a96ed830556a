"""Certificates and tokens are replaced while calls are made: none fails, and what was replaced counts no more."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from argosy.channel_credentials import ChannelCredentials, hash_token
from argosy_cli.certificates import Authority, CertificateText, make_authority
from argosy_client import ArgosyClient, JobDraft, Queue
from argosy_core.errors import NotAuthenticated
from argosy_runtime.access.guard import AccessSettings, OidcSettings
from argosy_runtime.grpc_server import GrpcSettings
from argosy_testkit.fake_issuer import CLIENT_ID, FakeIssuer

CERTIFICATES = Path(__file__).parents[2] / "certificates"
TIMEOUT_S = 150.0
POD = """{"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "main", "image": "busybox", "resources":
{"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}}]}}"""


@dataclass
class Load:
    """Submits and reads without end, over new connections and over one that stays."""

    address: str
    credentials: ChannelCredentials
    count: int = 0
    """Calls that were answered."""
    failures: list[str] = field(default_factory=list)
    """Calls that were not."""

    async def run(self) -> None:
        """Call until cancelled."""
        async with ArgosyClient(self.address, credentials=self.credentials) as lasting:
            while True:
                async with ArgosyClient(self.address, credentials=self.credentials) as fresh:
                    for client in (lasting, fresh):
                        try:
                            await client.submit([JobDraft(queue="red", job_set="one", manifests=(POD,))])
                            await client.get_queue("red")
                        except Exception as error:  # noqa: BLE001 - whatever fails is what the test is about
                            self.failures.append(str(error))
                        self.count += 2

    async def go_on(self, count: int = 20) -> None:
        """Return after so many further calls."""
        wanted = self.count + count
        while self.count < wanted:  # noqa: ASYNC110 - a count is no event
            await asyncio.sleep(0.01)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Give an authority with a certificate of the server."""
    made = make_authority(tmp_path / "tls", installation="argosy", days=2)
    made.issue(CertificateText(name="server", uri="spiffe://argosy/server", hosts=("127.0.0.1",)))
    return made


async def test_no_call_fails_while_certificate_and_token_are_replaced(
    serve: Any, database_url: str, authority: Authority, tmp_path: Path
) -> None:
    """A renewed certificate is shown to new connections; a token is replaced by having both count for a while."""
    tls = tmp_path / "tls"
    tokens, own = tmp_path / "tokens.yaml", tmp_path / "own"

    def write_tokens(*values: str) -> None:
        entries = [{"name": "root", "sha256": hash_token(value)} for value in values]
        tokens.write_text(yaml.safe_dump({"tokens": entries}))

    write_tokens("first")
    own.write_text("first")
    grpc = GrpcSettings(
        listen="127.0.0.1:0",
        certificate_file=str(tls / "server.pem"),
        key_file=str(tls / "server.key"),
        calls_per_s=0.0,
    )
    access = AccessSettings(tokens_file=str(tokens), admins=("user:root",))
    async with serve(database_url, access=access, grpc=grpc) as api, asyncio.timeout(TIMEOUT_S):
        address = api.app.server.address
        credentials = ChannelCredentials(authority_file=str(tls / "authority.pem"), token_file=str(own))
        async with ArgosyClient(address, credentials=credentials) as root:
            await root.create_queue(Queue(name="red", namespaces=("default",)))
        load = Load(address, credentials)
        calling = asyncio.ensure_future(load.run())
        await load.go_on()
        shown = await asyncio.to_thread(certificate_of, address)
        authority.renew("server")
        await until(lambda: certificate_of(address) != shown)
        write_tokens("first", "second")
        async with ArgosyClient(address, credentials=with_token(credentials, tmp_path, "second")) as second:
            await until_admitted(second)
        own.write_text("second")
        await load.go_on(40)
        calling.cancel()
        write_tokens("second")
        async with ArgosyClient(address, credentials=with_token(credentials, tmp_path, "first")) as old:
            with pytest.raises(NotAuthenticated):
                await call_for_ever(old)
        assert load.failures == []
        assert load.count >= 60


async def test_no_call_fails_while_an_issuer_changes_its_key(serve: Any, database_url: str, tmp_path: Path) -> None:
    """Both keys are published for a while, as issuers do: tokens of either count, those of the new one at once."""
    own = tmp_path / "own"
    with FakeIssuer(CERTIFICATES / "server.pem", CERTIFICATES / "server.key") as issuer:
        own.write_text(issuer.token())
        oidc = OidcSettings(
            issuer=issuer.url, audiences=(CLIENT_ID,), authority_file=str(CERTIFICATES / "authority.pem")
        )
        access = AccessSettings(oidc=oidc, admins=("user:alice",))
        grpc = GrpcSettings(listen="127.0.0.1:0", calls_per_s=0.0)
        credentials = ChannelCredentials(token_file=str(own))
        async with serve(database_url, access=access, grpc=grpc) as api, asyncio.timeout(TIMEOUT_S):
            async with ArgosyClient(api.app.server.address, credentials=credentials) as alice:
                await alice.create_queue(Queue(name="red", namespaces=("default",)))
            load = Load(api.app.server.address, credentials)
            calling = asyncio.ensure_future(load.run())
            await load.go_on()
            old = list(issuer.published)
            issuer.rotate("second")
            issuer.published += old
            own.write_text(issuer.token())
            await load.go_on(40)
            calling.cancel()
            assert issuer.asked["/keys"] == 2
            assert load.failures == []


def with_token(credentials: ChannelCredentials, folder: Path, token: str) -> ChannelCredentials:
    """Return the credentials of somebody with a token."""
    path = folder / f"token-{token}"
    path.write_text(token)
    return ChannelCredentials(authority_file=credentials.authority_file, token_file=str(path))


def certificate_of(address: str) -> str:
    """Return the certificate that a server shows."""
    host, _, port = address.rpartition(":")
    return ssl.get_server_certificate((host, int(port)))


async def until(condition: Callable[[], bool]) -> None:
    """Return once a condition holds; it blocks."""
    while not await asyncio.to_thread(condition):  # noqa: ASYNC110 - what the server shows is no event
        await asyncio.sleep(0.05)


async def call_for_ever(client: ArgosyClient) -> None:
    """Call until a call fails."""
    while True:
        await client.who_am_i()


async def until_admitted(client: ArgosyClient) -> None:
    """Return once a token counts."""
    while True:
        try:
            await client.who_am_i()
        except NotAuthenticated:
            await asyncio.sleep(0.05)
        else:
            return
