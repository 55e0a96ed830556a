"""Speed of a replay, and the first-come-first-served baseline it is found with."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from argosy_core.errors import InvalidRequest
from argosy_workload.fcfs import simulate_fcfs
from argosy_workload.model import GPU, JobColumns, NodeModel, NodeSet, Shape, Workload, build_workload, uniform_nodes
from argosy_workload.records import RunState
from argosy_workload.report import build_report
from argosy_workload.timing import (
    TURNAROUND_S,
    cap_run_times,
    plan_demo,
    plan_replay,
    plan_speed,
    plan_within,
    scale_arrivals,
    speed_to_finish,
)


def test_arrivals_are_scaled_and_runs_are_not(samples: type[Any]) -> None:
    """Twice as dense: half the gaps, the same run times, and a note."""
    scaled = scale_arrivals(samples.make_workload((0, 5, 1), (10, 7, 1)), 0.5)
    np.testing.assert_array_equal(scaled.submit_s, [0, 5])
    np.testing.assert_array_equal(scaled.run_s, [5, 7])
    assert "2 times closer" in scaled.notes[-1]


def test_long_runs_are_ended_and_counted(samples: type[Any]) -> None:
    """The note says how many jobs and how much of the work."""
    capped = cap_run_times(samples.make_workload((0, 10, 1), (1, 90, 1)), 40)
    np.testing.assert_array_equal(capped.run_s, [10, 40])
    assert "1 of 2 jobs" in capped.notes[-1]
    assert "50% of all run time" in capped.notes[-1]


def test_nothing_to_change_adds_no_note(samples: type[Any]) -> None:
    """Notes tell only of what was done."""
    workload = samples.make_workload((0, 10, 1), (1, 20, 1))
    for same in (scale_arrivals(workload, 1), cap_run_times(workload, 20)):
        assert same is workload


@pytest.mark.parametrize("change", [scale_arrivals, cap_run_times])
def test_numbers_that_are_none_are_refused(samples: type[Any], change: Callable[[Workload, float], Workload]) -> None:
    """A negative time or factor is an error."""
    for number in (-1.0, float("nan")):
        with pytest.raises(InvalidRequest):
            change(samples.make_workload((0, 10, 1)), number)


def test_plan_ends_every_job_within_the_time(samples: type[Any]) -> None:
    """No job that need not wait ends later than asked, and the cap touches no more than its share."""
    rng = np.random.default_rng(0)
    jobs = [(float(s), float(r), 1) for s, r in zip(rng.uniform(0, 1e6, 500), rng.lognormal(5, 2, 500), strict=True)]
    plan = plan_within(samples.make_workload(*jobs), within_s=150)
    ends_s = (plan.workload.submit_s + plan.workload.run_s) / plan.speed
    assert ends_s.max() == pytest.approx(plan.expected_s)
    assert plan.expected_s <= 150
    assert plan.workload.span_s() / plan.speed == pytest.approx(45)
    notes = " ".join(plan.workload.notes)
    assert "25 of 500 jobs ran longer" in notes
    assert "closer together" in notes
    assert f"Speed {plan.speed:.4g}" in notes


def test_plan_leaves_a_short_trace_as_it_is(samples: type[Any]) -> None:
    """What fits needs no change but the speed."""
    workload = samples.make_workload((0, 100, 1), (10, 90, 1))
    plan = plan_within(workload, within_s=150)
    np.testing.assert_array_equal(plan.workload.run_s, workload.run_s)
    np.testing.assert_array_equal(plan.workload.submit_s, workload.submit_s)
    assert plan.expected_s == pytest.approx(150 * 0.97)


def test_plan_of_a_dense_trace_changes_nothing_but_the_speed(samples: type[Any]) -> None:
    """Where jobs wait for machines, moving them closer together would only make them wait; the queue sets the speed."""
    workload = samples.make_workload(*[(i * 50.0, 100.0 + i % 7, 4) for i in range(100)])
    nodes = samples.make_nodes()
    plan = plan_within(workload, within_s=1000, nodes=nodes)
    np.testing.assert_array_equal(plan.workload.submit_s, workload.submit_s)
    np.testing.assert_array_equal(plan.workload.run_s, workload.run_s)
    own_s = len(workload) * TURNAROUND_S
    assert plan.speed == pytest.approx(workload.run_s.sum() / (plan.expected_s - own_s), rel=0.03)
    assert plan.expected_s <= 1000


def test_plan_says_when_no_speed_is_high_enough(samples: type[Any]) -> None:
    """A hundred jobs one after the other cost the mesh its turnaround each, so that they take twice that."""
    workload = samples.make_workload(*[(i * 50.0, 100.0, 4) for i in range(100)])
    plan = plan_within(workload, within_s=10, nodes=samples.make_nodes())
    own_s = len(workload) * TURNAROUND_S
    assert plan.expected_s == pytest.approx(2 * own_s)
    assert plan.speed == pytest.approx(workload.run_s.sum() / own_s, rel=0.03)
    assert any("Not to be done within" in note for note in plan.workload.notes)


@pytest.mark.parametrize("speed", [0.0, -1.0, float("nan"), float("inf")])
def test_speed_must_be_positive(samples: type[Any], speed: float) -> None:
    """A speed is trace seconds per real second."""
    with pytest.raises(InvalidRequest, match="speed"):
        plan_speed(samples.make_workload((0, 1, 1)), speed)


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_demo_wants_more_than_there_is_and_can_end_in_time(seed: int) -> None:
    """Every queue's jobs are there, work waits for room most of the time, and first come first served ends near it."""
    plan, nodes = plan_demo(seed=seed)
    report = build_report(simulate_fcfs(plan.workload, nodes), nodes, title="demo")
    assert (len(nodes), nodes.capacity()["cpu"], {queue.name for queue in plan.workload.queues}) == (
        48,
        384_000,
        {"spare", "research", "service", "flood", "training"},
    )
    members = np.array([shape.member_count for shape in plan.workload.shapes])[plan.workload.shape]
    training = plan.workload.queue == [queue.name for queue in plan.workload.queues].index("training")
    assert set(members[training].tolist()) == {1, 2, 4}
    assert set(members[~training].tolist()) == {1}
    assert plan.expected_s <= 95
    assert report.fairness.contended_ratio > 0.5
    assert report.fairness.largest_deviation_ratio > 0.1
    assert (plan.workload.estimate_s >= plan.workload.run_s).all()


