"""Manifests as users send them, JSON or YAML, as the JSON that everything behind the API reads.

Source: `proto/argosy/api/v1/job.proto`, "JobSpec".
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from argosy_core.errors import FieldViolation, InvalidRequest

__all__ = ["is_json", "to_json"]


def is_json(manifest: bytes) -> bool:
    """Return whether a manifest is meant to be JSON: it begins with a brace."""
    return manifest.lstrip()[:1] == b"{"


def to_json(manifests: Sequence[bytes]) -> tuple[list[bytes], tuple[FieldViolation, ...]]:
    """Return manifests as JSON, those that are JSON as they are; and what is wrong with those that are YAML.

    Complexity: about 1 ms for a small pod in YAML; slow enough for a thread.
    """
    converted: list[bytes] = []
    violations: list[FieldViolation] = []
    for index, manifest in enumerate(manifests):
        try:
            converted.append(manifest if is_json(manifest) else _yaml_to_json(manifest))
        except InvalidRequest as error:
            violations.append(FieldViolation(field=f"manifests[{index}]", description=error.message))
    return converted, tuple(violations)


def _yaml_to_json(manifest: bytes) -> bytes:
    from argosy_client.yaml_nodes import read_yaml  # late: only who gets YAML needs its reader

    documents = list(read_yaml(manifest.decode(), "YAML"))
    if len(documents) != 1:
        raise InvalidRequest(f"holds {len(documents)} YAML documents; give each object a manifest of its own")
    return json.dumps(documents[0].value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "backslashreplace")
