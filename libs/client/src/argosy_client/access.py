"""Who calls, what was changed, and what queues and clusters are let do: plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from argosy_core.access import Grant

__all__ = ["AuditRecord", "HeldPolicy", "Identity", "Invitation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldPolicy:
    """What a queue lets its jobs' pods do."""

    document: str
    """JSON, as docs/security.md describes it; empty for the installation's policy."""
    inherited_from: str
    """The queue above it whose policy it is; empty for its own, or the installation's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who the server takes the caller for."""

    name: str
    """Name; empty where callers are not asked who they are."""
    groups: tuple[str, ...] = ()
    """Groups."""
    cluster: str = ""
    """Cluster that the caller speaks for, if any."""
    acted_by: str = ""
    """Who makes the call as the one named."""
    roles: tuple[str, ...] = ()
    """Roles."""
    grants: tuple[Grant, ...] = ()
    """What the caller may do with single queues."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """One change that somebody made."""

    number: int
    """Later changes have higher ones."""
    create_time: datetime
    """When."""
    method: str
    """Method that was called."""
    principal: str
    """Who called."""
    acted_by: str
    """Who called as the principal; empty where it called itself."""
    host: str
    """Host that called."""
    kind: str
    """What was changed."""
    name: str
    """Its name or id."""
    detail: str
    """What of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invitation:
    """What lets the processes of a cluster fetch their certificates."""

    token: str = field(repr=False)
    """The secret; nobody can read it again."""
    expire_time: datetime
    """When it ends."""
