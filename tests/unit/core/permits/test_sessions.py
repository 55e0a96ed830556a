"""The permit service's sessions: who is let in, what renews a lease, what ends a session, who is told what."""

import numpy as np
import pytest
from tests.unit.core.permits.agents import World, permits_in, uids

from argosy_core.errors import InvalidRequest, NotAllowedNow, QuotaExceeded
from argosy_core.job.reading.permit_rules import PermitRules
from argosy_core.job.reading.scaling import Scaling
from argosy_core.job.tables.members import Members
from argosy_core.ledger import PodEvents, RefusalReason
from argosy_core.nodes import NodeSpec
from argosy_core.permits import (
    AgentHello,
    AgentMessage,
    Directive,
    Directives,
    Goodbye,
    Heartbeat,
    PermitRequest,
    Permits,
    Refusals,
)


@pytest.fixture
def world() -> World:
    """Two pods."""
    world = World()
    world.see(1, 2)
    return world


def test_an_inventory_is_answered_with_permits_and_a_request_with_the_number_it_answers(world: World) -> None:
    """What comes back names the pod, what is answered, the permit, what is deferred and the unit."""
    agent = world.begin()
    assert permits_in(world.tell(agent, 1, 2), agent) == {1: [200, 20], 2: [200, 20]}
    ((to, reply),) = world.ask(agent, {1: (800, 30), 2: (800, 20)}).replies
    assert isinstance(reply, Permits)
    assert to == agent
    assert reply.numbers.tolist() == [2, 2]
    assert (reply.permits + reply.deferred).T.tolist() == [[800, 30], [800, 20]]
    assert reply.permits[0].sum() == 1000
    assert reply.units.T.tolist() == [[100, 10], [100, 10]]


def test_an_agent_of_another_cluster_is_refused(world: World) -> None:
    """Name and uid must be the sampler's, and the process id must be one."""
    for wrong in ({"cluster": "d"}, {"cluster_uid": "v"}, {"process_id": b"short"}):
        with pytest.raises(InvalidRequest):
            world.begin(**wrong)


def test_no_agent_is_let_in_before_the_pods_were_listed() -> None:
    """It would be told that its pods are unknown."""
    world = World()
    world.ledger.permits.has_listed = False
    with pytest.raises(NotAllowedNow, match="not yet listed"):
        world.begin()


def test_there_are_no_more_sessions_than_are_served() -> None:
    """The one that is too many is told so."""
    world = World(max_session_count=1)
    world.begin("a")
    with pytest.raises(QuotaExceeded):
        world.begin("b")


def test_a_new_stream_of_the_same_process_replaces_the_one_before(world: World) -> None:
    """What it held it holds again with its first word; the old stream is over."""
    first = world.begin()
    world.tell(first, 1)
    world.ask(first, {1: (500, 20)})
    welcome, replaced = world.service.begin(AgentHello(cluster="c", cluster_uid="u", process_id=b"a" * 16), world.now_s)
    assert replaced == [first]
    assert world.service.confirmed(first) == 0
    world.sequences[welcome.session] = 1
    assert permits_in(world.tell(welcome.session, 1), welcome.session) == {1: [200, 20]}


def test_whatever_an_agent_says_renews_its_leases_and_silence_ends_them(world: World) -> None:
    """A session that is silent for a lease is over; its pods stay booked for the margin."""
    agent = world.begin()
    world.tell(agent, 1)
    world.ask(agent, {1: (500, 20)})
    world.now_s = 5.0
    world.say(agent, Heartbeat())
    assert world.listen(11.0) == []
    assert world.listen(11.1) == [agent]
    free = world.ledger.nodes.free
    assert free[0, 0] == 300
    assert world.listen(14.9) == []
    assert free[0, 0] == 300
    world.service.tick(15.0)
    assert free[0, 0] == 600


def test_a_stream_that_breaks_leaves_its_pods_booked(world: World) -> None:
    """Its agent may still act on its permits; another agent is refused until then and told when to ask."""
    agent = world.begin()
    world.tell(agent, 1)
    world.ask(agent, {1: (500, 20)})
    world.now_s = 1.0
    world.service.end(agent, world.now_s)
    assert world.ledger.nodes.free[0, 0] == 300
    ((_, reply),) = world.tell(world.begin("b"), 1, held=False).replies
    assert isinstance(reply, Refusals)
    assert reply.reasons.tolist() == [RefusalReason.HELD_BY_ANOTHER]
    assert reply.retry_after_s.tolist() == [9.0]


