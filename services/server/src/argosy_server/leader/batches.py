"""A round's plan as records of the event log, none larger than the log takes.

A plan that fits is one record, as nearly all do: 10,000 leases take 200 kB and the names of their nodes. A larger one
is published as several, each of which a next leader could apply alone. The round's state stands in every one of them
and is cut if it would leave no room, since jobs that are missing from the pending order are put into it anew.

Source: design section 5, "Round", step 8.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from argosy_core.scheduler.messages import Runs
from argosy_server.leader.log_codec import encode_lease_batch

if TYPE_CHECKING:
    from argosy_core.scheduler.effects import LeasePlan
    from argosy_core.scheduler.messages import RoundStateColumns

__all__ = ["encode_lease_batches"]

_STATE_SHARE: Final = 4
"""The round's state may take a quarter of a record: an eighth the pending order, an eighth failed attempts."""
_ATTEMPTED_BYTES: Final = 12


def encode_lease_batches(
    plan: LeasePlan, *, pool: str, epoch: int, sequence: int, max_bytes: int, traceparent: str = ""
) -> Iterator[bytes]:
    """Yield the records of a plan, numbered from `sequence` on; they are to be published in order.

    Args:
        plan: The plan.
        pool: Pool.
        epoch: Epoch of the leader.
        sequence: Sequence of the first record.
        max_bytes: Largest record, unless it holds a single lease, stop or failed job.
        traceparent: W3C context of the publish; empty if it is not traced.
    """
    cut = replace(plan, round_state=_cut_state(plan.round_state, max_bytes // _STATE_SHARE))
    waiting = [cut]
    while waiting:
        part = waiting.pop()
        payload = encode_lease_batch(part, pool=pool, epoch=epoch, sequence=sequence, traceparent=traceparent)
        if len(payload) > max_bytes and _size(part) > 1:
            waiting += reversed(_halves(part))
            continue
        yield payload
        sequence += 1


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
    return int(plan.handle.size + plan.stops.handle.size + plan.failed_handle.size)


def _halves(plan: LeasePlan) -> list[LeasePlan]:
    """Return a plan as two, in order; what there is one of goes into the first."""
    leases, stops, failed = ((values.size + 1) // 2 for values in (plan.handle, plan.stops.handle, plan.failed_handle))
    first = _part(plan, slice(0, leases), slice(0, stops), slice(0, failed))
    second = _part(plan, slice(leases, None), slice(stops, None), slice(failed, None))
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
        nodes=tuple(plan.nodes[place] for place in used.tolist()),
        stops=Runs(handle=plan.stops.handle[stops], attempt=plan.stops.attempt[stops]),
        failed_handle=plan.failed_handle[failed],
        failed_reasons=plan.failed_reasons[failed],
    )
