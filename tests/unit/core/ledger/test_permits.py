"""Permits in the ledger: every transition of the table, as numbers."""

import dataclasses

import numpy as np
import pytest
from tests.unit.core.ledger.permit_ledgers import BOUNDS, SETTINGS, World

from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.reading.scaling import Scaling
from argosy_core.job.tables.members import Members
from argosy_core.ledger import PermitSettings, PodEvents, RefusalReason
from argosy_core.placement import commit


@pytest.fixture
def world() -> World:
    """Two pods of 200 and 20, held by one agent."""
    world = World()
    world.see({1: (200, 20), 2: (200, 20)})
    assert world.join(1, 2) == [0, 0]
    return world


def test_a_request_that_fits_is_granted_and_booked(world: World) -> None:
    """Ask first: what is granted is taken off the node before the pod grows."""
    world.ask({1: (500, 50)})
    assert world.permit(1) == (500, 50)
    assert (world.reserved, world.buffer, world.pressure) == ((700, 70), (0, 0), (0, 0))


def test_a_request_beyond_the_room_is_granted_in_whole_units_and_the_rest_deferred(world: World) -> None:
    """Each resource by itself, as much as is there; what is denied is the node's pressure."""
    world.node("a", cpu=950)
    world.ask({1: (800, 40)})
    assert world.permit(1) == (700, 40)
    assert (world.reserved, world.pressure) == ((900, 60), (100, 0))


def test_a_bundle_takes_both_resources_in_equal_steps(world: World) -> None:
    """A pod that asks for a bundle gets no unit of one resource without that of the other."""
    world.node("a", memory=70)
    world.ask({1: (800, 80)}, bundle=True)
    assert world.permit(1) == (500, 50)
    assert world.pressure == (300, 30)


def test_what_is_told_after_shrinking_is_given_back_once_it_is_seen(world: World) -> None:
    """Booked is the most of permit and what the cluster shows, until it shows less."""
    world.ask({1: (100, 10)})
    assert world.permit(1) == (100, 10)
    assert world.reserved == (400, 40)
    world.see({1: (100, 10)})
    assert world.reserved == (300, 30)


def test_pressure_is_replaced_by_the_next_request_and_never_summed(world: World) -> None:
    """A pod's latest request is what it wants; an earlier one is forgotten."""
    world.node("a", cpu=400)
    world.ask({1: (800, 20)})
    world.ask({1: (700, 20)})
    assert world.pressure == (500, 0)
    world.ask({1: (200, 20)})
    assert world.pressure == (0, 0)


def test_deferred_demand_is_pushed_when_room_comes(world: World) -> None:
    """The pod that was denied gets what another's end leaves, without asking again."""
    world.see({3: (600, 10)}, None)
    world.ask({1: (500, 20)})
    assert world.permit(1) == (200, 20)
    world.see({3: (600, 10)}, None, ended=True)
    assert world.permits.settle(np.zeros(0, np.int32)).tolist() == world.rows(1).tolist()
    assert world.permit(1) == (500, 20)
    assert world.permits.settle(np.zeros(0, np.int32)).tolist() == []


def test_a_placement_and_a_permit_never_both_take_the_last_core(world: World) -> None:
    """One room: whichever comes first has it, the other is told that it is gone."""
    world.ledger.define_class(1, SchedulingClass(requests=(("cpu", 600),)))

    def place(handle: int) -> int:
        one = np.array([0], np.int32)
        offsets = np.array([0, 1], np.int32)
        nodes, _ = commit(
            world.ledger, Members.of([handle], [1]), class_ids=one + 1, offsets=offsets, candidates=one
        )  # fmt: skip
        return int(nodes[0])

    assert place(1) == 0
    world.ask({1: (300, 20)})
    assert world.permit(1) == (200, 20)
    world.ledger.release(Members.of([1], [1]))
    world.permits.settle()
    assert world.permit(1) == (300, 20)
    assert place(2) == -1
    world.ledger.check_invariants()


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ((0, 20), RefusalReason.BELOW_MINIMUM),
        ((-100, 20), RefusalReason.BELOW_MINIMUM),
        ((900, 20), RefusalReason.ABOVE_MAXIMUM),
        ((2**62, 20), RefusalReason.ABOVE_MAXIMUM),
        ((250, 20), RefusalReason.NOT_IN_UNITS),
    ],
)
def test_amounts_that_no_pod_may_have_are_refused_and_change_nothing(
    world: World, wanted: tuple[int, int], reason: RefusalReason
) -> None:
    """Each has its own reason; the permit and the booking stay."""
    assert world.ask({1: wanted}) == [reason]
    assert (world.permit(1), world.reserved, world.pressure) == ((200, 20), (400, 40), (0, 0))


