"""What an agent learns and what it wants done, as plain values: neither the wire nor the API server is known here.

Source: design section 5, "Resize"; docs/autoscale.md "The agent".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from argosy_core.autoscale.amounts import Amounts

__all__ = [
    "Actions",
    "ContractAnswered",
    "ContractQuestion",
    "Directed",
    "Directive",
    "Event",
    "Leased",
    "MetricsSeen",
    "OutOfMemory",
    "Pending",
    "Permit",
    "PermitRequest",
    "PermitsTold",
    "PodGone",
    "PodSeen",
    "Refused",
    "Resize",
    "ResizeEnded",
    "ResizeOutcome",
    "ScalingPolicy",
    "SessionDown",
    "SessionUp",
    "StoryEntry",
]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPolicy:
    """Within what a pod is resized, and how full it should be."""

    least: Amounts
    """Smallest size; both amounts above 0."""
    most: Amounts
    """Largest size."""
    load_ratio: float = 0.9
    """How much of the processors the load should be at most."""
    memory_ratio: float = 0.75
    """How much of the memory should be used at most."""
    working_set_ratio: float = 0.9
    """How much of the memory use and cached working set should be at most."""
    is_on: bool = True
    """False: the pod keeps the size that it has."""
    is_bundle: bool = False
    """Permits are the same number of units of every resource, instead of as much of each as there is."""
    contract_port: int = 0
    """Port on which the pod says the least that it needs; 0: nobody asks it."""

    def __post_init__(self) -> None:
        """Refuse a policy that no size satisfies.

        Raises:
            ValueError: A value is out of its range; the message names it.
        """
        if min(self.least) < 1 or not self.least.fits(self.most):
            raise ValueError(f"min must be above 0 and at most max, but min is {self.least} and max {self.most}")
        ratios = {"load": self.load_ratio, "memory": self.memory_ratio, "working-set": self.working_set_ratio}
        for name, ratio in ratios.items():
            if not 0 < ratio <= 1:
                raise ValueError(f"the target of {name} must be above 0 and at most 1, but is {ratio}")

    def size(self, units: int, unit: Amounts) -> Amounts:
        """Return so many units, as far as the bounds let a resource have them."""
        return unit.times(units).join(self.least).meet(self.most)

    def bounds_units(self, unit: Amounts) -> tuple[int, int]:
        """Return the numbers of units at which the least and the largest size are reached, both at least 1."""
        least = min(amount // part for amount, part in zip(self.least, unit, strict=True))
        return max(least, 1), self.most.units(unit)


class Pending(StrEnum):
    """Why the node has not taken a size up."""

    NO = ""
    """It has, or is about to."""
    DEFERRED = "Deferred"
    """It has no room now; it tries again by itself."""
    INFEASIBLE = "Infeasible"
    """It never will."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSeen:
    """A pod as the cluster has it."""

    uid: str
    """Uid of the pod."""
    version: int
    """Version of the object; what comes with a lower one than was seen is out of date."""
    policy: ScalingPolicy
    """Its policy."""
    desired: Amounts
    """What its specification says."""
    allocated: Amounts
    """What its node has put aside for it."""
    actual: Amounts
    """What its containers run with."""
    pending: Pending = Pending.NO
    """Whether its node refuses what is desired."""
    refusal: str = ""
    """Why this pod can never be resized; empty if it can be."""


@dataclass(frozen=True, slots=True)
class PodGone:
    """A pod ended or was deleted."""

    uid: str
    """Uid of the pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSeen:
    """What pods used of late, each pod once; columns of length n."""

    uids: tuple[str, ...]
    """The pods."""
    load_cores: Floats
    """(n,) processors that each used or waited for; not a number where that is not known."""
    memory_bytes: Floats
    """(n,) memory that cannot be taken back; not a number where that is not known."""
    cached_bytes: Floats | None = None
    """(n,) memory of cached files; None if no source tells."""
    working_set_bytes: Floats | None = None
    """(n,) memory that the application would like to keep cached; None if none tells."""


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """A container of a pod was ended for want of memory."""

    uid: str
    """Uid of the pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Permit:
    """How much a pod may have, as the sampler's ledger has booked it; a lease."""

    uid: str
    """Uid of the pod."""
    sequence: int
    """Number of the request that it answers."""
    amounts: Amounts
    """What is permitted; at most what was asked for."""
    unit: Amounts
    """Compute unit; what is asked for next must be whole ones."""


@dataclass(frozen=True, slots=True)
class PermitsTold:
    """The sampler permits something, in answer to requests or because room has come."""

    session: int
    """Number of the session they came by; those of an earlier one are void."""
    permits: tuple[Permit, ...]
    """The permits."""


