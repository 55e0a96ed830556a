"""Kinds of simulated nodes as short text: `8:cpu=32,memory=128Gi;2:cpu=96,memory=512Gi,gpu=8,label:model=A100`.

::

    KINDS = KIND ; KIND ...
    KIND  = COUNT : PART , PART ...
    PART  = RESOURCE=QUANTITY | label:KEY=VALUE | taint:KEY[=VALUE]:EFFECT

`gpu` stands for `nvidia.com/gpu`. A kind has cpu and memory; what it does not name, nodes do not have.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from argosy_core.errors import InvalidRequest
from argosy_core.nodes import Taint
from argosy_core.resources import CPU, MEMORY, PODS, parse_quantity

__all__ = ["DEFAULT_POD_COUNT", "NodeKind", "parse_node_kinds"]

DEFAULT_POD_COUNT: Final = 110
"""Pods per node where nothing is said, as kubelets have it."""
_MAX_NODES: Final = 1_000_000
_SHORT_NAMES: Final[Mapping[str, str]] = {"gpu": "nvidia.com/gpu"}
_NATIVE: Final = (CPU, MEMORY, "ephemeral-storage", PODS)
_OTHER_WORDS: Final[Mapping[str, str]] = {"cores": CPU, "core": CPU, "cpus": CPU, "mem": MEMORY, "ram": MEMORY}
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeKind:
    """So many nodes that are alike."""

    count: int
    """How many, 1 to 1,000,000."""
    allocatable: Mapping[str, int]
    """Amounts in base units by resource, `pods` among them."""
    labels: Mapping[str, str]
    """Labels beside those that every kubelet sets."""
    taints: tuple[Taint, ...]
    """Taints."""


def parse_node_kinds(text: str) -> tuple[NodeKind, ...]:
    """Return the kinds of nodes that a text describes.

    Raises:
        InvalidRequest: The text has another form; the message says which part, and what would be right.
    """
    kinds = tuple(_parse_kind(part.strip()) for part in text.split(";"))
    if (count := sum(kind.count for kind in kinds)) > _MAX_NODES:
        raise InvalidRequest(f"{text[:80]!r} are {count:,} nodes; {_MAX_NODES:,} are the most")
    return kinds


def _parse_kind(text: str) -> NodeKind:
    count, colon, rest = text.partition(":")
    if not colon or not count.isdecimal() or not 1 <= int(count) <= _MAX_NODES:
        raise InvalidRequest(
            f"{text[:80]!r} is not COUNT:RESOURCE=QUANTITY,... with 1 to {_MAX_NODES} nodes, as 25:cpu=32,memory=128Gi"
        )
    amounts: dict[str, int] = {}
    labels: dict[str, str] = {}
    taints: list[Taint] = []
    for part in (each.strip() for each in rest.split(",")):
        if part.startswith("label:"):
            key, equals, value = part.removeprefix("label:").partition("=")
            if not key or not equals:
                raise InvalidRequest(f"{part!r} is not label:KEY=VALUE, as label:rack=r7")
            labels[key] = value
        elif part.startswith("taint:"):
            taints.append(_parse_taint(part))
        else:
            name, amount = _parse_amount(part)
            if name in amounts:
                raise InvalidRequest(f"{name} stands twice in {text[:80]!r}")
            amounts[name] = amount
    for name, example in ((CPU, "cpu=32"), (MEMORY, "memory=128Gi")):
        if not amounts.get(name):
            raise InvalidRequest(f"{text[:80]!r} says no {name}; add for example {example}")
    return NodeKind(
        count=int(count), allocatable={PODS: DEFAULT_POD_COUNT, **amounts}, labels=labels, taints=tuple(taints)
    )


def _parse_amount(part: str) -> tuple[str, int]:
    """Return (resource, base units) of `RESOURCE=QUANTITY`."""
    word, equals, quantity = part.partition("=")
    if not equals or not word:
        raise InvalidRequest(f"{part!r} is not RESOURCE=QUANTITY, as cpu=32")
    name = _SHORT_NAMES.get(word, word)
    if "/" not in name and name not in _NATIVE and not name.startswith("hugepages-"):
        near = _OTHER_WORDS.get(name.lower()) or next(iter(difflib.get_close_matches(name, (*_NATIVE, "gpu"), 1)), "")
        hint = f"; did you mean {near}?" if near else "; devices have a domain, as example.com/device"
        raise InvalidRequest(f"{word!r} in {part!r} is no resource of a node{hint}")
    try:
        return name, parse_quantity(name, quantity)
    except InvalidRequest as cause:
        plain = quantity.removesuffix("B")
        hint = f"; did you mean {plain} or {plain}i?" if plain != quantity and plain[:-1].isdecimal() else ""
        raise InvalidRequest(f"{cause}{hint}") from cause


def _parse_taint(part: str) -> Taint:
    """Return the taint of `taint:KEY[=VALUE]:EFFECT`."""
    pair, _, effect = part.removeprefix("taint:").rpartition(":")
    key, _, value = pair.partition("=")
    if not key or effect not in _EFFECTS:
        near = next(iter(difflib.get_close_matches(effect, _EFFECTS, 1)), "")
        hint = f"; did you mean {near}?" if near and near != effect else ""
        raise InvalidRequest(f"{part!r} is not taint:KEY=VALUE:EFFECT with one of {', '.join(_EFFECTS)}{hint}")
    return Taint(key, value, effect)
