"""Manifests as users send them, JSON or YAML, as the JSON that everything behind the API reads.

Source: `proto/argosy/api/v1/job.proto`, "JobSpec".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from argosy_core.errors import FieldViolation, InvalidRequest
from argosy_core.job.reading.pod_groups import PodGroup

__all__ = ["Converted", "is_json", "read_all", "to_json"]

_MAX_ADDED: Final = 50_000  # values that aliases add; without, a text of 256 KiB holds 131,000 at most


def is_json(manifest: bytes) -> bool:
    """Return whether a manifest is meant to be JSON: it begins with a brace."""
    return manifest.lstrip()[:1] == b"{"


def to_json(
    manifests: Sequence[bytes],
    groups: Sequence[PodGroup] = (),
    *,
    read: Callable[[Sequence[str | None]], Sequence[Converted]] | None = None,
) -> tuple[list[bytes], list[PodGroup], tuple[FieldViolation, ...]]:
    """Return manifests, and groups with their templates, as JSON, those that are JSON as they are; and what is wrong.

    Args:
        manifests: Manifests, UTF-8.
        groups: Groups of pods.
        read: Reads YAML; `read_all` if not said.

    Complexity: about 1 ms for a small pod in YAML; slow enough for a thread.
    """
    texts = [*manifests, *(group.template.encode() for group in groups)]
    converted = (read or read_all)([None if is_json(text) else text.decode() for text in texts])
    violations: list[FieldViolation] = []
    for index, one in enumerate(converted):
        if one.fault:
            place = index - len(manifests)
            path = f"manifests[{index}]" if place < 0 else f"groups[{place}].template"
            violations.append(FieldViolation(field=path, description=one.fault))
    if violations:
        return [], [], tuple(violations)
    results = [text if is_json(text) else one.text.encode() for text, one in zip(texts, converted, strict=True)]
    templates = results[len(manifests) :]
    changed = [replace(group, template=text.decode()) for group, text in zip(groups, templates, strict=True)]
    return results[: len(manifests)], changed, ()


class Converted(NamedTuple):
    """A YAML text that was read."""

    text: str = ""
    """What it says, as JSON."""
    fault: str = ""
    """What is wrong with it; then it says nothing."""


def read_all(texts: Sequence[str | None]) -> list[Converted]:
    """Return YAML texts as JSON; nothing of those that are None."""
    return [Converted() if text is None else _read(text) for text in texts]


def _read(text: str) -> Converted:
    from argosy_client.yaml_nodes import read_yaml  # late: only who gets YAML needs its reader

    try:
        documents = list(read_yaml(text, "YAML", max_added=_MAX_ADDED))
    except InvalidRequest as error:
        return Converted(fault=error.message)
    if len(documents) != 1:
        return Converted(fault=f"holds {len(documents)} YAML documents; give each object a manifest of its own")
    value = json.dumps(documents[0].value, separators=(",", ":"), ensure_ascii=False)
    return Converted(value.encode("utf-8", "backslashreplace").decode())
