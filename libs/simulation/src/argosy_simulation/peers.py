"""Who is at the other end of a leader's stream, and what it says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from argosy_core.job.tables.members import Members
from argosy_core.leader.events import Session
from argosy_core.reconcile import ReportBatch
from argosy_core.scheduler import StateColumns
from argosy_simulation.network import Stream

__all__ = ["Peer", "state_columns"]


@dataclass(slots=True)
class Peer:
    """Who is at the other end of a stream."""

    session: Session
    """Its session."""
    stream: Stream
    """Where it is heard."""
    actor: Any
    """The sampler or the executor itself."""
    listening: bool = False
    """Its states are read."""
    said_at_s: float = 0.0
    """When an executor said hello."""
    unread: list[ReportBatch] = field(default_factory=list)
    """States that came before they were read."""


def state_columns(batch: ReportBatch) -> StateColumns:
    """Return reports as the scheduler takes them."""
    members = Members(batch.handle_column, batch.ordinal_column)
    return StateColumns(
        handle=members.handle,
        attempt=members.attempt,
        member=members.numbers(),
        object_index=batch.object_column,
        state=batch.state_column,
        time_us=batch.time_us_column,
        exit_code=batch.exit_code_column,
        failure=batch.failure_column,
        message=batch.message_column,
        uid=np.ascontiguousarray(batch.uid_column).tobytes(),
        texts=batch.texts,
    )
