"""Nodes guessed for traces that name none."""

import numpy as np
import pytest

from argosy_local.node_files import without_impossible
from argosy_workload.guess import guess_nodes
from argosy_workload.model import GPU, JobColumns, Shape, Workload, build_workload

GIB = 1 << 30


def make(*shapes: Shape, count: int = 200, run_s: float = 100.0) -> Workload:
    """Return jobs of each shape, one a second."""
    total = count * len(shapes)
    return build_workload(
        JobColumns(
            submit_s=np.arange(total, dtype=np.float64),
            run_s=np.full(total, run_s),
            queue=["q"] * total,
            shape=list(shapes) * count,
            client_ids=[str(number) for number in range(total)],
        ),
        source="test",
    )


CPU_JOB = Shape.of({"cpu": 4000, "memory": 8 * GIB})
MODELS = [Shape.of({"cpu": 1000, GPU: 8000}, gpu_models=models) for models in (("V100", "T4"), ("T4",), ("A10",))]


@pytest.mark.parametrize(
    "shapes",
    [
        (CPU_JOB,),
        (CPU_JOB, Shape.of({"cpu": 100_000, "memory": 1})),
        (Shape.of({"memory": 3 * GIB}), Shape.of({"cpu": 500}, platform="linux/arm64")),
        (CPU_JOB, *MODELS),
    ],
    ids=["equal", "one-large", "platforms", "gpu-models"],
)
@pytest.mark.parametrize("run_s", [0.0, 100.0, 1e5])
def test_every_job_fits_the_nodes_that_are_guessed(shapes: tuple[Shape, ...], run_s: float) -> None:
    """Whatever the jobs ask for, and however short or long they are; every cluster has a node."""
    workload = make(*shapes, run_s=run_s)
    nodes = guess_nodes(workload, cluster_count=3)
    assert without_impossible(workload, nodes) is workload
    assert all(nodes.rows_of(cluster).size for cluster in nodes.clusters)


def test_guessed_nodes_are_kept_busy_and_not_flooded() -> None:
    """A hundred jobs of four cores at a time become 400 cores in nodes of 32, whatever lull was before."""
    for lull_s in (0.0, 1e6):
        workload = make(CPU_JOB, count=2000)
        workload.submit_s[1:] += lull_s
        nodes = guess_nodes(workload)
        assert nodes.capacity()["cpu"] // 1000 == pytest.approx(400, abs=32)
    assert "guessed" in nodes.notes[0]


def test_jobs_that_accept_a_common_gpu_model_share_nodes() -> None:
    """Few kinds rather than many."""
    nodes = guess_nodes(make(CPU_JOB, *MODELS))
    assert sorted(model.name for model in nodes.models) == ["A10", "T4"]
