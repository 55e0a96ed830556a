"""Gangs of queues under their shares get room from runs past their lifetimes of queues over theirs."""

from __future__ import annotations

import numpy as np
import pytest

from argosy_core.job.reading.classes import GangGroup, SchedulingClass
from argosy_core.job.reading.options import UNSET
from argosy_core.job.states import JobState, ObjectState, RunState
from argosy_core.job.tables.members import member_of
from argosy_core.leader.instructions import SendStops
from argosy_core.scheduler import RoundSettings, explain
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import Report

RUNNING, SUCCEEDED, CANCELLED = ObjectState.RUNNING, ObjectState.SUCCEEDED, ObjectState.CANCELLED
AT_ONCE = (0, UNSET, UNSET)
"""Options of a job that may be preempted at any time."""
SINGLE, LARGE, GANG, PAIR, SHARING = 1, 2, 3, 4, 5


def make_world(half_time_s: float = 1.0, **clusters: int) -> LeaderWorld:
    """Return a world of nodes of four cores, and of jobs of one core, of four cores, and of gangs."""
    settings = RoundSettings(
        half_time_s=half_time_s, promise_after_s=1.0, non_preemptible_excess_ratio=1e9, clusters_to_sample_ratio=1.0
    )
    world = LeaderWorld(clusters=clusters or {"a": 8}, queues={"alice": 1.0, "bob": 1.0}, settings=settings)
    world.define_class(LARGE, cpu=4000)
    whole, part = (SchedulingClass(requests=(("cpu", cores),)) for cores in (4000, 1000))
    world.define_gang(GANG, GangGroup(pod=whole, minimum=3, maximum=3, whole_nodes=True))
    world.define_gang(PAIR, GangGroup(pod=whole, minimum=2, maximum=2))
    world.define_gang(SHARING, GangGroup(pod=part, minimum=4, maximum=4))
    return world


def begin(world: LeaderWorld, count: int, *, queue: int = 1, **job: object) -> list[int]:
    """Submit jobs, and have them run."""
    handles = world.submit(count, queue=queue, **({"options": AT_ONCE} | job))
    world.tell_news()
    world.round()
    tell(world, handles, RUNNING)
    return handles


def tell(world: LeaderWorld, handles: list[int], state: ObjectState) -> None:
    """Have executors report the live members of the runs of jobs."""
    for handle in handles:
        for ordinal, run in sorted(world.job(handle).members().items()):
            if not run.ended:
                attempt = world.job(handle).live_attempt
                report = Report(handle=handle, attempt=attempt, member=member_of(ordinal), state=int(state))
                world.report(run.cluster, [report])


def stopped(world: LeaderWorld) -> list[int]:
    """Return the jobs whose runs were stopped, each once, in order."""
    return list(dict.fromkeys(handle for _, handle, _ in world.sent(SendStops)))


def pass_time(world: LeaderWorld, seconds: float) -> None:
    """Let time pass, with a round every second."""
    for _ in range(round(seconds)):
        world.now_s += 1.0
        world.tell_news()
        world.round()


def nodes_of(world: LeaderWorld, handle: int) -> set[str]:
    """Return the nodes of a job's newest run."""
    return {run.node for run in world.job(handle).members().values() if not run.ended}


def waits(world: LeaderWorld, class_id: int = GANG, **job: object) -> int:
    """Submit a gang of the second queue, let some seconds pass, and return it."""
    (gang,) = world.submit(1, queue=2, class_id=class_id, **job)
    pass_time(world, 4.0)
    return gang


def test_gang_is_nominated_at_once_and_starts_when_the_pods_of_its_victims_are_gone() -> None:
    """As many runs as it needs and no more, those with the least lost work; explanations say what happens."""
    world = make_world()
    old = begin(world, 5, class_id=LARGE)
    world.now_s += 50.0
    young = begin(world, 3, class_id=LARGE)
    gang = waits(world)
    assert stopped(world) == young
    assert list(world.state.room.nominated) == [gang]
    told = [explain(world.state, handle, world.now_s) for handle in (gang, young[0])]
    assert told[0] is not None
    assert told[1] is not None
    assert "runs are stopped to make room for it" in told[0].summary
    assert "3 nodes of a are kept for it until all its pods fit" in told[0].summary
    assert "preempted: makes room for a job of queue bob, which is under its share" in told[1].summary
    room = set.union(*(nodes_of(world, handle) for handle in young))
    tell(world, young, CANCELLED)
    pass_time(world, 1.0)
    assert (world.job_state(gang), nodes_of(world, gang)) == (JobState.LEASED, room)
    assert {run.state for handle in young for run in world.job(handle).runs.values()} == {RunState.PREEMPTED}
    assert all(world.job_state(handle) == JobState.RUNNING for handle in old)
    pass_time(world, 90.0)
    assert stopped(world) == young


