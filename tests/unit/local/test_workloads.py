"""Nodes and jobs that a command names, and reports as files."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from argosy_core.errors import InvalidRequest
from argosy_kube.simulated.inventory import parse_nodes
from argosy_local.node_files import cluster_plans, nodes_of, without_impossible
from argosy_local.reporting import add_rounds, check_report_path, write_report
from argosy_local.round_totals import Histogram, RoundTotals
from argosy_workload.fcfs import simulate_fcfs
from argosy_workload.model import JobColumns, Shape, Workload, build_workload
from argosy_workload.rendering import NO_PLOTS
from argosy_workload.report import Report, build_report


def workload(*cores: int) -> Workload:
    """Return one job of each number of cores."""
    count = len(cores)
    return build_workload(
        JobColumns(
            submit_s=np.arange(count, dtype=np.float64),
            run_s=np.full(count, 5.0),
            queue=["q"] * count,
            shape=[Shape.of({"cpu": 1000 * number, "memory": 1 << 20}) for number in cores],
            client_ids=[str(number) for number in range(count)],
        ),
        source="test",
    )


@pytest.mark.parametrize("text", ["6x4cpu,8Gi", "6:cpu=4,memory=8Gi"])
def test_nodes_are_said_in_a_short_text(text: str) -> None:
    """Both spellings give the same nodes, dealt to the clusters."""
    nodes = nodes_of(text, cluster_count=3)

    assert (len(nodes), len(nodes.clusters)) == (6, 3)
    assert (nodes.capacity()["cpu"], nodes.capacity()["memory"]) == (24_000, 48 << 30)


def test_nodes_of_several_kinds_are_said_in_a_short_text() -> None:
    """Each kind is a model of its own; taints are refused, since jobs of traces tolerate none."""
    nodes = nodes_of("2:cpu=4,memory=8Gi;1:cpu=8,memory=16Gi,gpu=2,label:model=A100", cluster_count=1)
    assert nodes.model.tolist() == [0, 0, 1]
    assert dict(nodes.models[1].labels)["model"] == "A100"
    assert nodes.capacity()["nvidia.com/gpu"] == 2
    with pytest.raises(InvalidRequest, match="no job of a trace tolerates"):
        nodes_of("2:cpu=4,memory=8Gi,taint:gpu:NoSchedule", cluster_count=1)


@pytest.mark.parametrize("text", ["nowhere.csv", "4:", "4:cpu", "0:cpu=1", ""])
def test_text_that_says_no_nodes_is_refused(text: str) -> None:
    """Neither a file nor a set of nodes."""
    with pytest.raises(InvalidRequest):
        nodes_of(text, cluster_count=1)


def test_every_cluster_gets_a_node_file_of_its_nodes() -> None:
    """Together the simulated clusters have exactly the nodes of the set."""
    nodes = nodes_of("5x4cpu,8Gi", cluster_count=2)

    plans = cluster_plans(nodes)

    described = [node for plan in plans for node in parse_nodes(plan.nodes)]
    assert [plan.name for plan in plans] == list(nodes.clusters)
    assert sorted(node.name for node in described) == sorted(nodes.names)
    assert {(node.allocatable["cpu"], node.allocatable["memory"]) for node in described} == {(4000, 8 << 30)}


def test_jobs_that_fit_no_node_are_left_out_and_counted() -> None:
    """They would wait for ever; those that fit an empty node stay, in order."""
    left = without_impossible(workload(1, 64, 4, 65), nodes_of("2x4cpu,8Gi", cluster_count=1))

    assert left.client_ids == ("0", "2")
    assert left.submit_s.tolist() == [0.0, 2.0]
    assert "2 of 4 jobs fit no node, even an empty one, and are left out." in left.notes


def test_gangs_that_no_cluster_holds_are_left_out() -> None:
    """Three nodes of two clusters hold a gang of two, not one of three."""
    jobs = workload(4, 4)
    jobs = replace(
        jobs,
        shapes=tuple(replace(jobs.shapes[0], member_count=count) for count in (2, 3)),
        shape=np.array([0, 1], dtype=np.int32),
    )
    assert without_impossible(jobs, nodes_of("3x4cpu,8Gi", cluster_count=2)).client_ids == ("0",)


@pytest.fixture
def report() -> Report:
    """A report of four jobs."""
    nodes = nodes_of("2x4cpu,8Gi", cluster_count=1)
    return build_report(simulate_fcfs(workload(1, 2, 3, 4), nodes), nodes, title="Four jobs")


@pytest.mark.parametrize("ending", [".html", ".json", ".txt", ".svg", ".png"])
def test_report_is_written_in_the_form_of_its_ending(tmp_path: Path, report: Report, ending: str) -> None:
    """HTML and SVG are complete in themselves, JSON can be read again, a picture is one."""
    path = tmp_path / f"report{ending}"

    write_report([report], path)

    data = path.read_bytes()
    beginnings = {".html": b"<!DOCTYPE html>", ".txt": b"Four jobs", ".svg": b"<svg", ".png": b"\x89PNG"}
    if ending == ".json":
        assert json.loads(data)["title"] == "Four jobs"
    else:
        assert data.startswith(beginnings[ending])


def test_report_without_the_plots_extra_is_a_page_without_plots_and_no_picture(
    tmp_path: Path, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Said before a replay begins where the form needs them; a page says what is missing."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    page = tmp_path / "report.html"

    check_report_path(page)
    write_report([report], page)

    assert NO_PLOTS in page.read_text()
    assert "<svg" not in page.read_text()
    for ending in (".png", ".svg"):
        with pytest.raises(InvalidRequest, match=r"argosy-workload\[plots\]"):
            check_report_path(tmp_path / f"report{ending}")


def test_leaders_figures_are_added_to_the_report(report: Report) -> None:
    """Only the leader knows when jobs were considered, and how many conflicts there were."""
    rounds = RoundTotals()
    rounds.totals = {"conflicts": 3}
    rounds.histograms = {"considered": Histogram(np.array([10.0, 20.0]), np.array([1, 1]))}

    added = add_rounds(report, rounds)

    considered = added.latency_ms["considered"]
    assert considered is not None
    assert (considered.count, considered.p50, considered.max) == (2, 10.0, 20.0)
    assert (added.counters["conflicts"], added.counters["retries"]) == (3, 0)


def test_nodes_too_small_for_every_job_are_refused_with_what_the_largest_asks_for() -> None:
    """A run of no job at all would report nothing and say nothing of the reason."""
    with pytest.raises(InvalidRequest, match=r"all 2 jobs fit no node.*65 cpu.*--nodes"):
        without_impossible(workload(64, 65), nodes_of("2x4cpu,8Gi", cluster_count=1))
