"""Which log a request means, and how it is read through the leader."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from argosy.api.v1 import job_pb2
from argosy_core.errors import ArgosyError, BackendUnavailable, NotFound
from argosy_core.job.states import JobState, RunState
from argosy_core.job.tables.members import ordinal_of
from argosy_runtime.log_archives.archive import KeptLog, LogArchiveSettings, log_key
from argosy_runtime.log_archives.opening import open_archive
from argosy_server.api.job_logs import find_run, pod_position, read_log
from argosy_server.api.kept_logs import KeptLogs
from argosy_server.api.leadership.leader_view import LogRequest
from argosy_server.api.leadership.routing import LeaderRouter
from argosy_store.rows import JobRecord, RunRecord


def make_run(attempt: int, state: RunState = RunState.RUNNING, member: int = 0) -> RunRecord:
    """Return a member of a run."""
    return RunRecord(
        attempt=attempt, member=member, cluster=f"c{attempt}", node="n", state=state, lease_time_us=1,
        start_time_us=None, end_time_us=None, exit_code=None, failure=None, reason=None,
    )  # fmt: skip


def make_record(*runs: RunRecord, kinds: tuple[str, ...] = ("ConfigMap", "Pod", "Pod")) -> JobRecord:
    """Return a job with runs."""
    return JobRecord(
        handle=77, job_id="0190", queue_id=1, queue="q", job_set_id=1, job_set="s", class_id=1, state=JobState.QUEUED,
        priority=0, submit_time_us=1, end_time_us=None, reason=None, cancel_requested=False, client_id=None,
        labels={}, annotations={}, runs=runs, spec_body=json.dumps([{"kind": kind} for kind in kinds]).encode(),
    )  # fmt: skip


class Role:
    """A leader role whose logs are fixed."""

    def __init__(self, *pieces: bytes, error: ArgosyError | None = None) -> None:
        """Give pieces, then an error if there is one."""
        self.pieces = pieces
        self.error = error
        self.asked: list[tuple[str, LogRequest]] = []
        self.is_closed = False

    def view(self, _pool: str) -> Any:
        """Lead every pool."""
        return self

    async def read_log(self, cluster: str, asked: LogRequest) -> AsyncGenerator[bytes, None]:
        """Give the pieces."""
        self.asked.append((cluster, asked))
        try:
            for piece in self.pieces:
                yield piece
            if self.error is not None:
                raise self.error
        finally:
            self.is_closed = True


def router(role: Any) -> LeaderRouter:
    """Return a router of a process that leads."""
    return LeaderRouter(None, None, role=role, timeout_s=1.0)  # type: ignore[arg-type] - not asked where this leads


NOWHERE = KeptLogs(LogArchiveSettings())


async def read(role: Role, record: JobRecord, request: job_pb2.GetJobLogRequest, kept: KeptLogs = NOWHERE) -> bytes:
    """Return a log."""
    parts = read_log(router(role), "p", record, request, context=None, kept=kept)  # type: ignore[arg-type] - leads
    return b"".join([part.data async for part in parts])


async def keep(folder: Path, *, container: str, data: bytes, key: str) -> KeptLogs:
    """Keep a log as the executor of cluster c1 does; return what reads it."""
    archive = open_archive(LogArchiveSettings(target=str(folder / "{cluster}")), cluster="c1")
    assert archive is not None
    await archive.put(key, KeptLog(container=container, data=data, is_whole=True).encode())
    return KeptLogs(LogArchiveSettings(target=str(folder / "{cluster}")))


@pytest.mark.parametrize(("attempt", "found"), [(0, 3), (1, 1), (3, 3)])
def test_newest_run_is_meant_unless_one_is_named(attempt: int, found: int) -> None:
    """0 means the newest; attempts need not be without gaps."""
    assert find_run(make_record(make_run(1), make_run(3)), attempt).attempt == found


def test_member_is_found_by_its_number() -> None:
    """The first is meant unless one is named; one that there is not says which there are."""
    record = make_record(make_run(1, member=5), make_run(2), make_run(2, member=1))
    assert [(run.attempt, run.member) for run in (find_run(record, 0), find_run(record, 2, 1))] == [(2, 0), (2, 1)]
    with pytest.raises(NotFound, match="attempt 2 of job 0190 has no member 2; its last is 1"):
        find_run(record, 0, 2)


def test_run_that_is_not_there_says_which_are() -> None:
    """A job without a run, and an attempt that never was."""
    with pytest.raises(NotFound, match=r"no run.*it waits.*argosy explain"):
        find_run(make_record(), 0)
    with pytest.raises(NotFound, match="no attempt 2; its newest is 3"):
        find_run(make_record(make_run(1), make_run(3)), 2)


def test_pods_are_counted_without_the_other_objects() -> None:
    """The first pod stands behind what it needs."""
    record = make_record()
    assert [pod_position(record, pod) for pod in (0, 1)] == [1, 2]
    with pytest.raises(NotFound, match="2 pods"):
        pod_position(record, 2)


async def test_log_is_asked_of_the_cluster_of_the_run() -> None:
    """Run, position of the pod, and options go to the executor that has it."""
    role = Role(b"a", b"b")
    request = job_pb2.GetJobLogRequest(attempt=1, pod=1, container="c", follow=True, tail_line_count=0)
    assert await read(role, make_record(make_run(1), make_run(2)), request) == b"ab"
    asked = LogRequest(handle=77, attempt=1, object_index=2, container="c", follow=True, tail_line_count=0)
    assert role.asked == [("c1", asked)]
    await read(role, make_record(make_run(1)), job_pb2.GetJobLogRequest())
    assert (role.asked[1][1].tail_line_count, role.asked[1][1].member) == (None, 0)
    await read(role, make_record(make_run(1), make_run(1, member=1)), job_pb2.GetJobLogRequest(member=1))
    assert role.asked[2][1].member == 1
    for said, asked_s in ((9, 9), (-9, 0), (2**62, 253_402_300_799)):  # whatever a caller says is a time
        await read(role, make_record(make_run(1)), job_pb2.GetJobLogRequest(since_time=Timestamp(seconds=said)))
        assert role.asked[-1][1].since_s == asked_s


@pytest.mark.parametrize(
    ("state", "text"),
    [(RunState.SUCCEEDED, "keep_finished_s.*log_archive"), (RunState.LEASED, "is leased; try again")],
)
async def test_log_that_is_not_there_says_what_to_do(state: RunState, text: str) -> None:
    """Of a run that ended the pod is gone; of one that begins it is not there yet."""
    with pytest.raises(NotFound, match=f"no such pod.*{text}"):
        await read(Role(error=NotFound("no such pod")), make_record(make_run(1, state)), job_pb2.GetJobLogRequest())


async def test_reader_that_stops_ends_the_reading_below() -> None:
    """Closing here closes what reads the executor's stream; other errors pass as they are."""
    role = Role(b"a", b"b")
    record, request = make_record(make_run(1)), job_pb2.GetJobLogRequest()
    reading = read_log(router(role), "p", record, request, context=None, kept=NOWHERE)  # type: ignore[arg-type]
    await anext(reading)
    await reading.aclose()
    assert role.is_closed
    with pytest.raises(BackendUnavailable, match="away"):
        await read(Role(error=BackendUnavailable("away")), make_record(make_run(1)), job_pb2.GetJobLogRequest())


