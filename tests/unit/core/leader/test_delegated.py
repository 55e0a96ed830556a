"""Delegated clusters at the leader: leases that name the cluster, nodes that come later, and what is returned."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from argosy_core.job.states import FailureKind, JobEventKind, JobState, ObjectState, RunState
from argosy_core.job.tables.members import Members
from argosy_core.leader import events as hear
from argosy_core.leader import instructions as say
from argosy_core.nodes import ANY_NODE
from argosy_core.placement import WaitReason
from argosy_core.scheduler import RoundSettings, explain
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import Report, capacity_columns

_EVERY_CLUSTER = RoundSettings(clusters_to_sample_ratio=1.0, non_preemptible_excess_ratio=1e9)


def world_of(**clusters: int) -> LeaderWorld:
    """Return a world of delegated clusters of nodes of four cores."""
    world = LeaderWorld(clusters=clusters, settings=_EVERY_CLUSTER)
    for name in clusters:
        world.delegate(name)
    return world


def give_back(world: LeaderWorld, handle: int, cluster: str, *, attempt: int = 1, why: str = "too full") -> None:
    """Have an executor return a run."""
    report = {"failure": int(FailureKind.RETURNED), "text": why, "attempt": attempt}
    world.report(cluster, [Report(handle=handle, state=int(ObjectState.FAILED), **report)])


def node_of(world: LeaderWorld, handle: int) -> str:
    """Return the node of a job's last run as it is stored."""
    return list(world.job(handle).runs.values())[-1].node


def told(world: LeaderWorld, handle: int) -> Any:
    """Return what is said of a job."""
    answer = explain(world.state, handle, world.now_s)
    assert answer is not None
    return answer


def test_lease_names_the_cluster_and_the_row_comes_again_with_the_node() -> None:
    """The executor hears of the run, asks, and makes its pod once the leader has stored where."""
    world = world_of(a=2)
    (handle,) = world.submit(1)
    world.round()
    assert world.job_state(handle) == JobState.LEASED
    assert node_of(world, handle) == ANY_NODE
    assert "which has not chosen its node yet" in told(world, handle).summary
    world.place_leased("a")
    assert node_of(world, handle) in {"a-0", "a-1"}
    rows = [sent.rows.nodes for sent in world.said if isinstance(sent, say.SendRows)]
    assert rows == [(ANY_NODE,), (node_of(world, handle),)]
    world.report("a", [Report(handle=handle, state=int(ObjectState.SUCCEEDED))])
    assert world.job_state(handle) == JobState.SUCCEEDED
    assert world.clusters["a"].ledger.placement_count == 0


def test_leases_fill_the_cluster_and_no_more() -> None:
    """What is leased and not placed counts: eight cores are leased eight times, and all find a node."""
    world = world_of(a=2)
    handles = world.submit(11)
    for _ in range(4):
        world.round()
    leased = [handle for handle in handles if world.job_state(handle) == JobState.LEASED]
    assert len(leased) == 8
    assert world.place_leased("a").reasons == ("",) * 8
    assert all(node_of(world, handle) != ANY_NODE for handle in leased)
    assert told(world, handles[-1]).reason == WaitReason.NO_ROOM


def test_returned_run_is_no_failure_and_its_job_goes_elsewhere_at_once() -> None:
    """The cluster that gave it back is left out, and no retry is counted."""
    world = world_of(a=1)
    (handle,) = world.submit(1)
    world.round()
    world.add_cluster("b", 1)
    give_back(world, handle, "a")
    world.round()
    first, second = world.job(handle).runs.values()
    assert (first.cluster, first.state, first.reason) == ("a", RunState.RETURNED, "too full")
    assert second.cluster == "b"
    slot = world.state.live.slots(np.array([handle]))
    assert world.state.live.failures[slot] == 0
    assert world.kinds(handle)[-2:] == [JobEventKind.REQUEUED, JobEventKind.LEASED]
    assert world.clusters["a"].ledger.placement_count == 0


