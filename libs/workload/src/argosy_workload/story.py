"""What happened in a run that figures do not show: where runs were, and what became of gangs, promises and victims.

Times are in trace seconds since the first submit, as in reports.

Source: design section 9, "report"; seed 003 "Preemption", "Distributed jobs".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.resources import PODS
from argosy_workload.model import NodeSet
from argosy_workload.records import Placement, RunRecords

__all__ = ["Happening", "NodeMap", "describe_duration", "draw_nodes", "tell_story"]

FloatArray = npt.NDArray[np.float64]

LANE_COUNT: Final = 8
"""Parts of a node that are drawn one above the other."""
STEP_COUNT: Final = 480
"""Moments that are drawn."""
_MOST_NODES: Final = 64
"""Nodes that are drawn at most."""
_BURST_RATIO: Final = 0.1
"""Share of all jobs that make a burst when one queue sends them in one moment."""
_BURST_JOBS: Final = 100
"""Least jobs of a burst."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """Something worth telling."""

    at_s: float
    """When, trace seconds."""
    kind: str
    """burst, gang, promised (and begun by then), late (promised, and begun later or never), preempted or lost."""
    text: str
    """What, for people."""
    node: str = ""
    """Where, if on one node."""
    until_s: float | None = None
    """Of a promise: the promised moment, trace seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMap:
    """What ran on nodes over time, as a picture; `LANE_COUNT` rows a node, `STEP_COUNT` columns."""

    nodes: tuple[str, ...]
    """Their names, from the top."""
    queues: tuple[str, ...]
    """Names of queues."""
    end_s: float
    """Trace seconds at the right edge; the left one is 0."""
    cells: bytes
    """Queue index + 1 of what is there, row by row; 0 for nothing."""
    gangs: bytes
    """1 where that is a gang, else 0; likewise."""


def describe_duration(seconds: float) -> str:
    """Return a time for people, in the largest unit of which it has at least two."""
    for unit, length in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:,.1f} s"


def tell_story(records: RunRecords, *, start_s: float) -> tuple[Happening, ...]:
    """Return what is worth telling of a run, in order of time.

    Args:
        records: Of the run, with placements if anybody knows them.
        start_s: The first submit, on the records' clock.

    Complexity: O(placements log placements).
    """
    parts = (_bursts, _gangs, _promises, _preempted, _lost)
    told = [one for part in parts for one in part(records, start_s)]
    return tuple(sorted(told, key=lambda one: (one.at_s, one.text)))


def draw_nodes(records: RunRecords, nodes: NodeSet, *, start_s: float, end_s: float) -> NodeMap | None:
    """Return the picture of a run's nodes; None if nobody knows what ran where, or there are more than can be drawn.

    A pod takes as many lanes as its largest part of the node's resources, at least one.

    Args:
        records: Of the run.
        nodes: What it ran on.
        start_s: The first submit, on the records' clock.
        end_s: Trace seconds at the right edge.

    Complexity: O(placements x lanes).
    """
    if not records.placements or len(nodes) > _MOST_NODES:
        return None
    order = sorted(range(len(nodes)), key=lambda row: (int(nodes.cluster[row]), nodes.names[row]))
    place, model = {nodes.names[row]: at for at, row in enumerate(order)}, nodes.model[order]
    parts = _node_parts(records, nodes)
    cells = np.zeros((len(nodes) * LANE_COUNT, STEP_COUNT), dtype=np.uint8)
    gangs = np.zeros_like(cells)
    free_at = np.zeros((len(nodes), LANE_COUNT))
    for one in sorted(records.placements, key=lambda one: one.lease_s):
        at = place.get(one.node)
        if at is None:
            continue
        begin_s = (one.lease_s - start_s) * records.speed
        over_s = end_s if np.isnan(one.end_s) else (one.end_s - start_s) * records.speed
        shape = int(records.shape[one.row])
        count = max(1, round(LANE_COUNT * parts[shape, model[at]]))
        lanes = np.argsort(np.maximum(free_at[at], begin_s), kind="stable")[:count]
        free_at[at, lanes] = over_s
        first, last = (round(moment / end_s * STEP_COUNT) for moment in (begin_s, over_s))
        columns = slice(first, max(last, first + 1))
        cells[at * LANE_COUNT + lanes, columns] = records.queue[one.row] + 1
        gangs[at * LANE_COUNT + lanes, columns] = records.shapes[shape].member_count > 1
    return NodeMap(
        nodes=tuple(nodes.names[row] for row in order),
        queues=tuple(queue.name for queue in records.queues),
        end_s=end_s,
        cells=cells.tobytes(),
        gangs=gangs.tobytes(),
    )


def _node_parts(records: RunRecords, nodes: NodeSet) -> FloatArray:
    """Return the largest part of a node of each model that a pod of each shape takes."""
    axis = nodes.axis().extend(name for shape in records.shapes for name, _ in shape.requests)
    have = np.array([axis.vector(dict(model.allocatable)) for model in nodes.models], dtype=np.float64)
    have[have == 0] = np.inf
    have[:, axis.index(PODS)] = np.inf
    wanted = np.array([axis.vector(dict(shape.requests)) for shape in records.shapes], dtype=np.float64)
    return np.asarray(np.minimum((wanted[:, None, :] / have[None, :, :]).max(axis=2), 1.0))


