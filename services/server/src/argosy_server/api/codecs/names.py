"""Names that users give: what they may look like.

A name is shown in terminals, logs and pages and stands in labels and texts, so it is printable ASCII without anything
that could lead out of its place: no spaces, quotes, control or direction characters, no `..` segments.

Source: design section 9, "Errors".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from argosy_core.errors import FieldViolation, InvalidRequest
from argosy_core.job.reading.findings import is_label_key, is_label_value, printable
from argosy_core.job.reading.policy import is_reserved_key
from argosy_core.job.reading.scaling import SCALING_ANNOTATIONS, scaling_fault

__all__ = ["ANY_INSTALLATION", "NAME_RULE", "QUEUE_NAME_RULE", "NamespaceRules", "amount_texts", "is_name",
           "is_queue_name", "is_reserved_namespace", "metadata_faults"]  # fmt: skip

NAME_RULE: Final = (
    "must begin with a letter or digit and hold only letters, digits and -_.:/@+=#, with no '..' between slashes"
)
"""Rule for job sets and client ids, for errors."""
QUEUE_NAME_RULE: Final = "must be a lower-case DNS label: a-z, 0-9 and '-', at most 63, not '-' at the ends"
"""Rule for queue names, for errors."""

_NAME: Final = re.compile(r"[A-Za-z0-9](?!.*(?:^|/)\.\.?(?:/|$))[A-Za-z0-9\-_.:/@+=#]*")
_QUEUE_NAME: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_MAX_ANNOTATION_BYTES: Final = 256 << 10  # of all annotations of an object together, as in Kubernetes


def is_name(text: str) -> bool:
    """Return whether a text can be the name of a job set or a client id; lengths are checked elsewhere."""
    return _NAME.fullmatch(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceRules:
    """Which namespaces an installation gives to queues."""

    shares_default: bool = True
    """Whether queues that name no namespaces may use `default`."""
    reserved: frozenset[str] = frozenset()
    """Namespaces of the installation, which no queue may use."""


ANY_INSTALLATION: Final = NamespaceRules()
"""What holds where nothing is said."""


def is_reserved_namespace(name: str, ours: Collection[str] = ()) -> bool:
    """Return whether a namespace is the clusters' own, or ours, where credentials of services are.

    Args:
        name: Namespace.
        ours: Where this installation is, besides `argosy`.
    """
    return name.startswith("kube-") or name == "argosy" or name in ours


def is_queue_name(text: str) -> bool:
    """Return whether a text can be the name of a queue."""
    return _QUEUE_NAME.fullmatch(text) is not None


def metadata_faults(labels: Mapping[str, str], annotations: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield (path, what is wrong) for labels and annotations of a job that Kubernetes or Argosy would not take."""
    for key, value in labels.items():
        if is_reserved_key(key):
            yield f"labels[{key[:80]!r}]", "the prefix argosy.dev/ is reserved"
        elif not is_label_key(key):
            yield f"labels[{key[:80]!r}]", "is no label key: [prefix/]name, the name at most 63 of A-Za-z0-9-_."
        elif not is_label_value(value):
            yield (
                f"labels[{key[:80]!r}]",
                "the value must be empty or at most 63 of A-Za-z0-9-_., alphanumeric at the ends",
            )
    yield from _annotation_faults(annotations)


def _annotation_faults(annotations: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    size = 0
    for key, value in annotations.items():
        size += len(key) + len(value.encode())
        if is_reserved_key(key) and key not in SCALING_ANNOTATIONS:
            yield f"annotations[{key[:80]!r}]", "the prefix argosy.dev/ is reserved"
        elif not is_label_key(key):
            yield (
                f"annotations[{key[:80]!r}]",
                "is no annotation key: [prefix/]name, the name at most 63 of A-Za-z0-9-_.",
            )
        elif "\x00" in value:
            yield f"annotations[{key[:80]!r}]", "must not hold NUL characters"
    if not annotations.keys().isdisjoint(SCALING_ANNOTATIONS) and (fault := scaling_fault(annotations)):
        yield "annotations", fault
    if size > _MAX_ANNOTATION_BYTES:
        yield "annotations", f"have {size} bytes together, at most {_MAX_ANNOTATION_BYTES} are allowed"


def amount_texts(amounts: Mapping[str, int], *, field: str) -> list[str]:
    """Return amounts as they are stored.

    Raises:
        InvalidRequest: A resource's name is none.
    """
    for name in amounts:
        if not name.isascii() or not name.isprintable() or set(name) & set(" =,"):
            violation = FieldViolation(field=field, description=f"{printable(name)!r} is no name of a resource")
            raise InvalidRequest("one field is wrong in the request", violations=(violation,))
    return sorted(f"{name}={amount}" for name, amount in amounts.items())
