"""Deleting a batch of objects, each only if it still has its uid, and letting go of pods that our finalizer keeps."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Final
from urllib.parse import quote
from uuid import UUID

import msgspec
import numpy as np

from argosy_core.errors import BackendUnavailable
from argosy_core.reconcile import Deletes
from argosy_core.reconcile.rendering import INSTALLATION_LABEL, OBJECT_LABEL, RUN_LABEL, run_label
from argosy_kube.kubernetes.acting.presence import is_there
from argosy_kube.kubernetes.api.answers import (
    CONFLICT,
    KEYS_LIST,
    KEYS_ONLY,
    MISSING,
    STRATEGIC_PATCH,
    ApiFailure,
    decode,
)
from argosy_kube.kubernetes.api.documents import LIST_OF_KEYS, POD
from argosy_kube.kubernetes.api.rate_limiter import Priority
from argosy_kube.kubernetes.api.resources import PODS, Resource
from argosy_kube.kubernetes.api.transport import ApiServer
from argosy_kube.kubernetes.ours.ownership import STORED_FINALIZER
from argosy_kube.kubernetes.ours.places import Place, PlaceIndex
from argosy_kube.kubernetes.reading.columns import uid_bytes
from argosy_kube.kubernetes.reading.nodes import NodeHealth, NodeStates
from argosy_kube.port import DeleteCode, DeleteResult

__all__ = ["Deleter", "run_selector"]

_NOT_OURS: Final = frozenset({CONFLICT, 422})
"""Answers to a patch with the uid of another object."""


def run_selector(installation: str, handle: int, ordinal: int, position: int) -> str:
    """Return the query by which one object of a run is found, whatever its name."""
    labels = f"{INSTALLATION_LABEL}={installation},{RUN_LABEL}={run_label(handle, ordinal)},{OBJECT_LABEL}={position}"
    return f"labelSelector={quote(labels, safe='')}"


class _Answers:
    """What became of the objects of one batch."""

    def __init__(self, count: int, deadline_s: float) -> None:
        self.codes = np.full(count, DeleteCode.UNAVAILABLE, dtype=np.int8)
        self.deadline_s = deadline_s
        self.silence = ""
        """Why nothing is tried any more: the API server did not answer."""


class Deleter:
    """Deletes objects of one installation.

    Args:
        server: Where.
        installation: Whose objects are ours.
        places: Where they are.
        nodes: Which nodes are lost, so that nobody waits for their kubelets.
        resource_of: Gives the resource of a kind by name, None if the cluster has none such.
    """

    def __init__(
        self,
        server: ApiServer,
        *,
        installation: str,
        places: PlaceIndex,
        nodes: NodeStates,
        resource_of: Callable[[str], Awaitable[Resource | None]],
    ) -> None:
        """Delete nothing yet."""
        self._server = server
        self._installation = installation
        self._places = places
        self._nodes = nodes
        self._resource_of = resource_of
        self._concurrency = server.settings.concurrency

    async def delete(self, batch: Deletes, *, budget_s: float) -> DeleteResult:
        """Delete the objects of a batch; see Cluster.delete_objects.

        Args:
            batch: The objects.
            budget_s: Time after which no object is begun any more; those left are answered UNAVAILABLE.

        Raises:
            BackendUnavailable: The API server answered nothing about any of them.
        """
        answers = _Answers(len(batch), asyncio.get_running_loop().time() + budget_s)
        queue = iter(range(len(batch)))
        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._concurrency, len(batch))):
                group.create_task(self._work(batch, queue, answers))
        if answers.silence and (answers.codes == DeleteCode.UNAVAILABLE).all():
            raise BackendUnavailable(f"deleting objects: {answers.silence}")
        return DeleteResult(code_column=answers.codes)

    async def _work(self, batch: Deletes, queue: Iterator[int], answers: _Answers) -> None:
        loop = asyncio.get_running_loop()
        for row in queue:
            if answers.silence or loop.time() > answers.deadline_s:
                return
            try:
                answers.codes[row] = await self._delete(batch, row)
            except ApiFailure as failure:
                if failure.code == 0:
                    answers.silence = failure.message

    async def _delete(self, batch: Deletes, row: int) -> DeleteCode:
        uid = batch.uid_column[row].tobytes()
        handle, ordinal = int(batch.handle_column[row]), int(batch.ordinal_column[row])
        place = self._places.find(uid)
        if place is None:
            resource = await self._resource_of(batch.kinds[batch.kind_column[row]])
            if resource is None:
                return DeleteCode.GONE
            place = await self._search(
                resource, uid, run_selector(self._installation, handle, ordinal, int(batch.object_column[row]))
            )
            if place is None:
                return DeleteCode.GONE
        return await self._delete_at(place, str(UUID(bytes=uid)))

    async def _search(self, resource: Resource, uid: bytes, query: str) -> Place | None:
        """Find an object by its labels; return None if there is none with this uid."""
        for path in resource.paths(self._server.settings.namespaces):
            body = await self._server.call("GET", f"{path}?{query}", priority=Priority.READ, accept=KEYS_LIST)
            for item in decode(LIST_OF_KEYS, body).items or ():
                if uid_bytes(item.metadata.uid) == uid:
                    return Place(resource, item.metadata.namespace, item.metadata.name)
        return None

    async def _delete_at(self, place: Place, uid: str, *, grace_s: int | None = None) -> DeleteCode:
        options: dict[str, object] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": "Background",
        }
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        path = place.resource.path(place.namespace, place.name)
        key = UUID(uid).bytes
        self._places.expect_end(key)
        try:
            answer = await self._server.call(
                "DELETE", path, priority=Priority.DELETE, body=msgspec.json.encode(options), retry_conflict=False
            )
        except ApiFailure as failure:
            self._places.expect_no_end(key)
            if failure.code == MISSING:
                return DeleteCode.GONE
            if failure.code == CONFLICT:
                return DeleteCode.UNAVAILABLE if await is_there(self._server, place, uid) else DeleteCode.GONE
            raise
        if place.resource == PODS:
            pod = decode(POD, answer)  # a Status, without metadata, where the pod went at once
            waits = pod.metadata.deletion_grace_period_seconds
            if grace_s is None and waits and self._nodes[pod.spec.node_name] == NodeHealth.LOST:
                return await self._delete_at(place, uid, grace_s=0)
            if STORED_FINALIZER in (pod.metadata.finalizers or ()):
                await self.release(place, uid)
        return DeleteCode.DELETED

    async def release(self, place: Place, uid: str) -> None:
        """Take our finalizer from a pod; that it went is as good, whoever has its name now.

        Raises:
            ApiFailure: It is not known whether it was done.
        """
        patch = {"metadata": {"uid": uid, "$deleteFromPrimitiveList/finalizers": [STORED_FINALIZER]}}
        try:
            await self._server.call(
                "PATCH",
                place.resource.path(place.namespace, place.name),
                priority=Priority.DELETE,
                body=msgspec.json.encode(patch),
                content_type=STRATEGIC_PATCH,
                accept=KEYS_ONLY,
                retry_conflict=False,
            )
        except ApiFailure as failure:
            if failure.code != MISSING and (failure.code not in _NOT_OURS or await is_there(self._server, place, uid)):
                raise
