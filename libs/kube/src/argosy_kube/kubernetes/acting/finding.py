"""Looking for objects of runs by the names that they were made with, whatever labels they carry now.

An adapter knows the objects that it has seen by their uids. After a restart it knows none, and a list by labels leaves
out those that lost theirs meanwhile: these it finds by name, and tells from a stranger's by `ownership`.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from argosy_core.errors import InvalidRequest
from argosy_kube.kubernetes.acting.rendering import MouldBook
from argosy_kube.kubernetes.api.answers import KEYS_LIST, MISSING, ApiFailure, decode
from argosy_kube.kubernetes.api.documents import (
    FOUND_POD,
    LIST_OF_FOUND_KEYS,
    LIST_OF_FOUND_PODS,
    FoundKey,
    FoundPod,
)
from argosy_kube.kubernetes.api.listing import named_query, read_list
from argosy_kube.kubernetes.api.rate_limiter import Priority
from argosy_kube.kubernetes.api.resources import PODS, Resource
from argosy_kube.kubernetes.api.transport import JSON, ApiServer
from argosy_kube.kubernetes.ours.kinds import OwnKinds
from argosy_kube.kubernetes.ours.observing import Observer
from argosy_kube.kubernetes.ours.ownership import is_own
from argosy_kube.kubernetes.reading.columns import EventRows, uid_bytes
from argosy_kube.port import Change, CreateBatch

__all__ = ["Finder"]

_READ: Final = Priority.READ
_MOST_READS: Final = 200
"""Objects of one kind and namespace that are read one by one; a list of the namespace costs less than more of them."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """One object that is looked for."""

    resource: Resource
    namespace: str
    name: str
    run: tuple[int, int, int]


class Finder:
    """Looks for objects of one installation.

    Args:
        server: Where.
        moulds: Tells kinds, namespaces and names.
        observer: Reads what is found, and gives labels back.
        kinds: Is told which kinds are in use.
        installation: Whose objects are ours.
    """

    def __init__(
        self,
        server: ApiServer,
        moulds: MouldBook,
        observer: Observer,
        *,
        kinds: OwnKinds,
        installation: str,
    ) -> None:
        """Look for nothing yet."""
        self._server = server
        self._moulds = moulds
        self._observer = observer
        self._kinds = kinds
        self._installation = installation
        self._limit = asyncio.Semaphore(server.settings.concurrency)

    async def find(self, batch: CreateBatch) -> EventRows:
        """Return those objects of a batch that are there and ours; they are known by their uids from then on.

        Raises:
            ApiFailure: It is not known of all whether they are there.
        """
        groups: dict[tuple[Resource, str], list[_Wanted]] = defaultdict(list)
        for row in range(len(batch)):
            wanted = await self._wanted(batch, row)
            if wanted is not None:
                groups[wanted.resource, wanted.namespace].append(wanted)
        found = await asyncio.gather(*(self._find_group(*where, group) for where, group in groups.items()))
        rows = EventRows(self._observer.tables)
        for (resource, _), items in zip(groups, found, strict=True):
            for wanted, document in items:
                self._take(rows, resource, wanted, document)
        return rows

    async def _wanted(self, batch: CreateBatch, row: int) -> _Wanted | None:
        """Return what is looked for, None for what no cluster can have."""
        try:
            mould = await self._moulds.find(batch, row)
        except InvalidRequest:
            return None
        handle, attempt = int(batch.handle_column[row]), int(batch.attempt_column[row])
        run = (handle, attempt, int(batch.object_column[row]))
        return _Wanted(mould.resource, mould.namespace, mould.name(handle, attempt), run)

    async def _find_group(
        self, resource: Resource, namespace: str, group: list[_Wanted]
    ) -> list[tuple[_Wanted, FoundKey | FoundPod]]:
        """Return what is there under the names of some objects of one kind and namespace, whoever owns it."""
        try:
            if len(group) > _MOST_READS:
                return await self._find_in_list(resource, namespace, {wanted.name: wanted for wanted in group})
            documents = await asyncio.gather(*(self._read(wanted) for wanted in group))
        except ApiFailure as failure:
            if resource != PODS and self._kinds.pass_over(resource, failure):
                return []  # it is gone, or hidden, as the answer says
            raise
        return [(wanted, found) for wanted, found in zip(group, documents, strict=True) if found is not None]

    async def _read(self, wanted: _Wanted) -> FoundKey | FoundPod | None:
        path, is_pod = wanted.resource.path(wanted.namespace), wanted.resource == PODS
        async with self._limit:
            try:
                if is_pod:
                    return decode(FOUND_POD, await self._server.call("GET", f"{path}/{wanted.name}", priority=_READ))
                # One object as a list of its kind: whoever may list may look, and what is in a secret does not travel.
                where = f"{path}?{named_query(wanted.name)}"
                body = await self._server.call("GET", where, priority=_READ, accept=KEYS_LIST)
            except ApiFailure as failure:
                if is_pod and failure.code == MISSING:
                    return None
                raise
        return next(iter(decode(LIST_OF_FOUND_KEYS, body).items or ()), None)

    async def _find_in_list(
        self, resource: Resource, namespace: str, wanted: dict[str, _Wanted]
    ) -> list[tuple[_Wanted, FoundKey | FoundPod]]:
        found: dict[str, Any] = {}

        def take(page: list[Any]) -> None:
            for document in page:
                if document.metadata.name in wanted:
                    found[document.metadata.name] = document

        is_pod = resource == PODS
        decoder: msgspec.json.Decoder[Any] = LIST_OF_FOUND_PODS if is_pod else LIST_OF_FOUND_KEYS
        async with self._limit:
            await read_list(
                self._server,
                resource.path(namespace),
                decoder,
                begin=lambda: take,
                accept=JSON if is_pod else KEYS_LIST,
            )
        return [(wanted[name], document) for name, document in found.items()]

    def _take(self, rows: EventRows, resource: Resource, wanted: _Wanted, document: FoundKey | FoundPod) -> None:
        """Tell of an object if it is ours."""
        metadata = document.metadata
        if not is_own(metadata, wanted.run, installation=self._installation):
            return
        self._kinds.use(resource)
        self._observer.places.add(uid_bytes(metadata.uid), resource, metadata, wanted.run)
        if isinstance(document, FoundPod):
            self._observer.add_pod(rows, Change.ADDED, document, time_us=0)
        else:
            self._observer.add_object(rows, Change.ADDED, document, resource=resource, time_us=0)