AWAY = BackendUnavailable("the executor is not connected")
LINES = b"2026-11-23T05:00:00.1Z one\n2026-11-23T05:00:02Z two\n"


@pytest.mark.parametrize("error", [AWAY, NotFound("no such pod")])
async def test_kept_log_of_an_ended_run_is_read_while_its_executor_is_away(tmp_path: Path, error: ArgosyError) -> None:
    """So is that of a pod that is gone, where the executor itself keeps none; options mean what they mean there."""
    record = make_record(make_run(1, RunState.FAILED, member=2))
    kept = await keep(tmp_path, container="main", data=LINES, key=log_key(77, ordinal_of(1, 2), 1))
    for request, found in (
        (job_pb2.GetJobLogRequest(member=2), b"one\ntwo\n"),
        (job_pb2.GetJobLogRequest(member=2, tail_line_count=1, timestamps=True), b"2026-11-23T05:00:02Z two\n"),
        (job_pb2.GetJobLogRequest(member=2, container="main"), b"one\ntwo\n"),
        (job_pb2.GetJobLogRequest(member=2, since_time=Timestamp(seconds=1_795_410_001)), b"two\n"),
    ):
        assert await read(Role(error=error), record, request, kept) == found
    with pytest.raises(type(error), match=error.message):
        await read(Role(error=error), record, job_pb2.GetJobLogRequest(member=2, container="side"), kept)


async def test_large_kept_log_comes_in_pieces(tmp_path: Path) -> None:
    """As a live one does, so that no message outgrows the bounds of the wire."""
    data = b"t " + b"x" * 100_000 + b"\n"
    kept = await keep(tmp_path, container="main", data=data, key=log_key(77, ordinal_of(1, 0), 1))
    record, request = make_record(make_run(1, RunState.FAILED)), job_pb2.GetJobLogRequest()
    parts = read_log(router(Role(error=AWAY)), "p", record, request, context=None, kept=kept)  # type: ignore[arg-type]
    sizes = [len(part.data) async for part in parts]
    assert (sum(sizes), max(sizes)) == (100_001, 32 << 10)


async def test_log_of_a_run_that_goes_on_is_never_taken_from_what_was_kept(tmp_path: Path) -> None:
    """What may be there is not its end; and what was begun is not begun again."""
    kept = await keep(tmp_path, container="main", data=LINES, key=log_key(77, ordinal_of(1, 0), 1))
    with pytest.raises(BackendUnavailable, match=r"not connected$"):
        await read(Role(error=AWAY), make_record(make_run(1)), job_pb2.GetJobLogRequest(), kept)
    ended = make_record(make_run(1, RunState.FAILED))
    with pytest.raises(BackendUnavailable, match=r"not connected$"):
        await read(Role(b"one\n", error=AWAY), ended, job_pb2.GetJobLogRequest(), kept)


async def test_log_that_nobody_kept_says_where_servers_look(tmp_path: Path) -> None:
    """Whoever runs the servers may not know that they can look anywhere."""
    record = make_record(make_run(1, RunState.FAILED))
    with pytest.raises(BackendUnavailable, match=r"not connected; log_archive\.target of the servers says where"):
        await read(Role(error=AWAY), record, job_pb2.GetJobLogRequest())
    kept = KeptLogs(LogArchiveSettings(target=str(tmp_path)))
    with pytest.raises(BackendUnavailable, match="not connected; nothing was kept of this log"):
        await read(Role(error=AWAY), record, job_pb2.GetJobLogRequest(), kept)
