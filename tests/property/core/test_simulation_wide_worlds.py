"""Worlds with bags of several pods, an API that dies, clusters that are declared gone, and commits that come too late.

More worlds, and those that found something once, are in `tests/real/simulation`.
"""

from collections.abc import Callable

import numpy as np
import pytest

from argosy_core.errors import ArgosyError
from argosy_core.job.states import FailureKind
from argosy_core.leader import intake, takeover
from argosy_core.ledger.bookings import Bookings
from argosy_core.ledger.run_pods import RunPods
from argosy_core.placement import SamplerSession
from argosy_core.reconcile.object_table import ObjectTable
from argosy_core.scheduler import LeasePlan, PoolState, adopt_plan
from argosy_simulation import World, draw_world
from argosy_simulation.agenda import Process
from argosy_simulation.api_role import ApiRole
from argosy_simulation.cluster_actor import ClusterActor, TakeListing
from argosy_simulation.cluster_changes import Scope
from argosy_simulation.durable import DurableStore
from argosy_testkit.defended_worlds import gone_in_flight_world, gone_world, late_world, theft_world
from argosy_testkit.simulated_worlds import fails_within

Patch = pytest.MonkeyPatch
THEFT_SEED = 16
"""Seed of a world in which a second pod runs if what lost its labels is not looked for."""


def test_every_invariant_holds_in_wide_random_worlds() -> None:
    """Whatever goes wrong, nothing happens that must not, and when it stops the world comes to rest and agrees."""
    for seed in range(2):
        try:
            draw_world(seed, wide=True, check_steps=25).run()
        except (ArgosyError, AssertionError, LookupError, TypeError, ValueError) as error:
            pytest.fail(f"draw_world({seed}, wide=True): {type(error).__name__}: {error}")


def test_every_invariant_holds_where_runs_have_time_limits() -> None:
    """Whatever goes wrong, endless runs with a limit end; what a limit stops is neither run again nor left behind."""
    failed = 0
    for seed in range(2):
        world = draw_world(seed, wide=True, limited=True, check_steps=25)
        world.run()
        kinds = [run.failure for job in world.context.store.jobs.values() for run in job.runs.values()]
        failed += kinds.count(FailureKind.TIME_LIMIT)
    assert failed


def test_every_invariant_holds_where_shares_cap_what_queues_hold() -> None:
    """Whatever goes wrong, no charge leaks over leaders, and what caps and budgets hold back begins in the end."""
    charged = 0
    for seed in (7, 12):
        world = draw_world(seed, wide=True, capped=True, check_steps=25)
        world.run()
        charged += sum(run.charge_core_s > 0 for job in world.context.store.jobs.values() for run in job.runs.values())
        assert not world.leaders[-1].state.queues.charged_core_s.any()
    assert charged


def test_no_job_begins_that_is_held_or_waits_for_others_whatever_goes_wrong() -> None:
    """Across lost leaders too: held jobs have no run before their release, and others' ends come first; all end."""
    begun = 0
    for seed in (1, 2):
        world = draw_world(seed, waiting=True, check_steps=25)
        world.run()
        jobs = list(world.context.store.jobs.values())
        begun += sum(bool(jobs[row].runs) for row in world.context.job_index.plan.after)
    assert begun


def test_wide_worlds_do_what_the_others_leave_out() -> None:
    """What is not tried proves nothing."""
    world = draw_world(3, wide=True, check_steps=0)
    counters = world.run().counters
    assert world.context.job_index.has_several_pods
    for name in ("calls repeated", "clusters forgotten", "late commits"):
        assert counters.get(name, 0) > 0, name


def _wide(seed: int) -> World:
    return draw_world(seed, wide=True, check_steps=0)


@pytest.mark.parametrize("make", [late_world, gone_world, gone_in_flight_world])
def test_worlds_that_need_a_defence_most_hold_as_long_as_they_have_it(make: Callable[[int], World]) -> None:
    """What is caught below is caught because a defence is missing."""
    make(0).run()


