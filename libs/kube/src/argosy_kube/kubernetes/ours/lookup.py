"""Objects looked for by their names, whatever labels they carry: few are read one by one, many in one list."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any, Final

import msgspec

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

__all__ = ["Lookup", "ObjectName"]

ObjectName = tuple[str, str]
"""Namespace and name."""
MOST_READS: Final = 200
"""Objects of a kind that are read one by one; a list costs less than more of them."""


class Lookup:
    """Looks for objects, so many at once as calls may be under way.

    Args:
        server: Where.
    """

    def __init__(self, server: ApiServer) -> None:
        """Look for nothing yet."""
        self._server = server
        self._limit = asyncio.Semaphore(server.settings.concurrency)

    async def find(self, resource: Resource, names: Collection[ObjectName]) -> list[FoundKey | FoundPod]:
        """Return what is there under some names, whoever owns it: pods whole, other objects as their metadata.

        Raises:
            ApiFailure: It is not known of all whether they are there.
        """
        if len(names) > MOST_READS:
            return await self._find_in_list(resource, frozenset(names))
        found = await asyncio.gather(*(self._read(resource, name) for name in names))
        return [document for document in found if document is not None]

    async def _read(self, resource: Resource, name: ObjectName) -> FoundKey | FoundPod | None:
        async with self._limit:
            if resource == PODS:
                try:
                    body = await self._server.call("GET", PODS.path(*name), priority=Priority.READ)
                except ApiFailure as failure:
                    if failure.code == MISSING:
                        return None
                    raise
                return decode(FOUND_POD, body)
            # One object as a list of its kind: whoever may list may look, and what is in a secret does not travel.
            where = f"{resource.path(name[0])}?{named_query(name[1])}"
            body = await self._server.call("GET", where, priority=Priority.READ, accept=KEYS_LIST)
        return next(iter(decode(LIST_OF_FOUND_KEYS, body).items or ()), None)

    async def _find_in_list(self, resource: Resource, names: frozenset[ObjectName]) -> list[FoundKey | FoundPod]:
        found: list[FoundKey | FoundPod] = []

        def begin() -> Callable[[list[Any]], None]:
            found.clear()
            return lambda page: found.extend(
                one for one in page if (one.metadata.namespace, one.metadata.name) in names
            )

        namespaces = {namespace for namespace, _ in names}
        if len(namespaces) > 1 and not self._server.settings.namespaces:
            namespaces = set()  # one list of all
        there: list[FoundKey | FoundPod] = []
        decoder: msgspec.json.Decoder[Any] = LIST_OF_FOUND_PODS if resource == PODS else LIST_OF_FOUND_KEYS
        async with self._limit:
            for path in resource.paths(sorted(namespaces)):
                await read_list(
                    self._server, path, decoder, begin=begin, accept=JSON if resource == PODS else KEYS_LIST
                )
                there += found
        return there