def test_demo_of_a_part_has_fewer_jobs_and_all_nodes() -> None:
    """A fortieth of the work, for a quick look; times shrink with the whole time."""
    whole, _nodes = plan_demo(within_s=6)
    plan, nodes = plan_demo(job_scale=0.025, within_s=6)
    assert 4 <= len(plan.workload) < len(whole.workload) / 30
    assert len(nodes) == 48
    assert plan.expected_s <= 6


@pytest.mark.parametrize(("scale", "within_s"), [(0, 90), (1.5, 90), (1, 0), (1, float("nan"))])
def test_demo_out_of_range_is_refused(scale: float, within_s: float) -> None:
    """Commands check it too; the function does not rely on them."""
    with pytest.raises(InvalidRequest, match="cannot be made"):
        plan_demo(job_scale=scale, within_s=within_s)


def test_speed_to_finish_counts_waiting(samples: type[Any]) -> None:
    """Two jobs of the whole machine take twice as long as one, and the mesh's turnaround is added to each."""
    workload = samples.make_workload((0, 100, 4), (0, 100, 4))
    speed, expected_s = speed_to_finish(workload, samples.make_nodes(), within_s=20)
    assert speed == pytest.approx(10, rel=0.03)
    assert expected_s == pytest.approx(20)


def test_fcfs_lets_nobody_pass(samples: type[Any]) -> None:
    """The third job would fit beside the first, but waits for the second, which waits for the machine."""
    workload = samples.make_workload((0, 100, 3), (1, 10, 4), (2, 10, 1))
    records = simulate_fcfs(workload, samples.make_nodes())
    np.testing.assert_array_equal(records.running_s, [0, 100, 110])
    np.testing.assert_array_equal(records.finished_s, [100, 110, 120])
    assert (records.state == RunState.SUCCEEDED).all()


