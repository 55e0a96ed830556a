"""A round's plan as records of bounded size.

Source: design section 5, "Round", step 8; a log takes records up to some size.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.lease.v1 import lease_pb2
from argosy_core.errors import InvalidRequest
from argosy_core.job.tables.members import Members
from argosy_core.leader.records import split_plan
from argosy_core.scheduler.columns.messages import RoundStateColumns
from argosy_core.scheduler.outgoing.effects import AddedMembers, LeasePlan
from argosy_server.leader.log.codec import DecodedRecord, decode_lease_batch, encode_lease_batch


def _plan(lease_count: int, stop_count: int = 0, failed_count: int = 0, attempted_count: int = 0) -> LeasePlan:
    """Return a plan in which every lease has a node with a long name of its own."""
    return LeasePlan(
        round_number=1,
        create_time_us=77,
        handle=np.arange(1, lease_count + 1, dtype=np.int64),
        attempt=np.arange(lease_count, dtype=np.int32) % 3 + 1,
        cluster=np.arange(lease_count, dtype=np.int32) % 2,
        node=np.arange(lease_count, dtype=np.int32)[::-1].copy(),
        clusters=("c1", "c2"),
        nodes=tuple(f"{number:0100d}" for number in range(lease_count)),
        stops=Members.of(np.arange(10_000, 10_000 + stop_count), np.ones(stop_count)),
        failed_handle=np.arange(20_000, 20_000 + failed_count, dtype=np.int64),
        failed_reasons=tuple(f"reason {number}" for number in range(failed_count)),
        round_state=RoundStateColumns(
            queue=np.array([1], dtype=np.int64),
            flow=np.array([2.5]),
            flow_time_us=76,
            attempted_handle=np.arange(attempted_count, dtype=np.int64),
            failed_attempt=np.ones(attempted_count, dtype=np.int32),
        ),
        releases=(),
    )


def _published(plan: LeasePlan, max_bytes: int) -> tuple[list[bytes], list[DecodedRecord]]:
    payloads = [
        encode_lease_batch(record, pool="p", epoch=4, sequence=sequence)
        for sequence, record in enumerate(split_plan(plan, max_bytes), 10)
    ]
    return payloads, [decode_lease_batch(payload) for payload in payloads]


def test_members_that_runs_get_stand_in_one_record_as_they_were() -> None:
    """However the leases beside them are parted; a member that stands twice is refused."""
    added = AddedMembers(
        members=Members.of([1, 1, 2], [1, 1, 3], np.array([1025, 7, 2])),
        cluster=np.array([0, 0, 1], dtype=np.int32),
        node=np.array([1, 0, 1], dtype=np.int32),
        clusters=("c1", "c2"),
        nodes=("n1", "n2"),
    )
    plan = replace(_plan(40, 2, 1, 5), added=added)
    _, records = _published(plan, 2_000)
    assert len(records) > 1
    (found,) = [record.plan.added for record in records if record.plan.added is not None]
    assert found.members.pairs() == added.members.pairs()
    assert (found.cluster.tolist(), found.node.tolist()) == ([0, 0, 1], [1, 0, 1])
    assert (found.clusters, found.nodes) == (added.clusters, added.nodes)
    _, (alone,) = _published(replace(_plan(0, 0, 0, 0), added=added), 1)
    assert alone.plan.added is not None
    twice = replace(plan, added=added.take(np.array([0, 0])))
    with pytest.raises(InvalidRequest, match="twice"):
        _published(twice, 4_000_000)


def test_a_plan_that_fits_is_one_record() -> None:
    """As nearly all do."""
    payloads, (record,) = _published(_plan(3, 2, 1, 5), 4_000_000)
    assert len(payloads) == 1
    assert (record.pool, record.epoch, record.sequence) == ("p", 4, 10)
    assert record.plan.handle.tolist() == [1, 2, 3]
    assert record.plan.round_state.attempted_handle.size == 5


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 20), st.integers(600, 3000))
def test_a_large_plan_is_several_records_that_say_the_same_in_the_same_order(
    leases: int, stops: int, failed: int, max_bytes: int
) -> None:
    """None is larger than allowed, sequences follow each other, and every lease keeps its node."""
    plan = _plan(leases, stops, failed, attempted_count=200)
    payloads, records = _published(plan, max_bytes)
    assert max(map(len, payloads)) <= max_bytes
    assert [record.sequence for record in records] == list(range(10, 10 + len(records)))
    assert [
        (handle, attempt, record.plan.clusters[cluster], record.plan.nodes[node])
        for record in records
        for handle, attempt, cluster, node in zip(
            record.plan.handle, record.plan.attempt, record.plan.cluster, record.plan.node, strict=True
        )
    ] == [
        (handle, attempt, plan.clusters[cluster], plan.nodes[node])
        for handle, attempt, cluster, node in zip(plan.handle, plan.attempt, plan.cluster, plan.node, strict=True)
    ]
    assert [handle for record in records for handle in record.plan.stops.handle] == plan.stops.handle.tolist()
    assert [text for record in records for text in record.plan.failed_reasons] == list(plan.failed_reasons)


def test_the_round_s_state_is_cut_from_behind_where_it_leaves_no_room() -> None:
    """Failed attempts that are not told are counted anew."""
    _, (record,) = _published(_plan(1, attempted_count=100_000), 8_000)
    state = record.plan.round_state
    assert state.attempted_handle.tolist() == list(range(166))
    assert state.failed_attempt.size == 166
    assert state.flow.tolist() == [2.5]


@given(st.integers(0, 60), st.integers(600, 3000))
def test_every_record_has_the_charges_of_its_own_leases(leases: int, max_bytes: int) -> None:
    """The next leader gives back what the runs took, whichever record it adopts; the charges count as bytes."""
    plan = replace(_plan(leases), charge_core_s=np.arange(leases, dtype=np.int64) + 2**40)
    payloads, records = _published(plan, max_bytes)
    assert max(map(len, payloads)) <= max_bytes
    charges = [record.plan.charge_core_s for record in records if record.plan.handle.size]
    assert all(part is not None for part in charges)
    assert [charge for part in charges for charge in part.tolist()] == list(range(2**40, 2**40 + leases))


@pytest.mark.parametrize("count", [1, 2])
def test_what_cannot_be_divided_is_published_as_it_is(count: int) -> None:
    """The log says whether it takes it; one record per lease is the end of dividing."""
    payloads, _ = _published(_plan(count), 10)
    assert len(payloads) == count


@given(st.lists(st.integers(1, 9), min_size=1, max_size=20), st.integers(600, 3000))
def test_no_run_is_parted_by_records(sizes: list[int], max_bytes: int) -> None:
    """A next leader that reads one record of several leases whole runs or none, member by member as planned."""
    count = sum(sizes)
    plan = _plan(count)
    plan = replace(
        plan,
        handle=np.repeat(np.arange(len(sizes), dtype=np.int64), sizes),
        attempt=np.ones(count, dtype=np.int32),
        cluster=np.zeros(count, dtype=np.int32),
        member=np.concatenate([np.arange(size, dtype=np.int16) for size in sizes]),
    )
    _, records = _published(plan, max_bytes)
    parts = [record.plan.members.pairs() for record in records]
    assert [key for part in parts for key in part] == plan.members.pairs()
    seen = [{handle for handle, _ in part} for part in parts]
    assert sum(map(len, seen)) == len(sizes)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"member": np.array([0, 1, 1], dtype=np.int16)}, id="a-member-twice"),
        pytest.param({"handle": np.array([1, 2, 1], dtype=np.int64)}, id="a-run-in-two-places"),
        pytest.param({"cluster": np.array([0, 1, 1], dtype=np.int32)}, id="a-run-in-two-clusters"),
        pytest.param({"member": np.array([0, 1, -1], dtype=np.int16)}, id="a-negative-member"),
    ],
)
def test_a_record_whose_members_are_no_runs_is_refused(change: dict[str, np.ndarray]) -> None:
    """It goes to quarantine, rather than that a leader takes up half a run."""
    one = replace(
        _plan(3),
        handle=np.ones(3, dtype=np.int64),
        attempt=np.ones(3, dtype=np.int32),
        cluster=np.zeros(3, dtype=np.int32),
        member=np.arange(3, dtype=np.int16),
    )
    assert decode_lease_batch(encode_lease_batch(one, pool="p", epoch=4, sequence=1)).plan.members.are_distinct()
    with pytest.raises(InvalidRequest):
        decode_lease_batch(encode_lease_batch(replace(one, **change), pool="p", epoch=4, sequence=1))


def test_numbers_of_members_cost_no_byte_where_all_are_0() -> None:
    """Nearly all runs have one member."""
    payload = encode_lease_batch(_plan(3), pool="p", epoch=4, sequence=1)
    assert lease_pb2.LeaseBatch.FromString(payload).leases.member_column == b""
    assert decode_lease_batch(payload).plan.member is None
