"""Reading fields of parsed JSON that may be anything, noting all that is wrong on the way.

A reader never stops at the first fault: it notes a violation with the path of the field and goes on with an empty value
of the right type, so that one pass lists everything that is wrong.

Source: design section 5, "Submit": "with every bad item listed".
"""

from __future__ import annotations

import re
from typing import Any, Final

from argosy_core.errors import FieldViolation

__all__ = [
    "MAX_FINDING_COUNT",
    "Findings",
    "is_dns_label",
    "is_dns_name",
    "is_label_key",
    "is_label_value",
    "printable",
]

MAX_FINDING_COUNT: Final = 100
"""Violations noted per bag; a hostile bag could have one per byte."""

_DNS_LABEL: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_DNS_NAME: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_LABEL_NAME: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


class Findings:
    """The violations found so far in one bag, and what is allowed and probably not meant."""

    __slots__ = ("violations", "warnings")

    def __init__(self) -> None:
        """Begin with none."""
        self.violations: list[FieldViolation] = []
        self.warnings: list[FieldViolation] = []

    def add(self, path: str, description: str) -> None:
        """Note one violation, unless there are too many already."""
        if len(self.violations) < MAX_FINDING_COUNT:
            self.violations.append(FieldViolation(field=path, description=description))

    def warn(self, path: str, description: str) -> None:
        """Note what is allowed and probably not meant, unless there is too much already."""
        if len(self.warnings) < MAX_FINDING_COUNT:
            self.warnings.append(FieldViolation(field=path, description=description))

    def mapping(self, value: object, path: str) -> dict[str, Any]:
        """Return the value if it is an object; absent (None) is empty, anything else is noted and empty."""
        if isinstance(value, dict):
            return value
        if value is not None:
            self.add(path, "must be an object")
        return {}

    def items(self, value: object, path: str) -> list[Any]:
        """Return the value if it is an array; absent (None) is empty, anything else is noted and empty."""
        if isinstance(value, list):
            return value
        if value is not None:
            self.add(path, "must be an array")
        return []

    def mappings(self, value: object, path: str) -> list[dict[str, Any]]:
        """Return the value if it is an array of objects; elements that are not are noted and empty."""
        found = self.items(value, path)
        for item in found:
            if not isinstance(item, dict):
                return [self.mapping(one, f"{path}[{index}]") for index, one in enumerate(found)]
        return found

    def text(self, value: object, path: str) -> str:
        """Return the value if it is a string; absent (None) is empty, anything else is noted and empty."""
        if isinstance(value, str):
            return value
        if value is not None:
            self.add(path, "must be a string")
        return ""


def printable(text: str) -> str:
    """Return a text for logs and terminals: control and direction characters, and what is no UTF-8, become spaces."""
    return text if text.isprintable() else "".join(sign if sign.isprintable() else " " for sign in text)


def is_dns_label(text: str) -> bool:
    """Return whether a text is an RFC 1123 label: at most 63 of a-z, 0-9 and '-', not at the ends."""
    return _DNS_LABEL.fullmatch(text) is not None


def is_dns_name(text: str) -> bool:
    """Return whether a text is an RFC 1123 subdomain: labels joined by '.', at most 253 characters."""
    return len(text) <= 253 and _DNS_NAME.fullmatch(text) is not None


def is_label_key(text: str) -> bool:
    """Return whether a text can be the key of a Kubernetes label or annotation."""
    prefix, slash, name = text.rpartition("/")
    return _LABEL_NAME.fullmatch(name) is not None and (not slash or is_dns_name(prefix))


def is_label_value(text: str) -> bool:
    """Return whether a text can be the value of a Kubernetes label."""
    return not text or _LABEL_NAME.fullmatch(text) is not None
