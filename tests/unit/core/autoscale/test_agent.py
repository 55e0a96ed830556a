"""Tests of the agent: what it does next, event by event, on one pod; and what it must not do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argosy_core.autoscale import Agent, AgentSettings, Amounts, Horizon, PodScaling, PredictorSettings, next_actions
from argosy_core.autoscale.events import (
    Actions,
    Directed,
    Directive,
    Event,
    Leased,
    MetricsSeen,
    OutOfMemory,
    Pending,
    Permit,
    PermitsTold,
    PodGone,
    PodSeen,
    Refused,
    ResizeEnded,
    ResizeOutcome,
    ScalingPolicy,
    SessionDown,
    SessionUp,
)
from argosy_core.autoscale.goals import GoalKeeper

UNIT = Amounts(1000, 1 << 30)
SETTINGS = AgentSettings(max_units=8)
FORGETFUL = PredictorSettings(
    horizons=(Horizon(0.1, 1.0),), prior_s=0.0, width_units=1e-9, width_ratio=0.0, equal_ratio=0.0,
    grow_gain_units=0.0, shrink_gain_units=0.0,
)  # fmt: skip
"""The goal is what the last sample needs, so that it can be said in a test."""


def units(count: int) -> Amounts:
    """Return so many units."""
    return UNIT.times(count)


class World:
    """An agent with one pod of two units, between one and six; it holds a permit for them and a session."""

    def __init__(self, *, has_session: bool = True, refusal: str = "", **policy: object) -> None:
        """Announce the pod, and permit it what it has."""
        self.agent = Agent(SETTINGS, FORGETFUL)
        self.now_s = 1000.0
        fields = {"least": units(1), "most": units(6), **policy}
        self.pod = PodSeen(
            uid="pod", version=1, policy=ScalingPolicy(**fields), desired=units(2), allocated=units(2), actual=units(2),
            refusal=refusal,
        )  # fmt: skip
        self.tell(self.pod)
        if has_session:
            self.tell(SessionUp(1))
            self.permit(units(2))

    @property
    def scaling(self) -> PodScaling:
        """Return the state of the pod."""
        return self.agent.pods["pod"]

    def tell(self, *events: Event, after_s: float = 0.0) -> Actions:
        """Tell events, after some time, and return what is to be done."""
        self.now_s += after_s
        for event in events:
            self.agent.take(event, self.now_s)
        return next_actions(self.agent, self.now_s)

    def use(self, cores: float, memory_bytes: float = 0.6e9, after_s: float = 5.0) -> Actions:
        """Tell what the pod uses."""
        metrics = MetricsSeen(uids=("pod",), load_cores=np.array([cores]), memory_bytes=np.array([memory_bytes]))
        return self.tell(metrics, after_s=after_s)

    def permit(self, amounts: Amounts, *, sequence: int = 0, session: int = 1, lease_s: float = 60.0) -> Actions:
        """Permit amounts, in answer to the last request if no other is named."""
        one = Permit(uid="pod", sequence=sequence or self.scaling.sequence, amounts=amounts, unit=UNIT)
        return self.tell(PermitsTold(session, (one,)), Leased(session, self.now_s + lease_s))

    def see(self, **changes: object) -> Actions:
        """Show the pod with changes, and a version more."""
        seen = self.scaling.seen
        return self.tell(replace(seen, version=seen.version + 1, **changes))

    def ended(self, outcome: ResizeOutcome, version: int = 0, reason: str = "") -> ResizeEnded:
        """Return the end of the last resize."""
        number = self.scaling.resize_number if "pod" in self.agent.pods else 1
        return ResizeEnded(uid="pod", number=number, outcome=outcome, version=version, reason=reason)

    def resized(self, amounts: Amounts) -> Actions:
        """The API server accepts, the node allocates, the containers run with it."""
        accepted = self.ended(ResizeOutcome.ACCEPTED, version=self.scaling.seen.version + 1)
        self.tell(accepted)
        return self.see(desired=amounts, allocated=amounts, actual=amounts)

    def grown(self, count: int) -> None:
        """Let it grow to a size, with all that this takes."""
        self.use(count * 0.9 - 0.01)
        self.permit(units(count))
        self.resized(units(count))

    def told(self) -> str:
        """Return the pod's story as one text."""
        return "; ".join(entry.what for entry in self.agent.story("pod"))


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


@pytest.mark.parametrize(
    ("cores", "memory_bytes"),
    [(float("nan"), 0.6e9), (0.1, float("nan")), (-3.0, 0.6e9), (0.1, float("inf")), (0.1, 0.0), (0.0, 0.6e9)],
)
def test_metrics_that_are_not_numbers_or_fall_at_once_let_no_pod_shrink(cores: float, memory_bytes: float) -> None:
    """The last pair is a number, but a fall from all to nothing: it must come twice."""
    world = World(most=units(8))
    world.use(7.1)
    world.permit(units(8))
    world.resized(units(8))
    assert not world.use(cores, memory_bytes).resizes


@pytest.mark.parametrize(("cores", "memory_bytes"), [(3.5, float("nan")), (float("nan"), 2.9e9)])
def test_a_metric_that_is_missing_keeps_no_pod_from_growing_by_the_other(cores: float, memory_bytes: float) -> None:
    """What is known to be too much is too much."""
    assert [one.wanted for one in World().use(cores, memory_bytes).requests] == [units(4)]