def test_fcfs_never_overcommits_a_node(samples: type[Any]) -> None:
    """At every start the jobs on a node fit it, and the head starts as soon as it can."""
    rng = np.random.default_rng(2)
    jobs = [(float(s), float(r), int(c)) for s, r, c in zip(
        rng.uniform(0, 100, 200), rng.uniform(1, 50, 200), rng.integers(1, 5, 200), strict=True)]  # fmt: skip
    workload = samples.make_workload(*jobs)
    records = simulate_fcfs(workload, samples.make_nodes("1x4cpu,16Gi"))
    cores = np.array([workload.shapes[i].amount("cpu") for i in workload.shape])
    for row in range(200):
        at = records.running_s[row]
        used = cores[(records.running_s <= at) & (records.finished_s > at)].sum()
        assert used <= 4000
    assert (np.diff(records.running_s) >= 0).all()
    assert (records.running_s >= records.submit_s).all()


def test_fcfs_takes_the_node_with_least_room_left(samples: type[Any]) -> None:
    """Best fit keeps the large node free for the large job."""
    models = (
        NodeModel.of("large", {"cpu": 8000, "memory": 2**35}),
        NodeModel.of("small", {"cpu": 2000, "memory": 2**33}),
    )
    nodes = NodeSet(
        source="s", models=models, clusters=("c",), names=("n0", "n1"),
        model=np.array([0, 1], dtype=np.int32), cluster=np.zeros(2, dtype=np.int32),
    )  # fmt: skip
    records = simulate_fcfs(samples.make_workload((0, 100, 2), (1, 10, 8)), nodes)
    np.testing.assert_array_equal(records.running_s, [0, 1])


def test_fcfs_fails_what_fits_no_empty_node_and_goes_on(samples: type[Any]) -> None:
    """Impossible jobs stop nobody, and a note counts them."""
    records = simulate_fcfs(samples.make_workload((0, 10, 64), (1, 10, 1)), samples.make_nodes())
    assert records.state.tolist() == [RunState.FAILED, RunState.SUCCEEDED]
    assert np.isnan(records.running_s[0])
    assert "1 jobs do not fit, even while all nodes are empty" in records.notes[-1]


def test_fcfs_begins_all_pods_of_a_gang_at_once_in_one_cluster(samples: type[Any]) -> None:
    """Two nodes of two clusters are free, but not two of one; the third job waits behind the gang."""
    workload = samples.make_workload((0, 10, 4), (0, 20, 4), (1, 5, 4), (2, 5, 1))
    gang = replace(workload.shapes[0], member_count=2)
    workload = replace(
        workload, shapes=(workload.shapes[0], workload.shapes[1], gang), shape=np.array([0, 0, 2, 1], dtype=np.int32)
    )
    records = simulate_fcfs(workload, uniform_nodes("4x4cpu,16Gi", cluster_count=2))
    np.testing.assert_array_equal(records.running_s, [0, 0, 10, 10])


def test_fcfs_refuses_resources_that_no_node_has(samples: type[Any]) -> None:
    """A GPU trace on nodes without GPUs is a mistake of the caller."""
    columns = JobColumns(
        submit_s=np.zeros(1), run_s=np.ones(1), queue=["q"], shape=[Shape.of({GPU: 1000})], client_ids=["a"]
    )
    with pytest.raises(InvalidRequest, match=r"nvidia\.com/gpu-milli, which no node has"):
        simulate_fcfs(build_workload(columns, source="s"), samples.make_nodes())


def test_replay_of_unsaid_speed_is_true_to_the_trace_only_if_that_ends_soon(samples: type[Any]) -> None:
    """Minutes are replayed as they were, months within minutes; what is asked for is what is done."""
    nodes = samples.make_nodes()
    soon = samples.make_workload((0, 10, 1), (100, 50, 1))
    late = samples.make_workload((0, 10, 1), (1_000_000, 50, 1))
    assert plan_replay(soon, nodes).speed == 1
    assert plan_replay(late, nodes).expected_s <= 150
    assert plan_replay(late, nodes, speed=2).speed == 2
    assert plan_replay(soon, nodes, within_s=20).expected_s <= 20
