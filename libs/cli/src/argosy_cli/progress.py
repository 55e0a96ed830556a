"""Live displays: a bar per state on a terminal, a line now and then elsewhere.

Source: design section 9, "progress bars on long work", "colour only on a terminal".
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import click

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

    from argosy_client import QueueShare

__all__ = ["CountsDisplay"]

_STATES: Final = ("queued", "leased", "running", "succeeded", "failed", "cancelled")
_COLOURS: Final = {
    "queued": "white",
    "leased": "blue",
    "running": "cyan",
    "succeeded": "green",
    "failed": "red",
    "cancelled": "yellow",
}
_LINE_PERIOD_S: Final = 5.0
_BAR_WIDTH: Final = 40
_DRAWS_PER_SECOND: Final = 8
_QUEUES_SHOWN: Final = 12
_NO_REASONS: Final[Mapping[str, Mapping[str, int]]] = {}


class CountsDisplay:
    """Shows jobs by state while a block runs; use it as a context.

    Args:
        title: What is shown.
        live: Show anything at all.
        total: Jobs there will be, 0 if not known.
        line_period_s: Time between two lines where there is no terminal.
    """

    def __init__(self, title: str, *, live: bool = True, total: int = 0, line_period_s: float = _LINE_PERIOD_S) -> None:
        """Prepare; nothing is drawn before the block begins."""
        self._title = title
        self._shown = live
        self._total = total
        self._line_period_s = line_period_s
        self._live: Live | None = None
        self._counts: Mapping[str, int] = {}
        self._queues: Sequence[QueueShare] = ()
        self._reasons: Mapping[str, Mapping[str, int]] = _NO_REASONS
        self._note = ""
        self._line_due_s = 0.0

    def __enter__(self) -> Self:
        if self._shown and sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(
                console=Console(stderr=True),
                refresh_per_second=_DRAWS_PER_SECOND,
                get_renderable=self._drawing,
                transient=True,
            )
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def update(
        self,
        counts: Mapping[str, int],
        note: str = "",
        queues: Sequence[QueueShare] = (),
        reasons: Mapping[str, Mapping[str, int]] = _NO_REASONS,
    ) -> None:
        """Show how far it is.

        Args:
            counts: Jobs by state.
            note: Stands behind the title.
            queues: Stand in a table on a terminal, heaviest first.
            reasons: By queue, how many of its jobs wait for what; on a terminal in the table, elsewhere all together.
        """
        self._counts, self._note, self._reasons = counts, note, reasons
        self._queues = sorted(queues, key=lambda queue: (-queue.weight, queue.queue))[:_QUEUES_SHOWN]
        if self._shown and self._live is None and time.monotonic() >= self._line_due_s:
            self._line_due_s = time.monotonic() + self._line_period_s
            shown = ", ".join(f"{counts[state]} {state}" for state in _STATES if counts.get(state))
            waits = _describe_reasons(sum((Counter(of) for of in reasons.values()), Counter()))
            rest = "".join(f"; {text}" for text in (note, f"waiting: {waits}" if waits else "") if text)
            click.echo(f"{self._title}: {shown or 'nothing yet'}{rest}", err=True)

    def _drawing(self) -> Any:  # noqa: ANN401 - whatever rich can draw
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        total = max(self._total, sum(self._counts.values()), 1)
        grid = Table.grid(padding=(0, 1))
        grid.add_row(Text(self._title, style="bold"), Text(self._note, style="dim"), "")
        for state in _STATES:
            count = self._counts.get(state, 0)
            width = round(_BAR_WIDTH * count / total)
            bar = Text("━" * width, style=_COLOURS[state]) + Text("─" * (_BAR_WIDTH - width), style="dim")
            grid.add_row(Text(state, style=_COLOURS[state]), bar, Text(f"{count:,}", justify="right"))
        return Group(grid, _table_of(self._queues, self._reasons)) if self._queues else grid


def _describe_reasons(counts: Mapping[str, int]) -> str:
    """Return how many jobs wait for what, most first; those that wait for their turn only are left out."""
    known = sorted((-count, reason.replace("_", " ")) for reason, count in counts.items() if reason)
    return ", ".join(f"{reason} {-count:,}" for count, reason in known)


def _table_of(queues: Sequence[QueueShare], reasons: Mapping[str, Mapping[str, int]]) -> Table:
    """Return the queues with what they are entitled to, what they hold, how many of their jobs run, wait, and why."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2), header_style="bold")
    table.add_column("queue")
    for name in ("weight", "entitled", "holds", "flow", "running", "waiting"):
        table.add_column(name, justify="right")
    table.add_column("for what", no_wrap=True)
    for queue in queues:
        cores = (queue.entitled_cores, queue.usage_cores, queue.flow_cores)
        waiting, running = queue.queued_count + queue.pending_count, queue.leased_count
        table.add_row(
            queue.queue,
            f"{queue.weight:g}",
            *(f"{value:,.0f}" for value in cores),
            f"{running:,}",
            f"{waiting:,}",
            _describe_reasons(reasons.get(queue.queue, {})),
        )
    table.caption = "entitled, holds and flow in cores"
    return table
