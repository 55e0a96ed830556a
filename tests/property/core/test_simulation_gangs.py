"""Random worlds with gangs and faults, and many gangs of several leaders in one cluster.

A world that fails prints its seed; `tests/real/simulation` and `make nightly` run more of them.
"""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest

from argosy_core.job.reading.classes import GangGroup, SchedulingClass
from argosy_core.job.states import JobState, ObjectState
from argosy_core.job.tables.members import member_of
from argosy_core.ledger import NodeLedger
from argosy_core.placement import CommitOutcome, CommitReply, CommitRequest
from argosy_core.placement.gangs import GangPlacer
from argosy_core.scheduler import RoundSettings
from argosy_simulation import draw_world
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.simulated_worlds import fails_within
from argosy_testkit.world_rows import Report


def test_every_invariant_holds_in_a_world_with_gangs_and_faults() -> None:
    """All members of a gang are placed or none, and all of them end, whatever goes wrong."""
    world = draw_world(7, gangs=True, waiting=True, check_steps=25)
    world.run()
    assert any(member_of(ordinal) for job in world.context.store.jobs.values() for ordinal in job.runs)


def test_gang_that_is_placed_in_part_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worlds miss the defence that a gang's members are reserved all or none."""
    whole = GangPlacer._place

    def in_part(placer: GangPlacer, members, slot, groups, *, pool):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        outcome, nodes = whole(placer, members, slot, groups, pool=pool)
        if outcome == CommitOutcome.PLACED and len(members) > 1:
            placer._ledger.release(members[1:], pool)
            nodes[1:] = -1
        return outcome, nodes

    monkeypatch.setattr(GangPlacer, "_place", in_part)
    assert fails_within(2, lambda seed: draw_world(seed, gangs=True, check_steps=1000))


def leaders_of_one_cluster(leader_count: int, node_count: int, settings: RoundSettings) -> list[LeaderWorld]:
    """Return leaders of pools that place in one cluster of nodes of four cores; class 2 is a gang of five nodes."""
    ledger = NodeLedger(pool_count=leader_count)
    worlds = []
    for pool in range(leader_count):
        world = LeaderWorld(seed=pool, settings=settings)
        world.forget("a")
        world.make_ledger = lambda pool=pool: (ledger, pool)  # type: ignore[misc]
        world.add_cluster("shared", node_count)
        pod = SchedulingClass(requests=(("cpu", 4000),))
        world.define_gang(2, GangGroup(pod=pod, minimum=5, maximum=5))
        worlds.append(world)
    return worlds


@pytest.mark.parametrize("keeps_nodes", [False, True])
def test_a_hundred_gangs_of_four_leaders_all_run_and_none_fails(*, keeps_nodes: bool) -> None:
    """Whoever commits in between has placed a whole gang, so one always goes on, with nodes kept or without."""
    settings = RoundSettings(promised_nodes_ratio=0.05 * keeps_nodes, promise_after_s=1.0)
    worlds = leaders_of_one_cluster(4, 16, settings)
    waiting = [set(world.submit(25, class_id=2)) for world in worlds]
    conflicts, kept = 0, 0
    for turn in count():
        assert turn < 200, "gangs are stuck"
        world, other = worlds[turn % 4], worlds[(turn + 1) % 4]

        def let_the_other_go_first(request: CommitRequest) -> CommitReply:
            other.round()  # noqa: B023 - called within the turn
            return world.commit(request)  # noqa: B023

        plan = world.plan(answer_commit=let_the_other_go_first)
        conflicts += world.state.statistics.conflict_count
        kept += len(world.state.promises.gathered)
        world.ingest(plan)
        held = world.clusters["shared"].ledger.placement_count
        assert held % 5 == 0
        for one, left in zip(worlds, waiting, strict=True):
            leased = [handle for handle in left if one.job_state(handle) == JobState.LEASED]
            if keeps_nodes and turn % 8 < 7:
                continue  # they run for a while, so that others wait
            left.difference_update(leased)
            for state in (ObjectState.RUNNING, ObjectState.SUCCEEDED):
                rows = [Report(handle=handle, member=m, state=int(state)) for handle in leased for m in range(5)]
                one.report("shared", rows)
        for one in worlds:
            one.now_s += 5.0
            one.tell_news()
        if not any(waiting):
            break
    assert conflicts or keeps_nodes
    assert bool(kept) == keeps_nodes
    states = {world.job_state(int(handle)) for world in worlds for handle in world.store.jobs}
    assert states == {JobState.SUCCEEDED}
    assert worlds[0].clusters["shared"].ledger.placement_count == 0
    assert np.all(worlds[0].clusters["shared"].ledger.nodes.free >= 0)
