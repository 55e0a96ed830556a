"""What executors report: states, ends, new attempts, bags."""

from __future__ import annotations

import pytest

from argosy_core.job.states import JobEventKind as Kind
from argosy_core.job.states import JobState, RunState
from argosy_core.job.tables.members import Members
from argosy_core.leader.instructions import SendReleases, SendStops, Warn
from argosy_core.scheduler import (
    RoundSettings,
    StateColumns,
    draft_ingest,
    rows_missing,
    shares,
    take_states,
)
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import BAG_LAYOUT, Report, report_columns

LEASED, CREATED, RUNNING, SUCCEEDED, FAILED, CANCELLED, LOST, UNKNOWN = range(1, 9)


def _leased(layout: bytes = b'[["Pod","work"]]', settings: RoundSettings | None = None) -> tuple[LeaderWorld, int]:
    """Return a world with one leased job."""
    world = LeaderWorld(settings=settings)
    handle = world.submit(1, layout=layout)[0]
    world.round()
    return world, handle


@pytest.mark.parametrize(
    ("reports", "kinds", "state"),
    [
        pytest.param([[CREATED]], [Kind.CREATED], JobState.LEASED, id="created"),
        pytest.param([[CREATED], [RUNNING]], [Kind.CREATED, Kind.RUNNING], JobState.RUNNING, id="running"),
        pytest.param([[RUNNING], [CREATED]], [Kind.CREATED, Kind.RUNNING], JobState.RUNNING, id="never-backwards"),
        pytest.param([[RUNNING], [RUNNING]], [Kind.CREATED, Kind.RUNNING], JobState.RUNNING, id="repeated"),
        pytest.param(
            [[SUCCEEDED]], [Kind.CREATED, Kind.RUNNING, Kind.SUCCEEDED], JobState.SUCCEEDED, id="overtaken-in-one-gulp"
        ),
        pytest.param(
            [[CREATED, RUNNING, SUCCEEDED]],
            [Kind.CREATED, Kind.RUNNING, Kind.SUCCEEDED],
            JobState.SUCCEEDED,
            id="all-in-one-batch",
        ),
        pytest.param(
            [[RUNNING], [UNKNOWN], [RUNNING], [SUCCEEDED]],
            [Kind.CREATED, Kind.RUNNING, Kind.UNKNOWN, Kind.RUNNING, Kind.SUCCEEDED],
            JobState.SUCCEEDED,
            id="node-away-and-back",
        ),
        pytest.param([[UNKNOWN]], [Kind.CREATED, Kind.UNKNOWN], JobState.RUNNING, id="unknown-counts-as-running"),
        pytest.param(
            [[RUNNING], [SUCCEEDED], [FAILED]],
            [Kind.CREATED, Kind.RUNNING, Kind.SUCCEEDED],
            JobState.SUCCEEDED,
            id="terminal-absorbs",
        ),
        pytest.param(
            [[SUCCEEDED, FAILED]],
            [Kind.CREATED, Kind.RUNNING, Kind.SUCCEEDED],
            JobState.SUCCEEDED,
            id="also-in-a-batch",
        ),
    ],
)
def test_states_give_events_in_legal_order_and_never_go_backwards(
    reports: list[list[int]], kinds: list[Kind], state: JobState
) -> None:
    """Each state reached gets its event, even if overtaken."""
    world, handle = _leased()
    for batch in reports:
        world.report("a", [Report(handle=handle, state=code) for code in batch])
    assert world.kinds(handle)[2:] == kinds
    assert world.job_state(handle) == state


@pytest.mark.parametrize(
    ("state", "failure", "outcome"),
    [
        pytest.param(FAILED, 1, JobState.FAILED, id="exit-code"),
        pytest.param(FAILED, 2, JobState.FAILED, id="out-of-memory"),
        pytest.param(FAILED, 4, JobState.FAILED, id="image"),
        pytest.param(FAILED, 6, JobState.FAILED, id="rejected"),
        pytest.param(FAILED, 0, JobState.FAILED, id="no-kind"),
        pytest.param(FAILED, 3, JobState.QUEUED, id="evicted"),
        pytest.param(FAILED, 5, JobState.QUEUED, id="infrastructure"),
        pytest.param(LOST, 0, JobState.QUEUED, id="lost"),
        pytest.param(CANCELLED, 0, JobState.QUEUED, id="stopped-without-a-change request"),
    ],
)
def test_end_of_a_run_ends_the_job_or_queues_it_again(state: int, failure: int, outcome: JobState) -> None:
    """What is not the job's own fault is tried again as the next attempt."""
    world, handle = _leased()
    effects = world.report("a", [Report(handle=handle, state=state, failure=failure, exit_code=3)])
    assert world.job_state(handle) == outcome
    assert effects.run_ends[0].attempt.tolist() == [1]
    assert effects.run_ends[0].exit_code.tolist() == [3]
    assert world.sent(SendReleases) == [("a", handle, 1)]
    assert world.clusters["a"].ledger.placement_count == 0
    assert world.machine.totals["requeued"] == int(outcome == JobState.QUEUED)
    if outcome == JobState.QUEUED:
        world.now_s += 1.0
        assert world.round().attempt.tolist() == [2]


