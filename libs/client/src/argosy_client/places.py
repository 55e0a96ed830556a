"""Where in a file a submission was written, so that a fault is named by file, line and column.

Source: design section 9, "Errors say what was wrong, where, and what to do".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["Place", "Positions"]

Positions = Mapping[str, tuple[int, int]]
"""Line and column of each value, from 1, by its path as in `spec.manifests[0].kind`; the empty path is the document."""
_MANIFEST: Final = "manifests[0]."


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One document of a file."""

    source: str
    """Name of the file."""
    number: int
    """Which of its documents, from 1."""
    positions: Callable[[], Positions]
    """Gives where everything stands; asked only if something is wrong."""
    is_manifest: bool = False
    """Whether the document is a manifest by itself."""

    def of(self, path: str) -> str:
        """Return where a value, or the nearest one that contains it, stands: `jobs.yaml:12:5: document 2`."""
        positions = self.positions()
        while path and path not in positions:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        line, column = positions.get(path, (1, 1))
        return f"{self.source}:{line}:{column}: document {self.number}"

    def of_spec(self, field: str) -> str:
        """Return where a field of the spec stands, and the field as the document names it.

        Args:
            field: Its path in a JobSpec, as `manifests[0].spec.containers`; may be empty.
        """
        if self.is_manifest:
            path = field.removeprefix(_MANIFEST) if field.startswith(_MANIFEST) else ""
        else:
            path = f"spec.{field}" if field else "spec"
        return f"{self.of(path)}: {path}" if field and path else self.of(path)
