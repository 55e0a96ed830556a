"""Logs kept in a bucket of S3, or of what speaks it: MinIO, Ceph, Garage.

Two calls, `PutObject` and `GetObject`, need no library of all that AWS has; they are signed with the caller's key.
Buckets are in the path of URLs, which every endpoint takes. What a bucket holds is bounded by its lifecycle rules.

Signatures are those of AWS Signature Version 4, in the header Authorization.

Source: `docs/executor.md`, "Logs of pods that are gone".
"""

from __future__ import annotations

import configparser
import hashlib
import hmac
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote, urlsplit

from argosy_core.errors import BackendUnavailable
from argosy_runtime.log_archives.archive import LogArchiveSettings
from argosy_runtime.log_archives.http_archive import NOT_FOUND, OK, HttpCaller

__all__ = ["S3Archive", "S3Credentials", "read_credentials", "sign_headers"]

_SERVICE: Final = "s3"
_CODE: Final = re.compile(rb"<Code>(\w{1,64})</Code>")


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Credentials:
    """A key, and what proves it."""

    key_id: str
    """The key's public name."""
    secret: str = field(repr=False)
    """What signs."""
    session_token: str = field(default="", repr=False)
    """Sent beside a key that is lent for some hours; empty for others."""


def read_credentials(file: str) -> S3Credentials:
    """Return what calls are signed with.

    Args:
        file: A file as `~/.aws/credentials`; empty for the environment.

    Raises:
        BackendUnavailable: There is none, or the file cannot be read; nothing of it is told.
    """
    if file:
        parser = configparser.ConfigParser(interpolation=None, default_section="")
        try:
            with open(file, encoding="utf-8") as opened:  # noqa: PTH123 - the parser takes lines
                parser.read_file(opened)
            said: Mapping[str, str] = parser["default"]
        except (OSError, KeyError, UnicodeError, configparser.Error) as cause:
            why = cause.strerror if isinstance(cause, OSError) else "it has no section [default] that can be read"
            raise BackendUnavailable(f"{file}: {why}") from None
    else:
        said = {name.lower(): value for name, value in os.environ.items() if name.startswith("AWS_")}
    key_id, secret = said.get("aws_access_key_id", ""), said.get("aws_secret_access_key", "")
    if not key_id or not secret:
        raise BackendUnavailable(
            f"{file or 'the environment'} says no AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to sign calls with"
        )
    return S3Credentials(key_id=key_id, secret=secret, session_token=said.get("aws_session_token", ""))


def sign_headers(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    credentials: S3Credentials,
    region: str,
    now: datetime,
) -> dict[str, str]:
    """Return the headers of a call with its signature; all of them are signed.

    Args:
        method: HTTP method.
        url: Where, without a query; its path is not encoded yet.
        headers: Those of the call itself.
        body: What is sent; empty for nothing.
        credentials: The caller's.
        region: Region of the bucket.
        now: Time of the call, aware; the server takes calls of some minutes around its own.
    """
    parts = urlsplit(url)
    stamp, digest = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ"), hashlib.sha256(body).hexdigest()
    signed = {**headers, "Host": parts.netloc, "x-amz-content-sha256": digest, "x-amz-date": stamp}
    if credentials.session_token:
        signed["x-amz-security-token"] = credentials.session_token
    canonical = sorted((name.lower(), " ".join(value.split())) for name, value in signed.items())
    names = ";".join(name for name, _ in canonical)
    lines = "".join(f"{name}:{value}\n" for name, value in canonical)
    request = f"{method}\n{quote(parts.path, safe='/-_.~')}\n\n{lines}\n{names}\n{digest}"
    scope = f"{stamp[:8]}/{region}/{_SERVICE}/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{credentials.secret}".encode()
    for word in scope.split("/"):
        key = hmac.digest(key, word.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    signed["Authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={credentials.key_id}/{scope},SignedHeaders={names},Signature={signature}"
    )
    return signed


class S3Archive:
    """Logs as objects of one bucket, below a prefix; each installation has a prefix of its own.

    Args:
        caller: Calls the endpoint.
        settings: Where, and with which key.
        clock: The time.
    """

    def __init__(self, caller: HttpCaller, settings: LogArchiveSettings, clock: Callable[[], datetime]) -> None:
        """Connect when needed."""
        self._caller = caller
        self._settings = settings
        self._clock = clock
        endpoint = settings.s3_endpoint or f"https://s3.{settings.s3_region}.amazonaws.com"
        self._url = f"{endpoint.rstrip('/')}/{settings.target.removeprefix('s3://').rstrip('/')}"

    async def put(self, key: str, text: bytes) -> None:
        """See LogArchive."""
        status, answer = await self._call("PUT", key, text)
        if status not in OK:
            raise BackendUnavailable(f"{self._url} answered {_told(status, answer)} to a log that was put")

    async def get(self, key: str) -> bytes | None:
        """See LogArchive."""
        status, answer = await self._call("GET", key, b"")
        if status == NOT_FOUND:
            return None
        if status not in OK:
            raise BackendUnavailable(f"{self._url} answered {_told(status, answer)} to a log that was asked for")
        return answer

    async def close(self) -> None:
        """See LogArchive."""
        await self._caller.close()

    async def _call(self, method: str, key: str, body: bytes) -> tuple[int, bytes]:
        url = f"{self._url}/{key}"

        def headers() -> Mapping[str, str]:
            return sign_headers(
                method,
                url,
                {"Content-Type": "text/plain"},
                body,
                credentials=read_credentials(self._settings.s3_credentials_file),
                region=self._settings.s3_region,
                now=self._clock(),
            )

        return await self._caller.call(method, url, headers, body or None)


def _told(status: int, answer: bytes) -> str:
    """Return what an endpoint said is wrong, as AccessDenied, NoSuchBucket or RequestTimeTooSkewed."""
    found = _CODE.search(answer)
    return f"{status} {found[1].decode()}" if found else str(status)
