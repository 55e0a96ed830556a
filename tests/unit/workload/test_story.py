"""What is told of a run beside its figures: bursts, gangs, promises, preemptions, lost nodes; a picture of nodes."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from argosy_workload.model import JobColumns, Shape, build_workload, uniform_nodes
from argosy_workload.records import GivenPromise, Placement, RunRecords, RunState
from argosy_workload.rendering import report_to_html, report_to_text
from argosy_workload.report import Report, build_report
from argosy_workload.story import LANE_COUNT, STEP_COUNT, draw_nodes, tell_story

NODES = uniform_nodes("3x4cpu,16Gi")


def placement(row: int, node: int, lease_s: float, end_s: float, **changes: Any) -> Placement:
    """Return a run of a job on a node that ended well."""
    name = NODES.names[node]
    known = {"attempt": 1, "cluster": "cluster-0", "state": "succeeded", "reason": ""}
    return Placement(row=row, node=name, lease_s=lease_s, end_s=end_s, **{**known, **changes})


def records(*placements: Placement, promises: tuple[GivenPromise, ...] = (), speed: float = 1.0) -> RunRecords:
    """Return what happened to a job of one core, a gang of two whole nodes, and a job of one, of two queues."""
    count, whole = 3, {"cpu": 4000, "memory": 1 << 30}
    columns = JobColumns(
        submit_s=np.zeros(count),
        run_s=np.full(count, 5.0),
        queue=["a", "b", "b"],
        shape=[Shape.of({"cpu": 1000}), Shape.of(whole, member_count=2), Shape.of(whole)],
        client_ids=["0", "1", "2"],
    )
    made = RunRecords.start(build_workload(columns, source="test"), speed=speed)
    made.submit_s[:] = made.acknowledged_s[:] = 100.0
    for one in placements:
        made.leased_s[one.row] = made.running_s[one.row] = one.lease_s
        made.finished_s[one.row], made.state[one.row] = one.end_s, RunState.SUCCEEDED
    made.placements.extend(placements)
    made.promises.extend(promises)
    return made


def told(made: RunRecords) -> list[tuple[float, str, str]]:
    """Return moments, kinds and texts of the story."""
    return [(round(one.at_s, 6), one.kind, one.text) for one in tell_story(made, start_s=100.0)]


def test_gang_is_told_once_for_each_run_with_its_nodes() -> None:
    """Members of one run are one line; a second run says that it is one."""
    made = records(
        placement(1, 0, 101.0, 102.0, state="lost"),
        placement(1, 1, 101.0, 102.0, state="cancelled"),
        placement(1, 1, 104.0, 109.0, attempt=2),
        placement(1, 2, 104.0, 109.0, attempt=2),
    )
    gangs = [one for one in told(made) if one[1] == "gang"]
    assert gangs == [
        (1.0, "gang", "job 1 of b gets room for all at once, after 1.0 s: 2 pods on 2 nodes of cluster-0"),
        (4.0, "gang", "job 1 of b (run 2) gets room for all at once, after 4.0 s: 2 pods on 2 nodes of cluster-0"),
    ]


def test_times_of_a_story_are_those_of_the_trace() -> None:
    """Ten times as fast as the trace: a second of the run is ten of it."""
    made = records(placement(0, 0, 101.0, 102.0, state="preempted", reason="preempted: for others"), speed=10.0)
    assert told(made) == [(20.0, "preempted", "job 0 of a on node-00000 for others")]


@pytest.mark.parametrize(
    ("lease_s", "kind", "said"),
    [(104.0, "promised", "it began at 4.0 s, 1 passed it there and did not delay it"), (106.0, "late", "6.0 s")],
)
def test_promise_is_told_with_whether_it_was_kept(lease_s: float, kind: str, said: str) -> None:
    """Kept if the first run after it began by then, even if that was preempted and began again."""
    promise = GivenPromise(row=2, given_s=101.0, moment_s=105.0, is_firm=True, nodes=(NODES.names[0],))
    made = records(
        placement(0, 0, 102.0, 103.0),
        placement(2, 0, lease_s, lease_s + 1, state="preempted"),
        placement(2, 0, 110.0, 115.0, attempt=2),
        promises=(promise,),
    )
    ((at_s, was, text),) = [one for one in told(made) if one[1] in {"promised", "late"}]
    assert (at_s, was) == (1.0, kind)
    assert text.startswith("job 2 of b starts on node-00000 by 5.0 s at the latest; it began at ")
    assert text.endswith(said)


def test_lost_node_is_told_with_the_runs_that_it_took() -> None:
    """One line for a node."""
    made = records(placement(0, 2, 101.0, 103.0, state="lost"), placement(2, 2, 101.0, 103.5, state="lost"))
    assert told(made) == [(3.0, "lost", "node node-00002 goes with 2 runs that are begun again elsewhere")]


def test_burst_is_told_of_many_jobs_in_one_moment() -> None:
    """A hundred at least, and a tenth of all."""
    count = 150
    columns = JobColumns(
        submit_s=np.where(np.arange(count) < 120, 7.0, np.arange(count, dtype=np.float64)),
        run_s=np.ones(count),
        queue=["flood"] * count,
        shape=[Shape.of({"cpu": 1000})] * count,
        client_ids=[str(number) for number in range(count)],
    )
    made = RunRecords.start(build_workload(columns, source="test"))
    made.submit_s[:] = np.where(np.arange(count) < 120, 107.0, 100.0 + np.arange(count))
    assert told(made) == [(7.0, "burst", "flood sends 120 jobs in one moment")]


def test_node_map_has_each_pod_on_lanes_of_its_node_for_its_time() -> None:
    """A pod of a quarter of a node takes a quarter of its lanes; the gang is marked; other moments are empty."""
    made = records(placement(0, 0, 100.0, 105.0), placement(1, 1, 105.0, 110.0), placement(1, 2, 105.0, np.nan))
    drawn = draw_nodes(made, NODES, start_s=100.0, end_s=10.0)
    assert drawn is not None
    cells = np.frombuffer(drawn.cells, np.uint8).reshape(3, LANE_COUNT, STEP_COUNT)
    half = STEP_COUNT // 2
    assert (cells[0] == 1).sum() == LANE_COUNT // 4 * half
    assert (cells[0, :, half:] == 0).all()
    assert (cells[1:, :, half:] == 2).all()
    gangs = np.frombuffer(drawn.gangs, np.uint8).reshape(3, LANE_COUNT, STEP_COUNT)
    assert (gangs[1:, :, half:] == 1).all()
    assert not gangs[0].any()


def test_node_map_is_drawn_only_where_placements_are_known_and_nodes_are_few() -> None:
    """Hundreds of nodes would be lines that nobody can see."""
    made = records(placement(0, 0, 100.0, 105.0))
    assert draw_nodes(records(), NODES, start_s=100.0, end_s=10.0) is None
    assert draw_nodes(made, uniform_nodes("100x4cpu,16Gi"), start_s=100.0, end_s=10.0) is None


@pytest.fixture
def report() -> Report:
    """The report of a run in which everything happens."""
    promise = GivenPromise(row=2, given_s=101.0, moment_s=108.0, is_firm=False, nodes=(NODES.names[0],))
    made = records(
        placement(0, 2, 100.0, 101.0, state="lost"),
        placement(0, 0, 102.0, 105.0, attempt=2, state="preempted", reason="preempted: for others"),
        placement(0, 0, 106.0, 107.0, attempt=3),
        placement(1, 0, 101.0, 104.0),
        placement(1, 1, 101.0, 104.0),
        placement(2, 0, 107.0, 110.0),
        promises=(promise,),
    )
    return build_report(made, NODES, title="t")


def test_report_tells_the_story_in_every_form(report: Report) -> None:
    """A sentence, lines of text, a table and a picture with everything that is marked."""
    text = report_to_text(report)
    counted = "Gangs begun with all pods at once: 1; promised starts: 1, kept: 1; runs preempted: 1; nodes lost: 1."
    assert counted in text.replace("\n", " ")
    assert "  1.0 s  promised   job 2 of b starts on node-00000 by 8.0 s as expected; it began at 7.0 s" in text
    page = report_to_html(report)
    for said in ("What happened", "what ran on each node", "promised start, at the latest", "preempted", "node lost"):
        assert said in page


def test_report_counts_what_it_leaves_out(report: Report) -> None:
    """A text has the first few of a kind, and how many more there are."""
    many = replace(report, happenings=tuple(one for one in report.happenings for _ in range(9)))
    assert "promised   ... and 4 more" in report_to_text(many)
