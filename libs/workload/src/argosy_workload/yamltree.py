"""YAML as a tree that remembers where everything stood.

The usual loaders forget line and column, take `no` for false, let aliases blow a file up to any size, and overflow the
stack on deep nesting. This one reads the event stream: scalars stay text, aliases, tags and repeated keys are refused,
and depth is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn, TypeAlias

import yaml

from argosy_workload.tracefile import refuse

__all__ = ["MAX_DEPTH", "Tree", "YamlNode", "parse_yaml"]

MAX_DEPTH: Final = 16
"""Deepest nesting that is read."""

Tree: TypeAlias = "str | list[YamlNode] | dict[str, YamlNode]"
"""A scalar's text, a list, or a mapping."""


@dataclass(slots=True)
class YamlNode:
    """One value with its place."""

    value: Tree
    """What stands there."""
    path: Path
    """The file."""
    line: int
    """Line from 1."""
    column: int
    """Column from 1."""
    quoted: bool = False
    """The scalar stood in quotes (so an empty one was meant)."""

    def refuse(self, what: str) -> NoReturn:
        """Raise InvalidRequest about this place."""
        refuse(self.path, what, line=self.line, column=self.column)

    def mapping(self, what: str) -> dict[str, YamlNode]:
        """Return the value as a mapping, or refuse it."""
        if not isinstance(self.value, dict):
            self.refuse(f"{what} must be a mapping (name: value)")
        return self.value

    def sequence(self, what: str) -> list[YamlNode]:
        """Return the value as a list, or refuse it."""
        if not isinstance(self.value, list):
            self.refuse(f"{what} must be a list (lines that begin with -)")
        return self.value

    def text(self, what: str) -> str:
        """Return the value as text, or refuse it."""
        if not isinstance(self.value, str) or (not self.value and not self.quoted):
            self.refuse(f"{what} must be a text")
        return self.value


def parse_yaml(path: Path, text: str) -> YamlNode:
    """Return the one document of a YAML text.

    Raises:
        InvalidRequest: It is no YAML, uses what is not allowed here, or holds no or several documents.

    Complexity: O(length), about 10 us a scalar.
    """
    try:
        return _build(path, yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except yaml.MarkedYAMLError as cause:
        mark = cause.problem_mark or cause.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
        refuse(path, f"not YAML: {cause.problem or cause.context}", line=line, column=column)
    except yaml.reader.ReaderError as cause:
        line = text.count("\n", 0, cause.position) + 1 if isinstance(cause.position, int) else None
        refuse(path, f"not YAML: {cause.reason}", line=line)


def _build(path: Path, events: Iterator[yaml.Event]) -> YamlNode:
    """Return the tree of an event stream, without recursion."""
    roots: list[YamlNode] = []
    stack: list[tuple[YamlNode, list[YamlNode]]] = []
    for event in events:
        line, column = (event.start_mark.line + 1, event.start_mark.column + 1) if event.start_mark else (1, 1)
        if isinstance(event, yaml.AliasEvent):
            refuse(path, "aliases (*name) are not read here", line=line, column=column)
        if isinstance(event, yaml.CollectionEndEvent):
            node, children = stack.pop()
            node.value = children if isinstance(node.value, list) else _pairs(children)
            continue
        if not isinstance(event, yaml.NodeEvent):
            continue
        node = YamlNode("", path, line, column)
        (stack[-1][1] if stack else roots).append(node)
        if isinstance(event, yaml.ScalarEvent):
            node.value, node.quoted = event.value, event.style in {"'", '"'}
            continue
        node.value = [] if isinstance(event, yaml.SequenceStartEvent) else {}
        stack.append((node, []))
        if len(stack) > MAX_DEPTH:
            node.refuse(f"nested deeper than {MAX_DEPTH} levels")
    if len(roots) != 1:
        refuse(path, f"one YAML document expected, {len(roots)} found", line=1)
    return roots[0]


def _pairs(children: list[YamlNode]) -> dict[str, YamlNode]:
    """Return keys and values that stood in turn as a mapping."""
    mapping: dict[str, YamlNode] = {}
    for key, value in zip(children[::2], children[1::2], strict=True):
        name = key.text("a key")
        if name in mapping:
            key.refuse(f"the key {name[:60]!r} stands twice in one mapping")
        mapping[name] = value
    return mapping
