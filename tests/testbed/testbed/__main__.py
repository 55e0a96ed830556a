"""`python -m testbed`: fetch and build real parts, start them for use by hand, stop them.

Parts that `up` starts outlive it; `down` ends them and removes what they kept. Tests start their own and need no `up`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from argosy_core.errors import ArgosyError
from argosy_local.processes import ProcessId, end_process, is_alive
from argosy_testkit.fake_kubelet.process import TOKEN_VARIABLE
from testbed import collector, containers, kubernetes, log_servers, postgres, pulsar
from testbed.cache import cache_directory
from testbed.programs import Program

__all__ = ["main"]

PARTS: Final = ("kubernetes", "pulsar", "postgres")
"""Parts that can be started by hand."""
BUILT_PARTS: Final = (*PARTS, "collector", "minio", "loki")
"""Parts that can be built; what is no part to start by hand the tests start that need it, with their configuration."""


@dataclass(kw_only=True)
class _Running:
    """A part that was started."""

    part: str
    directory: str
    addresses: dict[str, str]
    """Variables to export, by name."""
    processes: list[tuple[int, int]] = field(default_factory=list)
    """(id, start ticks), in the order in which to end them."""
    container: str = ""
    """Name of its container, if it is one."""

    @property
    def is_running(self) -> bool:
        """Whether all of it runs."""
        if self.container:
            return containers.is_running(self.container)
        return all(is_alive(ProcessId(pid=pid, start_ticks=ticks)) for pid, ticks in self.processes)

    def end(self) -> None:
        """End it and remove its directory."""
        if self.container:
            containers.remove_container(self.container)
        for pid, ticks in self.processes:
            end_process(ProcessId(pid=pid, start_ticks=ticks), grace_s=10.0)
        shutil.rmtree(self.directory, ignore_errors=True)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _state_path() -> Path:
    return cache_directory() / "running.json"


def _read_state() -> list[_Running]:
    try:
        rows: list[dict[str, Any]] = json.loads(_state_path().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    return [_Running(**row) for row in rows]


def _write_state(running: Sequence[_Running]) -> None:
    _state_path().write_text(json.dumps([asdict(one) for one in running], indent=1), encoding="utf-8")
    _state_path().chmod(0o600)  # addresses hold passwords


def _identities(*programs: Program | None) -> list[tuple[int, int]]:
    found = (program.process for program in programs if program is not None)
    return [(process.pid, process.start_ticks) for process in found if process is not None]


def _start_kubernetes(directory: Path, node_count: int) -> _Running:
    options = kubernetes.ControlPlaneOptions(is_tied=False)
    control_plane = kubernetes.ControlPlane(directory, options, tell=_tell)
    pki = control_plane.ca.parent
    kubelet = Program(
        "kubelet",
        [
            sys.executable,
            "-m",
            "argosy_testkit.fake_kubelet",
            f"--url={control_plane.url}",
            f"--ca={control_plane.ca}",
            f"--certificate={pki / 'kubelet.crt'}",
            f"--key={pki / 'kubelet.key'}",
            f"--nodes={node_count}",
            "--keep-running",
        ],
        log=directory / "logs" / "kubelet.log",
        environment={TOKEN_VARIABLE: control_plane.token},
        is_tied=False,
    )
    try:
        control_plane.start()
        kubelet.start()
        last_node = f"/api/v1/nodes/node-{node_count - 1}"
        kubelet.await_ready(lambda: not node_count or control_plane.get(last_node) is not None, timeout_s=60.0)
    except BaseException:
        kubelet.kill()
        control_plane.stop()
        raise
    return _Running(
        part="kubernetes",
        directory=str(directory),
        addresses={"KUBECONFIG": str(control_plane.kubeconfig)},
        processes=_identities(kubelet, *reversed(control_plane.programs)),
    )


def _start_pulsar(directory: Path, _: int) -> _Running:
    broker = pulsar.Broker(directory, is_tied=False, tell=_tell)
    try:
        broker.start()
    except BaseException:
        broker.remove()
        raise
    return _Running(
        part="pulsar",
        directory=str(directory),
        addresses={"PULSAR_SERVICE_URL": broker.service_url, "PULSAR_ADMIN_URL": broker.admin_url},
        processes=_identities(broker.program),
        container=broker.container.name if broker.container else "",
    )


def _start_postgres(directory: Path, _: int) -> _Running:
    server = postgres.Server(directory, is_tied=False, tell=_tell)
    try:
        server.start()
    except BaseException:
        server.remove()
        raise
    return _Running(
        part="postgres",
        directory=str(directory),
        addresses={postgres.URL_VARIABLE: server.url},
        processes=_identities(server.program),
        container=server.container.name if server.container else "",
    )


_STARTERS: Final[dict[str, Callable[[Path, int], _Running]]] = {
    "kubernetes": _start_kubernetes,
    "pulsar": _start_pulsar,
    "postgres": _start_postgres,
}
_BUILDERS: Final[dict[str, Callable[[], Path | None]]] = {
    "kubernetes": lambda: kubernetes.build(_tell),
    "pulsar": lambda: pulsar.build(_tell),
    "postgres": lambda: postgres.build(_tell),
    "collector": lambda: collector.build(_tell),
    "minio": lambda: log_servers.build_minio(_tell),
    "loki": lambda: log_servers.build_loki(_tell),
}


def _build(parts: Sequence[str]) -> None:
    """Fetch and build what is missing; say where each part is."""
    for part in parts:
        place = _BUILDERS[part]()
        print(f"{part}: {place or 'a container'}", flush=True)


def _up(parts: Sequence[str], node_count: int) -> None:
    """Start parts that do not run; print the variables that lead to them."""
    running = _read_state()
    for part in parts:
        known = next((one for one in running if one.part == part), None)
        if known is not None and not known.is_running:
            known.end()
            running.remove(known)
            known = None
        if known is None:
            directory = Path(tempfile.mkdtemp(prefix=f"argosy-testbed-{part}-"))
            directory.chmod(0o711)  # Postgres runs as another account if we are root
            _tell(f"starting {part}")
            try:
                known = _STARTERS[part](directory / "data", node_count)
            except BaseException:
                shutil.rmtree(directory, ignore_errors=True)
                raise
            known.directory = str(directory)
            running.append(known)
            _write_state(running)
        for name, value in known.addresses.items():
            print(f"export {name}={value}", flush=True)


def _down(parts: Sequence[str]) -> None:
    """End parts and remove what they kept."""
    running = _read_state()
    for one in [one for one in running if one.part in parts]:
        one.end()
        running.remove(one)
        _write_state(running)
        _tell(f"ended {one.part}")
    if not running:
        with suppress(FileNotFoundError):
            _state_path().unlink()


def _status(parts: Sequence[str]) -> None:
    """Say of each part whether it runs, and where."""
    running = {one.part: one for one in _read_state()}
    for part in parts:
        one = running.get(part)
        state = "not started" if one is None else "running" if one.is_running else "dead"
        where = " ".join(f"{name}={value}" for name, value in one.addresses.items()) if one else ""
        print(f"{part}: {state} {where}".rstrip(), flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m testbed", description="Real parts for tests.")
    parser.add_argument("action", choices=["build", "up", "down", "status"])
    parser.add_argument("parts", nargs="*", metavar="part", help=f"{', '.join(BUILT_PARTS)}; all if none is named")
    parser.add_argument("--nodes", type=int, default=3, help="nodes of a cluster that is started")
    options = parser.parse_args(arguments)
    known = BUILT_PARTS if options.action == "build" else PARTS
    parts: list[str] = options.parts or list(known)
    unknown = [part for part in parts if part not in known]
    if unknown:
        parser.error(f"no part {unknown[0]!r} to {options.action}; there are {', '.join(known)}")
    try:
        if options.action == "up":
            _up(parts, options.nodes)
        else:
            {"build": _build, "down": _down, "status": _status}[options.action](parts)
    except ArgosyError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
