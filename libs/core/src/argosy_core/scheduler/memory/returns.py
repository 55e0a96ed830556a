"""How often delegated clusters gave classes back one after the other, and when each may be leased there again.

Source: seed 003 "Executor implementation" (what does not fit is returned); decision 0022.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["Returns"]

_FIRST_EXPIRY_S: Final = 10.0
"""How long a cluster that returned a class is left alone at most after the first time, if it tells of no change."""
_FIRST_BACK_OFF_S: Final = 1.0
"""How long it is left alone at least after the second time, whatever changes there."""
_MOST_S: Final = 600.0
"""Bound of both, which double with each further time."""
_MOST_DOUBLINGS: Final = 20
_MOST_PAIRS: Final = 100_000
"""Pairs of classes and clusters that are remembered; the oldest are forgotten first."""


class Returns:
    """Returns one after the other, by class index and cluster index; empty while no cluster is delegated."""

    def __init__(self) -> None:
        """Start with none."""
        self._found: dict[tuple[int, int], tuple[int, float]] = {}
        """(class, cluster) -> (how often, when news of it count again, seconds since the Unix epoch)."""

    def __len__(self) -> int:
        """Return how many pairs are remembered."""
        return len(self._found)

    def note(self, class_index: int, cluster: int, now_s: float) -> float:
        """Take note of a return; return for how long the class is to wait there if nothing changes, seconds."""
        count = self._found.pop((class_index, cluster), (0, 0.0))[0] + 1
        doubled = 2.0 ** min(count - 1, _MOST_DOUBLINGS)
        back_off_s = 0.0 if count == 1 else min(_FIRST_BACK_OFF_S * doubled / 2, _MOST_S)
        self._found[class_index, cluster] = count, now_s + back_off_s if back_off_s else 0.0
        while len(self._found) > _MOST_PAIRS:
            del self._found[next(iter(self._found))]
        return max(min(_FIRST_EXPIRY_S * doubled, _MOST_S), back_off_s)

    def not_before_s(self, classes: npt.NDArray[np.integer], cluster: int) -> npt.NDArray[np.float64]:
        """Return when news of a cluster count for each class; 0 for at once."""
        none = 0, 0.0
        return np.array([self._found.get((index, cluster), none)[1] for index in classes.tolist()], dtype=np.float64)

    def note_placed(self, class_index: int, cluster: int) -> None:
        """Take note that a cluster has placed a run of a class: what it returns next is the first again."""
        self._found.pop((class_index, cluster), None)

    def forget_class(self, class_index: int) -> None:
        """Forget a class whose index will stand for another."""
        for key in [key for key in self._found if key[0] == class_index]:
            del self._found[key]
