"""Resource usage: the weighted sum of what a job requests, in cores.

Usage is kept as int64 micro-cores, so that adding jobs one by one, adding many at once and taking them away again give
the same number to the last bit.

Source: 003 "Resource usage".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["MICRO", "to_cores", "weigh_amounts", "weigh_vector"]

MICRO: Final = 1_000_000
"""Micro-cores per core of usage."""


def weigh_amounts(amounts: Sequence[tuple[str, int]], weights: Mapping[str, float]) -> int:
    """Return the usage of requests, micro-cores, rounded to the nearest.

    Args:
        amounts: (resource name, base units).
        weights: Cores per base unit; resources without a weight count 0.
    """
    return round(sum(weights.get(name, 0.0) * amount for name, amount in amounts) * MICRO)


def weigh_vector(vector: npt.NDArray[np.int64], names: Sequence[str], weights: Mapping[str, float]) -> int:
    """Return the usage of a resource vector in column order of `names`, micro-cores."""
    return weigh_amounts([(name, int(amount)) for name, amount in zip(names, vector.tolist(), strict=True)], weights)


def to_cores(usage_micro: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return usage in cores."""
    return usage_micro / float(MICRO)