def test_half_of_the_room_is_taken_by_nobody_else_and_nothing_more_is_stopped() -> None:
    """Small jobs wait until the gang has started, however long the last pod takes."""
    world = make_world()
    begin(world, 8, class_id=LARGE)
    gang = waits(world)
    victims = stopped(world)
    small = world.submit(4, class_id=SINGLE, options=(0, 60, UNSET))
    tell(world, victims[:2], CANCELLED)
    pass_time(world, 200.0)
    assert all(world.job_state(handle) == JobState.QUEUED for handle in (gang, *small))
    assert stopped(world) == victims
    tell(world, victims[2:], CANCELLED)
    pass_time(world, 1.0)
    assert world.job_state(gang) == JobState.LEASED


def test_victim_that_ends_by_itself_makes_room_all_the_same() -> None:
    """Its success counts, and no other run goes for it."""
    world = make_world()
    begin(world, 8, class_id=LARGE)
    gang = waits(world)
    victims = stopped(world)
    tell(world, victims[:1], SUCCEEDED)
    tell(world, victims[1:], CANCELLED)
    pass_time(world, 2.0)
    assert (world.job_state(victims[0]), world.job_state(gang)) == (JobState.SUCCEEDED, JobState.LEASED)
    assert stopped(world) == victims


@pytest.mark.parametrize("ended", [0, 1, 3])
def test_next_leader_stops_nobody_else_and_starts_the_gang(ended: int) -> None:
    """It finds the same runs ending, whether some of them are gone by then or not."""
    world = make_world()
    begin(world, 8, class_id=LARGE)
    gang = waits(world)
    victims = stopped(world)
    tell(world, victims[:ended], CANCELLED)
    world.take_over()
    pass_time(world, 20.0)
    assert stopped(world) == victims
    tell(world, victims[ended:], CANCELLED)
    pass_time(world, 8.0)
    assert world.job_state(gang) == JobState.LEASED
    assert stopped(world) == victims


def test_victims_on_a_lost_cluster_free_their_gang_for_another() -> None:
    """Nodes are not kept there any more, and runs of the other cluster make room."""
    world = make_world(a=8, b=8)
    begin(world, 16, class_id=LARGE)
    gang = waits(world)
    victims = stopped(world)
    (lost,) = {world.place(handle)[0] for handle in victims}
    (other,) = {"a", "b"} - {lost}
    world.forget(lost)
    pass_time(world, 15.0)
    more = stopped(world)[len(victims) :]
    assert {world.place(handle)[0] for handle in more} == {other}
    tell(world, more, CANCELLED)
    pass_time(world, 3.0)
    assert world.place(gang)[0] == other


def test_victims_that_are_gangs_are_stopped_whole() -> None:
    """One member's node would do for the third pod: its run ends with it, as none is below its minimum."""
    world = make_world()
    begin(world, 4, class_id=PAIR)
    gang = waits(world)
    victims = stopped(world)
    assert len(victims) == 2
    assert len(world.sent(SendStops)) == 4
    tell(world, victims, CANCELLED)
    ended = [run for handle in victims for run in world.job(handle).runs.values()]
    assert {(RunState(run.state), run.reason.split(":")[0]) for run in ended} == {(RunState.PREEMPTED, "preempted")}
    pass_time(world, 2.0)
    assert world.job_state(gang) == JobState.LEASED


def test_extras_of_gangs_are_taken_back_before_any_run_is_stopped() -> None:
    """They are enough, so that no run ends."""
    world = make_world(a=8)
    pod = SchedulingClass(requests=(("cpu", 4000),))
    world.define_gang(6, GangGroup(pod=pod, minimum=2, maximum=5))
    (elastic,) = begin(world, 1, class_id=6)
    pass_time(world, 11.0)
    assert len(nodes_of(world, elastic)) == 5
    tell(world, [elastic], RUNNING)
    singles = begin(world, 3, class_id=LARGE)
    gang = waits(world)
    extras = [member_of(ordinal) for _, _, ordinal in world.sent(SendStops)]
    assert (stopped(world), sorted(extras)) == ([elastic], [2, 3, 4])
    world.report("a", [Report(handle=elastic, member=member, state=int(CANCELLED)) for member in extras])
    pass_time(world, 2.0)
    assert world.job_state(gang) == JobState.LEASED
    assert all(world.job_state(handle) == JobState.RUNNING for handle in (elastic, *singles))


def test_gang_of_whole_nodes_leaves_nodes_alone_where_a_run_stays() -> None:
    """What is not past its lifetime stays, and what runs beside it is stopped for nothing."""
    world = make_world(a=6)
    begin(world, 23)
    (lasting,) = begin(world, 1, options=None)
    kept = nodes_of(world, lasting)
    gang = waits(world)
    victims = set(stopped(world))
    room = set.union(*(nodes_of(world, handle) for handle in victims))
    assert (len(room), len(victims)) == (3, 12)
    assert not room & kept
    tell(world, sorted(victims), CANCELLED)
    pass_time(world, 2.0)
    assert nodes_of(world, gang) == room


def test_gang_that_shares_nodes_stops_no_more_than_it_needs() -> None:
    """Four of its pods fit on a node; four small runs go, and not all that a node holds with others."""
    world = make_world(a=2)
    begin(world, 8)
    gang = waits(world, SHARING)
    victims = stopped(world)
    assert len(victims) == 4
    tell(world, victims, CANCELLED)
    pass_time(world, 2.0)
    assert world.job_state(gang) == JobState.LEASED