def test_job_that_every_cluster_returned_says_so_with_each_ones_reason() -> None:
    """People read where it was tried and what was missing there, also when they ask again and again."""
    world = world_of(a=1, b=1)
    (handle,) = world.submit(1)
    for attempt in (1, 2):
        world.round()
        cluster = list(world.job(handle).runs.values())[-1].cluster
        give_back(world, handle, cluster, attempt=attempt, why=f"{cluster} lacks cores")
    for _ in range(3):
        world.round()
        answer = told(world, handle)
    assert answer.reason == WaitReason.RETURNED
    assert "every cluster that might hold it has returned it" in answer.why
    assert {one.cluster: one.text for one in answer.cluster_reasons} == {"a": "a lacks cores", "b": "b lacks cores"}
    assert len(world.job(handle).runs) == 2


def test_cluster_is_tried_again_when_something_changes_there() -> None:
    """A first return waits for news, or ten seconds."""
    world = world_of(a=1)
    (handle,) = world.submit(1)
    world.round()
    give_back(world, handle, "a")
    world.round()
    assert world.job_state(handle) == JobState.QUEUED
    wake(world, 1)
    world.round()
    assert world.job_state(handle) == JobState.LEASED


def wake(world: LeaderWorld, class_id: int) -> None:
    """Have the sampler of cluster a tell that a class fits by now."""
    cluster = world.clusters["a"]
    columns = capacity_columns(cluster.sampling.sampler, cluster.sampler.incarnation)
    news = replace(columns, fitting=np.array([class_id], np.int32), fitting_room=np.ones(1, np.int32))
    world.tell(hear.CapacityTold(session=cluster.sampler, columns=news))


def test_cluster_that_returns_everything_is_asked_ever_less_often() -> None:
    """Whatever it tells of changes, five minutes hold few leases, not hundreds."""
    world = world_of(a=1)
    (handle,) = world.submit(1)
    begun_s, attempts = world.now_s, 0
    while world.now_s < begun_s + 300.0:
        world.round()
        if world.job_state(handle) == JobState.LEASED:
            attempts += 1
            give_back(world, handle, "a", attempt=attempts)
        world.now_s += 1.0
        wake(world, 1)
    assert 5 <= attempts <= 11
    assert world.job_state(handle) == JobState.QUEUED


def test_next_leader_knows_which_runs_have_no_node_and_takes_it_when_it_is_told() -> None:
    """Between lease and node a leader may die; the sampler keeps what it chose."""
    world = world_of(a=2)
    first, second = world.submit(2)
    world.round()
    world.clusters["a"].sampling.place(world_runs(world))
    world.take_over()
    assert {node_of(world, first), node_of(world, second)} == {ANY_NODE}
    world.place_leased("a")
    assert ANY_NODE not in {node_of(world, first), node_of(world, second)}
    world.report("a", [Report(handle=handle, state=int(ObjectState.SUCCEEDED)) for handle in (first, second)])
    assert world.clusters["a"].ledger.placement_count == 0


def world_runs(world: LeaderWorld) -> Members:
    """Return the live runs of cluster a."""
    from argosy_core.job.tables.members import Members

    return Members.from_pairs(list(world.store_runs("a")))


@pytest.mark.parametrize("restart", ["sampler", "executor"])
def test_restart_between_lease_and_node_loses_nothing(restart: str) -> None:
    """What is leased is in the list for the sampler and in the rows for the executor."""
    world = world_of(a=2)
    (handle,) = world.submit(1)
    world.round()
    (world.reconnect_sampler if restart == "sampler" else world.reconnect_executor)("a")
    world.place_leased("a")
    assert node_of(world, handle) in {"a-0", "a-1"}


def test_node_that_is_told_of_a_run_that_ended_changes_nothing() -> None:
    """Words cross on their way."""
    world = world_of(a=2)
    (handle,) = world.submit(1)
    world.round()
    runs = world_runs(world)
    world.clusters["a"].sampling.place(runs)
    give_back(world, handle, "a")
    world.place_leased("a")
    assert node_of(world, handle) == ANY_NODE
    world.round()
    assert world.state.totals["returned"] == 1


def test_cluster_that_is_no_longer_delegated_gets_leases_with_nodes() -> None:
    """What was leased before keeps its way; what comes after has a node at once."""
    world = world_of(a=2)
    (first,) = world.submit(1)
    world.round()
    world.delegate("a", delegated=False)
    (second,) = world.submit(1)
    world.round()
    assert (node_of(world, first), node_of(world, second) != ANY_NODE) == (ANY_NODE, True)
    world.place_leased("a")
    assert node_of(world, first) != ANY_NODE
