"""Resource usage: the weighted sum of what a job requests, in cores.

Usage is kept as int64 micro-cores, so that adding jobs one by one, adding many at once and taking them away again give
the same number to the last bit. What one job can add is bounded, so that no sum over a pool's jobs overflows.

Source: 003 "Resource usage".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["MAX_JOB_USAGE", "MICRO", "to_cores", "weigh_amounts", "weigh_rows", "weigh_vector"]

MICRO: Final = 1_000_000
"""Micro-cores per core of usage."""
MAX_JOB_USAGE: Final = 1 << 40
"""Most that one job counts, micro-cores: 1.1 million cores, so that 8 million such jobs of a queue fit int64."""


def weigh_amounts(amounts: Sequence[tuple[str, int]], weights: Mapping[str, float]) -> int:
    """Return the usage of what one job requests, micro-cores, rounded to the nearest; at most `MAX_JOB_USAGE`.

    Args:
        amounts: (resource name, base units).
        weights: Cores per base unit; resources without a weight count 0.
    """
    return round(min(_weigh(amounts, weights), float(MAX_JOB_USAGE)))


def weigh_rows(
    rows: npt.NDArray[np.int64], names: Sequence[str], weights: Mapping[str, float]
) -> npt.NDArray[np.int64]:
    """Return the usage of what each of n jobs requests, in column order of `names`; as `weigh_amounts` does."""
    return np.array([weigh_amounts(tuple(zip(names, row, strict=True)), weights) for row in rows.tolist()], np.int64)


def _weigh(amounts: Sequence[tuple[str, int]], weights: Mapping[str, float]) -> float:
    """Return the weighted sum, micro-cores."""
    return sum(weights.get(name, 0.0) * amount for name, amount in amounts) * MICRO


def weigh_vector(vector: npt.NDArray[np.int64], names: Sequence[str], weights: Mapping[str, float]) -> int:
    """Return the usage of a vector in column order of `names`, as of all that is free, micro-cores; unbounded."""
    return round(_weigh(list(zip(names, vector.tolist(), strict=True)), weights))


def to_cores(usage_micro: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return usage in cores."""
    return usage_micro / float(MICRO)
