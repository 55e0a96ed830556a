"""Faults of a request, told by the options that were typed in place of the fields that commands made of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from argosy_core.errors import ArgosyError, FieldViolation

__all__ = ["name_options"]

_ITEM: Final = re.compile(r"items\[\d+\]\.(\w+)")
_MANIFEST: Final = re.compile(r"specs\[\d+\]\.(?:manifests|groups)(?:\[\d+\]\.?)?")
_POD_FIELDS: Final = (
    (re.compile(r"\.image$"), "image"),
    (re.compile(r"\.env\b"), "variables"),
    (re.compile(r"resources\.\w+\.cpu$"), "cpu"),
    (re.compile(r"resources\.\w+\.memory$"), "mem"),
    (re.compile(r"resources\.\w+\.nvidia\.com/gpu$"), "gpu"),
    (re.compile(r"metadata\.name$"), "name"),
)
"""Fields of a manifest that one option fills, by the name of that in `argosy_cli.commands.run`."""


def name_options(error: ArgosyError, options: Mapping[str, str]) -> ArgosyError:
    """Return an error with options in place of fields; the error itself if it names none of the request.

    What an option was put into several times is told once.

    Args:
        error: What a server said of a submit.
        options: Options, as `--queue`, by the field of an item or by the option's name in `argosy_cli.commands.run`.
    """
    if not error.violations or not all(
        _ITEM.match(one.field) or _MANIFEST.match(one.field) for one in error.violations
    ):
        return error
    found = dict.fromkeys((_typed(one.field, options), one.description) for one in error.violations)
    violations = tuple(FieldViolation(field=field, description=text) for field, text in found)
    first = violations[0]
    message = (
        f"{first.field}: {first.description}"
        if len(violations) == 1
        else f"nothing was submitted because of {len(violations)} faults"
    )
    return type(error)(
        message,
        violations=violations,
        reason=error.reason,
        resource=error.resource,
        retry_delay_s=error.retry_delay_s,
    )


def _typed(field: str, options: Mapping[str, str]) -> str:
    """Return the option that a field comes from, else what of the job it is."""
    item = _ITEM.match(field)
    if item is not None:
        return options.get(item[1], item[1].replace("_", " "))
    rest = _MANIFEST.sub("", field, count=1)
    known = next((name for pattern, name in _POD_FIELDS if pattern.search(rest)), "")
    return options.get(known, rest or "the job")