@pytest.mark.parametrize(
    ("own", "lifetime_s"),
    [
        pytest.param(2, 0, id="its queue would be over its share"),
        pytest.param(0, UNSET, id="nothing may be preempted"),
        pytest.param(0, 3600, id="no lifetime is over"),
    ],
)
def test_gang_waits_where_rules_let_nobody_be_stopped_for_it(own: int, lifetime_s: int) -> None:
    """Of eight nodes each queue's share is four; the gang takes three."""
    world = make_world()
    if own:
        begin(world, own, queue=2, class_id=LARGE)
    begin(world, 8 - own, class_id=LARGE, options=(lifetime_s, UNSET, UNSET))
    gang = waits(world, options=AT_ONCE)
    pass_time(world, 20.0)
    assert stopped(world) == []
    assert world.job_state(gang) == JobState.QUEUED


def test_gang_of_a_queue_that_held_more_a_moment_ago_has_nothing_stopped() -> None:
    """By what it holds now it would be under its share; its flow remembers."""
    world = make_world(half_time_s=1e6)
    early = begin(world, 5, queue=2, class_id=LARGE)
    pass_time(world, 60.0)
    tell(world, early, SUCCEEDED)
    begin(world, 8, class_id=LARGE)
    gang = waits(world)
    pass_time(world, 20.0)
    assert stopped(world) == []
    assert world.job_state(gang) == JobState.QUEUED


def test_gang_that_has_nodes_kept_has_runs_stopped_once_their_lifetimes_are_over() -> None:
    """The nodes that were kept for it before do not matter then."""
    world = make_world()
    begin(world, 8, class_id=LARGE, options=(60, UNSET, UNSET))
    gang = waits(world)
    assert gang in world.state.promises.gathered
    assert stopped(world) == []
    pass_time(world, 70.0)
    assert len(stopped(world)) == 3


def test_nodes_kept_for_a_gang_above_its_share_are_given_up_for_one_below() -> None:
    """Else who waits for all nodes would hold up everybody with a right to some; explanations say so."""
    world = make_world()
    begin(world, 8, class_id=LARGE)
    whole = SchedulingClass(requests=(("cpu", 4000),))
    world.define_gang(6, GangGroup(pod=whole, minimum=8, maximum=8))
    (large,) = world.submit(1, class_id=6)
    pass_time(world, 4.0)
    assert len(world.state.promises.gathered[large].nodes) == 8
    gang = waits(world)
    assert len(stopped(world)) == 3
    assert list(world.state.promises.gathered) == [gang]
    told = explain(world.state, large, world.now_s)
    assert told is not None
    assert "a promise to it was broken: a queue below its share got the node" in told.summary


def contend(seed: int) -> list[int]:
    """Let queues of gangs that all want more share nodes, and return how many runs were stopped in each phase."""
    rng = np.random.default_rng(seed)
    weights = {name: float(rng.integers(1, 3)) for name in ("alice", "bob", "carol")[: int(rng.integers(2, 4))]}
    settings = RoundSettings(
        half_time_s=float(rng.choice([1e-3, 3.0, 30.0])), promise_after_s=1.0, non_preemptible_excess_ratio=1e9
    )
    world = LeaderWorld(clusters={"a": 12}, queues=weights, settings=settings)
    pod = SchedulingClass(requests=(("cpu", 4000),))
    for size in (1, 2, 3):
        world.define_gang(size, GangGroup(pod=pod, minimum=size, maximum=size, whole_nodes=bool(rng.integers(2))))
    counts: list[int] = []

    def settle(turns: int) -> None:
        """Let seconds pass, in which the pods of stopped runs go and those of new ones run."""
        told = len(stopped_runs(world))
        for _ in range(turns):
            before = len(stopped_runs(world))
            pass_time(world, 1.0)
            tell(world, [h for h in world.store.open_handles if world.job_state(h) == JobState.LEASED], RUNNING)
            tell(world, list(dict.fromkeys(stopped_runs(world)[before:])), CANCELLED)
        counts.append(len(stopped_runs(world)) - told)

    for turn in range(len(weights)):
        for _ in range(10):
            world.submit(1, queue=turn + 1, class_id=int(rng.integers(1, 4)), options=AT_ONCE)
        settle(60)
    settle(60)
    return counts


def stopped_runs(world: LeaderWorld) -> list[int]:
    """Return the jobs whose runs were stopped, as often as they were."""
    return [handle for _, handle, ordinal in world.sent(SendStops) if member_of(ordinal) == 0]


@pytest.mark.parametrize("seed", [1, 2])
def test_queues_of_gangs_that_all_want_more_come_to_rest_and_evict_nobody_any_more(seed: int) -> None:
    """Whoever came later got room; then nobody evicts anybody in turn, with unlike weights, sizes and half times."""
    counts = contend(seed)
    assert sum(counts[1:-1]) > 0
    assert counts[-1] == 0
