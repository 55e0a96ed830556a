"""Profiles and the workloads drawn from them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from argosy_core.errors import InvalidRequest, NotFound
from argosy_core.resources import CPU
from argosy_workload.clusterdata import read_openb_nodes, read_openb_pods
from argosy_workload.generator import generate
from argosy_workload.model import JobColumns, Shape, Workload, build_workload
from argosy_workload.profile import (
    LEVELS,
    bundled_profiles,
    compute_profile,
    format_profile,
    load_profile,
    parse_profile,
)
from argosy_workload.traces import read_trace


def make_two_shapes(count: int = 400) -> Workload:
    """Return jobs of two frequent shapes and one rare one, with known times."""
    rng = np.random.default_rng(1)
    run_s = np.concatenate([rng.uniform(10, 20, count), rng.uniform(1000, 2000, count), [7.0, 9.0]])
    submit_s = np.concatenate([np.arange(count) * 10.0, np.arange(count) * 10.0 + 5, [1.0, 2.0]])
    shapes = [Shape.of({CPU: cores * 1000}) for cores in (1, 2, 3)]
    return build_workload(
        JobColumns(
            submit_s=submit_s,
            run_s=run_s,
            queue=["a"] * count + ["b"] * (count - 5) + ["a"] * 5 + ["b", "b"],
            shape=[shapes[0]] * count + [shapes[1]] * count + [shapes[2]] * 2,
            client_ids=[f"j{i}" for i in range(2 * count + 2)],
            weights={"b": 3.0},
        ),
        source="two shapes",
    )


def test_profile_keeps_counts_and_draws_follow_the_quantiles(samples: type[Any]) -> None:
    """As many jobs per shape and queue, and nodes per model and cluster; times as the quantiles say."""
    workload, nodes = make_two_shapes(), samples.make_nodes("5x4cpu,16Gi")
    profile = compute_profile(workload, nodes)
    drawn, machines = generate(profile, 3)
    assert (len(drawn), len(machines)) == (802, 5)
    for index, shape in enumerate(workload.shapes):
        mine = drawn.shape == drawn.shapes.index(shape)
        theirs = workload.shape == index
        for queue in ("a", "b"):
            q, p = [w.queues.index(next(e for e in w.queues if e.name == queue)) for w in (workload, drawn)]
            assert (mine & (drawn.queue == p)).sum() == (theirs & (workload.queue == q)).sum()
        if theirs.sum() > 100:
            np.testing.assert_allclose(np.median(drawn.run_s[mine]), np.median(workload.run_s[theirs]), rtol=0.03)
            np.testing.assert_allclose(drawn.run_s[mine].sum(), workload.run_s[theirs].sum(), rtol=0.05)
            np.testing.assert_allclose(np.ptp(drawn.submit_s[mine]), np.ptp(workload.submit_s[theirs]), rtol=0.01)
    assert {queue.name: queue.weight for queue in drawn.queues} == {"a": 1.0, "b": 3.0}
    assert machines.capacity() == nodes.capacity()


def test_profile_hides_shapes_with_few_jobs(samples: type[Any]) -> None:
    """Shapes with fewer than ten jobs share a distribution, so no single job's times can be read."""
    profile = compute_profile(make_two_shapes(), samples.make_nodes())
    assert [entry.distribution for entry in profile.shapes] == [0, 2, 1]
    assert len(profile.distributions) == 3


def test_profile_cuts_holes_and_says_so(samples: type[Any]) -> None:
    """A month without arrivals is a hole in the log, not load."""
    workload = samples.make_workload((0, 1, 1), (10, 1, 1), (2_600_000, 1, 1))
    profile = compute_profile(workload, samples.make_nodes())
    assert profile.span_s == 3610
    assert any("2596390 s in all" in note for note in profile.notes)


def test_same_seed_draws_the_same_and_another_seed_other_jobs(samples: type[Any]) -> None:
    """All chance comes from the seed."""
    profile = compute_profile(make_two_shapes(), samples.make_nodes())
    first, again, other = (generate(profile, seed)[0] for seed in (5, 5, 6))
    np.testing.assert_array_equal(first.submit_s, again.submit_s)
    np.testing.assert_array_equal(first.run_s, again.run_s)
    assert not np.array_equal(first.run_s, other.run_s)


