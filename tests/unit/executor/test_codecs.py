"""Columns of the port and of the wire to and from the core's."""

from __future__ import annotations

import numpy as np
import pytest

from argosy.executor.v1 import executor_pb2
from argosy_core.errors import InvalidRequest, StateConflict
from argosy_core.job.tables.members import Members, ordinal_of
from argosy_core.reconcile import Creates, Instant, Reconciler, ReportBatch, RunRows, SpecCache
from argosy_executor.cluster_codec import create_responses, observations
from argosy_executor.config import ExecutorConfig
from argosy_executor.leader_codec import encode_reports, encode_seen, read_rows, read_stops
from argosy_kube.kubernetes.api.documents import Metadata
from argosy_kube.kubernetes.reading.columns import EventRows, EventTables
from argosy_kube.port import Change, CreateCode, CreateResult, Detail, PodPhase
from argosy_runtime.config import load_config


def test_observations_carry_details_of_our_pods_past_those_of_others() -> None:
    """A failure and a wait are told with container and message; an unmanaged pod's row before them shifts nothing."""
    tables = EventTables()
    rows = EventRows(tables)
    error, pull = tables.texts.intern("Error"), tables.texts.intern("ErrImagePull")
    metadata = Metadata(name="x", uid="00000000-0000-4000-8000-000000000001")
    rows.add(Change.ADDED, metadata, kind=0, run=None, time_us=1, detail=Detail("theirs", "?"))
    for run, state, detail in (
        ((7, 1, 0), (-1, PodPhase.FAILED, 3, error, -1), Detail("main", "bad input")),
        ((8, 1, 0), (-1, PodPhase.PENDING, 0, pull, -1), Detail("side", "no such image")),
    ):
        rows.add(Change.MODIFIED, metadata, kind=0, run=run, time_us=1, state=state, detail=detail)
    seen = observations(rows.build(5))
    assert seen.handle_column.tolist() == [7, 8]
    assert [seen.texts[index] for index in seen.message_column] == [
        "container main ended with exit code 3: bad input",
        "ErrImagePull, container side: no such image",
    ]


def creates_of(handles: list[int]) -> Creates:
    """Return creates of one-pod runs."""
    count = len(handles)
    zeros = np.zeros(count, dtype=np.int32)
    rows = RunRows(
        handle_column=np.array(handles, dtype=np.int64),
        ordinal_column=np.ones(zeros.size, dtype=np.int64),
        id_high_column=np.zeros(count, dtype=np.int64),
        spec_column=zeros,
        node_column=zeros,
        metadata_column=zeros - 1,
        owner_column=zeros,
        seen_column=np.zeros(count, dtype=np.bool_),
        bodies=(b'[{"kind":"Pod"}]',),
        nodes=("n",),
        metadata=(),
        owners=(("q", "s"),),
    )
    reconciler = Reconciler()
    reconciler.take_rows(rows, Instant(1.0, 1))
    creates = reconciler.next_actions(Instant(1.0, 1), may_act=True).creates
    assert creates is not None
    return creates


def test_create_responses_adopt_own_and_refuse_unmanaged_pods() -> None:
    """What exists is the run's own only with its installation, handle and attempt."""
    creates = creates_of([1, 2, 3, 4, 5, 6, 7])
    codes = [CreateCode.CREATED, *[CreateCode.EXISTS] * 4, CreateCode.QUOTA, CreateCode.UNAVAILABLE]
    result = CreateResult(
        code_column=np.array(codes, dtype=np.int8),
        uid_column=np.ones((7, 16), dtype=np.uint8),
        existing_ours_column=np.array([False, True, False, True, True, False, False]),
        existing_handle_column=np.array([0, 2, 0, 9, 5, 0, 0], dtype=np.int64),
        existing_ordinal_column=np.array([0, 1, 0, 1, 2, 0, 0], dtype=np.int64),
        message_column=np.full(7, -1, dtype=np.int32),
        messages=(),
    )
    answers = create_responses(creates, result)
    assert answers.exists_column.tolist() == [True, True, False, False, False, False, False]
    assert answers.refused_column.tolist() == [False, False, True, True, True, False, False]
    assert answers.later_column.tolist() == [False] * 5 + [True, False]
    assert {answers.messages[index] for index in answers.message_column[2:5]} == {
        "an object of the name of the run's own exists and belongs to somebody else"
    }


def test_lost_call_answers_nothing() -> None:
    """Without a result nothing is known of any object."""
    answers = create_responses(creates_of([1]), None)
    assert not (answers.exists_column | answers.refused_column | answers.later_column).any()


