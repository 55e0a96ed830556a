"""Gangs that may grow, beside whatever else comes and goes."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from argosy_core.job.reading.classes import GangGroup, SchedulingClass
from argosy_core.job.states import JobState, ObjectState
from argosy_core.job.tables.members import attempt_of, member_of
from argosy_core.leader import instructions as say
from argosy_core.scheduler import RoundSettings
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import Report

RUNNING, SUCCEEDED, CANCELLED = ObjectState.RUNNING, ObjectState.SUCCEEDED, ObjectState.CANCELLED


class _Growing:
    """Two nodes, a gang that runs on one and would have both, and jobs of a node each that come now and then."""

    def __init__(self) -> None:
        self.world = LeaderWorld(clusters={"a": 2}, settings=RoundSettings(promised_nodes_ratio=0.0))
        pod = SchedulingClass(requests=(("cpu", 4000),))
        self.world.define_gang(2, GangGroup(pod=pod, minimum=1, maximum=2))
        self.world.define_class(3, cpu=4000)
        (self.gang,) = self.world.submit(1, class_id=2)
        self.world.round()
        self.tell(self.gang, 0, RUNNING)

    def tell(self, handle: int, member: int, *states: ObjectState) -> None:
        """Have the executor report states of a member."""
        self.world.report("a", [Report(handle=handle, member=member, state=int(state)) for state in states])

    def step(self) -> None:
        """Let ten seconds pass; what is stopped ends, what is made runs."""
        self.world.now_s += 10.0
        self.world.round()
        stopped = {(handle, ordinal) for _, handle, ordinal in self.world.sent(say.SendStops)}
        for ordinal, run in list(self.world.job(self.gang).runs.items()):
            if member_of(ordinal) and not run.ended:
                self.tell(self.gang, member_of(ordinal), CANCELLED if (self.gang, ordinal) in stopped else RUNNING)

    def shrunk_count(self) -> int:
        """Return how often an extra was taken back."""
        return sum(run.ended for run in self.world.job(self.gang).runs.values())


@settings(max_examples=4, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 6)), min_size=4, max_size=12))
def test_gang_grows_and_shrinks_ever_more_seldom(jobs: list[tuple[int, int]]) -> None:
    """Each pause is twice the last: however others come, it shrinks no more often than time allows, and all start."""
    growing = _Growing()
    world = growing.world
    began_s = world.now_s
    for pause, run_time in jobs:
        for _ in range(pause):
            growing.step()
        (job,) = world.submit(1, class_id=3)
        for _ in range(8):
            if world.job_state(job) == JobState.QUEUED:
                growing.step()
        assert world.job_state(job) == JobState.LEASED
        growing.tell(job, 0, RUNNING)
        for _ in range(run_time):
            growing.step()
        growing.tell(job, 0, SUCCEEDED)
    most = 1 + math.log2(1 + (world.now_s - began_s) / 60.0)
    assert growing.shrunk_count() <= most
    assert {attempt_of(ordinal) for ordinal in world.job(growing.gang).runs} == {1}
    assert world.job_state(growing.gang) == JobState.RUNNING
