"""Views for people who look after a pool: what the last round did, and everything that its leader knows.

Source: design section 9.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Final

from argosy_core.scheduler.explain.views import stage_of, stage_text
from argosy_core.scheduler.memory.results import RoundStatistics
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.turns.shares import shares

__all__ = ["dump", "last_round"]

_DUMP_CHUNK: Final = 2000


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
        "settings": {**asdict(state.settings), "resource_weights": dict(state.weights.values)},
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
        "pending": state.live.handle[state.pending_slots()].tolist(),
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
        "stage": stage_text(stage_of(state, slot)),
        "run_state": int(live.run_state[slot]),
        "attempt": int(live.attempt[slot]),
        "failed_attempts": int(live.failed_attempts[slot]),
        "flags": int(live.flags[slot]),
        "cluster": state.clusters.names[cluster] if cluster >= 0 else "",
        "node": state.clusters.nodes[cluster].names[int(live.node[slot])] if cluster >= 0 else "",
    }
