"""Node sets as the clusters of a mesh.

Source: design section 9, "replay"; `argosy_kube.simulated.inventory`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from argosy_cli.compose import ClusterPlan
from argosy_kube.port import NodeDescription
from argosy_kube.simulated.inventory import format_nodes, parse_uniform
from argosy_workload.model import NodeModel, NodeSet, uniform_nodes
from argosy_workload.traces import read_nodes

__all__ = ["cluster_plans", "nodes_of"]

_COUNTED: Final = re.compile(r"^\d+:")


def nodes_of(text: str, *, cluster_count: int) -> NodeSet:
    """Return the nodes that an option names: a file, `4x32cpu,128Gi`, or `4:cpu=32,memory=128Gi`.

    Args:
        text: Path or short text.
        cluster_count: Clusters to deal the nodes to, where a file does not tell.

    Raises:
        NotFound: There is no such file.
        InvalidRequest: The text is no set of nodes.
    """
    if not _COUNTED.match(text) or Path(text).exists():
        return read_nodes(text, cluster_count=cluster_count)
    count, amounts = parse_uniform(text)
    model = NodeModel.of("uniform", amounts)
    like = uniform_nodes(f"{count}x1cpu", cluster_count=cluster_count)
    return NodeSet(
        source=text, models=(model,), clusters=like.clusters, names=like.names, model=like.model, cluster=like.cluster
    )


def cluster_plans(nodes: NodeSet) -> tuple[ClusterPlan, ...]:
    """Return one simulated cluster for each of the set's clusters, with its nodes.

    Complexity: O(nodes).
    """
    plans = []
    for cluster in nodes.clusters:
        rows = nodes.rows_of(cluster)
        described = [_describe(nodes.names[row], nodes.models[nodes.model[row]]) for row in rows.tolist()]
        if described:
            plans.append(ClusterPlan(name=cluster, nodes=format_nodes(described)))
    return tuple(plans)


def _describe(name: str, model: NodeModel) -> NodeDescription:
    return NodeDescription(name=name, allocatable=dict(model.allocatable), labels=dict(model.labels))
