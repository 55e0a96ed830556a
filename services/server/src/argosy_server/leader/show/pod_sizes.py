"""Scaled pods of a cluster as its sampler tells them, and what they were before, for people.

Source: docs/autoscale.md "Seen".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["PodSize", "SizeNotes"]

_HISTORY_COUNT: Final = 20_000
"""Changes that are remembered of a cluster's pods, the last ones."""


@dataclass(frozen=True, slots=True)
class PodSize:
    """A pod as it was from some time on; amounts in base units by resource."""

    key: tuple[int, int, int]
    """Handle, attempt and member."""
    requested: tuple[int, ...]
    """Asked for."""
    approved: tuple[int, ...]
    """Permitted."""
    actual: tuple[int, ...]
    """What the cluster shows."""
    state: int
    """Value of ScaledPodState."""


class SizeNotes:
    """Pods of one cluster, and their last changes."""

    def __init__(self) -> None:
        """Know of none."""
        self.resources: tuple[str, ...] = ()
        """Order of amounts."""
        self._pods: dict[tuple[int, int, int], tuple[PodSize, float]] = {}
        self._history: deque[tuple[PodSize, float]] = deque(maxlen=_HISTORY_COUNT)

    def take(self, fields: Mapping[str, Any], now_s: float) -> None:
        """Take in all pods, as columns of the message; what changed is remembered. Complexity: O(pods) in Python."""
        self.resources = tuple(fields["resources"])
        handles = fields["handle_column"].tolist()
        members = fields["member_column"].tolist() or [0] * len(handles)
        keys = zip(handles, fields["attempt_column"].tolist(), members, strict=True)
        columns = (map(tuple, fields[f"{name}_column"].tolist()) for name in ("requested", "approved", "actual"))
        before, self._pods = self._pods, {}
        for key, requested, approved, actual, state in zip(
            keys, *columns, fields["state_column"].tolist(), strict=True
        ):
            size = PodSize(key, requested, approved, actual, state)
            known = before.get(key)
            if known is not None and known[0] == size:
                self._pods[key] = known
                continue
            if known is not None:
                self._history.append(known)
            self._pods[key] = size, now_s

    def pods(self) -> Iterator[tuple[PodSize, float]]:
        """Give the pods and since when they are so, by job, attempt and member."""
        return (self._pods[key] for key in sorted(self._pods))

    def history(self) -> Iterator[tuple[PodSize, float]]:
        """Give what pods were before and since when, oldest first."""
        return iter(self._history)
