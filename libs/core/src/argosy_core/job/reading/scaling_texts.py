"""Rules for resizes and the annotations that they become, and what is wrong with them.

The annotations (`argosy_core.job.reading.scaling`) are what is stored, what pods carry, and the other way to say it.

Source: docs/autoscale.md "A policy in the job".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.scaling import (
    BUNDLE_ANNOTATION,
    MAXIMUM_ANNOTATION,
    MINIMUM_ANNOTATION,
    MOVABLE_ANNOTATION,
    RULE_ANNOTATIONS,
    SCALED,
    SCALING_ANNOTATIONS,
    SWITCH_ANNOTATION,
    TARGETS_ANNOTATION,
    UNIT_ANNOTATION,
    Targets,
    read_scaling,
    read_targets,
)
from argosy_core.job.reading.scaling_rules import ScalingRules
from argosy_core.resources import format_amount, parse_quantity

__all__ = ["annotations_of", "read_rules", "scaling_rules_fault", "spec_scaling_fault"]

_FIELD_OF: Final = {
    MINIMUM_ANNOTATION: "min",
    MAXIMUM_ANNOTATION: "max",
    UNIT_ANNOTATION: "unit",
    TARGETS_ANNOTATION: "targets",
}
_UNSET: Final = Targets(load_ratio=0.0, memory_ratio=0.0, working_set_ratio=0.0)


def annotations_of(rules: ScalingRules) -> dict[str, str]:
    """Return the annotations that say what rules say."""
    amounts = {MINIMUM_ANNOTATION: rules.least, MAXIMUM_ANNOTATION: rules.most, UNIT_ANNOTATION: rules.unit}
    ratios = {"load": rules.load_ratio, "memory": rules.memory_ratio, "working-set": rules.working_set_ratio}
    texts = {name: ",".join(map("=".join, zip(SCALED, held, strict=True))) for name, held in amounts.items() if held}
    texts[TARGETS_ANNOTATION] = ",".join(f"{name}={ratio:g}" for name, ratio in ratios.items() if ratio)
    texts[SWITCH_ANNOTATION] = "off" * rules.is_off
    texts[BUNDLE_ANNOTATION] = "true" * rules.is_bundle
    texts[MOVABLE_ANNOTATION] = "true" * rules.is_movable
    return {name: text for name, text in texts.items() if text}


def read_rules(annotations: Mapping[str, str]) -> ScalingRules | None:
    """Return what annotations say; None if they say nothing of it, or what cannot be read."""
    if annotations.keys().isdisjoint(RULE_ANNOTATIONS) or scaling_rules_fault(annotations):
        return None
    return ScalingRules(
        least=_quantities(annotations.get(MINIMUM_ANNOTATION, "")),
        most=_quantities(annotations.get(MAXIMUM_ANNOTATION, "")),
        unit=_quantities(annotations.get(UNIT_ANNOTATION, "")),
        **asdict(read_targets(annotations.get(TARGETS_ANNOTATION, ""), _UNSET)),
        is_off=annotations.get(SWITCH_ANNOTATION) == "off",
        is_bundle=annotations.get(BUNDLE_ANNOTATION) == "true",
        is_movable=annotations.get(MOVABLE_ANNOTATION) == "true",
    )


def scaling_rules_fault(annotations: Mapping[str, str]) -> str:
    """Return what is wrong with annotations of rules, in the words of their fields; empty if nothing is."""
    try:
        read_scaling({key: text for key, text in annotations.items() if key in SCALING_ANNOTATIONS})
    except InvalidRequest as error:
        text = error.message
        for annotation, name in _FIELD_OF.items():
            text = text.replace(annotation, name)
        return text
    return ""


def spec_scaling_fault(body: bytes, annotations: Mapping[str, str], *, is_gang: bool) -> str:
    """Return why the pod of a spec can never be resized as annotations of its job say; empty if it can be.

    Args:
        body: JSON array of the spec's objects, which were found to be right.
        annotations: Of the job; they can be read.
        is_gang: The spec has groups of pods.

    Complexity: linear in the bytes.
    """
    scaling = read_scaling({key: text for key, text in annotations.items() if key in SCALING_ANNOTATIONS})
    if scaling is None:
        return ""
    pods = [one for one in json.loads(body) if one.get("kind") == "Pod"]
    if is_gang or len(pods) != 1:
        return "only a job of one pod is resized: nobody could tell whose permit it is"
    spec = pods[0]["spec"]
    if spec.get("resources"):
        return "its pod's resources are set for the pod as a whole; set them for its containers"
    asked = [0] * len(SCALED)
    for container in spec["containers"]:
        restarts = {one.get("resourceName") for one in container.get("resizePolicy") or () if _restarts(one)}
        for place, name in enumerate(SCALED):
            amount = _requested(container, name)
            if name in restarts:
                return f"container {container['name']} is restarted when its {name} is resized (resizePolicy)"
            if amount < 1:
                return f"container {container['name']} requests no {name}, so its share of the pod is not known"
            asked[place] += amount
    for name, amount, most in zip(SCALED, asked, scaling.most, strict=True):
        if amount > most:
            return f"its pod requests {format_amount(name, amount)} of {name}, its max is {format_amount(name, most)}"
    return ""


def _restarts(rule: Mapping[str, Any]) -> bool:
    return rule.get("restartPolicy") == "RestartContainer"


def _requested(container: Mapping[str, Any], name: str) -> int:
    """Return what a container requests; its limit stands in for a missing request, as the API server fills it in."""
    resources = container.get("resources") or {}
    held = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return parse_quantity(name, str(held.get(name, 0)))


def _quantities(text: str) -> tuple[str, ...]:
    said = dict(part.strip().split("=", 1) for part in text.split(",")) if text else {}
    held = {name.strip(): quantity.strip() for name, quantity in said.items()}
    return tuple(held[name] for name in SCALED) if held else ()
