"""Workloads and node sets as values."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.classes import MatchExpression
from argosy_core.resources import CPU, MEMORY, PODS, ResourceAxis
from argosy_workload.model import (
    GPU,
    GPU_MODEL_LABEL,
    JobColumns,
    NodeModel,
    NodeSet,
    Queue,
    Shape,
    build_workload,
    estimate,
    queue_name,
    uniform_nodes,
)


@pytest.mark.parametrize(
    ("text", "name"),
    [("LS", "ls"), ("Best Effort", "best-effort"), ("--A__b--", "a-b"), ("x" * 80, "x" * 63), ("7f04ca", "7f04ca")],
)
def test_queue_name_is_made_legal(text: str, name: str) -> None:
    """Traces name queues as they like; the API takes lower-case DNS labels."""
    assert queue_name(text) == name


def test_queue_name_of_nothing_is_refused() -> None:
    """A name needs a letter or digit."""
    with pytest.raises(InvalidRequest, match="cannot be made a queue name"):
        queue_name("***")


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan"), float("inf")])
def test_queue_weight_must_divide(weight: float) -> None:
    """Shares are divided by weights."""
    with pytest.raises(InvalidRequest, match="weight"):
        Queue(name="a", weight=weight)


def test_jobs_are_sorted_by_submit_and_equal_times_keep_their_order(samples: type[Any]) -> None:
    """Rows follow submit time, the first at 0."""
    workload = samples.make_workload((7, 1, 1, "b"), (5, 2, 2, "a"), (7, 3, 1, "a"))
    assert workload.client_ids == ("job-1", "job-0", "job-2")
    np.testing.assert_array_equal(workload.submit_s, [0, 2, 2])
    assert [workload.queues[i].name for i in workload.queue] == ["a", "b", "a"]
    assert len(workload.shapes) == 2
    assert workload.span_s() == 2


@pytest.mark.parametrize(
    ("submit_s", "run_s", "ids", "message"),
    [
        ([], [], [], "no jobs"),
        ([0.0], [-1.0], ["a"], "run time is negative"),
        ([np.nan], [1.0], ["a"], "submit time is not"),
        ([0.0], [1e12], ["a"], "run time is not"),
        ([0.0, 1.0], [1.0, 1.0], ["a", "a"], "'a' stands twice"),
    ],
)
def test_impossible_jobs_are_refused(submit_s: Any, run_s: Any, ids: Any, message: str) -> None:
    """No reader can let damage through."""
    shape = Shape.of({CPU: 1000})
    count = len(ids)
    columns = JobColumns(
        submit_s=np.array(submit_s), run_s=np.array(run_s), queue=["q"] * count, shape=[shape] * count, client_ids=ids
    )
    with pytest.raises(InvalidRequest, match=message):
        build_workload(columns, source="here")


def test_shape_states_its_scheduling_class() -> None:
    """GPU models are an affinity; a platform is one."""
    shape = Shape.of({MEMORY: 5, CPU: 1000, GPU: 0}, gpu_models=("T4", "A10", "T4"), platform="linux/arm64")
    made = shape.scheduling_class()
    assert made.requests == ((CPU, 1000), (MEMORY, 5))
    assert made.affinity == ((MatchExpression(GPU_MODEL_LABEL, "In", ("A10", "T4")),),)
    assert made.platforms == (("linux", "arm64"),)


def test_requests_count_one_pod_and_know_the_axis(samples: type[Any]) -> None:
    """Every shape is one pod; a resource that is not on the axis is an error."""
    workload = samples.make_workload((0, 1, 2))
    axis = ResourceAxis((CPU, MEMORY, PODS))
    np.testing.assert_array_equal(workload.requests(axis), [[2000, 2 * 2**30, 1]])
    with pytest.raises(KeyError):
        workload.requests(ResourceAxis((CPU,)))


def test_node_set_tells_where_a_shape_may_go() -> None:
    """Models are compared by their labels."""
    models = (
        NodeModel.of("t4", {CPU: 1000}, labels={GPU_MODEL_LABEL: "T4", "kubernetes.io/os": "linux"}),
        NodeModel.of("bare", {CPU: 1000}, labels={"kubernetes.io/os": "linux"}),
    )
    nodes = NodeSet(
        source="s", models=models, clusters=("a", "b"), names=("n0", "n1", "n2"),
        model=np.array([0, 1, 0], dtype=np.int32), cluster=np.array([0, 0, 1], dtype=np.int32),
    )  # fmt: skip
    assert nodes.allowed(Shape.of({CPU: 1}, gpu_models=("T4",))).tolist() == [True, False, True]
    assert nodes.allowed(Shape.of({CPU: 1}, platform="linux/")).tolist() == [True, True, True]
    assert nodes.allowed(Shape.of({CPU: 1}, platform="windows/amd64")).tolist() == [False, False, False]
    assert nodes.rows_of("a").tolist() == [0, 1]


@pytest.mark.parametrize(
    "text", ["", "4", "x2cpu", "0x2cpu", "2x", "2x4Gi", "2x-1cpu", "2x4cpu,many", "9999999999x1cpu"]
)
def test_node_text_that_is_none_is_refused(text: str) -> None:
    """The message shows the form."""
    with pytest.raises(InvalidRequest):
        uniform_nodes(text)


def test_large_nodes_take_a_pod_per_core() -> None:
    """110 pods would not fill a node of 256 cores with one-core jobs."""
    assert uniform_nodes("1x256cpu").capacity()[PODS] == 256


@pytest.mark.parametrize(("names", "message"), [((), "no nodes"), (("a", "a"), "stands twice")])
def test_impossible_node_sets_are_refused(names: Any, message: str) -> None:
    """Nodes have names of their own."""
    index = np.zeros(len(names), dtype=np.int32)
    model = NodeModel.of("m", {CPU: 1000})
    with pytest.raises(InvalidRequest, match=message):
        NodeSet(source="s", models=(model,), clusters=("c",), names=names, model=index, cluster=index)


def test_estimates_are_the_users_or_exact_or_none(samples: type[Any]) -> None:
    """Whole seconds, rounded up at the clock's speed; as time limits they end what takes longer, and a note says so."""
    jobs = replace(samples.make_workload((0, 7, 1, "a"), (1, 10, 1, "a")), estimate_s=np.array([np.nan, 4.0]))
    assert estimate(jobs, "user").estimates_s().tolist() == [-1, 4]
    assert estimate(jobs, "exact").estimates_s(speed=4).tolist() == [2, 3]
    assert estimate(jobs, "none").estimates_s().tolist() == [-1, -1]
    limited = estimate(jobs, "user", are_limits=True)
    assert limited.estimates_are_limits
    assert "1 of 2 jobs run longer than their time limit" in limited.notes[-1]
    with pytest.raises(InvalidRequest, match="no kind of estimate"):
        estimate(jobs, "guess")
