"""Jobs that end with others: children of jobs that submitted them."""

from __future__ import annotations

import json

import pytest

from argosy_core.job.identity import compose_id
from argosy_core.job.reading.families import (
    MAX_GENERATION,
    Parent,
    family_marks,
    generation_of,
    parent_of,
    read_bound_parent,
)
from argosy_core.job.states import JobState, ObjectState
from argosy_core.leader import instructions as say
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import Report


def end(world: LeaderWorld, handle: int) -> None:
    """Have the pod of a job end."""
    world.report("a", [Report(handle=handle, state=ObjectState.SUCCEEDED)])


def family() -> tuple[LeaderWorld, int, int, int]:
    """Return a world with a parent, its child, and a child of that, which all have a run."""
    world = LeaderWorld(clusters={"a": 3})
    world.define_class(1, cpu=4000)
    (parent,) = world.submit(1)
    (child,) = world.submit(1, parent=parent)
    (grandchild,) = world.submit(1, parent=child)
    world.round()
    assert [world.job_state(one) for one in (parent, child, grandchild)] == [JobState.LEASED] * 3
    return world, parent, child, grandchild


def test_children_are_cancelled_when_their_parent_has_ended_and_theirs_when_they_have() -> None:
    """Whoever waits ends at once, whoever runs when its pods are gone, as if somebody had cancelled it."""
    world, parent, child, grandchild = family()
    world.define_class(2, cpu=8000)
    (waiting,) = world.submit(1, class_id=2, parent=child)
    end(world, parent)
    world.round()
    assert world.job_state(parent) == JobState.SUCCEEDED
    assert world.sent(say.SendStops) == [("a", child, 1)]
    world.report("a", [Report(handle=child, state=ObjectState.CANCELLED)])
    world.round()
    assert world.sent(say.SendStops)[1:] == [("a", grandchild, 1)]
    world.report("a", [Report(handle=grandchild, state=ObjectState.CANCELLED)])
    assert {world.job_state(one) for one in (child, grandchild, waiting)} == {JobState.CANCELLED}
    assert len(world.state.children) == 0


def test_child_of_a_parent_that_has_ended_meanwhile_is_cancelled() -> None:
    """It was accepted while its parent was open."""
    world, parent, *_ = family()
    end(world, parent)
    world.round()
    (late,) = world.submit(1, parent=parent)
    world.round()
    assert world.job_state(late) == JobState.CANCELLED


def test_next_leader_cancels_children_whose_parents_ended_before() -> None:
    """Labels tell whose they are, so nothing else has to be kept."""
    world, parent, child, grandchild = family()
    end(world, parent)
    world.take_over()
    world.round()
    assert world.job_state(parent) == JobState.SUCCEEDED
    assert world.sent(say.SendStops) == [("a", child, 1)]
    assert world.job_state(grandchild) == JobState.LEASED
    assert len(world.state.children) == 2


def test_children_go_on_while_their_parent_is_tried_again() -> None:
    """A run that was lost ends no job."""
    world, parent, child, _ = family()
    world.report("a", [Report(handle=parent, state=ObjectState.LOST)])
    world.round()
    assert world.job_state(child) == JobState.LEASED
    assert world.sent(say.SendStops) == []


def test_marks_say_whose_child_a_job_is_and_whether_it_ends_with_that() -> None:
    """Also how many parents are above it; jobs of nobody have none."""
    handle = 1 << 40
    of = Parent(job_id=compose_id(7 << 12, handle))
    for parent, bound in ((of, handle), (Parent(job_id=of.job_id, outlives=True), None)):
        labels, annotations = family_marks(parent, 3, may_have_children=True)
        assert parent_of(labels, annotations) == parent
        assert generation_of(annotations) == 3 < MAX_GENERATION
        text = json.dumps({"labels": labels, "annotations": annotations}).encode()
        assert read_bound_parent(text) == bound
    assert family_marks(None, 0, may_have_children=False) == ({}, {})


@pytest.mark.parametrize(
    "text", [b"", b'{"labels":{"argosy.dev/parent":"x"}}', b'{"annotations":{"argosy.dev/parent":1}}']
)
def test_metadata_that_names_no_parent_binds_nobody(text: bytes) -> None:
    """Whatever stands there."""
    assert read_bound_parent(text) is None
