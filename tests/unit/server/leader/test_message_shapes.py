"""What samplers and executors say is refused if it does not fit, whatever it is, and costs no more than was sent."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import Message

from argosy.executor.v1 import executor_pb2
from argosy.sampler.v1 import sampler_pb2
from argosy_core.errors import InvalidRequest
from argosy_core.job.tables.members import Members
from argosy_core.leader.events import Role, Session
from argosy_core.placement import CommitRequest, SampleRequest
from argosy_core.scheduler import MAX_NODES, ClusterView, PoolState, set_cluster, update_capacity
from argosy_runtime.shapes import Shape
from argosy_server.leader.sessions import cluster_codec, message_shapes
from argosy_server.leader.sessions.samplers import SamplerSession
from argosy_testkit.hostile_requests import hostile_change
from argosy_testkit.hostile_run import good_calls

BY_ITS_OWN_RULES = {"cluster", "cluster_uid", "process_id", "host", "pool"}
TRIED = 1500

SAMPLE = SampleRequest(
    class_ids=np.array([1, 2], np.int32),
    wanted=np.ones(2, np.int32),
    complete=np.zeros(2, np.int8),
    resources=("cpu", "memory"),
    nodes_to_sample_ratio=0.5,
)
COMMIT = CommitRequest(
    members=Members.of([5, 6], [1, 1]),
    class_ids=np.array([1, 1], np.int32),
    offset=np.array([0, 1, 3], np.int32),
    candidate=np.array([4, 5, 6], np.int32),
)


def packed(kind: str, *values: float) -> bytes:
    """Return a packed column."""
    return np.array(values, dtype=kind).tobytes()


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        (sampler_pb2.Capacity, message_shapes.CAPACITY),
        (sampler_pb2.Ready, message_shapes.READY),
        (sampler_pb2.HeldAmounts, message_shapes.HELD_AMOUNTS),
        (sampler_pb2.SampleResponse, message_shapes.SAMPLE_RESPONSE),
        (sampler_pb2.CommitResponse, message_shapes.COMMIT_RESPONSE),
        (executor_pb2.Hello, message_shapes.HELLO_RUNS),
        (executor_pb2.SeenRuns, message_shapes.SEEN_RUNS),
        (executor_pb2.StateBatch, message_shapes.STATE_BATCH),
        (executor_pb2.LogChunk, message_shapes.LOG_CHUNK),
        (executor_pb2.LogEnd, message_shapes.LOG_END),
    ],
)
def test_shape_names_every_field(kind: type[Message], shape: Shape) -> None:
    """A field that joins a message has to be thought of."""
    fields = set(kind.DESCRIPTOR.fields_by_name)
    assert fields - BY_ITS_OWN_RULES == set(shape)


class Leader:
    """What a sampler's and an executor's messages reach."""

    def __init__(self) -> None:
        """Begin with the cluster c."""
        self.state = PoolState()
        set_cluster(self.state, ClusterView(name="c", connected=True, incarnation=1))
        self.session = SamplerSession(Session("c", Role.SAMPLER, 1, 1))

    def take_capacity(self, message: sampler_pb2.Capacity) -> None:
        """Read what is told of nodes as a session does, and take it in as the machine does."""
        update_capacity(self.state, "c", self.session.read_capacity(message).columns)


SAMPLE_ANSWER = sampler_pb2.SampleResponse(
    round=1, incarnation=1, node_column=packed("<i4", 0, 1), free_column=packed("<i8", 1, 2, 3, 4),
    offset_column=packed("<i4", 0, 1, 2), candidate_column=packed("<i4", 0, 1), score_column=packed("<f4", 1, 2),
    examined_column=packed("<i4", 1, 1), eligible_column=packed("<i4", 1, 1), filters=["fits"],
    rejection_column=packed("<i4", 0, 0), total_free_column=packed("<i8", 1, 2), complete_column=packed("i1", 0, 1),
    nearest_misses=["", ""], reason_column=packed("i1", 0, 2), texts=["", "no"],
    retry_after_column=packed("<f4", 0, 1), filter_texts=["{nodes} do not fit"],
)  # fmt: skip
HELD = sampler_pb2.HeldAmounts(
    handle_column=packed("<i8", 5, 6), attempt_column=packed("<i4", 1, 1), resources=["cpu", "memory"],
    amount_column=packed("<i8", 500, -1, -1, 80),
)  # fmt: skip
COMMIT_ANSWER = sampler_pb2.CommitResponse(
    round=1, stage=1, incarnation=1, node_column=packed("<i4", 4, 6), outcome_column=packed("i1", 1, 1)
)


def targets(leader: Leader) -> list[tuple[Message, Callable[[Any], object]]]:
    """Return a good message of every kind, and what reads it."""
    sync = good_calls()["/argosy.executor.v1.ExecutorService/Sync"]
    session = good_calls()["/argosy.sampler.v1.SamplerService/Session"]
    states: Any = sync[1]
    seen: Any = sync[2]
    capacity: Any = session[1]
    hello: Any = sync[0]
    return [
        (capacity.capacity, leader.take_capacity),
        (SAMPLE_ANSWER, lambda message: cluster_codec.sample_reply(message, SAMPLE)),
        (COMMIT_ANSWER, lambda message: cluster_codec.commit_reply(message, COMMIT)),
        (HELD, cluster_codec.held_amounts),
        (hello.hello, cluster_codec.hello_runs),
        (seen.seen, cluster_codec.seen_runs),
        (states.states, cluster_codec.state_columns),
    ]


def test_good_messages_are_taken() -> None:
    """The hostile ones begin with these."""
    for message, take in targets(Leader()):
        take(message)


def test_hostile_messages_are_refused_or_harmless_and_cost_no_memory() -> None:
    """Field by field: random lengths, element types, ranges, texts and counts; nothing but InvalidRequest is raised."""
    random, leader = Random(7), Leader()
    refused = longest = 0
    tracemalloc.start()
    try:
        for _ in range(TRIED // 6):
            for good, take in targets(leader):
                message = type(good).FromString(good.SerializeToString())
                for _ in range(random.choice((1, 1, 3))):
                    hostile_change(message, random)
                try:
                    take(message)
                except InvalidRequest as error:
                    refused += 1
                    longest = max(longest, len(error.message))
        most_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert refused > TRIED // 4
    assert longest < 500
    assert most_bytes < 32 << 20
    assert sum(matrix.nbytes for matrix in leader.state.clusters.allocatable) < 1 << 20


def test_capacity_of_one_node_with_a_high_number_is_refused() -> None:
    """A message of 702 bytes cost half a gigabyte."""
    leader = Leader()
    capacity: Any = good_calls()["/argosy.sampler.v1.SamplerService/Session"][1]
    message = capacity.capacity
    message.node_column = packed("<i4", 0, MAX_NODES - 1)
    with pytest.raises(InvalidRequest, match="but only 2 nodes with those before it"):
        leader.take_capacity(message)
    assert leader.session.notes.nodes.rows() == []
    assert leader.session.notes.capacity is None


def test_resources_may_not_be_invented_without_end() -> None:
    """Each would be a column of every class, node and request; a cluster that has too many is refused as a whole."""
    leader = Leader()

    def tell(names: list[str]) -> None:
        zeros = packed("<i8", *[0] * len(names))
        one = packed("<i8", *[1] * len(names))
        leader.take_capacity(
            sampler_pb2.Capacity(
                resources=names, node_column=packed("<i4", 0), names=["n"], flag_column=b"\1", groups=[b"{}"],
                group_column=packed("<i4", 0), allocatable_column=one, free_column=one, total_column=zeros,
                total_free_column=zeros, node_count=1,
            )
        )  # fmt: skip

    with pytest.raises(InvalidRequest, match="resources has 5000 entries"):
        tell([f"r{number}" for number in range(5000)])
    for begin in range(0, 250, 50):
        tell([f"r{number}" for number in range(begin, begin + 50)])
    with pytest.raises(InvalidRequest, match="at most 256 different resources"):
        tell([f"r{number}" for number in range(250, 300)])
    assert len(leader.state.classes.axis) <= 256


def test_run_is_placed_only_on_a_node_that_was_its_candidate() -> None:
    """Another node's amounts would be counted, and the pod bound to it."""
    good = cluster_codec.commit_reply(COMMIT_ANSWER, COMMIT)
    assert good.node.tolist() == [4, 6]
    for nodes in ((5, 6), (4, 4), (-1, 6)):
        wrong = sampler_pb2.CommitResponse(node_column=packed("<i4", *nodes), outcome_column=packed("i1", 1, 1))
        with pytest.raises(InvalidRequest, match="not its candidate"):
            cluster_codec.commit_reply(wrong, COMMIT)


def test_labels_of_nodes_stand_once_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node's labels are kept for people; those that no node has any more make room."""
    monkeypatch.setattr("argosy_server.leader.show.notes._MAX_GROUPS_BYTES", 100)
    leader = Leader()
    capacity: Any = good_calls()["/argosy.sampler.v1.SamplerService/Session"][1]
    message = capacity.capacity
    for number in range(20):
        message.groups[:] = [b'{"labels":{"number":"%03d"}}' % number]
        leader.take_capacity(message)
    assert [row.labels for row in leader.session.notes.nodes.rows()] == [{"number": "019"}] * 2
    message.groups[:] = [b'{"labels":{"number":"%s"}}' % (b"x" * 100)]
    with pytest.raises(InvalidRequest, match="take more than"):
        leader.take_capacity(message)
    for group in (b"[]", b'{"labels":{"a":1}}', b'{"labels":{"a":"\\ud800"}}', b"[" * 5000):
        message.groups[:] = [group]
        with pytest.raises(InvalidRequest, match="label"):
            leader.take_capacity(message)
