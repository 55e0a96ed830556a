"""`argosy top`: queues and clusters on a live screen.

What a key does is a function of the view; the terminal is only read and drawn.

Source: design section 9.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import click

from argosy_cli.commands.jobs import with_stages
from argosy_cli.job_text import job_columns
from argosy_cli.options import FiniteRange, common_options, settings_of
from argosy_cli.output import Column, amount_text, cordon_text, known_text, print_value, table_text, weightless_text
from argosy_cli.selectors import make_selector
from argosy_cli.session import call
from argosy_core.errors import ArgosyError

if TYPE_CHECKING:
    from argosy_client import ArgosyClient, Cluster, Job, QueueShare

__all__ = ["Screen", "View", "fitted", "screen_text", "top"]

_SORTS: Final[dict[str, Callable[[QueueShare], Any]]] = {
    "running": lambda share: -share.usage_cores,
    "waiting": lambda share: -(share.queued_count + share.pending_count),
    "requested": lambda share: -share.demand_cores,
    "name": lambda share: share.queue,
}
_ESCAPES: Final = {"\x1b[A": "up", "\x1b[B": "down", "\x1bOA": "up", "\x1bOB": "down"}
_KEYS: Final = {"k": "up", "j": "down", "\r": "open", "\n": "open", "\x1b": "back", "q": "quit", "s": "sort"}
_ONE_KEY: Final = re.compile("\x1b[\\[O].|.", re.DOTALL)
_MOST_JOBS: Final = 20
_HEAD_LINES: Final = 3
"""Of a screen, before the first queue: the sum, an empty line, the names of the columns."""
_REVERSE: Final = "\x1b[7m"
_RESIZED: Final = ""
"""What stands among the keys for a terminal of another size; no key is empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What is shown, and which line is marked."""

    sort: str = "running"
    """One of `_SORTS`."""
    line: int = 0
    """Marked queue."""
    queue: str = ""
    """Queue that is looked into; empty for the list of all."""
    is_over: bool = False
    """Whether to end."""

    def after(self, key: str, queues: Sequence[str]) -> View:
        """Return the view after a key, as the terminal sends it.

        Args:
            key: The key.
            queues: Queues as they are shown.
        """
        action = _ESCAPES.get(key) or _KEYS.get(key)
        if action == "quit":
            return replace(self, is_over=True)
        if action == "back":
            return replace(self, queue="")
        if action == "sort":
            names = list(_SORTS)
            return replace(self, sort=names[(names.index(self.sort) + 1) % len(names)], line=0)
        if action in {"up", "down"}:
            step = 1 if action == "down" else -1
            return replace(self, line=max(0, min(self.line + step, len(queues) - 1)))
        if action == "open" and queues and not self.queue:
            return replace(self, queue=queues[min(self.line, len(queues) - 1)])
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """What the server said."""

    capacity_cores: float | None
    """Capacity of the pool; None while it is not known."""
    shares: tuple[QueueShare, ...]
    """Queues, in the order of the view."""
    clusters: tuple[Cluster, ...]
    """Clusters; none if the caller may not see them."""
    jobs: tuple[Job, ...] = ()
    """Jobs of the queue that is looked into, those that have not ended first."""
    weightless_resources: tuple[str, ...] = ()
    """What the pool has that weighs nothing."""
    waits_for: str = ""
    """Why the first of them that waits does so."""


@click.command()
@click.option("--pool", default="", help="Pool; the default one if not given.")
@click.option("--interval", "interval_s", type=FiniteRange(0.2, 3600), default=2.0, show_default=True, help="Seconds.")
@click.option("--once", is_flag=True, help="Print the screen once, as where there is no terminal.")
@common_options
@click.pass_context
def top(context: click.Context, *, pool: str, interval_s: float, once: bool) -> None:
    """Show queues and clusters live.

    Keys: arrows or j and k mark a queue, Enter looks into it, Escape goes back, s sorts by what is running, waiting,
    requested or by name, q ends. Where there is no terminal, the screen is printed once.
    """
    settings = settings_of(context)
    if once or not settings.is_table or not (sys.stdin.isatty() and sys.stdout.isatty()):
        screen = call(settings, lambda client: _fetch(client, pool, View()))
        if settings.is_table:
            click.echo(screen_text(screen, View(line=-1)))
        else:
            print_value(settings, screen)
        return
    call(settings, lambda client: _run(client, pool, interval_s))


async def _fetch(client: ArgosyClient, pool: str, view: View) -> Screen:
    """Return what the server says of a view."""
    answer = await client.get_shares(pool)
    clusters: tuple[Cluster, ...] = ()
    with suppress(ArgosyError):  # who may not see the machines sees the queues
        clusters = tuple([cluster async for cluster in client.list_clusters()])
    shares = tuple(sorted(answer.shares, key=lambda share: (_SORTS[view.sort](share), share.queue)))
    weightless = [one.resource for one in answer.resources if not one.unit_cores and one.capacity]
    screen = Screen(
        capacity_cores=answer.capacity_cores,
        shares=shares,
        clusters=clusters,
        weightless_resources=tuple([name for name in weightless if name != "pods"]),
    )
    if not view.queue:
        return screen
    jobs: list[Job] = []
    for states in (("queued", "leased", "running"), ("succeeded", "failed", "cancelled")):
        selector = make_selector(view.queue, "", states, "")
        async for job in client.list_jobs(selector, page_size=_MOST_JOBS, newest_first=True):
            jobs.append(job)
            if len(jobs) >= _MOST_JOBS:
                break
    waiting = [job for job in jobs if job.state == "queued"]
    waits_for = (await client.explain_job(waiting[0].id)).summary if waiting else ""
    told, _ = await with_stages(client, jobs[:_MOST_JOBS])
    return replace(screen, jobs=tuple(told), waits_for=waits_for)


async def _run(client: ArgosyClient, pool: str, interval_s: float) -> None:
    """Show the screen until somebody ends it; a key is answered at once, the server asked once an interval."""
    view = View()
    keys: asyncio.Queue[str] = asyncio.Queue(maxsize=100)
    with _keys_into(keys):
        while not view.is_over:
            screen = await _fetch(client, pool, view)
            key = _RESIZED
            while key == _RESIZED:
                size = _terminal_size()
                text = fitted(screen_text(screen, view), view, width=size.columns, height=size.lines)
                click.echo("\x1b[H\x1b[2J" + text, nl=False)
                try:
                    key = await asyncio.wait_for(keys.get(), interval_s)
                except TimeoutError:
                    break
                view = view.after(key, [share.queue for share in screen.shares])


def _terminal_size() -> os.terminal_size:
    """Return the size of the terminal as it is now; what the environment says is of when the shell started."""
    size = os.get_terminal_size(sys.stdout.fileno())
    return size if size.columns and size.lines else shutil.get_terminal_size()


@contextmanager
def _keys_into(keys: asyncio.Queue[str]) -> Iterator[None]:
    """Give the terminal's keys, one by one and unseen, on a screen of its own while the block runs."""
    import termios
    import tty

    file, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    before = termios.tcgetattr(file)

    def resized() -> None:
        with suppress(asyncio.QueueFull):
            keys.put_nowait(_RESIZED)

    def read() -> None:
        with suppress(asyncio.QueueFull):
            for key in _ONE_KEY.findall(os.read(file, 64).decode(errors="replace")):  # of a fast hand, several at once
                keys.put_nowait(key)

    tty.setcbreak(file)
    loop.add_reader(file, read)
    loop.add_signal_handler(signal.SIGWINCH, resized)
    click.echo("\x1b[?1049h", nl=False)
    try:
        yield
    finally:
        click.echo("\x1b[?1049l", nl=False)
        loop.remove_signal_handler(signal.SIGWINCH)
        loop.remove_reader(file)
        termios.tcsetattr(file, termios.TCSADRAIN, before)


