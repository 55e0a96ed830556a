"""What an agent asks for and may use: permits, sessions and leases, event by event."""

from __future__ import annotations

import pytest

from argosy_core.autoscale import Amounts, next_actions
from argosy_core.autoscale.events import (
    Actions,
    Directed,
    Directive,
    Leased,
    Permit,
    PermitsTold,
    PodGone,
    Refused,
    ResizeOutcome,
    SessionDown,
    SessionUp,
)

from .agent_world import SETTINGS, UNIT, World, units


def test_a_pod_is_announced_with_what_it_holds_before_anything_is_asked() -> None:
    """Only after the answer is its unit known, and with it what it should have."""
    world = World(has_session=False)
    assert world.use(5.0) == Actions()
    (announced,) = world.tell(SessionUp(1)).requests
    assert (announced.is_first, announced.was_permitted, announced.wanted) == (True, False, units(2))


def test_a_pod_asks_first_and_grows_after() -> None:
    """The resize comes with the permit, not with the request."""
    world = World()
    asked = world.use(3.5)
    assert [one.wanted for one in asked.requests] == [units(4)]
    assert not asked.resizes
    (resize,) = world.permit(units(4)).resizes
    assert (resize.amounts, resize.version) == (units(4), 1)


def test_a_pod_shrinks_first_and_tells_after_the_node_has_confirmed_it() -> None:
    """Until the containers run with less, it is booked at what it had."""
    world = World()
    world.grown(4)
    shrunk = world.use(0.5)
    assert [one.amounts for one in shrunk.resizes] == [units(1)]
    assert not shrunk.requests
    assert not world.tell(world.ended(ResizeOutcome.ACCEPTED, version=9)).requests
    assert not world.see(desired=units(1), allocated=units(1)).requests
    assert [one.wanted for one in world.see(actual=units(1)).requests] == [units(1)]


def test_a_partial_grant_is_used_per_resource_and_the_rest_when_it_is_pushed() -> None:
    """Permits of the same request may rise without being asked for again."""
    world = World()
    world.use(4.4)
    part = Amounts(3000, 2 << 30)
    assert [one.amounts for one in world.permit(part).resizes] == [part]
    world.resized(part)
    pushed = world.permit(units(5))
    assert [one.amounts for one in pushed.resizes] == [units(5)]
    assert not pushed.requests


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"sequence": 1}, "it answers an earlier request"),
        ({"session": 7}, "it came by another session"),
        ({"amounts": units(6)}, "it is more than was asked for"),
        ({"amounts": Amounts(0, 1)}, "it is for nothing"),
    ],
)
def test_a_permit_changes_nothing_where(change: dict[str, object], why: str) -> None:
    """Late, lost, foreign or wrong ones are no permits."""
    world = World()
    world.use(3.5)
    assert not world.permit(**{"amounts": units(4), **change}).resizes, why
    assert world.scaling.permit == units(2)


def test_a_permit_that_comes_twice_or_for_a_pod_that_went_changes_nothing() -> None:
    """The second is the same, and nobody is there for the third."""
    world = World()
    world.use(3.5)
    assert world.permit(units(4)).resizes
    assert not world.permit(units(4)).resizes
    world.tell(PodGone("pod"))
    late = Permit(uid="pod", sequence=2, amounts=units(4), unit=UNIT)
    assert world.tell(PermitsTold(1, (late,))).resizes == ()
    assert world.tell(world.ended(ResizeOutcome.ACCEPTED, version=5)) == Actions()


def test_what_a_request_gives_up_is_not_used_again_before_the_answer() -> None:
    """The sampler may take the difference away the moment it reads the request."""
    world = World()
    world.grown(4)
    world.use(0.5)
    world.resized(units(1))
    assert world.scaling.permit == units(1)
    assert not world.use(3.5).resizes


def test_an_agent_that_is_cut_off_shrinks_and_grows_back_to_its_permit_within_the_lease() -> None:
    """Never above it, whatever it needs."""
    world = World()
    world.grown(4)
    world.tell(SessionDown())
    assert [one.amounts for one in world.use(0.5).resizes] == [units(1)]
    world.resized(units(1))
    assert [one.amounts for one in world.use(5.3).resizes] == [units(4)]


def test_an_agent_whose_lease_is_about_to_end_only_shrinks() -> None:
    """A resize must be over before the lease is: the time that it may take is kept free."""
    world = World()
    world.grown(4)
    world.tell(SessionDown())
    world.use(0.5)
    world.resized(units(1))
    world.scaling.lease_s = world.now_s + 5.0 + SETTINGS.resize_timeout_s
    assert not world.use(5.3).resizes