def test_pods_that_are_unknown_or_anothers_are_refused_and_the_others_served(world: World) -> None:
    """One pod's refusal is none of the next one's."""
    world.see({5: (100, 10)})
    refused = world.ask({9: (300, 20), 5: (300, 20), 1: (300, 20)})
    assert refused == [RefusalReason.UNKNOWN_POD, RefusalReason.NOT_IN_INVENTORY, 0]
    assert world.permit(1) == (300, 20)


def test_a_number_that_does_not_rise_is_refused_with_the_whole_message(world: World) -> None:
    """A message that comes twice would take back what was permitted since."""
    world.ask({1: (300, 20)})
    world.sequence -= 1
    with pytest.raises(InvalidRequest, match="does not rise"):
        world.ask({2: (400, 20), 1: (100, 10)})
    assert (world.permit(1), world.permit(2)) == ((300, 20), (200, 20))


def test_a_pod_that_is_moved_keeps_its_size(world: World) -> None:
    """Only a request for just what it has is taken."""
    world.permits.move(world.rows(1), is_moving=True)
    assert world.ask({1: (300, 20)}) == [RefusalReason.MOVING]
    assert world.ask({1: (200, 20)}) == [0]
    world.permits.move(world.rows(1), is_moving=False)
    assert world.ask({1: (300, 20)}) == [0]


def test_a_pod_that_went_frees_all_that_it_was_booked_at(world: World) -> None:
    """Permit, buffer and pressure go with it, and a late request finds nothing."""
    world.ask({1: (800, 80), 2: (800, 20)})
    world.see({1: (200, 20)}, ended=True)
    assert (world.reserved[1], world.buffer) == (20, (0, 0))
    assert world.ask({1: (300, 30)}) == [RefusalReason.UNKNOWN_POD]
    world.see({2: (200, 20)}, ended=True)
    assert (world.reserved, world.pressure) == ((0, 0), (0, 0))


def test_a_pod_of_another_uid_in_the_same_run_inherits_nothing() -> None:
    """A permit is one pod's; the next pod of the run begins as it is."""
    world = World()
    world.see({1: (200, 20)})
    world.join(1)
    world.ask({1: (800, 80)})
    world.see({1: (200, 20)}, ended=True)
    world.see({2: (200, 20)})
    assert world.reserved == (200, 20)


def test_a_pod_that_somebody_else_enlarged_is_booked_as_it_is(world: World) -> None:
    """Facts count beside permits: booked is the most of them, and a permit up to there costs no room."""
    world.see({1: (700, 20)})
    assert (world.permit(1), world.reserved) == ((200, 20), (900, 40))
    world.node("a", cpu=900)
    world.ask({1: (700, 20)})
    assert (world.permit(1), world.reserved) == ((700, 20), (900, 40))


def test_what_is_seen_of_a_pod_is_no_permit_where_less_than_nothing_is_free(world: World) -> None:
    """The watch may be late: the pod was shrunk since, and its room is another's by now."""
    world.ask({1: (800, 20)})
    world.ask({1: (200, 20)})
    world.ask({2: (800, 20)})
    world.see({1: (800, 20)})
    assert world.reserved == (1600, 40)
    world.ask({1: (800, 30)})
    assert world.permit(1) == (200, 30)
    world.see({1: (200, 20)})
    assert world.reserved == (1000, 50)


def test_a_new_maximum_limits_what_is_deferred_and_takes_nothing_back(world: World) -> None:
    """After contact only the bounds are stored."""
    world.node("a", cpu=700)
    world.ask({1: (800, 20)})
    assert (world.permit(1), world.pressure) == ((500, 20), (300, 0))
    world.see({1: (200, 20)}, Scaling(least=(100, 10), most=(600, 80)))
    assert (world.permit(1), world.pressure) == ((500, 20), (100, 0))
    assert world.ask({1: (800, 20)}) == [RefusalReason.ABOVE_MAXIMUM]


