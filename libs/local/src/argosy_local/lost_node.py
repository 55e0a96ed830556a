"""A node that is lost in the middle of a run, for demonstrations: it goes from its simulated cluster with its pods."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from argosy_kube.simulated.client import SimulatedCluster
from argosy_kube.simulated.faults import Fault

__all__ = ["LostNode", "lose_node"]

_INSTALLATION: Final = "argosy"
"""Whose objects would be listed; a fault is everybody's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostNode:
    """Which node goes, and when."""

    cluster: str
    """Its cluster."""
    node: str
    """Its name."""
    after_s: float
    """Real seconds until then."""

    def describe(self) -> str:
        """Return the note of a report."""
        return (
            f"Node {self.node} of {self.cluster} is taken away after {self.after_s:.0f} s, as if it had died: "
            "what ran on it begins again elsewhere."
        )


async def lose_node(lost: LostNode, *, address: str) -> None:
    """Wait, then take a node with all its pods from a simulated cluster.

    Args:
        lost: Which and when.
        address: Of the simulated cluster.

    Raises:
        ArgosyError: The cluster cannot be reached, or has no such node.
    """
    await asyncio.sleep(lost.after_s)
    async with SimulatedCluster(address, installation=_INSTALLATION) as cluster:
        await cluster.inject(Fault(kind="node-lost", node=lost.node))
