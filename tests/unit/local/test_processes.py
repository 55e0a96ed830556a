"""Processes of this machine: start, look, end."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from argosy_core.errors import BackendUnavailable
from argosy_local import processes
from argosy_local.processes import (
    ProcessId,
    await_true,
    end_process,
    free_ports,
    identify,
    is_alive,
    signal_process,
    spawn,
    tree_usage,
    usage,
)

SLEEPER = "import sys, time; print('up', flush=True); time.sleep(600)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)

HEADLESS = (
    "import ctypes, threading, time; threading.Thread(target=time.sleep, args=(600,)).start(); "
    "print('up', flush=True); ctypes.CDLL(None).pthread_exit(None)"
)


def start(program: str, log: Path) -> ProcessId:
    """Start a Python program and wait until it says that it is up."""
    process = spawn([sys.executable, "-c", program], log=log)
    await_true(lambda: "up" in log.read_text(), "the program to start", timeout_s=20)
    return process


@pytest.mark.parametrize("program", [SLEEPER, STUBBORN], ids=["willing", "stubborn"])
def test_process_is_ended_whether_it_wants_or_not(tmp_path: Path, program: str) -> None:
    """SIGTERM first, SIGKILL when the grace has passed; an ended process is not alive although nobody waited for it."""
    process = start(program, tmp_path / "log")
    assert is_alive(process)

    end_process(process, grace_s=0.2)

    assert not is_alive(process)


def test_process_of_another_start_time_is_another_process(tmp_path: Path) -> None:
    """Process ids are used again; somebody else's process is neither alive for us nor signalled."""
    process = start(SLEEPER, tmp_path / "log")
    reused = ProcessId(pid=process.pid, start_ticks=process.start_ticks - 1)

    signal_process(reused, signal.SIGKILL)

    assert not is_alive(reused)
    assert is_alive(process)
    end_process(process)


@pytest.mark.skipif(sys.platform != "linux", reason="what a process does is read from /proc")
def test_process_runs_until_its_last_thread_has_ended(tmp_path: Path) -> None:
    """One whose first thread has ended still has its ports, so a program that takes its place must wait."""
    process = start(HEADLESS, tmp_path / "log")
    stat = Path(f"/proc/{process.pid}/stat")
    await_true(lambda: stat.read_text().rpartition(") ")[2][0] == "Z", "the first thread to end", timeout_s=20)

    assert is_alive(process)

    end_process(process, grace_s=0.2)
    assert not is_alive(process)


def test_usage_counts_children(tmp_path: Path) -> None:
    """A process with children has used what they have used."""
    program = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'while True: pass'])\n"
        "print('up', child.pid, flush=True); child.wait()"
    )
    process = start(program, tmp_path / "log")
    child = identify(int((tmp_path / "log").read_text().split()[1]))

    await_true(lambda: usage(child.pid).cpu_s > 0.1, "the child to work", timeout_s=20)
    together, alone = tree_usage(process.pid), usage(process.pid)

    assert together.cpu_s >= alone.cpu_s + 0.1
    assert together.rss_bytes > alone.rss_bytes > 1 << 20
    end_process(process)
    end_process(child)


def test_numeric_libraries_get_one_thread_and_variables_are_added(tmp_path: Path) -> None:
    """Many processes share few cores."""
    program = "import os; print(os.environ['OMP_NUM_THREADS'], os.environ['OPENBLAS_NUM_THREADS'], os.environ['EXTRA'])"

    spawn([sys.executable, "-c", program], log=tmp_path / "log", environment={"EXTRA": "7"})

    await_true(lambda: (tmp_path / "log").read_text() == "1 1 7\n", "the program to say so", timeout_s=20)


def test_processes_keep_their_bytecode_in_the_users_cache_where_sources_are_to_stay_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mesh must not compile everything anew in every process at every start."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "module.py").write_text("")

    spawn(
        [sys.executable, "-c", "import module; print('done')"],
        log=tmp_path / "log",
        environment={"PYTHONPATH": str(tmp_path)},
    )

    await_true(lambda: (tmp_path / "log").read_text() == "done\n", "the program to say so", timeout_s=20)
    assert [path.name.split(".")[0] for path in (tmp_path / "cache").rglob("module*.pyc")] == ["module"]
    assert not (tmp_path / "__pycache__").exists()


def test_free_ports_are_given_to_one_caller_only() -> None:
    """Ports differ from all that were given before, here or in another process that has not bound them yet."""
    ask = "import sys; from argosy_local.processes import free_ports; print(*free_ports(20), flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", ask], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as far:
        assert far.stdout is not None
        theirs = [int(word) for word in far.stdout.readline().split()]
        # Whatever number they were asked from, a search that begins where theirs began must pass theirs over.
        processes._held_ports.append((theirs[0] - 1, os.open(os.devnull, os.O_RDONLY)))
        ours = free_ports(20)
        assert len({*ours, *theirs, *free_ports(20)}) == 60
        far.communicate("\n", timeout=20)


@pytest.mark.parametrize(
    ("outgoing", "expected"),
    [
        pytest.param("32768 60999", (20_000, 32_767), id="Linux as it comes"),
        pytest.param("20000\t49999\n", (50_000, 59_999), id="another range"),
        pytest.param("1024 65535", (20_000, 59_999), id="no room left"),
        pytest.param("?", (20_000, 29_999), id="unknown"),
    ],
)
def test_free_ports_are_none_that_the_system_gives_to_connections(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, outgoing: str, expected: tuple[int, int]
) -> None:
    """What binds such a port later, or again after a restart, finds no connection on it."""
    (tmp_path / "range").write_text(outgoing)
    monkeypatch.setattr(processes, "_OUTGOING_PORTS", tmp_path / "range")
    candidates = processes._port_candidates()
    assert (candidates[0], candidates[-1]) == expected
    assert set(free_ports(5)) <= set(candidates)


def test_free_ports_pass_over_one_that_is_bound() -> None:
    """A program that chose its port otherwise keeps it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert processes._take_port(listener.getsockname()[1]) is None


def test_free_ports_of_the_past_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that starts many meshes holds no more descriptors than a few."""
    monkeypatch.setattr(processes, "_HELD_PORT_COUNT", 4)
    for _ in range(5):
        free_ports(3)
    assert len(processes._held_ports) == 4


def test_more_ports_than_there_are_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says how many there were."""
    monkeypatch.setattr(processes, "_take_port", lambda _: None)
    with pytest.raises(BackendUnavailable, match="3 free ports were asked for and only 0"):
        free_ports(3)


def test_waiting_is_bounded() -> None:
    """What never becomes true is an error that says what was waited for."""
    with pytest.raises(BackendUnavailable, match=r"waited 0\.01 s for the moon"):
        await_true(lambda: False, "the moon", timeout_s=0.01)
