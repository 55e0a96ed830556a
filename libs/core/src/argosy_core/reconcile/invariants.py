"""What must hold of the table of objects between any two events; tests and simulated worlds ask.

Source: design section 7.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import true_places
from argosy_core.errors import InvariantViolation
from argosy_core.job.states import IS_RUN_TERMINAL
from argosy_core.reconcile.machine import Phase
from argosy_core.reconcile.object_table import ObjectTable, Stop

__all__ = ["check_table"]


def check_table(table: ObjectTable) -> None:
    """Check every object. O(objects).

    Raises:
        InvariantViolation: Something does not hold; says what, and of which slots.
    """
    phase = table.phase
    in_use = phase != Phase.FREE
    has_recipe = np.array([recipe is not None for recipe in table.recipe.tolist()], dtype=np.bool_)
    is_there = (phase == Phase.PRESENT) | (phase == Phase.DELETING)
    _require("an object that is there needs nothing to be created from", ~(is_there & has_recipe))
    _require(
        "a creation under way has an end and something to create",
        (phase != Phase.CREATING) | ((table.calls_until_s > 0) & has_recipe),
    )
    _require("what is being deleted was told to go", (phase != Phase.DELETING) | (table.stop == Stop.SENT))
    _require("a deletion is sent of what was there", (table.stop != Stop.SENT) | (phase > Phase.CREATING))
    _require("what is gone for good has ended", (phase != Phase.GONE) | IS_RUN_TERMINAL[table.state])
    _require("what has ended was there, or never will be", ~IS_RUN_TERMINAL[table.state] | (phase >= Phase.PRESENT))
    _require("what was never there shows no state", (phase != Phase.ABSENT) | (table.state == 1))
    for name in ("ordinal", "state", "stop", "stored_state", "in_trouble", "is_bag", "has_row", "calls_until_s"):
        _require(f"a free slot has no {name}", in_use | (getattr(table, name) == 0))
    _require("records and flags agree", table.in_trouble == np.isin(np.arange(phase.size), list(table.troubles)))
    _check_ways(table, in_use)


def _check_ways(table: ObjectTable, in_use: npt.NDArray[np.bool_]) -> None:
    """Check that each object is found where its run says, and nothing else is."""
    is_found = np.zeros(in_use.size, dtype=np.bool_)
    used = true_places(in_use)
    members = table.members(used)
    is_found[used] = table.find(members, table.object[used]) == used
    is_found[used] &= table.is_bag[used] == np.array([key in table.bags for key in members.pairs()], dtype=np.bool_)
    _require("no bag is empty", np.array([max(bag) >= 0 for bag in table.bags.values()], dtype=np.bool_))
    _require("an object is found by its run and position", in_use == is_found)
    heads = int((in_use & (table.object == 0)).sum())
    _require("nothing is kept of runs without objects", np.array([len(table.index) == heads]))


def _require(rule: str, holds: npt.NDArray[np.bool_]) -> None:
    """Raise unless a rule holds of every slot."""
    if not holds.all():
        raise InvariantViolation(f"{rule}: broken in slots {true_places(~holds)[:10].tolist()}")
