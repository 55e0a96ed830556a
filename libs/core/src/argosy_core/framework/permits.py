"""Placements that samplers committed and that are not published yet, as permit and pre-bind plugins see them.

Source: seed 002 "Permit", "Approving a Pod binding", "Reject", "Pre-Bind".
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Bools, Float64s, Int32s, Int64s
from argosy_core.framework.faults import Fault
from argosy_core.framework.jobs import JobBatch, Objects

__all__ = ["PermitBatch", "Verdicts"]

Lines = npt.NDArray[np.integer] | Bools | slice | int


class Verdicts:
    """What plugins said of n placements; what nobody spoke of is permitted.

    Args:
        count: n.
    """

    __slots__ = ("denied", "plugin", "retry_after_s", "texts", "timeout_s", "waits")

    def __init__(self, count: int) -> None:
        """Start with everything permitted."""
        self.denied: Bools = np.zeros(count, np.bool_)
        """(n,): turned away; counts more than anything else."""
        self.waits: Bools = np.zeros(count, np.bool_)
        """(n,): neither permitted nor turned away yet."""
        self.timeout_s: Float64s = np.full(count, np.inf)
        """(n,): seconds from the commit after which what waits is turned away."""
        self.retry_after_s: Float64s = np.zeros(count)
        """(n,): seconds after which what was turned away may be tried again; 0 leaves it to the scheduler."""
        self.texts: Objects = np.full(count, "", dtype=np.object_)
        """(n,): who said no, or not yet, and why."""
        self.plugin = ""
        """Name of the plugin that is being asked."""

    def merge(self, other: Verdicts) -> None:
        """Add what another plugin said of the same placements; of two that wait the first one's text is kept."""
        heard = (other.denied & ~self.denied) | (other.waits & ~self.waits & ~self.denied)
        self.texts[heard] = other.texts[heard]
        self.retry_after_s = np.maximum(self.retry_after_s, other.retry_after_s)
        self.timeout_s = np.minimum(self.timeout_s, other.timeout_s)
        self.denied |= other.denied
        self.waits |= other.waits


@dataclass(frozen=True, slots=True, kw_only=True)
class PermitBatch(JobBatch):
    """n jobs, each with the place that a sampler has reserved for it."""

    attempt: Int32s
    """(n,) attempt of the run."""
    cluster: Objects
    """(n,) names of clusters."""
    node: Objects
    """(n,) names of nodes."""
    waited_s: Float64s
    """(n,) seconds since the commit; 0 for those that are asked about for the first time."""
    lines: Int64s
    """(n,) positions in `verdicts`."""
    verdicts: Verdicts
    """What plugins say; written by `wait` and `deny`."""

    def wait(self, lines: Lines, reason: str, *, timeout_s: float) -> None:
        """Keep placements reserved without publishing them; they are asked about again.

        Args:
            lines: A position in the batch, several, or a mask of it.
            reason: What users read.
            timeout_s: Seconds from their commit after which they are turned away.
        """
        mine = self.lines[lines]
        self.verdicts.waits[mine] = True
        self.verdicts.timeout_s[mine] = timeout_s
        self.verdicts.texts[mine] = f"{self.verdicts.plugin}: {reason}"

    def deny(self, lines: Lines, reason: str, *, retry_after_s: float = 0.0) -> None:
        """Turn placements away: their jobs wait in their queues again.

        Args:
            lines: As for `wait`.
            reason: What users read.
            retry_after_s: In how many seconds to try again; 0 leaves it to the scheduler.
        """
        mine = self.lines[lines]
        self.verdicts.denied[mine] = True
        self.verdicts.retry_after_s[mine] = retry_after_s
        self.verdicts.texts[mine] = f"{self.verdicts.plugin}: {reason}"

    def note_fault(self, fault: Fault) -> None:
        """Turn everything away that a function failed on."""
        self.deny(slice(None), fault.reason, retry_after_s=fault.retry_after_s)

    def forget(self) -> None:
        """Forget what a function said before it failed."""
        self.verdicts.waits[self.lines] = self.verdicts.denied[self.lines] = False
        self.verdicts.timeout_s[self.lines], self.verdicts.retry_after_s[self.lines] = np.inf, 0.0

    def join(self, other: PermitBatch) -> PermitBatch:
        """Return both, with nothing said of them."""
        columns = {
            field.name: np.concatenate([getattr(self, field.name), getattr(other, field.name)])
            for field in fields(self)
            if field.name != "verdicts"
        }
        return PermitBatch(**columns, verdicts=self.verdicts).fresh()

    def fresh(self) -> PermitBatch:
        """Return the placements with nothing said of them."""
        count = len(self)
        return replace(self, lines=np.arange(count), verdicts=Verdicts(count))
