"""Within what pods of submitted jobs are resized: the wire's form of it, and what is wrong with it.

Source: `proto/argosy/api/v1/job.proto`, ScalingPolicy; docs/autoscale.md "A policy in the job".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from argosy.api.v1 import job_pb2
from argosy_core.errors import FieldViolation
from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.reading.scaling import RULE_ANNOTATIONS, SCALED, SCALING_ANNOTATIONS
from argosy_core.job.reading.scaling_rules import ScalingRules
from argosy_core.job.reading.scaling_texts import annotations_of, read_rules, scaling_rules_fault, spec_scaling_fault
from argosy_server.api.submits.specs import ReadSpec

__all__ = ["scaling_faults", "scaling_message", "with_scaling"]


def with_scaling(item: Any, number: int) -> tuple[dict[str, str], list[FieldViolation]]:  # noqa: ANN401 - generated types have no common base
    """Return the annotations of an item with those that say how it is scaled, and what is wrong with that.

    Args:
        item: A JobItem that has `scaling`.
        number: Its place in the request, for faults.
    """
    given, policy = dict(item.annotations), item.scaling
    targets = policy.targets
    rules = annotations_of(
        ScalingRules(
            least=_quantities(policy, "min"),
            most=_quantities(policy, "max"),
            unit=_quantities(policy, "unit"),
            load_ratio=targets.load,
            memory_ratio=targets.memory,
            working_set_ratio=targets.working_set,
            is_off=policy.off,
            is_bundle=policy.bundle,
            is_movable=policy.movable,
        )
    )
    fault = scaling_rules_fault(rules)
    said = {key: text for key, text in given.items() if key in RULE_ANNOTATIONS}
    if said and not fault and read_rules(said) != read_rules(rules):
        fault = f"says another thing than the annotation {min(said)}; leave one of them out"
    if not fault:
        return {**given, **(said or rules)}, []
    return given, [FieldViolation(field=f"items[{number}].scaling", description=fault)]


def scaling_faults(
    metadata: Sequence[tuple[Any, tuple[tuple[str, str], ...]] | None],
    places: Sequence[int],
    specs: Sequence[ReadSpec],
) -> list[FieldViolation]:
    """Return items whose pods can never be resized as their annotations say.

    Args:
        metadata: By item: its labels and annotations, None for neither.
        places: By item: index of its spec.
        specs: The specs.

    Complexity: nothing worth naming for items that say nothing of it; each spec is looked at once a policy.
    """
    found: list[FieldViolation] = []
    known: dict[tuple[int, object], str] = {}
    for number, (given, place) in enumerate(zip(metadata, places, strict=True)):
        if given is None or place >= len(specs) or specs[place].violations:
            continue
        said = {key: text for key, text in given[1] if key in SCALING_ANNOTATIONS}
        if not said or scaling_rules_fault(said):
            continue
        key = place, tuple(said.items())
        if key not in known:
            is_gang = bool(SchedulingClass.parse(specs[place].definition).gang)
            known[key] = spec_scaling_fault(specs[place].row.body, said, is_gang=is_gang)
        if known[key]:
            found.append(FieldViolation(field=f"items[{number}].scaling", description=known[key]))
    return found


def scaling_message(annotations: Mapping[str, str]) -> job_pb2.ScalingPolicy | None:
    """Return what annotations of a job say, None if they say nothing of it."""
    rules = read_rules(annotations)
    if rules is None:
        return None
    targets = job_pb2.ScalingTargets(
        load=rules.load_ratio,
        memory=rules.memory_ratio,
        working_set=rules.working_set_ratio,
    )
    return job_pb2.ScalingPolicy(
        min=_message(rules.least),
        max=_message(rules.most),
        unit=_message(rules.unit),
        targets=targets if targets.ByteSize() else None,
        off=rules.is_off,
        bundle=rules.is_bundle,
        movable=rules.is_movable,
    )


def _quantities(policy: job_pb2.ScalingPolicy, name: str) -> tuple[str, ...]:
    held = getattr(policy, name)
    return tuple(getattr(held, resource) for resource in SCALED) if policy.HasField(name) else ()


def _message(quantities: tuple[str, ...]) -> job_pb2.ScaledAmounts | None:
    return job_pb2.ScaledAmounts(**dict(zip(SCALED, quantities, strict=True))) if quantities else None
