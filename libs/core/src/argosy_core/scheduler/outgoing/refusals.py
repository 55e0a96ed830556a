"""What the store refused: what the events of it are, in the transaction that refuses it and in those after it.

A leader hands its transactions to an ordered writer and learns only after a commit which leases were refused. By then
it has numbered their LEASED events, and perhaps more events of these jobs in transactions that wait. So the store's
side corrects the events before it writes them, in the same transaction: a job whose lease was refused has stayed
QUEUED. Its LEASED event becomes CANCEL_REQUESTED, which is what the refused lease met; the number stays, so no other
event has to be numbered anew, and whatever is stored is legal at every moment, whenever the leader dies.

In the same way a job that waits can be given up as FAILED just when the API cancels it. Its row is CANCELLED by then
and stays so, hence its FAILED event becomes CANCELLED, and keeps the reason for which it was given up.

Source: design section 7, invariant 6; section 5, "Change requests".
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from argosy_core.arrays import Int64s, has_true, true_places
from argosy_core.scheduler.columns.codes import (
    EVENT_CANCEL_REQUESTED,
    EVENT_CANCELLED,
    EVENT_FAILED,
    EVENT_LEASED,
    EVENT_REQUEUED,
    JOB_CANCELLED,
    JOB_LEASED,
    JOB_QUEUED,
)
from argosy_core.scheduler.outgoing.events import EventDraft

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

    def correct(
        self, draft_number: int, drafts: Sequence[EventDraft], refused: Int64s, *, ended_before: Int64s
    ) -> list[EventDraft]:
        """Return a transaction's events as they have to be stored; numbers and sizes stay.

        Args:
            draft_number: The transaction's, from `begin_draft`.
            drafts: Its events in order.
            refused: int64[n] jobs whose leases in this very transaction are refused.
            ended_before: int64[n] jobs that this transaction was to end and whose rows say that they had ended.

        Complexity: O(1) while nothing is refused, else O(events).
        """
        if ended_before.size:
            drafts = [_cancel(draft, ended_before) for draft in drafts]
        if not refused.size and not self._through:
            return list(drafts)
        self._through = {handle: last for handle, last in self._through.items() if last >= draft_number}
        struck = set(self._through)
        fresh = set(refused.tolist())
        corrected = [_strike(draft, struck, fresh) for draft in drafts]
        self._through.update(dict.fromkeys(refused.tolist(), _STILL))
        return corrected


def _cancel(draft: EventDraft, ended_before: Int64s) -> EventDraft:
    """Return a draft in which jobs that had ended were not given up: only the API ends a waiting job."""
    given_up = (draft.kind == EVENT_FAILED) & (draft.from_state == JOB_QUEUED) & np.isin(draft.handle, ended_before)
    if not has_true(given_up):
        return draft
    kind, after = draft.kind.copy(), draft.to_state.copy()
    kind[given_up], after[given_up] = EVENT_CANCELLED, JOB_CANCELLED
    return replace(draft, kind=kind, to_state=after)


def _strike(draft: EventDraft, struck: set[int], fresh: set[int]) -> EventDraft:
    """Return a draft in which struck jobs stay QUEUED, fresh ones from their LEASED event on, which strikes them."""
    candidates = true_places(np.isin(draft.handle, np.array([*struck, *fresh], dtype=np.int64)))
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