def test_a_lease_that_has_run_out_is_not_revived() -> None:
    """The sampler may have given the difference away; the pod is announced with what it has."""
    world = World()
    world.grown(4)
    world.use(0.5)
    accepted = world.ended(ResizeOutcome.ACCEPTED, version=9)
    world.tell(accepted, SessionDown())
    world.see(desired=units(1), allocated=units(1), actual=units(1))
    (announced,) = world.tell(SessionUp(2), after_s=100.0).requests
    assert announced.wanted == units(1)
    world = World()
    world.use(3.5)
    world.tell(after_s=60.0)
    assert not world.permit(units(4), lease_s=-50.0).resizes
    (announced,) = world.tell(Leased(1, world.now_s + 200.0)).requests
    assert (announced.is_first, announced.wanted) == (True, units(2))


def test_a_session_that_comes_back_is_told_the_permit_that_still_holds() -> None:
    """What was granted and not used yet stays booked."""
    world = World()
    world.use(3.5)
    world.tell(PermitsTold(1, (Permit(uid="pod", sequence=2, amounts=units(4), unit=UNIT),)), SessionDown())
    (announced,) = world.tell(SessionUp(2)).requests
    assert (announced.wanted, announced.was_permitted, announced.is_permit) == (units(4), True, True)


def test_a_pod_that_somebody_enlarged_without_a_session_is_not_announced_with_a_permit() -> None:
    """No sampler has permitted that size, whatever lease there is."""
    world = World()
    world.grown(4)
    world.tell(SessionDown())
    world.resized(units(5))
    (announced,) = world.tell(SessionUp(2)).requests
    assert (announced.wanted, announced.was_permitted, announced.is_permit) == (units(5), True, False)


@pytest.mark.parametrize(
    ("directive", "shrinks"), [(Directive.DRAIN, True), (Directive.MIGRATE, False), (Directive.STOP, False)]
)
def test_a_pod_that_is_directed_away_does_not_grow(directive: Directive, *, shrinks: bool) -> None:
    """It goes on when the directive is over."""
    world = World()
    world.tell(Directed(1, "pod", directive))
    grown = world.use(4.4)
    assert not grown.requests
    assert bool(world.use(0.5).resizes) is shrinks
    if not shrinks:
        world.use(4.4)
        assert world.tell(Directed(1, "pod", Directive.NONE)).requests


def test_a_refused_request_keeps_the_permit_and_is_tried_again_later() -> None:
    """The pod is announced again: the sampler may not know it."""
    world = World()
    world.use(3.5)
    refused = Refused(session=1, uid="pod", sequence=2, reason="asks too often", retry_after_s=7.0)
    assert world.tell(refused).requests == ()
    assert world.scaling.permit == units(2)
    assert world.told().endswith("was refused: asks too often")
    (again,) = world.tell(after_s=7.0).requests
    assert again.is_first


def test_a_request_without_an_answer_is_repeated() -> None:
    """As another one: what answers the first comes too late."""
    world = World()
    (first,) = world.use(3.5).requests
    assert world.tell(after_s=SETTINGS.request_timeout_s - 0.1).requests == ()
    (second,) = world.tell(after_s=0.1).requests
    assert second.sequence == first.sequence + 1


def test_a_clock_that_goes_back_stands_still() -> None:
    """No lease gets longer and no wait is begun again."""
    world = World()
    world.use(3.5)
    world.agent.take(PodGone("other"), 0.0)
    assert next_actions(world.agent, 0.0).requests == ()
    assert world.tell(after_s=SETTINGS.request_timeout_s).requests


def test_a_clock_that_goes_forward_lets_a_pod_shrink_and_not_grow_back_to_its_permit() -> None:
    """For all that is known the lease has run out, and what the pod does not hold was given to others."""
    world = World()
    world.grown(4)
    assert [one.amounts for one in world.use(2.5, after_s=3600.0).resizes] == [units(3)]
    world = World()
    world.grown(4)
    world.tell(SessionDown())
    world.use(0.5)
    world.resized(units(1))
    assert not world.use(5.3, after_s=3600.0).resizes
    (announced,) = world.tell(SessionUp(2)).requests
    assert (announced.wanted, announced.was_permitted, announced.is_permit) == (units(1), False, False)


def test_only_pods_whose_time_has_come_are_looked_at_and_the_time_is_told() -> None:
    """Nothing to do until the request is repeated."""
    world = World()
    actions = world.use(3.5)
    assert actions.wake_at_s == pytest.approx(world.now_s + SETTINGS.request_timeout_s)
