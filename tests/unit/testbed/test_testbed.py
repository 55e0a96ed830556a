"""The testbed's own rules: what the cache promises, what is checked, what is ended with its owner."""

from __future__ import annotations

import hashlib
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from testbed.programs import Program

from argosy_core.errors import BackendUnavailable, NotAllowedNow
from argosy_local.processes import await_true, identify, is_alive
from testbed import __main__ as command
from testbed import artifacts, cache, collector, containers, go_programs, kubernetes, reaper


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv(cache.CACHE_VARIABLE, str(folder))
    return folder


def quiet(_: str) -> None:
    """Tell nobody."""


def test_cached_folder_is_made_once() -> None:
    """A second caller gets what the first made."""
    made: list[Path] = []

    def make(folder: Path) -> None:
        made.append(folder)
        (folder / "content").write_text("7")

    first = cache.obtain("part-1", make, quiet)
    assert cache.obtain("part-1", make, quiet) == first
    assert (first / "content").read_text() == "7"
    assert len(made) == 1
    assert cache.is_cached("part-1")


def test_cached_folder_that_was_not_finished_leaves_nothing(cache_folder: Path) -> None:
    """A build that fails is begun anew the next time, from nothing."""

    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise BackendUnavailable("no such thing")

    with pytest.raises(BackendUnavailable):
        cache.obtain("part-1", fail, quiet)
    assert not cache.is_cached("part-1")
    assert [path.name for path in cache_folder.iterdir()] == ["part-1.lock"]


def test_second_builder_waits_for_the_first_and_makes_nothing() -> None:
    """Two at once build once."""
    made: list[int] = []
    begun, told = threading.Event(), threading.Event()

    def make_slowly(_: Path) -> None:
        begun.set()
        told.wait(timeout=10)
        made.append(1)

    first = threading.Thread(target=cache.obtain, args=("part-1", make_slowly, quiet))
    first.start()
    begun.wait(timeout=10)
    cache.obtain("part-1", lambda _: made.append(2), lambda _: told.set())
    first.join(timeout=10)
    assert made == [1]


def test_artifact_with_another_checksum_is_refused(tmp_path: Path) -> None:
    """What was fetched is what was pinned, or it is not used."""
    path = tmp_path / "artifact"
    path.write_bytes(b"content")
    artifacts.check_sum(path, hashlib.sha256(b"content").hexdigest())
    with pytest.raises(BackendUnavailable, match="not used"):
        artifacts.check_sum(path, hashlib.sha256(b"other").hexdigest())


def test_artifact_without_maven_is_asked_for_with_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what to install."""
    monkeypatch.setenv("PATH", "")
    artifact = artifacts.Artifact(coordinates="group:thing:1", sha256="")
    with pytest.raises(NotAllowedNow, match="install Maven"), artifacts.fetched(artifact, quiet):
        pass


def test_source_that_is_none_is_named_with_those_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt source is an error, not the default."""
    monkeypatch.setenv(containers.SOURCE_VARIABLE, "dockr")
    with pytest.raises(NotAllowedNow, match="auto, container, registry"):
        containers.source()


@pytest.mark.parametrize(("wanted", "cached"), [("registry", "another"), ("auto", "part-1")])
def test_part_runs_in_no_container_where_registries_are_wanted_or_it_is_cached(
    monkeypatch: pytest.MonkeyPatch, wanted: str, cached: str
) -> None:
    """No engine is asked then."""
    monkeypatch.setenv(containers.SOURCE_VARIABLE, wanted)
    monkeypatch.setenv("PATH", "")
    cache.obtain(cached, lambda _: None, quiet)
    assert not containers.is_container_part(f"image:{wanted}", "part-1", quiet)


