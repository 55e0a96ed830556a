"""How permits are given, why they are not, and the accounts of nodes.

Source: seed 001 "Deep dive into resource management"; docs/autoscale.md "Permits".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np

from argosy_core.arrays import Bools, Int8s, Int32s, Int64s
from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.permit_rules import PermitRules
from argosy_core.job.reading.scaling import SCALED, read_amounts

__all__ = ["NodeAccounts", "PermitSettings", "RefusalReason", "refuse", "sums_by_node"]


class RefusalReason(IntEnum):
    """Why nothing changes for a pod; values of argosy.autoscale.v1.RefusalReason, 0 where nothing is refused."""

    NONE = 0
    """It is not refused."""
    UNKNOWN_POD = 1
    """No such pod was seen, or it is not scaled."""
    NOT_SCALED = 2
    """Scaling was switched off for it."""
    HELD_BY_ANOTHER = 3
    """Another agent holds it, or its lease may still last."""
    NOT_IN_INVENTORY = 4
    """The session does not hold it."""
    BELOW_MINIMUM = 5
    """An amount is below the minimum."""
    ABOVE_MAXIMUM = 6
    """An amount is above the maximum."""
    NOT_IN_UNITS = 7
    """An amount is neither whole units, nor a bound, nor what the pod has."""
    MOVING = 8
    """It is being moved and keeps its size."""
    TOO_OFTEN = 9
    """The agent asks too often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PermitSettings:
    """How permits are given."""

    lease_s: float = 6.0
    """How long an agent that is not heard may still give what it was permitted, seconds."""
    margin_s: float = 4.0
    """How long after that a change that it began may still come to be seen, seconds."""
    unit: tuple[int, ...] = (250, 1 << 30)
    """Compute unit: by resource of SCALED, base units."""
    node_units: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Other compute units by name of a node."""
    rises_per_s: float = 10.0
    """How often one pod may ask for more, for ever; ten seconds' worth at once."""
    watermark_ratio: float = 1.0
    """Part of a node with scaled pods up to which others are placed there, and above which movable pods of it are named
    to be moved; 1 moves nothing."""
    node_watermarks: Mapping[str, float] = field(default_factory=dict)
    """Other watermarks by name of a node."""
    node_system: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """What is kept for the system of single nodes, beyond what is not allocatable: by name, by resource of SCALED."""
    noted_by: str = ""
    """Name of this sampler process in its notes on pods of what they may have at most; empty if it writes none (see
    `permit_notes`)."""
    note_quiet_s: float = 30.0
    """How long a pod has asked for nothing before its note is lowered to what it may have, seconds."""
    move_timeout_s: float = 60.0
    """How long a pod that is named to be moved may stay before its move has failed, seconds."""
    move_rest_s: float = 600.0
    """How long after it was named no pod of the same job is named again, seconds."""

    def __post_init__(self) -> None:
        """Refuse times, units and parts that nothing can be measured by.

        Raises:
            InvalidRequest: A time is not positive, a unit has not some of each resource, or a part is none.
        """
        if not all(0 < value < float("inf") for value in (self.lease_s, self.margin_s, self.rises_per_s)):
            raise InvalidRequest("lease_s, margin_s and rises_per_s must be above 0")
        if not all(0 < ratio <= 1 for ratio in (self.watermark_ratio, *self.node_watermarks.values())):
            raise InvalidRequest("a watermark is above 0 and at most 1")
        if not all(len(kept) == len(SCALED) and min(kept) >= 0 for kept in self.node_system.values()):
            raise InvalidRequest(f"what is kept for the system has {' and '.join(SCALED)}, not below 0")
        if min(self.move_timeout_s, self.move_rest_s, self.note_quiet_s) <= 0:
            raise InvalidRequest("move_timeout_s, move_rest_s and note_quiet_s must be above 0")
        for unit in (self.unit, *self.node_units.values()):
            if len(unit) != len(SCALED) or min(unit) < 1:
                raise InvalidRequest(f"a compute unit has some of {' and of '.join(SCALED)}")

    def under(self, rules: PermitRules) -> PermitSettings:
        """Return the settings as a pool's rules change them."""
        return replace(
            self,
            lease_s=min(rules.lease_s or self.lease_s, self.lease_s),
            margin_s=max(rules.margin_s, self.margin_s),
            rises_per_s=rules.rises_per_s or self.rises_per_s,
            watermark_ratio=rules.watermark or self.watermark_ratio,
            unit=read_amounts("unit", rules.unit) if rules.unit else self.unit,
            node_watermarks={**self.node_watermarks, **rules.node_watermarks},
            node_units={**self.node_units, **_read(rules.node_units)},
            node_system={**self.node_system, **_read(rules.node_system)},
        )


def _read(amounts: Mapping[str, str]) -> dict[str, tuple[int, ...]]:
    return {name: read_amounts(name, text) for name, text in amounts.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAccounts:
    """The accounts of all nodes, (resource of SCALED, node), base units."""

    total: Int64s
    """All that a node has."""
    system: Int64s
    """What of it is kept for the system."""
    reserved: Int64s
    """What is taken."""
    buffer: Int64s
    """What of that is booked only because of what is not known."""
    pressure: Int64s
    """What pods were denied for want of room."""
    watermark: Int64s
    """Up to what is to be taken."""
    accounted: Int64s
    """What pods that are named to be moved take and were denied: pressure that goes with them."""


def refuse(refused: Int8s, which: Bools, reason: RefusalReason) -> None:
    """Refuse what was not refused before."""
    refused[which & (refused == 0)] = reason


def sums_by_node(amounts: Int64s, nodes: Int32s, count: int) -> Int64s:
    """Return (resource, count) the sums of (resource, n) amounts by node."""
    sums = np.zeros((len(amounts), count), np.int64)
    for column, part in zip(sums, amounts, strict=True):
        np.add.at(column, nodes, part)
    return sums
