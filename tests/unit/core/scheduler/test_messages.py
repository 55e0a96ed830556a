"""Messages to and from the scheduler: several reports as one, and a sampler in this process."""

from __future__ import annotations

import numpy as np

from argosy_core.job.classes import SchedulingClass
from argosy_core.job.states import ObjectState
from argosy_core.ledger import NodeLedger
from argosy_core.nodes import NodeSpec
from argosy_core.placement import NodeSampler
from argosy_core.plugins import build_framework
from argosy_core.scheduler import SampleRequest, StateColumns, ask_nearby
from argosy_core.scheduler.messages import join_states


def report_of(*runs: int, message: list[int], texts: tuple[str, ...]) -> StateColumns:
    """Return a report of one failed pod a run."""
    handle = np.array(runs, np.int64)
    return StateColumns(
        handle=handle,
        attempt=handle.astype(np.int32) + 1,
        object_index=handle.astype(np.int16) + 2,
        state=np.full(len(runs), ObjectState.FAILED, np.int8),
        time_us=handle * 10,
        exit_code=handle.astype(np.int32) + 3,
        failure=handle.astype(np.int8) + 4,
        message=np.array(message, np.int32),
        uid=b"".join(bytes([run]) * 16 for run in runs),
        texts=texts,
    )


def test_joined_reports_keep_their_order_and_each_element_its_message() -> None:
    """Messages of a later report stand behind those of an earlier one; no message stays none."""
    joined = join_states(
        [
            report_of(1, 2, message=[1, -1], texts=("unused", "one")),
            report_of(message=[], texts=()),
            report_of(2, 3, message=[-1, 0], texts=("three",)),
        ]
    )
    assert joined.handle.tolist() == [1, 2, 2, 3]
    assert joined.attempt.tolist() == [2, 3, 3, 4]
    assert joined.object_index.tolist() == [3, 4, 4, 5]
    assert joined.state.tolist() == [ObjectState.FAILED] * 4
    assert joined.time_us.tolist() == [10, 20, 20, 30]
    assert joined.exit_code.tolist() == [4, 5, 5, 6]
    assert joined.failure.tolist() == [5, 6, 6, 7]
    assert joined.uid == b"".join(bytes([run]) * 16 for run in (1, 2, 2, 3))
    told = [joined.texts[index] if index >= 0 else "" for index in joined.message.tolist()]
    assert told == ["one", "", "", "three"]


def test_one_report_is_itself() -> None:
    """The common case copies nothing."""
    report = report_of(1, message=[0], texts=("one",))
    assert join_states([report]) is report


def test_a_sampler_nearby_answers_what_it_was_asked() -> None:
    """Every field of the request arrives, and the answer says whose it is."""
    ledger = NodeLedger()
    ledger.put_nodes([NodeSpec(name=f"n{cpu}", total={"cpu": cpu, "memory": 8}) for cpu in (1, 2, 4)])
    ledger.define_class(0, SchedulingClass(requests=(("cpu", 2),)))
    ledger.define_class(1, SchedulingClass(requests=(("cpu", 8),)))
    request = SampleRequest(
        cluster="a",
        round_number=1,
        class_ids=np.array([1, 0], np.int32),
        wanted=np.array([1, 1], np.int32),
        complete=np.array([1, 1], np.int8),
        resources=("memory", "cpu"),
        nodes_to_sample_ratio=1.0,
        deadline_ms=1000,
        strategy="random",
    )
    reply = ask_nearby(NodeSampler(ledger, build_framework()), request, np.random.default_rng(1), incarnation=7)
    assert reply.incarnation == 7
    assert reply.offset.tolist() == [0, 0, 2]
    assert reply.examined.tolist() == [3, 3]
    assert reply.eligible.tolist() == [0, 2]
    assert reply.complete.tolist() == [1, 1]
    assert sorted(reply.free.tolist()) == [[8, 2], [8, 4]]
    assert reply.total_free.tolist() == [24, 7]
    assert reply.nearest_misses[0]
