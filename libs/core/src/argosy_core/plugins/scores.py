"""The built-in scores: which node is best, vectorised over k pods and n nodes.

All answer 0 to 100, `keep-devices` -100 to 0; higher is better.

Shares are real numbers; nothing is rounded, so that scores of different clusters compare.

Source: design section 6, "vectorised plugins", "lost opportunity"; seed 003 "Executor implementation".
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from argosy_core.framework import CandidateCycle, Cycle
from argosy_core.resources import CPU, MEMORY, PODS

__all__ = [
    "alignment",
    "fewest_nodes",
    "keep_devices",
    "least_allocated",
    "lost_opportunity",
    "most_allocated",
    "spread_over_clusters",
]

Floats = npt.NDArray[np.float64]


def alignment(cycle: Cycle) -> Floats:
    """Score `alignment`: 100 times the cosine between what a pod asks for and what is free on the node.

    Both are measured in what the largest node of the cluster has, pods apart. A pod that needs many cores for each of
    its accelerators thus goes where many are left for each, and one without any where few are left: no resource is left
    over on a node for lack of another one. Whether a node is in use does not count.

    Source: 003 "Executor implementation".
    """
    largest = cycle.table.allocatable.max(axis=1, initial=0)
    columns = [column for column, name in enumerate(cycle.table.axis.names) if name != PODS and largest[column] > 0]
    both, asked, free = np.zeros(cycle.shape), np.zeros((len(cycle.pods), 1)), np.zeros((1, 1))
    for column in columns:
        unit = 1.0 / float(largest[column])
        wanted = cycle.pods.requests[:, column, None] * unit
        left = np.maximum(cycle.free(column), 0) * unit
        both += wanted * left
        asked = asked + wanted * wanted
        free = free + left * left
    length = np.sqrt(asked * free)
    return 100.0 * np.divide(both, length, out=np.zeros(cycle.shape), where=length > 0)


def least_allocated(cycle: Cycle) -> Floats:
    """Score `least-allocated`: 100 times the mean share that stays free, so pods spread over the nodes.

    The mean is over cpu, memory and every other resource that the pod asks for; the number of pods does not count.
    """
    return 100.0 * _mean_free_share(cycle)


def most_allocated(cycle: Cycle) -> Floats:
    """Score `most-allocated`: 100 times the mean share in use with the pod, so nodes fill one after the other."""
    return 100.0 - 100.0 * _mean_free_share(cycle)


def lost_opportunity(cycle: Cycle) -> Floats:
    """Score `lost-opportunity`: 100 minus the mean of what a placement leaves unusable on the node.

    Of each resource that any node has (pods apart), the amount left is measured against the largest node of the
    cluster, so that the same remainder weighs the same on a small and on a large node. A pod that needs no accelerator
    thus avoids nodes that have one.

    Source: 003 "Executor implementation".
    """
    largest = cycle.table.allocatable.max(axis=1, initial=0)
    columns = [column for column, name in enumerate(cycle.table.axis.names) if name != PODS and largest[column] > 0]
    lost = np.zeros(cycle.shape)
    for column in columns:
        left = cycle.free(column) - cycle.pods.requests[:, column, None]
        lost += np.maximum(left, 0) * (1.0 / float(largest[column]))
    return 100.0 - lost * (100.0 / max(1, len(columns)))


def keep_devices(cycle: Cycle) -> Floats:
    """Score `keep-devices`: as many points off as percent of a node's devices are free with the pod there.

    The devices are those that the pod asks for; for a pod that asks for none all that the node has, and nothing is off
    where it has none. So pods with a GPU fill one node after the other, and leave others whole for who needs all GPUs
    of a node; pods without keep off nodes whose GPUs are free. Where no node has devices nothing is ranked by this.

    Source: design section 6, "lost opportunity"; decision 0026.
    """
    table, pods = cycle.table, cycle.pods
    columns = [column for column in table.axis.devices if table.allocatable[column].any()]
    if not columns:
        return np.zeros((1, 1))
    asked = pods.requests[:, columns] > 0
    asks_none = np.logical_not(asked.any(axis=1, keepdims=True))
    free, counted = np.zeros(cycle.shape), np.zeros(cycle.shape)
    for position, column in enumerate(columns):
        is_counted = asked[:, position, None] | (asks_none & (cycle.inverse_allocatable(column) > 0))
        free += _free_share(cycle, column) * is_counted
        counted += is_counted
    return np.asarray(-100.0 * free / np.maximum(counted, 1.0))


def fewest_nodes(cycle: Cycle) -> Floats:
    """Score `fewest-nodes`: 50 points where something runs already, and up to 50 for what `lost-opportunity` says.

    So a node that is in use is filled before another is begun, the one first that is left with least. A node is in use
    if anything of it is taken; pods that run on every node count as well, and then only the other half decides.

    Source: 003 "Executor implementation".
    """
    table = cycle.table
    in_use = np.append((table.free < table.allocatable).any(axis=0), False)
    return 50.0 * in_use[cycle.nodes] + 0.5 * lost_opportunity(cycle)


def spread_over_clusters(cycle: CandidateCycle) -> Floats:
    """Decision score `spread-over-clusters`: 100 points in the cluster with most free, in others in proportion.

    The share is the mean over the resources that any cluster has free.
    """
    entries = cycle.entries
    largest = entries.cluster_free.max(axis=0, initial=0)
    counted = largest > 0
    if not counted.any():
        return np.zeros(cycle.shape)
    shares = (entries.cluster_free[:, counted] / largest[counted]).mean(axis=1)
    return np.asarray(100.0 * shares[entries.cluster[cycle.entry]])


def _mean_free_share(cycle: Cycle) -> Floats:
    """Return (k, n) or (1, n): mean over the counted resources of (free - request) / allocatable, at least 0 each."""
    names, pods = cycle.table.axis.names, cycle.pods
    basic = [column for column, name in enumerate(names) if name in {CPU, MEMORY}]
    total = np.zeros(cycle.shape)
    for column in basic:
        total += _free_share(cycle, column)
    counted = np.full(len(pods), float(len(basic)))
    for column in np.flatnonzero(pods.needed).tolist():
        if column in basic or names[column] == PODS:
            continue
        asked = (pods.requests[:, column] > 0).astype(np.float64)
        total += _free_share(cycle, column) * asked[:, None]
        counted += asked
    total *= (1.0 / np.maximum(counted, 1.0))[:, None]
    return total


def _free_share(cycle: Cycle, column: int) -> Floats:
    """Return (k, n): share of a resource that is free once the pod is placed, at least 0."""
    share = (cycle.free(column) - cycle.pods.requests[:, column, None]) * cycle.inverse_allocatable(column)
    return np.maximum(share, 0.0, out=share)
