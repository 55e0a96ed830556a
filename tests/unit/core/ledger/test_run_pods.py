"""Pods of runs become one pod a run, and nothing more is kept of them than must be."""

from __future__ import annotations

import weakref

import numpy as np
from tests.unit.core.ledger.permit_ledgers import BOUNDS, World

from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger, PodEvents
from argosy_core.nodes import NodeSpec

SHAPES = np.array([[1, 10, 1], [2, 20, 1]])


def make_ledger() -> NodeLedger:
    """A node of 1,000 millicores, bytes and pods."""
    ledger = NodeLedger()
    ledger.put_nodes([NodeSpec(name="a", total={"cpu": 1000, "memory": 1000, "pods": 1000})])
    return ledger


def take(
    ledger: NodeLedger,
    *rows: tuple[int, int, bool],
    shapes: np.ndarray = SHAPES,
    everything: bool = False,
    node: int = 0,
) -> PodEvents:
    """Take in events of (handle, uid, ended), each pod as the shape of its uid, and return what counts."""
    column = np.array([uid % len(shapes) for _, uid, _ in rows], dtype=np.int32)
    events = PodEvents(
        members=Members.of([handle for handle, _, _ in rows], [1] * len(rows)),
        uids=np.array([[uid] * 16 for _, uid, _ in rows], dtype=np.uint8).reshape(len(rows), 16),
        nodes=np.full(len(rows), node, dtype=np.int32),
        ended=np.array([ended for _, _, ended in rows], dtype=np.bool_),
        requests=shapes[column],
    )
    taken = (ledger.take_pod_list if everything else ledger.take_pods)(events, shapes=shapes, shape_column=column)
    ledger.check_invariants()
    return taken


def used_cpu(ledger: NodeLedger) -> int:
    """Return how many millicores of the node are taken."""
    return 1000 - int(ledger.nodes.free[0, 0])


def test_bag_asks_for_what_its_live_pods_ask_for_together() -> None:
    """The run stands under its first pod's uid, and ends with the last of them."""
    ledger = make_ledger()
    begun = take(ledger, (7, 2, False), (7, 1, False))
    assert begun.requests.tolist() == [[1, 10, 1], [3, 30, 2]]
    assert (begun.uids[:, 0].tolist(), used_cpu(ledger)) == ([2, 2], 3)
    first = take(ledger, (7, 2, True))
    assert (first.requests.tolist(), first.ended.tolist(), used_cpu(ledger)) == ([[2, 20, 1]], [False], 2)
    last = take(ledger, (7, 1, True))
    assert (last.ended.tolist(), used_cpu(ledger)) == ([True], 0)


def test_second_pod_that_comes_in_another_batch_counts_beside_the_first() -> None:
    """What the first asked for is known from its own event, though its placement holds more."""
    ledger = make_ledger()
    take(ledger, (7, 2, False), (8, 4, False))
    assert take(ledger, (7, 1, False)).requests.tolist() == [[3, 30, 2]]
    assert used_cpu(ledger) == 4
    take(ledger, (7, 2, True), (7, 1, True), (8, 4, True))
    assert used_cpu(ledger) == 0


def test_second_pod_of_a_member_whose_first_was_seen_otherwise_counts_beside_what_is_booked() -> None:
    """Whoever only observes does not say what pods ask for by themselves."""
    ledger = make_ledger()
    ledger.observe(
        PodEvents(
            members=Members.of([7], [1]),
            uids=np.full((1, 16), 9, dtype=np.uint8),
            nodes=np.zeros(1, dtype=np.int32),
            ended=np.zeros(1, dtype=np.bool_),
            requests=np.array([[5, 50, 1]]),
        )
    )
    assert take(ledger, (7, 1, False)).requests.tolist() == [[7, 70, 2]]


def test_member_whose_placement_ends_starts_anew() -> None:
    """Its slot may be another's by then, which must not count for it, nor it for the other."""
    ledger = make_ledger()
    take(ledger, (7, 2, False), (7, 1, False))
    take(ledger, (7, 2, True), (7, 1, True))
    taken = take(ledger, (8, 3, False), (7, 4, False))
    assert (taken.requests[:, 0].tolist(), taken.uids[:, 0].tolist(), used_cpu(ledger)) == ([2, 1], [3, 4], 3)
    assert take(ledger, (8, 3, True)).ended.tolist() == [True]


def test_events_of_no_pod_are_taken_while_a_run_has_several() -> None:
    """A cluster may show changes of other kinds alone."""
    ledger = make_ledger()
    take(ledger, (7, 1, False), (7, 2, False))
    assert len(take(ledger).members) == 0


def test_full_list_says_which_pods_there_are() -> None:
    """One that ended unseen counts no more, whether it was the first or another, and those that are there do."""
    for gone, stays in ((2, 1), (1, 2)):
        ledger = make_ledger()
        take(ledger, (7, 2, False), (7, 1, False), (8, 4, False))
        listed = take(ledger, (7, stays, False), (8, 4, False), everything=True)
        assert (listed.uids[:, 0].tolist(), used_cpu(ledger)) == ([stays, 4], 1 + int(SHAPES[stays % 2, 0]))
        assert take(ledger, (7, gone, True)).ended.tolist() == [True]
        assert used_cpu(ledger) == 1 + int(SHAPES[stays % 2, 0])
        assert take(ledger, (7, 6, False)).requests[:, 0].tolist() == [1 + int(SHAPES[stays % 2, 0])]
        take(ledger, (7, 6, True), (7, stays, True))
        assert used_cpu(ledger) == 1