def rows_message(**fields: object) -> executor_pb2.ObjectRows:
    """Return rows of one run, with some fields changed."""
    values: dict[str, object] = {
        "handle_column": bytes(8),
        "attempt_column": bytes(4),
        "id_high_column": bytes(8),
        "spec_column": bytes(4),
        "node_column": bytes(4),
        "metadata_column": b"\xff" * 4,
        "owner_column": bytes(4),
        "spec_hashes": [b"h" * 16],
        "spec_bodies": [b"[]"],
        "nodes": ["n"],
        "owners": [executor_pb2.Owner(queue="q", job_set="s")],
    }
    return executor_pb2.ObjectRows(**(values | fields))  # type: ignore[arg-type]


def test_read_rows_resolves_tables() -> None:
    """Rows come with their bodies, and nobody was seen unless said."""
    rows = read_rows(rows_message(), SpecCache())
    assert (rows.bodies, rows.nodes, rows.owners) == ((b"[]",), ("n",), (("q", "s"),))
    assert rows.seen_column.tolist() == [False]
    assert read_rows(rows_message(seen_column=b"\x01"), SpecCache()).seen_column.tolist() == [True]


def test_members_of_a_run_are_apart_from_rows_to_reports() -> None:
    """The wire names members by a column of their own, which is left out where all are 0."""
    message = rows_message(handle_column=bytes(8), attempt_column=b"\x02\0\0\0", member_column=b"\x07\0")
    assert read_rows(message, SpecCache()).ordinal_column.tolist() == [ordinal_of(2, 7)]
    for members, column in ((Members.of([5], [2], 7), b"\x07\0"), (Members.of([5], [2]), b"")):
        assert encode_seen(members).seen.member_column == column
        batch = ReportBatch(
            number=1,
            handle_column=members.handle,
            ordinal_column=members.ordinal,
            object_column=np.zeros(1, np.int16),
            state_column=np.ones(1, np.int8),
            time_us_column=np.ones(1, np.int64),
            exit_code_column=np.zeros(1, np.int32),
            failure_column=np.zeros(1, np.int8),
            message_column=np.full(1, -1, np.int32),
            uid_column=np.zeros((1, 16), np.uint8),
            texts=(),
        )
        states = encode_reports(batch, 77).states
        assert states.sent_time_us == 77
        assert (states.attempt_column, states.member_column) == (b"\x02\0\0\0", column)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        pytest.param({"attempt_column": bytes(8)}, InvalidRequest, id="lengths"),
        pytest.param({"member_column": bytes(3)}, InvalidRequest, id="members"),
        pytest.param({"member_column": b"\xff\xff"}, InvalidRequest, id="negative-member"),
        pytest.param({"handle_column": bytes(7)}, InvalidRequest, id="broken"),
        pytest.param({"spec_column": b"\x01\0\0\0"}, InvalidRequest, id="spec-index"),
        pytest.param({"node_column": b"\xff" * 4}, InvalidRequest, id="node-index"),
        pytest.param({"seen_column": b"\0\0"}, InvalidRequest, id="seen"),
        pytest.param({"spec_bodies": [b""]}, StateConflict, id="unknown-spec"),
    ],
)
def test_read_rows_refuses_what_does_not_fit(fields: dict[str, object], error: type[Exception]) -> None:
    """A message with a broken column is refused as a whole."""
    with pytest.raises(error):
        read_rows(rows_message(**fields), SpecCache())


@pytest.mark.parametrize("numbers", [[], [0, 3]])
def test_read_stops_gives_members(numbers: list[int]) -> None:
    """Stops are members of runs; where no numbers are said each run is its member 0."""
    message = executor_pb2.StopRuns(
        handle_column=np.array([5, 6], dtype="<i8").tobytes(),
        attempt_column=np.array([1, 2], dtype="<i4").tobytes(),
        member_column=np.array(numbers, dtype="<i2").tobytes(),
    )
    assert read_stops(message).pairs() == Members.of([5, 6], [1, 2], np.array(numbers or [0, 0])).pairs()


def test_configuration_needs_cluster_and_servers() -> None:
    """What has no sensible default must be given; the rest has one."""
    with pytest.raises(InvalidRequest, match="server_addresses"):
        load_config(ExecutorConfig, ["--cluster", "a", "--cluster-address", "unix:/x"], {})
    config = load_config(
        ExecutorConfig, ["--cluster", "a", "--cluster-address", "unix:/x", "--server-addresses", "h:1,h:2"], {}
    )
    assert config.server_addresses == ("h:1", "h:2")
    assert config.grpc.listen == "127.0.0.1:0"
