"""Annotations of a pod, or of its job, that say within what it is resized while it runs.

::

    argosy.dev/autoscale-min: cpu=250m,memory=1Gi
    argosy.dev/autoscale-max: cpu=4,memory=16Gi
    argosy.dev/autoscale-unit: cpu=500m,memory=2Gi   # in multiples of what; the node's compute unit if absent
    argosy.dev/autoscale-targets: load=0.9,memory=0.75,working-set=0.9   # how full it should be at most
    argosy.dev/autoscale-bundle: "true"    # permits are equal units of both resources, or none
    argosy.dev/autoscale-movable: "true"   # its run may be ended to make room for others
    argosy.dev/autoscale: "off"            # the pod keeps its size
    argosy.dev/autoscale-contract-port: "8321"   # where the pod says the least that it needs
    argosy.dev/queue: team-a               # whose growth its own is; written by the executor
    argosy.dev/autoscale-permit: by=...    # what it may have at most; written by the sampler

A pod without both bounds is not scaled.

Source: seed 001 "Non-VM pods"; docs/autoscale.md "Permits".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from argosy_core.errors import InvalidRequest
from argosy_core.resources import CPU, MEMORY, parse_quantity

__all__ = [
    "BUNDLE_ANNOTATION",
    "CONTRACT_PORT_ANNOTATION",
    "MAXIMUM_ANNOTATION",
    "MINIMUM_ANNOTATION",
    "MOVABLE_ANNOTATION",
    "PERMIT_ANNOTATION",
    "QUEUE_ANNOTATION",
    "RULE_ANNOTATIONS",
    "SCALED",
    "SCALING_ANNOTATIONS",
    "SWITCH_ANNOTATION",
    "TARGETS_ANNOTATION",
    "UNIT_ANNOTATION",
    "PodNote",
    "Scaling",
    "Targets",
    "read_amounts",
    "read_scaling",
    "read_targets",
    "scaling_fault",
]

SCALED: Final = (CPU, MEMORY)
"""Resources that a running pod can have more or less of, in the order of all columns of them."""
SWITCH_ANNOTATION: Final = "argosy.dev/autoscale"
"""`off` if the pod keeps its size whatever its bounds; `on` otherwise."""
MINIMUM_ANNOTATION: Final = "argosy.dev/autoscale-min"
"""Least size, as `cpu=250m,memory=1Gi`; both resources."""
MAXIMUM_ANNOTATION: Final = "argosy.dev/autoscale-max"
"""Largest size, in the same form."""
UNIT_ANNOTATION: Final = "argosy.dev/autoscale-unit"
"""Compute unit of this pod, in the same form."""
TARGETS_ANNOTATION: Final = "argosy.dev/autoscale-targets"
"""Parts of what a pod has that it should use at most, as `load=0.9,memory=0.75`; each may be left out."""
BUNDLE_ANNOTATION: Final = "argosy.dev/autoscale-bundle"
"""`true` if a permit of unequal units is worth nothing."""
MOVABLE_ANNOTATION: Final = "argosy.dev/autoscale-movable"
"""`true` if its run may be ended to make room for others."""
CONTRACT_PORT_ANNOTATION: Final = "argosy.dev/autoscale-contract-port"
"""Port on which the pod itself says the least that it needs; without it nobody asks."""
QUEUE_ANNOTATION: Final = "argosy.dev/queue"
"""Name of the queue that its growth is shared by."""
PERMIT_ANNOTATION: Final = "argosy.dev/autoscale-permit"
"""What the pod may have at most, as a sampler has noted it (`argosy_core.ledger.permit_notes`)."""
RULE_ANNOTATIONS: Final = frozenset(
    {
        SWITCH_ANNOTATION, MINIMUM_ANNOTATION, MAXIMUM_ANNOTATION, UNIT_ANNOTATION, TARGETS_ANNOTATION,
        BUNDLE_ANNOTATION, MOVABLE_ANNOTATION,
    }
)  # fmt: skip
"""The annotations that say what a scaling policy of a job document says, too."""
SCALING_ANNOTATIONS: Final = RULE_ANNOTATIONS | {CONTRACT_PORT_ANNOTATION}
"""The annotations that users write."""
_MOST_PORT: Final = 65_535
_TARGETS: Final = {"load": "load_ratio", "memory": "memory_ratio", "working-set": "working_set_ratio"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """How full a pod should be at most; each above 0 and at most 1."""

    load_ratio: float = 0.9
    """How much of the processors the load should be at most."""
    memory_ratio: float = 0.75
    """How much of the memory should be used at most."""
    working_set_ratio: float = 0.9
    """How much of the memory use and cached working set should be at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodNote:
    """The note on a pod of what it may have at most, and where that pod is."""

    text: str = ""
    """The note; empty for none."""
    namespace: str = ""
    """Namespace of the pod; empty where no notes are kept."""
    name: str = ""
    """Its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """Within what a pod is resized."""

    least: tuple[int, ...]
    """By resource of SCALED: least that it may have, base units."""
    most: tuple[int, ...]
    """By resource of SCALED: most that it may have, base units."""
    unit: tuple[int, ...] = ()
    """By resource of SCALED: its compute unit; empty for that of its node."""
    queue: str = ""
    """Queue that its growth is shared by."""
    is_movable: bool = False
    """Its run may be ended to make room for others."""
    is_bundle: bool = False
    """Permits are equal units of every resource, or none."""
    targets: Targets = Targets()
    """How full it should be."""
    contract_port: int = 0
    """Port on which it says what it needs; 0 if nobody is to ask."""
    note: PodNote = PodNote()
    """What a sampler has noted that it may have at most."""

    def __post_init__(self) -> None:
        """Refuse bounds that no size satisfies.

        Raises:
            ValueError: A bound is missing or negative, or a minimum is above its maximum.
        """
        if len(self.least) != len(SCALED) or len(self.most) != len(SCALED):
            raise ValueError(f"bounds name {', '.join(SCALED)}, one amount each")
        if any(not 0 <= low <= high for low, high in zip(self.least, self.most, strict=True)):
            raise ValueError(f"bounds from {self.least} to {self.most} hold no size")


def read_scaling(annotations: Mapping[str, str]) -> Scaling | None:
    """Return within what a pod is resized; None if it is not.

    Raises:
        InvalidRequest: An annotation cannot be read; the text names it.
    """
    is_on = _read_word(annotations, SWITCH_ANNOTATION, ("on", "off"))
    is_movable = not _read_word(annotations, MOVABLE_ANNOTATION, ("false", "true"))
    is_bundle = not _read_word(annotations, BUNDLE_ANNOTATION, ("false", "true"))
    targets = read_targets(annotations.get(TARGETS_ANNOTATION, ""))
    contract_port = _read_port(annotations.get(CONTRACT_PORT_ANNOTATION, "0"))
    unit, *bounds = (
        read_amounts(name, annotations[name]) if name in annotations else ()
        for name in (UNIT_ANNOTATION, MINIMUM_ANNOTATION, MAXIMUM_ANNOTATION)
    )
    if unit and min(unit) < 1:
        raise InvalidRequest(f"{UNIT_ANNOTATION} must have some of each resource")
    if not is_on or not any(bounds):
        return None
    if not all(bounds):
        raise InvalidRequest(f"{MINIMUM_ANNOTATION} and {MAXIMUM_ANNOTATION} go together; one is missing")
    if min(bounds[0]) < 1:
        raise InvalidRequest(f"{MINIMUM_ANNOTATION} must have some of each resource: a pod without any does not run")
    if any(part > high for part, high in zip(unit, bounds[1], strict=False)):
        raise InvalidRequest(f"{UNIT_ANNOTATION} is above {MAXIMUM_ANNOTATION}")
    try:
        return Scaling(
            least=bounds[0],
            most=bounds[1],
            unit=unit,
            queue=annotations.get(QUEUE_ANNOTATION, ""),
            is_movable=is_movable,
            is_bundle=is_bundle,
            targets=targets,
            contract_port=contract_port,
        )
    except ValueError as cause:
        raise InvalidRequest(f"{MINIMUM_ANNOTATION} is above {MAXIMUM_ANNOTATION}") from cause


def scaling_fault(annotations: Mapping[str, object]) -> str:
    """Return what is wrong with annotations of scaling, empty if nothing is; others are not looked at."""
    try:
        read_scaling({key: str(text) for key, text in annotations.items() if key in SCALING_ANNOTATIONS})
    except InvalidRequest as error:
        return error.message
    return ""


def _read_word(annotations: Mapping[str, str], name: str, words: tuple[str, str]) -> bool:
    """Return whether an annotation is the first of two words, which it also is if it is absent."""
    text = annotations.get(name, words[0])
    if text not in words:
        raise InvalidRequest(f"{name} is {text[:40]!r}; write {' or '.join(words)}")
    return text == words[0]


def _read_port(text: str) -> int:
    """Return a port, 0 for none."""
    if not (text.isascii() and text.isdecimal()) or len(text) > len(str(_MOST_PORT)) or int(text) > _MOST_PORT:
        raise InvalidRequest(f"{CONTRACT_PORT_ANNOTATION} is {text[:40]!r}; write a port, 1 to {_MOST_PORT}")
    return int(text)


def read_targets(text: str, defaults: Targets | None = None) -> Targets:
    """Return how full a pod should be, as the annotation says it.

    Args:
        text: The annotation, empty if there is none.
        defaults: What counts where nothing is said; ours if None.

    Raises:
        InvalidRequest: It cannot be read.
    """
    ratios: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        name, _, number = (word.strip() for word in part.partition("="))
        try:
            ratios[_TARGETS[name]] = ratio = float(number)
        except (KeyError, ValueError) as cause:
            wanted = ", ".join(f"{one}=..." for one in _TARGETS)
            raise InvalidRequest(f"{TARGETS_ANNOTATION} is {text[:80]!r}; write {wanted} with parts of 1") from cause
        if not 0 < ratio <= 1:
            raise InvalidRequest(f"{TARGETS_ANNOTATION}: the target of {name} must be above 0 and at most 1")
    return replace(defaults or Targets(), **ratios)


def read_amounts(annotation: str, text: str) -> tuple[int, ...]:
    """Return amounts by resource of SCALED, written as `cpu=250m,memory=1Gi`; a semicolon does, too, where commas part.

    Args:
        annotation: What the text is, for the error.
        text: The amounts.

    Raises:
        InvalidRequest: A resource is missing, stands twice or is none that pods are resized in, or has no quantity.
    """
    amounts: dict[str, int] = {}
    for part in text.replace(";", ",").split(","):
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