def test_full_list_takes_the_pods_of_a_member_together() -> None:
    """As their events would be; one that ended is none of them."""
    ledger = make_ledger()
    listed = take(ledger, (7, 3, True), (7, 2, False), (8, 4, False), (7, 1, False), everything=True)
    assert (listed.requests[:, 0].tolist(), used_cpu(ledger)) == ([2, 1, 1, 3], 4)
    assert take(ledger, (7, 2, True)).ended.tolist() == [False]
    assert used_cpu(ledger) == 3
    assert take(ledger, (7, 1, True)).ended.tolist() == [True]
    assert used_cpu(ledger) == 1


def test_second_pod_counts_beside_what_a_listed_first_one_asks_for_not_beside_its_class() -> None:
    """A class holds the room of all pods of a member until they are there."""
    ledger = make_ledger()
    ledger.define_class(1, SchedulingClass(requests=(("cpu", 5), ("memory", 50))))
    one = Members.of([7], [1])
    ledger.reserve(ledger.classes.slots(np.array([1])), np.zeros(1, dtype=np.int32))
    ledger.keep(one, ledger.classes.slots(np.array([1])), np.zeros(1, dtype=np.int32))
    take(ledger, (7, 2, False), everything=True)
    assert used_cpu(ledger) == 5
    assert take(ledger, (7, 1, False)).requests[:, 0].tolist() == [3]


def test_second_pod_counts_beside_what_a_resized_first_one_asked_for() -> None:
    """Whatever permit its agent got meanwhile."""
    world = World()
    shapes, column = np.array([[200, 20, 1]]), np.zeros(1, dtype=np.int32)
    first, second = (
        PodEvents(
            members=Members.of([7], [1]),
            uids=np.array([[uid, *[0] * 15]], dtype=np.uint8),
            nodes=np.zeros(1, dtype=np.int32),
            ended=np.zeros(1, dtype=np.bool_),
            requests=shapes,
            scalings={0: BOUNDS},
        )
        for uid in (1, 2)
    )
    world.ledger.take_pods(first, shapes=shapes, shape_column=column)
    assert world.join(1) == [0]
    assert world.ask({1: (400, 40)}) == [0]
    taken = world.ledger.take_pods(second, shapes=shapes, shape_column=column)
    assert taken.requests.tolist() == [[400, 40, 2]]


def test_pod_that_is_listed_without_a_node_is_the_one_its_member_has() -> None:
    """It takes the place of one that ended unseen, and does not count beside it once it has a node."""
    ledger = make_ledger()
    take(ledger, (7, 2, False))
    take(ledger, (7, 1, False), everything=True, node=-1)
    assert take(ledger, (7, 1, False)).requests[:, 0].tolist() == [2]


def test_live_pod_keeps_its_requests_and_not_the_table_in_which_they_came() -> None:
    """A cluster's table of requests comes anew each time it grows; old ones must not live as long as their pods."""
    ledger, columns = make_ledger(), 3
    table = np.ones((1000, columns), dtype=np.int64)
    gone = weakref.ref(table)
    take(ledger, (7, 1, False), shapes=table)
    table = np.ones((1001, columns), dtype=np.int64)
    take(ledger, (8, 2, False), shapes=table)
    assert gone() is None
    assert take(ledger, (7, 3, False), shapes=table).requests.tolist() == [[2] * columns]


def test_pods_of_a_batch_are_taken_in_order() -> None:
    """One that begins and ends, and the next one of its member, in one batch; what is over leaves nothing behind."""
    ledger = make_ledger()
    rows = ((7, 2, False), (8, 4, False), (7, 2, True), (7, 6, False), (7, 8, False), (7, 6, True), (7, 8, True))
    taken = take(ledger, *rows)
    assert taken.requests[:, 0].tolist() == [1, 1, 1, 1, 2, 1, 1]
    assert taken.uids[:, 0].tolist() == [2, 4, 2, 6, 6, 6, 6]
    assert taken.ended.tolist() == [False, False, True, False, False, False, True]
    take(ledger, (8, 4, True))
    table = ledger._placements
    assert (len(table), table.several, set(table.asks.tolist()), table.has_several.any()) == (0, {}, {None}, False)


def test_pods_of_many_members_grow_the_table_and_free_it_again() -> None:
    """Each slot is given to one member at a time."""
    ledger, count, shapes = make_ledger(), 900, np.array([[0, 0, 1]])
    for round_number in range(3):
        rows = [(round_number * count + place + 1, place % 251 + 1, False) for place in range(count)]
        assert take(ledger, *rows, shapes=shapes).requests.tolist() == [[0, 0, 1]] * count
        assert len(ledger._placements) == count
        take(ledger, *((handle, uid, True) for handle, uid, _ in rows), shapes=shapes)
    table = ledger._placements
    assert (len(table), sorted(table._spare.tolist())) == (0, list(range(len(table.hold))))
    assert set(table.asks.tolist()) == {None}
