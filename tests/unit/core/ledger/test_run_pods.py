"""Pods of runs become one pod a run, and nothing more is kept of them than must be."""

from __future__ import annotations

import weakref

import numpy as np

from argosy_core.ledger import PodEvents, RunPods


def pods(*rows: tuple[int, int, bool], shapes: list[list[int]]) -> PodEvents:
    """Return events of (run key, uid, ended), each pod as the shape of its place among `shapes`, repeated."""
    return PodEvents(
        run_keys=np.array([key for key, _, _ in rows], dtype=np.int64),
        uids=np.array([[uid] * 16 for _, uid, _ in rows], dtype=np.uint8),
        nodes=np.zeros(len(rows), dtype=np.int32),
        ended=np.array([ended for _, _, ended in rows], dtype=np.bool_),
        requests=np.array([shapes[place % len(shapes)] for place in range(len(rows))], dtype=np.int64),
    )


def test_bag_asks_for_what_its_live_pods_ask_for_together() -> None:
    """The run stands under its first pod's uid, and ends with the last of them."""
    run_pods, shapes = RunPods(), [np.array([1, 10]), np.array([2, 20])]
    column = np.array([0, 1], dtype=np.int32)
    begun = run_pods.fold(pods((7, 1, False), (7, 2, False), shapes=[[1, 10], [2, 20]]), shapes, column)
    assert begun.requests.tolist() == [[1, 10], [3, 30]]
    assert begun.uids[:, 0].tolist() == [1, 1]
    first = run_pods.fold(pods((7, 1, True), shapes=[[1, 10]]), shapes, column[:1])
    assert (first.requests.tolist(), first.ended.tolist()) == ([[2, 20]], [False])
    last = run_pods.fold(pods((7, 2, True), shapes=[[2, 20]]), shapes, column[1:])
    assert last.ended.tolist() == [True]


def test_live_pod_keeps_its_requests_and_not_the_table_in_which_they_came() -> None:
    """A cluster's table of requests comes anew each time it grows; old ones must not live as long as their pods."""
    run_pods = RunPods()
    table = np.ones((1000, 4), dtype=np.int64)
    gone = weakref.ref(table)
    column = np.zeros(1, dtype=np.int32)
    run_pods.fold(pods((7, 1, False), shapes=[[1] * 4]), list(table), column)
    table = np.ones((1001, 4), dtype=np.int64)
    run_pods.fold(pods((8, 2, False), shapes=[[1] * 4]), list(table), column)
    assert gone() is None
    second = run_pods.fold(pods((7, 3, False), shapes=[[1] * 4]), list(table), column)
    assert second.requests.tolist() == [[2] * 4]
