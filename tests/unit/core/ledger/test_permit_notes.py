"""Which notes are written first, and what they say, while more pods wait for one than can be written at once."""

from __future__ import annotations

import numpy as np

from argosy_core.arrays import Int32s
from argosy_core.ledger.permit_notes import NotedPermits, PermitNote, read_note
from argosy_core.ledger.scaled_pods import ScaledPodTable

MOST = (800, 80)


class Notes:
    """Pods that an agent holds with a permit of one unit and a note that says so."""

    def __init__(self, count: int) -> None:
        """Note all of them."""
        self.pods = ScaledPodTable()
        self.notes = NotedPermits(self.pods, "p", quiet_s=30.0)
        self.rows: Int32s = np.array(
            [self.pods.add(np.array([number, 1]), number) for number in range(1, count + 1)], np.int32
        )
        self.pods.most[:, self.rows] = np.array(MOST)[:, np.newaxis]
        self.pods.permit[:, self.rows] = np.array([[100], [10]])
        self.pods.wanted[:, self.rows] = np.array([[100], [10]])
        self.pods.noted[:, self.rows] = np.array([[100], [10]])
        self.pods.session[self.rows] = 1
        self.pods.has_own_note[self.rows] = True
        assert self.notes.begin(0.0, 100) == []

    def grow(self, rows: Int32s, cpu: int) -> list[int]:
        """Permit more; return the rows that may be told at once."""
        self.pods.permit[0, rows] = self.pods.wanted[0, rows] = cpu
        self.pods.asked_s[rows] = 0.0
        told: list[int] = self.notes.may_tell(rows).tolist()
        return told

    def said(self, notes: list[PermitNote]) -> list[tuple[int, int]]:
        """Write notes; return (number of the pod, processors that its note allows)."""
        for note in notes:
            assert self.notes.end(note.uid, note.after, 0.0)
        found = [(int.from_bytes(note.uid[:8], "little"), read_note(note.after)) for note in notes]
        return [(number, note[1][0]) for number, note in found if note is not None]


def test_a_note_allows_twice_the_permit_while_notes_are_few() -> None:
    """The next start then books little more than what was permitted."""
    world = Notes(3)
    assert world.grow(world.rows, 200) == []
    assert world.said(world.notes.begin(0.0, 3)) == [(1, 400), (2, 400), (3, 400)]
    assert world.grow(world.rows, 400) == world.rows.tolist()


def test_notes_are_raised_to_the_maximum_where_more_pods_wait_than_may_be_written() -> None:
    """Each waits for one write then, however fast it grows; who waits longest is first, and none is left out."""
    world = Notes(5)
    assert world.grow(world.rows, 200) == []
    assert world.said(world.notes.begin(0.0, 2)) == [(1, 800), (2, 800)]
    assert world.said(world.notes.begin(0.0, 2)) == [(3, 800), (4, 800)]
    assert world.said(world.notes.begin(0.0, 2)) == [(5, 400)]
    assert world.grow(world.rows[:4], 700) == world.rows[:4].tolist()


def test_first_notes_after_a_start_allow_the_maximum_where_many_pods_wait_for_them() -> None:
    """A pod that grows right after it was told does not wait for a second note."""
    world = Notes(5)
    world.pods.has_own_note[world.rows], world.pods.needs_note[world.rows] = False, True
    assert world.notes.may_tell(world.rows).tolist() == []
    assert world.said(world.notes.begin(0.0, 2)) == [(1, 800), (2, 800)]
    assert world.said(world.notes.begin(0.0, 2)) == [(3, 800), (4, 800)]
    assert world.said(world.notes.begin(0.0, 2)) == [(5, 200)]
    assert world.grow(world.rows[:4], 700) == world.rows[:4].tolist()


def test_a_permit_that_an_agent_has_under_a_lease_is_told_again_before_its_note_is_ours() -> None:
    """No note of the process before us can say less; what is above it waits, and is written before other notes."""
    world = Notes(4)
    world.pods.noted[:, world.rows] = np.array(MOST)[:, np.newaxis]
    world.pods.has_own_note[world.rows], world.pods.needs_note[world.rows] = False, True
    world.notes.keep(world.rows, np.ones(4, np.bool_))
    assert world.grow(world.rows, 100) == world.rows.tolist()
    assert world.grow(world.rows[:1], 50) == world.rows[:1].tolist()
    assert world.grow(world.rows[3:], 200) == []
    assert world.said(world.notes.begin(0.0, 1)) == [(4, 800)]
    assert world.notes.may_tell(world.rows[3:]).tolist() == world.rows[3:].tolist()


def test_what_an_agent_has_without_a_permit_is_not_told_before_its_note_is_ours() -> None:
    """As after a resize by hand, or by a new process: a late note may say less than that."""
    world = Notes(2)
    world.pods.has_own_note[world.rows], world.pods.needs_note[world.rows] = False, True
    world.notes.keep(world.rows, np.array([True, False]))
    assert world.grow(world.rows, 100) == world.rows[:1].tolist()
    world.notes.keep(world.rows[:1], np.zeros(1, np.bool_))  # another session announces it
    assert world.grow(world.rows[:1], 100) == []


def test_a_pod_that_waits_is_noted_before_those_that_nobody_waits_for() -> None:
    """A note that is lowered for a quiet pod can wait; the one that grows is told by it."""
    world = Notes(3)
    world.pods.permit[0, world.rows[:2]] = world.pods.wanted[0, world.rows[:2]] = 50
    assert world.grow(world.rows[2:], 300) == []
    assert world.said(world.notes.begin(31.0, 1)) == [(3, 600)]
    assert world.said(world.notes.begin(31.0, 1)) == [(1, 50)]
    assert world.said(world.notes.begin(31.0, 1)) == [(2, 50)]


def test_a_write_that_failed_is_tried_again_after_a_second() -> None:
    """The pod still waits to be told; its note is found again by the look through all pods."""
    world = Notes(1)
    world.grow(world.rows, 200)
    (note,) = world.notes.begin(0.0, 4)
    assert world.notes.end(note.uid, None, 0.0) == 0
    assert world.notes.begin(0.5, 4) == []
    assert world.said(world.notes.begin(1.0, 4)) == [(1, 400)]


def test_a_pod_that_went_while_it_waited_is_not_noted() -> None:
    """Neither one that an agent held, nor one whose note was to be taken over."""
    world = Notes(3)
    world.grow(world.rows[:1], 200)
    world.pods.session[world.rows[1:]] = world.pods.has_own_note[world.rows[1:]] = 0
    world.pods.floor[:, world.rows[1:]] = np.array(MOST)[:, np.newaxis]
    world.pods.drop(world.rows[:1])
    (note,) = world.notes.begin(1.0, 1)
    world.pods.drop(world.rows[2:])
    assert world.said([note]) == [(2, 100)]
    assert world.notes.begin(1.0, 4) == []


def test_a_process_whose_note_a_younger_one_has_replaced_writes_no_more() -> None:
    """It would take back what the younger one has told; the pod stays at what the last own note allowed."""
    world = Notes(1)
    world.grow(world.rows, 200)
    (note,) = world.notes.begin(0.0, 4)
    assert world.notes.end(note.uid, "by=young.1,cpu=100m,memory=10", 0.0) == 0
    assert world.grow(world.rows, 300) == []
    assert world.notes.begin(100.0, 4) == []
    assert world.grow(world.rows, 100) == world.rows.tolist()
