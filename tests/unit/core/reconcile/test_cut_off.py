"""Runs that may not stay where no leader is heard: their executor stops them, whether or not it may act otherwise."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from argosy_core.job.reading.stop_note import parse_stop_after, read_stop_note, with_stop_note
from argosy_core.job.states import ObjectState
from argosy_core.reconcile import Actions
from argosy_core.reconcile.fence import FIRST_CONTACT_S, Fence
from argosy_testkit.reconcile_world import World, rows_of

STOP_AFTER_S = 300.0


def test_note_goes_with_what_the_job_says_and_is_read_back() -> None:
    """Labels and annotations of the job stay; without the note there is no time."""
    noted = with_stop_note(b'{"labels":{"a":"b"},"annotations":{"c":"d"}}', 300.0)
    assert read_stop_note(noted) == 300.0
    assert b'"labels":{"a":"b"}' in noted
    assert b'"c":"d"' in noted
    assert (read_stop_note(with_stop_note(b"", 1.5)), read_stop_note(b""), read_stop_note(b"{}")) == (1.5, 0.0, 0.0)


@pytest.mark.parametrize("text", [None, "", "soon", "-5s"])
def test_note_that_somebody_broke_says_nothing(text: str | None) -> None:
    """No text of a pod ends an executor, or has a run stopped at once."""
    assert parse_stop_after(text) == 0.0


def test_silence_counts_from_the_last_confirmation_and_is_unknown_to_a_new_process() -> None:
    """A process that was never welcomed takes it for infinite after a while."""
    fence = Fence(100.0)
    assert fence.silent_s(100.0 + FIRST_CONTACT_S - 1.0) == 0.0
    assert fence.silent_s(100.0 + FIRST_CONTACT_S) == math.inf
    fence.welcome(15.0, 200.0)
    assert fence.silent_s(260.0) == 60.0


def give_noted(world: World, handles: list[int], *kinds: str) -> None:
    """Send rows of jobs that do not wait for an executor that is not heard of."""
    rows = rows_of(handles, *kinds)
    noted = replace(
        rows, metadata=(with_stop_note(b"", STOP_AFTER_S),), metadata_column=np.zeros(len(handles), np.int32)
    )
    world.reconciler.take_rows(noted, world.now)


def act_alone(world: World, silent_s: float) -> Actions:
    """Do what is done without a leader, and bring the answers back."""
    actions = world.reconciler.next_actions(world.now, may_act=False, silent_s=silent_s)
    if actions.deletes is not None:
        gone = world.cluster.delete(actions.deletes)
        world.reconciler.take_delete_responses(actions.deletes, gone, world.now)
    return actions


def test_runs_are_stopped_after_their_time_without_a_leader_and_others_are_not(world: World) -> None:
    """Whole bags, by uid, once; nothing else is done meanwhile, and the ends are told later."""
    give_noted(world, [7], "ConfigMap", "Pod")
    give_noted(world, [8])
    world.give([9])
    world.settle()
    for key in ((7, 1, 1), (8, 1, 0), (9, 1, 0)):
        world.cluster.show(key, ObjectState.RUNNING)
    world.watch()
    world.report()
    world.give([10])
    assert act_alone(world, STOP_AFTER_S - 0.1) == Actions(creates=None, deletes=None)
    actions = act_alone(world, STOP_AFTER_S)
    assert actions.creates is None
    assert actions.deletes is not None
    assert sorted(actions.deletes.handle_column.tolist()) == [7, 7, 8]
    assert act_alone(world, STOP_AFTER_S + 1.0).deletes is None
    world.watch()
    assert sorted(world.report()) == [(7, 0, "CANCELLED"), (7, 1, "CANCELLED"), (8, 0, "CANCELLED")]
    assert [pod.key[0] for pod in world.cluster.pods()] == [9]


def test_what_a_predecessor_made_is_stopped_before_any_row_has_come(world: World) -> None:
    """A new process finds the note on what it lists."""
    world.give([7, 8])
    world.act()
    world.cluster.show((7, 1, 0), ObjectState.RUNNING)
    successor = World(cluster=world.cluster)
    listing = world.cluster.read_listing(time_us=successor.now.wall_us)
    place = listing.handle_column.tolist().index(7)
    noted = replace(listing, stop_after_s={place: STOP_AFTER_S})
    successor.reconciler.take_listing(noted, started_s=successor.now_s, now=successor.now)
    actions = act_alone(successor, math.inf)
    assert actions.deletes is not None
    assert actions.deletes.handle_column.tolist() == [7]


def test_notes_of_runs_that_are_gone_are_forgotten(world: World) -> None:
    """What is known does not grow with the number of runs that ever were."""
    for first in range(0, 10_000, 1_000):
        handles = list(range(first + 1, first + 1_001))
        give_noted(world, handles)
        world.act()
        world.stop(*handles)
        world.settle(steps=3)
    assert world.reconciler.object_count == 0
    assert len(world.reconciler._cut_off) <= 3_000


def test_observations_that_are_taken_apart_keep_their_notes(world: World) -> None:
    """Each part has those of its own rows, at their new places."""
    world.give([7, 8, 9])
    world.act()
    listing = replace(world.cluster.read_listing(), stop_after_s={0: 1.0, 2: 3.0})
    assert listing.part(np.array([1, 2])).stop_after_s == {1: 3.0}
