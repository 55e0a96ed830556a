"""What seals bodies of specs in this process: the keys of a file that is read again when it changes.

Source: `docs/decisions/0021-bodies-are-sealed-by-the-store.md`.
"""

from __future__ import annotations

from argosy_runtime.access.files import WatchedFiles
from argosy_store.sealing import SpecSeal, read_seal_keys

__all__ = ["open_seal"]


def open_seal(path: str) -> SpecSeal | None:
    """Return what seals by the keys of a file; None where there is no file.

    Raises:
        InvalidRequest: The file cannot be read, holds something else, or the extra `encryption` is not installed.
    """
    if not path:
        return None
    return SpecSeal(WatchedFiles([path], lambda contents: read_seal_keys(contents[0])).current)