def fitted(text: str, view: View, *, width: int, height: int) -> str:
    """Return a screen's text cut to a terminal: the marked queue stays in sight, and no line goes on in the next.

    Args:
        text: As `screen_text` gives it.
        view: What is marked.
        width: Columns of the terminal.
        height: Its lines.
    """
    lines = text.splitlines()
    marked = _HEAD_LINES + view.line
    most = max(height - 1, _HEAD_LINES + 1)
    if not view.queue and marked >= most:
        shown = most - _HEAD_LINES
        lines = [*lines[:_HEAD_LINES], *lines[marked - shown + 1 : marked + 1]]
    cut = []
    for line in lines[:most]:
        plain = click.unstyle(line)
        short = click.style(plain[:width], reverse=True) if line.startswith(_REVERSE) else plain[:width]
        cut.append(line if len(plain) <= width else short)
    return "\n".join(cut)


def screen_text(screen: Screen, view: View) -> str:
    """Return a screen as text; the marked queue stands out."""
    running = sum(share.usage_cores for share in screen.shares)
    waiting = sum(share.queued_count + share.pending_count for share in screen.shares)
    of_all = "" if screen.capacity_cores is None else f" of {screen.capacity_cores:,.1f}"
    parts = [f"{running:,.1f}{of_all} cores running, {waiting:,} jobs waiting"]
    if screen.capacity_cores is None:
        parts[0] += "; no cluster of the pool is connected (yet)"
    if view.queue:
        parts.append(
            f"queue {view.queue}\n" + table_text([column for column in job_columns() if not column.wide], screen.jobs)
        )
        if screen.waits_for:
            parts.append(f"the newest that waits: {screen.waits_for}")
    else:
        lines = table_text(_QUEUE_COLUMNS, screen.shares).splitlines()
        if 0 <= view.line < len(lines) - 1:
            lines[view.line + 1] = click.style(lines[view.line + 1], reverse=True)
        parts.append("\n".join(lines))
        parts.append(table_text(_CLUSTER_COLUMNS, screen.clusters))
        if screen.weightless_resources:
            parts.append(weightless_text(screen.weightless_resources))
    return "\n\n".join(parts) + "\n"


