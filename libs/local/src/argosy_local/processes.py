"""Processes of this machine: start them apart from us, look at them, end them.

A process is known by its id and its start time, since ids are used again. Everything is read from /proc; elsewhere than
on Linux, CPU and memory read as 0.

Source: design section 9, "`argosy up | down | status`"; section 8, CPU per role.
"""

from __future__ import annotations

import atexit
import bisect
import os
import secrets
import signal
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from argosy_core.errors import BackendUnavailable

__all__ = [
    "ProcessId",
    "Usage",
    "await_true",
    "end_process",
    "exit_code_of",
    "free_ports",
    "identify",
    "is_alive",
    "is_free",
    "signal_process",
    "spawn",
    "tree_usage",
    "usage",
]

_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_POLL_S: Final = 0.02
_THREAD_VARIABLES: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_children: Final[dict[int, subprocess.Popen[bytes]]] = {}  # ours, to be reaped
_exit_codes: Final[dict[int, int]] = {}  # of ours that were reaped, by process id
_OUTGOING_PORTS: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_HELD_PORT_COUNT: Final = 256  # more than any mesh has, and few beside the descriptors that a process may have
_ports_lock: Final = threading.Lock()
_held_ports: Final[deque[tuple[int, int]]] = deque()  # port and descriptor, oldest first


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessId:
    """Which process."""

    pid: int
    """Its id."""
    start_ticks: int
    """When it started, clock ticks since the machine did; 0 where that cannot be told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a process has used."""

    cpu_s: float = 0.0
    """User and system time, seconds, its ended children included."""
    rss_bytes: int = 0
    """Memory in use."""
    peak_rss_bytes: int = 0
    """Most memory it ever used."""


def identify(pid: int) -> ProcessId:
    """Return which process has an id now."""
    fields = _stat(pid)
    return ProcessId(pid=pid, start_ticks=int(fields[19]) if fields else 0)


def is_alive(process: ProcessId) -> bool:
    """Return whether a process runs; one that has ended and was not waited for does not.

    A process whose first thread has ended runs for as long as another does: until then its ports are taken and its
    files open, as they are for some milliseconds after it was killed.
    """
    fields = _stat(process.pid)
    child = _children.get(process.pid)
    if child is not None and (code := child.poll()) is not None:
        _exit_codes[process.pid] = code
        del _children[process.pid]
        return False
    if fields:
        has_ended = fields[0] == "Z" and int(fields[17]) <= 1
        return not has_ended and process.start_ticks in {0, int(fields[19])}
    if Path("/proc/self/stat").exists():
        return False
    with suppress(OSError):
        os.kill(process.pid, 0)
        return True
    return False


def exit_code_of(process: ProcessId) -> int | None:
    """Return how a process that was found to have ended did, minus the number of the signal if one ended it.

    None if it was not started by this process, or still runs.
    """
    return None if is_alive(process) else _exit_codes.get(process.pid)


def spawn(arguments: Sequence[str], *, log: Path, environment: Mapping[str, str] | None = None) -> ProcessId:
    """Start a program in a session of its own, so that it outlives us and our terminal's interrupts.

    Args:
        arguments: Program and arguments.
        log: File its output is added to.
        environment: Variables beside ours; numeric libraries get one thread, since processes are many.
    """
    variables = {
        **_keeping_bytecode(os.environ),
        "PYTHONUNBUFFERED": "1",
        **dict.fromkeys(_THREAD_VARIABLES, "1"),
        **(environment or {}),
    }
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=variables,
        )
    _exit_codes.pop(process.pid, None)  # of an earlier process of this id
    _children[process.pid] = process
    return identify(process.pid)


def _keeping_bytecode(variables: Mapping[str, str]) -> dict[str, str]:
    """Return variables under which Python keeps what it compiled.

    Where it is told to leave no bytecode beside sources, each process of a mesh would compile everything anew at every
    start, seconds of CPU each. So theirs goes to the user's cache, which keeps sources clean as well.
    """
    kept = dict(variables)
    if kept.get("PYTHONDONTWRITEBYTECODE") and not kept.get("PYTHONPYCACHEPREFIX"):
        del kept["PYTHONDONTWRITEBYTECODE"]
        cache = kept.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
        kept["PYTHONPYCACHEPREFIX"] = str(Path(cache) / "argosy" / "bytecode")
    return kept


@atexit.register
def _let_go() -> None:
    """Let go of our children at our end: those that have ended are reaped, the others outlive us on purpose."""
    for child in _children.values():
        if child.poll() is None:
            child.returncode = 0  # else its object warns that the process still runs