def test_job_fails_after_too_many_runs_that_were_not_its_fault() -> None:
    """Bounded, and the reason says so."""
    world, handle = _leased(settings=RoundSettings(max_runs=3))
    for attempt in (1, 2):
        world.report("a", [Report(handle=handle, attempt=attempt, state=LOST)])
        world.round()
    effects = world.report("a", [Report(handle=handle, attempt=3, state=LOST)])
    assert world.job_state(handle) == JobState.FAILED
    (ends,) = effects.job_ends
    assert "3 runs" in ends.reasons[ends.reason_index[0]]


def test_failure_of_the_node_waits_for_its_back_off_at_its_place() -> None:
    """The job is passed over, others go on, and it comes back first."""
    world = LeaderWorld(clusters={"a": 1})
    handles = world.submit(4)
    world.round()
    later = world.submit(1)
    world.report("a", [Report(handle=handles[0], state=FAILED, failure=5)])
    assert world.round().handle.tolist() == later
    world.now_s += 1.0
    world.report("a", [Report(handle=handles[1], state=SUCCEEDED)])
    assert world.round().handle.tolist() == [handles[0]]


def test_run_update_carries_when_the_pod_started_and_ended() -> None:
    """One row per run, written at its end."""
    world, handle = _leased()
    assert world.report("a", [Report(handle=handle, state=RUNNING, time_us=50)]).run_ends == []
    effects = world.report("a", [Report(handle=handle, state=FAILED, failure=1, time_us=90, text="exit 1")])
    (run_ends,), (job_ends,) = effects.run_ends, effects.job_ends
    assert run_ends.start_time_us.tolist() == [50]
    assert run_ends.end_time_us.tolist() == [90]
    assert run_ends.reasons == ("exit 1",)
    assert job_ends.reasons[job_ends.reason_index[0]] == "exit 1"


def test_object_update_is_the_last_state_only() -> None:
    """Overtaken states are events, not rows."""
    world, handle = _leased()
    batch = [Report(handle=handle, state=state) for state in (CREATED, RUNNING, SUCCEEDED)]
    assert [updates.state.tolist() for updates in world.report("a", batch).objects] == [[SUCCEEDED]]


@pytest.mark.parametrize(
    ("report", "stopped"),
    [
        pytest.param(Report(handle=5, state=RUNNING), True, id="unknown-job"),
        pytest.param(Report(handle=5, state=SUCCEEDED), False, id="unknown-job-that-ended"),
        pytest.param(Report(handle=0, attempt=3, state=RUNNING), True, id="another-attempt"),
        pytest.param(Report(handle=0, attempt=1, state=99), False, id="unknown-state"),
        pytest.param(Report(handle=0, attempt=1, state=RUNNING, object_index=7), True, id="no-such-object"),
    ],
)
def test_report_of_a_run_that_is_not_live_is_counted_and_told_to_stop(report: Report, *, stopped: bool) -> None:
    """Unless it has ended already."""
    world, handle = _leased()
    meant = Report(
        handle=report.handle or handle, attempt=report.attempt, state=report.state, object_index=report.object_index
    )
    world.report("a", [meant])
    assert world.machine.totals["stale"] == 1
    assert world.sent(SendStops) == ([("a", meant.handle, meant.attempt)] if stopped else [])
    assert world.job_state(handle) == JobState.LEASED


