"""`argosy login` and `logout` with an issuer of OpenID Connect tokens, and the calls that carry what they fetched."""

from __future__ import annotations

import json
import ssl
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jwt
import pytest

from argosy.issuer import unverified_claims
from argosy_cli.root import run
from argosy_client.contexts import read_contexts
from argosy_client.login import Login, LoginSettings
from argosy_core.errors import BackendUnavailable, InvalidRequest, NotAuthenticated
from argosy_testkit.fake_api import FakeApi
from argosy_testkit.fake_issuer import CLIENT_ID, FakeIssuer

CERTIFICATES = Path(__file__).parents[2] / "certificates"
AUTHORITY = str(CERTIFICATES / "authority.pem")


@pytest.fixture
def issuer() -> Iterator[FakeIssuer]:
    """Give an issuer with one user, alice."""
    with FakeIssuer(CERTIFICATES / "server.pem", CERTIFICATES / "server.key") as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give where the user's contexts are, of which there are none."""
    monkeypatch.setenv("ARGOSY_CONFIG", str(tmp_path / "config.toml"))
    for name in ("ARGOSY_SERVER", "ARGOSY_CONTEXT", "ARGOSY_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def work(folder: Path, issuer: FakeIssuer, server: str) -> Path:
    """Give the file of the login of the context `work`, at whose server nobody is logged in yet."""
    chosen = ("--issuer", issuer.url, "--client-id", CLIENT_ID, "--issuer-authority-file", AUTHORITY)
    assert run(["context", "set", "work", "--address", server, *chosen]) == 0
    return folder / "work" / "login.json"


def sent_token(api: FakeApi) -> str:
    """Return the token of the call of `argosy whoami`."""
    return str(api.metadata["WhoAmI"]["authorization"]).removeprefix("Bearer ")


def keep(file: Path, **changes: Any) -> None:
    """Change what is kept of a login."""
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def visit(url: str) -> None:
    """Open a page as a browser does: it follows where the issuer sends it."""
    context = ssl.create_default_context(cafile=AUTHORITY)
    threading.Thread(target=lambda: urllib.request.urlopen(url, context=context, timeout=10).close()).start()


def test_code_of_a_device_logs_in_and_calls_carry_the_token(
    *, work: Path, issuer: FakeIssuer, api: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    """The user is told where to enter which code; the token is the user's alone, sent, and shown nowhere."""
    assert run(["login"]) == 0
    shown = capsys.readouterr()
    assert "ABCD-EFGH" in shown.err
    assert issuer.url in shown.err
    kept = json.loads(work.read_text())
    assert work.stat().st_mode & 0o777 == 0o600
    assert unverified_claims(kept["token"])["sub"] == "alice"
    assert run(["whoami"]) == 0
    assert sent_token(api) == kept["token"]
    assert run(["context", "list"]) == 0
    shown = capsys.readouterr()
    assert issuer.url in shown.out
    assert kept["token"] not in shown.out + shown.err + (work.parent.parent / "config.toml").read_text()


def test_device_waits_until_the_code_was_entered(work: Path, issuer: FakeIssuer) -> None:
    """An issuer that waits for the user is asked again."""
    issuer.approved = False

    def enter_code() -> None:
        issuer.seen["/token"].wait(10)
        issuer.approved = True

    threading.Thread(target=enter_code).start()
    assert run(["login"]) == 0
    assert issuer.asked["/token"] >= 2
    assert work.exists()


def test_browser_logs_in_with_proof_of_who_asked(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The browser comes back to a port of this machine; the code is of use to nobody else."""
    monkeypatch.setattr("webbrowser.open", visit)
    assert run(["login", "--browser"]) == 0
    assert unverified_claims(json.loads(work.read_text())["token"])["sub"] == "alice"


def test_answer_to_another_login_is_not_taken(
    work: Path, monkeypatch: pytest.MonkeyPatch, issuer: FakeIssuer, capsys: pytest.CaptureFixture[str]
) -> None:
    """A page that sends a code of its own, under a state that was not drawn here, is passed over; so is a token."""

    def lure(url: str) -> None:
        back = dict(part.split("=", 1) for part in url.split("?")[1].split("&"))["redirect_uri"]
        stray = urllib.request.unquote(back) + "?code=stolen&state=x"  # type: ignore[attr-defined]

        def both() -> None:
            urllib.request.urlopen(stray, timeout=10).close()
            visit(url.replace("nonce=", "nonce=x"))

        threading.Thread(target=both).start()

    monkeypatch.setattr("webbrowser.open", lure)
    assert run(["login", "--browser"]) == 1
    assert "another login" in capsys.readouterr().err
    assert issuer.asked["/token"] == 1
    assert not work.exists()


def test_token_that_ends_soon_is_refreshed_once_by_many(work: Path, issuer: FakeIssuer, api: FakeApi) -> None:
    """Processes that find the token at its end take turns, so a refresh token, which is good once, is sent once."""
    assert run(["login"]) == 0
    keep(work, renew_s=0.0)
    settings = read_contexts().contexts["work"].login
    assert settings is not None
    with ThreadPoolExecutor(4) as threads:
        tokens = set(threads.map(lambda _: Login(settings).token(), range(4)))
    assert len(tokens) == 1
    assert issuer.asked["/token"] == 2
    assert run(["whoami"]) == 0
    assert {sent_token(api)} == tokens


def test_login_ends_when_the_issuer_ends_it(work: Path, issuer: FakeIssuer, capsys: pytest.CaptureFixture[str]) -> None:
    """A refused refresh is no matter while the token is good; then the user is told to log in again."""
    assert run(["login"]) == 0
    keep(work, renew_s=0.0, refresh_token="revoked")
    assert run(["whoami"]) == 0
    keep(work, end_s=1.0)
    capsys.readouterr()
    assert run(["whoami"]) == 1
    assert "argosy login" in capsys.readouterr().err


def test_issuer_that_is_down_is_no_matter_while_the_token_is_good(work: Path, issuer: FakeIssuer) -> None:
    """Without the issuer the token goes on until its end, and not beyond."""
    assert run(["login"]) == 0
    issuer.close()
    keep(work, renew_s=0.0)
    assert run(["whoami"]) == 0
    keep(work, end_s=1.0)
    assert run(["whoami"]) == 4


def test_logout_forgets_and_tells_the_issuer(
    work: Path, issuer: FakeIssuer, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was kept is gone, here and at the issuer; a call says how to log in."""
    assert run(["login"]) == 0
    settings = read_contexts().contexts["work"].login
    assert settings is not None
    before = work.read_text()
    assert run(["logout"]) == 0
    assert not work.exists()
    capsys.readouterr()
    assert run(["whoami"]) == 1
    assert "argosy login" in capsys.readouterr().err
    work.write_text(before)
    keep(work, renew_s=0.0, end_s=1.0)
    with pytest.raises(NotAuthenticated, match="ended the login"):
        Login(settings).token()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["context", "set", "x", "--address", "h:1", "--issuer", "https://i.example"], "go together"),
        (["login"], "names no issuer"),
    ],
)
def test_login_without_an_issuer_is_a_wrong_command(
    folder: Path, arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command says what is missing."""
    assert run(arguments) == 2
    assert why in capsys.readouterr().err


def test_context_of_a_login_is_not_exported(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Everybody logs in for themselves: there is nothing of it that another machine should have."""
    assert run(["login"]) == 0
    assert run(["context", "export", "work"]) == 2
    assert "context set" in capsys.readouterr().err


@pytest.mark.parametrize("answer", [{}, {"id_token": "x"}, {"id_token": 3}, {"access_token": "opaque"}])
def test_answer_without_an_id_token_is_no_login(tmp_path: Path, answer: dict[str, Any]) -> None:
    """What an issuer answers without the scope openid is refused with what to do."""
    settings = LoginSettings(issuer="https://i.example", client_id="c", file=str(tmp_path / "login.json"))
    with pytest.raises(NotAuthenticated, match="openid"):
        Login(settings).save(answer)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"token": "x"}'])
