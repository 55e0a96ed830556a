"""What samplers tell of live runs, as it is stored: what they hold, and where they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from argosy_core.job.tables.rows import HeldAmounts, PlacedNodes

__all__ = ["note_held", "note_nodes"]


def note_held(jobs: Mapping[int, Any], held: HeldAmounts) -> None:
    """Note what live runs of jobs, by handle, hold."""
    for (handle, ordinal), amounts in zip(held.members.pairs(), held.amounts.tolist(), strict=True):
        run = jobs[handle].runs[ordinal]
        if not run.ended:
            run.held = {name: amount for name, amount in zip(held.names, amounts, strict=True) if amount >= 0}


def note_nodes(jobs: Mapping[int, Any], placed: PlacedNodes) -> None:
    """Note on which nodes live runs are that were leased to their clusters as a whole."""
    for (handle, ordinal), node in zip(placed.members.pairs(), placed.nodes, strict=True):
        run = jobs[handle].runs[ordinal]
        if not run.ended:
            run.node = node
