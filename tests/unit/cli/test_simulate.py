"""`argosy simulate`: a trace in virtual time, from the command line."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from argosy_cli.exits import ExitCode
from argosy_core.errors import InvalidRequest
from argosy_local.demo import ROUND_SETTINGS
from argosy_local.lost_node import LostNode
from argosy_local.simulation import Beside, simulate
from argosy_workload.model import JobColumns, Shape, Workload, build_workload, uniform_nodes
from argosy_workload.records import RunState

SWF = """\
; Version: 2
; MaxProcs: 4
1 0 -1 100 2 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1
2 0 -1 300 2 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1
3 10 -1 50 2 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1
"""
NODES = "1x4cpu,16Gi"
Argosy = Callable[..., Any]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Three jobs of two cores; the third has to wait for the first on a machine of four."""
    path = tmp_path / "three.swf"
    path.write_text(SWF)
    return path


def report_of(outcome: Any) -> dict[str, Any]:
    """Return the report that a command line printed."""
    assert outcome.code == ExitCode.OK, outcome.err
    return json.loads(outcome.out)


@pytest.mark.parametrize("scheduler", ["flow", "fcfs"])
def test_simulate_reports_waits_in_trace_time(offline: Argosy, trace: Path, scheduler: str) -> None:
    """The third job waits 90 s for the first; the mesh adds seconds, and first come, first served nothing."""
    arguments = ("simulate", str(trace), "--nodes", NODES, "--scheduler", scheduler, "-o", "json")
    report = report_of(offline(*arguments))
    assert report["clock"] == "virtual"
    assert report["states"] == {"succeeded": 3}
    assert 90.0 <= report["wait_s"]["max"] < 90.0 + (10.0 if scheduler == "flow" else 0.1)
    assert report["settings"]["scheduler"] == scheduler
    assert len(report["settings"]["event hash"]) == 32


def test_simulate_stops_jobs_at_the_times_that_users_asked_for_if_these_are_limits(
    offline: Argosy, tmp_path: Path
) -> None:
    """The first job ends in the time it asked for, the second does not; as estimates the same times bind nobody."""
    path = tmp_path / "limited.swf"
    line = "{number} 0 -1 {run} 2 -1 -1 -1 {asked} -1 1 -1 -1 -1 0 -1 -1 -1\n"
    path.write_text(line.format(number=1, run=100, asked=200) + line.format(number=2, run=300, asked=200))
    arguments = ("simulate", str(path), "--nodes", NODES, "-o", "json")
    assert report_of(offline(*arguments))["states"] == {"succeeded": 2}
    limited = report_of(offline(*arguments, "--time-limits"))
    assert limited["states"] == {"succeeded": 1, "failed": 1}
    assert any("1 of 2 jobs run longer than their time limit" in note for note in limited["notes"])
    assert report_of(offline(*arguments, "--time-limits", "--estimates", "exact"))["states"] == {"succeeded": 2}


def test_jobs_come_and_end_at_multiples_of_the_resolution(offline: Argosy, trace: Path) -> None:
    """Runs of 100, 300 and 50 s at 60 s end at 120, 300 and, begun at 120 with the first one's end, at 180 s."""
    arguments = ("simulate", str(trace), "--nodes", NODES, "-o", "json")
    report = report_of(offline(*arguments, "--resolution", "60"))
    assert report["states"] == {"succeeded": 3}
    assert 120.0 <= report["wait_s"]["max"] < 130.0
    assert any("multiples of 60 s" in note for note in report["notes"])
    same = report_of(offline(*arguments, "--resolution", "0"))["settings"]["event hash"]
    assert same == report_of(offline(*arguments))["settings"]["event hash"]


def test_a_coarse_resolution_needs_few_rounds() -> None:
    """100 jobs within an hour, at half an hour's resolution: three moments, and a few rounds at each."""
    workload = make_workload(1, submit_s=[36.0 * number for number in range(100)])
    nodes = uniform_nodes("10x64cpu", cluster_count=1)
    exact, coarse = (simulate(workload, nodes, beside=Beside(resolution_s=step_s)) for step_s in (0.0, 1800.0))
    assert exact.counters["rounds"] > 83
    assert coarse.counters["rounds"] < 30
    ends = coarse.records.finished_s
    assert np.isfinite(ends).all()
    late_s = ends % 1800.0
    assert (late_s < 5.0).all(), "news of an end takes seconds at most"


