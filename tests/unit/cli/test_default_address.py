"""Which server a command talks to when none is named and no mesh was started."""

from pathlib import Path

import pytest

from argosy_cli.options import Settings
from argosy_cli.session import DEFAULT_ADDRESS, server_address
from argosy_core.errors import BackendUnavailable
from argosy_runtime.grpc_server import GrpcSettings


def test_default_address_is_where_a_server_listens_by_itself() -> None:
    """A server started without settings, and the compose stack, are found without being named."""
    assert GrpcSettings().listen == DEFAULT_ADDRESS


def test_server_at_the_default_address_is_found(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who listens at the default address is the server if none is named."""
    monkeypatch.setattr("argosy_cli.session.DEFAULT_ADDRESS", server)
    assert server_address(Settings(server="", home=tmp_path)) == server
    assert server_address(Settings(server="other:1", home=tmp_path)) == "other:1"


def test_nobody_at_the_default_address_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody listens, the message says how to start or name a server."""
    monkeypatch.setattr("argosy_cli.session.DEFAULT_ADDRESS", "127.0.0.1:1")
    with pytest.raises(BackendUnavailable, match="start a mesh"):
        server_address(Settings(server="", home=tmp_path))
