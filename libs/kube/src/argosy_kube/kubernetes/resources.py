"""Kinds of objects and where an API server keeps them, found by asking it once.

Source: design section 5, "Sync" (bags of any objects).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import msgspec

from argosy_core.job.spec import KINDS
from argosy_kube.kubernetes.answers import ApiFailure, decode
from argosy_kube.kubernetes.pacing import Priority
from argosy_kube.kubernetes.transport import ApiServer

__all__ = ["BUILT_IN", "NODES", "PODS", "Resource", "ResourceBook"]

_BUILT_IN_PLURALS: Final = {
    "Pod": "pods",
    "ConfigMap": "configmaps",
    "Ingress": "ingresses",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "Secret": "secrets",
    "Service": "services",
}
_NEEDED_VERBS: Final = frozenset({"create", "delete", "list", "watch"})
_MISSING: Final = 404


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of objects."""

    kind: str
    """As in manifests."""
    api_version: str
    """As in manifests: `v1` or `group/version`."""
    plural: str
    """As in paths."""
    is_namespaced: bool = True
    """Its objects are in namespaces."""

    @property
    def group(self) -> str:
        """API group, empty for the core."""
        return self.api_version.rpartition("/")[0]

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the path of all objects, those of a namespace, one, or a subresource of one."""
        root = "/apis/" if "/" in self.api_version else "/api/"
        parts = [root + self.api_version]
        if namespace and self.is_namespaced:
            parts.append(f"namespaces/{quote(namespace, safe='')}")
        parts.append(self.plural)
        parts += [quote(part, safe="") for part in (name, subresource) if part]
        return "/".join(parts)


PODS: Final = Resource("Pod", "v1", "pods")
NODES: Final = Resource("Node", "v1", "nodes", is_namespaced=False)
BUILT_IN: Final = {kind: Resource(kind, KINDS[kind], plural) for kind, plural in _BUILT_IN_PLURALS.items()}
"""Kinds that every API server has."""


class _ApiResource(msgspec.Struct, rename="camel"):
    name: str = ""
    kind: str = ""
    namespaced: bool = False
    verbs: list[str] = []


class _ResourceList(msgspec.Struct, rename="camel"):
    group_version: str = ""
    resources: list[_ApiResource] = []


class _Version(msgspec.Struct, rename="camel"):
    group_version: str = ""


class _Group(msgspec.Struct, rename="camel"):
    name: str = ""
    preferred_version: _Version = msgspec.field(default_factory=_Version)


class _GroupList(msgspec.Struct):
    groups: list[_Group] = []


_RESOURCES: Final = msgspec.json.Decoder(_ResourceList)
_GROUPS: Final = msgspec.json.Decoder(_GroupList)


class ResourceBook:
    """What is known of kinds; custom ones are asked for when they are first needed.

    Args:
        server: Whom to ask.
    """

    def __init__(self, server: ApiServer) -> None:
        """Know what every API server has."""
        self._server = server
        self._known: dict[tuple[str, str], Resource] = {
            (resource.kind, resource.api_version): resource for resource in (*BUILT_IN.values(), NODES)
        }

    async def find(self, kind: str, api_version: str) -> Resource | None:
        """Return the resource of a manifest's kind, or None if the API server has none such.

        Args:
            kind: As in the manifest.
            api_version: As in the manifest; empty for the usual one of a built-in kind.

        Raises:
            ApiFailure: The API server did not answer.
        """
        if not api_version and kind in BUILT_IN:
            return BUILT_IN[kind]
        found = self._known.get((kind, api_version))
        if found is None and api_version:
            for resource in await self._read(api_version):
                self._known.setdefault((resource.kind, resource.api_version), resource)
            found = self._known.get((kind, api_version))
        return found

    async def find_named(self, names: Iterable[str]) -> list[Resource]:
        """Return the resources of names as `Kind.group`; those that the API server lacks are left out.

        Raises:
            ApiFailure: The API server did not answer.
        """
        wanted = {(kind, group) for kind, dot, group in (name.partition(".") for name in names) if dot}
        groups = {group for _, group in wanted}
        found = await self._custom(groups.__contains__) if groups else []
        return [resource for resource in found if (resource.kind, resource.group) in wanted]

    async def find_custom(self) -> list[Resource]:
        """Return every custom resource that bags could hold.

        Raises:
            ApiFailure: The API server did not answer.
        """
        return await self._custom(lambda name: "." in name and not name.endswith(".k8s.io"))

    async def _custom(self, selects: Callable[[str], bool]) -> list[Resource]:
        groups = decode(_GROUPS, await self._server.call("GET", "/apis", priority=Priority.READ)).groups
        versions = [group.preferred_version.group_version for group in groups if selects(group.name)]
        found = await asyncio.gather(*(self._read(version) for version in versions))
        return [resource for resources in found for resource in resources]

    async def _read(self, api_version: str) -> list[Resource]:
        """Return the resources of a group and version whose objects can be made, listed and watched."""
        root = "/apis/" if "/" in api_version else "/api/"
        path = root + quote(api_version, safe="/")
        try:
            body = await self._server.call("GET", path, priority=Priority.READ)
        except ApiFailure as failure:
            if failure.code == _MISSING:
                return []
            raise
        return [
            Resource(entry.kind, api_version, entry.name, is_namespaced=entry.namespaced)
            for entry in decode(_RESOURCES, body).resources
            if "/" not in entry.name and entry.namespaced and _NEEDED_VERBS.issubset(entry.verbs)
        ]
