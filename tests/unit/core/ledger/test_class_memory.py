"""Classes that a ledger knows: those that leaders may name and those behind placements, not all there ever were.

Source: design section 6, "Data layout".
"""

from __future__ import annotations

import numpy as np
import pytest

from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.classes import GangGroup, HostPort, SchedulingClass, Toleration
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger
from argosy_core.nodes import NodeSpec

_BATCH = 500


def class_of(number: int, **more: object) -> SchedulingClass:
    """Return a class like no other."""
    return SchedulingClass(requests=(("cpu", 10),), tolerations=(Toleration(key=f"t{number}"),), **more)  # type: ignore[arg-type]


def make_ledger(pool_count: int = 1) -> NodeLedger:
    """Return a ledger of one node."""
    ledger = NodeLedger(pool_count=pool_count)
    ledger.put_nodes([NodeSpec(name="n", total={"cpu": 100_000, "memory": 1 << 40, "pods": 100})])
    return ledger


def drop_before(ledger: NodeLedger) -> None:
    """Tell classes that are dropped, so that those told after them get other slots when the table is made anew."""
    for class_id in range(500, 600):
        ledger.define_class(class_id, class_of(class_id, host_ports=(HostPort("TCP", class_id),)))
    ledger.forget_classes(range(500, 600))


def place(ledger: NodeLedger, handle: int, class_id: int, member: int = 0) -> None:
    """Place a member of a run on the node."""
    slots = ledger.classes.member_indices(ledger.classes.slots(np.array([class_id])), np.array([member]))
    nodes = np.zeros(1, np.int32)
    ledger.reserve(slots, nodes)
    ledger.keep(Members.of(np.array([handle]), np.array([1]), np.array([member])), slots, nodes)


def pass_by(ledger: NodeLedger, first: int, count: int, pool: int = 0) -> int:
    """Tell many classes that are dropped again, a batch at a time; return the most that were known at once."""
    most = 0
    for begin in range(first, first + count, _BATCH):
        batch = range(begin, begin + _BATCH)
        for class_id in batch:
            ledger.define_class(class_id, class_of(class_id), pool)
        most = max(most, len(ledger.classes))
        ledger.forget_classes(batch, pool)
    return most


def test_fifty_thousand_classes_that_come_and_go_leave_a_small_table() -> None:
    """The parts of which classes are made leave with them."""
    ledger = make_ledger()
    ledger.define_class(1, class_of(1))
    assert pass_by(ledger, 1000, 50_000) <= 4 * _BATCH
    assert len(ledger.classes.tolerations) <= 4 * _BATCH
    assert ledger.classes[int(ledger.classes.slots(np.array([1]))[0])] == class_of(1)


def test_placement_keeps_its_class_and_its_ports_when_others_leave() -> None:
    """What is booked is given back whole, and a port is free only then."""
    ledger, port = make_ledger(), HostPort("TCP", 80)
    drop_before(ledger)
    ledger.define_class(1, class_of(1))
    ledger.define_class(2, class_of(2, host_ports=(port,)))
    place(ledger, 7, 2)
    ledger.forget_classes([2])
    pass_by(ledger, 1000, 5000)
    ledger.check_invariants()
    (slot,) = ledger.classes.slots(np.array([2])).tolist()
    assert ledger.classes[slot].host_ports == (port,)
    assert not ledger.nodes.ports.is_free(0, (port,))
    ledger.release(Members.of(np.array([7]), np.array([1])))
    ledger.check_invariants()
    assert ledger.nodes.ports.is_free(0, (port,))
    assert ledger.nodes.free[ledger.axis.index("cpu"), 0] == 100_000
    pass_by(ledger, 10_000, 5000)
    assert ledger.classes.slots(np.array([1, 2])).tolist()[1] == -1


def test_gang_keeps_its_class_while_one_of_its_members_is_placed() -> None:
    """A member's class is that of its pod, which comes and goes with its gang."""
    ledger, pod = make_ledger(), SchedulingClass(requests=(("cpu", 500),))
    drop_before(ledger)
    gang = SchedulingClass.of_gang([GangGroup(name="workers", pod=pod, minimum=2, maximum=2)])
    ledger.define_class(3, gang)
    place(ledger, 7, 3, member=1)
    ledger.forget_classes([3])
    pass_by(ledger, 1000, 5000)
    (slot,) = ledger.classes.slots(np.array([3])).tolist()
    assert ledger.classes[slot] == gang
    members = Members.of(np.array([7]), np.array([1]), np.array([1]))
    outcome = ledger.take_list(members, np.array([3], np.int32), np.zeros(1, np.int32))
    assert (outcome.moved_count, outcome.dropped_count, outcome.added_count) == (0, 0, 0)


def test_class_stays_while_another_pools_leader_may_name_it() -> None:
    """The leaders of two pools tell and drop the same class each for itself."""
    ledger = make_ledger(pool_count=2)
    for pool in range(2):
        ledger.define_class(1, class_of(1), pool)
    ledger.forget_classes([1], 0)
    pass_by(ledger, 1000, 5000)
    assert ledger.classes.slots(np.array([1])) >= 0
    ledger.forget_classes([1], 1)
    pass_by(ledger, 10_000, 5000)
    assert ledger.classes.slots(np.array([1])) < 0


def test_new_leader_that_has_told_few_classes_leaves_few() -> None:
    """Of what the one before it has told, it knows nothing."""
    ledger = make_ledger()
    for class_id in range(1, 5001):
        ledger.define_class(class_id, class_of(class_id))
    ledger.keep_classes({5, 6})
    assert len(ledger.classes) == 2
    with pytest.raises(InvalidRequest, match="class 7"):
        ledger.take_list(Members.of(np.array([9]), np.array([1])), np.array([7], np.int32), np.zeros(1, np.int32))
