"""Parameter sweeps: documents with `{{NAME}}` in them, submitted once for each combination of values.

Values come from options as `lr=0.1,0.2` and `seed=1..5`, or from the rows of a CSV file with a heading. Text is put in
place before it is read as YAML or JSON, so a variable may stand anywhere, and a line keeps its number.

Source: design section 9.
"""

from __future__ import annotations

import csv
import difflib
import io
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from argosy_client.batches import MAX_JOB_COUNT
from argosy_client.documents import DocumentOptions, parse_documents
from argosy_client.values import JobDraft
from argosy_core.errors import InvalidRequest

__all__ = ["read_sweeps", "sweep_documents"]

_VARIABLE: Final = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RANGE: Final = re.compile(r"(-?\d{1,12})\.\.(-?\d{1,12})(?::(\d{1,12}))?")
_LABEL: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_MOST: Final = 10_000
"""Combinations; as many as an array may have indices."""


def read_sweeps(texts: Sequence[str]) -> list[dict[str, str]]:
    """Return all combinations of the values that sweeps name, the last one's values changing fastest.

    Args:
        texts: Each `NAME=VALUE,VALUE`, `NAME=FIRST..LAST[:STEP]`, or the path of a CSV file, whose rows stay together.

    Raises:
        InvalidRequest: One is none of these, a variable is given twice, or there are more than 10,000 combinations.
    """
    axes = [_axis(text) for text in texts]
    names = [name for axis in axes for name in axis[0]]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise InvalidRequest(f"--sweep gives {min(twice)} twice")
    count = 1
    for axis in axes:
        count *= len(axis)
    if count > _MOST:
        raise InvalidRequest(f"--sweep makes {count:,} combinations, at most {_MOST:,} are allowed")
    return [{name: value for row in rows for name, value in row.items()} for rows in itertools.product(*axes)]


def sweep_documents(
    text: str, *, source: str, options: DocumentOptions, combinations: Sequence[Mapping[str, str]]
) -> tuple[JobDraft, ...]:
    """Return the drafts of a text for each combination of values, labelled with them where labels can say them.

    A client id that no variable makes distinct gets the number of its combination.

    Raises:
        InvalidRequest: A variable of the text has no value, or none stands where a value is given; or as of
            `parse_documents`.
    """
    used, given = {match[1] for match in _VARIABLE.finditer(text)}, set(combinations[0])
    if used - given:
        name = min(used - given)
        line = text[: next(match.start() for match in _VARIABLE.finditer(text) if match[1] == name)].count("\n") + 1
        raise InvalidRequest(f"{source}:{line}: {{{{{name}}}}} has no value; --sweep {name}=... gives some")
    if given - used:
        name = min(given - used)
        near = difflib.get_close_matches(name, used, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise InvalidRequest(f"{source}: nothing says {{{{{name}}}}}, of which --sweep gives values{hint}")
    drafts: list[JobDraft] = []
    seen: set[tuple[str, str]] = set()
    for number, values in enumerate(combinations):
        filled = _VARIABLE.sub(lambda match, values=values: values[match[1]], text)  # type: ignore[misc]
        labels = {f"sweep.{name}": value for name, value in values.items() if _LABEL.fullmatch(value)}
        for draft in parse_documents(filled, source=source, options=options):
            client_id = draft.client_id
            if client_id and (draft.queue, client_id) in seen:
                client_id = f"{client_id}-{number}"
            seen.add((draft.queue, client_id))
            drafts.append(replace(draft, labels={**labels, **draft.labels}, client_id=client_id))
    return tuple(drafts)


def _axis(text: str) -> list[dict[str, str]]:
    """Return what one sweep gives: values by name, one row after another."""
    name, equals, values = text.partition("=")
    if not equals or not _NAME.fullmatch(name):
        return _rows(text)
    found = _RANGE.fullmatch(values)
    if found is None:
        parts = [part.strip() for part in next(csv.reader([values]), [])]
        if not parts or not all(parts):
            raise InvalidRequest(f"--sweep {text[:60]!r} gives an empty value; write NAME=VALUE,VALUE or NAME=1..5")
        return [{name: part} for part in parts]
    first, last, step = int(found[1]), int(found[2]), int(found[3] or 1)
    if last < first or not step or (last - first) // step >= min(_MOST, MAX_JOB_COUNT):
        raise InvalidRequest(f"--sweep {text[:60]!r} is no range of 1 to {_MOST:,} values")
    return [{name: str(value)} for value in range(first, last + 1, step)]


def _rows(path: str) -> list[dict[str, str]]:
    """Return the rows of a CSV file by the names of its heading."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as cause:
        raise InvalidRequest(
            f"--sweep {path[:60]!r} is neither NAME=VALUES nor a file that can be read: "
            f"{getattr(cause, 'strerror', None) or cause}"
        ) from cause
    lines = [line for line in csv.reader(io.StringIO(text)) if line]
    if len(lines) < 2:
        raise InvalidRequest(f"{path}: needs a heading with the names of variables, and a row for each combination")
    names = [name.strip() for name in lines[0]]
    wrong = [name for name in names if not _NAME.fullmatch(name)]
    if wrong or len(set(names)) < len(names):
        raise InvalidRequest(
            f"{path}:1: {wrong[0] if wrong else 'a name twice'} is no name of a variable: letters, digits, _"
        )
    for number, line in enumerate(lines[1:], 2):
        if len(line) != len(names):
            raise InvalidRequest(f"{path}: row {number} has {len(line)} values, the heading has {len(names)} names")
    return [dict(zip(names, (value.strip() for value in line), strict=True)) for line in lines[1:]]
