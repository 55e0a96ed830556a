"""A score: nodes with a label come first, as spot nodes that cost less."""

from argosy_core.framework import NodeView, PodView, per_node_score


class PreferLabel:
    """Score `prefer-label`, written for one pod and one node; the adapter asks it about all of them."""

    def __init__(self, label: str, value: str) -> None:
        """Take label and value from the settings."""

        def score(pod: PodView, node: NodeView) -> float:
            del pod
            return 100.0 if node.labels.get(label) == value else 0.0

        self.score = per_node_score(score)
