"""Which kinds of objects a bag may hold, and what each is called.

Pods and a few kinds beside them are known here. Any other kind is a custom resource: its group is one that somebody
added to the cluster, so only the cluster can say whether there is such a kind, and its rights say whether we may make
one. Groups of Kubernetes itself hold what would reach beyond a job (roles, webhooks, nodes, workloads that make pods of
their own), so they are refused as a whole.

Source: design section 3 ("A spec is a bag of Kubernetes objects").
"""

from __future__ import annotations

import re
from typing import Final

from argosy_core.job.reading.findings import Findings, is_dns_label, is_dns_name

__all__ = ["KINDS", "POD", "check_kind", "group_of", "is_custom_group", "kind_name", "kind_of_group"]

POD: Final = "Pod"
KINDS: Final[dict[str, str]] = {
    POD: "v1",
    "ConfigMap": "v1",
    "Ingress": "networking.k8s.io/v1",
    "PersistentVolumeClaim": "v1",
    "Secret": "v1",
    "Service": "v1",
}
"""Kinds that every cluster has and a bag may hold, and the apiVersion of each."""
_KIND_FORM: Final = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
_RESERVED: Final = ".k8s.io"


def group_of(api_version: str) -> str:
    """Return the group of an apiVersion, empty for the core's."""
    return api_version.rpartition("/")[0]


def is_custom_group(group: str) -> bool:
    """Return whether a group is none of Kubernetes' own: those have no dot, or belong to k8s.io."""
    return "." in group and not group.endswith(_RESERVED) and is_dns_name(group)


def kind_name(kind: str, api_version: str) -> str:
    """Return what a kind is called in layouts, rows and messages: `Pod`, or `Widget.example.test` for custom resources.

    The version is no part of it: an object is the same in all versions of its group.
    """
    group = group_of(api_version)
    return f"{kind}.{group}" if group and KINDS.get(kind) != api_version else kind


def kind_of_group(kind: str, group: str) -> str:
    """Return what `kind_name` does where only the group is known, as in references that name kind and group."""
    return f"{kind}.{group}" if group and group_of(KINDS.get(kind, "")) != group else kind


def check_kind(kind: object, api_version: object, path: str, findings: Findings) -> str | None:
    """Return the name of a manifest's kind, or None if no bag may hold it.

    Args:
        kind: As in the manifest.
        api_version: As in the manifest.
        path: Where the manifest stands.
        findings: Takes what is wrong.
    """
    group = group_of(api_version) if isinstance(api_version, str) else ""
    if isinstance(kind, str) and isinstance(api_version, str) and is_custom_group(group):
        if not _KIND_FORM.fullmatch(kind):
            findings.add(f"{path}.kind", "must be a kind as Kubernetes writes it: an upper-case letter, then letters")
            return None
        if not is_dns_label(api_version.rpartition("/")[2]):
            findings.add(f"{path}.apiVersion", "must be GROUP/VERSION, as example.com/v1")
            return None
        return kind_name(kind, api_version)
    if not isinstance(kind, str) or kind not in KINDS:
        findings.add(
            f"{path}.kind",
            f"{str(kind)[:60]!r} is not allowed in a job; use one of {', '.join(sorted(KINDS))}, or a custom resource "
            "of the cluster with an apiVersion as example.com/v1",
        )
        return None
    if api_version != KINDS[kind]:
        findings.add(f"{path}.apiVersion", f"must be {KINDS[kind]} for a {kind}")
    return kind
