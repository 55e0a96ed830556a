"""Within what a job's pod is resized while it runs, as its submitter says it. Loads nothing: clients need it, too.

Source: docs/autoscale.md "A policy in the job".
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ScalingRules"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingRules:
    """The rules of one job; quantities are texts as Kubernetes has them: (cpu, memory), empty for nothing."""

    least: tuple[str, ...] = ()
    """Least size."""
    most: tuple[str, ...] = ()
    """Largest size."""
    unit: tuple[str, ...] = ()
    """In multiples of what; empty for the compute unit of its node."""
    load_ratio: float = 0.0
    """How much of its processors the load should be at most; 0, as below, for what the installation says."""
    memory_ratio: float = 0.0
    """How much of its memory should be used at most."""
    working_set_ratio: float = 0.0
    """How much of its memory use and working set should be at most."""
    is_off: bool = False
    """It keeps its size."""
    is_bundle: bool = False
    """Permits are equal units of every resource, or none."""
    is_movable: bool = False
    """Its run may be ended to make room for others."""
