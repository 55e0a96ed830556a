"""Texts below dataclass fields, read from the source: one place says what a setting means.

Source: CONTRIBUTING.md, "Docstrings".
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
import types
import typing
from typing import Any, Literal, Union

__all__ = ["field_texts", "type_text"]


def field_texts(kind: type[Any]) -> dict[str, str]:
    """Return the text of each field of a dataclass: `metadata["help"]`, or the string below it in the source.

    Bases are searched too. A field without either, and every field where no source is to be had, is left out.
    """
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if dataclasses.is_dataclass(base):
            texts.update(_strings_below_fields(base))
    for field in dataclasses.fields(kind):
        if "help" in field.metadata:
            texts[field.name] = field.metadata["help"]
    return texts


def type_text(kind: Any) -> str:  # noqa: ANN401 - a type form, as typing gives it
    """Return a type as the placeholder of a flag's value."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in {Union, types.UnionType}:
        return type_text(next(argument for argument in arguments if argument is not type(None)))
    if origin is Literal:
        return "|".join(str(argument) for argument in arguments)
    if origin is tuple:
        return f"{type_text(arguments[0])},..."
    return {bool: "[true|false]", int: "N", float: "X", str: "TEXT"}.get(kind, "PATH")


def _strings_below_fields(kind: type[Any]) -> dict[str, str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    except (OSError, TypeError, SyntaxError):
        return {}
    definition = tree.body[0]
    texts: dict[str, str] = {}
    name = ""
    for statement in definition.body if isinstance(definition, ast.ClassDef) else ():
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name = statement.target.id
        elif name and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            if isinstance(statement.value.value, str):
                texts[name] = " ".join(inspect.cleandoc(statement.value.value).split())
            name = ""
        else:
            name = ""
    return texts
