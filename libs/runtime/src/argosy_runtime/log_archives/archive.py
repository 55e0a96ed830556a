"""Where the ends of containers' logs are kept once their pods are gone: the port, its settings, and a directory.

What is kept of one container is one text with a heading line that names the container, under a key made of its run.
`http_archive`, `s3_archive` and `loki_archive` keep them at servers, `opening` says which is meant.

Source: `docs/executor.md`, "Logs of pods that are gone".
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, Protocol

from argosy_core.errors import BackendUnavailable, InvalidRequest

__all__ = ["DirectoryArchive", "KeptLog", "LogArchive", "LogArchiveSettings", "LogChoice", "log_key", "read_kept"]

_SCHEMES: Final = ("http://", "https://", "s3://", "loki+http://", "loki+https://")
_BUCKET: Final = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9._-]+)*/?")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogArchiveSettings:
    """Where logs are kept when pods go, and which: whose, and how much of them, is what their executor keeps."""

    target: str = ""
    """Where logs are kept: a directory (an absolute path), http:// or https:// URL below which they are put and got,
    s3://BUCKET/PREFIX, or loki+http:// or loki+https:// URL of a Loki; empty keeps none. `{cluster}` stands for the
    name of the cluster."""
    pods: Literal["failed", "all"] = "failed"
    """Whose logs: those of pods that failed, or of all that ended."""
    max_log_bytes: int = 262_144
    """Last bytes kept of one container's log; a thousand failures are then at most 256 MiB."""
    max_line_count: int = 10_000
    """Last lines asked of the cluster for one container; it is not read further back."""
    max_total_bytes: int = 1 << 30
    """Most bytes of a directory: the oldest logs go first. A server keeps its own bounds: a bucket its lifecycle rules,
    Loki its retention."""
    queue_count: int = 1000
    """Pods that may wait for their logs to be read; of more than these no log is kept, which is counted."""
    reading_count: int = 2
    """Pods whose logs are read at once, so that the cluster's API is left to what matters more."""
    timeout_s: float = 30.0
    """How long one log may take to be read, and to be put."""
    token_file: str = ""
    """File with a token that a server or Loki is sent as `Authorization: Bearer`; empty sends none."""
    user: str = ""
    """Name that is sent with the token as its password (HTTP basic authentication), instead of `Bearer`."""
    tenant: str = ""
    """Tenant of a Loki that has several, sent as `X-Scope-OrgID`; empty sends none."""
    s3_endpoint: str = ""
    """URL of what speaks S3, as http://minio:9000; buckets are in its path. Empty takes that of AWS in the region."""
    s3_region: str = "us-east-1"
    """Region that calls are signed for; MinIO and others take us-east-1 unless told otherwise."""
    s3_credentials_file: str = ""
    """File like `~/.aws/credentials`, whose section `default` is taken and which is read at each call; empty takes
    AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN of the environment."""
    authority_file: str = ""
    """PEM file of the authorities that sign the server's certificate; empty takes those that the machine trusts."""

    def __post_init__(self) -> None:
        """Refuse a target that is none.

        Raises:
            InvalidRequest: It is neither an absolute path nor the URL of a server or bucket.
        """
        if self.target and not self.target.startswith(("/", *_SCHEMES)):
            raise InvalidRequest(
                f"log_archive.target {self.target!r} must be the absolute path of a directory, or a URL that begins"
                f" with {', '.join(_SCHEMES[:-1])} or {_SCHEMES[-1]}"
            )
        if self.target.startswith("s3://") and not _BUCKET.fullmatch(self.target):
            raise InvalidRequest(
                f"log_archive.target {self.target!r} must be s3://BUCKET or s3://BUCKET/PREFIX, of letters, digits"
                " and ._-"
            )
        if self.s3_endpoint and not self.s3_endpoint.startswith(("http://", "https://")):
            raise InvalidRequest(f"log_archive.s3_endpoint {self.s3_endpoint!r} must be an http:// or https:// URL")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChoice:
    """What of a pod's log is wanted."""

    container: str = ""
    """Name of the container; empty for the pod's first."""
    tail_line_count: int | None = None
    """Begin so many lines before the end; None for all."""
    timestamps: bool = False
    """Whether lines begin with their times."""
    since_s: int = 0
    """Only lines from this moment on, seconds since the Unix epoch; 0 for all."""


def log_key(handle: int, ordinal: int, object_index: int, container: str = "") -> str:
    """Return the name under which a log is kept.

    Args:
        handle: Job handle.
        ordinal: Attempt and member of the run.
        object_index: Position of the pod in its bag.
        container: Name of the container, a DNS label; empty for the pod's first.
    """
    return f"{handle}-{ordinal}-{object_index}" + (f"-{container}" if container else "") + ".log"


async def read_kept(archive: LogArchive, run: tuple[int, int, int], choice: LogChoice) -> bytes | None:
    """Return what was kept of a container's log, None if nothing was.

    Args:
        archive: Where.
        run: Job handle, ordinal of attempt and member, and position of the pod in its bag.
        choice: What of it is wanted.

    Raises:
        BackendUnavailable: Nobody can tell now.
    """
    text = await archive.get(log_key(*run, choice.container)) if choice.container else None
    if text is None:
        text = await archive.get(log_key(*run))
    kept = KeptLog.decode(text) if text is not None else None
    if kept is None or choice.container not in {"", kept.container}:
        return None
    lines = kept.data.splitlines(keepends=True)
    if choice.since_s:  # times of one form stand in the order of their texts
        since = datetime.fromtimestamp(choice.since_s, UTC).strftime("%Y-%m-%dT%H:%M:%S").encode()
        lines = [line for line in lines if line[: len(since)] >= since]
    if choice.tail_line_count is not None:
        lines = lines[len(lines) - min(choice.tail_line_count, len(lines)) :]
    if not choice.timestamps:  # what is kept has them
        lines = [line.partition(b" ")[2] for line in lines]
    return b"".join(lines)


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
