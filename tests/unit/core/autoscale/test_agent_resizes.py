"""How an agent's resizes end, and those of others: answered, refused, late or never."""

from __future__ import annotations

from dataclasses import replace

import pytest

from argosy_core.autoscale.events import (
    Pending,
    PodGone,
    ResizeOutcome,
)

from .agent_world import SETTINGS, World, units


@pytest.mark.parametrize("pending", [Pending.DEFERRED, Pending.INFEASIBLE])
def test_a_size_that_the_node_refuses_is_taken_back_and_its_booking_released(pending: Pending) -> None:
    """A node may have room in a moment, or never; the pod waits before it tries again."""
    world = World()
    world.use(3.5)
    world.permit(units(4))
    world.tell(world.ended(ResizeOutcome.ACCEPTED, version=2))
    first = world.see(pending=pending)
    if pending is Pending.DEFERRED:
        assert not first.resizes
        first = world.tell(after_s=SETTINGS.deferred_timeout_s)
    assert [one.amounts for one in first.resizes] == [units(2)]
    assert not first.requests
    back = world.tell(world.ended(ResizeOutcome.ACCEPTED, version=9))
    assert [one.wanted for one in back.requests] == [units(2)]
    assert str(pending) in world.told()


def test_a_resize_without_an_answer_counts_until_the_pod_is_at_another_version() -> None:
    """It may be done yet, so the pod is booked at it; and it is tried again, which settles it."""
    world = World()
    world.grown(4)
    world.use(0.5)
    world.tell(world.ended(ResizeOutcome.UNKNOWN))
    assert world.scaling.held == units(4)
    world.use(3.5, after_s=1.0)
    again = world.tell(after_s=SETTINGS.resize_retry_s)
    assert [one.amounts for one in again.resizes] == [units(4)]
    world.see()
    world.tell(world.ended(ResizeOutcome.CONFLICT))
    assert world.scaling.unsettled is None


def test_a_resize_that_is_never_answered_is_given_up_after_its_time() -> None:
    """And sent again after the wait for a retry."""
    world = World()
    world.use(3.5)
    world.permit(units(4))
    assert not world.tell(after_s=SETTINGS.resize_timeout_s - 1).resizes
    world.tell(after_s=1.0)
    assert world.tell(after_s=SETTINGS.resize_retry_s).resizes


@pytest.mark.parametrize("outcome", list(ResizeOutcome))
def test_a_pod_that_is_deleted_during_a_resize_is_forgotten_however_that_ends(outcome: ResizeOutcome) -> None:
    """Nothing is asked for it, nor done; one that comes after it begins anew."""
    world = World()
    world.use(3.5)
    assert world.permit(units(4)).resizes
    ended = world.ended(outcome, version=9)
    for actions in (world.tell(PodGone("pod")), world.tell(ended)):
        assert (list(actions.requests), list(actions.resizes), world.agent.pods) == ([], [], {})
    (first,) = world.tell(replace(world.pod, uid="next")).requests
    assert (first.uid, first.wanted, first.is_first) == ("next", units(2), True)


def test_a_pod_that_is_out_of_date_is_not_believed() -> None:
    """A watch may be behind the answer to a resize."""
    world = World()
    world.use(3.5)
    world.permit(units(4))
    before = world.scaling.seen
    world.tell(world.ended(ResizeOutcome.ACCEPTED, version=5))
    world.tell(replace(before, version=3))
    assert world.scaling.seen.desired == units(4)
    assert "another actor" not in world.told()


def test_a_resize_of_another_actor_is_noticed_booked_and_left_for_a_while() -> None:
    """The sampler learns of it at once; the agent does not fight over it."""
    world = World()
    seen = world.see(desired=units(5))
    assert [one.wanted for one in seen.requests] == [units(5)]
    assert not seen.resizes
    assert "resized by another actor from 2 cores, 2048 MiB to 5 cores, 5120 MiB" in world.told()
    assert not world.use(0.5).resizes


def test_a_resize_that_is_refused_is_told_and_not_tried_at_once() -> None:
    """The API server's reason is in the story, and the booking is released."""
    world = World()
    world.use(3.5)
    world.permit(units(4))
    ended = world.ended(ResizeOutcome.REFUSED, reason="quota exceeded")
    assert [one.wanted for one in world.tell(ended).requests] == [units(2)]
    assert "quota exceeded" in world.told()
    assert not world.tell(after_s=1.0).resizes


@pytest.mark.parametrize(("refusal", "policy"), [("its QoS class is fixed", {}), ("", {"is_on": False})])
def test_a_pod_that_cannot_or_shall_not_be_resized_keeps_its_size(refusal: str, policy: dict[str, object]) -> None:
    """Its story says why."""
    world = World(refusal=refusal, **policy)
    actions = world.use(4.4)
    assert not actions.resizes
    assert not actions.requests
    assert world.told().startswith(f"is not resized: {refusal or 'autoscaling is off'}")
