"""Leases that the store refused: what their events are, in the transaction that refuses them and in those after it.

A leader hands its transactions to an ordered writer and learns only after a commit which leases were refused. By then
it has numbered their LEASED events, and perhaps more events of these jobs in transactions that wait. So the store's
side corrects the events before it writes them, in the same transaction: a job whose lease was refused has stayed
QUEUED. Its LEASED event becomes CANCEL_REQUESTED, which is what the refused lease met; the number stays, so no other
event has to be numbered anew, and whatever is stored is legal at every moment, whenever the leader dies.

Source: design section 7, invariant 6; section 5, "Wish".
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from argosy_core.scheduler.codes import (
    EVENT_CANCEL_REQUESTED,
    EVENT_LEASED,
    EVENT_REQUEUED,
    JOB_LEASED,
    JOB_QUEUED,
)
from argosy_core.scheduler.events import EventDraft
from argosy_core.scheduler.messages import Int64s

__all__ = ["Refusals"]

_STILL: Final = sys.maxsize


class Refusals:
    """Refused leases of one leadership that drafts may still take for good.

    Drafts are numbered in the order in which they are stored. The store's side calls `correct` once per transaction, in
    order; the leader's side calls `note_taken_back` between two of these calls.
    """

    def __init__(self) -> None:
        """Start with nothing refused."""
        self._through: dict[int, int] = {}
        self._draft_number = 0

    def begin_draft(self) -> int:
        """Return the number of the next draft, into which events go from now on."""
        self._draft_number += 1
        return self._draft_number

    def note_taken_back(self, handles: Int64s) -> None:
        """Note that the leader's memory has these jobs QUEUED again; the present draft is the last that may be wrong.

        Args:
            handles: int64[n] jobs.
        """
        for handle in handles.tolist():
            if handle in self._through:
                self._through[handle] = self._draft_number

    def correct(self, draft_number: int, drafts: Sequence[EventDraft], refused: Int64s) -> list[EventDraft]:
        """Return a transaction's events as they have to be stored; numbers and sizes stay.

        Args:
            draft_number: The transaction's, from `begin_draft`.
            drafts: Its events in order.
            refused: int64[n] jobs whose leases in this very transaction are refused.

        Complexity: O(1) while nothing is refused, else O(events).
        """
        if not refused.size and not self._through:
            return list(drafts)
        self._through = {handle: last for handle, last in self._through.items() if last >= draft_number}
        struck = set(self._through)
        fresh = set(refused.tolist())
        corrected = [_strike(draft, struck, fresh) for draft in drafts]
        self._through.update(dict.fromkeys(refused.tolist(), _STILL))
        return corrected


def _strike(draft: EventDraft, struck: set[int], fresh: set[int]) -> EventDraft:
    """Return a draft in which struck jobs stay QUEUED, fresh ones from their LEASED event on, which strikes them."""
    candidates = np.flatnonzero(np.isin(draft.handle, np.array([*struck, *fresh], dtype=np.int64)))
    rows: list[int] = []
    for row in candidates.tolist():
        handle = int(draft.handle[row])
        if handle not in struck and int(draft.kind[row]) == EVENT_LEASED:
            # What comes before it is of an earlier run, which was stored.
            struck.add(handle)
        if handle in struck:
            rows.append(row)
    if not rows:
        return draft
    before, after, kind = draft.from_state.copy(), draft.to_state.copy(), draft.kind.copy()
    attempt, cluster, node = draft.attempt.copy(), draft.cluster.copy(), draft.node.copy()
    chosen = np.array(rows, dtype=np.int64)
    # Neither can stand between QUEUED and QUEUED.
    undone = chosen[np.isin(kind[chosen], (EVENT_LEASED, EVENT_REQUEUED))]
    kind[undone], attempt[undone], cluster[undone], node[undone] = EVENT_CANCEL_REQUESTED, 0, -1, -1
    before[chosen[before[chosen] == JOB_LEASED]] = JOB_QUEUED
    after[chosen[after[chosen] == JOB_LEASED]] = JOB_QUEUED
    return replace(draft, from_state=before, to_state=after, kind=kind, attempt=attempt, cluster=cluster, node=node)
