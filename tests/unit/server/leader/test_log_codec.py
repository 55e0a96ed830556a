"""Records of the event log come back as they were written; what cannot be read is refused with a reason."""

from __future__ import annotations

import numpy as np
import pytest

from argosy.lease.v1 import lease_pb2
from argosy_core.errors import InvalidRequest
from argosy_core.job.tables.members import Members
from argosy_core.queueing import StoredWeight
from argosy_core.scheduler.columns.messages import PromiseColumns, RoundStateColumns, ShrinkColumns
from argosy_core.scheduler.outgoing.effects import LeasePlan
from argosy_server.leader.log.codec import decode_changes, decode_lease_batch, encode_lease_batch, encode_marker


def _plan() -> LeasePlan:
    """Return a plan with two leases, a stop and a failed job."""
    return LeasePlan(
        round_number=3,
        create_time_us=77,
        handle=np.array([10, 11], dtype=np.int64),
        attempt=np.array([1, 2], dtype=np.int32),
        cluster=np.array([0, 0], dtype=np.int32),
        node=np.array([0, 1], dtype=np.int32),
        clusters=("c1",),
        nodes=("n1", "n2"),
        stops=Members.of([9, 9], [1, 1], np.array([0, 2])),
        failed_handle=np.array([8], dtype=np.int64),
        failed_reasons=("no node took it ten times",),
        round_state=RoundStateColumns(
            queue=np.array([1], dtype=np.int64),
            flow=np.array([2.5]),
            flow_time_us=76,
            attempted_handle=np.array([12], dtype=np.int64),
            failed_attempt=np.array([4], dtype=np.int32),
            weights=(StoredWeight(resource="example.com/gpu", cores=4.0, target_cores=5.0),),
            weight_time_us=75,
            branch_flow=np.array([4.5]),
            non_preemptible_flow=np.array([1.5]),
            promises=PromiseColumns(
                handle=np.array([13], dtype=np.int64),
                kind=np.array([1], dtype=np.int8),
                time_us=np.array([99], dtype=np.int64),
                clusters=("c1",),
                nodes=("n2",),
            ),
            shrinks=ShrinkColumns(
                stopping=Members.of([14, 14], [1, 1], np.array([3, 4])),
                handle=np.array([14], dtype=np.int64),
                until_us=np.array([100], dtype=np.int64),
                pause_us=np.array([60], dtype=np.int64),
            ),
        ),
        releases=(),
        charge_core_s=np.array([0, 600], dtype=np.int64),
    )


def test_a_lease_batch_survives_the_log() -> None:
    """Leases, stops, failed jobs and the round's state are the same after decoding."""
    record = decode_lease_batch(encode_lease_batch(_plan(), pool="p", epoch=4, sequence=2))
    plan = record.plan
    assert (record.pool, record.epoch, record.sequence, record.is_marker) == ("p", 4, 2, False)
    assert plan.handle.tolist() == [10, 11]
    assert [plan.nodes[index] for index in plan.node.tolist()] == ["n1", "n2"]
    assert plan.stops.pairs() == _plan().stops.pairs()
    assert plan.failed_reasons == ("no node took it ten times",)
    assert plan.round_state.flow.tolist() == [2.5]
    assert plan.round_state.failed_attempt.tolist() == [4]
    assert plan.round_state.weights == _plan().round_state.weights
    assert plan.round_state.weight_time_us == 75
    assert plan.round_state.branch_flow is not None
    assert plan.round_state.branch_flow.tolist() == [4.5]
    assert plan.round_state.non_preemptible_flow is not None
    assert plan.round_state.non_preemptible_flow.tolist() == [1.5]
    assert plan.charge_core_s is not None
    assert plan.charge_core_s.tolist() == [0, 600]
    promises = plan.round_state.promises
    assert (promises.handle.tolist(), promises.kind.tolist(), promises.time_us.tolist()) == ([13], [1], [99])
    assert (promises.clusters, promises.nodes) == (("c1",), ("n2",))
    shrinks = plan.round_state.shrinks
    assert shrinks.stopping.pairs() == _plan().round_state.shrinks.stopping.pairs()
    assert (shrinks.handle.tolist(), shrinks.until_us.tolist(), shrinks.pause_us.tolist()) == ([14], [100], [60])


def test_a_marker_is_known_as_one() -> None:
    """The first record of a leader carries nothing else."""
    record = decode_lease_batch(encode_marker(pool="p", epoch=4, now_us=1))
    assert record.is_marker
    assert record.sequence == 1
    assert not record.plan.has_news


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"\xff\xff\xff", id="no message"),
        pytest.param(
            lease_pb2.LeaseBatch(leases=lease_pb2.Leases(handle_column=b"123")).SerializeToString(), id="torn column"
        ),
        pytest.param(
            lease_pb2.LeaseBatch(
                leases=lease_pb2.Leases(
                    handle_column=bytes(8), attempt_column=bytes(4), cluster_column=bytes(4), node_column=bytes(4)
                )
            ).SerializeToString(),
            id="index out of range",
        ),
        pytest.param(
            lease_pb2.LeaseBatch(
                round_state=lease_pb2.RoundState(
                    promises=lease_pb2.Promises(handle_column=bytes(8), kind_column=bytes(1), time_us_column=bytes(8))
                )
            ).SerializeToString(),
            id="promise without a node",
        ),
    ],
)
def test_a_record_that_cannot_be_read_is_refused(payload: bytes) -> None:
    """What is refused goes to quarantine; nothing of it is applied."""
    with pytest.raises(InvalidRequest):
        decode_lease_batch(payload)


def test_changes_that_cannot_be_read_are_refused() -> None:
    """A change with columns of different lengths is not taken in part."""
    submitted = lease_pb2.SubmittedJobs(handle_column=bytes(8))
    with pytest.raises(InvalidRequest):
        decode_changes(lease_pb2.Changes(submitted=submitted).SerializeToString())