@dataclass(frozen=True, slots=True)
class Leased:
    """The sampler has heard of the agent: all permits hold for longer."""

    session: int
    """Number of the session."""
    until_s: float
    """Until when by the agent's clock, seconds; counted from when the message was sent that is confirmed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The sampler does not take a request; the permit that the pod has stays."""

    session: int
    """Number of the session it came by."""
    uid: str
    """Uid of the pod."""
    sequence: int
    """Number of the request."""
    reason: str
    """Why, for people."""
    retry_after_s: float = 0.0
    """When the request is worth another try, seconds; 0 for the agent's own measure."""


class Directive(StrEnum):
    """What the sampler wants of a pod beside its size."""

    NONE = "none"
    """Nothing: what was wanted before is over."""
    DRAIN = "drain"
    """Its node is to be emptied: do not grow."""
    MIGRATE = "migrate"
    """It will be moved: leave its size alone."""
    STOP = "stop"
    """It is not autoscaled any more: leave its size alone."""


@dataclass(frozen=True, slots=True)
class Directed:
    """The sampler wants something of a pod."""

    session: int
    """Number of the session it came by."""
    uid: str
    """Uid of the pod."""
    directive: Directive
    """What."""


class ResizeOutcome(StrEnum):
    """What became of a request to the API server."""

    ACCEPTED = "accepted"
    """The specification is what was asked for; the node comes next."""
    CONFLICT = "conflict"
    """The pod had changed meanwhile: nothing was done."""
    REFUSED = "refused"
    """The API server does not allow it: nothing was done."""
    UNKNOWN = "unknown"
    """No answer: it may be done, or be done yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeEnded:
    """The API server has answered, or not in time."""

    uid: str
    """Uid of the pod."""
    number: int
    """Number of the resize; only the last one's end is of interest."""
    outcome: ResizeOutcome
    """What became of it."""
    version: int = 0
    """Version of the pod after it, if it was accepted."""
    reason: str = ""
    """What the API server said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractAnswered:
    """A pod has said the least that it needs, or nothing that can be used."""

    uid: str
    """Uid of the pod."""
    number: int
    """Number of the question; only the last one's answer counts."""
    needs: Amounts | None = None
    """What it needs; None if it did not answer in time, or not as the contract says."""


@dataclass(frozen=True, slots=True)
class SessionUp:
    """A session with the sampler stands; all pods are to be announced in it."""

    session: int
    """Its number, larger than of any before."""


@dataclass(frozen=True, slots=True)
class SessionDown:
    """The session is lost: permits can be neither asked for nor given back."""


Event = (
    PodSeen
    | PodGone
    | MetricsSeen
    | OutOfMemory
    | PermitsTold
    | Leased
    | Refused
    | Directed
    | ResizeEnded
    | ContractAnswered
    | SessionUp
    | SessionDown
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PermitRequest:
    """What a pod wants to be booked at; asked for before it grows, told after it has shrunk."""

    uid: str
    """Uid of the pod."""
    sequence: int
    """Number of the request, growing per pod."""
    wanted: Amounts
    """What it wants; never less than `held`."""
    held: Amounts
    """What it must be booked at: the most of desired, allocated and actual."""
    is_bundle: bool
    """It wants the same number of units of every resource, or none."""
    is_first: bool = False
    """The pod is announced by it in this session: `wanted` is then what it stays below without another permit."""
    was_permitted: bool = False
    """This agent holds a permit of the pod whose lease has not ended, so nobody else can have a newer one."""
    is_permit: bool = False
    """The pod is announced with no more than that permit: nobody has made it larger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    """Give a pod another size, if it is still at the version."""

    uid: str
    """Uid of the pod."""
    number: int
    """Number of the resize, growing per pod."""
    version: int
    """Version that the pod must be at: a request that is late then does nothing."""
    amounts: Amounts
    """The size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractQuestion:
    """Ask a pod, on the port that its policy names, what it needs."""

    uid: str
    """Uid of the pod."""
    number: int
    """Number of the question, growing per pod."""
    port: int
    """Where it listens."""
    size: Amounts
    """What it runs with."""
    proposed: Amounts
    """What it should have by what it uses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryEntry:
    """One thing that happened to a pod's size, and how things stood then."""

    uid: str
    """Uid of the pod."""
    at_s: float
    """When, by the agent's clock, seconds."""
    what: str
    """What happened and why, one line."""
    goal: Amounts
    """What it should have."""
    requested: Amounts
    """What was asked for last."""
    approved: Amounts
    """What is permitted."""
    allocated: Amounts
    """What its node has put aside."""
    actual: Amounts
    """What it runs with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Actions:
    """What to do now; then wait for an event, or until `wake_at_s`."""

    requests: tuple[PermitRequest, ...] = ()
    """To the sampler, in one message."""
    resizes: tuple[Resize, ...] = ()
    """To the API server, one for a pod at most."""
    questions: tuple[ContractQuestion, ...] = ()
    """To pods themselves, one for a pod at most."""
    reports: tuple[StoryEntry, ...] = ()
    """What happened since the last actions, for logs, events and histories."""
    wake_at_s: float = field(default=float("inf"))
    """When to ask again though nothing has happened, seconds."""
