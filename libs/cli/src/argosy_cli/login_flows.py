"""The two ways to log in at an issuer: a code typed into any device's browser, and the browser of this machine.

Each returns what the issuer's token endpoint answered. All calls block.

Source: `docs/security.md`; RFC 8628 (device), RFC 8252 and RFC 7636 (browser on this machine, proof of who asked), RFC
9207 (who answered).
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlencode, urlsplit

from argosy.issuer import IssuerError, ask_issuer, unverified_claims
from argosy_client.login import LoginSettings
from argosy_core.errors import BackendUnavailable, NotAllowedNow, NotAuthenticated

__all__ = ["log_in_by_browser", "log_in_by_device"]

_DEVICE_GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
_INTERVAL_S: Final = 5.0  # RFC 8628, section 3.2
_SLOWER_S: Final = 5.0  # RFC 8628, section 3.5
_WAIT_S: Final = 300.0
_OK: Final = 200
_PAGE: Final = b"<!doctype html><title>Argosy</title><p>You may close this page and go back to the command."


def log_in_by_device(
    settings: LoginSettings, published: Mapping[str, Any], *, tell: Callable[[str], None]
) -> Mapping[str, Any]:
    """Have the user type a code into a browser anywhere.

    Args:
        settings: Where the user logs in.
        published: What the issuer publishes of itself.
        tell: Shows the user a line.

    Raises:
        NotAllowedNow: The issuer knows no such way.
        NotAuthenticated: The user refused, or took too long.
        BackendUnavailable: The issuer cannot be asked.
    """
    place = _endpoint(published, "device_authorization_endpoint", "it with --browser")
    status, asked = _ask(settings, place, client_id=settings.client_id, scope=settings.scope)
    code, shown = asked.get("device_code"), asked.get("verification_uri_complete") or asked.get("verification_uri")
    if status != _OK or not isinstance(code, str) or not shown:
        raise NotAuthenticated(f"the issuer begins no login: {_reason(asked)}")
    tell(f"Open {shown} in any browser and enter the code {asked.get('user_code')}")
    interval_s, end_s = (
        _number(asked, "interval", _INTERVAL_S),
        time.monotonic() + _number(asked, "expires_in", _WAIT_S),
    )
    token_place = _endpoint(published, "token_endpoint", "at another issuer")
    while time.monotonic() < end_s:
        time.sleep(interval_s)
        status, answer = _ask(
            settings, token_place, grant_type=_DEVICE_GRANT, device_code=code, client_id=settings.client_id
        )
        if status == _OK:
            return answer
        match answer.get("error"):
            case "authorization_pending":
                pass
            case "slow_down":
                interval_s += _SLOWER_S
            case _:
                raise NotAuthenticated(f"the issuer refused the login: {_reason(answer)}")
    raise NotAuthenticated("nobody entered the code in time; log in again")


def log_in_by_browser(
    settings: LoginSettings, published: Mapping[str, Any], *, open_page: Callable[[str], object]
) -> Mapping[str, Any]:
    """Have the user log in with the browser of this machine, which comes back to a port that listens meanwhile.

    Args:
        settings: Where the user logs in.
        published: What the issuer publishes of itself.
        open_page: Opens a URL in the browser.

    Raises:
        NotAllowedNow: The issuer knows no such way.
        NotAuthenticated: The user refused or took too long, or it was not this login's issuer that answered.
        BackendUnavailable: The issuer cannot be asked.
    """
    state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
    proof = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    place = _endpoint(published, "authorization_endpoint", "without --browser")
    with _Callback() as callback:
        query = {
            "response_type": "code",
            "client_id": settings.client_id,
            "redirect_uri": callback.uri,
            "scope": settings.scope,
            "state": state,
            "nonce": nonce,
            "code_challenge": proof,
            "code_challenge_method": "S256",
        }
        open_page(f"{place}{'&' if '?' in place else '?'}{urlencode(query)}")
        said = callback.wait(state)
        if said.get("iss", settings.issuer) != settings.issuer or "code" not in said:
            raise NotAuthenticated(f"the issuer refused the login: {_reason(said)}")
        status, answer = _ask(
            settings,
            _endpoint(published, "token_endpoint", "at another issuer"),
            grant_type="authorization_code",
            code=said["code"],
            redirect_uri=callback.uri,
            client_id=settings.client_id,
            code_verifier=verifier,
        )
    if status != _OK:
        raise NotAuthenticated(f"the issuer refused the login: {_reason(answer)}")
    if unverified_claims(str(answer.get("id_token"))).get("nonce") != nonce:
        raise NotAuthenticated("the issuer answered the token of another login; log in again")
    return answer


class _Callback:
    """A port of this machine where the browser comes back to."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}
        callback = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 5.0  # of a connection that says nothing

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                is_ours = parts.path == "/callback"
                if is_ours:
                    callback._said = {key: values[0] for key, values in parse_qs(parts.query).items()}
                self.send_response(200 if is_ours else 404)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(_PAGE if is_ours else b"")

            def log_message(self, *args: object) -> None:
                """Say nothing: what the browser asks for holds the code."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.uri = f"http://127.0.0.1:{self._server.server_port}/callback"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._server.server_close()

    def wait(self, state: str) -> Mapping[str, str]:
        """Return what the issuer had the browser say; what does not name this login's state is passed over.

        Raises:
            NotAuthenticated: Nothing came in time.
        """
        end_s = time.monotonic() + _WAIT_S
        while (left_s := end_s - time.monotonic()) > 0:
            self._server.timeout = left_s
            self._server.handle_request()
            if secrets.compare_digest(self._said.get("state", "").encode(), state.encode()):
                return self._said
        raise NotAuthenticated("nobody logged in with the browser in time; log in again")


def _ask(settings: LoginSettings, place: str, **form: str) -> tuple[int, dict[str, Any]]:
    try:
        return ask_issuer(place, form=form, authority_file=settings.authority_file)
    except IssuerError as cause:
        raise BackendUnavailable(str(cause)) from cause


def _endpoint(published: Mapping[str, Any], name: str, instead: str) -> str:
    place = published.get(name)
    if not isinstance(place, str):
        raise NotAllowedNow(f"the issuer publishes no {name}; log in {instead}")
    return place


def _number(answer: Mapping[str, Any], name: str, otherwise: float) -> float:
    value = answer.get(name, otherwise)
    return float(value) if isinstance(value, (int, float)) and 0 <= value < 1e6 else otherwise


def _reason(answer: Mapping[str, Any]) -> str:
    """Return what an issuer says is wrong, printable and short."""
    text = str(answer.get("error_description") or answer.get("error") or "it does not say why")
    return "".join(sign for sign in text if sign.isprintable())[:200]
