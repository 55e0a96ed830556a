"""The supervisor of `argosy up`: what has died is started again, ever more seldom if it dies at once."""

import sys
from pathlib import Path

import pytest

from argosy_core.errors import NotFound
from argosy_local.mesh import Mesh
from argosy_local.mesh_state import MeshState, ProcessEntry, read_state, write_state
from argosy_local.processes import ProcessId, await_true, end_process, is_alive
from argosy_local.supervisor import Backoff, main, supervise


def make_mesh(directory: Path, code: str) -> Mesh:
    """Return a mesh of one process, which does not run yet."""
    entry = ProcessEntry(
        role="api",
        arguments=[sys.executable, "-c", code],
        address="127.0.0.1:1",
        probe="process",
        log=str(directory / "api.log"),
    )
    state = MeshState(
        server="127.0.0.1:1", database_url="", embedded=False, cluster_names=[], speed=1.0, processes=[entry]
    )
    write_state(directory, state)
    return Mesh(directory)


def process_of(directory: Path) -> ProcessId:
    """Return the process that is written down."""
    state = read_state(directory)
    assert state is not None
    return ProcessId(pid=state.processes[0].pid, start_ticks=state.processes[0].start_ticks)


def test_what_dies_at_once_is_started_ever_more_seldom(tmp_path: Path) -> None:
    """At once, then after 1 s, 2 s and 4 s; each start is counted and said with the log to look at."""
    mesh = make_mesh(tmp_path, "raise SystemExit(3)")
    backoffs: dict[str, Backoff] = {}
    started_s = []
    for tenth in range(100):
        if told := supervise(mesh, backoffs, tenth / 10):
            started_s.append(tenth / 10)
            assert told == [f"api had died and was started again; its log is {tmp_path / 'api.log'}"]
            await_true(lambda: not is_alive(process_of(tmp_path)), "the process to end", timeout_s=30)

    assert started_s == [0.0, 1.0, 3.0, 7.0]
    assert [status.restart_count for status in Mesh(tmp_path).status()] == [4]


def test_what_has_run_for_a_minute_is_started_at_once() -> None:
    """An old failure does not hold up a new start."""
    backoff = Backoff()
    backoff.started(0.0)
    assert not backoff.is_due(0.9)
    assert backoff.is_due(1.0)
    backoff.started(1.0)
    assert backoff.is_due(100.0)
    backoff.started(100.0)
    assert not backoff.is_due(100.9)
    assert backoff.is_due(101.0)


def test_what_runs_is_left_alone(tmp_path: Path) -> None:
    """Only what has died is started."""
    mesh = make_mesh(tmp_path, "import sys; sys.stdin.read(); import time; time.sleep(600)")
    supervise(mesh, {}, 0.0)
    process = process_of(tmp_path)
    try:
        assert supervise(Mesh(tmp_path), {}, 100.0) == []
        assert process_of(tmp_path) == process
    finally:
        end_process(process)


def test_supervisor_ends_with_the_mesh(tmp_path: Path) -> None:
    """A mesh that was stopped has nothing to be watched over."""
    make_mesh(tmp_path, "pass").stop()
    assert main([str(tmp_path)]) == 0
    with pytest.raises(NotFound, match="is stopped"):
        Mesh(tmp_path).dead_roles()
