"""Recipes: what the simulated cluster has to know of an object, read once per distinct bag.

A recipe is (kind, request, run time, exit code, start delay, namespace). Thousands of bags that differ only in names
or commands share one recipe, so a pod costs an index.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.kinds import kind_name
from argosy_core.job.reading.requests import effective_request
from argosy_core.job.reading.scaling import QUEUE_ANNOTATION
from argosy_core.job.reading.stop_note import STOP_AFTER_ANNOTATION
from argosy_core.resources import parse_quantity
from argosy_kube.port import (
    EXIT_CODE_ANNOTATION,
    POD_KIND,
    RUN_TIME_ANNOTATION,
    START_DELAY_ANNOTATION,
    Int32Array,
    Int64Array,
)
from argosy_kube.simulated.sizes import scaling_notes
from argosy_kube.tables import RequestTable, TextTable, grow_rows

__all__ = ["RecipeCache", "parse_span"]

_CACHED_BAGS = 20_000
_KEPT_RECIPES = 50_000
_DURATION = re.compile(r"^(\d{1,12}(?:\.\d{1,9})?)(us|ms|s|m|h|d)?$")
_UNIT_US = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
_DEFAULT_RUN_TIME = "1s"


class _Resources(msgspec.Struct):
    requests: dict[str, str | int | float] = {}
    limits: dict[str, str | int | float] = {}


class _Container(msgspec.Struct, rename="camel"):
    resources: _Resources = msgspec.field(default_factory=_Resources)
    restart_policy: str = ""


class _PodSpec(msgspec.Struct, rename="camel"):
    containers: list[_Container] = []
    init_containers: list[_Container] = []


class _Metadata(msgspec.Struct):
    annotations: dict[str, str] = {}
    namespace: str = "default"


class _Manifest(msgspec.Struct, rename="camel"):
    kind: str
    api_version: str = ""
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: msgspec.Raw = msgspec.Raw(b"{}")


class _Additions(msgspec.Struct):
    annotations: dict[str, str] = {}


_BAG = msgspec.json.Decoder(list[_Manifest])
_POD_SPEC = msgspec.json.Decoder(_PodSpec)
_ADDITIONS = msgspec.json.Decoder(_Additions)


@dataclass(frozen=True, slots=True)
class _Recipe:
    kind: int
    request: int
    exit_code: int
    namespace: int
    run_from_us: int
    run_to_us: int
    delay_from_us: int
    delay_to_us: int


def _duration_us(text: str) -> int:
    match = _DURATION.match(text.strip())
    if match is None:
        msg = f"{text[:40]!r} is not a duration; write a number and a unit, as 250ms, 30s or 2h"
        raise InvalidRequest(msg)
    return round(float(match[1]) * _UNIT_US[match[2] or "s"])


def parse_span(text: str) -> tuple[int, int]:
    """Return a stated or drawn time, as `30s` or `20s-40s`, as (least, most) in microseconds.

    Raises:
        InvalidRequest: The text is neither.
    """
    first, dash, second = text.partition("-")
    least = _duration_us(first)
    most = _duration_us(second) if dash else least
    if most < least:
        msg = f"{text[:40]!r} ends before it begins"
        raise InvalidRequest(msg)
    return least, most


def _exit_code(text: str) -> int:
    if not text.isdecimal() or int(text) > 255:
        msg = f"{text[:40]!r} is not an exit code; write a number from 0 to 255"
        raise InvalidRequest(msg)
    return int(text)


def _amounts(container: _Container) -> dict[str, int]:
    stated = {**container.resources.limits, **container.resources.requests}
    return {name: parse_quantity(name, str(quantity)) for name, quantity in stated.items()}


def _pod_request(spec: _PodSpec) -> dict[str, int]:
    """Return what a pod asks for; nothing is asked for by a pod as a whole here, and there is no overhead."""
    return effective_request(
        [_amounts(container) for container in spec.containers],
        [(_amounts(container), container.restart_policy == "Always") for container in spec.init_containers],
        whole={},
        whole_limit={},
        overhead={},
    )


class RecipeCache:
    """Recipes by bag, object and metadata, with a bounded memory of bags; columns by recipe index."""

    def __init__(self, requests: RequestTable, kinds: TextTable, texts: TextTable) -> None:
        """Start empty; recipes point into these tables."""
        self._requests = requests
        self._kinds = kinds
        self._texts = texts
        self._by_value: dict[_Recipe, int] = {}
        self._by_source: dict[tuple[bytes, int, bytes], int | str] = {}
        self._values: list[_Recipe] = []
        self.columns: Int32Array = np.zeros((0, 4), dtype=np.int32)
        """(recipes, 4): kind, request, exit code, namespace."""
        self.times_us: Int64Array = np.zeros((0, 4), dtype=np.int64)
        """(recipes, 4): run time from, to, start delay from, to."""
        self.has_delay = False
        """Some recipe has a start delay."""
        self.has_scaled = False
        """Pods of some recipe are scaled."""

    def trim(self) -> None:
        """Forget recipes if there are very many; call it when no recipe index is in use."""
        if len(self._by_value) > _KEPT_RECIPES:
            self._by_value.clear()
            self._values.clear()
            self._by_source.clear()

    def find(self, bag: bytes, position: int, metadata: bytes) -> int | str:
        """Return the recipe of the object at a position of a bag, or why the cluster rejects it."""
        key = (bag, position, metadata)
        found = self._by_source.get(key)
        if found is None:
            if len(self._by_source) >= _CACHED_BAGS:
                self._by_source.clear()
            try:
                found = self._intern(self._read(bag, position, metadata))
            except (InvalidRequest, msgspec.DecodeError, IndexError) as error:
                found = f"object {position} of the bag is not valid: {error}"
            self._by_source[key] = found
        return found

    def for_queue(self, recipe: int, queue: str) -> int:
        """Return the recipe of a queue's pod: the same one, unless its pods are scaled."""
        value = self._values[recipe]
        notes = self._requests.notes.get(value.request, ())
        if not notes:
            return recipe
        row = self._requests.variant(value.request, {}, (*notes, (QUEUE_ANNOTATION, queue)))
        return self._intern(replace(value, request=row))

    def unmanaged_pod(self, amounts: dict[str, int]) -> int:
        """Return the recipe of an unmanaged pod that asks for these amounts and never ends."""
        endless = 1 << 60
        request = self._requests.intern(amounts)
        return self._intern(_Recipe(0, request, 0, self._texts.intern("kube-system"), endless, endless, 0, 0))

    def _read(self, bag: bytes, position: int, metadata: bytes) -> _Recipe:
        manifest = _BAG.decode(bag)[position]
        namespace = self._texts.intern(manifest.metadata.namespace)
        name = kind_name(manifest.kind, manifest.api_version)
        kind = self._kinds.intern(name)
        if name != POD_KIND:
            return _Recipe(kind, -1, 0, namespace, 0, 0, 0, 0)
        notes = manifest.metadata.annotations
        if metadata:
            notes = {**notes, **_ADDITIONS.decode(metadata).annotations}
        spec = _POD_SPEC.decode(manifest.spec)
        run_us = parse_span(notes.get(RUN_TIME_ANNOTATION, _DEFAULT_RUN_TIME))
        delay_us = parse_span(notes.get(START_DELAY_ANNOTATION, "0s"))
        exit_code = _exit_code(notes.get(EXIT_CODE_ANNOTATION, "0"))
        stop_after = notes.get(STOP_AFTER_ANNOTATION)
        kept = (*scaling_notes(notes), *([(STOP_AFTER_ANNOTATION, stop_after)] if stop_after else ()))
        request = self._requests.intern(_pod_request(spec), kept)
        return _Recipe(kind, request, exit_code, namespace, *run_us, *delay_us)

    def _intern(self, recipe: _Recipe) -> int:
        index = self._by_value.get(recipe)
        if index is None:
            index = self._by_value[recipe] = len(self._values)
            self._values.append(recipe)
            rows = index + 1
            self.columns, self.times_us = grow_rows(self.columns, rows), grow_rows(self.times_us, rows)
            self.columns[index] = (recipe.kind, recipe.request, recipe.exit_code, recipe.namespace)
            self.times_us[index] = (recipe.run_from_us, recipe.run_to_us, recipe.delay_from_us, recipe.delay_to_us)
            self.has_delay = self.has_delay or recipe.delay_to_us > 0
            self.has_scaled = self.has_scaled or recipe.request in self._requests.notes
        return index
