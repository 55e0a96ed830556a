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

__all__ = ["MAX_JOB_USAGE", "MICRO", "most_usage", "percent_text", "to_cores", "weigh_rows", "weigh_vector"]

MICRO: Final = 1_000_000
"""Micro-cores per core of usage."""
MAX_JOB_USAGE: Final = 1 << 40
"""Most that one job counts, micro-cores: 1.1 million cores, so that 8 million such jobs of a queue fit int64."""


def percent_text(ratio: float) -> str:
    """Return a part of a whole for people, as 62% or 0.125%."""
    return f"{100 * ratio:.3g}%" if ratio < 9.995 else f"{100 * ratio:,.0f}%"


def weigh_rows(
    rows: npt.NDArray[np.int64], names: Sequence[str], weights: Mapping[str, float]
) -> npt.NDArray[np.int64]:
    """Return the usage of what each of n jobs requests, micro-cores, rounded; at most `MAX_JOB_USAGE` each.

    Args:
        rows: (n, resource) base units, in column order of `names`.
        names: Resources.
        weights: Cores per base unit; resources without a weight count 0.
    """
    return np.rint(np.minimum(_weigh(rows, names, weights), float(MAX_JOB_USAGE))).astype(np.int64)


def _weigh(rows: npt.NDArray[np.int64], names: Sequence[str], weights: Mapping[str, float]) -> npt.NDArray[np.float64]:
    """Return weighted sums, micro-cores; added column by column, so that a row's sum is its own among any others."""
    sums = np.zeros(rows.shape[0])
    for column, name in enumerate(names):
        if weights.get(name):
            sums += weights[name] * MICRO * rows[:, column]
    return sums


def weigh_vector(vector: npt.NDArray[np.int64], names: Sequence[str], weights: Mapping[str, float]) -> int:
    """Return the usage of a vector in column order of `names`, as of all that is free, micro-cores; unbounded."""
    return round(float(_weigh(vector[None], names, weights)[0]))


def most_usage(free: npt.NDArray[np.int64], requests: npt.NDArray[np.int64], usage: npt.NDArray[np.int64]) -> float:
    """Return a bound of the usage of jobs that what is free can hold at once, micro-cores.

    No job of these classes uses more for its part of a resource than the class that uses most for it; so each resource
    that all of them ask for bounds what they use together. Of several resources that weigh, the weighted sum of what is
    free is a far higher bound: half of it may be memory that no job can have, since the cores are taken.

    Args:
        free: (resource,) base units, 0 or more.
        requests: (class, resource) what one job asks for.
        usage: (class,) usage of one job, micro-cores.

    Complexity: O(classes x resources) in NumPy.
    """
    shared = np.flatnonzero((requests > 0).all(axis=0))
    if not shared.size or not usage.size:
        return np.inf
    dearest = (usage[:, None] / requests[:, shared]).max(axis=0)
    return float((dearest * free[shared]).min())


def to_cores(usage_micro: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return usage in cores."""
    return usage_micro / float(MICRO)
