"""Values of settings: from what a flag, a variable or a file says to the type of a field, and to what JSON has."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, Union

__all__ = ["convert", "plain"]

_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_FALSE: Final = frozenset({"0", "false", "no", "off"})


def convert(value: object, kind: Any) -> object:  # noqa: ANN401 - a type form, as typing gives it
    """Return what a flag, a variable or a file says as a value of a field's type.

    Raises:
        TypeError: It is none; the message says what it should be.
        ValueError: So too.
    """
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in {Union, types.UnionType}:
        if value is None or (isinstance(value, str) and value.lower() in {"", "none", "null"}):
            return None
        return convert(value, next(argument for argument in arguments if argument is not type(None)))
    if origin is Literal:
        if value not in arguments:
            raise ValueError("one of " + ", ".join(str(argument) for argument in arguments))
        return value
    if origin is Mapping:
        return _convert_mapping(value, arguments[1])
    if origin is tuple:
        items = value.split(",") if isinstance(value, str) else value
        if not isinstance(items, (list, tuple)):
            raise TypeError("a list")
        return tuple(
            convert(item.strip() if isinstance(item, str) else item, arguments[0]) for item in items if item != ""
        )
    return _convert_plain(value, kind)


def _convert_mapping(value: object, kind: Any) -> dict[str, object]:  # noqa: ANN401 - a type, as typing gives it
    """Return a mapping, from one or from `name=value,name=value`."""
    if isinstance(value, str):
        pairs = [part.partition("=") for part in value.split(",") if part.strip()]
        if not all(name.strip() and equals for name, equals, _ in pairs):
            raise ValueError("of the form name=value,name=value")
        value = {name.strip(): text.strip() for name, _, text in pairs}
    if not isinstance(value, Mapping):
        raise TypeError("a mapping")
    return {str(name): convert(inner, kind) for name, inner in value.items()}


def _convert_plain(value: object, kind: Any) -> object:  # noqa: ANN401 - a type, as typing gives it
    if kind is bool:
        if isinstance(value, bool):
            return value
        word = str(value).lower()
        if word not in _TRUE | _FALSE:
            raise ValueError("true or false")
        return word in _TRUE
    if kind in {int, float}:
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise ValueError("a number")
        if kind is int:
            return _whole(value)
        try:
            number = float(value)
        except ValueError as cause:
            raise ValueError("a number") from cause
        if number != number or number in {float("inf"), float("-inf")}:  # noqa: PLR0124 - NaN
            raise ValueError("a finite number")
        return number
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        raise TypeError("a text")
    return Path(str(value)).expanduser() if kind is Path else str(value)


def _whole(value: str | float) -> int:
    try:
        number = int(value.replace("_", "")) if isinstance(value, str) else int(value)
    except (ValueError, OverflowError) as cause:
        raise ValueError("a whole number") from cause
    if isinstance(value, float) and number != value:
        raise ValueError("a whole number")
    return number


def plain(value: object) -> object:
    """Return a value as JSON has it."""
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
