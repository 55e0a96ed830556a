"""An OpenID Connect issuer inside the test's process: HTTPS, keys that rotate, and logins by device and by browser.

It plays what is foreign: whoever asks is believed to have logged in as `user`, once `approved` says so.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import ssl
import threading
import time
from collections import Counter, defaultdict
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import parse_qsl, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

__all__ = ["CLIENT_ID", "FakeIssuer"]

CLIENT_ID: Final = "argosy-command"
"""The client that people log in with, and whom tokens are for."""


class _QuietServer(ThreadingHTTPServer):
    """Says nothing of clients that go away, as those do that do not trust the certificate."""

    daemon_threads = True

    def handle_error(self, *args: object) -> None:
        """Say nothing."""


class FakeIssuer:
    """An issuer at a free port of this machine.

    Args:
        certificate: PEM file of a certificate for 127.0.0.1.
        key: PEM file of its key.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        """Listen."""
        self.user = "alice"
        """Who logs in."""
        self.groups = ["research"]
        """Groups of whoever logs in."""
        self.approved = True
        """Whether the user of a device has typed the code, or has not yet."""
        self.lifetime_s = 3600.0
        """How long tokens are good."""
        self.asked: Counter[str] = Counter()
        """How often each path was asked for."""
        self.seen: defaultdict[str, threading.Event] = defaultdict(threading.Event)
        """Set once a path was asked for and answered."""
        self.published: list[dict[str, Any]] = []
        """Keys that are published, as JWKs."""
        self.answers: dict[str, tuple[int, bytes]] = {}
        """Answers instead of the true ones, by path: status and body."""
        self._codes: dict[str, dict[str, str]] = {}
        self._refreshes: set[str] = set()
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                issuer.respond(self, parts.path, dict(parse_qsl(parts.query)))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                issuer.respond(self, urlsplit(self.path).path, dict(parse_qsl(body.decode())))

            def log_message(self, *args: object) -> None:
                del args

        self._server = _QuietServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"https://127.0.0.1:{self._server.server_port}"
        """Its name."""
        self.rotate("first")
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Listen no more."""
        self.close()

    def close(self) -> None:
        """Listen no more; may be called twice."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def rotate(self, key_id: str) -> None:
        """Sign with a new key from now on, and publish it alone."""
        self.key, self.key_id = ec.generate_private_key(ec.SECP256R1()), key_id
        public = jwt.algorithms.ECAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        self.published = [{**public, "kid": key_id, "use": "sig"}]

    def allow_device(self, code: str) -> None:
        """Take a device's code as one that was asked for."""
        self._codes[code] = {}

    def token(self, *, headers: dict[str, Any] | None = None, **claims: Any) -> str:  # noqa: ANN401 - claims are JSON
        """Return a signed token of whoever logs in; claims that are None are left out."""
        now_s = time.time()
        said = {
            "iss": self.url, "aud": CLIENT_ID, "sub": self.user, "groups": self.groups,
            "iat": int(now_s), "exp": int(now_s + self.lifetime_s), "jti": secrets.token_hex(4),
        } | claims  # fmt: skip
        said = {name: value for name, value in said.items() if value is not None}
        token: str = jwt.encode(said, self.key, algorithm="ES256", headers={"kid": self.key_id} | (headers or {}))
        return token

    def respond(self, handler: BaseHTTPRequestHandler, path: str, form: dict[str, str]) -> None:
        """Answer one request."""
        self.asked[path] += 1
        status, content, location = HTTPStatus.OK, b"", ""
        if path in self.answers:
            known, content = self.answers[path]
            status = HTTPStatus(known)
        elif path == "/authorize":
            location = self._authorize(form)
            status = HTTPStatus.FOUND
        else:
            status, document = self._document(path, form)
            content = json.dumps(document).encode()
        handler.send_response(status)
        if location:
            handler.send_header("Location", location)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)
        self.seen[path].set()

    def _document(self, path: str, form: dict[str, str]) -> tuple[HTTPStatus, dict[str, Any]]:
        match path:
            case "/.well-known/openid-configuration":
                return HTTPStatus.OK, {
                    "issuer": self.url,
                    "jwks_uri": f"{self.url}/keys",
                    "authorization_endpoint": f"{self.url}/authorize",
                    "device_authorization_endpoint": f"{self.url}/device",
                    "token_endpoint": f"{self.url}/token",
                    "revocation_endpoint": f"{self.url}/revoke",
                }
            case "/keys":
                return HTTPStatus.OK, {"keys": self.published}
            case "/device":
                code = secrets.token_hex(8)
                self._codes[code] = form
                return HTTPStatus.OK, {
                    "device_code": code, "user_code": "ABCD-EFGH", "verification_uri": f"{self.url}/activate",
                    "expires_in": 300, "interval": 0,
                }  # fmt: skip
            case "/token":
                return self._grant(form)
            case "/revoke":
                self._refreshes.discard(form.get("token", ""))
                return HTTPStatus.OK, {}
        return HTTPStatus.NOT_FOUND, {}

    def _authorize(self, form: dict[str, str]) -> str:
        code = secrets.token_hex(8)
        self._codes[code] = form
        return f"{form['redirect_uri']}?{urlencode({'code': code, 'state': form['state']})}"

    def _grant(self, form: dict[str, str]) -> tuple[HTTPStatus, dict[str, Any]]:
        """Answer tokens for what is good once: a code of a device, a code of a browser, a refresh token."""
        if form.get("client_id") != CLIENT_ID:
            return HTTPStatus.UNAUTHORIZED, {"error": "invalid_client"}
        match form.get("grant_type", "").rpartition(":")[2]:
            case "device_code":
                if not self.approved:
                    return HTTPStatus.BAD_REQUEST, {"error": "authorization_pending"}
                known = self._codes.pop(form["device_code"], None)
            case "authorization_code":
                known = self._codes.pop(form["code"], None)
                digest = hashlib.sha256(form["code_verifier"].encode()).digest()
                proof = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
                if known and (known["code_challenge"], known["redirect_uri"]) != (proof, form["redirect_uri"]):
                    known = None
            case "refresh_token":
                known = {"nonce": ""} if form["refresh_token"] in self._refreshes else None
                self._refreshes.discard(form["refresh_token"])
            case _:
                return HTTPStatus.BAD_REQUEST, {"error": "unsupported_grant_type"}
        if known is None:
            return HTTPStatus.BAD_REQUEST, {"error": "invalid_grant"}
        refresh = secrets.token_hex(16)
        self._refreshes.add(refresh)
        token = self.token(nonce=known.get("nonce") or None)
        return HTTPStatus.OK, {"id_token": token, "access_token": "opaque", "refresh_token": refresh, "expires_in": 5}
