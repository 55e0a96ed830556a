"""Whether a job whose run failed gets another, and after which back-off: by its spec's rules, else by the settings.

Complexity: array operations, and Python work per failed run of a job whose spec has rules.

Source: design section 3, "retry policy"; section 5, "Sync".
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Int32s, Int64s
from argosy_core.job.reading.retry_rules import RETRIED
from argosy_core.scheduler.columns.codes import FAILURE_INFRASTRUCTURE, RUN_LOST
from argosy_core.scheduler.memory.replacing import rules_of
from argosy_core.scheduler.memory.state import PoolState

__all__ = ["back_off_s", "failed_run_limits", "run_back_off_s"]

_RETRIED: Final = np.array(RETRIED, dtype=np.int64)
_MOST_DOUBLINGS: Final = 40


def failed_run_limits(state: PoolState, slots: Int32s, run_end: npt.NDArray[np.int16], failure: Int64s) -> Int64s:
    """Return how many failed runs end each job whose run ended in this way; 1 if it is not tried again.

    Args:
        state: The pool.
        slots: Jobs.
        run_end: How their runs ended; only failed and lost ones mean anything.
        failure: FailureKind of each.
    """
    kind = np.where(run_end == RUN_LOST, FAILURE_INFRASTRUCTURE, failure)
    limits = np.where(np.isin(kind, _RETRIED), state.settings.max_runs, 1).astype(np.int64)
    for place, rules in rules_of(state, slots):
        limits[place] = rules.limit(int(kind[place]), state.settings.max_runs)
    return limits


def back_off_s(state: PoolState, failures: Int64s) -> npt.NDArray[np.float64]:
    """Return how long to back off after so many failures, seconds: doubling from the first, bounded.

    Args:
        state: The pool.
        failures: int64[n]; 0 counts as 1.
    """
    settings = state.settings
    doublings = np.clip(failures - 1, 0, _MOST_DOUBLINGS).astype(np.float64)
    return np.minimum(settings.back_off_initial_s * 2.0**doublings, settings.back_off_max_s)


def run_back_off_s(state: PoolState, slots: Int32s) -> npt.NDArray[np.float64]:
    """Return how long jobs back off after their last run failed, seconds, by the rules of their specs."""
    failures = state.live.failures[slots].astype(np.int64)
    seconds = back_off_s(state, failures)
    settings = state.settings
    for place, rules in rules_of(state, slots):
        seconds[place] = rules.back_off_s(
            max(int(failures[place]), 1), initial_s=settings.back_off_initial_s, max_s=settings.back_off_max_s
        )
    return seconds
