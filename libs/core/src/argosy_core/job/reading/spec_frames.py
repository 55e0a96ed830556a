"""Pods that differ in plain values only, known by their text: they need not be parsed to be read.

The values of environment variables, and arguments and commands, are cut out of a manifest's text where they are plain:
strings without escapes and control characters. What is left, its *frame*, decides all that any text with it says but
for these values, since no plain value can end its own string. Whether they stand where no rule looks is found out once
a frame, by a parse: with values put in that occur nowhere else, and must all be seen in such places.

Source: design section 8, "Cost".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, Final, Generic, TypeVar

__all__ = ["SpecFrames", "cut_frame"]

Kept = TypeVar("Kept")

_PLAIN: Final = rb'"[^"\\\x00-\x1f]*"'
_VALUE: Final = re.compile(rb'"value": ?' + _PLAIN)
_LISTS: Final = tuple(
    (key, re.compile(key + rb": ?\[(?:" + _PLAIN + rb"(?:, ?" + _PLAIN + rb")*)?\]"))
    for key in (b'"args"', b'"command"')
)
_CUT: Final = b"\x00"
"""Stands in a frame for what was cut out; no JSON has it."""
_MAX_FRAME_BYTES: Final = 4096
"""Longer frames are not kept, so that what is kept is bounded."""


def cut_frame(manifest: bytes) -> bytes | None:
    """Return a manifest's frame; None for what is no JSON anyway.

    Complexity: linear in the bytes; measured 1.5 us for one small pod.
    """
    if _CUT in manifest:
        return None
    frame = _VALUE.sub(b'"value":' + _CUT, manifest)
    for key, pattern in _LISTS:
        if key in frame:
            frame = pattern.sub(key + _CUT, frame)
    return frame


class SpecFrames(Generic[Kept]):
    """What is kept of pods by their frames, the oldest forgotten first. For one thread.

    To learn a frame costs a parse. Where pods have ever new frames, some are learnt and then no more, until what was
    learnt is of use.

    Args:
        max_count: Most frames kept; 5 KB each at most.
    """

    def __init__(self, max_count: int) -> None:
        """Start empty."""
        self._max_count = max_count
        self._credit = max_count
        self._known: dict[bytes, Kept | None] = {}

    def __len__(self) -> int:
        """Return the number of frames kept, those that are of no use included."""
        return len(self._known)

    def find(self, frame: bytes) -> Kept | None:
        """Return what was kept for a frame, None for nothing."""
        found = self._known.get(frame)
        if found is not None and self._credit < self._max_count:
            self._credit += 1
        return found

    def learn(self, manifest: bytes, frame: bytes, kept: Kept) -> None:
        """Keep something for a frame, if it holds for all pods that have it.

        Args:
            manifest: A pod that there is nothing wrong with.
            frame: Its frame.
            kept: What holds for all pods that differ from it in environment, arguments and commands of their
                containers alone.
        """
        if not self._credit or frame in self._known or len(frame) > _MAX_FRAME_BYTES:
            return
        self._credit -= 1
        if len(self._known) >= self._max_count:
            del self._known[next(iter(self._known))]
        self._known[frame] = kept if _is_free(manifest) else None


def _is_free(manifest: bytes) -> bool:
    """Return whether all that is cut out of a pod are environment, arguments and commands of its containers."""
    # No text can hold its own hash, however it writes it.
    mark = blake2b(manifest, digest_size=16).hexdigest()
    put_in: list[str] = []

    def put(_: object) -> bytes:
        put_in.append(f"{mark}-{len(put_in)}")
        return b'"%b"' % put_in[-1].encode()

    marked = _VALUE.sub(lambda found: b'"value":' + put(found), manifest)
    for key, pattern in _LISTS:
        marked = pattern.sub(lambda found, key=key: b"%b:[%b]" % (key, put(found)), marked)  # type: ignore[misc]
    if not put_in:
        return True
    seen = [text for text in _free_texts(json.loads(marked)) if text.startswith(mark)]
    return sorted(seen) == sorted(put_in)


def _free_texts(pod: dict[str, Any]) -> Iterator[str]:
    """Yield what a pod that is right has where no rule looks at a text."""
    for container in pod["spec"]["containers"]:
        for variable in container.get("env", ()):
            yield variable.get("value") or ""
        for key in ("args", "command"):
            yield from container.get(key, ())
