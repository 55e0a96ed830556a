"""What samplers tell of live runs, as it is stored: what they hold, and where they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, TypeVar

from argosy_core.job.tables.members import Members
from argosy_core.job.tables.rows import HeldAmounts, PlacedNodes

__all__ = ["note_held", "note_nodes"]

Value = TypeVar("Value")


def note_held(jobs: Mapping[int, Any], refused: AbstractSet[tuple[int, int]], held: HeldAmounts) -> None:
    """Note what live runs of jobs, by handle, hold; of a run whose lease was refused there is no row to note it in."""
    for run, amounts in _live(jobs, refused, held.members, held.amounts.tolist()):
        run.held = {name: amount for name, amount in zip(held.names, amounts, strict=True) if amount >= 0}


def note_nodes(jobs: Mapping[int, Any], refused: AbstractSet[tuple[int, int]], placed: PlacedNodes) -> None:
    """Note on which nodes live runs are that were leased to their clusters as a whole, as `note_held` does."""
    for run, node in _live(jobs, refused, placed.members, placed.nodes):
        run.node = node


def _live(
    jobs: Mapping[int, Any], refused: AbstractSet[tuple[int, int]], members: Members, values: Iterable[Value]
) -> Iterator[tuple[Any, Value]]:
    for key, value in zip(members.pairs(), values, strict=True):
        if key not in refused and not (run := jobs[key[0]].runs[key[1]]).ended:
            yield run, value
