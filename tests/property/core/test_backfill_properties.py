"""Promised starts against brute force, over tiny pools."""

from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy_core.backfill import (
    SMALLEST_AREA,
    BackfillPolicy,
    OrderPolicy,
    Promise,
    PromiseKind,
    Releases,
    RunningWork,
    WaitingWork,
    choose_starts,
    find_earliest,
)

_AMOUNT = st.integers(0, 4)
_POLICIES = [
    BackfillPolicy(),
    BackfillPolicy(turns=SMALLEST_AREA, passing=SMALLEST_AREA, head_choice=3),
    BackfillPolicy(passing=OrderPolicy(wait_exponent=1.0, size_exponent=-2.0), promise_count=3),
    BackfillPolicy(turns=SMALLEST_AREA, passing=SMALLEST_AREA, promise_count=2, slack_ratio=2.0),
]


@st.composite
def _tables(draw: st.DrawFn) -> tuple[np.ndarray, Releases, np.ndarray, int]:
    """Draw free amounts, releases, a demand and a count of nodes."""
    node_count, width = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    free = draw(st.lists(st.lists(st.integers(-1, 4), min_size=width, max_size=width), min_size=node_count,
                         max_size=node_count))  # fmt: skip
    pieces = draw(st.lists(st.tuples(st.integers(0, node_count - 1), st.lists(_AMOUNT, min_size=width, max_size=width),
                                     st.sampled_from([0.0, 1.0, 2.0, 3.0, np.inf])), max_size=6))  # fmt: skip
    releases = Releases(
        node=np.array([node for node, _, _ in pieces], dtype=np.int32),
        amount=np.array([amount for _, amount, _ in pieces], dtype=np.int64).reshape(len(pieces), width),
        end_s=np.array([end for _, _, end in pieces], dtype=np.float64),
    )
    demand = np.array(draw(st.lists(_AMOUNT, min_size=width, max_size=width)), dtype=np.int64)
    return np.array(free, dtype=np.int64), releases, demand, draw(st.integers(1, node_count))


@settings(max_examples=100, deadline=None)
@given(_tables())
def test_earliest_start_is_the_first_moment_at_which_enough_nodes_have_room(
    table: tuple[np.ndarray, Releases, np.ndarray, int],
) -> None:
    """No moment before it will do, and at it each node named has what is asked and the stated spare."""
    free, releases, demand, count = table
    now_s = 1.0
    expected = None
    for moment_s in (1.0, 2.0, 3.0):
        room = [(free[node] + releases.free_at(node, moment_s) >= demand).all() for node in range(len(free))]
        if sum(room) >= count:
            expected = moment_s
            break
    found = find_earliest(free, releases, demand, now_s=now_s, count=count)
    assert (found.moment_s if found is not None else None) == expected
    if found is not None:
        assert len(set(found.nodes.tolist())) == count
        for node, spare in zip(found.nodes.tolist(), found.spare, strict=True):
            assert (spare == free[node] + releases.free_at(node, found.moment_s) - demand).all()
            assert (spare >= 0).all()


