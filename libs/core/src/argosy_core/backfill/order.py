"""In which order jobs of one queue stand, beside that of submission.

A job's rank is `run time^t x size^s / wait^w`, smaller first. With all exponents 0 but that of the wait, jobs stand in
submit order; without the wait's, the smallest area is first. An age bound ends how long others may go first: whoever
has waited longer stands in front of all who have not, oldest first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Float64s
from argosy_core.errors import InvalidRequest

__all__ = ["SMALLEST_AREA", "SUBMIT_ORDER", "OrderPolicy", "choose_head"]

_LEAST_S: Final = 10.0
"""Waits and run times below this count as this: the bound of the bounded slowdown, under which nobody minds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderPolicy:
    """An order of waiting jobs."""

    wait_exponent: float = 0.0
    """How much a longer wait brings a job forward, 0 or more."""
    run_time_exponent: float = 0.0
    """How much a longer run time puts a job back."""
    size_exponent: float = 0.0
    """How much a larger size puts a job back; below 0 it brings it forward."""
    age_bound_s: float = np.inf
    """Who has waited longer than this, seconds, stands in front, oldest first."""

    def __post_init__(self) -> None:
        """Refuse an order that favours the young.

        Raises:
            InvalidRequest: The exponent of the wait is below 0, or the age bound is not above 0.
        """
        if self.wait_exponent < 0:
            raise InvalidRequest(f"the wait's exponent is {self.wait_exponent}, but must be 0 or more")
        if not self.age_bound_s > 0:
            raise InvalidRequest(f"the age bound is {self.age_bound_s} s, but must be above 0")

    def order(self, wait_s: Float64s, run_time_s: Float64s, size: Float64s) -> npt.NDArray[np.intp]:
        """Return n jobs in order; equal ones stand as given.

        Args:
            wait_s: (n,) how long each has waited, seconds, 0 or more.
            run_time_s: (n,) how long each is expected to run, seconds.
            size: (n,) how much it holds, in any unit, above 0.

        Complexity: O(n log n) in NumPy.
        """
        rank = np.zeros(len(wait_s))
        # Products of powers are compared by their logarithms, which do not overflow.
        if self.wait_exponent:
            rank -= self.wait_exponent * np.log(wait_s + _LEAST_S)
        if self.run_time_exponent:
            rank += self.run_time_exponent * np.log(np.maximum(run_time_s, 1.0))
        if self.size_exponent:
            rank += self.size_exponent * np.log(size)
        if np.isinf(self.age_bound_s):
            return np.argsort(rank, kind="stable")
        is_old = wait_s > self.age_bound_s
        return np.lexsort((np.where(is_old, -wait_s, rank), ~is_old))


SUBMIT_ORDER: Final = OrderPolicy(wait_exponent=1.0)
"""First come, first served."""
SMALLEST_AREA: Final = OrderPolicy(run_time_exponent=1.0, size_exponent=1.0)
"""Smallest product of size and run time first; without an age bound, large jobs wait while small ones come."""


def choose_head(size: Float64s, count: int) -> int:
    """Return which of jobs in order that have no room now is promised a start: the largest of the first `count`.

    Emptying a node costs what stands idle meanwhile. A large job pays for it, a small one finds room by itself; so
    of jobs whose turn is about the same, the largest is worth the promise.

    Args:
        size: (n,) sizes in order, at least one.
        count: How many have their turn at about the same time; 1 is strict order.
    """
    return int(np.argmax(size[: max(1, count)]))
