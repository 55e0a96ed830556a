"""Where the ends of containers' logs are kept once their pods are gone: a directory, or an HTTP server.

What is kept of one container is one text with a heading line that names the container, under a key made of its run. A
server is any that takes PUT and answers GET at `URL/KEY`: WebDAV, nginx, a gateway of an object store.

Source: `docs/executor.md`, "Logs of pods that are gone".
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Protocol

import aiohttp

from argosy_core.errors import BackendUnavailable, InvalidRequest

__all__ = ["DirectoryArchive", "HttpArchive", "KeptLog", "LogArchive", "LogArchiveSettings", "log_key", "open_archive"]

_OK: Final = range(200, 300)
_NOT_FOUND: Final = 404


@dataclass(frozen=True, slots=True, kw_only=True)
class LogArchiveSettings:
    """Which logs are kept when pods go, and where."""

    target: str = ""
    """Directory (an absolute path), or http:// or https:// URL below which logs are put and got; empty keeps none."""
    pods: Literal["failed", "all"] = "failed"
    """Whose logs: those of pods that failed, or of all that ended."""
    max_log_bytes: int = 262_144
    """Last bytes kept of one container's log; a thousand failures are then at most 256 MiB."""
    max_line_count: int = 10_000
    """Last lines asked of the cluster for one container; it is not read further back."""
    max_total_bytes: int = 1 << 30
    """Most bytes of a directory: the oldest logs go first. A server keeps its own bounds."""
    queue_count: int = 1000
    """Pods that may wait for their logs to be read; of more than these no log is kept, which is counted."""
    reading_count: int = 2
    """Pods whose logs are read at once, so that the cluster's API is left to what matters more."""
    timeout_s: float = 30.0
    """How long one log may take to be read, and to be put."""
    token_file: str = ""
    """File with a token that a server is sent as `Authorization: Bearer`; empty sends none."""

    def __post_init__(self) -> None:
        """Refuse a target that is none.

        Raises:
            InvalidRequest: It is neither an absolute path nor an HTTP URL.
        """
        if self.target and not self.target.startswith(("/", "http://", "https://")):
            raise InvalidRequest(
                f"log_archive.target {self.target!r} must be the absolute path of a directory, or an http:// or"
                " https:// URL"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLog:
    """The end of one container's log."""

    container: str
    """Its name."""
    data: bytes
    """What it wrote last, each line behind its time and a space."""
    is_whole: bool
    """Whether that is all it wrote."""

    def encode(self) -> bytes:
        """Return it as it is kept."""
        heading = json.dumps({"container": self.container, "whole": self.is_whole}, separators=(",", ":"))
        return heading.encode() + b"\n" + self.data

    @staticmethod
    def decode(text: bytes) -> KeptLog | None:
        """Return what was kept, None if the text is no kept log."""
        heading, _, data = text.partition(b"\n")
        try:
            told = json.loads(heading)
            return KeptLog(container=str(told["container"]), data=data, is_whole=bool(told["whole"]))
        except (ValueError, KeyError, TypeError):
            return None


def log_key(handle: int, ordinal: int, object_index: int, container: str = "") -> str:
    """Return the name under which a log is kept.

    Args:
        handle: Job handle.
        ordinal: Attempt and member of the run.
        object_index: Position of the pod in its bag.
        container: Name of the container, a DNS label; empty for the pod's first.
    """
    return f"{handle}-{ordinal}-{object_index}" + (f"-{container}" if container else "") + ".log"


class LogArchive(Protocol):
    """Keeps texts by key."""

    async def put(self, key: str, text: bytes) -> None:
        """Keep a text, in place of an earlier one.

        Raises:
            BackendUnavailable: It cannot be kept now.
        """

    async def get(self, key: str) -> bytes | None:
        """Return a text, None if there is none.

        Raises:
            BackendUnavailable: Nobody can tell now.
        """

    async def close(self) -> None:
        """End."""


@dataclass(slots=True)
class DirectoryArchive:
    """Logs as files of one directory, the oldest removed when they are too many bytes together.

    Reading and writing happens on threads, never on the event loop. A directory is one executor's: job handles are
    unique in an installation, but its bytes are bounded by who has counted them.
    """

    directory: Path
    """Where."""
    max_total_bytes: int
    """Most bytes."""
    _sizes: OrderedDict[str, int] | None = field(default=None)
    _total_bytes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    async def put(self, key: str, text: bytes) -> None:
        """See LogArchive."""
        try:
            await asyncio.to_thread(self._put, key, text)
        except OSError as cause:
            raise BackendUnavailable(f"{self.directory}: {cause.strerror or cause}") from cause

    async def get(self, key: str) -> bytes | None:
        """See LogArchive."""
        try:
            return await asyncio.to_thread((self.directory / key).read_bytes)
        except FileNotFoundError:
            return None
        except OSError as cause:
            raise BackendUnavailable(f"{self.directory}: {cause.strerror or cause}") from cause

    async def close(self) -> None:
        """See LogArchive."""

    def _put(self, key: str, text: bytes) -> None:
        with self._lock:
            if self._sizes is None:
                self._sizes = self._present()
                self._total_bytes = sum(self._sizes.values())
            part = self.directory / f".{key}.part"
            part.write_bytes(text)
            part.chmod(0o600)
            part.replace(self.directory / key)
            self._total_bytes += len(text) - self._sizes.pop(key, 0)
            self._sizes[key] = len(text)
            while self._total_bytes > self.max_total_bytes and len(self._sizes) > 1:
                oldest, size = self._sizes.popitem(last=False)
                (self.directory / oldest).unlink(missing_ok=True)
                self._total_bytes -= size

    def _present(self) -> OrderedDict[str, int]:
        """Return the sizes of logs that are there, the oldest first."""
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = []
        with os.scandir(self.directory) as entries:
            for entry in entries:
                if entry.name.endswith(".log"):
                    status = entry.stat()
                    found.append((status.st_mtime, entry.name, status.st_size))
        return OrderedDict((name, size) for _, name, size in sorted(found))


class HttpArchive:
    """Logs at an HTTP server, by PUT and GET.

    Args:
        url: Below which logs are.
        timeout_s: How long a call may take.
        token_file: File with a bearer token, read at each call; empty for none.
    """

    def __init__(self, url: str, *, timeout_s: float, token_file: str = "") -> None:
        """Connect when needed."""
        self._url = url.rstrip("/")
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._token_file = token_file
        self._session: aiohttp.ClientSession | None = None

    async def put(self, key: str, text: bytes) -> None:
        """See LogArchive."""
        status, _ = await self._call("PUT", key, text)
        if status not in _OK:
            raise BackendUnavailable(f"{self._url} answered {status} to a log that was put")

    async def get(self, key: str) -> bytes | None:
        """See LogArchive."""
        status, text = await self._call("GET", key, None)
        if status == _NOT_FOUND:
            return None
        if status not in _OK:
            raise BackendUnavailable(f"{self._url} answered {status} to a log that was asked for")
        return text

    async def close(self) -> None:
        """See LogArchive."""
        if self._session is not None:
            await self._session.close()

    async def _call(self, method: str, key: str, text: bytes | None) -> tuple[int, bytes]:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=self._timeout)
        try:
            headers = {"Content-Type": "text/plain"}
            if self._token_file:
                token = await asyncio.to_thread(Path(self._token_file).read_text, encoding="utf-8")
                headers["Authorization"] = f"Bearer {token.strip()}"
            async with self._session.request(
                method, f"{self._url}/{key}", data=text, headers=headers, allow_redirects=False
            ) as answer:
                return answer.status, await answer.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as cause:
            raise BackendUnavailable(f"{self._url}: {str(cause) or type(cause).__name__}") from cause


def open_archive(settings: LogArchiveSettings) -> LogArchive | None:
    """Return the archive that the settings name, None for none; nothing is touched before it is used."""
    if not settings.target:
        return None
    if settings.target.startswith("/"):
        return DirectoryArchive(directory=Path(settings.target), max_total_bytes=settings.max_total_bytes)
    return HttpArchive(settings.target, timeout_s=settings.timeout_s, token_file=settings.token_file)
