"""Keeping why objects ended, or cannot be asked, for the reports.

Source: design section 5, "Sync".
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.job.states import ObjectState
from argosy_core.reconcile.columns import Observations
from argosy_core.reconcile.run_table import RunTable

__all__ = ["LOST_MESSAGE", "keep_reasons"]

LOST_MESSAGE: Final = "the object was there and is gone; not by us"
"""What is told of a loss."""
_CREATED, _FAILED, _LOST = int(ObjectState.CREATED), int(ObjectState.FAILED), int(ObjectState.LOST)


def keep_reasons(
    table: RunTable,
    slots: npt.NDArray[np.int64],
    places: npt.NDArray[np.int64],
    *,
    states: npt.NDArray[np.int8],
    observed: Observations,
) -> None:
    """Keep exit codes, kinds of failure and messages of objects that take other states.

    Args:
        table: Where the objects are.
        slots: Which.
        places: Where in `observed` each stands.
        states: The state that each takes.
        observed: What was seen.
    """
    table.exit_code[slots] = observed.exit_code_column[places]
    was_given_up = (table.state[slots] == _CREATED) & (table.end_state[slots] == _FAILED)
    own = (states == observed.state_column[places]) & ~((states == _FAILED) & was_given_up)
    kept = np.where(states == _FAILED, table.failure[slots], 0)  # of what was given up
    table.failure[slots] = np.where(own, observed.failure_column[places], kept)
    texts = observed.message_column[places]
    table.message[slots[own]] = None
    told = np.flatnonzero((texts >= 0) & own)
    for slot, text in zip(slots[told].tolist(), texts[told].tolist(), strict=True):
        table.message[slot] = observed.texts[text]
    for slot in slots[states == _LOST].tolist():
        table.message[slot] = LOST_MESSAGE
