"""What agents and the sampler of their cluster say to each other of permits, as columns.

Amounts are (resource of SCALED, n) base units; uids are (n, 2) int64.

Source: `proto/argosy/autoscale/v1/permit.proto`; design section 5, "Resize".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from argosy_core.arrays import Bools, Float32s, Int8s, Int64s

__all__ = [
    "AgentHello",
    "AgentMessage",
    "Directive",
    "Directives",
    "Goodbye",
    "Heartbeat",
    "Inventory",
    "PermitRequest",
    "Permits",
    "Refusals",
    "Reply",
    "Welcome",
]


class Directive(IntEnum):
    """What to do with a pod; values of argosy.autoscale.v1.Directive."""

    MIGRATE = 1
    """It is to be moved away: keep it as it is."""
    RESUME = 2
    """Go on as before."""
    DRAIN = 3
    """Its node is to be emptied: it may shrink, and is not granted more."""
    STOP = 4
    """It is not scaled any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentHello:
    """Who speaks."""

    cluster: str
    """Name of the cluster."""
    cluster_uid: str
    """Its uid."""
    process_id: bytes
    """16 bytes, drawn at random at each start of the agent."""
    host: str = ""
    """Where it runs, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Pods that the agent resizes, and the ceiling that it keeps each below."""

    uids: Int64s
    """(n, 2) uids, distinct."""
    ceilings: Int64s
    """(resource, n) ceilings."""
    held: Bools
    """(n,) the process has a lease on the pod that has not ended."""
    permitted: Bools
    """(n,) the ceiling is no more than the permit under that lease."""
    numbers: Int64s
    """(n,) number of what the agent says of the pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PermitRequest:
    """What pods are to have."""

    uids: Int64s
    """(n, 2) uids, distinct."""
    wanted: Int64s
    """(resource, n) wanted in all."""
    bundle: Bools
    """(n,) all resources in equal steps, or none."""
    numbers: Int64s
    """(n,) number of what the agent says of the pod."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Nothing to say, still here."""


@dataclass(frozen=True, slots=True)
class Goodbye:
    """The agent resizes nothing any more."""


AgentMessage = Inventory | PermitRequest | Heartbeat | Goodbye
"""What an agent says after its hello."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """The session is accepted."""

    session: int
    """Its number, growing."""
    lease_s: float
    """How long ceilings last, seconds."""
    heartbeat_s: float
    """How often the agent must be heard, seconds."""
    max_pod_count: int
    """Most pods that one message may name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Permits:
    """What pods may have."""

    uids: Int64s
    """(n, 2) uids."""
    numbers: Int64s
    """(n,) number of what is answered."""
    permits: Int64s
    """(resource, n) permits."""
    deferred: Int64s
    """(resource, n) wanted beyond them."""
    units: Int64s
    """(resource, n) compute unit that the next request is checked against."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusals:
    """Pods for which nothing changed."""

    uids: Int64s
    """(n, 2) uids."""
    numbers: Int64s
    """(n,) number of what is answered."""
    reasons: Int8s
    """(n,) values of RefusalReason."""
    retry_after_s: Float32s
    """(n,) after how many seconds it is worth asking again, 0 if only a change of the pod can help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Directives:
    """What to do with pods."""

    uids: Int64s
    """(n, 2) uids."""
    directives: Int8s
    """(n,) values of Directive."""


Reply = Permits | Refusals | Directives
"""What the sampler says after its welcome; that a message was taken in is said beside it."""
