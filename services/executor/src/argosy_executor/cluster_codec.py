"""Columns of the cluster port to and from the columns of the core.

Source: `argosy_kube.port`; design section 5, "Sync".
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import has_true, true_places
from argosy_core.job.states import ObjectState
from argosy_core.reconcile import CreateResponses, Creates, DeleteResponses, Deletes, Observations
from argosy_kube.failure_table import describe_failure, describe_wait, failure_of, waiting_failure_of
from argosy_kube.port import (
    Change,
    CreateCode,
    CreateResult,
    DeleteCode,
    DeleteResult,
    Detail,
    ObjectEvents,
    PodPhase,
)

__all__ = ["create_responses", "delete_responses", "observations"]

_STATES: Final = np.zeros(len(PodPhase) + 1, dtype=np.int8)
_STATES[PodPhase.PENDING] = ObjectState.CREATED
_STATES[PodPhase.RUNNING] = ObjectState.RUNNING
_STATES[PodPhase.SUCCEEDED] = ObjectState.SUCCEEDED
_STATES[PodPhase.FAILED] = ObjectState.FAILED
_STATES[PodPhase.UNKNOWN] = ObjectState.UNKNOWN
# Arrays, since NumPy makes one of every Python integer that it meets.
_FAILED_STATE: Final = np.array(ObjectState.FAILED, dtype=np.int8)
_CREATED_STATE: Final = np.array(ObjectState.CREATED, dtype=np.int8)
_DELETED: Final = np.array(Change.DELETED, dtype=np.int8)
_NO_DETAIL: Final = Detail()


def observations(events: ObjectEvents) -> Observations:
    """Return what the events say of our objects; unmanaged pods are left out."""
    ours = events.ours_column
    is_whole = np.count_nonzero(ours) == ours.size
    rows = None if is_whole else true_places(ours)

    def take(column: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        return column if rows is None else column[rows]

    phases = events.phase_column if rows is None else events.phase_column[rows]
    states = _STATES.take(phases)
    failures, messages, texts = _reasons_of(events, rows, states)
    stops: dict[int, float] = {}
    if events.stop_after_s:
        of_rows = range(states.size) if rows is None else rows.tolist()
        stops = {to: events.stop_after_s[at] for to, at in enumerate(of_rows) if at in events.stop_after_s}
    return Observations(
        gone_column=take(events.change_column) == _DELETED,
        handle_column=take(events.handle_column).astype(np.int64, copy=False),
        ordinal_column=take(events.ordinal_column).astype(np.int64, copy=False),
        object_column=take(events.object_column).astype(np.int16, copy=False),
        kind_column=take(events.kind_column).astype(np.int16, copy=False),
        state_column=states,
        uid_column=take(events.uid_column).astype(np.uint8, copy=False),
        time_us_column=take(events.time_us_column).astype(np.int64, copy=False),
        exit_code_column=take(events.exit_code_column).astype(np.int32, copy=False),
        failure_column=failures,
        message_column=messages,
        namespace_column=take(events.namespace_column).astype(np.int32, copy=False),
        kinds=events.kinds,
        texts=texts,
        unlistable_kinds=events.unlistable_kinds,
        stop_after_s=stops,
    )


def _reasons_of(
    events: ObjectEvents, rows: npt.NDArray[np.intp] | None, states: npt.NDArray[np.int8]
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int32], tuple[str, ...]]:
    """Return kinds of failure, indices of messages, and the table of these, of pods that have failed or wait.

    Args:
        events: What was seen.
        rows: Where our objects stand in it; None for everywhere.
        states: What each of our objects shows.

    Complexity: O(n) in NumPy, and Python work per pod that has failed or says what it waits for.
    """
    reasons = events.reason_column if rows is None else events.reason_column[rows]
    failures, messages = np.zeros(states.size, dtype=np.int8), np.empty(states.size, dtype=np.int32)
    messages.fill(-1)
    told = (states == _FAILED_STATE) | ((states == _CREATED_STATE) & (reasons >= 0))
    if not has_true(told):
        return failures, messages, events.texts
    texts = _Texts(events.texts)
    for place in true_places(told).tolist():
        row = place if rows is None else int(rows[place])
        reason = events.texts[reasons[place]] if reasons[place] >= 0 else ""
        exit_code, detail = int(events.exit_code_column[row]), events.details.get(row, _NO_DETAIL)
        if states[place] == _FAILED_STATE:
            failures[place] = failure_of(reason, exit_code)
            messages[place] = texts.index(describe_failure(reason, exit_code, detail))
        else:
            # The core gives up pods that wait for too long.
            failures[place] = waiting_failure_of(reason)
            messages[place] = texts.index(describe_wait(reason, detail))
    return failures, messages, texts.all()


class _Texts:
    """A table of texts that grows behind those of the events; equal texts stand once."""

    def __init__(self, texts: tuple[str, ...]) -> None:
        """Begin with the events' own."""
        self._texts = texts
        self._added: dict[str, int] = {}

    def index(self, text: str) -> int:
        """Return the index of a text."""
        return self._added.setdefault(text, len(self._texts) + len(self._added))

    def all(self) -> tuple[str, ...]:
        """Return the table."""
        return (*self._texts, *self._added) if self._added else self._texts


def create_responses(creates: Creates, result: CreateResult | None) -> CreateResponses:
    """Return what became of creates; nothing is known of any if there is no result."""
    count = len(creates)
    if result is None:
        none = np.zeros(count, dtype=np.bool_)
        return CreateResponses(
            exists_column=none,
            refused_column=none,
            later_column=none,
            uid_column=np.zeros((count, 16), dtype=np.uint8),
            message_column=np.full(count, -1, dtype=np.int32),
            messages=(),
        )
    codes = result.code_column
    taken = codes == int(CreateCode.EXISTS)
    own = (
        result.existing_ours_column
        & (result.existing_handle_column == creates.handle_column)
        & (result.existing_ordinal_column == creates.ordinal_column)
    )
    stolen = taken & ~own
    message_column, messages = result.message_column, result.messages
    if has_true(stolen):
        message_column = np.where(stolen, len(messages), message_column).astype(np.int32)
        messages = (*messages, "an object of the name of the run's own exists and belongs to somebody else")
    return CreateResponses(
        exists_column=(codes == int(CreateCode.CREATED)) | (taken & own),
        refused_column=(codes == int(CreateCode.REJECTED)) | stolen,
        later_column=codes == int(CreateCode.QUOTA),
        uid_column=result.uid_column,
        message_column=message_column,
        messages=messages,
    )


def delete_responses(deletes: Deletes, result: DeleteResult | None) -> DeleteResponses:
    """Return what became of deletes; nothing is known of any if there is no result."""
    if result is None:
        none = np.zeros(len(deletes), dtype=np.bool_)
        return DeleteResponses(accepted_column=none, gone_column=none)
    codes = result.code_column
    return DeleteResponses(accepted_column=codes == int(DeleteCode.DELETED), gone_column=codes == int(DeleteCode.GONE))
