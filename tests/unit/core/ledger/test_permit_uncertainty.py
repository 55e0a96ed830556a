"""Permits that nobody may know of: after a start of the ledger, and after an agent that went."""

import pytest
from tests.unit.core.ledger.permit_ledgers import World

from argosy_core.job.reading.scaling import Scaling
from argosy_core.ledger import RefusalReason


@pytest.fixture
def world() -> World:
    """Two pods of 200 and 20, held by one agent."""
    world = World()
    world.see({1: (200, 20), 2: (200, 20)})
    assert world.join(1, 2) == [0, 0]
    return world


def test_pods_count_at_their_maximum_after_a_start_until_their_agent_reports() -> None:
    """Nobody knows what was permitted before: the difference to what is seen is buffer, and the report ends it."""
    world = World()
    world.permits.has_listed = False
    world.see({1: (200, 20), 2: (300, 30)}, everything=True)
    assert (world.reserved, world.buffer) == ((1600, 160), (1100, 110))
    assert world.join(1, ceiling=(400, 20)) == [0]
    assert world.permit(1) == (400, 20)
    assert (world.reserved, world.buffer) == ((1200, 100), (500, 50))


def test_uncertainty_ends_with_the_longest_lease_and_the_margin() -> None:
    """An agent that never comes blocks its node no longer than it could have grown."""
    world = World()
    world.permits.has_listed = False
    world.permits.start(100.0)
    world.see({1: (200, 20)}, everything=True)
    world.permits.advance(109.9)
    assert world.reserved == (800, 80)
    world.permits.advance(110.0)
    assert (world.reserved, world.buffer) == ((200, 20), (0, 0))


def test_a_pod_that_appears_later_counts_as_it_is(world: World) -> None:
    """No other ledger can have permitted it anything, so its first size is what is booked."""
    world.see({4: (200, 20)})
    assert (world.reserved, world.buffer) == ((600, 60), (0, 0))


def test_an_agent_that_only_just_started_does_not_end_the_uncertainty() -> None:
    """Another process may still have a lease; the pod is its own once that cannot be any more."""
    world = World()
    world.permits.has_listed = False
    world.see({1: (200, 20)}, everything=True)
    assert world.join(1, held=False) == [RefusalReason.HELD_BY_ANOTHER]
    assert world.reserved == (800, 80)
    world.permits.advance(10.0)
    assert world.join(1, held=False) == [0]


def test_an_agent_that_is_cut_off_keeps_what_it_may_have_until_its_lease_ran_out(world: World) -> None:
    """It may grow to its permit and no further; after the lease and the margin only what is seen counts."""
    world.ask({1: (500, 50)})
    world.permits.cut_off(1, renewed_s=3.0)
    assert (world.reserved, world.buffer) == ((700, 70), (300, 30))
    assert world.ask({1: (600, 50)}) == [RefusalReason.NOT_IN_INVENTORY]
    world.see({1: (400, 40)})
    assert (world.reserved, world.buffer) == ((700, 70), (100, 10))
    world.permits.advance(12.9)
    assert world.reserved == (700, 70)
    world.permits.advance(13.0)
    assert (world.reserved, world.buffer) == ((600, 60), (0, 0))


def test_a_cut_off_agent_that_comes_back_has_what_it_says_but_never_more_than_it_had(world: World) -> None:
    """A report raises no booking, whatever it claims."""
    world.ask({1: (500, 50)})
    world.permits.cut_off(1, renewed_s=0.0)
    world.join(1, ceiling=(800, 30), session=2)
    assert world.permit(1) == (500, 30)
    assert world.reserved == (700, 50)


def test_another_agents_pod_is_refused_until_its_lease_ran_out(world: World) -> None:
    """Two agents for one node: the second is told, and what the first may have stays booked."""
    assert world.join(1, session=2, process=2) == [RefusalReason.HELD_BY_ANOTHER]
    world.ask({1: (500, 20)})
    world.permits.cut_off(1, renewed_s=0.0)
    assert world.join(1, session=2, process=2) == [RefusalReason.HELD_BY_ANOTHER]
    world.permits.advance(10.0)
    assert world.join(1, session=2, process=2) == [0]
    assert world.reserved == (400, 40)


def test_a_goodbye_gives_permits_back_once_all_that_was_done_is_seen(world: World) -> None:
    """Nobody resizes the pods any more, so after the margin they count as they are and another agent may come."""
    world.ask({1: (500, 50)})
    world.permits.leave(1)
    assert (world.reserved, world.buffer) == ((700, 70), (300, 30))
    world.permits.advance(4.0)
    assert (world.reserved, world.buffer) == ((400, 40), (0, 0))
    assert world.join(1, session=2, process=2, held=False) == [0]


def test_a_new_maximum_before_contact_keeps_the_larger_one_booked() -> None:
    """What was permitted before the start may be up to either."""
    world = World()
    world.permits.has_listed = False
    world.see({1: (200, 20)}, everything=True)
    world.see({1: (200, 20)}, Scaling(least=(100, 10), most=(900, 60)))
    assert world.reserved == (900, 80)
