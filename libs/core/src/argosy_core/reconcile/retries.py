"""Calls to the cluster that failed are made again, later each time."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.reconcile.object_table import ObjectTable
from argosy_core.reconcile.timers import Timers

__all__ = ["retry_later"]

_FIRST_RETRY_S: Final = 0.5
_LAST_RETRY_S: Final = 30.0
_MOST_DOUBLINGS: Final = 16


def retry_later(table: ObjectTable, timers: Timers, slots: npt.NDArray[np.int64], now_s: float) -> None:
    """Let objects whose call failed wait, longer each time.

    Args:
        table: The objects.
        timers: Takes when each is to be looked at again.
        slots: The objects, each once.
        now_s: Now, monotonic seconds.

    Complexity: Python work per object.
    """
    if not slots.size:
        return
    waits_s = np.zeros(slots.size)
    for place, slot in enumerate(slots.tolist()):
        record = table.trouble(slot)
        waits_s[place] = min(_FIRST_RETRY_S * 2.0 ** min(record.tries, _MOST_DOUBLINGS), _LAST_RETRY_S)
        record.tries += 1
    table.not_before_s[slots] = now_s + waits_s
    timers.add_each(slots, now_s + waits_s)