def test_a_goodbye_ends_the_session_and_gives_all_back(world: World) -> None:
    """Whoever comes next may have the pods as soon as all that was done is seen."""
    agent = world.begin()
    world.tell(agent, 1)
    world.ask(agent, {1: (500, 20)})
    assert world.say(agent, Goodbye()).ended == [agent]
    world.service.tick(4.0)
    assert world.ledger.nodes.free[0, 0] == 600
    world.now_s = 4.0
    other = world.begin("b")
    assert permits_in(world.tell(other, 1, held=False), other) == {1: [200, 20]}


@pytest.mark.parametrize("sequence", [0, 1, 2, 3, 5, -1])
def test_a_message_out_of_turn_ends_the_session_and_changes_nothing(world: World, sequence: int) -> None:
    """One that comes twice or late would give back what was permitted since."""
    agent = world.begin()
    world.tell(agent, 1)
    world.ask(agent, {1: (300, 20)})
    outcome = world.service.take([(agent, sequence, Goodbye())], 0.0)
    assert "came after message 3" in str(outcome.broken[agent])
    assert world.ledger.nodes.free[0, 0] == 500


def test_a_message_that_names_a_pod_twice_or_too_many_is_refused() -> None:
    """Neither can come from an agent that keeps the protocol."""
    world = World(max_pod_count=2)
    world.see(1, 2, 3)
    agent = world.begin()
    with pytest.raises(InvalidRequest, match="twice"):
        world.tell(agent, 1, 1)
    agent = world.begin()
    with pytest.raises(InvalidRequest, match="at most 2"):
        world.tell(agent, 1, 2, 3)


def test_what_one_agent_gives_back_is_pushed_to_another_that_waits(world: World) -> None:
    """Deferred demand is granted as soon as there is room, whoever made it."""
    first, second = world.begin("a"), world.begin("b")
    world.tell(first, 1)
    world.tell(second, 2)
    world.ask(first, {1: (800, 20)})
    world.ask(second, {2: (300, 20)})
    outcome = world.ask(first, {1: (700, 20)})
    assert permits_in(outcome, first) == {1: [700, 20]}
    assert permits_in(outcome, second) == {2: [300, 20]}


def test_what_agents_say_at_once_is_shared_out_once_and_one_that_breaks_the_protocol_harms_no_other() -> None:
    """Two agents that ask together get equal shares, whoever is read first."""
    world = World()
    world.see(1, 2)
    first, second, third = (world.begin(agent) for agent in "abc")
    world.tell(first, 1)
    world.tell(second, 2)

    def request(pod: int, *, number: int) -> PermitRequest:
        return PermitRequest(
            uids=uids(pod), wanted=np.array([[800], [20]]), bundle=np.zeros(1, np.bool_), numbers=np.array([number])
        )

    said: list[tuple[int, int, AgentMessage]] = [
        (first, 3, request(1, number=9)),
        (third, 9, Heartbeat()),
        (second, 3, request(2, number=9)),
    ]
    outcome = world.service.take(said, 0.0)
    assert list(outcome.broken) == [third]
    assert permits_in(outcome, first) == {1: [500, 20]}
    assert permits_in(outcome, second) == {2: [500, 20]}
    said = [(first, 4, request(1, number=10)), (first, 5, request(1, number=10))]
    outcome = world.service.take(said, 0.0)
    assert "does not rise" in str(outcome.broken[first])
    assert world.service.confirmed(second) == 3


def test_room_that_comes_by_itself_is_pushed_with_the_next_tick(world: World) -> None:
    """A node that grew, a pod that ended: nobody has to ask again."""
    agent = world.begin()
    world.tell(agent, 1, 2)
    world.ask(agent, {1: (800, 20), 2: (800, 20)})
    assert world.service.tick(0.1).replies == []
    world.see(1)
    assert permits_in(world.service.tick(0.2), agent) == {1: [800, 20]}


def test_agents_are_told_of_drained_nodes_moves_and_pods_that_are_not_scaled_any_more(world: World) -> None:
    """Each is told once, and of its end."""
    agent = world.begin()
    world.tell(agent, 1, 2)

    def told() -> list[tuple[int, list[int]]]:
        outcome = world.service.tick(0.1)
        return [
            (len(reply.uids), reply.directives.tolist())
            for _, reply in outcome.replies
            if isinstance(reply, Directives)
        ]

    world.ledger.set_cordons(["n"])
    assert told() == [(2, [Directive.DRAIN] * 2)]
    assert told() == []
    world.ledger.set_cordons([])
    assert told() == [(2, [Directive.RESUME] * 2)]
    row = world.ledger.permits.pods.rows(uids(1))
    world.ledger.permits.move(row, is_moving=True)
    assert told() == [(1, [Directive.MIGRATE])]
    world.ledger.permits.move(row, is_moving=False)
    assert told() == [(1, [Directive.RESUME])]
    world.see(1, 2, scaling=None)
    assert told() == [(1, [Directive.STOP])] * 2


