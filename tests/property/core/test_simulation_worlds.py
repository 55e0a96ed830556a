"""Small random worlds with faults: every invariant holds, and each defence is missed when it is taken away.

More of all of them, and those that found something once, are in `tests/real/simulation`.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from argosy_core.errors import ArgosyError
from argosy_core.leader import intake, records, sessions
from argosy_core.leader.events import ChangesRead, StatesReported
from argosy_core.leader.instructions import Acknowledge
from argosy_core.leader.intake import Intake
from argosy_core.leader.line import FollowUp, RecordEnd, StoreLine
from argosy_core.leader.machine import LeaderMachine
from argosy_core.leader.sessions import ClusterSessions
from argosy_core.leader.takeover import Takeover
from argosy_core.leader.transaction import Transaction
from argosy_core.ledger.observing import PodObserver
from argosy_core.placement import multibind
from argosy_core.reconcile import Fence
from argosy_core.reconcile.object_table import ObjectTable
from argosy_core.scheduler import ExecutorRows, LeasePlan
from argosy_simulation import (
    World,
    draw_world,
    executor_actor,
)
from argosy_simulation.durable import DurableStore
from argosy_simulation.executor_actor import ExecutorActor
from argosy_testkit.defended_worlds import (
    crowded_world,
    fickle_world,
    half_published_world,
    haunted_world,
    littered_world,
    rivals_world,
    torn_world,
)
from argosy_testkit.simulated_worlds import fails_within

Patch = pytest.MonkeyPatch
SEED_COUNT = 3


def test_every_invariant_holds_in_random_worlds_with_faults() -> None:
    """Whatever goes wrong, nothing happens that must not, and when it stops the world comes to rest and agrees."""
    for seed in range(SEED_COUNT):
        try:
            draw_world(seed, check_steps=25).run()
        except (ArgosyError, AssertionError, LookupError, TypeError, ValueError) as error:
            pytest.fail(f"draw_world({seed}): {type(error).__name__}: {error}")


# --- without one of its defences, a world must fail -----------------------------------------------------------------


def _draw(seed: int) -> World:
    """Return a random world whose memories are checked at the end only."""
    return draw_world(seed, check_steps=0)


def test_worlds_die_between_two_records_of_one_plan() -> None:
    """What is not tried proves nothing; these worlds hold as long as they have their defence."""
    deaths = sum(half_published_world(seed).run().counters.get("deaths between records", 0) for seed in (0, 4))
    assert deaths >= 4


@pytest.mark.parametrize("make", [crowded_world, torn_world, fickle_world, rivals_world, haunted_world, littered_world])
def test_worlds_that_need_a_defence_most_hold_as_long_as_they_have_it(make: Callable[[int], World]) -> None:
    """What is caught below is caught because a defence is missing."""
    make(0).run()


def test_without_epochs_a_replaced_leader_is_caught(monkeypatch: Patch) -> None:
    """A leader that was replaced writes to the log and the database."""
    monkeypatch.setattr(DurableStore, "check_epoch", lambda _self, _epoch: None)
    assert fails_within(20, rivals_world)


def test_without_knowing_what_was_seen_a_pod_made_again_is_caught(monkeypatch: Patch) -> None:
    """An executor that restarts makes pods again that were reported and are gone."""
    intact = ExecutorActor.take_rows

    def forget(self: ExecutorActor, stream: object, rows: ExecutorRows) -> None:
        intact(self, stream, replace(rows, seen=np.zeros(rows.handle.size, dtype=np.bool_)))  # type: ignore[arg-type]

    monkeypatch.setattr(ExecutorActor, "take_rows", forget)
    assert fails_within(60, _draw, first=13)


def test_without_the_fence_a_call_of_a_replaced_executor_is_caught(monkeypatch: Patch) -> None:
    """An executor that nobody confirms goes on making pods, and does not see that they were there and are gone."""
    monkeypatch.setattr(Fence, "may_act", lambda _self, _now_s: True)
    assert fails_within(30, haunted_world)


@pytest.mark.parametrize(
    ("settled_after_s", "first"), [(0.0, 2), (15.0, 40)], ids=["at once", "after the fence, but not the calls"]
)
def test_without_waiting_for_a_predecessors_calls_a_pod_made_after_its_loss_is_caught(
    monkeypatch: Patch, settled_after_s: float, first: int
) -> None:
    """A successor calls a run lost while a call of its predecessor can still make its pod."""
    monkeypatch.setattr(executor_actor, "settle_time_s", lambda welcomed_at_s, **_: welcomed_at_s + settled_after_s)
    assert fails_within(30, haunted_world, first=first)


def test_without_a_listing_after_the_last_call_a_loss_that_is_none_is_caught(monkeypatch: Patch) -> None:
    """A successor calls a run lost the moment it does not see its pod, which a call of its predecessor makes later."""
    monkeypatch.setattr(ObjectTable, "closed_at_s", lambda _self, slots, _settled_at_s: np.zeros(len(slots)))
    assert fails_within(30, haunted_world)


def test_without_release_by_fact_a_leak_is_caught(monkeypatch: Patch) -> None:
    """Placements of pods that ended go on taking room until nothing fits."""
    monkeypatch.setattr(PodObserver, "end", lambda _self, _slots, _permits: None)
    assert fails_within(5, _draw)


def test_without_releases_of_the_leader_a_leak_is_caught(monkeypatch: Patch) -> None:
    """Placements that ended, or whose commit was never answered, are never let go."""
    monkeypatch.setattr(ClusterSessions, "release", lambda _self, _runs: None)
    assert fails_within(20, fickle_world)


def test_without_the_check_of_commits_over_commitment_is_caught(monkeypatch: Patch) -> None:
    """Whatever is decided is kept, although somebody else has taken the room meanwhile."""
    monkeypatch.setattr(multibind, "_contended", lambda _ledger, _batch, first: np.zeros(len(first), dtype=np.bool_))
    assert fails_within(20, crowded_world, first=1)


def test_without_in_flight_runs_in_the_list_over_commitment_is_caught(monkeypatch: Patch) -> None:
    """A sampler that connects anew gives the room of leases on their way to others."""
    intact = sessions.placements_of

    def omit(state: object, cluster: str) -> object:
        placements = intact(state, cluster)  # type: ignore[arg-type]
        live = state.live  # type: ignore[attr-defined]
        kept = live.run_state[live.slots(placements.members.handle)] > 0
        return replace(
            placements,
            members=placements.members[kept],
            class_ids=placements.class_ids[kept],
            node=placements.node[kept],
        )

    monkeypatch.setattr(sessions, "placements_of", omit)
    assert fails_within(20, torn_world, first=2)


def test_rows_sent_before_the_commit_are_caught(monkeypatch: Patch) -> None:
    """What is not stored is told to executors."""
    intact = StoreLine.put

    def put(self: StoreLine, transaction: Transaction | None, follow: FollowUp, *, round_number: int = 0) -> object:
        nothing = RecordEnd(change_ids=[])
        return [follow, *intact(self, transaction, nothing, round_number=round_number)]

    monkeypatch.setattr(StoreLine, "put", put)
    assert fails_within(5, _draw)


def test_states_acknowledged_before_they_are_stored_are_caught(monkeypatch: Patch) -> None:
    """An end that a crash took away is never reported again."""
    intact = LeaderMachine._take_states

    def take(self: LeaderMachine, event: StatesReported) -> None:
        intact(self, event)
        self._term.say(Acknowledge(session=event.session, batch=event.batch))

    monkeypatch.setattr(LeaderMachine, "_take_states", take)
    assert fails_within(60, _draw, first=7)


def test_changes_taken_twice_are_caught(monkeypatch: Patch) -> None:
    """A change is read again before its transaction has deleted it."""
    intact = Intake.receive

    def receive(self: Intake, event: ChangesRead) -> bool:
        self._held.clear()
        self._deleted.clear()
        return intact(self, event)

    monkeypatch.setattr(Intake, "receive", receive)
    assert fails_within(10, _draw)


def test_records_ingested_before_changes_are_taken_are_caught(monkeypatch: Patch) -> None:
    """A new leader stores the lease of a job whose submit has no event yet."""
    intact = Takeover.take_changes

    def take_changes(self: Takeover, _event: ChangesRead) -> None:
        intact(self, ChangesRead(changes=()))

    monkeypatch.setattr(Takeover, "take_changes", take_changes)
    assert fails_within(60, _draw)


def test_strange_runs_that_are_not_stopped_are_caught(monkeypatch: Patch) -> None:
    """Objects of runs that the leader does not know stay in their cluster."""
    intact = intake.take_states

    def take(*arguments: object) -> object:
        return replace(intact(*arguments), stops=())  # type: ignore[arg-type]

    monkeypatch.setattr(intake, "take_states", take)
    assert fails_within(5, littered_world)


def test_records_that_cannot_be_applied_alone_are_caught(monkeypatch: Patch) -> None:
    """A leader that dies between two records of one plan leaves one whose names of nodes would stand in another."""
    intact = records._part

    def part(plan: LeasePlan, leases: slice, stops: slice, failed: slice) -> LeasePlan:
        return replace(intact(plan, leases, stops, failed), nodes=())

    monkeypatch.setattr(records, "_part", part)
    assert fails_within(3, half_published_world)
