"""How many pods nodes hold, and how many nodes a class is answered."""

import numpy as np
import pytest

from argosy_core.job.reading.classes import HostPort, SchedulingClass
from argosy_core.ledger import NodeLedger
from argosy_core.nodes import NodeSpec
from argosy_core.placement.needs import NODE_BITS, Needs, count_room, nodes_of

PORTS = (HostPort(protocol="TCP", port=8080),)


def make_ledger() -> NodeLedger:
    """Nodes of 8, 4 and 2 cores, 10 units of memory and 5 pods."""
    ledger = NodeLedger()
    total = {"memory": 10, "pods": 5}
    ledger.put_nodes([NodeSpec(name=f"n{cpu}", total={"cpu": cpu, **total}) for cpu in (8, 4, 2)])
    ledger.define_class(0, SchedulingClass(requests=(("cpu", 1),)))
    ledger.define_class(1, SchedulingClass(requests=(("cpu", 1), ("memory", 5))))
    ledger.define_class(2, SchedulingClass(requests=(("cpu", 3),)))
    ledger.define_class(3, SchedulingClass(requests=(("cpu", 1),), host_ports=PORTS))
    return ledger


def ranks_of(*rows: list[int]) -> np.ndarray:
    """Ranks of nodes, the first the best; -1 stays."""
    return np.array([[(10 - i) << NODE_BITS | node if node >= 0 else -1 for i, node in enumerate(row)] for row in rows])


def needs_of(wanted: list[int], *, enough: int = 1, spare: int = 1) -> Needs:
    """Needs of the classes 0, 1, ..., one per number."""
    ledger = make_ledger()
    slots = np.arange(len(wanted), dtype=np.int32)
    return Needs(ledger.nodes, ledger.classes, slots, wanted=np.array(wanted), enough=enough, spare=spare)


def test_ranks_say_their_nodes() -> None:
    """The lowest bits of a rank are the node."""
    assert nodes_of(ranks_of([2, 0, 1])).tolist() == [[2, 0, 1]]


@pytest.mark.parametrize(
    ("slot", "expected"),
    [(0, [5, 4, 2, 0]), (1, [2, 2, 2, 0]), (2, [2, 1, 1, 0]), (3, [1, 1, 1, 0])],
    ids=["pods-or-cores", "memory", "at-least-one", "host-port-once"],
)
def test_room_is_what_the_scarcest_resource_holds(slot: int, expected: list[int]) -> None:
    """The least of free over asked; an eligible node holds one, an empty place none, a host port is there once."""
    ledger = make_ledger()
    assert count_room(ledger.nodes, ledger.classes, np.array([slot]), ranks_of([0, 1, 2, -1])).tolist() == [expected]


def test_room_of_several_classes_keeps_them_apart() -> None:
    """A resource that only one class asks for does not bound the other."""
    ledger = make_ledger()
    rooms = count_room(ledger.nodes, ledger.classes, np.array([0, 1]), ranks_of([0, 1], [0, 1]))
    assert rooms.tolist() == [[5, 4], [2, 2]]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [(2, False), (9, False), (10, True)],
    ids=["one-each", "just-enough", "too-many"],
)
def test_room_is_lacking_when_more_pods_wait_than_found_nodes_hold(wanted: int, *, expected: bool) -> None:
    """The nodes of 8 and 4 cores hold 5 and 4 pods."""
    lacking = needs_of([wanted]).are_lacking(np.array([0]), ranks_of([0, 1]), np.array([2], np.int32))
    assert lacking.tolist() == [expected]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [(0, 1), (1, 2), (5, 2), (9, 2), (10, 4), (11, 4), (99, 5)],
    ids=["none", "one", "best-holds-all", "two-hold-all", "three-hold-all", "all", "not-even-all"],
)
def test_classes_are_answered_the_best_nodes_that_hold_their_pods_and_some_to_spare(wanted: int, expected: int) -> None:
    """The best nodes hold 5, 4 and 2 pods; one node is to spare, and never more than a node a pod and that one."""
    needs = needs_of([wanted], enough=2)
    assert needs.limit_nodes(np.array([0]), ranks_of([0, 1, 2])[:, ::-1]).tolist() == [expected]
