"""Why a pod fits nowhere: counts per filter as text and as structure, and the node that came closest.

Source: seed 004 "Filters" (Explain); design sections 6 "explanations" and 9 ("counts and the nearest miss").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from argosy_core.framework import ClassTable, Cycle, Framework
from argosy_core.nodes import NodeTable
from argosy_core.resources import format_amount

__all__ = ["NearestMiss", "count_and_compare", "turned_away_text"]

Int32s = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class NearestMiss:
    """The node that came closest to holding a pod."""

    node: int
    """Row of the node table."""
    name: str
    """Node name."""
    filters: tuple[str, ...]
    """Filters that it fails, in order."""
    lacks: Mapping[str, int]
    """Base units missing, by resource name; empty if it has enough of everything."""

    def text(self) -> str:
        """Return it as one sentence, as `node n7 lacks 2 cpu, 4Gi memory`."""
        faults = []
        if self.lacks:
            amounts = ", ".join(f"{format_amount(name, amount)} {name}" for name, amount in self.lacks.items())
            faults.append(f"lacks {amounts}")
        others = [name for name in self.filters if name != "resources"]
        if others:
            faults.append(f"does not pass {', '.join(others)}")
        return f"node {self.name} {' and '.join(faults)}"


def turned_away_text(text: str, count: int) -> str:
    """Return a filter's text with `{nodes}` put in; no other braces mean anything, since plugins write it."""
    return text.replace("{nodes}", "1 node" if count == 1 else f"{count} nodes")


def count_and_compare(
    framework: Framework, table: NodeTable, classes: ClassTable, slots: Int32s
) -> tuple[Int32s, list[NearestMiss | None]]:
    """Count what turned every node away from classes that fit nowhere, and find the nodes that came closest.

    Closest is the node that fails the fewest filters; among those the one whose largest shortage, as a share of what
    the pod asks for, is smallest; then the first.

    Args:
        framework: Has the filters.
        table: The node table.
        classes: The class table.
        slots: k classes.

    Returns:
        (k, filters) nodes that each filter turned away first; k nearest misses, None if there is no node.

    Complexity: O(classes x filters x nodes).
    """
    live = table.live()
    cycle = Cycle(table, classes.batch(slots), live[None, :])
    masks = [np.broadcast_to(mask, cycle.shape) for mask in framework.filter_each(cycle)]
    counts = np.zeros((len(slots), len(masks)), np.int32)
    alive, left = np.ones(cycle.shape, np.bool_), np.full(len(slots), len(live), np.int32)
    for position, mask in enumerate(masks):
        np.logical_and(alive, mask, out=alive)
        still = np.count_nonzero(alive, axis=1)
        counts[:, position], left = left - still, still.astype(np.int32)
    if not len(live):
        return counts, [None] * len(slots)
    places = _distances(cycle, masks).argmin(axis=1).tolist()
    return counts, [
        _miss(framework, cycle, pod=pod, place=place, passes=[bool(mask[pod, place]) for mask in masks])
        for pod, place in enumerate(places)
    ]


def _distances(cycle: Cycle, masks: Sequence[npt.NDArray[np.bool_]]) -> npt.NDArray[np.float32]:
    """Return (k, n): how far each node is from holding each pod."""
    shortage = np.zeros(cycle.shape, np.float32)
    for column in np.flatnonzero(cycle.pods.needed).tolist():
        asked = cycle.pods.requests[:, column].astype(np.float32)[:, None]
        scale = np.where(asked > 0, np.float32(1) / np.maximum(asked, 1), np.float32(0))
        np.maximum(shortage, (asked - cycle.free(column).astype(np.float32)) * scale, out=shortage)
    # Held below the weight of a filter, so that one filter less always wins; free may be far below zero.
    np.minimum(shortage, np.float32(3), out=shortage)
    for mask in masks:
        shortage += np.where(mask, np.float32(0), np.float32(4))
    return shortage


def _miss(framework: Framework, cycle: Cycle, *, pod: int, place: int, passes: list[bool]) -> NearestMiss:
    """Return the nearest miss of a pod as a value."""
    row = int(cycle.nodes[0, place])
    lacks = np.where(cycle.pods.requests[pod] > 0, cycle.pods.requests[pod] - cycle.table.free[:, row], 0)
    return NearestMiss(
        node=row,
        name=cycle.table.names[row],
        filters=tuple(name for name, passed in zip(framework.filter_names, passes, strict=True) if not passed),
        lacks=cycle.table.axis.amounts(np.maximum(lacks, 0)),
    )
