"""A gang beside a stream of small jobs: nodes are kept for it until it starts."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from argosy_core.job.reading.classes import GangGroup, SchedulingClass
from argosy_core.job.states import JobState, ObjectState
from argosy_core.placement import WaitReason
from argosy_core.scheduler import RoundSettings, explain
from argosy_core.scheduler.backfill import gathering
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import Report


class BusyWorld:
    """Nodes of four cores full of one-core jobs, of which one ends and another comes every second.

    Args:
        settings: Of the rounds.
        pod: What each of the gang's pods needs.
        count: How many pods it has.
    """

    def __init__(self, settings: RoundSettings, *, cores: int = 4, count: int = 2, **group: bool) -> None:
        """Fill four nodes, and submit a gang."""
        self.world = LeaderWorld(clusters={"a": 4}, settings=settings)
        pod = SchedulingClass(requests=(("cpu", 1000 * cores),))
        self.world.define_gang(2, GangGroup(pod=pod, minimum=count, maximum=count, **group))
        self.small = deque(self.world.submit(16))
        self.world.round()
        (self.gang,) = self.world.submit(1, class_id=2)

    def turn(self) -> None:
        """Let a second pass."""
        world = self.world
        running = self.running()
        for state in (ObjectState.RUNNING, ObjectState.SUCCEEDED):
            world.report("a", [Report(handle=running[0], state=int(state))])
        self.small.remove(running[0])
        self.small += world.submit(1)
        world.now_s += 1.0  # what samplers are asked until now nobody answers
        world.tell_news()
        world.round()

    def running(self) -> list[int]:
        """Return the small jobs that have a node."""
        return [handle for handle in self.small if self.world.job_state(handle) == JobState.LEASED]

    def turns_until_started(self, most: int) -> int:
        """Return after how many seconds the gang has its nodes; as many as there may be if it has none by then."""
        for turn in range(most):
            if self.world.job_state(self.gang) == JobState.LEASED:
                return turn
            self.turn()
        return most


def test_gang_starts_beside_a_stream_of_small_jobs() -> None:
    """Within the time in which two nodes are drained; without nodes that are kept for it, it never does."""
    assert BusyWorld(RoundSettings(promised_nodes_ratio=0.0)).turns_until_started(30) == 30
    busy = BusyWorld(RoundSettings())
    assert busy.turns_until_started(40) < 40
    busy.world.now_s += 1.0
    busy.world.round()
    assert not busy.world.state.promises.gathered
    assert not (busy.world.state.waits.reason == WaitReason.PROMISED).any()


def test_only_as_many_nodes_are_kept_as_the_gang_needs() -> None:
    """The stream goes on beside them, and nodes of one cluster are enough."""
    busy = BusyWorld(RoundSettings(), cores=2, count=3)
    while not busy.world.state.promises.gathered:
        busy.turn()
    (gathered,) = busy.world.state.promises.gathered.values()
    assert (gathered.handle, len(gathered.nodes)) == (busy.gang, 2)
    told = explain(busy.world.state, busy.gang, busy.world.now_s)
    assert told is not None
    assert "2 nodes of a are kept for it until all its pods fit" in told.summary
    before = busy.running()
    while busy.world.job_state(busy.gang) == JobState.QUEUED:
        busy.turn()
    started = [busy.world.job(handle).runs[1].node for handle in busy.running() if handle not in before]
    assert started
    assert not set(started) & set(gathered.nodes)


def test_nodes_are_kept_for_nobody_once_the_gang_is_gone_or_held_or_has_had_them_for_an_hour() -> None:
    """What stands idle must be for somebody's good."""
    for act in ("cancel", "hold", "wait"):
        busy = BusyWorld(RoundSettings())
        for _ in range(8):
            busy.turn()
        first = busy.world.state.promises.gathered[busy.gang]
        if act == "wait":
            busy.world.now_s += 3600.0
        else:
            getattr(busy.world, act)([busy.gang])
        busy.turn()
        assert busy.world.state.promises.gathered.get(busy.gang) is not first


def test_next_leader_goes_on_with_what_was_gathered() -> None:
    """What is kept with a moment is stored with the promises."""
    busy = BusyWorld(RoundSettings())
    for _ in range(8):
        busy.turn()
    before = busy.world.state.promises.gathered[busy.gang]
    busy.world.take_over()
    (after,) = busy.world.state.promises.gathered.values()
    assert (after.handle, set(after.nodes)) == (busy.gang, set(before.nodes))
    assert busy.turns_until_started(40) < 40
    assert np.all(busy.world.clusters["a"].ledger.nodes.free >= 0)


