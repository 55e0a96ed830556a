"""What explanations say beyond a leader's own memory: nodes as they were told, who cordoned what, who is not heard.

Source: design section 9 (explanations); seed 004.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.states import JobStage
from argosy_core.nodes import NodeTable
from argosy_core.placement import WaitReason
from argosy_core.plugins import ClusterFit, find_missing, judge
from argosy_core.resources import format_amount
from argosy_core.scheduler.explain.explanation import ClusterReason, Explanation, filter_counts

__all__ = ["ClusterStanding", "explain_by_nodes", "may_be_put_by_nodes", "reason_by_nodes"]

_OF_NODES: Final = frozenset(
    {WaitReason.NONE, WaitReason.NO_ROOM, WaitReason.MISMATCH, WaitReason.CORDONED, WaitReason.AWAY}
)
"""Reasons that nodes give, which a look at them may put more exactly."""
_BEFORE_NODES: Final = frozenset({WaitReason.LIMIT, WaitReason.RATE, WaitReason.CONFLICT, WaitReason.BACK_OFF})
"""Reasons for which no sampler was asked, so that nobody has found out yet that no node can hold the job."""
_ENDED_BY_OTHERS: Final = frozenset({WaitReason.HELD, WaitReason.DEPENDENCY})
"""Reasons that a person or another job ends first; that no node can hold the job is then said beside them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStanding:
    """Whether a cluster may be given work, and why not, in words."""

    cordoned: str = ""
    """Why and by whom it is cordoned, for people, as in `cluster east is cordoned: cables`; empty if it is not."""
    away: str = ""
    """Since when it is not heard, for people; empty if it is heard."""
    node_cordons: Mapping[str, str] = field(default_factory=dict)
    """Why nodes are cordoned, by name, where somebody said so."""


def may_be_put_by_nodes(reason: WaitReason) -> bool:
    """Return whether a look at nodes may replace a reason to wait."""
    return reason in _OF_NODES | _BEFORE_NODES


def reason_by_nodes(
    reason: WaitReason,
    definition: SchedulingClass,
    tables: Mapping[str, NodeTable],
    *,
    clusters: Mapping[str, ClusterStanding],
    is_of_queue: bool = False,
) -> WaitReason:
    """Return why a job waits as `explain_by_nodes` says it, for lists.

    Args:
        reason: What the leader's memory says.
        definition: The job's class.
        tables: Nodes by cluster.
        clusters: How clusters stand, by name; of a text counts only whether there is one.
        is_of_queue: Whether the job's queue is cordoned.

    Complexity: As `explain_by_nodes`.
    """
    listed = Explanation(stage=JobStage.QUEUED, summary="", reason=reason)
    queue_cordon = "its queue" if is_of_queue else ""
    return explain_by_nodes(listed, definition, tables, clusters=clusters, queue_cordon=queue_cordon).reason


def explain_by_nodes(
    explanation: Explanation,
    definition: SchedulingClass,
    tables: Mapping[str, NodeTable],
    *,
    clusters: Mapping[str, ClusterStanding],
    queue_cordon: str = "",
) -> Explanation:
    """Return an explanation of a waiting job with what nodes, as samplers have told them, say of it.

    Args:
        explanation: What the leader's memory says.
        definition: The job's class.
        tables: Nodes by cluster.
        clusters: How clusters stand, by name.
        queue_cordon: Why and by whom its queue is cordoned, for people; empty if it is not.

    Complexity: O(filters x nodes) in NumPy, Python work per distinct group of nodes.
    """
    fits = {name: judge(table, definition) for name, table in tables.items()}
    missing = find_missing(tables, definition) if fits else ()
    reason, why = explanation.reason, explanation.why
    is_of_queue = bool(queue_cordon) and reason == WaitReason.CORDONED
    if is_of_queue:
        why = f"{why}: {queue_cordon}"
    if missing and reason in _OF_NODES | _BEFORE_NODES | _ENDED_BY_OTHERS:
        # The end of what else holds it back would not help it; what samplers said of it themselves stays first.
        never = f"no node of any cluster can ever hold it: {'; '.join(missing)}"
        why = never if reason in _OF_NODES and not is_of_queue else "; ".join(filter(None, [never, why]))
        reason = reason if reason in _ENDED_BY_OTHERS else WaitReason.MISMATCH
    elif reason in _OF_NODES and not is_of_queue:
        reason, why = _cause(explanation, fits, clusters)
    if definition.gang and reason in {WaitReason.NO_ROOM, WaitReason.MISMATCH} and not missing:
        why = "no cluster can ever hold all its pods" if reason == WaitReason.MISMATCH else why
        why += f"; {explanation.nearest_miss}" if explanation.nearest_miss else ""
    largest = _largest(fits)
    if largest and reason == WaitReason.NO_ROOM:
        why += f"; the largest is {largest}"
    reasons = _by_cluster(explanation, fits, clusters)
    filters, examined, nearest = explanation.filters, explanation.examined_node_count, explanation.nearest_miss
    if not filters and fits:
        counts: Counter[str] = Counter()
        for fit in fits.values():
            counts.update(dict(zip(fit.filters, fit.rejections, strict=True)))
        texts = {name: text for fit in fits.values() for name, text in zip(fit.filters, fit.filter_texts, strict=True)}
        filters = filter_counts(tuple(counts), tuple(texts[name] for name in counts), tuple(counts.values()))
        examined = sum(fit.node_count for fit in fits.values())
        misses = [f"{name}: {fit.nearest_miss}" for name, fit in fits.items() if fit.nearest_miss]
        if not definition.gang:  # one lacks what its pods lack together, and that its samplers have said
            nearest = misses[0] if misses and not any(fit.fitting_count for fit in fits.values()) else ""
    summary = explanation.summary
    summary = summary.replace(explanation.why, why, 1) if explanation.why else "; ".join(filter(None, [summary, why]))
    return replace(
        explanation,
        summary=summary,
        why=why,
        reason=reason,
        cluster_reasons=reasons,
        filters=filters,
        examined_node_count=examined,
        nearest_miss=nearest,
        largest_node=largest,
        missing=missing,
        start=explanation.start if reason == explanation.reason and not missing else None,
    )


