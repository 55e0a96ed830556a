"""The promises of starts that stand, as the memory of a pool keeps them.

Source: design section 5, "Round" 5; section 7, invariant 13; decision 0017.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from argosy_core.backfill import PromiseKind

__all__ = ["BrokenBy", "GatheredNodes", "PromisedStart", "PromisedStarts"]

_MOST_REMEMBERED: Final = 256
"""Jobs of which is remembered since when they are heads, and whose promise was broken last."""
_MOST_KINDS: Final = 64
"""Kinds of jobs of which is remembered that they were promised starts."""


class BrokenBy(StrEnum):
    """Why a promise was not kept."""

    CAPACITY = "capacity"
    """The node went, or shrank, or its cluster is not heard of."""
    LATE = "late"
    """The moment came without room: estimates were wrong, or runs took longer to start and to stop than allowed."""
    SHARE = "share"
    """A job of a queue below its share got the node, where runs were stopped for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromisedStart:
    """What one waiting job was promised."""

    handle: int
    """The job."""
    kind: PromiseKind
    """Firm or expected."""
    moment_s: float
    """It starts no later, seconds since the Unix epoch."""
    cluster: int
    """Cluster index."""
    node: int
    """Node name index in that cluster; others start there only as far as that does not delay the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatheredNodes:
    """Nodes that are kept for one gang, see `gathering`."""

    handle: int
    """The job."""
    cluster: int
    """Cluster index."""
    nodes: tuple[str, ...]
    """Their names."""
    until_s: float
    """Until when at most, seconds since the Unix epoch."""
    kind: PromiseKind | None = None
    """Whether the moment is firm or expected; None if nobody knows one."""
    moment_s: float = -math.inf
    """The gang starts no later, seconds since the Unix epoch; others start there only if they are over by then."""
    is_cleared: bool = False
    """Whether what runs there was stopped for the gang."""

    @property
    def due_s(self) -> float:
        """Return when it is to be looked at again at the latest, seconds since the Unix epoch."""
        return self.until_s if self.kind is None else math.nextafter(self.moment_s, math.inf)


@dataclass(slots=True)
class PromisedStarts:
    """The promises that stand, and which heads wait for one."""

    standing: dict[int, PromisedStart] = field(default_factory=dict)
    """By handle, oldest first."""
    due_s: float = math.inf
    """When the first promised moment has passed, seconds since the Unix epoch; infinite if there is none."""
    heads_due_s: float = math.inf
    """When it is next to be asked where a waiting head could start, seconds since the Unix epoch; infinite if no moment
    of that is to come."""
    is_changed: bool = False
    """Promises were given or ended since the last round was finished: the next leader has to know."""
    broken: dict[int, BrokenBy] = field(default_factory=dict)
    """Handle -> why its last promise was broken, of the last ones."""
    kinds: dict[tuple[int, int], float] = field(default_factory=dict)
    """Queue and class indices of what was promised starts of late: such jobs get no room by themselves. Since when one
    of them is a waiting head, be it another one each time that a run of theirs ends; infinite if none is."""
    followers: list[int] = field(default_factory=list)
    """Handles of jobs of these kinds that are tried in every round beside the waiting heads."""
    left: dict[int, float] = field(default_factory=dict)
    """Handle -> until when it counts as ended, of jobs of these kinds whose nodes are seen to be free of them."""
    gathered: dict[int, GatheredNodes] = field(default_factory=dict)
    """Nodes that are kept for gangs, by handle, oldest first; no node is kept for two."""
    is_choice_old: bool = False
    """A promise has ended since the heads were elected: who was kept from its node has not been tried since."""
    _head_since_s: dict[int, float] = field(default_factory=dict)
    _asked: dict[int, tuple[float, int]] = field(default_factory=dict)

    @property
    def handles(self) -> list[int]:
        """Jobs for which nodes are kept, gangs last."""
        return [*self.standing, *self.gathered]

    def given_to(self, handle: int) -> PromisedStart | GatheredNodes | None:
        """Return what a job is promised, None if nothing."""
        gathered = self.gathered.get(handle)
        is_gang = gathered is not None and gathered.kind is not None
        return gathered if is_gang else self.standing.get(handle)

    @property
    def keep_nodes(self) -> bool:
        """Whether nodes are kept from others, for promises or for gangs."""
        return bool(self.standing) or bool(self.gathered)

    def note_heads(self, heads: Mapping[int, tuple[int, int]], now_s: float) -> None:
        """Take note of who is a waiting head now, by handle, and of its queue and class."""
        waiting = set(heads.values())
        for kind, since_s in self.kinds.items():
            self.kinds[kind] = min(since_s, now_s) if kind in waiting else math.inf
        for handle, kind in heads.items():
            self._head_since_s.setdefault(handle, min(self.kinds.get(kind, now_s), now_s))
        _forget_oldest(self._head_since_s)
        _forget_oldest(self._asked)
        _forget_oldest(self.broken)

    def note_given(self, promise: PromisedStart, queue: int, class_index: int) -> None:
        """Have a promise stand that is given to a job of a queue and class."""
        self.standing[promise.handle] = promise
        self.is_changed = True
        self.kinds.pop((queue, class_index), None)
        self.kinds[queue, class_index] = math.inf
        _forget_oldest(self.kinds, _MOST_KINDS)

    def is_due(self, handle: int, now_s: float, *, after_s: float, again_s: float, told_count: int) -> bool:
        """Return whether to ask where a head could start.

        Args:
            handle: The head.
            now_s: Now.
            after_s: How long it must have been one, seconds.
            again_s: How long ago it must have been asked last, seconds.
            told_count: How often samplers have told what they have; without news the answer would be the same.
        """
        return self._due_s(handle, after_s=after_s, again_s=again_s, told_count=told_count) <= now_s

    def find_heads_due(
        self, handles: Sequence[int], now_s: float, *, after_s: float, again_s: float, told_count: int
    ) -> None:
        """Say when one of the heads is next to be asked for; who is due already is so in the next round that there is.

        Args:
            handles: The heads.
            now_s: Now.
            after_s: As of `is_due`.
            again_s: As of `is_due`.
            told_count: As of `is_due`.
        """
        waiting = (handle for handle in handles if handle not in self.standing)
        moments = (self._due_s(one, after_s=after_s, again_s=again_s, told_count=told_count) for one in waiting)
        self.heads_due_s = min((moment_s for moment_s in moments if moment_s > now_s), default=math.inf)

    def _due_s(self, handle: int, *, after_s: float, again_s: float, told_count: int) -> float:
        """Return when to ask where a head could start; infinite if there is nothing new to be said."""
        asked_s, told_then = self._asked.get(handle, (-math.inf, -1))
        since_s = self._head_since_s.get(handle, math.inf)
        return math.inf if told_then == told_count else max(since_s + after_s, asked_s + again_s)

    def nodes_of(self, cluster: int) -> list[int]:
        """Return the promised nodes of a cluster."""
        return [promise.node for promise in self.standing.values() if promise.cluster == cluster]

    def move_nodes(self, cluster: int, moved: Sequence[int]) -> None:
        """Take over new indices of a cluster's nodes, by old index."""
        for handle, promise in self.standing.items():
            if promise.cluster == cluster:
                self.standing[handle] = replace(promise, node=moved[promise.node])

    def note_asked(self, handles: Sequence[int], now_s: float, told_count: int) -> None:
        """Take note that it was asked where heads could start, and how often samplers had told what they have."""
        self._asked.update(dict.fromkeys(handles, (now_s, told_count)))


def _forget_oldest(remembered: dict[Any, Any], count: int = _MOST_REMEMBERED) -> None:
    while len(remembered) > count:
        del remembered[next(iter(remembered))]
