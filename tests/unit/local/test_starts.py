"""A process that ends before its mesh is ready: it is started again a few times, and said to be, or ends the start."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from argosy_core.errors import BackendUnavailable
from argosy_local.mesh import Mesh
from argosy_local.mesh_state import MeshState, ProcessEntry, write_state
from argosy_local.processes import free_ports

WAIT_S = 50.0
DIE = (
    "import os, resource, signal; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); print('at the end', flush=True);"
    " os.kill(os.getpid(), signal.SIGSEGV)"
)
LISTEN = """
import socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    listener.accept()[0].close()
"""
LISTEN_ONCE = """
import socket, sys
socket.create_server(("127.0.0.1", int(sys.argv[1]))).accept()
raise SystemExit(3)
"""
LISTEN_AFTER_THE_FIRST = """
import pathlib, sys
mark = pathlib.Path(sys.argv[2])
if not mark.exists():
    mark.touch()
    exec(sys.argv[3])
exec(sys.argv[4])
"""


@pytest.fixture
def mesh(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Mesh]:
    """A mesh of two processes with the programs of the case; both were started."""
    entries = []
    programs = dict(zip(("api", "leader"), request.param, strict=True))
    for (role, program), port in zip(programs.items(), free_ports(2), strict=True):
        entries.append(
            ProcessEntry(
                role=role,
                arguments=[sys.executable, "-c", program, str(port), str(tmp_path / "mark"), DIE, LISTEN],
                address=f"127.0.0.1:{port}",
                probe="connect",
                log=str(tmp_path / f"{role}.log"),
            )
        )
    state = MeshState(
        server=entries[0].address, database_url="", embedded=False, cluster_names=[], speed=1.0, processes=entries
    )
    write_state(tmp_path, state)
    mesh = Mesh(tmp_path)
    try:
        for entry in entries:
            mesh.start(entry.role)
        yield mesh
    finally:
        mesh.stop(grace_s=2.0)


def restart_counts(mesh: Mesh) -> dict[str, int]:
    """Return how often each process is written down to have been started again."""
    return {status.role: status.restart_count for status in Mesh(mesh.directory).status()}


@pytest.mark.parametrize("mesh", [(LISTEN, LISTEN_AFTER_THE_FIRST)], indirect=True)
def test_what_dies_at_the_start_is_started_again(mesh: Mesh) -> None:
    """A crash of one process costs a new start of it, which is said with its signal and its log, and counted."""
    told: list[str] = []
    mesh.await_ready(timeout_s=WAIT_S, start_again_count=3, tell=told.append)

    log = mesh.log_path("leader")
    assert told == [f"leader was ended by SIGSEGV and was started again (1 of 3); its log is {log}"]
    assert mesh.dead_roles() == []
    assert restart_counts(mesh) == {"api": 0, "leader": 1}


@pytest.mark.parametrize("mesh", [(LISTEN, DIE)], indirect=True)
def test_what_always_dies_ends_the_start(mesh: Mesh) -> None:
    """After as many new starts as are allowed, with its name, the signal and what it said."""
    told: list[str] = []
    with pytest.raises(BackendUnavailable) as raised:
        mesh.await_ready(timeout_s=WAIT_S, start_again_count=3, tell=told.append)

    assert raised.value.message == (
        "leader was ended by SIGSEGV again after 3 new starts:\n  " + "\n  ".join(["at the end"] * 4)
    )
    assert len(told) == 3


@pytest.mark.parametrize("mesh", [(LISTEN, "raise SystemExit(print('no such flag') or 2)")], indirect=True)
def test_what_cannot_run_as_configured_is_not_started_again(mesh: Mesh) -> None:
    """Exit code 2 ends the start at once with what it said: a new start would end the same way."""
    told: list[str] = []
    with pytest.raises(BackendUnavailable) as raised:
        mesh.await_ready(timeout_s=WAIT_S, start_again_count=3, tell=told.append)

    assert raised.value.message == "leader ended with exit code 2:\n  no such flag"
    assert told == []


@pytest.mark.parametrize("mesh", [("import time; time.sleep(600)", LISTEN_ONCE)], indirect=True)
def test_what_dies_after_it_served_is_seen_while_others_are_waited_for(mesh: Mesh) -> None:
    """Those may wait for it, and would be waited for in vain; and a wait that is not a start's starts nothing."""
    with pytest.raises(BackendUnavailable, match=r"^leader ended with exit code 3"):
        mesh.await_ready(timeout_s=WAIT_S)
    assert restart_counts(mesh) == {"api": 0, "leader": 0}
