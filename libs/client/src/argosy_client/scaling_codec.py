"""Within what a job's pod is resized, to and from messages of argosy.api.v1.

Source: `proto/argosy/api/v1/job.proto`, ScalingPolicy; docs/autoscale.md "A policy in the job".
"""

from __future__ import annotations

from argosy.api.v1 import job_pb2
from argosy_core.job.reading.scaling_rules import ScalingRules

__all__ = ["scaling_message", "scaling_of"]


def scaling_message(rules: ScalingRules | None) -> job_pb2.ScalingPolicy | None:
    """Return rules as a message; None stays unset."""
    if rules is None:
        return None
    targets = job_pb2.ScalingTargets(
        load=rules.load_ratio, memory=rules.memory_ratio, working_set=rules.working_set_ratio
    )
    return job_pb2.ScalingPolicy(
        min=_amounts_message(rules.least),
        max=_amounts_message(rules.most),
        unit=_amounts_message(rules.unit),
        off=rules.is_off,
        bundle=rules.is_bundle,
        movable=rules.is_movable,
        targets=targets if targets.ByteSize() else None,
    )


def scaling_of(message: job_pb2.ScalingPolicy) -> ScalingRules:
    """Return the rules of a message."""
    return ScalingRules(
        least=_quantities_of(message.min),
        most=_quantities_of(message.max),
        unit=_quantities_of(message.unit),
        load_ratio=message.targets.load,
        memory_ratio=message.targets.memory,
        working_set_ratio=message.targets.working_set,
        is_off=message.off,
        is_bundle=message.bundle,
        is_movable=message.movable,
    )


def _amounts_message(quantities: tuple[str, ...]) -> job_pb2.ScaledAmounts | None:
    return job_pb2.ScaledAmounts(**dict(zip(("cpu", "memory"), quantities, strict=True))) if quantities else None


def _quantities_of(message: job_pb2.ScaledAmounts) -> tuple[str, ...]:
    return (message.cpu, message.memory) if message.cpu else ()
