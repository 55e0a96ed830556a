"""Views for people: where a job stands and why, who has what share, what the last round did, everything.

Source: design section 9; 003 "Fair share"; seed 004 (explanations).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np

from argosy_core.job.live import BACKING_OFF, IN_FLIGHT, PENDING
from argosy_core.job.states import JobState
from argosy_core.queueing import MICRO, fill_water, to_cores
from argosy_core.scheduler.asking import askable
from argosy_core.scheduler.state import PoolState, RoundStatistics

__all__ = ["Explanation", "PoolShares", "QueueShares", "dump", "explain", "last_round", "shares"]

_DUMP_CHUNK: Final = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Where a job stands, and why it waits if it does."""

    handle: int
    """Job handle."""
    stage: str
    """`queued`, `pending`, `in flight`, `leased` or `running`."""
    queue_position: int
    """Jobs of its queue before it, if it is queued; pending ones not counted."""
    pending_position: int
    """Jobs before it in the pending order, if it is pending."""
    blocked: bool
    """True if it waits and its class fits nowhere now, as far as every cluster that may be given work has said."""
    back_off_until_s: float
    """Moment before which it is passed over, seconds since the Unix epoch; 0 if it is not."""
    filters: tuple[tuple[str, int], ...]
    """(filter, nodes it turned away first) over all clusters, most first."""
    examined_count: int
    """Nodes looked at for these counts."""
    nearest_miss: str
    """The node that came closest and what it lacks, as `cluster: text`; empty if none is known."""
    failed_attempt_count: int
    """Rounds in which all its commit candidates conflicted."""
    attempt: int
    """Attempt of its run, or of the newest that ended; 0 if there was none."""
    cluster: str
    """Cluster of its run, or empty."""
    node: str
    """Node of its run, or empty."""
    queue_cordoned: bool
    """True if nothing of its queue may become pending."""
    queue_flow_per_weight: float
    """Flow of its queue divided by the weight, cores."""
    least_flow_per_weight: float
    """Smallest such number among queues with work, cores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueShares:
    """What one queue has and could have."""

    queue_id: int
    """Id."""
    name: str
    """Name."""
    weight: float
    """Weight."""
    fair_share_ratio: float
    """Weight divided by the sum of weights of all queues that are defined."""
    usage_cores: float
    """Usage of pending, leased and running jobs, cores."""
    flow_cores: float
    """Flow, cores."""
    demand_cores: float
    """Usage if all its jobs ran, cores."""
    entitled_cores: float
    """What weighted max-min fairness over the demands gives it, cores."""
    queued_count: int
    """Jobs queued and not pending."""
    pending_count: int
    """Jobs pending."""
    leased_count: int
    """Jobs in flight, leased or running."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolShares:
    """Shares of all queues."""

    queues: tuple[QueueShares, ...]
    """By name."""
    capacity_cores: float
    """Weighted capacity of the clusters that may be given work, cores."""


def explain(state: PoolState, handle: int, now_s: float) -> Explanation | None:
    """Return where a live job stands; None if it is not live here.

    If it waits, the next round asks every usable cluster for complete counts of its class: ask again after it for
    the freshest answer.

    Args:
        state: The pool.
        handle: Job handle.
        now_s: Now.

    Complexity: O(jobs of its queue) in NumPy.
    """
    live, queues = state.live, state.queues
    slot = int(state.live.slots(np.array([handle], dtype=np.int64))[0])
    if slot < 0:
        return None
    one = np.array([slot], dtype=np.int32)
    state.advance_flow(now_s)
    stage = _stage(state, slot)
    queue, class_index = int(live.queue[slot]), int(live.class_index[slot])
    if stage in {"queued", "pending"}:
        state.explained.add(class_index)
    filters, examined, nearest = _reasons(state, class_index)
    cluster = int(live.cluster[slot])
    until = [moment for moment, other in state.back_off if other == handle] if live.flags[slot] & BACKING_OFF else []
    per_weight = queues.flow / np.where(queues.weight > 0, queues.weight, 1.0)
    work = (queues.queued_count + queues.pending_count + queues.leased_count) > 0
    return Explanation(
        handle=handle,
        stage=stage,
        queue_position=queues.orders[queue].position(state.entries(one)) if stage == "queued" else 0,
        pending_position=int(np.flatnonzero(state.pending == slot)[0]) if stage == "pending" else 0,
        blocked=stage in {"queued", "pending"} and not askable(state, np.array([class_index])).any(),
        back_off_until_s=max(until, default=0.0),
        filters=filters,
        examined_count=examined,
        nearest_miss=nearest,
        failed_attempt_count=int(live.failed_attempts[slot]),
        attempt=int(live.attempt[slot]),
        cluster=state.clusters.names[cluster] if cluster >= 0 else "",
        node=state.clusters.nodes[cluster].names[int(live.node[slot])] if cluster >= 0 else "",
        queue_cordoned=bool(queues.cordoned[queue]),
        queue_flow_per_weight=float(per_weight[queue]),
        least_flow_per_weight=float(per_weight[work].min()),
    )


