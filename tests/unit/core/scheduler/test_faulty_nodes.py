"""Nodes on which runs keep failing are the last choice for their like: the memory, and rounds over real samplers."""

from __future__ import annotations

import copy
from collections import Counter

import pytest

from argosy_core.job.states import FailureKind, JobState, ObjectState
from argosy_core.scheduler import explain, last_choice_job_sets
from argosy_core.scheduler.memory.node_failures import FAILURE_COUNT, WINDOW_S, NodeFailures
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import Report

NODE = (0, 7)


def _failed(count: int, *, at_s: float = 0.0, apart_s: float = 1.0) -> NodeFailures:
    failures = NodeFailures()
    for row in range(count):
        failures.note([(1, 2, NODE)], at_s + row * apart_s)
    return failures


@pytest.mark.parametrize(
    ("count", "apart_s", "nodes"), [(4, 1.0, []), (5, 1.0, [NODE]), (5, 74.0, [NODE]), (9, 76.0, [])]
)
def test_node_is_last_choice_after_five_failures_within_five_minutes(
    count: int, apart_s: float, nodes: list[tuple[int, int]]
) -> None:
    """Four are too few, and five that span more than the window."""
    assert _failed(count, apart_s=apart_s).nodes(1, 2) == nodes


def test_node_is_judged_per_job_set_and_class() -> None:
    """What fails may be the jobs' fault: others are placed there as before."""
    failures = _failed(FAILURE_COUNT)
    assert not failures.nodes(1, 3)
    assert not failures.nodes(2, 2)


def test_node_is_no_last_choice_any_more_once_its_failures_are_older_than_the_window() -> None:
    """Five within five minutes are too many; when the first of the last five is older, there are only four."""
    failures = _failed(FAILURE_COUNT + 1)
    failures.expire(WINDOW_S + 0.5)
    assert failures.nodes(1, 2) == [NODE]
    failures.expire(WINDOW_S + 1.0)
    assert not failures
    failures.note([(1, 2, NODE)], WINDOW_S + 1.5)
    assert failures.nodes(1, 2) == [NODE], "the failures that are younger still count"


def test_memory_of_failures_is_bounded_and_forgets_the_oldest() -> None:
    """Whatever fails, at most 10,000 kinds and nodes are remembered, and none for longer than the window."""
    failures = _failed(FAILURE_COUNT)
    failures.note(((1, 2, (1, node)) for node in range(10_000)), 10.0)
    assert not failures.nodes(1, 2)
    assert len(failures._moments) == 10_000
    failures.expire(10.0 + WINDOW_S)
    assert not failures._moments


def test_copied_memory_changes_nothing_of_the_first() -> None:
    """A forked pool tries rounds on a copy."""
    failures = _failed(FAILURE_COUNT)
    copied = copy.deepcopy(failures)
    copied.expire(2 * WINDOW_S)
    assert failures.nodes(1, 2) == [NODE]
    assert not copied


class _Refusing:
    """A cluster where some nodes refuse every pod at once, and the others run pods for ten rounds."""

    def __init__(self, *, nodes: int, refusing: int) -> None:
        self.world = LeaderWorld(clusters={"a": nodes}, node_amounts={"cpu": 16_000, "memory": 64 << 30})
        self.refusing = {f"a-{row}" for row in range(refusing)}
        self.failed: Counter[str] = Counter()
        self._ends: dict[int, list[tuple[int, int]]] = {}

    def run(self, rounds: int, *, job_set: str = "set") -> None:
        """Submit three jobs a second."""
        for _ in range(rounds):
            world = self.world
            world.now_s += 1.0
            world.submit(3, job_set=job_set)
            plan = world.round()
            reports = []
            for handle, attempt, node in zip(
                plan.handle.tolist(), plan.attempt.tolist(), plan.node.tolist(), strict=True
            ):
                if plan.nodes[node] in self.refusing:
                    self.failed[plan.nodes[node]] += 1
                    kind = FailureKind.INFRASTRUCTURE
                    reports.append(Report(handle=handle, attempt=attempt, state=ObjectState.FAILED, failure=kind))
                else:
                    self._ends.setdefault(int(world.now_s) + 10, []).append((handle, attempt))
            for handle, attempt in self._ends.pop(int(world.now_s), []):
                reports.append(Report(handle=handle, attempt=attempt, state=ObjectState.SUCCEEDED))
            if reports:
                world.report("a", reports)
            world.tell_news()


@pytest.mark.parametrize(("nodes", "refusing"), [(8, 1), (20, 6)])
def test_nodes_that_refuse_everything_get_few_runs_and_jobs_go_elsewhere(nodes: int, refusing: int) -> None:
    """They look emptiest, yet fail about five runs each in five minutes, and no job fails for good by them."""
    cluster = _Refusing(nodes=nodes, refusing=refusing)
    cluster.run(120)
    assert cluster.failed.total() <= (FAILURE_COUNT + 2) * refusing
    states = Counter(cluster.world.job_state(handle) for handle in cluster.world.store.jobs)
    assert states[JobState.FAILED] == 0
    assert states[JobState.SUCCEEDED] >= 315


def test_last_choice_is_told_for_the_job_and_for_the_node() -> None:
    """`explain` names the nodes, the list of nodes the job sets; another job set's job has none."""
    cluster = _Refusing(nodes=4, refusing=1)
    cluster.run(40)
    world = cluster.world
    one, other = world.submit(1)[0], world.submit(1, job_set="other")[0]
    told = [explain(world.state, handle, world.now_s) for handle in (one, other)]
    assert [found.last_choice_nodes for found in told if found] == [("a/a-0",), ()]
    assert last_choice_job_sets(world.state, "a", world.now_s) == {"a-0": ("alice/set",)}
    assert last_choice_job_sets(world.state, "a", world.now_s + WINDOW_S) == {}


def test_node_of_last_choice_is_used_when_there_is_no_other() -> None:
    """A job set that fails everywhere is placed as before."""
    cluster = _Refusing(nodes=1, refusing=1)
    cluster.run(40)
    assert cluster.failed.total() > 2 * FAILURE_COUNT


def test_refused_objects_are_not_held_against_a_node() -> None:
    """No node has to do with what the API server refuses."""
    world = LeaderWorld(clusters={"a": 1}, node_amounts={"cpu": 16_000, "memory": 64 << 30})
    handles = world.submit(8)
    world.round()
    rejected = FailureKind.REJECTED
    world.report("a", [Report(handle=handle, state=ObjectState.FAILED, failure=rejected) for handle in handles])
    assert not world.state.node_failures