def test_scaling_switched_off_stops_the_agent_and_frees_the_pod_after_the_lease(world: World) -> None:
    """What it may still have stays booked for that long; then it counts as it is, and asking is refused."""
    world.ask({1: (500, 50)})
    world.see({1: (300, 30)}, None)
    assert world.permits.notices.take_stopped() == [(1, world.rows(1)[0])]
    assert world.permits.notices.take_stopped() == []
    assert world.reserved == (700, 70)
    world.permits.advance(10.0)
    assert world.reserved == (500, 50)
    assert world.ask({1: (300, 30)}) == [RefusalReason.UNKNOWN_POD]


def test_system_that_grows_leaves_bookings_and_grants_nothing(world: World) -> None:
    """Reserved may then be above total - system; room is never below zero."""
    world.ask({1: (600, 20)})
    world.node("a", system_cpu=400)
    assert world.reserved == (800, 40)
    world.ask({2: (300, 20)})
    assert (world.permit(2), world.reserved) == ((200, 20), (800, 40))


def test_a_request_is_checked_against_the_unit_last_told(world: World) -> None:
    """The agent cannot know a unit before it has heard of it; the next request must be in the new one."""
    world.permits.settings = dataclasses.replace(SETTINGS, node_units={"a": (150, 10)})
    assert world.ask({1: (400, 20)}) == [0]
    assert world.ask({1: (500, 20)}) == [RefusalReason.NOT_IN_UNITS]
    assert world.ask({1: (450, 20)}) == [0]


def test_a_cordoned_node_grants_nothing_until_it_is_open_again(world: World) -> None:
    """It is to be emptied: pods may shrink, and what they ask for waits."""
    world.ledger.set_cordons(["a"])
    world.ask({1: (300, 20)})
    assert (world.permit(1), world.pressure) == ((200, 20), (100, 0))
    world.ledger.set_cordons([])
    world.permits.settle(np.zeros(0, np.int32))
    assert world.permit(1) == (300, 20)


def test_what_is_given_back_in_a_message_is_there_for_what_is_asked_in_it(world: World) -> None:
    """All of a message comes at once, in whatever order it names the pods."""
    world.node("a", cpu=400)
    world.see({1: (100, 20)})
    world.ask({2: (300, 20), 1: (100, 20)})
    assert (world.permit(1), world.permit(2)) == ((100, 20), (300, 20))


def test_bounds_that_hold_no_size_are_refused() -> None:
    """A minimum above its maximum, or one resource too few."""
    with pytest.raises(ValueError, match="hold no size"):
        Scaling(least=(200, 10), most=(100, 10))
    with pytest.raises(ValueError, match="one amount each"):
        Scaling(least=(200,), most=(100,))


@pytest.mark.parametrize("wrong", [{"lease_s": 0.0}, {"margin_s": -1.0}, {"unit": (0, 1)}, {"node_units": {"a": (1,)}}])
def test_settings_that_measure_nothing_are_refused(wrong: dict[str, object]) -> None:
    """Times above 0, and units with some of each resource."""
    with pytest.raises(InvalidRequest):
        PermitSettings(**wrong)  # type: ignore[arg-type]


def test_queues_share_what_a_full_node_frees_by_their_weights() -> None:
    """Bursts of three queues of weights 1, 2 and 4: granted growth is within one unit of weighted max-min."""
    world = World()
    world.node("a", cpu=300, memory=10_000)
    world.permits.queues.tell({"one": 1, "two": 2, "four": 4})
    for number, queue in enumerate(("one", "two", "four"), 1):
        world.see({number: (100, 10)}, Scaling(least=(100, 10), most=(5000, 10), queue=queue))
    world.join(1, 2, 3, ceiling=(100, 10))
    world.ask({1: (5000, 10), 2: (5000, 10), 3: (5000, 10)})
    for cores in range(4, 38):
        world.node("a", cpu=100 * cores, memory=10_000)
        world.permits.settle(np.zeros(0, np.int32))
        grown = [world.permit(number)[0] - 100 for number in (1, 2, 3)]
        assert sum(grown) == 100 * (cores - 3)
        assert all(abs(own - sum(grown) * weight / 7) <= 100 for own, weight in zip(grown, (1, 2, 4), strict=True))


