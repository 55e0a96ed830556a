"""The leaders of two pools on one cluster: one ledger, and a session for each (seed 000)."""

from __future__ import annotations

import numpy as np
import pytest

from argosy_core.errors import StateConflict
from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger
from argosy_core.ledger.records import PodEvents
from argosy_core.nodes import NodeSpec
from argosy_core.placement import CommitOutcome, CommitRequest, NodeSampler, Placements, SamplerSession

PLACED, CONFLICT = int(CommitOutcome.PLACED), int(CommitOutcome.CONFLICT)


def part(*handles: int) -> Placements:
    """Return a list of placements of one core on the node."""
    count = len(handles)
    return Placements(
        members=Members.of(handles, np.ones(count)),
        class_ids=np.ones(count, dtype=np.int32),
        node=np.zeros(count, dtype=np.int32),
        nodes=("n1",) if count else (),
    )


def two_sessions() -> tuple[NodeLedger, SamplerSession, SamplerSession]:
    """Return a node of four cores, and the sessions of two pools that have sent their empty lists."""
    ledger = NodeLedger(pool_count=2)
    ledger.put_nodes([NodeSpec(name="n1", total={"cpu": 4000, "pods": 10})])
    sessions = [
        SamplerSession(ledger, NodeSampler(ledger), np.random.default_rng(pool), pool=pool) for pool in range(2)
    ]
    for session in sessions:
        session.define([(1, SchedulingClass(requests=(("cpu", 1000),)))])
        session.begin()
        session.take_placements(part(), is_last=True)
    return ledger, sessions[0], sessions[1]


def place(session: SamplerSession, epoch: int, *handles: int) -> list[int]:
    """Place runs on the node; return their outcomes."""
    count = len(handles)
    request = CommitRequest(
        members=Members.of(handles, np.ones(count)),
        class_ids=np.ones(count, dtype=np.int32),
        offset=np.arange(count + 1, dtype=np.int32),
        candidate=np.zeros(count, dtype=np.int32),
    )
    return [int(outcome) for outcome in session.commit(epoch, request).outcome]


def free(ledger: NodeLedger) -> int:
    """Return the millicores that the node has left; the books must agree."""
    ledger.check_invariants()
    return int(ledger.nodes.free[ledger.axis.index("cpu"), 0])


def observe(ledger: NodeLedger, handle: int, *, ended: bool = False) -> None:
    """Let the cluster show a pod of one core of a run on the node."""
    requests = np.zeros((1, len(ledger.axis)), dtype=np.int64)
    requests[0, ledger.axis.index("cpu")], requests[0, ledger.axis.index("pods")] = 1000, 1
    ledger.observe(
        PodEvents(
            members=Members.of(np.array([handle]), np.ones(1, dtype=np.int32)),
            uids=np.full((1, 16), handle, dtype=np.uint8),
            nodes=np.zeros(1, dtype=np.int32),
            ended=np.array([ended]),
            requests=requests,
        )
    )


def test_together_they_place_no_more_than_there_is() -> None:
    """What one leader placed is a conflict for the other, whatever either has seen."""
    ledger, first, second = two_sessions()
    assert place(first, 1, 11, 12, 13) == [PLACED] * 3
    assert place(second, 9, 21, 22) == [PLACED, CONFLICT]
    assert place(first, 1, 14) == [CONFLICT]
    assert free(ledger) == 0


def test_epochs_are_counted_per_pool() -> None:
    """A pool's tenth leader does not end the first leader of another."""
    _, first, second = two_sessions()
    place(second, 10, 21)
    assert place(first, 1, 11) == [PLACED]
    with pytest.raises(StateConflict):
        place(second, 9, 22)


def test_a_list_speaks_of_its_own_pool_alone() -> None:
    """The next leader of a killed one drops what that one placed and nobody heard of; the other pool keeps its own."""
    ledger, first, second = two_sessions()
    place(first, 1, 11)
    place(second, 1, 21, 22)
    second.begin()
    assert place(first, 1, 12) == [PLACED], "one stream that broke stops nothing of the other"
    outcome = second.take_placements(part(21), is_last=True)
    assert outcome is not None
    assert (outcome.dropped_count, ledger.placement_count, free(ledger)) == (1, 3, 1000)


def test_a_release_lets_go_of_its_own_pools_placements_only() -> None:
    """One leader frees nothing of another's, even if it names the run."""
    ledger, first, second = two_sessions()
    place(first, 1, 11)
    second.release(1, Members.of([11], [1]))
    assert free(ledger) == 3000
    first.release(1, Members.of([11], [1]))
    assert free(ledger) == 4000


def test_what_ended_comes_back_with_neither_list() -> None:
    """A run whose pod was seen to end stays ended for its leader, though the other pool's list came in between."""
    ledger, first, second = two_sessions()
    place(second, 1, 21)
    observe(ledger, 21)
    observe(ledger, 21, ended=True)
    first.begin()
    first.take_placements(part(), is_last=True)
    second.begin()
    second.take_placements(part(21), is_last=True)
    assert (free(ledger), ledger.placement_count) == (4000, 0)


def test_a_pod_of_an_unlisted_pool_counts_for_the_other() -> None:
    """Before a leader has come at all, its running pods are facts."""
    ledger = NodeLedger(pool_count=2)
    ledger.put_nodes([NodeSpec(name="n1", total={"cpu": 4000, "pods": 10})])
    for handle in (21, 22, 23):
        observe(ledger, handle)
    first = SamplerSession(ledger, NodeSampler(ledger), np.random.default_rng(1))
    first.define([(1, SchedulingClass(requests=(("cpu", 1000),)))])
    first.begin()
    first.take_placements(part(), is_last=True)
    assert place(first, 1, 11, 12) == [PLACED, CONFLICT]
    second = SamplerSession(ledger, NodeSampler(ledger), np.random.default_rng(2), pool=1)
    second.define([(1, SchedulingClass(requests=(("cpu", 1000),)))])
    second.begin()
    second.take_placements(part(21, 22, 23), is_last=True)
    assert (free(ledger), ledger.placement_count) == (0, 4)
