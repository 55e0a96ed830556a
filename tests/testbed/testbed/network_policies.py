"""Who may talk to whom, by the network policies among some manifests.

An API server takes any policy, and nothing here enforces one; so what a policy means is worked out from its text, as
far as policies of ours go: ingress, pods of one namespace, ports by number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

__all__ = ["is_admitted", "pod_labels"]

_TEMPLATED: Final = frozenset({"Deployment", "Job"})


def pod_labels(documents: Iterable[Mapping[str, Any] | None]) -> dict[str, dict[str, str]]:
    """Return the labels of the pods that each deployment and job makes, by its name."""
    return {
        document["metadata"]["name"]: dict(document["spec"]["template"]["metadata"]["labels"])
        for document in documents
        if document and document["kind"] in _TEMPLATED
    }


def is_admitted(
    policies: Iterable[Mapping[str, Any]], source: Mapping[str, str], target: Mapping[str, str], port: int
) -> bool:
    """Return whether a pod may dial another one of its namespace.

    Args:
        policies: Network policies of the namespace.
        source: Labels of the pod that dials.
        target: Labels of the pod that is dialled.
        port: Port of the latter.
    """
    selecting = [policy["spec"] for policy in policies if _matches(policy["spec"]["podSelector"], target)]
    rules = [rule for spec in selecting for rule in spec.get("ingress", ())]
    return not selecting or any(_lets_in(rule, source, port) for rule in rules)


def _lets_in(rule: Mapping[str, Any], source: Mapping[str, str], port: int) -> bool:
    peers = rule.get("from")
    known = peers is None or any(
        "namespaceSelector" not in peer and _matches(peer["podSelector"], source) for peer in peers
    )
    ports = rule.get("ports")
    return known and (ports is None or any(entry["port"] == port for entry in ports))


def _matches(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    wanted = selector.get("matchLabels", {})
    expressions = selector.get("matchExpressions", ())
    if any(expression["operator"] != "In" for expression in expressions):
        raise NotImplementedError(f"no policy of ours says {expressions}")
    return all(labels.get(name) == value for name, value in wanted.items()) and all(
        labels.get(expression["key"]) in expression["values"] for expression in expressions
    )
