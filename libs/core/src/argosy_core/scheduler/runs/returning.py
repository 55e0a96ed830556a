"""What becomes of runs on delegated clusters: nodes that their samplers chose, and runs that they gave back.

Source: seed 003 "Executor implementation"; design section 5, "Delegated clusters"; decision 0022.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from argosy_core.arrays import Int32s, Int64s, true_places
from argosy_core.job.states import IS_RUN_TERMINAL
from argosy_core.job.tables.live import IN_FLIGHT
from argosy_core.job.tables.rows import PlacedNodes
from argosy_core.nodes import ANY_NODE
from argosy_core.placement import WaitReason
from argosy_core.scheduler.memory.results import ClassResult
from argosy_core.scheduler.memory.state import PoolState

__all__ = ["note_returned", "take_nodes"]


def note_returned(state: PoolState, slots: Int32s, *, texts: Sequence[str], reason: Int64s, now_s: float) -> None:
    """Have the classes of runs that a delegated cluster gave back wait there until something changes.

    Each time that happens again without a run of the class placed there, news count later, so a cluster that returns
    everything is asked ever less often.

    Args:
        state: The pool.
        slots: Jobs whose runs were returned; where each was still stands in its row.
        texts: Reasons.
        reason: Index into `texts` for each, or -1.
        now_s: Now.

    Complexity: Python work per distinct class and cluster.
    """
    live = state.live
    pairs = live.class_index[slots].astype(np.int64) << 16 | live.cluster[slots]
    found, first = np.unique(pairs, return_index=True)
    state.ensure_class_grid()
    state.totals["returned"] += int(slots.size)
    for pair, place in zip(found.tolist(), first.tolist(), strict=True):
        class_index, cluster = pair >> 16, pair & 0xFFFF
        wait_s = state.returns.note(class_index, cluster, now_s)
        text = texts[reason[place]] if reason[place] >= 0 else ""
        state.waits.wait(
            np.array([class_index]),
            cluster,
            np.array([WaitReason.RETURNED], dtype=np.int8),
            retry_after_s=np.array([wait_s]),
            now_s=now_s,
        )
        state.answers[class_index, cluster] = ClassResult(
            reason=WaitReason.RETURNED, text=text, round_number=state.round_number
        )
    state.change_count += 1


def take_nodes(state: PoolState, cluster: str, placed: PlacedNodes) -> PlacedNodes:
    """Take the nodes that a sampler chose for runs that are leased to its cluster as a whole; return what is news.

    What is said of runs that are not live there, or that have a node, is late and left out.

    Args:
        state: The pool.
        cluster: Who says so.
        placed: Members of runs and the names of their nodes.

    Raises:
        NotFound: The cluster is not known.

    Complexity: O(n log n) in NumPy, Python work per distinct node and class.
    """
    live, members, index = state.live, placed.members, state.clusters.index(cluster)
    names = state.clusters.nodes[index]
    slots = live.slots(members.handle)
    there = (slots >= 0) & (live.attempt[slots] == members.attempt) & (live.cluster[slots] == index)
    there &= ((live.flags[slots] & IN_FLIGHT) == 0) & (live.run_state[slots] > 0)
    there &= ~IS_RUN_TERMINAL[live.run_state[slots]] & ~live.members.has(slots) & (members.member == 0)
    there &= np.array([name != ANY_NODE and bool(name) for name in placed.nodes], dtype=np.bool_)
    there &= live.node[slots] == names.intern([ANY_NODE])[0]
    chosen = true_places(there)
    nodes = tuple(placed.nodes[place] for place in chosen.tolist())
    live.node[slots[chosen]] = names.intern(nodes)
    for class_index in np.unique(live.class_index[slots[chosen]]).tolist() if len(state.returns) else ():
        state.returns.note_placed(class_index, index)
    return PlacedNodes(members=members[chosen], nodes=nodes)
