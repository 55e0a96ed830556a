"""Looking for objects of runs by the names that they were made with, whatever labels they carry now.

An adapter knows the objects that it has seen by their uids. After a restart it knows none, and a list by labels leaves
out those that lost theirs meanwhile: these it finds by name, and tells from somebody else's by `ownership`.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict

from argosy_core.errors import InvalidRequest
from argosy_core.reconcile import Creates
from argosy_kube.kubernetes.acting.rendering import TemplateCache
from argosy_kube.kubernetes.api.answers import ApiFailure
from argosy_kube.kubernetes.api.documents import FoundKey, FoundPod
from argosy_kube.kubernetes.api.resources import PODS, Resource
from argosy_kube.kubernetes.ours.kinds import OwnKinds
from argosy_kube.kubernetes.ours.lookup import ObjectName
from argosy_kube.kubernetes.ours.observing import Observer
from argosy_kube.kubernetes.ours.ownership import is_own
from argosy_kube.kubernetes.reading.columns import EventRows, uid_bytes
from argosy_kube.port import Change

__all__ = ["Finder"]


class Finder:
    """Looks for objects of one installation.

    Args:
        templates: Tells kinds, namespaces and names.
        observer: Reads what is found, and gives labels back.
        kinds: Is told which kinds are in use.
        installation: Whose objects are ours.
    """

    def __init__(self, templates: TemplateCache, observer: Observer, *, kinds: OwnKinds, installation: str) -> None:
        """Look for nothing yet."""
        self._templates = templates
        self._observer = observer
        self._kinds = kinds
        self._installation = installation

    async def find(self, batch: Creates) -> EventRows:
        """Return those objects of a batch that are there and ours; they are known by their uids from then on.

        Raises:
            ApiFailure: It is not known of all whether they are there.
        """
        wanted: dict[Resource, dict[ObjectName, tuple[int, int, int]]] = defaultdict(dict)
        for row in range(len(batch)):
            try:
                template = await self._templates.find(batch, row)
            except InvalidRequest:
                continue  # no cluster can have it
            handle, ordinal = int(batch.handle_column[row]), int(batch.ordinal_column[row])
            run = handle, ordinal, int(batch.object_column[row])
            wanted[template.resource][template.namespace, template.name(handle, ordinal)] = run
        found = await asyncio.gather(*(self._look_up(resource, runs) for resource, runs in wanted.items()))
        rows = self._observer.tables.begin()
        for (resource, runs), documents in zip(wanted.items(), found, strict=True):
            for document in documents:
                self._take(rows, resource, runs[document.metadata.namespace, document.metadata.name], document)
        return rows

    async def _look_up(
        self, resource: Resource, runs: dict[ObjectName, tuple[int, int, int]]
    ) -> list[FoundKey | FoundPod]:
        """Return what is there under the names of some objects of one kind, whoever owns it."""
        try:
            return await self._observer.relabeller.lookup.find(resource, runs)
        except ApiFailure as failure:
            if resource != PODS and self._kinds.pass_over(resource, failure):
                return []  # it is gone, or unlistable, as the answer says
            raise

    def _take(
        self, rows: EventRows, resource: Resource, run: tuple[int, int, int], document: FoundKey | FoundPod
    ) -> None:
        """Tell of an object if it is ours."""
        if not is_own(document.metadata, run, installation=self._installation):
            return
        self._kinds.use(resource)
        self._observer.places.add(uid_bytes(document.metadata.uid), resource, document.metadata, run)
        self._observer.add(rows, Change.ADDED, document, resource=resource)
