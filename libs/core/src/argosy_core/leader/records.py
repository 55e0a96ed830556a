"""A round's plan as pieces, none larger than a record of the event log.

A plan that fits is one record, as nearly all do: 10,000 leases take 200 kB and the names of their nodes. A larger one
is published as several, each of which a next leader could apply alone: a run stands in one of them. The round's state
stands in every one and its failed attempts are cut if they would leave no room.

Source: design section 5, "Round", step 8.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import numpy as np

from argosy_core.scheduler import LeasePlan, RoundStateColumns

__all__ = ["most_bytes", "split_plan"]

_STATE_SHARE: Final = 4
"""Failed attempts of the round's state may take a quarter of a record."""
_FAILED_BYTES: Final = 8
_ATTEMPTED_BYTES: Final = 12
_QUEUE_BYTES: Final = 32
_WEIGHT_BYTES: Final = 24
_PROMISE_BYTES: Final = 24
_LEASE_BYTES: Final = 20
_MEMBER_BYTES: Final = 2
_CHARGE_BYTES: Final = 8
_RUN_BYTES: Final = 12
_TEXT_BYTES: Final = 8
"""What stands before a text or an element of a list at most."""
_HEAD_BYTES: Final = 1024
"""Everything that a record has once: pool, numbers, trace, lengths of columns."""


def split_plan(plan: LeasePlan, max_bytes: int) -> tuple[LeasePlan, ...]:
    """Return a plan as pieces to be published in order.

    Args:
        plan: The plan.
        max_bytes: Largest record, unless it holds a single lease, stop or failed job.

    Complexity: O(n) for a plan that fits, O(n log n) in NumPy else.
    """
    pieces: list[LeasePlan] = []
    waiting = [replace(plan, round_state=_cut_state(plan.round_state, max_bytes // _STATE_SHARE))]
    while waiting:
        piece = waiting.pop()
        halves = _halves(piece) if most_bytes(piece) > max_bytes else []
        if len(halves) > 1:
            waiting += reversed(halves)
        else:
            pieces.append(piece)
    return tuple(pieces)


def most_bytes(plan: LeasePlan) -> int:
    """Return a bound for the size of a plan's record."""
    state = plan.round_state
    return (
        _HEAD_BYTES
        + _lease_bytes(plan) * plan.handle.size
        + _added_bytes(plan)
        + _RUN_BYTES * len(plan.stops)
        + _FAILED_BYTES * plan.failed_handle.size
        + _ATTEMPTED_BYTES * state.attempted_handle.size
        + _QUEUE_BYTES * state.queue.size
        + _WEIGHT_BYTES * len(state.weights)
        + _text_bytes(one.resource for one in state.weights)
        + _PROMISE_BYTES * state.promises.handle.size
        + _text_bytes(state.promises.clusters)
        + _text_bytes(state.promises.nodes)
        + _text_bytes(plan.nodes)
        + _text_bytes(plan.clusters)
        + _text_bytes(plan.failed_reasons)
    )


def _lease_bytes(plan: LeasePlan) -> int:
    return _LEASE_BYTES + _MEMBER_BYTES * (plan.member is not None) + _CHARGE_BYTES * (plan.charge_core_s is not None)


def _text_bytes(texts: Iterable[str]) -> int:
    return sum(len(text.encode()) + _TEXT_BYTES for text in texts)


def _cut_state(state: RoundStateColumns, max_bytes: int) -> RoundStateColumns:
    """Return the state with as many failed attempts as the bytes allow."""
    attempted = max_bytes // _ATTEMPTED_BYTES
    if state.attempted_handle.size <= attempted:
        return state
    return replace(
        state,
        attempted_handle=state.attempted_handle[:attempted],
        failed_attempt=state.failed_attempt[:attempted],
    )


def _size(plan: LeasePlan) -> int:
    return int(plan.handle.size + len(plan.stops) + plan.failed_handle.size + _added_count(plan))


def _added_count(plan: LeasePlan) -> int:
    return 0 if plan.added is None else len(plan.added.members)


def _added_bytes(plan: LeasePlan) -> int:
    if plan.added is None:
        return 0
    names = _text_bytes(plan.added.nodes) + _text_bytes(plan.added.clusters)
    return (_LEASE_BYTES + _MEMBER_BYTES) * len(plan.added.members) + names


def _halves(plan: LeasePlan) -> list[LeasePlan]:
    """Return a plan as two, in order; what there is one of goes into the first, and no run is parted."""
    leases, stops, failed = ((len(values) + 1) // 2 for values in (plan.handle, plan.stops, plan.failed_handle))
    if plan.member is not None and leases:
        ends = np.append(plan.handle[1:] != plan.handle[:-1], True)
        leases += int(np.argmax(ends[leases - 1 :]))
    first = _part(plan, slice(0, leases), slice(0, stops), slice(0, failed))
    # A round adds few members, which stay together.
    second = _part(replace(plan, added=None), slice(leases, None), slice(stops, None), slice(failed, None))
    return [part for part in (first, second) if _size(part)]


def _part(plan: LeasePlan, leases: slice, stops: slice, failed: slice) -> LeasePlan:
    """Return a piece of a plan with the names it uses."""
    used, node = np.unique(plan.node[leases], return_inverse=True)
    return replace(
        plan,
        handle=plan.handle[leases],
        attempt=plan.attempt[leases],
        cluster=plan.cluster[leases],
        node=node.astype(np.int32),
        member=None if plan.member is None else plan.member[leases],
        charge_core_s=None if plan.charge_core_s is None else plan.charge_core_s[leases],
        nodes=tuple(plan.nodes[place] for place in used.tolist()),
        stops=plan.stops[stops],
        failed_handle=plan.failed_handle[failed],
        failed_reasons=plan.failed_reasons[failed],
    )
