"""YAML and JSON as plain values that remember their lines.

Kubernetes manifests are JSON values, so whatever JSON cannot say is refused: keys that are no text, dates become their
text, sets and binaries are errors. Unlike the plain loader, a key given twice is an error, and documents that grow
without bound through aliases are stopped.

Source: design section 9, "Errors say what was wrong, where, and what to do".
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final

import yaml

from argosy_client.places import Positions
from argosy_core.errors import InvalidRequest

__all__ = ["Document", "Value", "read_json", "read_yaml"]

Value = dict[str, "Value"] | list["Value"] | str | int | float | bool | None
"""A JSON value."""

_MAX_ADDED: Final = 1_000_000
_CHARACTERS_A_VALUE: Final = 4
_MAX_DEPTH: Final = 64
_MAX_SCALAR_CHARACTERS: Final = 4300  # digits beyond which Python refuses to make an int
_TAG: Final = "tag:yaml.org,2002:"
_SPACE: Final = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One document of a file."""

    value: Value
    """What it says."""
    number: int
    """Which of the file's documents it is, from 1."""
    positions: Callable[[], Positions]
    """Gives where each value stands; the value of a key stands where its key does."""


def read_yaml(text: str, source: str, *, max_added: int = _MAX_ADDED) -> Iterator[Document]:
    """Yield the documents of a YAML text; empty ones are left out.

    Args:
        text: The text.
        source: Name of the file, for errors.
        max_added: Values that aliases may add to a document, beside as many as the text has characters; of characters
            four times as many.

    Raises:
        InvalidRequest: The text is not YAML, or says what JSON cannot say; names file and line.
    """
    loader_type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader = loader_type(text)
    try:
        _check_depth(yaml.parse(text, Loader=loader_type), source)
        number = 0
        while loader.check_node():
            node: Any = loader.get_node()
            number += 1
            reading = _Reading(source=source, number=number, loader=loader, length=len(text), added=max_added)
            value = reading.value_of(node, "", 0)
            if isinstance(value, list):  # documents as a command prints several
                for index, item in enumerate(value):
                    yield Document(
                        value=item,
                        number=number + index,
                        positions=partial(_below, partial(_known, reading.positions), f"[{index}]"),
                    )
                number += max(len(value) - 1, 0)
            elif value is not None:
                yield Document(value=value, number=number, positions=partial(_known, reading.positions))
    except yaml.YAMLError as cause:
        mark = getattr(cause, "problem_mark", None)
        place = f"{source}:{mark.line + 1}:{mark.column + 1}" if mark else source
        problem = getattr(cause, "problem", None) or str(cause)
        raise InvalidRequest(f"{place}: not YAML: {problem}") from cause
    except RecursionError as cause:
        raise InvalidRequest(f"{source}: nested deeper than {_MAX_DEPTH} levels") from cause
    finally:
        loader.dispose()


