"""A gang beside a stream of small jobs: nodes are kept for it until it starts."""

from __future__ import annotations

from collections import deque

import numpy as np

from argosy_core.job.reading.classes import GangGroup, SchedulingClass
from argosy_core.job.states import JobState, ObjectState
from argosy_core.placement import WaitReason
from argosy_core.scheduler import RoundSettings, explain
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
    assert busy.world.state.promises.gathered is None
    assert not (busy.world.state.waits.reason == WaitReason.PROMISED).any()


def test_only_as_many_nodes_are_kept_as_the_gang_needs() -> None:
    """The stream goes on beside them, and nodes of one cluster are enough."""
    busy = BusyWorld(RoundSettings(), cores=2, count=3)
    while busy.world.state.promises.gathered is None:
        busy.turn()
    gathered = busy.world.state.promises.gathered
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
        first = busy.world.state.promises.gathered
        assert first is not None
        if act == "wait":
            busy.world.now_s += 3600.0
        else:
            getattr(busy.world, act)([busy.gang])
        busy.turn()
        assert busy.world.state.promises.gathered is not first


def test_next_leader_goes_on_with_what_was_gathered() -> None:
    """What is kept with a moment is stored with the promises."""
    busy = BusyWorld(RoundSettings())
    for _ in range(8):
        busy.turn()
    before = busy.world.state.promises.gathered
    assert before is not None
    busy.world.take_over()
    after = busy.world.state.promises.gathered
    assert after is not None
    assert (after.handle, set(after.nodes)) == (busy.gang, set(before.nodes))
    assert busy.turns_until_started(40) < 40
    assert np.all(busy.world.clusters["a"].ledger.nodes.free >= 0)
