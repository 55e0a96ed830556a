"""The permit service's sessions: who is let in, what renews a lease, what ends a session, who is told what."""

from typing import Any

import numpy as np
import pytest

from argosy_core.errors import InvalidRequest, NotAllowedNow, QuotaExceeded
from argosy_core.job.reading.permit_rules import PermitRules
from argosy_core.job.reading.scaling import Scaling
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger, PermitSettings, PodEvents, RefusalReason
from argosy_core.nodes import NodeSpec
from argosy_core.permits import (
    AgentHello,
    AgentMessage,
    Directive,
    Directives,
    Goodbye,
    Heartbeat,
    Inventory,
    Outcome,
    PermitRequest,
    Permits,
    PermitService,
    Refusals,
)

BOUNDS = Scaling(least=(100, 10), most=(800, 80))


def uids(*pods: int) -> np.ndarray:
    """Uids of pods called by small numbers."""
    raw = np.zeros((len(pods), 16), np.uint8)
    raw[:, 0] = pods
    return raw.view(np.int64)


class World:
    """A service, one node of 1000 and 100, and agents called by letters."""

    def __init__(self, *first: int, **limits: int) -> None:
        """All is listed: the first pods, which another sampler may have permitted anything."""
        self.ledger = NodeLedger(permits=PermitSettings(lease_s=6.0, margin_s=4.0, unit=(100, 10), rises_per_s=2.0))
        self.ledger.put_nodes([NodeSpec(name="n", total={"cpu": 1000, "memory": 100})])
        self.service = PermitService(self.ledger, cluster="c", cluster_uid="u", **limits)
        self.numbers = 0
        self.sequences: dict[int, int] = {}
        self.now_s = 0.0
        self.see(*first)

    def see(self, *pods: int, scaling: Scaling | None = BOUNDS) -> None:
        """Exactly these pods are there, each as large as 200 and 20."""
        count = len(pods)
        self.ledger.observe_all(
            PodEvents(
                members=Members.of([0] * count, [0] * count), uids=uids(*pods).view(np.uint8).reshape(-1, 16),
                nodes=np.zeros(count, np.int32), ended=np.zeros(count, np.bool_),
                requests=np.tile(np.array([200, 20, 1], np.int64), (count, 1)),
                scalings=dict.fromkeys(range(count), scaling) if scaling else {},
            )
        )  # fmt: skip

    def begin(self, agent: str = "a", **wrong: Any) -> int:
        """An agent dials."""
        fields: dict[str, Any] = {"cluster": "c", "cluster_uid": "u", "process_id": agent.encode() * 16, **wrong}
        welcome, _ = self.service.begin(AgentHello(**fields), self.now_s)
        self.sequences[welcome.session] = 1
        return welcome.session

    def listen(self, until_s: float) -> list[int]:
        """Time passes and the streams are read, half a second at a time; return the sessions that end."""
        ended: list[int] = []
        while self.now_s < until_s:
            self.now_s = min(self.now_s + 0.5, until_s)
            ended += self.service.tick(self.now_s).ended
        return ended

    def say(self, session: int, message: AgentMessage) -> Outcome:
        """An agent says something in turn."""
        self.sequences[session] += 1
        outcome = self.service.take([(session, self.sequences[session], message)], self.now_s)
        self.ledger.check_invariants()
        for error in outcome.broken.values():
            raise error
        return outcome

    def tell(self, session: int, *pods: int, held: bool = True) -> Outcome:
        """An agent says which pods it has."""
        self.numbers += 1
        count = len(pods)
        ceilings = np.tile(np.array([[200], [20]]), count)
        return self.say(
            session,
            Inventory(
                uids=uids(*pods),
                ceilings=ceilings,
                held=np.full(count, held),
                permitted=np.full(count, held),
                numbers=np.full(count, self.numbers),
            ),
        )

    def ask(self, session: int, wanted: dict[int, tuple[int, int]]) -> Outcome:
        """An agent says what its pods are to have."""
        self.numbers += 1
        return self.say(
            session,
            PermitRequest(
                uids=uids(*wanted), wanted=np.array(list(wanted.values())).T,
                bundle=np.zeros(len(wanted), np.bool_), numbers=np.full(len(wanted), self.numbers),
            ),
        )  # fmt: skip


@pytest.fixture
def world() -> World:
    """Two pods."""
    world = World()
    world.see(1, 2)
    return world


def permits_in(outcome: Outcome, session: int) -> dict[int, list[int]]:
    """Permits told to a session, by pod."""
    return {
        int(reply.uids.view(np.uint8).reshape(-1, 16)[at, 0]): reply.permits[:, at].tolist()
        for to, reply in outcome.replies
        if to == session and isinstance(reply, Permits)
        for at in range(len(reply.uids))
    }


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
    books = world.ledger.permits.room.node_books
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
    books = world.ledger.permits.room.node_books
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


def test_a_clock_that_goes_back_gives_nothing_away(world: World) -> None:
    """Time stands still until it has caught up."""
    agent = world.begin()
    world.tell(agent, 1)
    world.ask(agent, {1: (500, 20)})
    world.service.end(agent, 100.0)
    world.service.tick(5.0)
    world.service.tick(9.9)
    assert world.ledger.permits.now_s == 100.0


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