_QUEUE_COLUMNS: Final[list[Column[QueueShare]]] = [
    Column("QUEUE", lambda s: s.queue),
    Column("RUNNING", lambda s: f"{s.usage_cores:,.1f}", right=True),
    Column("ENTITLED", lambda s: known_text(s.entitled_cores), right=True),
    Column("REQUESTED", lambda s: f"{s.demand_cores:,.1f}", right=True),
    Column("JOBS RUNNING", lambda s: f"{s.leased_count:,}", right=True),
    Column("QUEUED", lambda s: f"{s.queued_count:,}", right=True),
    Column("PENDING", lambda s: f"{s.pending_count:,}", right=True),
]


def _free_text(cluster: Cluster, resource: str) -> str:
    free, total = cluster.free.get(resource, 0), cluster.total.get(resource, 0)
    return f"{amount_text(resource, free)} of {amount_text(resource, total)}"


_CLUSTER_COLUMNS: Final[list[Column[Cluster]]] = [
    Column("CLUSTER", lambda c: c.name),
    Column("CONNECTED", lambda c: "yes" if c.sampler_connected and c.executor_connected else "no"),
    Column("CORDONED", lambda c: cordon_text(cordoned=c.cordoned, reason=c.cordon_reason)),
    Column("NODES", lambda c: f"{c.node_count:,}", right=True),
    Column("RUNS", lambda c: f"{c.run_count:,}", right=True),
    Column("FREE CPU", lambda c: _free_text(c, "cpu"), right=True),
    Column("FREE MEMORY", lambda c: _free_text(c, "memory"), right=True),
]