def _check_depth(events: Iterator[yaml.Event], source: str) -> None:
    """Do nothing if nothing is nested too deeply: composing recurses in C, where that ends the process.

    Raises:
        InvalidRequest: Something is.
    """
    depth = 0
    for event in events:
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _MAX_DEPTH:
                line = event.start_mark.line + 1 if event.start_mark else 0
                raise InvalidRequest(f"{source}:{line}: nested deeper than {_MAX_DEPTH} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def read_json(text: str, source: str) -> Iterator[Document]:
    """Yield the documents of a JSON text: one value, one after another (as in JSON lines), or an array of them.

    Raises:
        InvalidRequest: The text is not JSON; names file, line and column.
    """
    decoder = json.JSONDecoder(object_pairs_hook=_unique_keys, parse_constant=_no_constant)
    position, number = _skip_space(text, 0), 0
    while position < len(text):
        line, begin = text.count("\n", 0, position) + 1, position
        try:
            value, position = decoder.raw_decode(text, position)
        except json.JSONDecodeError as cause:
            raise InvalidRequest(f"{source}:{cause.lineno}:{cause.colno}: not JSON: {cause.msg}") from cause
        except ValueError as cause:
            raise InvalidRequest(f"{source}:{line}: {cause}") from cause
        except RecursionError as cause:
            raise InvalidRequest(f"{source}:{line}: nested too deeply") from cause
        positions = cache(partial(_json_positions, text, begin, position))
        for index, item in enumerate(value if isinstance(value, list) else [value]):
            number += 1
            prefix = f"[{index}]" if isinstance(value, list) else ""
            yield Document(value=item, number=number, positions=partial(_below, positions, prefix))
        position = _skip_space(text, position)


class _Reading:
    """Turns the nodes of one document into values."""

    def __init__(self, *, source: str, number: int, loader: yaml.SafeLoader, length: int, added: int) -> None:
        self._max_count = length + added
        self._max_characters = length + _CHARACTERS_A_VALUE * added
        self.positions: dict[str, tuple[int, int]] = {}
        self._source = source
        self._number = number
        self._loader = loader
        self._count = 0
        self._characters = 0

    def value_of(self, node: yaml.Node, path: str, depth: int) -> Value:
        self.positions.setdefault(path, _position(node))
        self._count += 1
        if self._count > self._max_count:
            raise self._error(node, f"holds more than {self._max_count:,} values once its aliases are followed")
        if depth > _MAX_DEPTH:
            raise self._error(node, f"is nested deeper than {_MAX_DEPTH} levels")
        if isinstance(node, yaml.MappingNode):
            return self._mapping_of(node, path, depth)
        if isinstance(node, yaml.SequenceNode):
            if node.tag != _TAG + "seq":
                raise self._error(node, f"{path or 'the document'} has the tag {node.tag}, which JSON has no word for")
            return [self.value_of(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(node.value)]
        return self._scalar_of(node, path)

    def _mapping_of(self, node: yaml.MappingNode, path: str, depth: int) -> Value:
        if node.tag != _TAG + "map":
            raise self._error(node, f"{path or 'the document'} has the tag {node.tag}, which JSON has no word for")
        mapping: dict[str, Value] = {}
        merged: dict[str, Value] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _TAG + "merge":
                merged = self._merged_of(value_node, path, depth) | merged
                continue
            key = self._key_of(key_node)
            inner = f"{path}.{key}" if path else key
            if key in mapping:
                raise self._error(key_node, f"key {key!r} is given twice (first on line {self.positions[inner][0]})")
            self.positions[inner] = _position(key_node)
            self._take(key_node)
            mapping[key] = self.value_of(value_node, inner, depth + 1)
        return merged | mapping

    def _merged_of(self, node: yaml.Node, path: str, depth: int) -> dict[str, Value]:
        merged: dict[str, Value] = {}
        for part in reversed(node.value) if isinstance(node, yaml.SequenceNode) else [node]:
            value = self.value_of(part, path, depth + 1)
            if not isinstance(value, dict):
                raise self._error(part, "only a mapping can be merged with <<")
            merged |= value
        return merged

    def _key_of(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode) or node.tag == _TAG + "null":
            raise self._error(node, "a key must be a text")
        return str(node.value)

    def _take(self, node: yaml.Node) -> None:
        self._characters += len(node.value)
        if self._characters > self._max_characters:
            raise self._error(
                node, f"holds more than {self._max_characters:,} characters once its aliases are followed"
            )

    def _scalar_of(self, node: yaml.Node, path: str) -> Value:
        self._take(node)
        kind = node.tag.removeprefix(_TAG)
        text = str(node.value)
        if kind in {"str", "timestamp", "value"}:
            return text
        if kind not in {"int", "float", "bool", "null"}:
            raise self._error(node, f"{path or 'the document'} has the tag {node.tag}, which JSON has no word for")
        if len(text) > _MAX_SCALAR_CHARACTERS:
            raise self._error(node, f"{path or 'the document'} is a number of {len(text):,} digits")
        try:
            value: Value = self._loader.construct_object(node)
        except (ValueError, yaml.YAMLError) as cause:
            raise self._error(node, f"{text!r} is no {kind}") from cause
        if isinstance(value, float) and not math.isfinite(value):
            raise self._error(node, f"{path or 'the document'} is {text}, which JSON has no word for")
        return value

    def _error(self, node: yaml.Node, what: str) -> InvalidRequest:
        mark = node.start_mark
        return InvalidRequest(f"{self._source}:{mark.line + 1}:{mark.column + 1}: document {self._number}: {what}")


def _position(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _known(positions: Positions) -> Positions:
    return positions


def _below(positions: Callable[[], Positions], prefix: str) -> Positions:
    """Return the positions of one element of an array, by paths that begin at it."""
    found = {}
    for path, position in positions().items():
        if path == prefix or path.startswith((f"{prefix}.", f"{prefix}[")) or not prefix:
            found[path[len(prefix) :].removeprefix(".")] = position
    return found


def _json_positions(text: str, begin: int, end: int) -> Positions:
    """Return where the values of a JSON text from `begin` to `end` stand; of one that is no YAML, its begin alone."""
    first_line = text.count("\n", 0, begin)
    first_column = begin - (text.rfind("\n", 0, begin) + 1)
    start = (first_line + 1, first_column + 1)
    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text[begin:end])
        node: Any = loader.get_single_node()
        reading = _Reading(source="", number=0, loader=loader, length=end - begin, added=_MAX_ADDED)
        reading.value_of(node, "", 0)
    except (yaml.YAMLError, InvalidRequest, RecursionError):
        return {"": start}
    return {
        path: (line + first_line, column + (first_column if line == 1 else 0))
        for path, (line, column) in reading.positions.items()
    }


def _unique_keys(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"key {next(name for name in names if names.count(name) > 1)!r} is given twice")
    return mapping


def _no_constant(text: str) -> Value:
    raise ValueError(f"{text} is not JSON")


def _skip_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position
