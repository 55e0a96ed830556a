"""What queues weigh where room is shared out among pods, as the configuration and the leaders of pools say.

Owns the numbers of queues and their weights. May import nothing of the ledger.

Source: seed 001 "Deep dive into resource management"; docs/autoscale.md.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping

from argosy_core.errors import InvalidRequest

__all__ = ["QueueWeights"]


class QueueWeights:
    """Weights of queues, which are numbered as they come."""

    def __init__(self) -> None:
        """Start with no queue."""
        self.weights: dict[int, float] = {}
        """By index of a queue: its weight, 1 where it is left out."""
        self._told: dict[int, dict[str, float]] = {}
        self._queues: dict[str, int] = {}

    def index(self, name: str) -> int:
        """Return the index of a queue."""
        return self._queues.setdefault(name, len(self._queues))

    def tell(self, weights: Mapping[str, float], *, pool: int = -1) -> None:
        """Say what queues weigh; one that is left out weighs 1. Configuration counts before a leader's word.

        Args:
            weights: By name of the queue; replaces what the same said before.
            pool: Number of the pool whose leader says so, -1 for the configuration.

        Raises:
            InvalidRequest: A weight is not above 0.
        """
        if not all(0 < weight < float("inf") for weight in weights.values()):
            raise InvalidRequest("weights of queues must be above 0")
        self._told[pool] = dict(weights)
        said = ChainMap(*(told for _, told in sorted(self._told.items())))
        self.weights = {self.index(name): weight for name, weight in said.items()}
