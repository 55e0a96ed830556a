"""The port's one version beside the resource versions of many kinds.

The port has one number for all kinds. An API server gives every kind its own resource version, and streams of several
kinds advance each for itself. So a version that was given out stands for one resource version per kind, which is kept
here, in the adapter, for the last few thousand versions; a version that is not kept any more (or is of another adapter)
has to be listed anew, as the port allows.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from argosy_kube.port import WatchGone

__all__ = ["Positions", "VersionMemory"]

Positions = Mapping[str, str]
"""Resource version by kind's path."""
_KEPT: Final = 4096


def _number(position: str) -> int:
    return int(position) if position.isdecimal() else 0


class VersionMemory:
    """What the versions given out for one selector stand for."""

    def __init__(self) -> None:
        """Know none."""
        self._known: OrderedDict[int, dict[str, str]] = OrderedDict()

    def keep(self, positions: Positions) -> int:
        """Return the version that stands for some positions: the greatest of them.

        Two watches may come to the same version by different ways; it then stands for the least of both, kind by kind,
        so that a change may be told twice but none is left out.
        """
        version = max(map(_number, positions.values()), default=0)
        known = self._known.get(version)
        merged = dict(positions)
        if known is not None:
            for kind, position in known.items():
                if kind not in merged or _number(position) < _number(merged[kind]):
                    merged[kind] = position
        self._known[version] = merged
        self._known.move_to_end(version)
        if len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return version

    def find(self, version: int) -> dict[str, str]:
        """Return what a version stands for.

        Raises:
            WatchGone: It is not known.
        """
        known = self._known.get(version)
        if known is None:
            raise WatchGone(f"version {version} is not known to this process any more; list again")
        return dict(known)
