"""Secrets of a mesh on this machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from argosy_core.errors import BackendUnavailable
from argosy_local.security import make_secrets
from argosy_runtime.access.tokens import TokenFile, read_tokens


def test_secrets_are_their_owner_s_and_last(tmp_path: Path) -> None:
    """Keys and tokens are for one user alone; a mesh that goes on has the authority and the token that it had."""
    secrets = make_secrets(tmp_path / "secrets", ["c1"])
    kept = {
        name: (tmp_path / "secrets" / name).read_bytes() for name in ("authority.pem", "admin-token", "tokens.yaml")
    }
    assert make_secrets(tmp_path / "secrets", ["c1", "c2"]) == secrets
    assert {name: (tmp_path / "secrets" / name).read_bytes() for name in kept} == kept
    assert (tmp_path / "secrets" / "cluster-c2.pem").exists()
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700
    for path in (tmp_path / "secrets").iterdir():
        assert path.suffix == ".pem" or path.stat().st_mode & 0o077 == 0, path


def test_users_are_added_to_the_servers_file(tmp_path: Path) -> None:
    """The file that servers read holds no token, and names whoever was added."""
    secrets = make_secrets(tmp_path / "secrets", [])
    token = secrets.add_token("alice", "research").read_text()
    found = TokenFile(str(secrets.tokens_file)).find(token)
    assert found is not None
    assert (found.name, found.groups) == ("alice", ("research",))
    assert token not in secrets.tokens_file.read_text()
    (sent,) = secrets.credentials.metadata("127.0.0.1:1")
    admin = TokenFile(str(secrets.tokens_file)).find(sent[1].removeprefix("Bearer "))
    assert admin is not None
    assert admin.name == "admin"


def test_a_line_can_be_added_to_the_servers_file_by_hand(tmp_path: Path) -> None:
    """What `argosy admin token` prints stands below the entries that are there, also in an earlier version's mesh."""
    secrets = make_secrets(tmp_path / "secrets", [])
    entries = [{"name": "admin", "groups": [], "sha256": "a" * 64}]
    for text in (secrets.tokens_file.read_text(), json.dumps({"tokens": entries})):
        secrets.tokens_file.write_text(text)
        secrets.add_token("alice")
        with secrets.tokens_file.open("a") as file:
            file.write('- {"name": "bob", "sha256": "' + "b" * 64 + '"}\n')
        names = [one.name for one in read_tokens([secrets.tokens_file.read_bytes()], where="it").values()]
        assert names == ["admin", "alice", "bob"]


def test_machine_without_openssl_is_told_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A secured mesh needs the program; without it nothing is started."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BackendUnavailable, match="openssl"):
        make_secrets(tmp_path / "secrets", [])
