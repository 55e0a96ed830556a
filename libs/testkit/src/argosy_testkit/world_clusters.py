"""The clusters of a `LeaderWorld`, and the events that it keeps."""

from __future__ import annotations

from dataclasses import dataclass, field

from argosy_core.leader.events import Session
from argosy_core.ledger import NodeLedger
from argosy_core.nodes import NodeSpec
from argosy_core.placement import SamplerSession
from argosy_core.scheduler import EventDraft
from argosy_simulation import JobTimes

__all__ = ["EventKeeper", "WorldCluster"]

_MOST_JOBS = 40_000


@dataclass(slots=True, kw_only=True)
class WorldCluster:
    """One cluster: its sampler, and the sessions of sampler and executor."""

    specs: list[NodeSpec]
    """Its nodes."""
    sampling: SamplerSession
    """What its sampler knows."""
    sampler: Session
    """The sampler's session."""
    executor: Session
    """The executor's session."""
    batch: int = 0
    """States reported so far."""
    made: set[tuple[int, int]] = field(default_factory=set)
    """(handle, ordinal) of the members whose rows the executor was sent."""

    @property
    def ledger(self) -> NodeLedger:
        """The sampler's ledger."""
        return self.sampling.ledger


class EventKeeper(JobTimes):
    """Keeps every event beside the times."""

    def __init__(self) -> None:
        """Start with none."""
        super().__init__(_MOST_JOBS)
        self.kinds: list[tuple[int, int]] = []
        """(handle, kind) in order."""

    def take(self, draft: EventDraft, offset: int) -> None:
        """Take events as they are stored."""
        super().take(draft, offset)
        self.kinds.extend(zip(draft.handle.tolist(), draft.kind.tolist(), strict=True))