def test_a_pod_that_uses_all_its_processors_twice_gets_twice_as_many() -> None:
    """Use is never more than what it has, so what it would use is hidden; once may be chance."""
    world = World()
    goals = []
    for cores in (2.0, 2.0, 1.7, 2.0):
        world.use(cores)
        goals.append(world.scaling.goal_units)
    assert goals == [3, 4, 2, 3]


def test_a_pod_that_runs_out_of_memory_gets_more_at_once_and_keeps_it() -> None:
    """Metrics that say less do not take it back, for a day."""
    world = World()
    assert [one.wanted for one in world.tell(OutOfMemory("pod")).requests] == [units(3)]
    world.permit(units(3))
    world.resized(units(3))
    assert not world.use(0.5).resizes
    world.permit(units(3), lease_s=1e6)
    world.tell(after_s=SETTINGS.out_of_memory_hold_s)
    assert [one.amounts for one in world.use(0.5).resizes] == [units(1)]


def test_memory_is_not_shrunk_below_what_is_used() -> None:
    """Even if the bounds of the pod are: its end would be worse."""
    world = World()
    world.grown(5)
    world.use(0.5, 3.2e9)
    seen = world.scaling.seen
    shrunk = world.tell(replace(seen, version=50, policy=replace(seen.policy, most=units(2))))
    sizes = [one.amounts for one in shrunk.resizes]
    assert sizes in ([Amounts(2000, 3 << 30)], [])


def test_a_pod_that_is_larger_than_any_may_be_shrinks_to_the_largest_size() -> None:
    """As soon as its unit is known, without waiting for metrics; and its story says what it was permitted."""
    world = World(has_session=False, most=units(20))
    world.see(desired=units(10), allocated=units(10), actual=units(10))
    world.tell(SessionUp(1))
    world.permit(units(10))
    resized = world.tell(after_s=SETTINGS.hold_s).resizes  # what somebody else resized is left alone for a while
    assert [one.amounts for one in resized] == [units(SETTINGS.max_units)]
    assert "; permitted " in world.told()


def test_pods_that_came_and_went_leave_room_for_others() -> None:
    """What is remembered of pods does not grow with all that ever were."""
    keeper = GoalKeeper(8, 60.0)
    for number in range(100):
        keeper.add(f"pod-{number}", 0.0)
        keeper.remove(f"pod-{number}")
    assert len(keeper._history) == 16


def test_bounds_that_change_bring_a_pod_back_into_them() -> None:
    """Without waiting for metrics."""
    world = World()
    world.grown(4)
    seen = world.scaling.seen
    shrunk = world.tell(replace(seen, version=50, policy=replace(seen.policy, most=units(3))))
    assert [one.amounts for one in shrunk.resizes] == [units(3)]


@pytest.mark.parametrize(("refusal", "policy"), [("its QoS class is fixed", {}), ("", {"is_on": False})])
def test_a_pod_that_cannot_or_shall_not_be_resized_keeps_its_size(refusal: str, policy: dict[str, object]) -> None:
    """Its story says why."""
    world = World(refusal=refusal, **policy)
    actions = world.use(4.4)
    assert not actions.resizes
    assert not actions.requests
    assert world.told().startswith(f"is not resized: {refusal or 'autoscaling is off'}")


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


def test_a_resize_that_is_refused_is_told_and_not_tried_at_once() -> None:
    """The API server's reason is in the story, and the booking is released."""
    world = World()
    world.use(3.5)
    world.permit(units(4))
    ended = world.ended(ResizeOutcome.REFUSED, reason="quota exceeded")
    assert [one.wanted for one in world.tell(ended).requests] == [units(2)]
    assert "quota exceeded" in world.told()
    assert not world.tell(after_s=1.0).resizes


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


@pytest.mark.parametrize(
    "fields",
    [
        {"least": Amounts(0, 1)},
        {"least": units(7)},
        {"load_ratio": 0.0},
        {"memory_ratio": 1.1},
        {"working_set_ratio": -1.0},
    ],
)
def test_a_policy_that_no_size_satisfies_is_refused(fields: dict[str, object]) -> None:
    """Before any pod is."""
    with pytest.raises(ValueError, match="must be"):
        ScalingPolicy(**{"least": units(1), "most": units(6), **fields})


def test_a_setting_of_no_time_is_refused() -> None:
    """Waits are above 0."""
    with pytest.raises(ValueError, match="hold_s"):
        AgentSettings(hold_s=0.0)


@pytest.mark.parametrize("cores", [5.5, 50.0])
def test_a_pod_that_needs_more_than_it_may_have_gets_all_that_it_may_have(cores: float) -> None:
    """With the predictor as it ships: no size is enough, and the largest is still the best."""
    world = World()
    world.agent = Agent(SETTINGS)
    world.tell(world.pod, SessionUp(1))
    world.permit(units(2))
    assert [one.wanted for one in world.use(cores).requests] == [units(6)]


def test_a_working_set_that_is_cached_counts_as_memory_up_to_what_is_cached() -> None:
    """2 GiB used and 2 of 5 GiB kept are 4 GiB at nine tenths: five units."""
    world = World()
    metrics = MetricsSeen(
        uids=("pod",), load_cores=np.array([0.1]), memory_bytes=np.array([float(2 << 30)]),
        cached_bytes=np.array([float(2 << 30)]), working_set_bytes=np.array([float(5 << 30)]),
    )  # fmt: skip
    assert [one.wanted for one in world.tell(metrics, after_s=5.0).requests] == [units(5)]
