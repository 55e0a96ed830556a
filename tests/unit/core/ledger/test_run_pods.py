"""Pods of runs become one pod a run, and nothing more is kept of them than must be."""

from __future__ import annotations

import weakref
from dataclasses import replace

import numpy as np

from argosy_core.job.tables.members import Members
from argosy_core.ledger import PodEvents, RunPods


def pods(*rows: tuple[int, int, bool], shapes: list[list[int]]) -> PodEvents:
    """Return events of (handle, uid, ended), each pod as the shape of its place among `shapes`, repeated."""
    return PodEvents(
        members=Members.of([handle for handle, _, _ in rows], [1] * len(rows)),
        uids=np.array([[uid] * 16 for _, uid, _ in rows], dtype=np.uint8),
        nodes=np.zeros(len(rows), dtype=np.int32),
        ended=np.array([ended for _, _, ended in rows], dtype=np.bool_),
        requests=np.array([shapes[place % len(shapes)] for place in range(len(rows))], dtype=np.int64),
    )


def test_bag_asks_for_what_its_live_pods_ask_for_together() -> None:
    """The run stands under its first pod's uid, and ends with the last of them."""
    run_pods, shapes = RunPods(), np.array([[1, 10], [2, 20]])
    column = np.array([0, 1], dtype=np.int32)
    begun = run_pods.fold(pods((7, 1, False), (7, 2, False), shapes=[[1, 10], [2, 20]]), shapes, column)
    assert begun.requests.tolist() == [[1, 10], [3, 30]]
    assert begun.uids[:, 0].tolist() == [1, 1]
    first = run_pods.fold(pods((7, 1, True), shapes=[[1, 10]]), shapes, column[:1])
    assert (first.requests.tolist(), first.ended.tolist()) == ([[2, 20]], [False])
    last = run_pods.fold(pods((7, 2, True), shapes=[[2, 20]]), shapes, column[1:])
    assert last.ended.tolist() == [True]


def test_events_of_no_pod_are_taken_while_a_run_has_several() -> None:
    """A cluster may show changes of other kinds alone."""
    run_pods, shapes = RunPods(), np.array([[1, 10]])
    run_pods.fold(pods((7, 1, False), (7, 2, False), shapes=[[1, 10]]), shapes, np.zeros(2, dtype=np.int32))
    nothing = pods(shapes=[[1, 10]])
    nothing = replace(nothing, uids=np.zeros((0, 16), dtype=np.uint8), requests=np.zeros((0, 2), dtype=np.int64))
    assert len(run_pods.fold(nothing, shapes, np.zeros(0, dtype=np.int32)).members) == 0


def test_live_pod_keeps_its_requests_and_not_the_table_in_which_they_came() -> None:
    """A cluster's table of requests comes anew each time it grows; old ones must not live as long as their pods."""
    run_pods = RunPods()
    table = np.ones((1000, 4), dtype=np.int64)
    gone = weakref.ref(table)
    column = np.zeros(1, dtype=np.int32)
    run_pods.fold(pods((7, 1, False), shapes=[[1] * 4]), table, column)
    table = np.ones((1001, 4), dtype=np.int64)
    run_pods.fold(pods((8, 2, False), shapes=[[1] * 4]), table, column)
    assert gone() is None
    second = run_pods.fold(pods((7, 3, False), shapes=[[1] * 4]), table, column)
    assert second.requests.tolist() == [[2] * 4]


def test_pods_of_a_batch_are_taken_in_order() -> None:
    """One that begins and ends, and the next one of its member, in one batch; what is over leaves nothing behind."""
    run_pods, shapes = RunPods(), np.array([[1]])
    rows = ((7, 1, False), (8, 4, False), (7, 1, True), (7, 2, False), (7, 3, False), (7, 2, True), (7, 3, True))
    folded = run_pods.fold(pods(*rows, shapes=[[1]]), shapes, np.zeros(len(rows), dtype=np.int32))
    assert folded.requests[:, 0].tolist() == [1, 1, 1, 1, 2, 1, 1]
    assert folded.uids[:, 0].tolist() == [1, 4, 1, 2, 2, 2, 2]
    assert folded.ended.tolist() == [False, False, True, False, False, False, True]
    run_pods.fold(pods((8, 4, True), shapes=[[1]]), shapes, np.zeros(1, dtype=np.int32))
    assert (len(run_pods._index), run_pods._several, set(run_pods._asked.tolist())) == (0, {}, {None})


def test_pods_of_many_members_grow_the_table_and_free_it_again() -> None:
    """Each slot is given to one member at a time."""
    run_pods, shapes, count = RunPods(), np.array([[1]]), 1000
    column = np.zeros(count, dtype=np.int32)
    for round_number in range(3):
        rows = [(round_number * count + place + 1, place % 251, False) for place in range(count)]
        events = pods(*rows, shapes=[[1]])
        assert run_pods.fold(events, shapes, column) is events
        ended = pods(*((handle, uid, True) for handle, uid, _ in rows), shapes=[[1]])
        assert run_pods.fold(ended, shapes, column) is ended
    assert (len(run_pods._index), sorted(run_pods._spare.tolist())) == (0, list(range(len(run_pods._uid))))
    assert run_pods._spare_count == len(run_pods._spare)
