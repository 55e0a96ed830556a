"""Issuers of OpenID Connect tokens are asked here: JSON over verified HTTPS, bounded, and no redirect is followed."""

import base64
import http.client
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

__all__ = ["IssuerError", "ask_issuer", "discover_issuer", "unverified_claims"]

_TIMEOUT_S = 5.0
_MAX_BYTES = 1 << 20  # keys of the largest issuers are 20 kB


class IssuerError(RuntimeError):
    """The issuer cannot be reached, or does not answer as one; the text holds nothing that was sent to it."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows none: what is asked could be a secret, and whoever answers for keys is the one that was named."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage, newurl: str
    ) -> None:
        """Return that there is nothing to follow."""


def ask_issuer(
    url: str, *, form: Mapping[str, str] | None = None, authority_file: str = "", timeout_s: float = _TIMEOUT_S
) -> tuple[int, dict[str, Any]]:
    """Return the status and the JSON object that a URL answers; blocks.

    Args:
        url: An https URL.
        form: What is posted; None gets.
        authority_file: PEM file of the authorities that sign the issuer's certificate; empty or `system` for those that
            the machine trusts.
        timeout_s: How long each step of the call may take.

    Raises:
        IssuerError: Nobody can be asked there, or the answer is no JSON object of 1 MiB at most.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "https" or not parts.hostname:
        raise IssuerError(f"{url!r} is no https URL")
    place = f"https://{parts.netloc}{parts.path}"
    authority = None if authority_file in {"", "system"} else str(Path(authority_file).expanduser())
    body = None if form is None else urllib.parse.urlencode(form).encode()
    try:
        opener = urllib.request.build_opener(
            _NoRedirects, urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=authority))
        )
        request = urllib.request.Request(url, data=body, headers={"Accept": "application/json"})  # noqa: S310 - https
        try:
            answer = opener.open(request, timeout=timeout_s)
        except urllib.error.HTTPError as refused:
            answer = refused
        with answer:
            status, content = int(answer.status), answer.read(_MAX_BYTES + 1)
    except (OSError, http.client.HTTPException, ValueError) as cause:
        raise IssuerError(f"{place} cannot be asked: {cause}") from cause
    try:
        document = json.loads(content) if len(content) <= _MAX_BYTES else None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise IssuerError(f"{place} answered {status}, and not with a JSON object of {_MAX_BYTES} bytes at most")
    return status, document


def discover_issuer(issuer: str, *, authority_file: str = "") -> dict[str, Any]:
    """Return what an issuer publishes of itself; blocks.

    Raises:
        IssuerError: It cannot be asked, or what is published is of another issuer.
    """
    place = issuer.rstrip("/") + "/.well-known/openid-configuration"
    status, document = ask_issuer(place, authority_file=authority_file)
    if status != http.HTTPStatus.OK or document.get("issuer") != issuer:
        raise IssuerError(f"{place} answered {status}, and nothing that the issuer {issuer} says of itself")
    return document


def unverified_claims(token: str) -> dict[str, Any]:
    """Return what a token says, be it true or not; empty for what is no token."""
    try:
        body = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (ValueError, IndexError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}
