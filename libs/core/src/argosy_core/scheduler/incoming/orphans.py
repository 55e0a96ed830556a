"""Ending jobs whose parents have ended.

Source: seed 003, "Elasticity and dynamic resource creation".
"""

from __future__ import annotations

import numpy as np

from argosy_core.scheduler.columns.messages import ChangeRequestColumns
from argosy_core.scheduler.incoming.intake import CANCEL, take_change_requests
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.outgoing.effects import ChangeRequestEffects

__all__ = ["cancel_orphans"]


def cancel_orphans(state: PoolState, now_s: float) -> ChangeRequestEffects | None:
    """Cancel the children of jobs that have ended, as if somebody had asked for it; None if there are none.

    Children of children follow with the next call.

    Args:
        state: The pool, with all changes taken that stood before: a parent that is not live has ended.
        now_s: Now.

    Complexity: O(children of ended jobs).
    """
    found = state.children.take_orphans()
    if not found:
        return None
    children, parents = np.array(list(found.items()), dtype=np.int64).T
    handles = children[state.live.slots(parents) < 0]
    requests = ChangeRequestColumns(
        handle=handles,
        kind=np.full(handles.size, CANCEL, dtype=np.int8),
        priority=np.zeros(handles.size, dtype=np.int32),
        ended=np.zeros(handles.size, dtype=np.int8),
        reason="its parent has ended",
    )
    return take_change_requests(state, requests, now_s)