def signal_process(process: ProcessId, number: signal.Signals) -> None:
    """Send a signal to a process, if it runs."""
    if is_alive(process):
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)


def end_process(process: ProcessId, *, grace_s: float = 10.0) -> None:
    """End a process: ask, and kill it when the grace has passed.

    Raises:
        BackendUnavailable: It cannot be killed.
    """
    signal_process(process, signal.SIGTERM)
    try:
        await_true(lambda: not is_alive(process), f"process {process.pid} to end", timeout_s=grace_s)
    except BackendUnavailable:
        signal_process(process, signal.SIGKILL)
        await_true(lambda: not is_alive(process), f"process {process.pid} to be killed", timeout_s=10.0)


def await_true(condition: Callable[[], bool], what: str, *, timeout_s: float) -> None:
    """Wait until something is so.

    Raises:
        BackendUnavailable: It was not, in time.
    """
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline_s:
            raise BackendUnavailable(f"waited {timeout_s:g} s for {what}")
        time.sleep(_POLL_S)


def usage(pid: int) -> Usage:
    """Return what a process has used, zeros if there is none."""
    fields = _stat(pid)
    if not fields:
        return Usage()
    ticks = sum(int(field) for field in fields[11:15])
    memory = _memory(pid)
    return Usage(
        cpu_s=ticks / _TICKS_PER_SECOND, rss_bytes=memory.get("VmRSS", 0), peak_rss_bytes=memory.get("VmHWM", 0)
    )


def tree_usage(pid: int) -> Usage:
    """Return what a process and its children have used; memory that they share counts once."""
    pids = [pid, *_child_ids(pid)]
    usages = [usage(one) for one in pids]
    shared = [_memory(one).get("RssShmem", 0) for one in pids]
    together = sum(one.rss_bytes for one in usages) - sum(shared) + max(shared, default=0)
    return Usage(cpu_s=sum(one.cpu_s for one in usages), rss_bytes=together, peak_rss_bytes=together)


def is_free(port: int) -> bool:
    """Return whether nobody listens on a port of the loopback interface."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_ports(count: int) -> list[int]:
    """Return free ports of the loopback interface, all different, that nobody else is given before they are used.

    They lie outside the range that the system takes ports from by itself (if it leaves room), so that no outgoing
    connection has one when a program binds it, or binds it again after a restart. Other callers of this function, in
    this process or another, do not get them either: the UDP port of the same number is held for each, until this
    process ends or has asked for many more.

    Raises:
        BackendUnavailable: There are not so many.
    """
    ports: list[int] = []
    with _ports_lock:
        candidates = _port_candidates()
        newest = _held_ports[-1][0] if _held_ports else secrets.choice(candidates)
        first = bisect.bisect(candidates, newest)
        for port in candidates[first:] + candidates[:first]:
            if len(ports) == count:
                break
            if (descriptor := _take_port(port)) is not None:
                _held_ports.append((port, descriptor))
                ports.append(port)
        while len(_held_ports) > max(_HELD_PORT_COUNT, count):
            os.close(_held_ports.popleft()[1])
    if len(ports) < count:
        raise BackendUnavailable(f"{count} free ports were asked for and only {len(ports)} are there")
    return ports


def _port_candidates() -> list[int]:
    """Return the ports to choose among."""
    ports = range(20_000, 60_000)
    with suppress(OSError, ValueError):
        lowest, highest = map(int, _OUTGOING_PORTS.read_text(encoding="ascii").split())
        apart = [port for port in ports if not lowest <= port <= highest]
        return apart if len(apart) > _HELD_PORT_COUNT else list(ports)
    return list(ports[:10_000])  # below the range of every system that does not tell it


def _take_port(port: int) -> int | None:
    """Return the descriptor that holds a port against other callers, None if it is held or in use."""
    import socket

    with suppress(OSError), socket.socket(type=socket.SOCK_DGRAM) as hold, socket.socket() as probe:
        hold.bind(("127.0.0.1", port))
        probe.bind(("127.0.0.1", port))
        return hold.detach()
    return None


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat behind the name, from the state on; empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _memory(pid: int) -> dict[str, int]:
    """Return the sizes in /proc/PID/status, bytes by name."""
    sizes = {}
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if value.endswith(" kB"):
                sizes[name] = int(value.split()[0]) * 1024
    return sizes


def _child_ids(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()]
    found = []
    for path in Path("/proc").glob("[0-9]*"):  # kernels without that file
        fields = _stat(int(path.name))
        if fields and int(fields[1]) == pid:
            found.append(int(path.name))
    return found
