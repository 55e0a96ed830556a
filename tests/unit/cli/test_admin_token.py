"""`argosy admin token`: the secret goes to a file, and what is printed is what servers read."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from argosy.channel_credentials import hash_token
from argosy_cli.root import run
from argosy_core.access import ClusterPart, Principal
from argosy_runtime.access.tokens import TokenFile


@pytest.mark.parametrize(
    ("arguments", "principal"),
    [
        (["alice", "--group", "research"], Principal(name="alice", groups=("research",))),
        (["--cluster", "west"], Principal(name="west", cluster="west")),
        (
            ["--cluster", "west", "--part", "sampler"],
            Principal(name="west", cluster="west", part=ClusterPart.SAMPLER),
        ),
        (["--for-servers"], Principal(name="server", is_server=True)),
    ],
)
def test_token_is_known_by_the_entry_that_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], principal: Principal
) -> None:
    """What is printed stands for the token, does not hold it, and the file is its holder's alone."""
    secret = tmp_path / "secret"
    assert run(["admin", "token", *arguments, "--secret-file", str(secret)]) == 0
    entry = capsys.readouterr().out
    token = secret.read_text().strip()
    (tmp_path / "tokens.yaml").write_text(yaml.safe_dump({"tokens": yaml.safe_load(entry)}))
    assert TokenFile(str(tmp_path / "tokens.yaml")).find(token) == principal
    assert token not in entry
    assert secret.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("arguments", [[], ["alice", "--for-servers"], ["a b"], ["alice", "--group", "a,b"]])
def test_token_is_of_exactly_one_holder_with_a_name(tmp_path: Path, arguments: list[str]) -> None:
    """Whose token it is must be said, once, and as a name."""
    assert run(["admin", "token", *arguments, "--secret-file", str(tmp_path / "secret")]) == 2
    assert not (tmp_path / "secret").exists()


def test_secret_of_another_is_not_overwritten(tmp_path: Path) -> None:
    """A file that is there stays as it is."""
    (tmp_path / "secret").write_text("dear")
    assert run(["admin", "token", "alice", "--secret-file", str(tmp_path / "secret")]) == 2
    assert (tmp_path / "secret").read_text() == "dear"


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "# ours\ntokens:\n- {name: bob, sha256: 'HASH'}\n",
        "tokens:\n  - {name: bob, sha256: 'HASH'}",
        '{"tokens": [{"name": "bob", "sha256": "HASH"}]}',
        "tokens: []\n",
    ],
)
def test_entry_is_added_to_a_file_of_tokens_however_that_is_written(tmp_path: Path, text: str | None) -> None:
    """Servers know the new user and whoever was there before; remarks stay."""
    tokens, secret = tmp_path / "tokens.yaml", tmp_path / "secret"
    if text is not None:
        tokens.write_text(text.replace("HASH", hash_token("old")))
    assert run(["admin", "token", "alice", "--secret-file", str(secret), "--tokens-file", str(tokens)]) == 0
    found = TokenFile(str(tokens))
    assert found.find(secret.read_text().strip()) == Principal(name="alice")
    if text and "HASH" in text:
        assert found.find("old") == Principal(name="bob")
    assert ("# ours" in (text or "")) == ("# ours" in tokens.read_text())


@pytest.mark.parametrize("text", ["tokens: {", "tokens: 7\n", "- a\n"])
def test_file_that_holds_no_tokens_stays_as_it_is(tmp_path: Path, text: str) -> None:
    """What is no list of tokens is refused, and nothing is drawn for it."""
    tokens, secret = tmp_path / "tokens.yaml", tmp_path / "secret"
    tokens.write_text(text)
    assert run(["admin", "token", "alice", "--secret-file", str(secret), "--tokens-file", str(tokens)]) == 2
    assert tokens.read_text() == text
    assert not secret.exists()