def test_container_that_is_wanted_and_cannot_be_had_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not replaced by something else."""
    monkeypatch.setenv(containers.SOURCE_VARIABLE, "container")
    monkeypatch.setattr(containers, "_answers", lambda: False)
    with pytest.raises(NotAllowedNow, match="image:missing"):
        containers.is_container_part("image:missing", "part-1", quiet)


@pytest.mark.parametrize(("part", "named"), [(kubernetes, "control-plane-v1"), (collector, "collector-0")])
def test_go_that_is_needed_is_asked_for_with_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, part: Any, named: str
) -> None:
    """Go that is absent or too old is named with the release that is needed."""
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho go version go1.19.1 linux/amd64\n")
    go.chmod(0o755)
    monkeypatch.delenv(part.BINARY_VARIABLE, raising=False)
    monkeypatch.setattr(go_programs.shutil, "which", lambda _: str(go))
    with pytest.raises(NotAllowedNow, match=rf"{named}.*Go 1\.26 or newer.*go1\.19"):
        part.build(quiet)


@pytest.mark.parametrize("part", [kubernetes, collector])
def test_named_binary_must_be_a_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, part: Any) -> None:
    """A binary that was built elsewhere is used as it is, one that is none is an error."""
    monkeypatch.setenv(part.BINARY_VARIABLE, sys.executable)
    assert part.build(quiet) == Path(sys.executable)
    monkeypatch.setenv(part.BINARY_VARIABLE, str(tmp_path / "none"))
    with pytest.raises(NotAllowedNow, match="no program"):
        part.build(quiet)


def test_program_that_ends_at_once_is_told_with_its_last_words(tmp_path: Path) -> None:
    """Waiting for it stops, and says what it had said."""
    program = Program("part", [sys.executable, "-c", "print('no licence')"], log=tmp_path / "log", is_tied=False)
    program.start()
    with pytest.raises(BackendUnavailable, match="no licence"):
        program.await_ready(lambda: False, timeout_s=30.0)


def test_killed_program_can_be_started_again(tmp_path: Path) -> None:
    """Each start is a process of its own, and ending one that does not run is fine."""
    program = Program("part", ["sleep", "60"], log=tmp_path / "log", is_tied=False)
    program.start()
    first = program.process
    program.kill()
    assert not program.is_running
    program.start()
    assert program.is_running
    assert program.process != first
    program.stop()
    program.stop()
    assert not program.is_running


def test_reaper_ends_what_was_left_and_spares_what_was_released(tmp_path: Path) -> None:
    """When its input ends, processes and folders that were not taken back go."""
    kept, left = (subprocess.Popen(["sleep", "60"]) for _ in range(2))
    folder = tmp_path / "left behind"
    folder.mkdir()
    try:
        reaper.watch(kept.pid, 0)
        reaper.watch(left.pid, 0)
        reaper.watch("folder", folder)
        reaper.release(kept.pid, 0)
        reaper.dismiss()
        assert left.wait(timeout=10) == -signal.SIGKILL
        await_true(lambda: not folder.exists(), "the folder to go", timeout_s=10.0)
        assert kept.poll() is None
    finally:
        for process in (kept, left):
            process.kill()
            process.wait()


_HOME = {"PYTHONHOME": f"{sys.base_prefix}:{sys.base_exec_prefix}"}
"""An interpreter that is called by another name would look for itself where a program of that name is installed."""


@pytest.fixture
def shim(tmp_path: Path) -> Iterator[Callable[[Path], tuple[subprocess.Popen[str], int]]]:
    """Starts what looks like the keeper of an engine's container, and gives it with its child's id."""
    code = "import subprocess, sys; print(subprocess.Popen(['sleep', '60']).pid, flush=True); sys.stdin.read()"
    with ExitStack() as stack:

        def start(directory: Path) -> tuple[subprocess.Popen[str], int]:
            words = ["containerd-shim-runc-v2", "-c", code, "-address", str(directory / "exec" / "containerd.sock")]
            process = subprocess.Popen(
                words,
                executable=sys.executable,
                env=_HOME,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            assert process.stdout is not None
            return process, int(process.stdout.readline())

        yield start


def test_reaper_ends_an_engine_with_all_that_keeps_its_containers(
    tmp_path: Path, shim: Callable[[Path], tuple[subprocess.Popen[str], int]]
) -> None:
    """The daemon is asked to end, and what outlives it is killed with its children; another engine's goes on."""
    told = tmp_path / "told"
    daemon = (
        "import pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(pathlib.Path(sys.argv[2]).write_text('asked') and 0))\n"
        "print('up', flush=True); time.sleep(60)"
    )
    words = ["dockerd", "-c", daemon, f"--data-root={tmp_path / 'engine' / 'data'}", str(told)]
    (ours, child), (other, _) = shim(tmp_path / "engine"), shim(tmp_path / "other")
    with subprocess.Popen(words, executable=sys.executable, env=_HOME, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        reaper.watch("engine", tmp_path / "engine")
        reaper.dismiss()
        assert (process.wait(timeout=10), told.read_text()) == (0, "asked")
    assert ours.wait(timeout=10) == -signal.SIGKILL
    await_true(lambda: not is_alive(identify(child)), "the container to go", timeout_s=10.0)
    assert other.poll() is None


def test_engine_whose_daemon_is_gone_is_ended_by_the_next_run(
    tmp_path: Path, shim: Callable[[Path], tuple[subprocess.Popen[str], int]]
) -> None:
    """A run that was killed with all its helpers leaves nothing for long; one that is under way is spared."""
    for name in ("run-1", "run-2"):
        (tmp_path / name / "engine").mkdir(parents=True)
    (lost, _), (used, _) = shim(tmp_path / "run-1" / "engine"), shim(tmp_path / "run-2" / "engine")
    code = "print('up', flush=True); input()"
    words = ["dockerd", "-c", code, f"--data-root={tmp_path / 'run-2' / 'engine'}"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, executable=sys.executable, env=_HOME, stdin=pipe, stdout=pipe) as daemon:
        assert daemon.stdout is not None
        daemon.stdout.readline()  # a process has no arguments to be seen for a moment after it was started
        reaper.end_lost_engines(f"{tmp_path}/run-*/engine")
        assert lost.wait(timeout=10) == -signal.SIGKILL
        assert used.poll() is None
        daemon.kill()


def test_status_names_parts_that_were_not_started(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing runs in a fresh cache, and ending nothing is fine."""
    assert command.main(["status"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "kubernetes: not started",
        "pulsar: not started",
        "postgres: not started",
    ]
    assert command.main(["down"]) == 0


@pytest.mark.parametrize(
    ("action", "part", "there"),
    [
        ("up", "kafka", "kubernetes, pulsar, postgres\n"),
        ("up", "collector", "kubernetes, pulsar, postgres\n"),
        ("build", "kafka", "kubernetes, pulsar, postgres, collector, minio, loki\n"),
    ],
)
def test_unknown_part_is_refused(capsys: pytest.CaptureFixture[str], action: str, part: str, there: str) -> None:
    """With the parts there are for that action; a collector is no part to start by hand."""
    with pytest.raises(SystemExit):
        command.main([action, part])
    assert f"there are {there}" in capsys.readouterr().err


def test_collector_is_built_before_the_tests_that_need_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`make testbed` builds it, since a test that did would run out of its time."""
    for part in command.BUILT_PARTS:
        monkeypatch.setitem(command._BUILDERS, part, lambda part=part: Path(f"/cache/{part}"))
    assert command.main(["build"]) == 0
    assert "collector: /cache/collector" in capsys.readouterr().out.splitlines()


def test_cached_folder_can_be_entered_by_other_accounts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Postgres runs as another account if we are root, and root's home is closed."""
    monkeypatch.delenv(cache.CACHE_VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "named"))
    assert cache.cache_directory() == tmp_path / "named" / "argosy" / "testbed"
    folder = cache.obtain("part-1", lambda _: None, quiet)
    assert folder.stat().st_mode & 0o055 == 0o055
