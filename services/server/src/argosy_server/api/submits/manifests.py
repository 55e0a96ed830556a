"""Manifests as users send them, JSON or YAML, as the JSON that everything behind the API reads.

Source: `proto/argosy/api/v1/job.proto`, "JobSpec".
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from argosy_core.errors import FieldViolation, InvalidRequest
from argosy_core.job.reading.pod_groups import PodGroup

__all__ = ["is_json", "to_json"]


def is_json(manifest: bytes) -> bool:
    """Return whether a manifest is meant to be JSON: it begins with a brace."""
    return manifest.lstrip()[:1] == b"{"


def to_json(
    manifests: Sequence[bytes], groups: Sequence[PodGroup] = ()
) -> tuple[list[bytes], list[PodGroup], tuple[FieldViolation, ...]]:
    """Return manifests, and groups with their templates, as JSON, those that are JSON as they are; and what is wrong.

    Complexity: about 1 ms for a small pod in YAML; slow enough for a thread.
    """
    converted: list[bytes] = []
    violations: list[FieldViolation] = []
    paths = [f"manifests[{index}]" for index in range(len(manifests))]
    paths += [f"groups[{index}].template" for index in range(len(groups))]
    for path, manifest in zip(paths, [*manifests, *(group.template.encode() for group in groups)], strict=True):
        try:
            converted.append(manifest if is_json(manifest) else _yaml_to_json(manifest))
        except InvalidRequest as error:
            violations.append(FieldViolation(field=path, description=error.message))
    if violations:
        return [], [], tuple(violations)
    templates = converted[len(manifests) :]
    read = [replace(group, template=text.decode()) for group, text in zip(groups, templates, strict=True)]
    return converted[: len(manifests)], read, ()


def _yaml_to_json(manifest: bytes) -> bytes:
    from argosy_client.yaml_nodes import read_yaml  # late: only who gets YAML needs its reader

    documents = list(read_yaml(manifest.decode(), "YAML"))
    if len(documents) != 1:
        raise InvalidRequest(f"holds {len(documents)} YAML documents; give each object a manifest of its own")
    return json.dumps(documents[0].value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "backslashreplace")
