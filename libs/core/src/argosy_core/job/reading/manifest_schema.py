"""Strict reading of manifests: every field is one that its kind has, and has the type that it has there.

A cluster drops fields that it does not know without a word, so `nodeSelecter` would place a job anywhere. The fields
are those of one release of Kubernetes, as data (`manifest_schema_data`); what newer releases add passes by asking for
warnings instead of refusals. Custom resources are their owners' to check.

Source: design section 9.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from argosy_core.job.reading.findings import Findings

__all__ = ["check_fields", "is_plain_env", "is_text_list"]

_Check = Callable[[Any, str, Findings], None]
_MOST_SHOWN: Final = 12
_SURELY_MEANT: Final = 0.75
"""Likeness from which a slip of the finger is likelier than another word."""
_LEAST_SHORT: Final = 3
"""Letters of a field that may be the begin of what was typed."""
_QUANTITY_FIELDS: Final = frozenset({"limits", "requests"})
_WITHOUT_UNIT: Final = re.compile(r"[0-9]{1,6}(?:\.[0-9]*)?")
_UNIT_NEEDED: Final = frozenset({"memory", "ephemeral-storage"})


def check_fields(document: Mapping[str, Any], kind: str, path: str, findings: Findings) -> None:
    """Note each field of an object that its kind does not have, or that has another type, or that is missing.

    Args:
        document: The object, as parsed.
        kind: One of `kinds.KINDS`.
        path: Its path, for what is noted.
        findings: Takes the faults; what is allowed and probably not meant, as warnings.

    Complexity: linear in the document; measured 15 us for a small pod.
    """
    _types()[kind](document, path, findings)


def is_text_list(value: object) -> bool:
    """Return whether a value is a list of texts, as args and command are."""
    return type(value) is list and all(type(item) is str for item in value)


def is_plain_env(value: object) -> bool:
    """Return whether a value is surely a right list of environment variables."""
    if type(value) is not list:
        return False
    for item in value:
        if type(item) is not dict or type(item.get("name")) is not str:
            return False
        if len(item) == 1 or (len(item) == 2 and type(item.get("value")) is str):
            continue
        findings = Findings()
        _types()["EnvVar"](item, "", findings)
        if findings.violations:
            return False
    return True


@dataclass(slots=True)
class _Object:
    """Checks an object of a type."""

    fields: dict[str, _Check] = field(default_factory=dict)
    needed: list[str] = field(default_factory=list)

    def __call__(self, value: object, path: str, findings: Findings) -> None:
        if not isinstance(value, dict):
            findings.add(path, f"must be an object, not {_kind_text(value)}")
            return
        fields = self.fields
        for key, inner in value.items():
            check = fields.get(key)
            if check is None:
                findings.add(f"{path}.{key[:80]}", f"is no field of this object; {self._hint(key)}")
            elif inner is not None:  # Kubernetes takes null for not given
                check(inner, f"{path}.{key}", findings)
        for key in self.needed:
            if value.get(key) is None:
                findings.add(f"{path}.{key}", "is missing")

    def _hint(self, key: str) -> str:
        names = sorted(self.fields)
        by_letters = {name.lower(): name for name in names}
        typed = key[:80].lower()
        # A field written out, as `enviroment` for env, is nearer than one that only shares its letters.
        short = [name for name in by_letters if len(name) >= _LEAST_SHORT and typed.startswith(name)]
        near = (
            difflib.get_close_matches(typed, by_letters, n=1, cutoff=_SURELY_MEANT)
            or sorted(short, key=len)[-1:]
            or difflib.get_close_matches(typed, by_letters, n=1)
        )
        if near:
            return f"did you mean {by_letters[near[0]]}?"
        more = ", ..." if len(names) > _MOST_SHOWN else ""
        return f"there are {', '.join(names[:_MOST_SHOWN])}{more}"


@dataclass(frozen=True, slots=True)
class _List:
    """Checks a list."""

    item: _Check
    key: str

    def __call__(self, value: object, path: str, findings: Findings) -> None:
        if not isinstance(value, list):
            what = f'; write ["{value}"]' if isinstance(value, str) and self.item is _text and len(value) < 60 else ""
            findings.add(path, f"must be a list, not {_kind_text(value)}{what}")
            return
        for index, item in enumerate(value):
            self.item(item, f"{path}[{index}]", findings)
        if self.key and len(value) > 1:
            self._compare(value, path, findings)

    def _compare(self, value: list[Any], path: str, findings: Findings) -> None:
        first: dict[str, int] = {}
        for index, item in enumerate(value):
            name = item.get(self.key) if isinstance(item, dict) else None
            if isinstance(name, str) and first.setdefault(name, index) != index:
                findings.add(f"{path}[{index}].{self.key}", f"is {name[:80]!r}, as that of {path}[{first[name]}]")


@dataclass(frozen=True, slots=True)
class _Mapping:
    """Checks a mapping of names to values of one type."""

    item: _Check

    def __call__(self, value: object, path: str, findings: Findings) -> None:
        if not isinstance(value, dict):
            findings.add(path, f"must be a mapping, not {_kind_text(value)}")
            return
        for key, inner in value.items():
            self.item(inner, f"{path}.{key[:80]}", findings)


@dataclass(frozen=True, slots=True)
class _Choice:
    """Checks a text of which there are only some."""

    values: frozenset[str]

    def __call__(self, value: object, path: str, findings: Findings) -> None:
        if not isinstance(value, str):
            findings.add(path, f"must be a text, not {_kind_text(value)}")
        elif value and value not in self.values:
            findings.add(path, f"is {value[:60]!r}; it may be {', '.join(sorted(self.values))}")


def _anything(value: object, path: str, findings: Findings) -> None:
    """Note nothing."""


def _text(value: object, path: str, findings: Findings) -> None:
    if not isinstance(value, str):
        findings.add(path, f"must be a text, not {_kind_text(value)}; quote it")


def _number(value: object, path: str, findings: Findings) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        findings.add(path, f"must be a number, not {_kind_text(value)}")


def _whole_number(value: object, path: str, findings: Findings) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        findings.add(path, f"must be a whole number, not {_kind_text(value)}")


def _truth(value: object, path: str, findings: Findings) -> None:
    if not isinstance(value, bool):
        findings.add(path, f"must be true or false, not {_kind_text(value)}")


def _number_or_text(value: object, path: str, findings: Findings) -> None:
    if isinstance(value, bool) or not isinstance(value, int | str):
        findings.add(path, f"must be a whole number or a text, not {_kind_text(value)}")


def _quantity(value: object, path: str, findings: Findings) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        findings.add(path, f"must be a quantity, as 500m, 2 or 1.5Gi, not {_kind_text(value)}")
        return
    head, _, resource = path.rpartition(".")
    if resource in _UNIT_NEEDED and head.rpartition(".")[2] in _QUANTITY_FIELDS:
        text = str(value)
        if text.endswith("m"):
            findings.warn(path, f"{text[:40]} is thousandths of a byte; {text[:-1][:40]}Mi are mebibytes")
        elif _WITHOUT_UNIT.fullmatch(text) and float(text):
            findings.warn(path, f"{text[:40]} has no unit, so it is bytes; {text[:40]}Mi are mebibytes")


_SCALARS: Final[dict[str, _Check]] = {
    "any": _anything,
    "bool": _truth,
    "int": _whole_number,
    "intstr": _number_or_text,
    "num": _number,
    "quantity": _quantity,
    "str": _text,
}


@cache
def _types() -> dict[str, _Object]:
    """Return what checks each type, by name."""
    from argosy_core.job.reading.manifest_schema_data import SCHEMA  # late: only who reads manifests needs it

    types: dict[str, _Object] = {}
    for line in SCHEMA.replace("\n ", " ").splitlines():
        name, *fields = line.split(" ")
        made = types.setdefault(name, _Object())
        for text in fields:
            key, _, kind = text.partition(":")
            made.fields[key] = _check_of(kind.rstrip("!"), types)
            if kind.endswith("!"):
                made.needed.append(key)
    return types


def _check_of(kind: str, types: dict[str, _Object]) -> _Check:
    """Return what checks a type, as the data writes it."""
    if kind.startswith("["):
        item, _, key = kind[1:-1].partition("/")
        return _List(_check_of(item, types), key)
    if kind.startswith("{"):
        return _Mapping(_check_of(kind[1:-1], types))
    if kind.startswith("="):
        return _Choice(frozenset(kind[1:].split("|")))
    return _SCALARS[kind] if kind in _SCALARS else types.setdefault(kind, _Object())


def _kind_text(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    return "a text" if isinstance(value, str) else "a list" if isinstance(value, list) else "an object"
