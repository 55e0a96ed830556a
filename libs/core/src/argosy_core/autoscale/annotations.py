"""Annotations of a pod that say within what it is resized.

::

    argosy.dev/autoscale-min: cpu=250m,memory=1Gi
    argosy.dev/autoscale-max: cpu=4,memory=16Gi
    argosy.dev/autoscale: "off"            # the pod keeps its size
    argosy.dev/autoscale-movable: "true"   # its run may be ended to make room for others
    argosy.dev/queue: team-a               # whose growth its own is

A pod without both bounds is not scaled.

Source: seed 001 "Non-VM pods"; docs/autoscale.md "Permits".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from argosy_core.errors import InvalidRequest
from argosy_core.ledger import SCALED, Scaling
from argosy_core.resources import parse_quantity

__all__ = [
    "MAXIMUM_ANNOTATION",
    "MINIMUM_ANNOTATION",
    "MOVABLE_ANNOTATION",
    "QUEUE_ANNOTATION",
    "SWITCH_ANNOTATION",
    "read_amounts",
    "read_scaling",
]

MINIMUM_ANNOTATION: Final = "argosy.dev/autoscale-min"
"""Least size, as `cpu=250m,memory=1Gi`; both resources."""
MAXIMUM_ANNOTATION: Final = "argosy.dev/autoscale-max"
"""Largest size, in the same form."""
SWITCH_ANNOTATION: Final = "argosy.dev/autoscale"
"""`off` if the pod keeps its size whatever its bounds; `on` otherwise."""
MOVABLE_ANNOTATION: Final = "argosy.dev/autoscale-movable"
"""`true` if its run may be ended to make room for others."""
QUEUE_ANNOTATION: Final = "argosy.dev/queue"
"""Name of the queue that its growth is shared by."""


def read_scaling(annotations: Mapping[str, str]) -> Scaling | None:
    """Return within what a pod is resized; None if it is not.

    Raises:
        InvalidRequest: An annotation cannot be read; the text names it.
    """
    switch = annotations.get(SWITCH_ANNOTATION, "on")
    if switch not in {"on", "off"}:
        raise InvalidRequest(f"{SWITCH_ANNOTATION} is {switch[:40]!r}; write on or off")
    movable = annotations.get(MOVABLE_ANNOTATION, "false")
    if movable not in {"true", "false"}:
        raise InvalidRequest(f"{MOVABLE_ANNOTATION} is {movable[:40]!r}; write true or false")
    bounds = [
        read_amounts(name, annotations[name])
        for name in (MINIMUM_ANNOTATION, MAXIMUM_ANNOTATION)
        if name in annotations
    ]
    if switch == "off" or not bounds:
        return None
    if len(bounds) == 1:
        raise InvalidRequest(f"{MINIMUM_ANNOTATION} and {MAXIMUM_ANNOTATION} go together; one is missing")
    try:
        return Scaling(
            least=bounds[0],
            most=bounds[1],
            queue=annotations.get(QUEUE_ANNOTATION, ""),
            is_movable=movable == "true",
        )
    except ValueError as cause:
        raise InvalidRequest(f"{MINIMUM_ANNOTATION} is above {MAXIMUM_ANNOTATION}") from cause


def read_amounts(annotation: str, text: str) -> tuple[int, ...]:
    """Return amounts by resource of SCALED, written as `cpu=250m,memory=1Gi`.

    Args:
        annotation: What the text is, for the error.
        text: The amounts.

    Raises:
        InvalidRequest: A resource is missing, stands twice or is none that pods are resized in, or has no quantity.
    """
    amounts: dict[str, int] = {}
    for part in text.split(","):
        name, equals, quantity = (word.strip() for word in part.partition("="))
        if not equals or name not in SCALED or name in amounts:
            raise InvalidRequest(f"{annotation} is {text[:80]!r}; write {'=..., '.join(SCALED)}=..., each once")
        try:
            amounts[name] = parse_quantity(name, quantity)
        except InvalidRequest as cause:
            raise InvalidRequest(f"{annotation}: {cause.message}") from cause
    if len(amounts) != len(SCALED):
        raise InvalidRequest(f"{annotation} is {text[:80]!r}; it must name {' and '.join(SCALED)}")
    return tuple(amounts[name] for name in SCALED)