def test_a_run_within_its_limit_is_not_stopped_because_time_is_coarse(offline: Argosy, tmp_path: Path) -> None:
    """It asks for 100 s, takes 99, and at a resolution of 60 s seems to take 120."""
    path = tmp_path / "limited.swf"
    path.write_text("1 0 -1 99 2 -1 -1 -1 100 -1 1 -1 -1 -1 0 -1 -1 -1\n")
    arguments = ("simulate", str(path), "--nodes", NODES, "--time-limits", "--resolution", "60", "-o", "json")
    assert report_of(offline(*arguments))["states"] == {"succeeded": 1}


def test_simulate_says_the_same_hash_for_the_same_seed(offline: Argosy, trace: Path) -> None:
    """Equal input and seed: equal events; another seed: others."""
    hashes = [
        report_of(offline("simulate", str(trace), "--nodes", NODES, "--seed", seed, "-o", "json"))["settings"][
            "event hash"
        ]
        for seed in ("1", "1", "2")
    ]
    assert hashes[0] == hashes[1] != hashes[2]


def test_simulate_writes_a_page_and_a_text(offline: Argosy, trace: Path, tmp_path: Path) -> None:
    """The report goes to people as text and to a file as a page."""
    page = tmp_path / "report.html"
    outcome = offline("simulate", str(trace), "--nodes", NODES, "--report", str(page))
    assert outcome.code == ExitCode.OK
    assert "virtual seconds per real second" in outcome.out
    assert "<svg" in page.read_text()


def test_simulate_resizes_pods_by_what_a_file_says_they_use(offline: Argosy, trace: Path, tmp_path: Path) -> None:
    """They use a fifth of their two cores, so the third job need not wait for the first, and the report shows why."""
    usage, page = tmp_path / "usage.csv", tmp_path / "report.html"
    usage.write_text("20,20,20\n10,20,20\n")
    arguments = ("simulate", str(trace), "--nodes", NODES, "--usage", str(usage), "10", "-o", "json")
    report = report_of(offline(*arguments, "--report", str(page)))
    assert report["wait_s"]["max"] < 30.0
    scaling = report["scaling"]
    assert scaling["resize_count"] >= 3
    assert set(scaling["pods"]) == {"of job 1", "of job 2", "of job 3"}
    assert scaling["approved"][0] == 4.0, "they begin with what they ask for"
    assert min(scaling["approved"]) < 2.0
    assert all(used <= approved for used, approved in zip(scaling["used"], scaling["approved"], strict=True))
    assert any("what jobs asked for" in note for note in report["notes"])
    assert "a few: approved (line)" in page.read_text()
    assert report_of(offline(*arguments))["settings"]["event hash"] == report["settings"]["event hash"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no machine"),
        ("1,2\n\n1,2,3\n", "line 3: 3 steps, but the first has 2"),
        ("1,2\n1,many\n", "line 2: could not convert string to float"),
        ("1,101\n", "line 1: a use must be from 0 to 100 percent"),
        ("1,nan\n", "line 1: a use must be from 0 to 100 percent"),
        ("-1\n", "line 1: a use must be from 0 to 100 percent"),
    ],
    ids=["empty", "length", "word", "large", "nan", "negative"],
)
def test_simulate_refuses_uses_that_are_none(
    offline: Argosy, trace: Path, tmp_path: Path, *, text: str, said: str
) -> None:
    """The message names file and line."""
    usage = tmp_path / "usage.csv"
    usage.write_text(text)
    outcome = offline("simulate", str(trace), "--nodes", NODES, "--usage", str(usage), "10")
    assert outcome.code == ExitCode.USAGE
    assert said in outcome.err
    broken = tmp_path / "usage.csv.gz"
    broken.write_bytes(b"no gzip")
    outcome = offline("simulate", str(trace), "--nodes", NODES, "--usage", str(broken), "10")
    assert "cannot be read" in outcome.err


