"""Which clusters are asked for which classes, and which classes fit nowhere now.

A class is asked of a cluster that may be given work, whose nodes are large enough per resource, whose free sums are
large enough, and whose free capacity has risen since it last answered completely that nothing fits. A class that no
cluster is left to ask for is *blocked*: its jobs keep their places and cost nothing until capacity rises somewhere.

Source: design section 5, "Round" 2 and 5; seed 000 "Sampling Phase".
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.scheduler.messages import Bools, Int32s, SampleQuestion
from argosy_core.scheduler.state import PoolState

__all__ = ["Asking", "askable", "blocked_classes", "choose"]

_BLOCK: Final = 1 << 14


def askable(state: PoolState, classes: npt.NDArray[np.integer]) -> Bools:
    """Return (class, cluster): which clusters may be asked for which classes.

    Args:
        state: The pool.
        classes: Class indices.

    Complexity: O(classes * clusters * resources) in NumPy.
    """
    clusters = state.clusters
    count = len(clusters)
    if count == 0 or classes.size == 0:
        return np.zeros((classes.size, count), dtype=np.bool_)
    needs = state.classes.vector[classes]
    room = np.minimum(clusters.largest, clusters.free)
    fits = np.ones((classes.size, count), dtype=np.bool_)
    for column in range(needs.shape[1]):
        if needs[:, column].any():
            fits &= needs[:, column, None] <= room[:, column]
    state.ensure_class_grid()
    risen = clusters.free_generation > state.empty_generation[classes, :count]
    return fits & risen & clusters.usable()


def blocked_classes(state: PoolState) -> Bools:
    """Return which classes, by index, fit nowhere now; classes without live jobs count as not blocked."""
    end = state.classes.ids.end
    blocked = np.zeros(end, dtype=np.bool_)
    classes = np.flatnonzero(state.classes.job_count[:end] > 0)
    for start in range(0, classes.size, _BLOCK):
        part = classes[start : start + _BLOCK]
        blocked[part] = ~askable(state, part).any(axis=1)
    return blocked


class Asking:
    """The questions of one round: rows are classes, columns clusters."""

    def __init__(self, state: PoolState, classes: Int32s, *, wanted: Int32s, asked: Bools, complete: Bools) -> None:
        """Keep what is asked, with the state of the clusters at this moment.

        Args:
            state: The pool.
            classes: Class indices, each once.
            wanted: How many pods of each wait.
            asked: (class, cluster) what is asked of whom.
            complete: Per class, whether every node must be taken into account.
        """
        self.classes = classes
        self.class_ids = state.classes.class_id[classes]
        self.wanted = wanted
        self.asked = asked
        self.complete = complete
        self.axis = state.classes.axis
        self.generation = state.clusters.free_generation.copy()
        self.incarnation = state.clusters.incarnation.copy()

    def rows(self, cluster: int) -> npt.NDArray[np.int64]:
        """Return the rows asked of a cluster, in the order of its question."""
        if cluster >= self.asked.shape[1]:
            return np.zeros(0, dtype=np.int64)
        return np.flatnonzero(self.asked[:, cluster])

    def questions(self, state: PoolState) -> tuple[SampleQuestion, ...]:
        """Return one question per cluster that is asked anything."""
        settings = state.settings
        questions = []
        for cluster in np.flatnonzero(self.asked.any(axis=0)).tolist():
            rows = self.rows(cluster)
            questions.append(
                SampleQuestion(
                    cluster=state.clusters.names[cluster],
                    round_number=state.round_number,
                    class_ids=self.class_ids[rows],
                    wanted=self.wanted[rows],
                    complete=self.complete[rows].astype(np.int8),
                    resources=self.axis.names,
                    nodes_to_sample_ratio=settings.nodes_to_sample_ratio,
                    deadline_ms=settings.sample_deadline_ms,
                    strategy=settings.strategy,
                )
            )
        return tuple(questions)


def choose(state: PoolState, classes: Int32s, wanted: Int32s, rng: np.random.Generator) -> Asking:
    """Return whom to ask: per class, ceil(Cp x clusters) drawn among those that may be asked.

    All classes draw from one random order of the clusters, so that a round needs few messages. A class that is being
    explained is asked of every cluster that may be given work, in full, whether it seems to fit or not.

    Args:
        state: The pool.
        classes: Class indices wanted, each once.
        wanted: How many pods of each wait.
        rng: Draws the order.
    """
    clusters = state.clusters
    explained = np.array(sorted(state.explained), dtype=np.int32)
    extra = explained[~np.isin(explained, classes)]
    classes = np.concatenate([classes, extra]).astype(np.int32)
    wanted = np.concatenate([wanted, np.ones(extra.size, dtype=np.int32)]).astype(np.int32)
    allowed = askable(state, classes)
    count = math.ceil(state.settings.clusters_to_sample_ratio * int(clusters.usable().sum()))
    drawn = rng.permutation(len(clusters))
    in_order = allowed[:, drawn]
    asked = np.zeros_like(allowed)
    asked[:, drawn] = in_order & (np.cumsum(in_order, axis=1) <= count)
    complete = np.isin(classes, np.array(sorted(state.asked_complete | state.explained), dtype=np.int32))
    asked[np.isin(classes, explained)] = clusters.usable()
    state.explained.clear()
    return Asking(state, classes, wanted=wanted, asked=asked, complete=complete)
