"""Watches of one cluster: its changes in order, and who is told of them when.

A watch lags behind what happens, may pause between two changes, and may end. Changes that every watch has shown are
forgotten, so whoever comes later has to list.

Source: design section 5, "Sync"; section 7 (what a cluster does wrong).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from argosy_simulation.agenda import Agenda, Process
from argosy_simulation.cluster_changes import Scope, TakeChanges, Watch
from argosy_simulation.network import Network
from argosy_simulation.settings import WorldSettings

__all__ = ["Watches"]

_MOST_SHOWN: Final = 1000
"""Changes that every watch has shown are kept until there are more."""


class Watches:
    """The watches of a cluster, and the changes that they show.

    Args:
        agenda: Time.
        network: Draws delays.
        settings: Delays.
    """

    def __init__(self, agenda: Agenda, network: Network, settings: WorldSettings) -> None:
        """Start with no change and no watch."""
        self._agenda = agenda
        self._network = network
        self._settings = settings
        self._history: dict[Scope, list[tuple[object, ...]]] = {scope: [] for scope in Scope}
        self._base = dict.fromkeys(Scope, 0)
        """Changes that are forgotten because every watch has shown them."""
        self.active: list[Watch] = []
        """Those that have not ended."""
        self.pauses: np.random.Generator | None = None
        """Draws after which change a watch pauses, so that the pods of a bag appear one by one; None: it never does."""

    def position(self, scope: Scope) -> int:
        """Return the position behind the last change."""
        return self._base[scope] + len(self._history[scope])

    def begin(self, owner: Process, scope: Scope, take: TakeChanges, position: int) -> Watch | None:
        """Begin a watch behind a listing; None if changes since then are forgotten."""
        if position < self._base[scope]:
            return None
        watch = Watch(owner, scope, take, position=position)
        self.active.append(watch)
        self._schedule(watch)
        return watch

    def end(self, watch: Watch) -> None:
        """End a watch; its owner is told by `watch_ended`."""
        if watch.open:
            watch.open = False
            self.active.remove(watch)
            if watch.owner.alive:
                delay_s = self._network.draw_s(self._settings.watch_s)
                self._agenda.after(delay_s, watch.owner, watch.owner.watch_ended, watch.scope)  # type: ignore[attr-defined]

    def forget(self, owner: Process) -> None:
        """Drop the watches of a process that died."""
        for watch in [watch for watch in self.active if watch.owner is owner]:
            watch.open = False
            self.active.remove(watch)

    def tell(self, scope: Scope, change: tuple[object, ...]) -> None:
        """Have a change shown by all watches of its scope."""
        self._history[scope].append(change)
        for watch in self.active:
            if watch.scope is scope:
                self._schedule(watch)

    def _schedule(self, watch: Watch) -> None:
        """See to it that a watch shows what is new."""
        if watch.scheduled or watch.position == self._base[watch.scope] + len(self._history[watch.scope]):
            return
        watch.scheduled = True
        due_us = self._agenda.now_us + round(self._network.draw_s(self._settings.watch_s) * 1e6)
        self._agenda.at(max(due_us, watch.lagging_until_us), watch.owner, self._show_news, watch)

    def _show_news(self, watch: Watch) -> None:
        watch.scheduled = False
        if not watch.open:
            return
        if watch.lagging_until_us > self._agenda.now_us:
            self._schedule(watch)
            return
        history, base = self._history[watch.scope], self._base[watch.scope]
        rows = history[watch.position - base :]
        if self.pauses is not None and len(rows) > 1:
            rows = rows[: int(self.pauses.integers(1, len(rows) + 1))]
        watch.position += len(rows)
        lowest = min(other.position for other in self.active if other.scope is watch.scope)
        if lowest - base > _MOST_SHOWN:
            del history[: lowest - base]
            self._base[watch.scope] = lowest
        self._schedule(watch)
        if rows:
            watch.take(rows)
