"""Jobs as submissions, and the load of benchmarks."""

import itertools
import json
from typing import Any

import numpy as np
import pytest

from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.spec import SpecLimits, read_bag
from argosy_core.resources import CPU, MEMORY
from argosy_workload.load import MeshLoad, mesh_nodes
from argosy_workload.manifests import RUN_TIME_ANNOTATION, Submitter, format_run_time, pod_manifest
from argosy_workload.model import GPU, Shape
from argosy_workload.native import parse_duration_s


@pytest.mark.parametrize(
    ("run_s", "text"),
    [
        (37.5, "37.5s"),
        (0, "0.001s"),
        (12345.6, "12300s"),
        (0.12345, "0.123s"),
        (100, "100s"),
        (9.999, "10s"),
        (2e7, "20000000s"),
    ],
)
def test_run_time_has_three_digits_and_no_exponent(run_s: Any, text: str) -> None:
    """A cluster reads a plain number of seconds, and near runs share a spec."""
    assert format_run_time(run_s) == text
    assert parse_duration_s(text) == pytest.approx(max(run_s, 0.001), rel=0.005)


@pytest.mark.parametrize(
    "shape",
    [
        Shape.of({CPU: 3152, MEMORY: 5600 << 20, GPU: 810}),
        Shape.of({CPU: 1000, MEMORY: 2**30}, gpu_models=("T4", "A10"), platform="linux/amd64"),
    ],
    ids=["plain", "constrained"],
)
def test_manifest_is_read_as_the_shape_it_was_made_of(shape: Shape) -> None:
    """The server's own reading of the manifest gives the shape's scheduling class, without complaint."""
    manifest = json.dumps(pod_manifest(shape, "20s-40s", environment={"JOB": "1"})).encode()
    bag = read_bag([manifest], SpecLimits())
    assert bag.violations == ()
    assert bag.scheduling_class == shape.scheduling_class()


def test_jobs_of_one_shape_and_time_share_a_spec(samples: type[Any]) -> None:
    """Specs travel once; jobs point to them; ids carry the prefix of their replay."""
    workload = samples.make_workload((0, 37.51, 1), (1, 37.52, 1), (2, 80, 1, "b"), (3, 80, 2))
    submitter = Submitter(workload, prefix="r1-", job_set="replay-1")
    assert submitter.spec_count() == 3
    submission = submitter.submission(0, 3)
    assert (len(submission), len(submission.specs), submission.spec) == (3, 2, (0, 0, 1))
    assert submission.client_id == ("r1-job-0", "r1-job-1", "r1-job-2")
    assert (submission.queue, set(submission.job_set)) == (("a", "a", "b"), {"replay-1"})
    assert json.loads(submission.specs[0])["metadata"]["annotations"] == {RUN_TIME_ANNOTATION: "37.5s"}
    assert submitter.submission(1, 2).specs == (submission.specs[0],)
    assert Submitter(workload).submission(0, 1).job_set == ("workload",)


def test_due_jobs_come_in_order_and_once(samples: type[Any]) -> None:
    """Those whose time has come, in batches, from where the last call ended."""
    submitter = Submitter(samples.make_workload(*[(float(i), 1.0, 1) for i in range(25)]))
    early = list(submitter.due(0, 14.5, batch_size=10))
    assert [batch.rows for batch in early] == [tuple(range(10)), tuple(range(10, 15))]
    assert [batch.rows for batch in submitter.due(15, 1e9, batch_size=10)] == [tuple(range(15, 25))]
    assert list(submitter.due(25, 1e9)) == []


@pytest.mark.parametrize(("first", "last"), [(0, 0), (3, 2), (0, 1001)])
def test_request_of_no_or_too_many_jobs_is_refused(samples: type[Any], first: int, last: int) -> None:
    """A request carries 1 to 1,000 jobs."""
    with pytest.raises(InvalidRequest, match="1 to 1000"):
        Submitter(samples.make_workload((0, 1, 1))).submission(first, last)


def test_mesh_load_is_as_described() -> None:
    """100 queues, 1,000 classes, half of the specs unique, one client id a job, runs drawn by the cluster."""
    load = MeshLoad()
    batches = list(itertools.islice(load.submissions(7, prefix="run1-"), 50))
    jobs = [(b.specs[s], q, c) for b in batches for s, q, c in zip(b.spec, b.queue, b.client_id, strict=True)]
    assert len(jobs) == 5000
    assert len({client_id for _, _, client_id in jobs}) == 5000
    assert {queue for _, queue, _ in jobs} == {queue.name for queue in load.queues()}
    manifests = [json.loads(spec) for spec, _, _ in jobs]
    values = [manifest["spec"]["containers"][0]["env"][0]["value"] for manifest in manifests]
    assert sum(value != "common" for value in values) == pytest.approx(2500, abs=150)
    assert all(value in {"common", client_id} for value, (_, _, client_id) in zip(values, jobs, strict=True))
    requests = {json.dumps(m["spec"]["containers"][0]["resources"]["requests"]) for m in manifests}
    assert 980 <= len(requests) <= 1000
    assert {m["metadata"]["annotations"][RUN_TIME_ANNOTATION] for m in manifests} == {"20s-40s"}
    assert [b.rows[0] for b in batches] == list(range(0, 5000, 100))
    again = next(load.submissions(7, prefix="run1-"))
    assert again == batches[0]


def test_mesh_load_manifests_are_taken_by_the_server() -> None:
    """Both kinds of manifest, common and unique, are read as their class."""
    load = MeshLoad(class_count=3)
    classes = {shape.scheduling_class() for shape in load.shapes()}
    for spec in next(load.submissions(0)).specs:
        bag = read_bag([spec], SpecLimits())
        assert bag.violations == ()
        assert bag.scheduling_class in classes


def test_load_of_one_class_has_one_spec() -> None:
    """The smallest mix sends its spec once a call."""
    batch = next(MeshLoad(queue_count=1, class_count=1, unique_ratio=0.0).submissions(0))
    assert (len(batch.specs), set(batch.spec), set(batch.queue)) == (1, {0}, {"bench-000"})


@pytest.mark.parametrize(
    "numbers", [{"batch_size": 0}, {"batch_size": 1001}, {"queue_count": 0}, {"unique_ratio": 1.5}]
)
def test_impossible_load_is_refused(numbers: dict[str, Any]) -> None:
    """Numbers out of range are errors at once."""
    with pytest.raises(InvalidRequest):
        MeshLoad(**numbers)


def test_mesh_nodes_are_a_million_cores() -> None:
    """Ten clusters of 3,125 nodes of 32 cores."""
    nodes = mesh_nodes()
    assert len(nodes) == 31_250
    assert nodes.capacity()[CPU] == 1_000_000 * 1000
    assert np.bincount(nodes.cluster).tolist() == [3125] * 10