def _cause(
    explanation: Explanation,
    fits: Mapping[str, ClusterFit],
    clusters: Mapping[str, ClusterStanding],
) -> tuple[WaitReason, str]:
    """Return why a job waits that nodes keep waiting and some could hold, and that in words."""
    able = [name for name, fit in fits.items() if fit.able_count] or list(clusters)
    standings = {name: clusters.get(name, ClusterStanding()) for name in able}
    in_use = [name for name, standing in standings.items() if not standing.cordoned and not standing.away]
    if any(name not in fits or fits[name].usable_count for name in in_use):
        return explanation.reason, explanation.why
    cordoned = [standing.cordoned for standing in standings.values() if standing.cordoned]
    for name in in_use:
        cordoned += [_node_cordon(name, node, standings[name]) for node in fits[name].cordoned]
    away = [standing.away for standing in standings.values() if standing.away and not standing.cordoned]
    unready = [
        f"the nodes of {name} that could hold it are not ready ({fits[name].able_count:,})"
        for name in in_use
        if not fits[name].cordoned
    ]
    reason = WaitReason.CORDONED if cordoned else WaitReason.AWAY
    return reason, "; ".join([*cordoned, *away, *unready]) or explanation.why


def _node_cordon(cluster: str, node: str, standing: ClusterStanding) -> str:
    why = standing.node_cordons.get(node, "")
    return f"node {cluster}/{node} is cordoned" + (f": {why}" if why else "")


def _largest(fits: Mapping[str, ClusterFit]) -> str:
    """Return the largest node that could hold a pod, with what it has; empty for none."""
    able = [(name, fit) for name, fit in fits.items() if fit.able_count]
    if not able:
        return ""
    name, fit = max(able, key=lambda one: (*one[1].largest_amounts.values(),))
    amounts = [f"{format_amount(what, amount)} {what}" for what, amount in fit.largest_amounts.items()]
    return f"{name}/{fit.largest} ({', '.join(amounts)})"


def _by_cluster(
    explanation: Explanation, fits: Mapping[str, ClusterFit], clusters: Mapping[str, ClusterStanding]
) -> tuple[ClusterReason, ...]:
    """Return the reasons of clusters with the counts of their nodes."""
    told = {one.cluster: one for one in explanation.cluster_reasons}
    found = []
    for name, fit in fits.items():
        standing = clusters.get(name, ClusterStanding())
        one = told.pop(name, ClusterReason(cluster=name, reason=WaitReason.NONE, text=""))
        if not one.filters:
            counts = filter_counts(fit.filters, fit.filter_texts, fit.rejections)
            one = replace(one, filters=counts, examined_node_count=fit.node_count)
        text = one.text or standing.cordoned or standing.away
        found.append(replace(one, able_node_count=fit.able_count, text=text))
    for name, one in told.items():
        standing = clusters.get(name, ClusterStanding())
        found.append(replace(one, text=one.text or standing.cordoned or standing.away))
    return tuple(sorted(found, key=lambda one: one.cluster))