@dataclass
class _World:
    """A tiny pool in virtual time, kept as plain Python lists."""

    free: list[list[int]]
    policy: BackfillPolicy
    running: list[tuple[int, list[int], float, float]] = field(default_factory=list)
    """(node, demand, end at the latest, end)."""
    waiting: dict[int, tuple[list[int], float, float, float]] = field(default_factory=dict)
    """(demand, submission, limit, run time) by job."""
    promises: tuple[Promise, ...] = ()
    promised: dict[int, float] = field(default_factory=dict)
    """The first firm promise of each job."""

    def room_at(self, node: int, moment_s: float, column: int) -> int:
        """Return what is free if all work ends at its limit and nothing else starts."""
        return self.free[node][column] + sum(work[1][column] for work in self.running if work[0] == node
                                             and work[2] <= moment_s)  # fmt: skip

    def can_keep(self, promise: Promise, extra: tuple[int, list[int], float] | None = None) -> bool:
        """Return whether a promised job has room at its moment, with one more job started now."""
        node = int(promise.nodes[0])
        for column, needed in enumerate(promise.demand.tolist()):
            room = self.room_at(node, promise.moment_s, column)
            if extra is not None and extra[0] == node and extra[2] > promise.moment_s:
                room -= extra[1][column]
            if room < needed:
                return False
        return True

    def decide(self, now_s: float) -> None:
        """End what has ended, decide, and check the decision against brute force."""
        for node, demand, _, _ in [work for work in self.running if work[3] <= now_s]:
            self.free[node] = [have + held for have, held in zip(self.free[node], demand, strict=True)]
        self.running = [work for work in self.running if work[3] > now_s]
        jobs = sorted(self.waiting)
        width = len(self.free[0])
        columns = list(zip(*(self.waiting[job] for job in jobs), strict=True)) or [(), (), (), ()]
        limits = np.array(columns[2], dtype=np.float64)
        starts = choose_starts(
            now_s,
            free=np.array(self.free, dtype=np.int64),
            running=RunningWork(
                node=np.array([work[0] for work in self.running], dtype=np.int32),
                demand=np.array([work[1] for work in self.running], dtype=np.int64).reshape(-1, width),
                firm_end_s=np.array([work[2] for work in self.running], dtype=np.float64),
                expected_end_s=np.array([work[2] for work in self.running], dtype=np.float64),
            ),
            waiting=WaitingWork(
                job=np.array(jobs, dtype=np.int64),
                demand=np.array(columns[0], dtype=np.int64).reshape(-1, width),
                size=np.array([sum(demand) for demand in columns[0]], dtype=np.float64),
                submit_s=np.array(columns[1], dtype=np.float64),
                limit_s=limits,
                estimate_s=limits,
            ),
            promises=self.promises,
            policy=self.policy,
        )
        assert not [promise for promise in starts.broken if promise.kind == PromiseKind.FIRM]
        self.promises = starts.promises
        for row, node in zip(starts.rows.tolist(), starts.nodes.tolist(), strict=True):
            demand, _, limit_s, run_s = self.waiting.pop(jobs[row])
            self.free[node] = [have - asked for have, asked in zip(self.free[node], demand, strict=True)]
            assert min(self.free[node]) >= 0
            self.running.append((node, demand, now_s + limit_s, now_s + run_s))
            assert now_s <= self.promised.get(jobs[row], np.inf)
        self.check(now_s)

    def check(self, now_s: float) -> None:
        """Every promise can be kept, and every job that waits either has no room or would break one."""
        for promise in self.promises:
            assert self.can_keep(promise)
            self.promised.setdefault(promise.job, promise.moment_s)
        mine = {promise.job for promise in self.promises}
        if self.policy.slack_ratio:
            return
        for job, (demand, _, limit_s, _) in self.waiting.items():
            for node, free in enumerate(self.free):
                if job in mine or any(have < asked for have, asked in zip(free, demand, strict=True)):
                    continue
                extra = node, demand, now_s + limit_s
                assert not all(self.can_keep(promise, extra) for promise in self.promises)


_JOBS = st.lists(
    st.tuples(
        st.integers(0, 6),
        st.tuples(st.integers(1, 4), st.integers(0, 3)),
        st.sampled_from([1.0, 2.0, 5.0, 9.0]),
        st.floats(0.1, 1.0),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=100, deadline=None)
@given(jobs=_JOBS, node_count=st.integers(1, 3), policy=st.sampled_from(_POLICIES))
def test_no_firm_promise_is_broken_and_no_job_is_held_back_for_nothing(
    jobs: list[tuple[int, tuple[int, int], float, float]], node_count: int, policy: BackfillPolicy
) -> None:
    """Whatever comes, a promised job starts no later; a job waits only for room or because it would delay one."""
    world = _World(free=[[4, 3] for _ in range(node_count)], policy=policy)
    arrivals = sorted((float(at), number, demand, limit, ratio) for number, (at, demand, limit, ratio) in
                      enumerate(jobs))  # fmt: skip
    while arrivals or world.running or world.waiting:
        now_s = min([arrival[0] for arrival in arrivals[:1]] + [work[3] for work in world.running])
        while arrivals and arrivals[0][0] <= now_s:
            at, number, demand, limit_s, ratio = arrivals.pop(0)
            world.waiting[number] = list(demand), at, limit_s, limit_s * ratio
        world.decide(now_s)