def _stage(state: PoolState, slot: int) -> str:
    """Return the name of a job's stage."""
    flags = int(state.live.flags[slot])
    if flags & IN_FLIGHT:
        return "in flight"
    if flags & PENDING:
        return "pending"
    return JobState(int(state.live.state[slot])).name.lower()


def _reasons(state: PoolState, class_index: int) -> tuple[tuple[tuple[str, int], ...], int, str]:
    """Return counts per filter over all clusters, nodes looked at, and the nearest miss."""
    counts: Counter[str] = Counter()
    examined, nearest = 0, ""
    for (answered, cluster), answer in state.answers.items():
        if answered == class_index:
            counts.update(dict(zip(answer.filters, answer.rejections, strict=False)))
            examined += answer.examined_count
            nearest = nearest or (
                f"{state.clusters.names[cluster]}: {answer.nearest_miss}" if answer.nearest_miss else ""
            )
    return tuple((name, count) for name, count in counts.most_common() if count), examined, nearest


def shares(state: PoolState, now_s: float) -> PoolShares:
    """Return usage, flow, demand and entitlement of every queue.

    All defined queues count for the fair share; the entitlement is exact weighted max-min over the demands.
    """
    state.advance_flow(now_s)
    queues = state.queues
    demand = to_cores(queues.usage + queues.queued_usage)
    capacity = state.capacity_usage() / MICRO
    entitled = fill_water(demand, queues.weight, capacity)
    weight_sum = float(queues.weight.sum())
    rows = [
        QueueShares(
            queue_id=queue_id,
            name=queues.names[index],
            weight=float(queues.weight[index]),
            fair_share_ratio=float(queues.weight[index]) / weight_sum if weight_sum else 0.0,
            usage_cores=float(queues.usage[index]) / MICRO,
            flow_cores=float(queues.flow[index]),
            demand_cores=float(demand[index]),
            entitled_cores=float(entitled[index]),
            queued_count=int(queues.queued_count[index]),
            pending_count=int(queues.pending_count[index]),
            leased_count=int(queues.leased_count[index]),
        )
        for queue_id, index in queues.ids.items()
    ]
    return PoolShares(queues=tuple(sorted(rows, key=lambda row: row.name)), capacity_cores=capacity)


def last_round(state: PoolState) -> RoundStatistics:
    """Return what the last finished round did, with the totals since the leader started."""
    state.statistics.totals = dict(state.totals)
    return state.statistics


def dump(state: PoolState, now_s: float, *, seed: int) -> Iterator[str]:
    """Return the state as JSON text in chunks; joined they are one document with one line per job.

    Args:
        state: The pool.
        now_s: Time, seconds since the Unix epoch.
        seed: What the generator of the rounds was made of.
    """
    live = state.live
    head = {
        "time_s": now_s,
        "seed": seed,
        "settings": {**asdict(state.settings), "resource_weights": dict(state.settings.resource_weights)},
        "round": asdict(last_round(state)),
        "queues": [asdict(row) for row in shares(state, now_s).queues],
        "clusters": [
            {
                "name": name,
                "connected": bool(state.clusters.connected[index]),
                "cordoned": bool(state.clusters.cordoned[index]),
                "incarnation": int(state.clusters.incarnation[index]),
                "nodes": int(state.clusters.node_count[index]),
                "total": state.classes.axis.amounts(state.clusters.total[index]),
                "free": state.classes.axis.amounts(state.clusters.free[index]),
            }
            for index, name in enumerate(state.clusters.names)
        ],
        "pending": live.handle[state.pending].tolist(),
    }
    yield json.dumps(head)[:-1] + ', "jobs": ['
    slots = live.live_slots()
    for start in range(0, slots.size, _DUMP_CHUNK):
        lines = [json.dumps(_job_row(state, slot)) for slot in slots[start : start + _DUMP_CHUNK].tolist()]
        yield ("\n" if start == 0 else ",\n") + ",\n".join(lines)
    yield "\n]}\n"


def _job_row(state: PoolState, slot: int) -> dict[str, int | str]:
    """Return one job for the dump."""
    live = state.live
    cluster = int(live.cluster[slot])
    return {
        "handle": int(live.handle[slot]),
        "queue": state.queues.names[int(live.queue[slot])],
        "job_set": state.job_sets.names[int(live.job_set[slot])],
        "class": int(state.classes.class_id[live.class_index[slot]]),
        "priority": int(live.priority[slot]),
        "stage": _stage(state, slot),
        "run_state": int(live.run_state[slot]),
        "attempt": int(live.attempt[slot]),
        "failed_attempts": int(live.failed_attempts[slot]),
        "flags": int(live.flags[slot]),
        "cluster": state.clusters.names[cluster] if cluster >= 0 else "",
        "node": state.clusters.nodes[cluster].names[int(live.node[slot])] if cluster >= 0 else "",
    }
