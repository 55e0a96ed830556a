"""An executor of a delegated cluster asks a sampler of another process for nodes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from argosy.channel_credentials import hash_token
from argosy_core.errors import ArgosyError, BackendUnavailable, NotAuthenticated
from argosy_core.job.tables.members import Members
from argosy_executor.config import ExecutorConfig
from argosy_executor.placing import open_sampler
from argosy_runtime.access.guard import CallerSettings
from argosy_runtime.channel import ChannelCredentials
from argosy_runtime.grpc_server import GrpcSettings
from argosy_sampler.app import make_server

CERTIFICATES = Path(__file__).resolve().parents[2] / "certificates"
AUTHORITY = str(CERTIFICATES / "authority.pem")
NOT_LISTED = "has not yet listed its cluster"


async def answer(tmp_path: Path, *, of_servers: dict[str, str], of_sampler: dict[str, str]) -> ArgosyError:
    """Return what an executor hears from a sampler with TLS, tokens, and a name of its own: it has listed nothing."""
    entry = {"cluster": "lab", "part": "executor", "sha256": hash_token("own")}
    (tmp_path / "tokens.yaml").write_text(yaml.safe_dump({"tokens": [entry]}))
    for name in ("own", "of-servers"):
        (tmp_path / name).write_text(name)
    settings = GrpcSettings(
        listen="127.0.0.1:0",
        certificate_file=str(CERTIFICATES / "next-server.pem"),
        key_file=str(CERTIFICATES / "next-server.key"),
    )
    server, _ = make_server(settings, CallerSettings(tokens_file=str(tmp_path / "tokens.yaml")), cluster="lab")
    await server.start()

    def credentials(said: dict[str, str]) -> ChannelCredentials:
        token = {"token_file": str(tmp_path / said["token_file"])} if "token_file" in said else {}
        return ChannelCredentials(**{**said, **token})

    config = ExecutorConfig(
        cluster="lab",
        cluster_address="simulated:h:1",
        server_addresses=("h:1",),
        sampler_address=server.address,
        call_timeout_s=5.0,
        credentials=credentials(of_servers),
        sampler_credentials=credentials(of_sampler),
    )
    calls = open_sampler(config)
    assert calls is not None
    try:
        with pytest.raises(ArgosyError) as caught:
            await calls.place("default", Members.of([1], [1]))
        return caught.value
    finally:
        await calls.close()
        await server.stop(0)


SERVERS = {"authority_file": AUTHORITY, "token_file": "of-servers", "server_name": "localhost"}
SAMPLER = {"authority_file": AUTHORITY, "token_file": "own", "server_name": "next.example"}


async def test_executor_asks_a_sampler_over_tls_by_credentials_of_its_own(tmp_path: Path) -> None:
    """As an agent does: the sampler has a name, and may have an authority and tokens, that servers do not know."""
    assert NOT_LISTED in (await answer(tmp_path, of_servers=SERVERS, of_sampler=SAMPLER)).message


async def test_what_is_for_servers_is_not_shown_where_something_is_set_for_the_sampler(tmp_path: Path) -> None:
    """A token for servers would be one that the sampler could use."""
    refused = await answer(tmp_path, of_servers=SERVERS, of_sampler={**SAMPLER, "token_file": "of-servers"})
    assert isinstance(refused, NotAuthenticated)
    nameless = {name: value for name, value in SAMPLER.items() if name != "token_file"}
    without = await answer(tmp_path, of_servers={**SERVERS, "token_file": "own"}, of_sampler=nameless)
    assert isinstance(without, NotAuthenticated)


async def test_sampler_is_known_as_servers_are_where_nothing_is_set_for_it(tmp_path: Path) -> None:
    """So it is where one authority signs for all, and the name in its certificate is the one that is expected."""
    assert NOT_LISTED in (await answer(tmp_path, of_servers=SAMPLER, of_sampler={})).message
    assert isinstance(await answer(tmp_path, of_servers=SERVERS, of_sampler={}), BackendUnavailable)


def test_executor_without_a_sampler_asks_none() -> None:
    """It returns what is leased to a delegated cluster."""
    assert (
        open_sampler(ExecutorConfig(cluster="lab", cluster_address="simulated:h:1", server_addresses=("h:1",))) is None
    )
