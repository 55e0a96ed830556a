"""Which candidates are the last choice: on nodes where the like of a job fails so often, see `memory.node_failures`.

Source: seed 004 "Detecting faulty nodes"; design section 6, "faulty nodes".
"""

from __future__ import annotations

import numpy as np

from argosy_core.arrays import true_places
from argosy_core.placement import CandidatePool
from argosy_core.scheduler.memory.state import PoolState

__all__ = ["find_last_choices"]


def find_last_choices(
    state: PoolState, pool: CandidatePool, rng: np.random.Generator
) -> dict[tuple[int, int], frozenset[int]]:
    """Return which entries of the candidates are the last choice, by job set id and class id.

    Args:
        state: The pool.
        pool: The candidates; merged if any node is a last choice.
        rng: Orders candidates of equal score.

    Complexity: next to nothing where no node is one; else O(candidates).
    """
    if not state.node_failures:
        return {}
    pool.merge(rng)
    entries: dict[tuple[int, int], int] = {}
    for index in np.unique(pool.cluster).tolist():
        at = true_places(pool.cluster == index)
        names = state.clusters.nodes[index].translate(pool.node[at]).tolist()
        entries.update(zip(((index, name) for name in names), at.tolist(), strict=True))
    found: dict[tuple[int, int], set[int]] = {}
    for job_set_id, class_id, node in state.node_failures.all_nodes():
        if node in entries:
            found.setdefault((job_set_id, class_id), set()).add(entries[node])
    return {kind: frozenset(chosen) for kind, chosen in found.items()}
