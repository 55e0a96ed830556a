"""Why a job waits, beyond the leader's memory: the nodes as told, who cordoned what, since when clusters are away.

Source: design section 9 (explanations).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.nodes import NodeColumns, NodeTable
from argosy_core.scheduler import ClusterStanding, Explanation, explain_by_nodes
from argosy_server.api.leadership.leader_view import ClusterGauges
from argosy_store.replicas.api import ApiStore

__all__ = ["cluster_standings", "explain_causes"]

_MOST_RECORDS: Final = 20
"""Records of the audit that are looked through for who cordoned something."""
_MOST_CLUSTERS: Final = 1000


def explain_causes(
    store: ApiStore,
    explanation: Explanation,
    definition: bytes,
    *,
    queue: str,
    nodes: Mapping[str, NodeColumns],
    gauges: Sequence[ClusterGauges],
) -> Explanation:
    """Return an explanation of a waiting job with what nodes, cordons and contacts say of it; blocks.

    Args:
        store: Where cordons and contacts are.
        explanation: What the leader's memory says.
        definition: Definition of the job's class.
        queue: Its queue.
        nodes: Nodes by cluster.
        gauges: Clusters as the leader sees them.

    Raises:
        BackendUnavailable: The database cannot be reached.
    """
    known = store.get_queue(queue)
    return explain_by_nodes(
        explanation,
        SchedulingClass.parse(definition),
        {name: NodeTable.of(columns) for name, columns in nodes.items()},
        clusters=cluster_standings(store, gauges),
        queue_cordon=_who(store, queue, "CordonQueue", known.cordon_reason) if known.cordoned else "",
    )


def cluster_standings(
    store: ApiStore, gauges: Sequence[ClusterGauges], *, says_who: bool = True
) -> dict[str, ClusterStanding]:
    """Return how clusters stand, by name; blocks.

    Args:
        store: Where cordons and contacts are.
        gauges: Clusters as the leader sees them.
        says_who: Whether the texts name who cordoned them, which takes a look at the audit for each.

    Raises:
        BackendUnavailable: The database cannot be reached.
    """
    rows = {row.name: row for row in store.list_clusters(limit=_MOST_CLUSTERS)}
    clusters = {}
    for gauge in gauges:
        row = rows.get(gauge.name)
        cordoned = ""
        if row is not None and row.cordoned:
            what = f"cluster {gauge.name} is cordoned"
            why = _who(store, row.name, "CordonCluster", row.cordon_reason) if says_who else row.cordon_reason
            cordoned = ": ".join(filter(None, [what, why]))
        clusters[gauge.name] = ClusterStanding(
            cordoned=cordoned,
            away=_away_text(gauge, row.contact_time_us if row is not None else 0),
            node_cordons=dict.fromkeys(row.cordoned_nodes, "") | dict(row.node_cordon_reasons) if row else {},
        )
    return clusters


def _who(store: ApiStore, name: str, method: str, reason: str) -> str:
    """Return why something is cordoned, and by whom and when if that was noted."""
    for record in store.list_audit(limit=_MOST_RECORDS, name=name):
        if record.actor.method.endswith(f"/{method}"):
            by = f"by {record.actor.principal} at {_moment(record.create_time_us)}"
            return f"{reason} ({by})" if reason else by
    return reason


def _away_text(gauge: ClusterGauges, contact_time_us: int) -> str:
    """Return since when a cluster is not heard; empty if it is."""
    if gauge.sampler_connected and gauge.executor_connected:
        return ""
    if gauge.executor_connected:
        return f"the sampler of cluster {gauge.name} is away"
    what = f"{'the executor of ' if gauge.sampler_connected else ''}cluster {gauge.name}"
    return f"{what} is not heard since {_moment(contact_time_us)}" if contact_time_us else f"{what} was never heard"


def _moment(time_us: int) -> str:
    return datetime.fromtimestamp(time_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
