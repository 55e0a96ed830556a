"""A sampler's session with its leader: what is refused, and when answers begin."""

from __future__ import annotations

import numpy as np
import pytest

from argosy_core.errors import NotAllowedNow, StateConflict
from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger
from argosy_core.nodes import NodeSpec
from argosy_core.placement import CommitOutcome, CommitRequest, NodeSampler, Placements, SampleRequest, SamplerSession

HANDLES = np.array([7], dtype=np.int64)
ATTEMPTS = np.ones(1, dtype=np.int32)


def new_session() -> SamplerSession:
    """Return the session of a cluster with one node for two runs, before its list."""
    ledger = NodeLedger()
    ledger.put_nodes([NodeSpec(name="n1", total={"cpu": 2000, "pods": 10})])
    session = SamplerSession(ledger, NodeSampler(ledger), np.random.default_rng(1))
    session.define([(1, SchedulingClass(requests=(("cpu", 1000),)))])
    session.begin()
    return session


def part(*handles: int) -> Placements:
    """Return a part of a list of placements on the node."""
    count = len(handles)
    return Placements(
        members=Members.of(handles, np.ones(count)),
        class_ids=np.ones(count, dtype=np.int32),
        node=np.zeros(count, dtype=np.int32),
        nodes=("n1",) if count else (),
    )


def place(session: SamplerSession, epoch: int, handles: np.ndarray = HANDLES) -> int:  # type: ignore[type-arg]
    """Place a run on the node; return its outcome."""
    count = handles.size
    request = CommitRequest(
        members=Members.of(handles, np.ones(count)),
        class_ids=np.ones(count, dtype=np.int32),
        offset=np.arange(count + 1, dtype=np.int32),
        candidate=np.zeros(count, dtype=np.int32),
    )
    return int(session.commit(epoch, request).outcome[0])


def test_nothing_is_placed_before_the_last_part_of_the_list() -> None:
    """A sampler that does not know what was given away would give it away again."""
    session = new_session()
    assert session.take_placements(part(1), is_last=False) is None
    with pytest.raises(NotAllowedNow, match="list"):
        place(session, 1)
    outcome = session.take_placements(part(2), is_last=True)
    assert outcome is not None
    assert outcome.added_count == 2
    assert place(session, 1) == CommitOutcome.CONFLICT


def test_what_waited_for_a_leader_that_went_is_not_told_to_the_next() -> None:
    """It asks for everything again; a class that it never asked for is no news to it."""
    session = new_session()
    session.take_placements(part(1, 2), is_last=True)
    session.sample(
        1,
        SampleRequest(
            class_ids=np.ones(1, np.int32), wanted=np.ones(1, np.int32), complete=np.ones(1, np.int8),
            resources=("cpu",), nodes_to_sample_ratio=1.0,
        ),
    )  # fmt: skip
    assert session.sampler.waiting_count == 1
    session.begin()
    session.take_placements(part(), is_last=True)
    assert session.sampler.waiting_count == 0
    assert session.sampler.take_fitting()[0].size == 0


def test_another_stream_begins_with_a_list_again() -> None:
    """Parts of a list that broke off count for nothing."""
    session = new_session()
    session.take_placements(part(1), is_last=False)
    session.begin()
    session.take_placements(part(), is_last=True)
    assert session.ledger.placement_count == 0
    session.begin()
    with pytest.raises(NotAllowedNow, match="list"):
        place(session, 1)


def test_members_of_a_run_are_listed_and_released_apart() -> None:
    """A list and a release name members: what is said of one leaves the others of its run as they are."""
    session = new_session()
    both = Members.of([7, 7], [1, 1], np.array([0, 1]))
    listed = Placements(
        members=both,
        class_ids=np.ones(2, dtype=np.int32),
        node=np.zeros(2, dtype=np.int32),
        nodes=("n1",),
    )
    session.take_placements(listed, is_last=True)
    assert session.ledger.placement_count == 2
    session.release(1, both[1:])
    assert session.ledger.nodes_of(both).tolist() == [0, -1]


def test_a_lower_epoch_changes_nothing() -> None:
    """Invariant 9: whoever was replaced neither places nor releases."""
    session = new_session()
    session.take_placements(part(), is_last=True)
    assert place(session, 3) == CommitOutcome.PLACED
    with pytest.raises(StateConflict, match="epoch 2 is over"):
        place(session, 2, np.array([8], dtype=np.int64))
    with pytest.raises(StateConflict, match="epoch 2 is over"):
        session.release(2, Members.of(HANDLES, ATTEMPTS))
    assert session.ledger.placement_count == 1
    session.release(3, Members.of(HANDLES, ATTEMPTS))
    assert session.ledger.placement_count == 0


def test_nothing_is_placed_on_a_row_that_stands_for_another_node_than_it_was_answered_for() -> None:
    """The leader would believe it to be where it is not; it is told that the node is not there."""
    session = new_session()
    session.take_placements(part(), is_last=True)
    ledger = session.ledger
    names = [f"old-{number}" for number in range(100)]
    (row, *_) = ledger.put_nodes([NodeSpec(name=name, total={"cpu": 2000, "pods": 10}) for name in names]).tolist()

    def ask() -> None:
        session.sample(
            1,
            SampleRequest(
                class_ids=np.ones(1, np.int32), wanted=np.ones(1, np.int32), complete=np.ones(1, np.int8),
                resources=("cpu",), nodes_to_sample_ratio=1.0,
            ),
        )  # fmt: skip

    def commit(handle: int) -> int:
        one = np.ones(1, dtype=np.int32)
        request = CommitRequest(
            members=Members.of([handle], one), class_ids=one, offset=np.array([0, 1], np.int32),
            candidate=np.array([row], np.int32),
        )  # fmt: skip
        return int(session.commit(1, request).outcome[0])

    ask()
    ledger.remove_nodes(names)
    assert ledger.put_nodes([NodeSpec(name="new", total={"cpu": 2000, "pods": 10})]).tolist() == [row]
    assert commit(1) == CommitOutcome.NODE_UNAVAILABLE
    ask()
    assert commit(2) == CommitOutcome.PLACED
    assert ledger.nodes.names[int(ledger.nodes_of(Members.of([2], [1]))[0])] == "new"
