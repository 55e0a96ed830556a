"""Who acts in a world of permits: pods of a cluster as they are, and what agents know of them.

Source: `argosy_testkit.permit_world`.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from dataclasses import dataclass, field, replace

from argosy_core.job.reading.scaling import PodNote, Scaling
from argosy_core.permits import AgentMessage, PermitService, Reply

__all__ = ["CAPACITY", "AgentPermit", "Amounts", "WorldAgent", "WorldCluster", "WorldPod", "join", "meet"]

Amounts = tuple[int, int]
CAPACITY: Amounts = (1000, 100)
"""What each node has."""
_WATCH_S = 1.5


@dataclass(slots=True)
class WorldPod:
    """A run as it is."""

    handle: int
    node: int
    size: Amounts
    scaling: Scaling | None
    exists: bool = False
    """Its pod was created; before that the placement is all there is."""
    note: str = ""
    """What a sampler noted on it."""
    patch: tuple[float, Amounts] | None = None
    """A resize under way: when it takes effect, and to what."""

    @property
    def scaled(self) -> Scaling | None:
        """Within what it is resized, with its note."""
        return None if self.scaling is None else replace(self.scaling, note=PodNote(text=self.note))

    @property
    def most(self) -> Amounts:
        """What it has or is about to have."""
        return self.size if self.patch is None else join(self.size, self.patch[1])


@dataclass(slots=True)
class WorldCluster:
    """The cluster: its time, its pods, and what its watch has still to tell of them."""

    random: random.Random
    """All chance of the world."""
    counts: Counter[str]
    """How often what happened."""
    now_s: float = 0.0
    pods: dict[int, WorldPod] = field(default_factory=dict)
    """By handle."""
    watch: deque[tuple[float, WorldPod, Amounts, Scaling | None, bool]] = field(default_factory=deque)
    """(when at the latest, pod, its size, its bounds, whether it has ended)."""

    def show(self, pod: WorldPod, *, ended: bool = False) -> None:
        """The cluster has something to tell of a pod; the watch brings it within _WATCH_S."""
        self.watch.append((self.now_s + _WATCH_S, pod, pod.size, pod.scaled, ended))


@dataclass(slots=True)
class AgentPermit:
    """What an agent knows of one pod."""

    ceiling: Amounts
    number: int = 0
    tenure: int = 0
    """Tenure of the agent in which it got its permit; its lease is renewed in that one."""
    lease_until_s: float = 0.0


@dataclass(slots=True)
class WorldAgent:
    """A process that resizes the pods whose handle leaves a remainder."""

    process_id: bytes
    remainder: int
    service: PermitService | None = None
    """What answers it."""
    session: int = 0
    tenure: int = 0
    """Number of the session among all of it; samplers number theirs anew."""
    sequence: int = 0
    sent_s: dict[int, float] = field(default_factory=dict)
    permits: dict[int, AgentPermit] = field(default_factory=dict)
    up: deque[tuple[int, AgentMessage]] = field(default_factory=deque)
    down: deque[tuple[int, Reply | None]] = field(default_factory=deque)


def join(one: Amounts, other: Amounts) -> Amounts:
    """Return the most of both, resource by resource."""
    return max(one[0], other[0]), max(one[1], other[1])


def meet(one: Amounts, other: Amounts) -> Amounts:
    """Return the least of both, resource by resource."""
    return min(one[0], other[0]), min(one[1], other[1])
