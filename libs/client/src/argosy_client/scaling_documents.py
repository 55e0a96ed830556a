"""Within what a job's pod is resized: as documents have it.

Source: `argosy_client.documents`; docs/autoscale.md "A policy in the job".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from argosy_client.field_reading import FieldReader, kind_text
from argosy_client.yaml_nodes import Value
from argosy_core.job.reading.scaling_rules import ScalingRules

__all__ = ["read_scaling_rules"]

_RESOURCES: Final = ("cpu", "memory")
_FLAGS: Final = ("off", "bundle", "movable")
_FIELDS: Final = {name: name for name in ("min", "max", "unit", "targets", *_FLAGS)}
_TARGETS: Final = {"load": "load", "memory": "memory", "workingSet": "working_set", "working_set": "working_set"}


def read_scaling_rules(reader: FieldReader, value: Value) -> ScalingRules | None:
    """Return the rules that a document says, None for none; mistakes are noted at the reader."""
    if value is None:
        return None
    if not isinstance(value, dict):
        reader.fault("scaling", "must be a mapping, as {min: {cpu: 500m, memory: 1Gi}, max: {cpu: 4, memory: 8Gi}}")
        return None
    said = reader.named(value, _FIELDS, "scaling", "scaling.")
    off, bundle, movable = (reader.flag(said, name, path="scaling.") for name in _FLAGS)
    return ScalingRules(
        least=_read_quantities(reader, "min", said),
        most=_read_quantities(reader, "max", said),
        unit=_read_quantities(reader, "unit", said),
        **_read_targets(reader, said.get("targets", {})),
        is_off=off,
        is_bundle=bundle,
        is_movable=movable,
    )


def _read_quantities(reader: FieldReader, name: str, said: Mapping[str, Value]) -> tuple[str, ...]:
    if name not in said:
        return ()
    path, value = f"scaling.{name}", said[name]
    if not isinstance(value, dict) or set(value) != set(_RESOURCES):
        reader.fault(path, "must have cpu and memory, as {cpu: 500m, memory: 1Gi}")
        return ()
    for resource, quantity in value.items():
        if isinstance(quantity, bool) or not isinstance(quantity, str | int | float):
            reader.fault(f"{path}.{resource}", f"must be a quantity, as 500m or 1Gi, not {kind_text(quantity)}")
    return tuple(str(value[resource]) for resource in _RESOURCES)


def _read_targets(reader: FieldReader, value: Value) -> dict[str, float]:
    ratios: dict[str, float] = {}
    if not isinstance(value, dict):
        reader.fault("scaling.targets", f"must be a mapping, as {{load: 0.9, memory: 0.75}}, not {kind_text(value)}")
        return ratios
    for name, ratio in reader.named(value, _TARGETS, "targets", "scaling.targets.").items():
        if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 0 < ratio <= 1:
            reader.fault(f"scaling.targets.{name}", "must be a part of what the pod has, above 0 and at most 1")
        else:
            ratios[f"{name}_ratio"] = float(ratio)
    return ratios
