"""How permits are given to pods that are resized, by a pool's settings; these come before a sampler's own.

Source: seed 001 "Config changes"; docs/autoscale.md "Settings that change".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.scaling import read_amounts

__all__ = ["PermitRules"]

_KEY = "leader.round.permits"
_LEAST_LEASE_S = 1.0
"""Below it, agents would be cut off by a garbage collection or a busy machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PermitRules:
    """How permits are given on the clusters of a pool; what says nothing is as each sampler is configured."""

    watermark: float = field(default=0.0, metadata={"may_be_zero": True})
    """Part of a node with scaled pods up to which others are placed there, and above which pods of it that are marked
    movable are preempted; 1 moves nothing, 0 is as samplers are configured."""
    unit: str = ""
    """Compute unit, as `cpu=250m,memory=1Gi`; empty is as samplers are configured."""
    lease_s: float = field(default=0.0, metadata={"may_be_zero": True})
    """How long an agent that is not heard may go on giving pods what it was permitted, seconds, from its next session
    on; never longer than samplers are configured with, which is what the next one waits for at its start. 0 is that."""
    margin_s: float = field(default=0.0, metadata={"may_be_zero": True})
    """How much longer a change that it began may take to be seen, seconds; never shorter than samplers are configured
    with. 0 is that."""
    rises_per_s: float = field(default=0.0, metadata={"may_be_zero": True})
    """How often an agent may ask for more for one pod, for ever; ten seconds' worth at once. 0 is as samplers are
    configured."""
    node_watermarks: Mapping[str, float] = field(default_factory=dict)
    """Watermarks by name of a node, on whatever cluster."""
    node_units: Mapping[str, str] = field(default_factory=dict)
    """Compute units by name of a node, as `n1=cpu=1;memory=2Gi`."""
    node_system: Mapping[str, str] = field(default_factory=dict)
    """What is kept for the system by name of a node, beyond what is not allocatable, as `n1=cpu=1;memory=2Gi`."""

    def __post_init__(self) -> None:
        """Refuse rules that no permit can be given by.

        Raises:
            InvalidRequest: A part or a time is none, or amounts cannot be read or are nothing.
        """
        if not 0 <= self.watermark <= 1 or not all(0 < ratio <= 1 for ratio in self.node_watermarks.values()):
            raise InvalidRequest(f"{_KEY}.watermark and those of nodes must be parts of 1; only the first may be 0")
        for name, value in (("margin_s", self.margin_s), ("rises_per_s", self.rises_per_s)):
            if not 0 <= value < float("inf"):
                raise InvalidRequest(f"{_KEY}.{name} is {value:g}; it must be 0 or more")
        if self.lease_s != 0 and not _LEAST_LEASE_S <= self.lease_s < float("inf"):
            raise InvalidRequest(
                f"{_KEY}.lease_s is {self.lease_s:g}; it must be 0 or at least {_LEAST_LEASE_S:g}: "
                "agents are heard three times in a lease"
            )
        if self.unit:
            self._require_some("unit", self.unit)
        for name, unit in self.node_units.items():
            self._require_some(f"node_units.{name}", unit)
        for name, kept in self.node_system.items():
            read_amounts(f"{_KEY}.node_system.{name}", kept)

    def _require_some(self, name: str, unit: str) -> None:
        if min(read_amounts(f"{_KEY}.{name}", unit)) < 1:
            raise InvalidRequest(f"{_KEY}.{name} is {unit[:80]!r}; a compute unit has some of each resource")