def test_damaged_file_says_to_log_in_again(tmp_path: Path, text: str) -> None:
    """A file that was written by nothing of ours is an error with a remedy, and never a traceback."""
    (tmp_path / "login.json").write_text(text)
    with pytest.raises(InvalidRequest, match="argosy login"):
        Login(LoginSettings(issuer="https://i.example", client_id="c", file=str(tmp_path / "login.json"))).token()


def test_login_of_another_issuer_is_not_sent(tmp_path: Path, issuer: FakeIssuer) -> None:
    """A context that was set to another issuer does not give it, or its servers, the token of the one before."""
    file = str(tmp_path / "login.json")
    Login(LoginSettings(issuer=issuer.url, client_id=CLIENT_ID, file=file)).save({"id_token": issuer.token()})
    with pytest.raises(NotAuthenticated, match="another issuer"):
        Login(LoginSettings(issuer="https://i.example", client_id=CLIENT_ID, file=file)).token()


def test_login_without_a_refresh_token_ends_with_its_token(tmp_path: Path, issuer: FakeIssuer) -> None:
    """It is good until its end, also within the last minute, and then says to log in again."""
    now_s = time.time()
    settings = LoginSettings(issuer=issuer.url, client_id=CLIENT_ID, file=str(tmp_path / "login.json"))
    login = Login(settings, clock_s=lambda: now_s)
    token = issuer.token()
    login.save({"id_token": token})
    now_s += issuer.lifetime_s - 30
    assert login.is_due
    assert login.token() == token
    now_s += 31
    with pytest.raises(NotAuthenticated, match="argosy login"):
        login.token()


def test_claims_of_what_is_no_token_are_none() -> None:
    """Reading an issuer's answer never fails."""
    assert [unverified_claims(text) for text in ("", "a.b.c", "a..", "é.é.é")] == [{}] * 4
    assert unverified_claims(jwt.encode({"a": 1}, "x" * 32)) == {"a": 1}


def test_unreachable_issuer_is_told_without_secrets(tmp_path: Path, issuer: FakeIssuer) -> None:
    """When the token has ended and the issuer is away, the error names the issuer and neither token."""
    settings = LoginSettings(issuer=issuer.url, client_id=CLIENT_ID, file=str(tmp_path / "login.json"))
    login = Login(settings, clock_s=lambda: time.time() + 7200)
    token = issuer.token()
    login.save({"id_token": token, "refresh_token": "secret-refresh"})
    with pytest.raises(BackendUnavailable) as caught:
        login.token()  # the machine does not trust the certificate
    assert issuer.url in caught.value.message
    assert token not in caught.value.message
    assert "secret-refresh" not in caught.value.message