def test_without_the_samplers_epochs_a_commit_of_a_replaced_leader_is_caught(monkeypatch: Patch) -> None:
    """It takes room that no leader knows of and nobody gives back."""
    monkeypatch.setattr(SamplerSession, "check_epoch", lambda self, epoch: setattr(self, "epoch", epoch))
    assert fails_within(30, late_world, first=62)


def test_without_deduplication_a_job_that_is_accepted_twice_is_caught(monkeypatch: Patch) -> None:
    """A call that was stored and not answered is stored again."""
    intact = DurableStore.submit

    def submit(self: DurableStore, change_id: int, rows: np.ndarray, now_us: int) -> None:
        self.deduplication.clear()
        intact(self, change_id, rows, now_us)

    monkeypatch.setattr(DurableStore, "submit", submit)
    assert fails_within(5, _wide, first=5)


def test_an_answer_before_the_commit_is_caught(monkeypatch: Patch) -> None:
    """Whoever is told that a job is accepted finds it."""
    intact = ApiRole._take

    def take(self: ApiRole, number: int, replica: object) -> None:
        self._answer(number)
        intact(self, number, replica)  # type: ignore[arg-type]

    monkeypatch.setattr(ApiRole, "_take", take)
    assert fails_within(5, _wide, first=7)


def test_callers_that_do_not_repeat_lose_jobs(monkeypatch: Patch) -> None:
    """A call that a dead replica took, and nobody repeats, becomes nothing."""
    monkeypatch.setattr(ApiRole, "_repeat", lambda _self, _number: None)
    assert fails_within(10, _wide)


def test_without_folding_the_pods_of_a_run_over_commitment_is_caught(monkeypatch: Patch) -> None:
    """The first pod of a bag that ends gives back the room of all."""
    monkeypatch.setattr(RunPods, "fold", lambda *_: [])
    monkeypatch.setattr(RunPods, "fold_list", lambda *_: [])
    assert fails_within(5, _wide)


def test_without_holding_room_for_pods_that_are_not_seen_yet_over_commitment_is_caught(monkeypatch: Patch) -> None:
    """The first pod of a bag that appears stands for all of them, and the room of the others is given away."""
    monkeypatch.setattr(Bookings, "at_least_class", lambda _self, amounts, *_of: amounts)
    assert fails_within(10, _wide, first=13)


def test_without_taking_its_runs_for_lost_a_cluster_that_is_gone_is_waited_for(monkeypatch: Patch) -> None:
    """Jobs stay where nobody will ever hear of them again."""
    monkeypatch.setattr(intake.Intake, "_take_cluster", lambda *_: None)
    assert fails_within(10, gone_world, first=1)


def test_a_lease_that_the_log_holds_for_a_cluster_that_is_gone_is_caught(monkeypatch: Patch) -> None:
    """It was published by a leader that is dead, before the cluster was declared gone, and is ingested after it."""

    def adopt(state: PoolState, plan: LeasePlan) -> LeasePlan:
        state.clusters.forgotten.clear()
        return adopt_plan(state, plan)

    monkeypatch.setattr(takeover, "adopt_plan", adopt)
    assert fails_within(2, gone_in_flight_world)


def test_without_looking_for_what_lost_its_labels_a_second_pod_is_caught(monkeypatch: Patch) -> None:
    """No list shows it, so its run is called lost while it runs, and its job gets another run."""
    world = theft_world(THEFT_SEED)
    assert world.run().counters["pods without labels"] > 0
    monkeypatch.setattr(ObjectTable, "needs_look", lambda _, slots, __: np.zeros(len(slots), dtype=np.bool_))
    assert fails_within(1, theft_world, first=THEFT_SEED)


def test_without_looking_for_ended_pods_that_lost_their_labels_what_is_left_is_caught(monkeypatch: Patch) -> None:
    """Their runs are over, so nobody asks for them by name."""
    list_all = ClusterActor.list_all

    def list_labelled(self: ClusterActor, owner: Process, scope: Scope, take: TakeListing, **_: bool) -> None:
        list_all(self, owner, scope, take)

    monkeypatch.setattr(ClusterActor, "list_all", list_labelled)
    assert fails_within(1, theft_world)