def test_an_agent_that_asks_too_often_for_one_pod_is_told_so(world: World) -> None:
    """Ten seconds' worth at once, then by the rate; telling of less is never too often, nor are other pods."""
    agent = world.begin()
    world.tell(agent, 1, 2)
    for _ in range(10):
        world.ask(agent, {1: (300, 20)})
        world.ask(agent, {1: (200, 20)})
        world.ask(agent, {1: (300, 20)})
        world.ask(agent, {1: (200, 20)})
    ((_, reply),) = world.ask(agent, {1: (300, 20)}).replies
    assert isinstance(reply, Refusals)
    assert reply.reasons.tolist() == [RefusalReason.TOO_OFTEN]
    assert permits_in(world.ask(agent, {2: (300, 20)}), agent) == {2: [300, 20]}
    world.now_s = 0.5
    assert permits_in(world.ask(agent, {1: (300, 20)}), agent) == {1: [300, 20]}


def test_leases_and_rates_that_change_count_from_the_next_session_and_request_on(world: World) -> None:
    """Who was told six seconds may act that long; a lease is never longer, nor a margin shorter, than configured."""
    old = world.begin("a")
    world.tell(old, 1)
    world.ledger.take_rules(PermitRules(lease_s=2.0, margin_s=1.0, rises_per_s=0.5))
    welcome, _ = world.service.begin(AgentHello(cluster="c", cluster_uid="u", process_id=b"b" * 16), 0.0)
    assert (welcome.lease_s, welcome.heartbeat_s) == (2.0, 2.0 / 3)
    world.sequences[welcome.session] = 1
    world.tell(welcome.session, 2)
    assert world.listen(3.0) == [welcome.session]
    assert world.listen(5.9) == []
    pods = world.ledger.permits.pods
    assert pods.floor_until_s[pods.rows(uids(2))].tolist() == [2.0 + 4.0]
    assert world.listen(6.1) == [old]
    assert pods.floor_until_s[pods.rows(uids(1))].tolist() == [6.0 + 4.0]
    world.ledger.take_rules(PermitRules(lease_s=60.0, margin_s=8.0))
    assert (world.ledger.permits.settings.lease_s, world.ledger.permits.settings.margin_s) == (6.0, 8.0)


def test_room_that_is_short_is_shared_by_the_weights_that_leaders_tell(world: World) -> None:
    """Three queues of weights 1:2:4 want all of a node: each has its weighted share, within a unit."""
    pods = (3, 4, 5)
    count, total = len(pods), 1500
    world.ledger.put_nodes([NodeSpec(name="n", total={"cpu": total, "memory": 1000})])
    world.see()
    bounds = [Scaling(least=(100, 10), most=(1500, 100), queue=queue) for queue in ("one", "two", "four")]
    world.ledger.observe(
        PodEvents(
            members=Members.of([0] * count, [0] * count), uids=uids(*pods).view(np.uint8).reshape(-1, 16),
            nodes=np.zeros(count, np.int32), ended=np.zeros(count, np.bool_),
            requests=np.tile(np.array([100, 10, 1], np.int64), (count, 1)), scalings=dict(enumerate(bounds)),
        )
    )  # fmt: skip
    world.ledger.permits.queues.tell({"one": 1.0, "two": 2.0, "four": 9.0}, pool=0)
    world.ledger.permits.queues.tell({"four": 4.0})
    sessions = [world.begin(name) for name in "abc"]
    for session, pod in zip(sessions, pods, strict=True):
        world.tell(session, pod)
    messages = []
    for session, pod in zip(sessions, pods, strict=True):
        world.sequences[session] += 1
        request = PermitRequest(
            uids=uids(pod), wanted=np.array([[1500], [10]]), bundle=np.zeros(1, np.bool_), numbers=np.full(1, 99)
        )
        messages.append((session, world.sequences[session], request))
    world.service.take(messages, world.now_s)
    grown = world.ledger.permits.pods.permit[0, world.ledger.permits.pods.rows(uids(*pods))] - 100
    assert grown.sum() == total - 300
    weights = np.array([1, 2, 4])
    assert np.abs(grown - weights * (total - 300) / weights.sum()).max() <= 100
