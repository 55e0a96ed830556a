"""Kubernetes label selectors as text: what they say, or what is wrong with them.

Grammar: requirements joined by commas, each of `key`, `!key`, `key=value`, `key==value`, `key!=value`,
`key in (a, b)`, `key notin (a, b)`.

Source: design section 9, "Kubernetes conventions"; `proto/argosy/api/v1/job.proto`, "JobSelector".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from argosy_core.errors import FieldViolation, InvalidRequest
from argosy_core.job.reading.findings import is_label_key, is_label_value
from argosy_store.replicas.job_filters import LabelRequirement

__all__ = ["has_labels", "parse_label_selector"]

_MAX_REQUIREMENTS: Final = 32
_REQUIREMENT: Final = re.compile(
    r"\s*(?:(?P<absent>!)\s*(?P<absent_key>[^\s,!=()]+)"
    r"|(?P<set_key>[^\s,!=()]+)\s+(?P<set_operator>in|notin)\s*\((?P<values>[^()]*)\)"
    r"|(?P<key>[^\s,!=()]+)\s*(?:(?P<operator>==|=|!=)\s*(?P<value>[^\s,!=()]*))?)\s*(?P<end>,|$)"
)


def parse_label_selector(text: str, *, field: str) -> tuple[LabelRequirement, ...]:
    """Return the requirements of a selector; none for empty text.

    Args:
        text: The selector.
        field: Path of the field, for the error.

    Raises:
        InvalidRequest: It is no selector; says where.
    """
    requirements: list[LabelRequirement] = []
    position = 0
    if not text.strip():
        return ()
    while True:
        match = _REQUIREMENT.match(text, position)
        if match is None:
            raise _wrong(field, f"cannot be read from character {position + 1} on: {text[position : position + 40]!r}")
        requirements.append(_requirement(match, field))
        if len(requirements) > _MAX_REQUIREMENTS:
            raise _wrong(field, f"has more than {_MAX_REQUIREMENTS} requirements")
        position = match.end()
        if not match["end"]:
            return tuple(requirements)


def has_labels(requirements: Sequence[LabelRequirement], labels: Mapping[str, str]) -> bool:
    """Return whether labels meet all requirements."""
    for requirement in requirements:
        value = labels.get(requirement.key)
        if requirement.operator == "In":
            met = value in requirement.values
        elif requirement.operator == "NotIn":
            met = value not in requirement.values
        else:
            met = (value is not None) is (requirement.operator == "Exists")
        if not met:
            return False
    return True


def _requirement(match: re.Match[str], field: str) -> LabelRequirement:
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: tuple[str, ...] = ()
    if match["absent"]:
        key, operator = match["absent_key"], "DoesNotExist"
    elif match["set_operator"]:
        key, operator = match["set_key"], ("In" if match["set_operator"] == "in" else "NotIn")
        values = tuple(sorted({value.strip() for value in match["values"].split(",")}))
    elif match["operator"]:
        key, operator = match["key"], ("NotIn" if match["operator"] == "!=" else "In")
        values = (match["value"],)
    else:
        key, operator = match["key"], "Exists"
    if not is_label_key(key):
        raise _wrong(field, f"{key[:80]!r} is no label key")
    for value in values:
        if not is_label_value(value):
            raise _wrong(field, f"{value[:80]!r} is no label value")
    return LabelRequirement(key=key, operator=operator, values=values)


def _wrong(field: str, description: str) -> InvalidRequest:
    return InvalidRequest(
        "the label selector is wrong", violations=(FieldViolation(field=field, description=description),)
    )
