"""What the demo's workload runs with, in a mesh or in virtual time: settings for seconds instead of hours, a lost node.

Source: design section 9, "demo".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from argosy_local.compose import UNCAPPED
from argosy_local.lost_node import LostNode
from argosy_workload.contended import CONTENDED, LOST_AT_RATIO
from argosy_workload.model import NodeSet
from argosy_workload.timing import DEMO_S

__all__ = ["ROUND_SETTINGS", "demo_flags", "is_demo", "lost_node_of"]

ROUND_SETTINGS: Final[Mapping[str, float]] = {"promise_after_s": 1.0, "run_allowance_s": 5.0}
"""Settings of rounds: whoever waits is promised a start soon, and pods are gone soon after their time."""


def is_demo(trace: str) -> bool:
    """Return whether a trace is the demo's workload."""
    return trace == CONTENDED


def demo_flags() -> Mapping[str, Sequence[str]]:
    """Return flags of the demo's mesh, by kind of process."""
    rounds = [text for name, value in ROUND_SETTINGS.items() for text in (_flag(name), f"{value:g}")]
    return {"server": (*UNCAPPED["server"], *rounds)}


def lost_node_of(nodes: NodeSet, *, within_s: float = DEMO_S, speed: float = 1.0) -> LostNode:
    """Return the node that dies in the demo.

    Args:
        nodes: The demo's nodes.
        within_s: How long the demo takes, trace seconds.
        speed: Trace seconds per second.
    """
    after_s = within_s * LOST_AT_RATIO / speed
    return LostNode(cluster=nodes.clusters[nodes.cluster[-1]], node=nodes.names[-1], after_s=after_s)


def _flag(name: str) -> str:
    return f"--leader-round-{name.replace('_', '-')}"
