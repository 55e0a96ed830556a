"""The note on a run's objects that says how long they may be there while no leader is heard.

It is an annotation that goes with the other metadata of the job, so it travels as these do, and an executor that is
started anew finds it on what it lists.

Source: design section 5, "Executor lost".
"""

from __future__ import annotations

import json
from typing import Final

__all__ = ["STOP_AFTER_ANNOTATION", "parse_stop_after", "read_stop_note", "with_stop_note"]

STOP_AFTER_ANNOTATION: Final = "argosy.dev/stop-after"
"""After how long without a leader an object is deleted, as `300s`."""
_MARK: Final = STOP_AFTER_ANNOTATION.encode()


def with_stop_note(metadata: bytes, stop_after_s: float) -> bytes:
    """Return metadata of a job, JSON as in rows or empty, with the note."""
    document = json.loads(metadata) if metadata else {}
    annotations = {**(document.get("annotations") or {}), STOP_AFTER_ANNOTATION: f"{stop_after_s:g}s"}
    return json.dumps({**document, "annotations": annotations}, separators=(",", ":")).encode()


def read_stop_note(metadata: bytes) -> float:
    """Return what the note in a job's metadata says, seconds; 0 if there is none."""
    if _MARK not in metadata:
        return 0.0
    return parse_stop_after((json.loads(metadata).get("annotations") or {}).get(STOP_AFTER_ANNOTATION))


def parse_stop_after(text: str | None) -> float:
    """Return what the annotation says, seconds; 0 for nothing, and for a text that somebody broke."""
    try:
        return max(float((text or "").removesuffix("s")), 0.0)
    except ValueError:
        return 0.0
