"""The embedded Postgres."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from argosy_core.errors import BackendUnavailable, NotAllowedNow
from argosy_store import EmbeddedPostgres

SMALL = {"shared_buffers": "16MB"}


@pytest.fixture
def directory() -> Iterator[Path]:
    """Give a directory that only its owner may enter, as a home directory is."""
    path = Path(tempfile.mkdtemp(prefix="argosy-emb-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


def test_start_attaches_to_a_running_server_and_keeps_data_over_a_restart(directory: Path) -> None:
    """One directory, one server: a second start finds it; a stop and start brings the data back."""
    first = EmbeddedPostgres(directory / "pg", settings=SMALL)
    url = first.start()
    second = EmbeddedPostgres(directory / "pg", settings=SMALL)
    assert second.start() == url == second.url
    assert first.pid == second.pid
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS value")
    second.stop()
    assert first.pid is None
    with first, psycopg.connect(url) as connection:
        assert connection.execute("SELECT value FROM kept").fetchone() == (7,)
        assert connection.execute("SHOW fsync").fetchone() == ("on",)
    assert first.pid is None
    first.stop()


def test_start_recovers_a_server_that_was_killed(directory: Path) -> None:
    """After kill -9 the same directory starts again with everything that was committed."""
    server = EmbeddedPostgres(directory / "pg", settings=SMALL)
    url = server.start()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS value")
        server.kill()
    with server, psycopg.connect(url) as connection:
        assert connection.execute("SELECT value FROM kept").fetchone() == (7,)


def test_start_does_not_fork_this_process(directory: Path) -> None:
    """A fork of a process that makes gRPC calls loses some of them; starting by vfork, as for any program, does not."""
    program = (
        "import ctypes, sys; from argosy_store import EmbeddedPostgres; forks = [];"
        "note = ctypes.CFUNCTYPE(None)(lambda: forks.append(1));"
        "assert ctypes.CDLL(None).__register_atfork(note, None, None, None) == 0;"
        "server = EmbeddedPostgres(sys.argv[1], settings={'shared_buffers': '16MB'});"
        "server.start(); server.stop(); print(len(forks))"
    )

    done = subprocess.run(
        [sys.executable, "-c", program, str(directory / "pg")], capture_output=True, text=True, check=False, timeout=50
    )

    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


def test_a_long_path_is_reached_by_a_short_one(directory: Path) -> None:
    """The limit on the length of socket paths does not limit where data may be."""
    deep = directory / ("d" * 60) / ("e" * 60)
    server = EmbeddedPostgres(deep, settings=SMALL)
    with server, psycopg.connect(server.url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    link = server._socket_directory()
    assert link != deep / "data"
    link.unlink()
    link.symlink_to("/elsewhere")
    with pytest.raises(NotAllowedNow, match="remove it"):
        server.start()
    link.unlink()


def test_a_long_path_is_reached_though_the_temporary_directory_is_as_deep(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TMPDIR may be somebody's own; then the short path is made where every system has a short one."""
    deep = directory / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    server = EmbeddedPostgres(deep / "pg", settings=SMALL)
    with server, psycopg.connect(server.url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
        link = server._socket_directory()
        assert link.parent == Path("/tmp")
    assert not link.is_symlink()


def test_a_server_that_cannot_start_says_why(directory: Path) -> None:
    """The error carries the server's own words."""
    server = EmbeddedPostgres(directory / "pg", settings={"shared_buffers": "nonsense"}, start_timeout_s=1.0)
    said = ""
    while "shared_buffers" not in said:  # on a slow machine it may not have said anything within that second
        with pytest.raises(BackendUnavailable) as caught:
            server.start()
        said = caught.value.message
    server.stop()


def test_an_initialisation_that_was_interrupted_is_begun_anew(directory: Path) -> None:
    """A directory that holds half a server becomes a whole one."""
    half = directory / "pg" / "data" / "base"
    half.mkdir(parents=True)
    with EmbeddedPostgres(directory / "pg", settings=SMALL) as server, psycopg.connect(server.url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
        assert server.pid != os.getpid()
