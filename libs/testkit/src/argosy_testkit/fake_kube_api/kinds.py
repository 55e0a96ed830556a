"""Which kinds the fake API server has, and what it tells a client that discovers them."""

from __future__ import annotations

from typing import Final

from argosy_testkit.fake_kube_api.store import Document

__all__ = ["CUSTOM_GROUP", "KINDS", "group_list", "resource_list"]

CUSTOM_GROUP: Final = "example.test"
"""Group of the custom resources: `Widget`, and `Gadget`, whose objects are in no namespace."""
KINDS: Final = {
    "v1": {
        "configmaps": "ConfigMap",
        "events": "Event",
        "namespaces": "Namespace",
        "nodes": "Node",
        "persistentvolumeclaims": "PersistentVolumeClaim",
        "pods": "Pod",
        "secrets": "Secret",
        "services": "Service",
    },
    "networking.k8s.io/v1": {"ingresses": "Ingress"},
    "node.k8s.io/v1": {"runtimeclasses": "RuntimeClass"},
    f"{CUSTOM_GROUP}/v1": {"gadgets": "Gadget", "widgets": "Widget"},
}
"""Kinds by API version and plural."""
_VERBS: Final = ["create", "delete", "get", "list", "patch", "watch"]
_UNNAMESPACED: Final = frozenset({"gadgets", "namespaces", "nodes", "runtimeclasses"})


def group_list() -> Document:
    """Return the named groups, each with its only version."""
    groups = [version for version in KINDS if "/" in version]
    named = [{"name": v.split("/")[0], "preferredVersion": {"groupVersion": v}} for v in groups]
    return {"groups": named}


def resource_list(api_version: str) -> Document:
    """Return the kinds of an API version, as a client discovers them."""
    entries = [
        {"name": plural, "kind": kind, "namespaced": plural not in _UNNAMESPACED, "verbs": _VERBS}
        for plural, kind in KINDS[api_version].items()
    ]
    return {"kind": "APIResourceList", "groupVersion": api_version, "resources": entries}