def test_simulate_draws_the_demos_workload_without_a_trace(offline: Argosy) -> None:
    """Nothing needs to be given; a few of the jobs are enough here."""
    report = report_of(offline("simulate", "--jobs", "40", "-o", "json"))
    assert report["job_count"] == 40
    assert report["node_count"] == 48
    assert report["states"] == {"succeeded": 40}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("simulate", "nowhere.swf"), ExitCode.USAGE, "nowhere.swf"),
        (("simulate", "{trace}", "--nodes", "many"), ExitCode.USAGE, "many"),
        (("simulate", "{trace}", "--scheduler", "luck"), ExitCode.USAGE, "luck"),
        (("simulate", "{trace}", "--report", "report.doc"), ExitCode.USAGE, ".html"),
        (("simulate", "{trace}", "--usage", "{trace}", "10"), ExitCode.USAGE, "line 1: could not convert"),
        (("simulate", "{trace}", "--set", "luck=1"), ExitCode.USAGE, "no setting 'luck'; known are age_bound_s"),
        (("simulate", "{trace}", "--set", "promise_choice=1.5"), ExitCode.USAGE, "must be a whole number"),
        (("simulate", "{trace}", "--set", "spread=maybe"), ExitCode.USAGE, "must be true or false"),
        (("simulate", "{trace}", "--set", "strategy=luck"), ExitCode.USAGE, "leader.round.strategy is luck"),
    ],
    ids=[
        "no-trace",
        "no-nodes",
        "no-scheduler",
        "no-form",
        "no-usage",
        "no-setting",
        "no-number",
        "no-flag",
        "no-strategy",
    ],
)
def test_simulate_refuses_what_it_cannot_do(
    offline: Argosy, trace: Path, *, arguments: tuple[str, ...], code: ExitCode, said: str
) -> None:
    """The message names what is wrong."""
    outcome = offline(*(argument.format(trace=trace) for argument in arguments))
    assert outcome.code == code
    assert said in outcome.err


def make_workload(cores: int, *, submit_s: Sequence[float] = (0.0,)) -> Workload:
    """Return jobs of so many cores, one by default."""
    count = len(submit_s)
    columns = JobColumns(
        submit_s=np.array(submit_s, dtype=np.float64),
        run_s=np.ones(count),
        queue=["alice"] * count,
        shape=[Shape.of({"cpu": 1000 * cores})] * count,
        client_ids=[f"job-{number}" for number in range(count)],
    )
    return build_workload(columns, source="test")


def test_simulated_records_hold_every_stage_in_order() -> None:
    """Submitted, acknowledged, considered, leased, running, finished."""
    records = simulate(make_workload(2), uniform_nodes(NODES)).records
    stages = ("submit_s", "acknowledged_s", "considered_s", "leased_s", "running_s", "finished_s")
    times = [float(getattr(records, name)[0]) for name in stages]
    assert times == sorted(times)
    assert records.state.tolist() == [RunState.SUCCEEDED]


def test_interrupted_simulation_returns_what_has_happened_so_far() -> None:
    """Jobs that would have been submitted later are left out."""

    def interrupt(counts: dict[str, int], _elapsed_s: float) -> None:
        if counts.get("succeeded"):
            raise KeyboardInterrupt

    workload = make_workload(1, submit_s=[10.0 * number for number in range(100)])
    done = simulate(workload, uniform_nodes(NODES), tell=interrupt)
    submitted = np.isfinite(done.records.submit_s)
    assert not done.is_complete
    assert 0 < np.count_nonzero(done.records.state == RunState.SUCCEEDED) <= np.count_nonzero(submitted) < 100
    assert done.virtual_s >= 10.0 * (np.count_nonzero(submitted) - 1)


def test_simulate_says_how_far_it_is_unless_it_is_quiet(offline: Argosy) -> None:
    """Where there is no terminal lines tell of it, on the standard error."""
    said = [
        offline("simulate", "alibaba-gpu-2023", "--jobs", "40", "-o", "json", *more).err for more in ((), ("--quiet",))
    ]
    assert "jobs/s" in said[0]
    assert said[1] == ""


def test_job_that_fits_nowhere_is_refused() -> None:
    """A world with such a job would never come to rest."""
    with pytest.raises(InvalidRequest, match="fit no node"):
        simulate(make_workload(5), uniform_nodes(NODES))


