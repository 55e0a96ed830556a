"""Kinds of objects and where an API server keeps them, found by asking it once.

Source: design section 5, "Sync" (bags of any objects).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import msgspec

from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.kinds import KINDS, group_of, is_custom_group, kind_name
from argosy_kube.kubernetes.api.answers import FORBIDDEN, KEYS_LIST, MISSING, ApiFailure, decode
from argosy_kube.kubernetes.api.rate_limiter import Priority
from argosy_kube.kubernetes.api.transport import ApiServer

__all__ = ["BUILT_IN", "NODES", "PODS", "Resource", "ResourceDiscovery", "not_granted"]

_BUILT_IN_PLURALS: Final = {
    "Pod": "pods",
    "ConfigMap": "configmaps",
    "Ingress": "ingresses",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "Secret": "secrets",
    "Service": "services",
}
_NEEDED_VERBS: Final = frozenset({"create", "delete", "list", "watch"})


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
        return group_of(self.api_version)

    @property
    def is_custom(self) -> bool:
        """Whether the cluster's owner added it, so that it may be missing, or not granted to us."""
        return is_custom_group(self.group)

    @property
    def full_name(self) -> str:
        """What the port calls the kind: `Pod`, or `Widget.example.test` for custom resources."""
        return kind_name(self.kind, self.api_version)

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the path of all objects, those of a namespace, one, or a subresource of one."""
        root = "/apis/" if "/" in self.api_version else "/api/"
        parts = [root + self.api_version]
        if namespace and self.is_namespaced:
            parts.append(f"namespaces/{quote(namespace, safe='')}")
        parts.append(self.plural)
        parts += [quote(part, safe="") for part in (name, subresource) if part]
        return "/".join(parts)

    def paths(self, namespaces: Collection[str]) -> list[str]:
        """Return the paths of what is in some namespaces, one for each; if none is named, the path of all objects."""
        return [self.path(one) for one in namespaces] if namespaces and self.is_namespaced else [self.path()]


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


class ResourceDiscovery:
    """What is known of kinds; custom ones are asked for when they are first needed.

    Args:
        server: Whom to ask.
    """

    def __init__(self, server: ApiServer) -> None:
        """Know what every API server has."""
        self._server = server
        self.unserved: set[str] = set()
        """Groups into which the last `find_custom` could not look."""
        self._known: dict[tuple[str, str], Resource] = {
            (resource.kind, resource.api_version): resource for resource in BUILT_IN.values()
        }

    async def find(self, kind: str, api_version: str) -> Resource:
        """Return the resource of a manifest's kind.

        Args:
            kind: As in the manifest.
            api_version: As in the manifest; empty for the usual one of a built-in kind.

        Raises:
            InvalidRequest: The cluster has no such kind, its objects are in no namespace or cannot be watched, or we
                may not see them; the message says which.
            ApiFailure: The API server did not answer.
        """
        if not api_version and kind in BUILT_IN:
            return BUILT_IN[kind]
        found = self._known.get((kind, api_version))
        if found is None:
            if not is_custom_group(group_of(api_version)):
                raise InvalidRequest(f"a job may not hold a {kind} of {api_version or 'no version'}")
            found = _usable((await self._entries(api_version)).get(kind), kind, api_version)
            await self._probe(found)
            self._known[kind, api_version] = found
        return found

    async def _probe(self, resource: Resource) -> None:
        """Look at a kind once: what we may make and not see would look lost.

        Raises:
            InvalidRequest: We have not the right.
            ApiFailure: The API server did not answer.
        """
        try:
            for path in resource.paths(self._server.settings.namespaces):
                await self._server.call("GET", f"{path}?limit=1", priority=Priority.READ, accept=KEYS_LIST)
        except ApiFailure as failure:
            if failure.code == FORBIDDEN:
                raise InvalidRequest(not_granted(resource, failure)) from failure
            raise

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
        """Return every custom resource that bags could hold, those of groups that fail now left out.

        Raises:
            ApiFailure: The API server did not answer.
        """
        self.unserved.clear()
        return await self._custom(is_custom_group, skips_unserved=True)

    async def _custom(self, selects: Callable[[str], bool], *, skips_unserved: bool = False) -> list[Resource]:
        groups = decode(_GROUPS, await self._server.call("GET", "/apis", priority=Priority.READ)).groups
        versions = [group.preferred_version.group_version for group in groups if selects(group.name)]
        found = await asyncio.gather(*(self._usable(version, skips_unserved=skips_unserved) for version in versions))
        return [resource for resources in found for resource in resources]

    async def _usable(self, api_version: str, *, skips_unserved: bool) -> list[Resource]:
        """Return the kinds of a group and version that bags could hold."""
        try:
            entries = await self._entries(api_version)
        except ApiFailure:
            if not skips_unserved:
                raise
            self.unserved.add(group_of(api_version))  # another server's, that is away or broken: all else must go on
            return []
        return [
            Resource(entry.kind, api_version, entry.name)
            for entry in entries.values()
            if entry.namespaced and _NEEDED_VERBS.issubset(entry.verbs)
        ]

    async def _entries(self, api_version: str) -> dict[str, _ApiResource]:
        """Return what the API server says of the kinds of a group and version, by kind."""
        try:
            body = await self._server.call("GET", "/apis/" + quote(api_version, safe="/"), priority=Priority.READ)
        except ApiFailure as failure:
            if failure.code == MISSING:
                return {}
            raise
        return {entry.kind: entry for entry in decode(_RESOURCES, body).resources if "/" not in entry.name}


def _usable(entry: _ApiResource | None, kind: str, api_version: str) -> Resource:
    """Return the resource of a kind.

    Raises:
        InvalidRequest: There is none, or none that a bag may hold.
    """
    if entry is None:
        raise InvalidRequest(f"the cluster has no kind {kind} of {api_version}; its owner would have to install it")
    if not entry.namespaced:
        raise InvalidRequest(
            f"objects of kind {kind} of {api_version} are in no namespace; a job may hold only what is in one"
        )
    if not _NEEDED_VERBS.issubset(entry.verbs):
        missing = ", ".join(sorted(_NEEDED_VERBS.difference(entry.verbs)))
        raise InvalidRequest(f"objects of kind {kind} of {api_version} have no {missing} in this cluster")
    return Resource(kind, api_version, entry.name)


def not_granted(resource: Resource, failure: ApiFailure) -> str:
    """Return what to say where we have not the right to objects of a custom kind."""
    return (
        f"the executor has not the rights to {resource.plural} of {resource.group} that it needs (get, list, watch, "
        f"create, delete); whoever runs the cluster can grant them: {failure.message}"
    )
