"""What a simulated pod writes: a few lines about what it did."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Final, Protocol

import numpy as np

from argosy_core.errors import NotFound
from argosy_core.job.tables.members import attempt_of
from argosy_kube.port import Change, PodPhase
from argosy_kube.simulated.engine import ClusterEngine
from argosy_kube.simulated.objects import EventBlock, EventColumns
from argosy_kube.simulated.selection import Tables

__all__ = ["SIMULATED_CONTAINER", "LogHost", "read_simulated_log"]

SIMULATED_CONTAINER: Final = "main"
"""The one container of every simulated pod that may be named; an empty name means it too."""


class LogHost(Protocol):
    """What a log is made from; see ClusterHost."""

    engine: ClusterEngine

    def tables(self) -> Tables:
        """Return the tables as they are now."""
        ...

    def watch_blocks(self, version: int) -> AsyncGenerator[EventBlock | None, None]:
        """Give blocks with events after a version."""
        ...


_ENDED: Final = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})


async def read_simulated_log(  # noqa: PLR0913 - what can be said of a log
    host: LogHost,
    installation: int,
    run: tuple[int, int, int],
    *,
    container: str,
    follow: bool,
    tail: int | None,
    timestamps: bool = False,
    since_s: int = 0,
) -> AsyncGenerator[bytes, None]:
    """Give the lines of one pod; see Cluster.read_log.

    Args:
        host: The cluster.
        installation: Whose pod it is.
        run: Handle, ordinal and object index.
        container: Empty, or `SIMULATED_CONTAINER`.
        follow: Go on until the pod has ended or is gone.
        tail: How many lines to begin before the end, None for all.
        timestamps: Begin each line with the time of what it tells of.
        since_s: Give nothing of what was over by this time, seconds since the Unix epoch.

    Raises:
        NotFound: There is no such pod or container.
    """
    # Read before the version, so that nothing happens in between.
    present = _part(host.engine.journal.present(), installation, run)
    if not len(present):
        raise NotFound("the cluster has no such pod")
    if container not in {"", SIMULATED_CONTAINER}:
        raise NotFound(f"the pod has no container {container[:63]!r}; a simulated pod has one, {SIMULATED_CONTAINER!r}")
    version = host.engine.journal.history.version
    lines = _lines(host, present, timestamps=timestamps)
    told = len(lines)
    if int(present.wide[-1, 3]) < since_s * 1_000_000:
        tail = 0
    lines = lines if tail is None else lines[len(lines) - min(tail, len(lines)) :]
    if lines:
        yield b"".join(lines)
    if not follow or _has_ended(present):
        return
    async with contextlib.aclosing(host.watch_blocks(version)) as watch:
        async for block in watch:
            events = None if block is None else _part(block.columns, installation, run)
            if events is None or not len(events):
                continue
            lines = _lines(host, events, timestamps=timestamps)
            if lines[told:]:
                yield b"".join(lines[told:])
                told = len(lines)
            if _has_ended(events):
                return


def _part(columns: EventColumns, installation: int, run: tuple[int, int, int]) -> EventColumns:
    """Return the events of one pod."""
    mask = (columns.installation == installation) & (columns.kind == 0)
    mask &= (columns.wide[:, 2] == run[0]) & (columns.wide[:, 5] == run[1]) & (columns.small[:, 2] == run[2])
    return columns.part(np.asarray(mask, dtype=np.bool_))


def _has_ended(events: EventColumns) -> bool:
    return PodPhase(int(events.phase[-1])) in _ENDED or Change(int(events.tiny[-1, 0])) == Change.DELETED


def _lines(host: LogHost, events: EventColumns, *, timestamps: bool) -> list[bytes]:
    """Return what a pod has written by the last of some events."""
    phase = PodPhase(int(events.phase[-1]))
    node, exit_code, reason = (int(value) for value in events.narrow[-1, :3])
    attempt = attempt_of(int(events.wide[-1, 5]))
    moment = datetime.fromtimestamp(int(events.wide[-1, 3]) / 1e6, tz=UTC).isoformat(timespec="milliseconds")
    lines: list[str] = []
    if phase != PodPhase.PENDING and not (phase == PodPhase.FAILED and reason >= 0 and exit_code == 0):
        name = host.tables().nodes[node] if node >= 0 else "no node"
        lines.append(f"simulated pod of job handle {int(events.wide[-1, 2])}, attempt {attempt}, on {name}: started")
    if lines and phase in _ENDED:
        why = f" ({host.tables().texts[reason]})" if reason >= 0 else ""
        lines.append(f"ended at {moment} with exit code {exit_code}{why}")
    stamp = moment.replace("+00:00", "Z") + " " if timestamps else ""
    return [f"{stamp}{line}\n".encode() for line in lines]