def test_simulated_gang_begins_again_whole_when_a_node_is_lost() -> None:
    """Its run ends with the node, and all its pods are placed anew on what is left."""
    jobs = make_workload(4)
    jobs = replace(jobs, shapes=(replace(jobs.shapes[0], member_count=2),), run_s=np.array([10.0]))
    nodes = uniform_nodes("3x4cpu,16Gi")
    first = simulate(jobs, nodes).records.placements
    lost = LostNode(cluster="cluster-0", node=first[1].node, after_s=5.0)

    records = simulate(jobs, nodes, beside=Beside(lost=lost)).records

    assert records.state.tolist() == [RunState.SUCCEEDED]
    runs = {(one.attempt, one.node): one.state for one in records.placements}
    assert runs[1, lost.node] == "lost"
    assert {node for attempt, node in runs if attempt > 1} == set(nodes.names) - {lost.node}
    assert 5.0 < records.leased_s[0] < 10.0 < records.finished_s[0]


def test_simulated_promise_is_seen() -> None:
    """A job of a whole node behind small ones is promised a start by their limits, and the records have it."""
    columns = JobColumns(
        submit_s=np.array([0.0, 0.0, 1.0, *np.linspace(1.5, 8.0, 30)]),
        run_s=np.array([8.0, 8.0, 5.0, *[4.0] * 30]),
        queue=["alice"] * 33,
        shape=[Shape.of({"cpu": 1000 * cores}) for cores in (1, 1, 4, *[1] * 30)],
        client_ids=[str(number) for number in range(33)],
        estimate_s=np.array([10.0, 10.0, 10.0, *[5.0] * 30]),
    )
    jobs = replace(build_workload(columns, source="test"), estimates_are_limits=True)

    records = simulate(jobs, uniform_nodes("1x4cpu,16Gi"), round_settings=ROUND_SETTINGS).records

    (promise,) = [one for one in records.promises if one.row == 2]
    assert promise.is_firm
    assert promise.given_s < records.leased_s[2] <= promise.moment_s


def test_simulation_takes_a_round_for_each_arrival_and_each_end_at_most() -> None:
    """Nothing else happens in a trace without faults, be jobs in each other's way or not; nobody is stopped too early.

    What a sampler and an executor tell of one end is taken together, and no round looks at what is over or unchanged.
    """
    rng, count = np.random.default_rng(3), 60
    run_s, cores = np.round(rng.lognormal(7.0, 1.5, count)) + 1.0, rng.choice([1, 1, 2, 3, 8], count)
    columns = JobColumns(
        submit_s=np.cumsum(np.round(rng.exponential(1500.0, count)) + 1.0),
        run_s=run_s,
        queue=["alice"] * count,
        shape=[Shape.of({"cpu": 1000 * int(one)}) for one in cores],
        client_ids=[str(number) for number in range(count)],
        estimate_s=run_s,
    )
    jobs = replace(build_workload(columns, source="test"), estimates_are_limits=True)

    done = simulate(jobs, uniform_nodes("1x8cpu,64Gi"))

    assert done.records.state.tolist() == [RunState.SUCCEEDED] * count
    assert (done.records.running_s - done.records.submit_s).max() > 1000
    assert done.counters["promises_firm"] == done.counters["promises_kept"] > 0
    assert done.counters["rounds"] <= 2 * count + 2 * done.counters["promises_firm"]


def test_simulated_job_that_says_no_time_runs_without_a_limit() -> None:
    """Where what others say are their limits, and they are stopped."""
    jobs = replace(
        make_workload(1, submit_s=(0.0, 0.0)), run_s=np.array([50.0, 50.0]), estimate_s=np.array([np.nan, 10.0])
    )
    done = simulate(replace(jobs, estimates_are_limits=True), uniform_nodes(NODES))
    assert done.records.state.tolist() == [RunState.SUCCEEDED, RunState.FAILED]


def test_simulated_demo_loses_a_node(offline: Argosy) -> None:
    """Wherever it is shown, with the settings of the demo."""
    report = report_of(offline("simulate", "demo", "--jobs", "40", "-o", "json"))
    assert any("node-00047 of cluster-2 is taken away" in note for note in report["notes"])
