"""What all actors of a world share.

Source: design section 2, `simulation`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from argosy_simulation.agenda import Agenda, Process
from argosy_simulation.audit import Audit
from argosy_simulation.durable import DurableStore
from argosy_simulation.network import Network
from argosy_simulation.plan import JobIndex
from argosy_simulation.settings import WorldSettings

__all__ = ["Context", "Directory"]


class Directory(Protocol):
    """Tells who leads, and takes note of deaths."""

    def find_leader(self) -> Process | None:
        """Return a leader that takes sessions, the right one or one that does not know yet; None if there is none."""

    def leader_died(self, leader: Process, epoch: int) -> None:
        """Take note that a leader gave up or was killed."""


@dataclass(slots=True, kw_only=True)
class Context:
    """The world as its actors see it."""

    agenda: Agenda
    """Time."""
    network: Network
    """Streams, delays and chance."""
    store: DurableStore
    """What survives."""
    job_index: JobIndex
    """Jobs by handle."""
    audit: Audit
    """What truly happens."""
    settings: WorldSettings
    """Delays and periods."""
    seed: int
    """Seed of the world."""
    directory: Directory
    """Who leads."""
    counters: Counter[str] = field(default_factory=Counter)
    """What was counted."""

    def generator(self, *key: int) -> np.random.Generator:
        """Return an actor's own source of chance, a function of the world's seed and the key."""
        return np.random.default_rng([self.seed, *key])
