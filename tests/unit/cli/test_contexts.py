"""`argosy context`, and what commands make of it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from argosy_cli.root import run
from argosy_client import ChannelCredentials
from argosy_client.contexts import ClientContext, ClientContexts, import_context, read_contexts, write_contexts
from argosy_core.errors import InvalidRequest, NotFound
from argosy_testkit.fake_api import FakeApi


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the path of the user's contexts, of which there are none."""
    monkeypatch.setenv("ARGOSY_CONFIG", str(tmp_path / "below" / "config.toml"))
    return tmp_path / "below" / "config.toml"


def test_what_is_written_is_read(file: Path) -> None:
    """Every value comes back, odd signs included; the file is its user's alone."""
    credentials = ChannelCredentials(authority_file='/a "b"\\c\n', token_file="/tökén")
    wanted = ClientContexts(
        current="work",
        contexts={"work": ClientContext(server="h:1", credentials=credentials), "home": ClientContext(server="h:2")},
    )
    write_contexts(wanted)
    assert read_contexts() == wanted
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "text", ["[", "current = 3", "other = 1", "[contexts.x]\nserver = 3", "[contexts.x]\nsever = 'h:1'", "[contexts.x]"]
)
def test_file_that_says_something_else_is_refused_with_its_name(file: Path, text: str) -> None:
    """A misspelt key must not be a missing one."""
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(InvalidRequest, match=r"config\.toml"):
        read_contexts()


def test_context_that_is_not_there_names_those_that_are(file: Path) -> None:
    """No file is no context; a name that is wrong is told with the others."""
    assert read_contexts().find() is None
    write_contexts(ClientContexts(contexts={"work": ClientContext(server="h:1")}))
    with pytest.raises(NotFound, match="work"):
        read_contexts().find("wrok")


def test_commands_talk_to_the_context_in_use_unless_told_otherwise(
    *, file: Path, api: FakeApi, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Server and token are the context's; a variable and a flag go before it."""
    monkeypatch.delenv("ARGOSY_SERVER", raising=False)
    (tmp_path / "token").write_text("alice's")
    assert run(["context", "set", "work", "--address", server, "--token-file", str(tmp_path / "token")]) == 0
    assert run(["queue", "list"]) == 0
    assert api.metadata["ListQueues"]["authorization"] == "Bearer alice's"
    monkeypatch.setenv("ARGOSY_TOKEN_FILE", str(tmp_path / "none"))
    assert run(["queue", "list"]) == 2
    monkeypatch.setenv("ARGOSY_SERVER", server)
    monkeypatch.delenv("ARGOSY_TOKEN_FILE")
    assert run(["queue", "list"]) == 0
    assert "authorization" not in api.metadata["ListQueues"]  # a context's token is for its own server


def test_contexts_are_listed_used_and_removed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The one in use has a star, and none is left in use when it goes."""
    run(["context", "set", "work", "--address", "h:1", "--authority-file", "system"])
    run(["context", "set", "home", "--address", "h:2"])
    assert run(["context", "use", "work"]) == 0
    assert run(["context", "use", "wrok"]) == 3
    capsys.readouterr()
    run(["context", "list"])
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert rows == [["home", "h:2", "no", "-"], ["work", "*", "h:1", "yes", "-"]]
    assert run(["context", "remove", "work"]) == 0
    assert read_contexts() == ClientContexts(contexts={"home": ClientContext(server="h:2")})
    assert run(["context", "set", "a b", "--address", "h:2"]) == 2


def test_context_travels_with_its_files(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is exported is imported elsewhere under any name, in files of one's own; what is no context is refused."""
    (tmp_path / "authority.pem").write_text("PEM")
    (tmp_path / "token").write_text("alice's\n")
    given = ["--authority-file", str(tmp_path / "authority.pem"), "--token-file", str(tmp_path / "token")]
    assert run(["context", "set", "here", "--address", "h:1", *given]) == 0
    capsys.readouterr()
    assert run(["context", "export", "here", "--address", "h:2"]) == 0
    bundle = capsys.readouterr().out
    monkeypatch.setenv("ARGOSY_CONFIG", str(tmp_path / "other" / "config.toml"))
    monkeypatch.setattr("sys.stdin", io.StringIO(bundle))
    assert run(["context", "import", "there"]) == 0
    read = read_contexts()
    credentials = read.contexts["there"].credentials
    assert (read.current, read.contexts["there"].server) == ("there", "h:2")
    assert credentials.metadata("h:2") == (("authorization", "Bearer alice's"),)
    assert (tmp_path / "other" / "there" / "authority.pem").read_text() == "PEM"
    assert Path(credentials.token_file).stat().st_mode & 0o777 == 0o600
    for text in ("", "[]", "{}", bundle.replace("server_name", "serverName")):
        with pytest.raises(InvalidRequest, match="no context"):
            import_context(text, "x")
    with pytest.raises(InvalidRequest, match="name"):
        import_context(bundle, "../x")
