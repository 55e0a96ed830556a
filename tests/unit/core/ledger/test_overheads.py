"""What pods of RuntimeClasses take beside their containers, from the commit on.

Source: the formula of `argosy_core.job.reading.requests`; Kubernetes, "Pod Overhead".
"""

from __future__ import annotations

import numpy as np

from argosy_core.job.reading.classes import GangGroup, HostPort, SchedulingClass
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger, PodEvents
from argosy_core.nodes import NodeSpec
from argosy_core.placement import CommitOutcome, commit

OVERHEADS = {"sandbox": {"cpu": 250, "memory": 100, "example.com/slot": 1}}
PORT = HostPort("TCP", 80)


def make_ledger(**fields: object) -> NodeLedger:
    """Return a ledger of one node of two cores, and class 1 of one core in a sandbox."""
    ledger = NodeLedger()
    ledger.put_nodes([NodeSpec(name="n", total={"cpu": 2000, "memory": 1000, "pods": 10, "example.com/slot": 5})])
    fields = {"requests": (("cpu", 1000),), "runtime_classes": (("sandbox", 1),), **fields}
    ledger.define_class(1, SchedulingClass(**fields))  # type: ignore[arg-type]
    return ledger


def free(ledger: NodeLedger) -> tuple[int, int, int]:
    """Return what the node has free of millicores, memory and slots."""
    ledger.check_invariants()
    columns = [ledger.axis.index(name) for name in ("cpu", "memory", "example.com/slot")]
    cpu, memory, slots = ledger.nodes.free[columns, 0].tolist()
    return cpu, memory, slots


def place(ledger: NodeLedger, *handles: int) -> list[int]:
    """Commit runs of class 1 to the node; return the outcomes."""
    count = len(handles)
    _, outcomes = commit(
        ledger,
        Members.of(np.array(handles), np.ones(count, np.int64)),
        class_ids=np.ones(count, np.int32),
        offsets=np.arange(count + 1, dtype=np.int32),
        candidates=np.zeros(count, np.int32),
    )
    return outcomes.tolist()


def see_pod(ledger: NodeLedger, handle: int, **amounts: int) -> None:
    """Observe the pod of a run with what it asks for, its overhead included."""
    ledger.observe(
        PodEvents(
            members=Members.of(np.array([handle]), np.array([1])),
            uids=np.full((1, 16), handle, np.uint8),
            nodes=np.zeros(1, np.int32),
            ended=np.zeros(1, np.bool_),
            requests=ledger.axis.vector(amounts)[None, :],
        )
    )


def test_overhead_is_booked_before_the_pod_is_seen_and_once_it_is() -> None:
    """A second run that would fit without it conflicts, and the pod adds nothing to its placement."""
    ledger = make_ledger()
    ledger.set_overheads(OVERHEADS)
    assert place(ledger, 5, 6) == [CommitOutcome.PLACED, CommitOutcome.CONFLICT]
    assert free(ledger) == (750, 900, 4)
    see_pod(ledger, 5, **{"cpu": 1250, "memory": 100, "pods": 1, "example.com/slot": 1})
    assert free(ledger) == (750, 900, 4)
    ledger.release(Members.of(np.array([5]), np.array([1])))
    assert free(ledger) == (750, 900, 4)


def test_overhead_that_changes_counts_for_placements_without_a_pod_and_not_for_pods_that_are_there() -> None:
    """A pod keeps the overhead that it was made with; what is made later has the new one."""
    ledger = make_ledger(host_ports=(PORT,))
    assert place(ledger, 5) == [CommitOutcome.PLACED]
    assert free(ledger) == (1000, 1000, 5)
    ledger.set_overheads(OVERHEADS)
    assert free(ledger) == (750, 900, 4)
    assert not ledger.nodes.ports.is_free(0, (PORT,))
    see_pod(ledger, 5, **{"cpu": 1250, "memory": 100, "pods": 1, "example.com/slot": 1})
    ledger.set_overheads({"sandbox": {"cpu": 700}})
    assert free(ledger) == (750, 900, 4)
    ledger.set_overheads({})
    assert free(ledger) == (750, 900, 4)


def test_two_pods_of_a_bag_take_two_overheads() -> None:
    """A run's pods are booked together."""
    ledger = make_ledger(requests=(("cpu", 1000), ("pods", 2)), runtime_classes=(("other", 1), ("sandbox", 2)))
    ledger.set_overheads(OVERHEADS)
    assert place(ledger, 5) == [CommitOutcome.PLACED]
    assert free(ledger) == (500, 800, 3)


def test_pods_of_a_gang_take_theirs() -> None:
    """A sub-group's class names its own."""
    ledger = make_ledger()
    pod = SchedulingClass(requests=(("cpu", 500),), runtime_classes=(("sandbox", 1),))
    ledger.define_class(2, SchedulingClass.of_gang([GangGroup(pod=pod, minimum=2, maximum=2)]))
    ledger.set_overheads(OVERHEADS)
    gang = ledger.classes.gangs[int(ledger.classes.slots(np.array([2]))[0])]
    assert ledger.classes.requests[gang.pods[0], ledger.axis.index("cpu")] == 750