def test_scale_multiplies_jobs_and_nodes_exactly(samples: type[Any]) -> None:
    """Totals are the scaled totals; nothing gets lost in rounding; the load per time doubles."""
    profile = compute_profile(make_two_shapes(), samples.make_nodes("5x4cpu,16Gi"))
    drawn, nodes = generate(profile, 0, job_scale=2.5, node_scale=0.4)
    assert (len(drawn), len(nodes)) == (2005, 2)
    assert drawn.span_s() <= profile.span_s * 1.000001
    for scale in (0.0, -1.0, 1e-9, float("nan"), 1e9):
        with pytest.raises(InvalidRequest, match="scale"):
            generate(profile, 0, job_scale=scale)


def test_profile_document_reads_back(samples: type[Any], tmp_path: Path) -> None:
    """Writing, reading and writing gives the same bytes; it can stand in a packed file."""
    text = format_profile(compute_profile(make_two_shapes(), samples.make_nodes()))
    assert format_profile(parse_profile(text)) == text
    path = samples.write(tmp_path, text, packed=True)
    assert len(read_trace(path, seed=1).workload) == 802


def test_trace_and_its_nodes_make_a_profile(samples: type[Any], tmp_path: Path) -> None:
    """Constraints of shapes and labels of nodes are kept."""
    pods = read_openb_pods(samples.write(tmp_path, samples.pods, "pods"))
    profile = compute_profile(pods, read_openb_nodes(samples.write(tmp_path, samples.nodes, "nodes")), source="here")
    again = parse_profile(format_profile(profile))
    assert {entry.shape for entry in again.shapes} == set(pods.shapes)
    assert (again.source, again.job_count(), again.node_count()) == ("here", 3, 3)
    assert [node.model for node in again.nodes] == [node.model for node in profile.nodes]


def _change(**fields: object) -> Callable[[dict[str, Any]], None]:
    return lambda document: document.update(fields)


BAD = {
    "version": (_change(version="argosy.dev/workload-profile/v9"), "cannot be read"),
    "unknown": (_change(extra=1), "unknown field `extra`"),
    "job-count": (_change(job_count=7), "7 stated, but the counts add up to 802"),
    "node-count": (_change(node_count=7), "7 stated"),
    "levels": (_change(levels=[0.0, 0.5]), "levels must ascend from 0 to 1"),
    "type": (_change(span_s="long"), r"Expected `float`, got `str` - at `\$.span_s`"),
    "negative-span": (_change(span_s=-1.0), "negative"),
    "quantiles": (lambda d: d["distributions"][0]["life_time_s"].reverse(), r"distributions\[0\].life_time_s"),
    "missing-quantile": (lambda d: d["distributions"][0]["inter_arrival_s"].pop(), r"distributions\[0\].inter"),
    "distribution": (lambda d: d["shapes"][1].update(distribution=99), r"shapes\[1\].distribution"),
    "queue": (lambda d: d["shapes"][1]["counts"].update(other=0), "no queue 'other'"),
    "negative": (lambda d: d["shapes"][1]["counts"].update(b=-1), "count is not between"),
    "quantity": (lambda d: d["shapes"][1]["requests"].update(cpu="lots"), "'lots' is not a quantity"),
    "weight": (lambda d: d["queues"][0].update(weight=0), "weight"),
}


@pytest.mark.parametrize("case", list(BAD), ids=list(BAD))
def test_damaged_profile_is_refused(samples: type[Any], case: str) -> None:
    """A document that contradicts itself is told where."""
    change, message = BAD[case]
    document = json.loads(format_profile(compute_profile(make_two_shapes(), samples.make_nodes())))
    change(document)
    with pytest.raises(InvalidRequest, match=message):
        parse_profile(json.dumps(document))


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version": 1}', "[" * 100_000], ids=["none", "open", "list", "number", "deep"]
)
def test_text_that_is_no_profile_is_refused(text: str) -> None:
    """Neither broken JSON nor depth gets further than the parser."""
    with pytest.raises(InvalidRequest, match="not a workload profile"):
        parse_profile(text)


def test_bundled_profile_is_the_whole_alibaba_trace() -> None:
    """8,152 pods in four classes of service on 1,523 nodes in three clusters, told by its name, in little space."""
    assert "alibaba-gpu-2023" in bundled_profiles()
    profile = load_profile("alibaba-gpu-2023")
    assert (profile.job_count(), profile.node_count(), profile.levels) == (8152, 1523, LEVELS)
    assert {queue.name for queue in profile.queues} == {"ls", "be", "burstable", "guaranteed"}
    assert len(format_profile(profile)) < 300_000
    workload, nodes = generate(profile, 0)
    assert (len(workload), len(nodes), len(nodes.clusters)) == (8152, 1523, 3)
    assert nodes.capacity()["nvidia.com/gpu-milli"] == 6_212_000
    with pytest.raises(NotFound, match="alibaba-gpu-2023"):
        load_profile("other")
