"""Sessions after a stall, a restart or a clock that goes otherwise: nothing is given away, nobody is cut off early."""

import pytest
from tests.unit.core.permits.agents import World, permits_in

from argosy_core.permits import (
    Heartbeat,
)


@pytest.fixture
def world() -> World:
    """Two pods."""
    world = World()
    world.see(1, 2)
    return world


def test_time_passes_slowly_only_while_nobody_speaks_and_nothing_is_scaled() -> None:
    """Twenty ticks a second are for pods that are resized; a sampler without any is left in peace."""
    world = World()
    idle_s = world.service.tick_s
    session = world.begin()
    spoken_to_s = world.service.tick_s
    world.service.end(session, world.now_s)
    world.see(1)
    assert (idle_s, spoken_to_s, world.service.tick_s) == (1.0, 0.05, 0.05)


def test_time_counts_again_once_somebody_speaks_after_nothing_was_scaled() -> None:
    """A service that had nothing to do for a while ends silent sessions like any other."""
    world = World()
    for now_s in (1.0, 2.0, 3.0):
        assert world.service.tick(now_s).ended == []
    world.now_s = 4.0
    agent = world.begin()
    assert world.listen(10.0) == []
    assert world.listen(10.1) == [agent]


@pytest.mark.parametrize("stalls_s", [(7.0,), (9.0, 9.0), (7.0, 0.5, 3600.0)])
def test_a_sampler_that_stood_still_hears_what_waits_before_it_judges(
    world: World, stalls_s: tuple[float, ...]
) -> None:
    """Silence counts while somebody listens: what an agent said meanwhile waits unread and proves that it lives."""
    agent = world.begin()
    world.tell(agent, 1)
    world.ask(agent, {1: (500, 20)})
    for stall_s in stalls_s:
        world.now_s += stall_s
        assert world.service.tick(world.now_s).ended == []
    assert world.ledger.nodes.free[0, 0] == 300, "booked for as long as its session goes on"
    assert world.say(agent, Heartbeat()).ended == []
    heard_s = world.now_s
    assert world.listen(heard_s + 6.0) == []
    assert world.listen(heard_s + 6.1) == [agent]


def test_an_agent_that_is_silent_after_a_stall_is_listened_to_for_a_lease_and_cut_off(world: World) -> None:
    """It comes back with what it says, within what it was booked at."""
    agent = world.begin()
    world.tell(agent, 1, 2)
    world.ask(agent, {1: (500, 20)})
    world.now_s = 3600.0
    assert world.listen(3604.9) == []
    assert world.listen(3606.1) == [agent]
    world.ledger.check_invariants()
    assert world.ledger.nodes.free[0].tolist() == [600], "pods count as they are seen"
    again = world.begin()
    told = permits_in(world.tell(again, 1, 2), again)
    assert told == {1: [200, 20], 2: [200, 20]}
    assert permits_in(world.ask(again, {1: (500, 20)}), again) == {1: [500, 20]}


def test_all_agents_that_come_back_in_random_order_leave_nothing_uncertain_and_no_node_over_committed() -> None:
    """With each that is back its own pods' room is right at once, whoever else is still away."""
    world = World()
    world.see(1, 2, 3, 4, 5)
    agents = {name: world.begin(name) for name in "abcde"}
    for pod, session in enumerate(agents.values(), 1):
        world.tell(session, pod)
    world.ask(agents["a"], {1: (800, 20)})
    books = world.ledger.permits.room.node_accounts
    assert books().reserved[0].tolist() == [1000]
    for session in agents.values():
        world.service.end(session, 1.0)
    world.now_s = 1.0
    for at, name in enumerate("dbeca", 1):
        pod = "abcde".index(name) + 1
        session = world.begin(name)
        assert permits_in(world.tell(session, pod), session) == {pod: [200, 20]}
        assert books().buffer[0].tolist() == [0], "what each was permitted is what is seen, or what it says"
        world.ask(session, {pod: (400, 20)})
        assert (books().reserved <= books().total).all(), f"over-committed after {at} agents"


def test_a_sampler_that_starts_with_half_of_the_agents_gone_serves_the_others_of_what_none_may_still_give() -> None:
    """The pods of those that are away count at their maximum until no lease can last; then their room is pushed."""
    world = World(1, 2, 3, 4)
    books = world.ledger.permits.room.node_accounts
    agent = world.begin("a")
    assert permits_in(world.tell(agent, 1, 2), agent) == {1: [200, 20], 2: [200, 20]}
    assert books().buffer[0].tolist() == [2 * (800 - 200)]
    assert permits_in(world.ask(agent, {1: (300, 20)}), agent) == {1: [200, 20]}, "others may have it"
    for world.now_s in (3.0, 6.0, 9.0):
        world.say(agent, Heartbeat())
        assert not permits_in(world.service.tick(world.now_s), agent)
    world.now_s = 10.5
    assert permits_in(world.service.tick(world.now_s), agent) == {1: [300, 20]}
    assert (books().buffer[0].tolist(), books().reserved[0].tolist()) == ([0], [900])
    late = world.begin("b")
    assert permits_in(world.tell(late, 3, 4, held=False), late) == {3: [200, 20], 4: [200, 20]}


@pytest.mark.parametrize("clock_rate", [0.75, 0.99, 1.01], ids=["a-quarter-slow", "slow", "fast"])
def test_room_is_given_away_once_the_lease_is_over_by_a_fast_or_slow_agents_clock(
    world: World, clock_rate: float
) -> None:
    """The margin outlasts any clock that there is: those of machines differ by far less than a percent."""
    agent = world.begin()
    world.tell(agent, 1)
    world.ask(agent, {1: (500, 20)})
    world.now_s = 5.0
    world.say(agent, Heartbeat())
    while world.ledger.nodes.free[0, 0] == 300:
        world.listen(world.now_s + 0.1)
    assert world.now_s >= 5.0 + world.ledger.permits.settings.lease_s / clock_rate


def test_a_clock_that_goes_back_gives_nothing_away(world: World) -> None:
    """Time stands still until it has caught up."""
    agent = world.begin()
    world.tell(agent, 1)
    world.ask(agent, {1: (500, 20)})
    world.service.end(agent, 100.0)
    world.service.tick(5.0)
    world.service.tick(9.9)
    assert world.ledger.permits.now_s == 100.0
