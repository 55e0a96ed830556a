"""Files that are read again when they change, as mounted secrets do.

Source: `docs/security.md`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Generic, TypeVar

from argosy_core.errors import InvalidRequest
from argosy_runtime.logs import get_logger

__all__ = ["WatchedFiles"]

Value = TypeVar("Value")
_LOOK_S: Final = 1.0  # a changed file counts so much later at most; a look is a system call per file


class WatchedFiles(Generic[Value]):
    """What files say, read again at the next use after one of them changed.

    Files that cannot be read any more, or say something wrong, are told of in the log, and what they said before goes
    on to count: half a rotation must not close the door.

    Args:
        paths: The files.
        read: Makes the value of their bytes, in order.
        clock_s: Monotonic clock.

    Raises:
        InvalidRequest: A file cannot be read, or says something wrong, at the beginning.
    """

    def __init__(
        self,
        paths: Sequence[str],
        read: Callable[[Sequence[bytes]], Value],
        *,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read them once."""
        self._paths = [Path(path).expanduser() for path in paths]
        self._read = read
        self._clock_s = clock_s
        self._versions = self._look()
        self._value = self._load()
        self._looked_s = clock_s()

    def current(self) -> Value:
        """Return what the files say now, or said last."""
        now_s = self._clock_s()
        if now_s < self._looked_s + _LOOK_S:
            return self._value
        self._looked_s = now_s
        try:
            versions = self._look()
            if versions != self._versions:
                self._versions = versions
                self._value = self._load()
        except InvalidRequest as error:
            get_logger().error("changed files cannot be used; what they said before counts", reason=error.message)
        return self._value

    def _look(self) -> list[tuple[int, int, int]]:
        versions = []
        for path in self._paths:
            try:
                stat = path.stat()
            except OSError as cause:
                raise InvalidRequest(f"file {str(path)!r} cannot be read: {cause.strerror}") from cause
            versions.append((stat.st_mtime_ns, stat.st_size, stat.st_ino))
        return versions

    def _load(self) -> Value:
        contents = []
        for path in self._paths:
            try:
                contents.append(path.read_bytes())
            except OSError as cause:
                raise InvalidRequest(f"file {str(path)!r} cannot be read: {cause.strerror}") from cause
        return self._read(contents)
