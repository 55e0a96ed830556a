"""As much of a client of the API server as a fake kubelet needs: JSON over one pool of connections, and watches."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
import msgspec

from argosy_core.errors import BackendUnavailable, OutOfRange

__all__ = ["MERGE_PATCH", "STRATEGIC_PATCH", "TAKEN", "Api", "WatchEvent"]

MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
TAKEN: Final = frozenset({200, 201, 202})
_JSON: Final = "application/json"
_METADATA_ONLY: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_TIMEOUT_S: Final = 30.0
_WATCH_S: Final = 300
_GONE: Final = 410


class WatchEvent(msgspec.Struct):
    """One line of a watch: what happened to which object."""

    type: str
    """ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."""
    object: msgspec.Raw
    """The object, or the status of an error."""


class _Error(msgspec.Struct):
    code: int = 0
    message: str = ""


_EVENT: Final = msgspec.json.Decoder(WatchEvent)
_ERROR: Final = msgspec.json.Decoder(_Error)


class Api:
    """An API server.

    Args:
        url: Its URL.
        token: Token to come with.
        ca: Its certificate authority.
        connection_limit: Most connections, watches included.
    """

    def __init__(self, url: str, token: str, ca: Path, *, connection_limit: int = 80) -> None:
        """Remember; connections are made in `__aenter__`."""
        self._url = url
        self._token = token
        self._ca = ca
        self._connection_limit = connection_limit
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        """Open the pool."""
        context = ssl.create_default_context(cafile=str(self._ca))
        self._session = aiohttp.ClientSession(
            base_url=self._url,
            headers={"Authorization": f"Bearer {self._token}"},
            connector=aiohttp.TCPConnector(ssl=context, limit=self._connection_limit, keepalive_timeout=60),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the pool."""
        if self._session is not None:
            await self._session.close()

    async def request(
        self, method: str, path: str, body: object = None, *, content_type: str = _JSON, is_answer_wanted: bool = False
    ) -> tuple[int, bytes]:
        """Return status and body of an answer.

        Args:
            method: HTTP method.
            path: Path and query.
            body: What to send as JSON, None for nothing.
            content_type: Type of the body.
            is_answer_wanted: The object is wanted whole; otherwise its metadata suffice, which is cheaper for both.

        Raises:
            BackendUnavailable: There was no answer.
        """
        assert self._session is not None
        headers = {"Accept": _JSON if is_answer_wanted else _METADATA_ONLY}
        data = None
        if body is not None:
            headers["Content-Type"] = content_type
            data = msgspec.json.encode(body)
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                async with self._session.request(method, path, data=data, headers=headers) as answer:
                    return answer.status, await answer.read()
        except (aiohttp.ClientError, OSError) as error:  # a time-out is an OSError as well
            raise BackendUnavailable(f"{method} {path}: {str(error) or type(error).__name__}") from error

    async def get(self, path: str) -> bytes:
        """Return the body of what is there.

        Raises:
            BackendUnavailable: There was no answer, or another one than 200.
        """
        status, body = await self.request("GET", path, is_answer_wanted=True)
        if status != 200:
            raise BackendUnavailable(f"GET {path}: {status} {body[:300].decode(errors='replace')}")
        return body

    async def watch(self, path: str, version: str) -> AsyncIterator[WatchEvent]:
        """Give the events after a version until the stream ends, which it may do at any time.

        Args:
            path: Path of the collection, with a query.
            version: Version to go on from.

        Raises:
            OutOfRange: The version is no longer kept.
            BackendUnavailable: The watch was refused, or the connection broke.
        """
        assert self._session is not None
        query = f"{path}&watch=1&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds={_WATCH_S}"
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_TIMEOUT_S)
        try:
            async with self._session.get(query, timeout=timeout, read_bufsize=1 << 20) as answer:
                if answer.status != 200:
                    _raise_refused(answer.status, (await answer.read())[:300].decode(errors="replace"))
                rest = b""
                async for chunk in answer.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        event = _EVENT.decode(line)
                        if event.type == "ERROR":
                            status: Any = _ERROR.decode(event.object)
                            _raise_refused(status.code, status.message)
                        yield event
        except (aiohttp.ClientError, OSError) as error:
            raise BackendUnavailable(f"watch of {path}: {str(error) or type(error).__name__}") from error


def _raise_refused(status: int, message: str) -> None:
    if status == _GONE:
        raise OutOfRange(message)
    raise BackendUnavailable(f"watch refused: {status} {message}")
