"""Messages to and from the scheduler: several reports as one, runs by cluster, and a sampler in this process."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from argosy_core.job.states import ObjectState
from argosy_core.job.tables.members import Members
from argosy_core.scheduler import StateColumns
from argosy_core.scheduler.columns.messages import join_states
from argosy_core.scheduler.columns.rows import runs_by_cluster


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


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.integers(1, 2)), max_size=20))
def test_runs_by_cluster_has_each_run_once_where_it_is(rows: list[tuple[int, int, int]]) -> None:
    """Whatever their order, and told twice or in two clusters: clusters in order, of each its runs sorted by key."""
    names = ("a", "b", "c", "d")
    cluster, handle, attempt = (np.array([row[part] for row in rows], dtype=np.int64) for part in range(3))
    found = runs_by_cluster(names, cluster, Members.of(handle, attempt))
    pairs = [(names.index(runs.cluster), *pair) for runs in found for pair in runs.members.pairs()]
    assert pairs == sorted(set(rows))
    assert all(len(runs.members) for runs in found)