def test_report_from_another_cluster_than_the_run_s_is_stopped_and_told() -> None:
    """No two pods of one job: the other one stops. People are told once, and what is late is nobody's fault."""
    world = LeaderWorld(clusters={"a": 1, "b": 1})
    handle = world.submit(1)[0]
    cluster = world.round().clusters[0]
    other = "b" if cluster == "a" else "a"
    world.report(other, [Report(handle=handle, state=RUNNING)])
    assert world.sent(SendStops) == [(other, handle, 1)]
    assert world.job_state(handle) == JobState.LEASED
    world.report(other, [Report(handle=handle, state=SUCCEEDED)])
    warnings = [one.subject for one in world.said if isinstance(one, Warn) and "in another one" in one.text]
    assert (world.machine.totals["foreign_states"], warnings) == (2, [other])
    world.report(other, [Report(handle=handle, attempt=2, state=SUCCEEDED), Report(handle=99, state=SUCCEEDED)])
    world.report(cluster, [Report(handle=handle, state=SUCCEEDED), Report(handle=handle, state=RUNNING)])
    world.report(other, [Report(handle=handle, state=SUCCEEDED)])
    assert (world.job_state(handle), world.machine.totals["foreign_states"]) == (JobState.SUCCEEDED, 2)


def test_reports_of_several_clusters_at_once_do_what_they_do_one_by_one() -> None:
    """The same rows, releases, stops and counts, whichever way they come."""
    settings = RoundSettings(clusters_to_sample_ratio=1.0)
    worlds = [LeaderWorld(clusters={"a": 2, "b": 2}, settings=settings) for _ in range(2)]
    answers = []
    for world in worlds:
        world.submit(4)
        plan = world.round()
        assert set(plan.clusters) == {"a", "b"}
        parts: list[tuple[str, StateColumns]] = []
        for index, cluster in enumerate(plan.clusters):
            handles = plan.handle[plan.cluster == index].tolist()
            reports = [Report(handle=handle, state=RUNNING) for handle in handles]
            reports += [Report(handle=handles[0], state=FAILED, failure=1, text=f"broke in {cluster}")]
            reports += [Report(handle=99, state=RUNNING)]
            parts.append((cluster, report_columns(reports, world.now_s)))
        groups = [parts] if world is worlds[0] else [[part] for part in parts]
        answers.append([take_states(world.state, group, world.now_s) for group in groups])
    (together,), apart = answers
    assert [runs.cluster for runs in together.releases] == ["a", "b"]
    for found, single in ((together.releases, "releases"), (together.stops, "stops")):
        expected = [runs for effects in apart for runs in getattr(effects, single)]
        assert [(one.cluster, one.members.handle.tolist()) for one in found] == [
            (one.cluster, one.members.handle.tolist()) for one in expected
        ]
    for name in ("object_updates", "run_updates", "job_updates"):
        rows = [getattr(effects, name) for effects in apart]
        assert sorted(getattr(together, name).handle.tolist()) == sorted(
            handle for part in rows for handle in part.handle.tolist()
        )
    assert together.stale_count == sum(effects.stale_count for effects in apart) == 2
    assert set(together.run_updates.reasons) == {"broke in a", "broke in b"}
    free = [world.state.clusters.free[: len(world.state.clusters)].tolist() for world in worlds]
    assert free[0] == free[1]


@pytest.mark.parametrize(
    ("batches", "outcome", "stops"),
    [
        pytest.param([(0, RUNNING), (1, RUNNING), (2, RUNNING)], JobState.RUNNING, 0, id="runs"),
        pytest.param([(1, SUCCEEDED)], JobState.RUNNING, 0, id="one-pod-of-two-is-not-all"),
        pytest.param([(1, SUCCEEDED), (2, SUCCEEDED)], JobState.SUCCEEDED, 0, id="all-pods"),
        pytest.param([(2, SUCCEEDED), (0, RUNNING), (1, SUCCEEDED)], JobState.SUCCEEDED, 0, id="any-order"),
        pytest.param([(1, RUNNING), (2, RUNNING), (1, FAILED)], JobState.RUNNING, 1, id="failure-stops-the-bag"),
        pytest.param([(1, RUNNING), (2, RUNNING), (1, FAILED), (2, CANCELLED)], JobState.FAILED, 1, id="then-it-fails"),
        pytest.param([(0, FAILED)], JobState.LEASED, 1, id="object-that-cannot-be-made-before-any-pod"),
        pytest.param([(0, FAILED), (1, FAILED), (2, FAILED)], JobState.FAILED, 1, id="then-its-pods-are-never-made"),
        pytest.param([(1, RUNNING), (0, FAILED), (1, CANCELLED)], JobState.RUNNING, 1, id="pod-may-still-be-made"),
        pytest.param([(1, LOST)], JobState.LEASED, 1, id="pod-may-still-be-made-beside-a-lost-one"),
        pytest.param([(1, FAILED)], JobState.RUNNING, 1, id="pod-that-failed-had-run"),
        pytest.param([(1, RUNNING), (2, RUNNING), (1, LOST), (2, CANCELLED)], JobState.QUEUED, 1, id="lost-pod"),
        pytest.param([(0, RUNNING)], JobState.LEASED, 0, id="service-alone-is-not-running"),
    ],
)
def test_bag_ends_with_all_its_pods_and_fails_with_any(
    batches: list[tuple[int, int]], outcome: JobState, stops: int
) -> None:
    """Succeeded when all pods have; failed when any object fails, and then the rest is stopped."""
    world, handle = _leased(BAG_LAYOUT)
    for index, state in batches:
        report = Report(handle=handle, object_index=index, state=state, failure=1 if state == FAILED else 0)
        world.report("a", [report])
    assert world.job_state(handle) == outcome
    assert len(world.sent(SendStops)) == stops


