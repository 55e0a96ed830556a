"""Reading the fields of a document that people wrote: every mistake is noted with its place, and none is raised.

Source: design section 9, "Errors say what was wrong, where, and what to do".
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Mapping
from typing import Final

from argosy_client.durations import parse_duration_s
from argosy_client.places import Place
from argosy_client.yaml_nodes import Value
from argosy_core.errors import FieldViolation, InvalidRequest

__all__ = ["INT32_MAX", "FieldReader", "kind_text", "manifest_text", "parsed"]

INT32_MAX: Final = 2**31 - 1


class FieldReader:
    """Reads fields of one document; what is wrong is answered as if it were not there.

    Args:
        place: Where the document was written.
    """

    def __init__(self, place: Place) -> None:
        """Begin with no mistake."""
        self.violations: list[FieldViolation] = []
        """What is wrong, in the order in which it was found."""
        self.place = place
        """Where the document was written."""

    def fault(self, path: str, what: str) -> None:
        """Note what is wrong with a field, with its place."""
        place = self.place.of(path)
        self.violations.append(
            FieldViolation(field=path, description=f"{place}: {path}: {what}" if path else f"{place}: {what}")
        )

    def named(self, value: Mapping[str, Value], known: Mapping[str, str], what: str, path: str) -> dict[str, Value]:
        """Return the fields of a mapping by our names; those that nobody knows are faults."""
        fields: dict[str, Value] = {}
        for key, inner in value.items():
            if inner is None:  # null is not set, as in the API's JSON
                continue
            name = known.get(key)
            if name is None:
                spellings = tuple(dict.fromkeys(_spelled(name, known) for name in known))
                near = difflib.get_close_matches(key, known, n=1)
                hint = f"; did you mean {_spelled(near[0], known)}?" if near else f"; there are {', '.join(spellings)}"
                self.fault(f"{path}{key}", f"is no field of {what}{hint}")
            elif name in fields:
                self.fault(f"{path}{key}", "is given twice, in two spellings")
            else:
                fields[name] = inner
        return fields

    def text(self, fields: Mapping[str, Value], name: str, *, path: str = "") -> str:
        """Return a text, empty if it is not given."""
        value = fields.get(name, "")
        if isinstance(value, str) and (value or name not in fields):
            return value
        self.fault(path + _camel(name), f"must be a text, not {kind_text(value)}; quote it if it looks like a number")
        return ""

    def number(
        self,
        fields: Mapping[str, Value],
        name: str,
        *,
        default: int,
        least: int,
        most: int = INT32_MAX,
        path: str = "",
    ) -> int:
        """Return a whole number within bounds, or the default."""
        if name not in fields:
            return default
        value = fields[name]
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        shown = f"{value}" if isinstance(value, int) and not isinstance(value, bool) else kind_text(value)
        self.fault(path + _camel(name), f"must be a whole number from {least} to {most}, not {shown}")
        return default

    def flag(self, fields: Mapping[str, Value], name: str, *, path: str = "") -> bool:
        """Return true or false; false if it is not given."""
        value = fields.get(name, False)
        if isinstance(value, bool):
            return value
        self.fault(path + _camel(name), f"must be true or false, not {kind_text(value)}")
        return False

    def duration(self, fields: Mapping[str, Value], name: str, option: int | None, *, path: str = "") -> int | None:
        """Return a duration in whole seconds; an option wins over what the document says."""
        if option is not None or name not in fields:
            return option
        value = fields[name]
        if value == 0 and not isinstance(value, bool):
            return 0
        if not isinstance(value, str):
            what = "a number needs its unit" if kind_text(value) == "a number" else f"not {kind_text(value)}"
            self.fault(path + _camel(name), f"must be a duration, as 90s, 1h30m or 7d; {what}")
            return None
        try:
            return parse_duration_s(value)
        except InvalidRequest as error:
            self.fault(path + _camel(name), error.message)
            return None

    def texts(self, fields: Mapping[str, Value], name: str) -> dict[str, str]:
        """Return a mapping of texts, empty if it is not given."""
        value = fields.get(name, {})
        if not isinstance(value, dict):
            self.fault(name, f"must be a mapping of texts, not {kind_text(value)}")
            return {}
        texts = {}
        for key, text in value.items():
            if isinstance(text, str):
                texts[key] = text
            else:
                self.fault(f"{name}.{key}", f"must be a text, not {kind_text(text)}; quote it")
        return texts


def parsed(manifest: str) -> Value:
    """Return what a manifest says that stands as JSON text, as in the API's own JSON; as it is if it is none."""
    try:
        found: Value = json.loads(manifest)
    except ValueError:
        return manifest
    return found


def manifest_text(manifest: Value) -> str:
    """Return a manifest as JSON text."""
    text = json.dumps(manifest, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace").decode()  # half of a surrogate pair is no text


def _camel(name: str) -> str:
    """Return how a field of ours is spelled in documents."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def _spelled(name: str, known: Collection[str]) -> str:
    """Return how people are told to spell a field: as the API's JSON has it, where both spellings are known."""
    return camel if (camel := _camel(name)) in known else name


def kind_text(value: Value) -> str:
    """Return what kind of value something is, for people."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    return {str: "a text", list: "a list", dict: "a mapping"}[type(value)] if value != "" else "empty"