def test_a_queue_that_wants_less_leaves_the_rest_to_the_others() -> None:
    """Max-min, not quotas: what one does not want is shared by the same weights."""
    world = World()
    world.node("a", cpu=1000, memory=1000)
    world.permits.queues.tell({"heavy": 4})
    world.see({1: (100, 10)}, Scaling(least=(100, 10), most=(200, 10), queue="heavy"))
    world.see({2: (100, 10)}, Scaling(least=(100, 10), most=(900, 10), queue="b"))
    world.see({3: (100, 10)}, Scaling(least=(100, 10), most=(900, 10), queue="c"))
    world.join(1, 2, 3, ceiling=(100, 10))
    world.ask({2: (900, 10), 3: (900, 10), 1: (200, 10)})
    assert [world.permit(number)[0] for number in (1, 2, 3)] == [200, 400, 400]


def test_weights_that_are_none_are_refused(world: World) -> None:
    """A weight of 0 would divide by nothing."""
    with pytest.raises(InvalidRequest, match="above 0"):
        world.permits.queues.tell({"a": 0.0})


def test_a_pod_whose_run_asks_for_more_than_it_is_not_scaled() -> None:
    """Others of the run are still to come, and their room must not be given away."""
    world = World()
    world.ledger.define_class(1, SchedulingClass(requests=(("cpu", 400), ("memory", 40))))
    one = np.array([0], np.int32)
    member = Members.of([7], [1])
    commit(world.ledger, member, class_ids=one + 1, offsets=np.array([0, 1], np.int32), candidates=one)
    events = PodEvents(
        members=member, uids=np.full((1, 16), 7, np.uint8), nodes=one, ended=np.zeros(1, np.bool_),
        requests=np.array([[200, 20, 1]]), scalings={0: BOUNDS},
    )  # fmt: skip
    world.ledger.observe(events)
    assert (len(world.permits.pods), world.reserved) == (0, (400, 40))


def test_many_pods_come_and_go_without_a_trace() -> None:
    """Rows grow and are used again."""
    world = World()
    world.node("a", cpu=10**9, memory=10**9)
    for begin in (1, 101):
        world.see({number % 256: (100, 10) for number in range(begin, begin + 100)})
    world.see({}, everything=True)
    assert (len(world.permits.pods), world.reserved) == (0, (0, 0))


def test_a_leader_is_told_once_what_its_pods_hold_and_again_on_a_new_stream() -> None:
    """Permits count as usage, what is only uncertain does not; as its class says is -1."""
    world = World()
    world.ledger.define_class(1, SchedulingClass(requests=(("cpu", 200), ("memory", 20))))
    one = np.array([0], np.int32)
    member = Members.of([7], [1])
    commit(world.ledger, member, class_ids=one + 1, offsets=np.array([0, 1], np.int32), candidates=one)
    requests = world.ledger.classes.requests

    def told(scaling: Scaling | None = BOUNDS) -> list[list[int]]:
        events = PodEvents(
            members=member, uids=np.array([[1] + 15 * [0]], np.uint8), nodes=one, ended=np.zeros(1, np.bool_),
            requests=np.array([[200, 20, 1]]), scalings={0: scaling} if scaling else {},
        )  # fmt: skip
        world.ledger.observe(events)
        members, amounts = world.permits.take_held(0, requests)
        assert members.is_in(member).all()
        return amounts.T.tolist()

    assert told() == []
    world.join(1)
    world.ask({1: (500, 20)})
    assert told() == [[500, -1]]
    assert told() == []
    world.permits.forget_told(0)
    assert told() == [[500, -1]]
    world.permits.cut_off(1, renewed_s=0.0)
    assert told() == [[-1, -1]]
    world.join(1)
    world.ask({1: (300, 20)})
    assert told() == [[300, -1]]
    assert told(None) == [[-1, -1]]
    world.permits.advance(20.0)
    assert len(world.permits.pods) == 0