def test_broken_bag_is_stopped_again_when_an_executor_comes_back() -> None:
    """Its row goes down with every hello, and nobody shall make it once more."""
    world, handle = _leased(BAG_LAYOUT)
    nothing = Members.of([], [])
    world.report("a", [Report(handle=handle, object_index=0, state=RUNNING)])
    assert rows_missing(world.state, "a", nothing).stops.members.handle.tolist() == []
    world.report("a", [Report(handle=handle, object_index=1, state=FAILED, failure=1)])
    missing = rows_missing(world.state, "a", nothing)
    assert missing.stops.members.handle.tolist() == missing.rows.handle.tolist() == [handle]


def test_bag_reports_its_first_failure() -> None:
    """Not that of the object that happened to end last."""
    world, handle = _leased(BAG_LAYOUT)
    world.report("a", [Report(handle=handle, object_index=2, state=RUNNING)])
    world.report("a", [Report(handle=handle, object_index=1, state=FAILED, failure=1, exit_code=42, text="first")])
    effects = world.report("a", [Report(handle=handle, object_index=2, state=FAILED, failure=5, exit_code=137)])
    assert world.job_state(handle) == JobState.FAILED
    (ends,) = effects.run_ends
    assert ends.exit_code.tolist() == [42]
    assert ends.reasons[ends.reason_index[0]] == "first"


def test_bag_has_one_row_per_object_with_names_of_its_run() -> None:
    """Rows are made at ingest, updated by report."""
    world = LeaderWorld()
    handle = world.submit(1, layout=BAG_LAYOUT)[0]
    plan = world.plan()
    _, objects = draft_ingest(world.state, plan)
    assert [objects.kinds[index] for index in objects.kind_index.tolist()] == ["Service", "Pod", "Pod"]
    assert [name.decode().split("-")[0] for name in objects.name] == ["front", "one", "two"]
    assert len({name.split(b"-", 1)[1] for name in objects.name}) == 1
    assert objects.object_index.tolist() == [0, 1, 2]
    world.ingest(plan)
    assert world.job_state(handle) == JobState.LEASED


def test_forgotten_cluster_loses_its_runs_and_the_jobs_wait_again() -> None:
    """On an administrator's word only."""
    world = LeaderWorld(clusters={"a": 1, "b": 1})
    handles = world.submit(6)
    bag = world.submit(1, layout=BAG_LAYOUT)
    world.round()
    world.round()
    lost = {handle for handle, _ in world.live_runs("a")}
    world.forget("a")
    effects = world.stored[-1]
    assert world.machine.totals["requeued"] == len(lost)
    assert {state for ends in effects.run_ends for state in ends.state.tolist()} == {RunState.LOST}
    assert {state for updates in effects.objects for state in updates.state.tolist()} == {LOST}
    assert all(world.job_state(handle) == JobState.QUEUED for handle in lost)
    assert world.live_runs("b")
    assert {*handles, *bag} >= lost


def test_usage_leaves_with_the_job_and_flow_remembers_it() -> None:
    """Flow falls to usage by the half time."""
    world, handle = _leased(settings=RoundSettings(half_time_s=10))
    world.now_s += 100
    world.report("a", [Report(handle=handle, state=SUCCEEDED)])
    world.now_s += 10
    row = shares(world.state, world.now_s).queues[0]
    assert (row.usage_cores, row.flow_cores) == (0.0, pytest.approx(0.5))
