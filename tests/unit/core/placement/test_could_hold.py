"""Nodes that could hold a class if nothing else ran there: what a promised start is sought among."""

import numpy as np
import pytest

from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger
from argosy_core.nodes import NodeSpec
from argosy_core.placement import NodeSampler, SampleReply, SampleRequest, commit

WHOLE, CORE, TOO_LARGE = 0, 1, 2


def crowded(nodes: int = 4) -> NodeSampler:
    """Return nodes of eight cores, with as many runs of a core on each as its number, but for one of two cores."""
    ledger = NodeLedger()
    ledger.put_nodes([NodeSpec(name=f"n{row}", total={"cpu": 8}) for row in range(nodes)])
    ledger.put_nodes([NodeSpec(name="small", total={"cpu": 2})])
    for class_id, cores in ((WHOLE, 8), (CORE, 1), (TOO_LARGE, 9)):
        ledger.define_class(class_id, SchedulingClass(requests=(("cpu", cores),)))
    rows = np.array([row for row in range(nodes) for _ in range(nodes - row)], np.int32)
    commit(
        ledger,
        Members.of(np.arange(rows.size), np.ones(rows.size)),
        class_ids=np.full(rows.size, CORE, np.int32),
        offsets=np.arange(rows.size + 1, dtype=np.int32),
        candidates=rows,
    )
    return NodeSampler(ledger)


def ask(sampler: NodeSampler, for_promise: list[bool]) -> SampleReply:
    """Ask for all three classes."""
    request = SampleRequest(
        class_ids=np.array([WHOLE, CORE, TOO_LARGE], np.int32),
        wanted=np.ones(3, np.int32),
        complete=np.zeros(3, np.int8),
        resources=("cpu",),
        nodes_to_sample_ratio=0.04,
        for_promise=np.array(for_promise, dtype=np.bool_),
    )
    return sampler.sample(request, np.random.default_rng(1))


def test_nodes_that_could_hold_a_class_are_told_with_what_is_free_and_those_that_lack_least_first() -> None:
    """A node that is too small is not among them, and no other class has any."""
    reply = ask(crowded(), [True, False, True])
    assert reply.could_hold_offset.tolist() == [0, 4, 4, 4]
    assert reply.node[reply.could_hold].tolist() == [3, 2, 1, 0]
    assert reply.free[reply.could_hold].tolist() == [[7], [6], [5], [4]]
    assert reply.offset[1] == 0  # none of them is a candidate


def test_nothing_is_told_where_nothing_is_asked() -> None:
    """Most requests ask for no promise."""
    reply = ask(crowded(), [])
    assert (reply.could_hold_offset.size, reply.could_hold.size) == (0, 0)


def test_no_more_nodes_are_told_than_a_promise_is_sought_among() -> None:
    """However large the cluster is."""
    assert ask(crowded(50), [True, False, False]).could_hold.size == 32


def test_a_request_with_too_few_flags_is_refused() -> None:
    """One for each class, or none at all."""
    with pytest.raises(InvalidRequest):
        ask(crowded(), [True])
