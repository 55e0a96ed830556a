"""More random worlds with faults than `make test` has time for, fewer than `make nightly` draws, and those that found a
fault of ours once.

A world that fails prints its seed; keep it in FOUND_BEFORE.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from argosy_core.errors import ArgosyError
from argosy_simulation import World, draw_world
from argosy_testkit.defended_worlds import DEFENDED_WORLDS
from argosy_testkit.reluctant_plugin import reluctant_world

pytestmark = pytest.mark.timeout(600)

FOUND_BEFORE = (8, 12, 23, 28, 29, 45, 78, 89, 170, 248, 291, 298, 416, 431, 529, 660)
"""Seeds with which a fault of ours was found once, though what they draw has changed since."""
WIDE_FOUND_BEFORE = (52, 84, 179)
"""The same of wide worlds."""


@pytest.mark.parametrize(("wide", "seeds"), [(False, range(3, 24)), (True, (*range(2, 10), *WIDE_FOUND_BEFORE))])
def test_every_invariant_holds_in_random_worlds_with_faults(*, wide: bool, seeds: range | tuple[int, ...]) -> None:
    """Whatever goes wrong, nothing happens that must not, and when it stops the world comes to rest and agrees."""
    for seed in seeds:
        try:
            draw_world(seed, wide=wide, check_steps=25).run()
        except (ArgosyError, AssertionError, LookupError, TypeError, ValueError) as error:
            pytest.fail(f"draw_world({seed}, wide={wide}): {type(error).__name__}: {error}")


@pytest.mark.parametrize("seed", FOUND_BEFORE)
def test_worlds_that_found_something_once_hold(seed: int) -> None:
    """What was found stays mended; memories are checked after every event."""
    draw_world(seed).run()


@pytest.mark.parametrize("make", DEFENDED_WORLDS, ids=lambda make: make.__name__)
def test_worlds_that_need_a_defence_most_hold_as_long_as_they_have_it(make: Callable[[int], World]) -> None:
    """What `make test` catches in them is caught because a defence is missing."""
    make(1).run()


def test_every_invariant_holds_where_shares_cap_what_queues_hold() -> None:
    """Whatever goes wrong, no charge leaks over leaders, and what caps and budgets hold back begins in the end."""
    charged = 0
    for seed in (0, 3):
        world = draw_world(seed, wide=True, capped=True, check_steps=25)
        world.run()
        charged += sum(run.charge_core_s > 0 for job in world.context.store.jobs.values() for run in job.runs.values())
        assert not world.leaders[-1].state.queues.charged_core_s.any()
    assert charged


def test_worlds_in_which_placements_wait_for_plugins_come_to_rest_and_leak_nothing() -> None:
    """Leaders die and are replaced while placements wait: their places are given back, and every job ends once."""
    counters: Counter[str] = Counter()
    for seed in (3, 8, 10):
        counters.update(reluctant_world(seed, check_steps=50).run().counters)
    assert counters["placements held back when a leader ended"] > 3
    assert counters["turned_away"] > 3
