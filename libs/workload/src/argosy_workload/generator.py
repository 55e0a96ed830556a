"""Workloads drawn from a profile, by seed.

Counts are kept exactly: as many jobs of each shape in each queue, and as many nodes of each model in each cluster, as
the profile says. Life times and inter-arrival times are drawn by inverse quantiles. The draws are stratified (one from
each n-th part of the distribution, in random order), so that even few draws follow the quantiles; the gaps of a
distribution are then scaled to the mean that the profile states.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from argosy_core.errors import InvalidRequest
from argosy_workload.model import JobColumns, NodeSet, Shape, Workload, build_workload
from argosy_workload.profile import Profile
from argosy_workload.tracefile import MAX_ROW_COUNT

__all__ = ["generate"]

FloatArray = npt.NDArray[np.float64]


def generate(
    profile: Profile, seed: int | np.random.Generator, *, job_scale: float = 1.0, node_scale: float = 1.0
) -> tuple[Workload, NodeSet]:
    """Return (jobs, nodes) drawn from a profile; the same seed gives the same ones.

    Args:
        profile: What to draw from.
        seed: Source of chance: a seed, or a generator to go on with.
        job_scale: Times as many jobs as the profile has, in the same time; counts are rounded so that the total is.
        node_scale: Times as many nodes.

    Raises:
        InvalidRequest: A scale is not positive, or leaves nothing, or asks for too many.

    Complexity: O(n log n).
    """
    rng = np.random.default_rng(seed)
    job_counts = _scaled([count for entry in profile.shapes for _, count in entry.counts], job_scale, "jobs")
    counted = iter(job_counts)
    weights = {queue.name: queue.weight for queue in profile.queues}
    rows: list[tuple[Shape, str]] = []
    groups: list[list[int]] = [[] for _ in profile.distributions]
    for entry in profile.shapes:
        for queue, _ in entry.counts:
            count = next(counted)
            groups[entry.distribution] += range(len(rows), len(rows) + count)
            rows += [(entry.shape, queue)] * count
    submit_s = np.zeros(len(rows))
    run_s = np.zeros(len(rows))
    for group, distribution in zip(groups, profile.distributions, strict=True):
        if not group:
            continue
        members = rng.permutation(np.array(group))
        run_s[members] = _draw(rng, profile.levels, distribution.life_time_s, len(members))
        gaps_s = _draw(rng, profile.levels, distribution.inter_arrival_s, len(members) - 1)
        total_s = min(distribution.mean_inter_arrival_s / job_scale * len(gaps_s), profile.span_s)
        gaps_s *= total_s / gaps_s.sum() if gaps_s.sum() > 0 else 0.0
        start_s = rng.uniform(0.0, max(profile.span_s - total_s, 0.0))
        submit_s[members] = start_s + np.concatenate([[0.0], np.cumsum(gaps_s)])
    order = np.argsort(submit_s, kind="stable")
    names = np.empty(len(rows), dtype=np.int64)
    names[order] = np.arange(len(rows))
    columns = JobColumns(
        submit_s=submit_s,
        run_s=np.round(run_s, 3),
        queue=[queue for _, queue in rows],
        shape=[shape for shape, _ in rows],
        client_ids=[f"job-{number:06d}" for number in names.tolist()],
        weights=weights,
    )
    notes = (*profile.notes, "Drawn from a profile: counts are its own, times follow its quantiles.")
    workload = build_workload(columns, source=f"profile of {profile.source}", notes=notes)
    return workload, _nodes(profile, node_scale)


def _draw(rng: np.random.Generator, levels: Sequence[float], quantiles: FloatArray, count: int) -> FloatArray:
    """Return `count` draws by inverse quantiles, one from each `count`-th of the distribution, in random order.

    Between two quantiles it goes in proportion (evenly in the logarithm), because times range over six decades and a
    straight line to the longest one would put far too much weight there.
    """
    if count <= 0:
        return np.zeros(0)
    at = (rng.permutation(count) + rng.random(count)) / count
    return np.expm1(np.interp(at, levels, np.log1p(quantiles)))


def _scaled(counts: Sequence[int], scale: float, what: str) -> list[int]:
    """Return counts times a scale: whole numbers whose sum is the scaled sum (largest remainders are rounded up).

    Raises:
        InvalidRequest: The scale is out of range.
    """
    exact = np.array(counts, dtype=np.float64) * scale
    if not scale > 0 or not 1 <= (total := round(float(exact.sum()))) <= MAX_ROW_COUNT:
        raise InvalidRequest(f"a scale of {scale:g} gives no number of {what} between 1 and {MAX_ROW_COUNT}")
    whole = np.floor(exact).astype(np.int64)
    up = np.argsort(whole - exact, kind="stable")[: max(total - int(whole.sum()), 0)]
    whole[up] += 1
    return [int(count) for count in whole]


def _nodes(profile: Profile, scale: float) -> NodeSet:
    """Return the nodes, those of one cluster and model numbered from 0."""
    clusters = list(dict.fromkeys(sorted(cluster for node in profile.nodes for cluster, _ in node.counts)))
    kinds = [(model, cluster) for model, node in enumerate(profile.nodes) for cluster, _ in node.counts]
    counts = _scaled([count for node in profile.nodes for _, count in node.counts], scale, "nodes")
    row = np.repeat(np.arange(len(kinds)), counts)
    model = np.array([model for model, _ in kinds], dtype=np.int32)[row]
    cluster = np.array([clusters.index(name) for _, name in kinds], dtype=np.int32)[row]
    # A node's name tells its cluster and stays the same for one profile and scale.
    names = tuple(f"{clusters[c]}-node-{number:05d}" for number, c in enumerate(cluster.tolist()))
    return NodeSet(
        source=f"profile of {profile.source}",
        models=tuple(node.model for node in profile.nodes),
        clusters=tuple(clusters),
        names=names,
        model=model,
        cluster=cluster,
    )
