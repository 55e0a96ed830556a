"""Logs kept at HTTP servers, and the calls that all archives of servers make.

A server is any that takes PUT and answers GET at `URL/KEY`: WebDAV, nginx, a gateway of an object store.

Source: `docs/executor.md`, "Logs of pods that are gone".
"""

from __future__ import annotations

import asyncio
import io
import ssl
from base64 import b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import aiohttp

from argosy_core.errors import BackendUnavailable
from argosy_runtime.log_archives.archive import LogArchiveSettings

__all__ = ["HttpArchive", "HttpCaller", "authorization"]

OK: Final = range(200, 300)
"""Statuses of calls that were done."""
NOT_FOUND: Final = 404
_AGAIN: Final = frozenset({429, 500, 502, 503, 504})
_PAUSES_S: Final = (0.1, 2.0)
_MORE_BYTES: Final = 4 << 20
"""What an answer may have beside the bytes of a log: headings, and JSON around its lines."""

Headers = Callable[[], Mapping[str, str]]


class HttpCaller:
    """Calls of one server: bounded in time and bytes, repeated while the server is busy; redirects are not followed.

    Args:
        shown: What errors call the server.
        settings: Those of the archive.
        pauses_s: What is waited before each repetition, seconds.
    """

    def __init__(self, shown: str, settings: LogArchiveSettings, *, pauses_s: tuple[float, ...] = _PAUSES_S) -> None:
        """Connect when needed."""
        self._shown = shown
        self._most_bytes = settings.max_log_bytes + _MORE_BYTES
        self._timeout = aiohttp.ClientTimeout(total=settings.timeout_s)
        self._authority_file = settings.authority_file
        self._pauses_s = pauses_s
        self._session: aiohttp.ClientSession | None = None

    async def call(self, method: str, url: str, headers: Headers, body: bytes | None = None) -> tuple[int, bytes]:
        """Return status and text of an answer; everything that is called is the same if it is done twice.

        Args:
            method: HTTP method.
            url: Where, encoded as it is sent.
            headers: Makes the headers of each attempt, on a thread, since that may read files.
            body: What is sent.

        Raises:
            BackendUnavailable: There is no answer, or one of too many bytes.
        """
        for pause_s in (*self._pauses_s, None):
            try:
                status, text = await self._call_once(method, url, headers, body)
            except (aiohttp.ClientError, OSError, TimeoutError) as cause:
                if pause_s is None:
                    raise BackendUnavailable(f"{self._shown}: {str(cause) or type(cause).__name__}") from cause
            else:
                if pause_s is None or status not in _AGAIN:
                    break
            await asyncio.sleep(pause_s)
        return status, text

    async def close(self) -> None:
        """End."""
        if self._session is not None:
            await self._session.close()

    async def _call_once(self, method: str, url: str, headers: Headers, body: bytes | None) -> tuple[int, bytes]:
        if self._session is None:
            context = await asyncio.to_thread(ssl.create_default_context, cafile=self._authority_file or None)
            self._session = aiohttp.ClientSession(
                timeout=self._timeout, connector=aiohttp.TCPConnector(ssl=context), auto_decompress=False
            )
        async with self._session.request(
            method,
            url,
            data=None if body is None else io.BytesIO(body),
            headers={"Accept-Encoding": "identity", **await asyncio.to_thread(headers)},
            allow_redirects=False,
        ) as answer:
            text = bytearray()
            async for piece in answer.content.iter_any():
                text += piece
                if len(text) > self._most_bytes:
                    raise BackendUnavailable(f"{self._shown} answered more than {self._most_bytes} bytes")
            return answer.status, bytes(text)


def authorization(settings: LogArchiveSettings) -> dict[str, str]:
    """Return the headers that say who calls a server; reads the file of the token.

    Raises:
        OSError: It cannot be read.
    """
    headers = {"X-Scope-OrgID": settings.tenant} if settings.tenant else {}
    if settings.token_file:
        token = Path(settings.token_file).read_text(encoding="utf-8").strip()
        basic = b64encode(f"{settings.user}:{token}".encode()).decode()
        headers["Authorization"] = f"Basic {basic}" if settings.user else f"Bearer {token}"
    return headers


class HttpArchive:
    """Logs at an HTTP server, by PUT and GET.

    Args:
        caller: Calls the server.
        settings: Where, and as whom.
    """

    def __init__(self, caller: HttpCaller, settings: LogArchiveSettings) -> None:
        """Connect when needed."""
        self._caller = caller
        self._url = settings.target.rstrip("/")
        self._settings = settings

    async def put(self, key: str, text: bytes) -> None:
        """See LogArchive."""
        status, _ = await self._caller.call("PUT", f"{self._url}/{key}", self._headers, text)
        if status not in OK:
            raise BackendUnavailable(f"{self._url} answered {status} to a log that was put")

    async def get(self, key: str) -> bytes | None:
        """See LogArchive."""
        status, text = await self._caller.call("GET", f"{self._url}/{key}", self._headers)
        if status == NOT_FOUND:
            return None
        if status not in OK:
            raise BackendUnavailable(f"{self._url} answered {status} to a log that was asked for")
        return text

    async def close(self) -> None:
        """See LogArchive."""
        await self._caller.close()

    def _headers(self) -> Mapping[str, str]:
        return {"Content-Type": "text/plain", **authorization(self._settings)}
