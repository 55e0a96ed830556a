"""Jobs that submit jobs: which job is whose child, and how that is written down.

A job that is an *operator* may have children: jobs that name it as their parent. What they say stands with the labels
and annotations that a job has anyway, under keys that only we write, so lists by label find children, and their pods
carry it, too.

Source: seed 003, "Elasticity and dynamic resource creation".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from argosy_core.errors import InvalidRequest
from argosy_core.job.identity import parse_id

__all__ = [
    "FAMILY_KEYS",
    "MAX_GENERATION",
    "OPERATOR_ANNOTATION",
    "PARENT_LABEL",
    "Parent",
    "family_marks",
    "generation_of",
    "is_operator",
    "parent_of",
    "read_bound_parent",
]

PARENT_LABEL: Final = "argosy.dev/parent"
"""Label of a child: the id of its parent."""
OPERATOR_ANNOTATION: Final = "argosy.dev/operator"
"""Annotation of a job that may have children: `true`."""
_OUTLIVES: Final = "argosy.dev/outlives-parent"
_GENERATION: Final = "argosy.dev/generation"
_MARK: Final = PARENT_LABEL.encode()
FAMILY_KEYS: Final = frozenset({PARENT_LABEL, OPERATOR_ANNOTATION, _OUTLIVES, _GENERATION})
"""Keys of labels and annotations that only we write."""

MAX_GENERATION: Final = 8
"""Most parents above a job: a job that submits itself again and again comes to an end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """Whose child a job is."""

    job_id: str
    """Id of the parent."""
    outlives: bool = False
    """It goes on when its parent has ended; otherwise it is cancelled then."""


def family_marks(
    parent: Parent | None, generation: int, *, may_have_children: bool
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the labels and annotations by which a job's place in its family is known.

    Args:
        parent: Its parent, None for none.
        generation: Number of parents above it.
        may_have_children: Whether it is an operator.
    """
    labels: dict[str, str] = {}
    annotations = {OPERATOR_ANNOTATION: "true"} if may_have_children else {}
    if parent is not None:
        labels[PARENT_LABEL] = parent.job_id.lower()
        annotations[_GENERATION] = str(generation)
        if parent.outlives:
            annotations[_OUTLIVES] = "true"
    return labels, annotations


def parent_of(labels: Mapping[str, str], annotations: Mapping[str, str]) -> Parent | None:
    """Return whose child a job with these labels and annotations is."""
    job_id = labels.get(PARENT_LABEL)
    return None if job_id is None else Parent(job_id=job_id, outlives=_OUTLIVES in annotations)


def is_operator(annotations: Mapping[str, str]) -> bool:
    """Return whether a job with these annotations may have children."""
    return OPERATOR_ANNOTATION in annotations


def generation_of(annotations: Mapping[str, str]) -> int:
    """Return how many parents a job with these annotations has above it."""
    return int(annotations.get(_GENERATION, "0"))


def read_bound_parent(metadata: bytes) -> int | None:
    """Return the handle of the parent with which a job ends, by its metadata as in rows; None if it ends by itself."""
    if _MARK not in metadata:
        return None
    document = json.loads(metadata)
    parent = parent_of(document.get("labels") or {}, document.get("annotations") or {})
    if parent is None or parent.outlives:
        return None
    try:
        return parse_id(parent.job_id)[1]
    except InvalidRequest:
        return None
