"""A world's fingerprint: one hash over everything that happened, in order, with all columns.

Two runs are the same if and only if their fingerprints are (but for collisions of BLAKE2b).

Source: design section 7, invariant 14.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

__all__ = ["Fingerprint"]


class Fingerprint:
    """A running hash over (time, who, what, columns)."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._digest = hashlib.blake2b(digest_size=16)
        self._fields: dict[type, tuple[str, ...]] = {}
        self._writers: dict[type, Callable[[Any, list[bytes]], None]] = {
            np.ndarray: lambda value, parts: parts.append(value.tobytes()),
            bytes: lambda value, parts: parts.append(value),
            tuple: self._write_all,
            list: self._write_all,
        }

    def note(self, time_us: int, who: str, what: str, values: tuple[Any, ...]) -> None:
        """Add one event.

        Args:
            time_us: When.
            who: Name of the process.
            what: Name of what it does.
            values: With what: numbers, texts, bytes, arrays, sequences and dataclasses of these; anything else counts
                with its `name`.

        Complexity: about ten microseconds for a message of ten columns.
        """
        parts = [b"%d|" % time_us, who.encode(), b"|", what.encode()]
        self._write_all(values, parts)
        self._digest.update(b"".join(parts))

    def hexdigest(self) -> str:
        """Return the hash over everything so far."""
        return self._digest.hexdigest()

    def _write_all(self, values: tuple[Any, ...] | list[Any], parts: list[bytes]) -> None:
        for value in values:
            parts.append(b"|")
            self._write(value, parts)

    def _write(self, value: Any, parts: list[bytes]) -> None:  # noqa: ANN401
        kind = type(value)
        writer = self._writers.get(kind)
        if writer is not None:
            writer(value, parts)
            return
        names = self._fields.get(kind)
        if names is None:
            names = self._fields[kind] = tuple(f.name for f in fields(kind)) if is_dataclass(kind) else ()
        if names:
            for name in names:
                parts.append(b",")
                self._write(getattr(value, name), parts)
        elif value is None or isinstance(value, (int, float, str, np.generic)):
            parts.append(repr(value).encode())
        elif isinstance(value, dict):
            self._write_all(tuple(value.items()), parts)
        else:
            parts.append(str(getattr(value, "name", None) or getattr(value, "__name__", kind.__name__)).encode())