def test_gang_that_nodes_are_kept_for_has_its_turn_before_those_that_are_kept_from_them() -> None:
    """Or one of them would take the room that is counted in every round, and all would wait beside free nodes."""
    busy = BusyWorld(RoundSettings(non_preemptible_excess_ratio=1e9), count=3)
    world = busy.world
    while busy.gang not in world.state.promises.gathered:
        busy.turn()
    urgent = world.submit(3, class_id=2, priority=1)
    ended = [Report(handle=one, state=int(ObjectState.SUCCEEDED)) for one in busy.running()]
    world.report("a", ended)
    world.cancel([one for one in busy.small if one not in busy.running()])
    world.now_s += 1.0
    world.tell_news()
    world.round()
    assert [world.job_state(one) for one in (*urgent, busy.gang)] == [JobState.QUEUED] * 3 + [JobState.LEASED]


class CrowdedWorld:
    """Twelve nodes of four cores full of one-core jobs; a gang of six whole nodes waits, and gangs of two behind it.

    What runs on the nodes that are kept for the large gang stays; elsewhere a job ends and another comes every second.

    Args:
        small_count: How many gangs of two nodes wait.
    """

    def __init__(self, small_count: int) -> None:
        """Fill the nodes, and let time pass until the large gang has nodes that are kept for it."""
        settings = RoundSettings(promise_after_s=1.0, non_preemptible_excess_ratio=1e9)
        self.world = world = LeaderWorld(clusters={"a": 12}, settings=settings)
        pod = SchedulingClass(requests=(("cpu", 4000),))
        for class_id, count in ((2, 6), (3, 2)):
            world.define_gang(class_id, GangGroup(pod=pod, minimum=count, maximum=count))
        self.singles = deque(world.submit(48))
        world.round()
        (self.large,) = world.submit(1, class_id=2)
        while self.large not in world.state.promises.gathered:
            self._pass_second()
        self.small = world.submit(small_count, class_id=3)

    def kept_for(self, handle: int) -> set[str]:
        """Return the nodes that are kept for a gang."""
        gathered = self.world.state.promises.gathered.get(handle)
        return set() if gathered is None else set(gathered.nodes)

    def turn(self) -> None:
        """Let a second pass in which a job ends on a node that is not kept for the large gang, and another comes."""
        world, large = self.world, self.kept_for(self.large)
        running = [one for one in self.singles if world.job_state(one) == JobState.LEASED]
        ended = next(one for one in running if world.place(one)[1] not in large)
        for state in (ObjectState.RUNNING, ObjectState.SUCCEEDED):
            world.report("a", [Report(handle=ended, state=int(state))])
        self.singles.remove(ended)
        self.singles += world.submit(1)
        self._pass_second()

    def _pass_second(self) -> None:
        self.world.now_s += 1.0
        self.world.tell_news()
        self.world.round()

    def small_starts_within(self, turns: int) -> bool:
        """Return whether the first small gang starts within some seconds."""
        for _ in range(turns):
            self.turn()
            if self.world.job_state(self.small[0]) == JobState.LEASED:
                return True
        return False


def test_small_gang_starts_on_other_nodes_while_a_large_one_gathers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The large one keeps its nodes meanwhile; if only one gang gathered at a time, the small one would not start."""
    crowded = CrowdedWorld(1)
    kept = crowded.kept_for(crowded.large)
    assert len(kept) == 6
    assert crowded.small_starts_within(60)
    assert crowded.kept_for(crowded.large) == kept
    runs = crowded.world.job(crowded.small[0]).runs.values()
    assert not kept & {run.node for run in runs}
    monkeypatch.setattr(gathering, "MOST_GATHERED", 1)
    assert not CrowdedWorld(1).small_starts_within(60)


def test_no_node_is_kept_for_two_gangs_and_half_of_what_the_first_leaves_stays_for_small_jobs() -> None:
    """Of twelve nodes the first has six; of the other six three may be kept, so one gang of two gathers at a time."""
    crowded, most = CrowdedWorld(6), 0
    for _ in range(40):
        crowded.turn()
        gathered = crowded.world.state.promises.gathered.values()
        names = [name for one in gathered for name in one.nodes]
        assert len(names) == len(set(names)) <= 8
        most = max(most, len(gathered))
    assert most == 2


def test_next_leader_keeps_the_nodes_of_every_gang_apart() -> None:
    """Each gang has its own, as before."""
    crowded = CrowdedWorld(1)
    while not crowded.kept_for(crowded.small[0]):
        crowded.turn()
    gangs = (crowded.large, crowded.small[0])
    before = [crowded.kept_for(gang) for gang in gangs]
    crowded.world.take_over()
    assert [crowded.kept_for(gang) for gang in gangs] == before