def _name(records: RunRecords, row: int) -> str:
    """Return a job for people."""
    return f"job {row} of {records.queues[int(records.queue[row])].name}"


def _bursts(records: RunRecords, start_s: float) -> list[Happening]:
    """Tell of queues that send many jobs in one moment."""
    told = []
    submit_s = np.round((records.submit_s - start_s) * records.speed)
    least = max(_BURST_JOBS, _BURST_RATIO * len(records))
    for index, queue in enumerate(records.queues):
        moments, counts = np.unique(submit_s[(records.queue == index) & ~np.isnan(submit_s)], return_counts=True)
        for moment, count in zip(moments.tolist(), counts.tolist(), strict=True):
            if count >= least:
                text = f"{queue.name} sends {count:,} jobs in one moment"
                told.append(Happening(at_s=moment, kind="burst", text=text))
    return told


def _gangs(records: RunRecords, start_s: float) -> list[Happening]:
    """Tell of gangs: how long each waited for room for all its pods, and where it is."""
    members: dict[tuple[int, int], list[Placement]] = {}
    for one in records.placements:
        if records.shapes[int(records.shape[one.row])].member_count > 1:
            members.setdefault((one.row, one.attempt), []).append(one)
    told = []
    for (row, attempt), placed in members.items():
        waited_s = (placed[0].lease_s - float(records.submit_s[row])) * records.speed
        where = f"{len(placed)} pods on {len({one.node for one in placed})} nodes of {placed[0].cluster}"
        again = f" (run {attempt})" if attempt > 1 else ""
        text = f"{_name(records, row)}{again} gets room for all at once, after {describe_duration(waited_s)}: "
        told.append(Happening(at_s=(placed[0].lease_s - start_s) * records.speed, kind="gang", text=text + where))
    return told


def _promises(records: RunRecords, start_s: float) -> list[Happening]:
    """Tell of promised starts, whether they were kept, and how many jobs began on the promised nodes meanwhile."""
    told, leases_s = [], dict[int, list[float]]()
    for one in records.placements:
        leases_s.setdefault(one.row, []).append(one.lease_s)
    for promise in records.promises:
        # A job that was preempted later has begun all the same; where nobody knows, its last run counts.
        begun_s = [at for at in leases_s.get(promise.row, ()) if at >= promise.given_s]
        began_s = min(begun_s, default=float(records.leased_s[promise.row]))
        given_s, moment_s = ((at - start_s) * records.speed for at in (promise.given_s, promise.moment_s))
        passing = {
            one.row
            for one in records.placements
            if one.node in promise.nodes and one.row != promise.row and promise.given_s < one.lease_s < began_s
        }
        kind = "at the latest" if promise.is_firm else "as expected"
        where = promise.nodes[0] if len(promise.nodes) == 1 else f"{len(promise.nodes)} nodes"
        text = f"{_name(records, promise.row)} starts on {where} by {moment_s:.1f} s {kind}; "
        text += "it never began" if np.isnan(began_s) else f"it began at {(began_s - start_s) * records.speed:.1f} s"
        is_kept = began_s <= promise.moment_s
        text += f", {len(passing)} passed it there and did not delay it" if passing and is_kept else ""
        told.append(
            Happening(
                at_s=given_s,
                kind="promised" if is_kept else "late",
                text=text,
                node=promise.nodes[0],
                until_s=moment_s,
            )
        )
    return told


def _preempted(records: RunRecords, start_s: float) -> list[Happening]:
    """Tell of runs that were stopped so that others have room."""
    return [
        Happening(
            at_s=(one.end_s - start_s) * records.speed,
            kind="preempted",
            text=f"{_name(records, one.row)} on {one.node} {one.reason.removeprefix('preempted: ')}",
            node=one.node,
        )
        for one in _ended(records, "preempted")
    ]


def _lost(records: RunRecords, start_s: float) -> list[Happening]:
    """Tell of nodes that took runs with them."""
    by_node: dict[str, list[Placement]] = {}
    for one in _ended(records, "lost"):
        by_node.setdefault(one.node, []).append(one)
    return [
        Happening(
            at_s=(min(one.end_s for one in several) - start_s) * records.speed,
            kind="lost",
            text=f"node {node} goes with {_count(several)} begun again elsewhere",
            node=node,
        )
        for node, several in by_node.items()
    ]


def _count(placed: Sequence[Placement]) -> str:
    """Return how many runs there are."""
    return "a run that is" if len(placed) == 1 else f"{len(placed)} runs that are"


def _ended(records: RunRecords, state: str) -> Iterable[Placement]:
    """Return the placements that ended in some way."""
    return (one for one in records.placements if one.state == state)
