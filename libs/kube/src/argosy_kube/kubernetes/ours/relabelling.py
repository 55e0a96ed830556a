"""Objects of ours whose labels somebody changed: they are ours as before, and get their labels back.

Whose a pod is stands in its labels, and anybody with the right to patch may change those. A server that watches with a
label selector then says that the pod is gone, and leaves it out of lists, while it runs on: whoever believed that would
have the job run a second time beside it. So a pod that was seen with our labels is known by its uid from then on, and
one that seems to be gone without having been deleted is looked for. So it is with objects of other kinds, which would
stay behind otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import quote
from uuid import UUID

import msgspec

from argosy_core.reconcile.rendering import INSTALLATION_LABEL, OBJECT_LABEL, RUN_LABEL, run_label
from argosy_kube.kubernetes.api.answers import MISSING, ApiFailure
from argosy_kube.kubernetes.api.documents import LIST_OF_FOUND_PODS, FoundPod, PodDocument
from argosy_kube.kubernetes.api.listing import read_list
from argosy_kube.kubernetes.api.rate_limiter import Priority
from argosy_kube.kubernetes.api.resources import PODS, Resource
from argosy_kube.kubernetes.api.transport import ApiServer
from argosy_kube.kubernetes.ours.lookup import Lookup
from argosy_kube.kubernetes.ours.ownership import read_mark
from argosy_kube.kubernetes.ours.places import Place, PlaceIndex
from argosy_kube.kubernetes.reading.columns import uid_bytes
from argosy_kube.kubernetes.reading.pods import ENDED, phase_of

__all__ = ["Relabeller", "tells_deletion"]

_MERGE_PATCH: Final = "application/merge-patch+json"
"""Other than a strategic one, it is taken for custom resources as well."""
_PAUSE_S: Final = 1.0
"""Least time between two repairs of one pod: whoever takes labels away again and again is not met at full speed."""
_MOST_WAITING: Final = 10_000
"""Repairs that may wait; what is beyond them a later list asks for again."""


def tells_deletion(pod: PodDocument) -> bool:
    """Return whether the last state of a pod shows that it was deleted and that nothing of it runs any more.

    A pod that only lost its labels shows no deletion; one that lost them while it was being deleted still runs.
    """
    metadata = pod.metadata
    if metadata.deletion_timestamp is None:
        return False
    return metadata.deletion_grace_period_seconds == 0 or phase_of(pod.status) in ENDED


class Relabeller:
    """Looks for objects that seem to be gone, and gives labels back.

    Args:
        server: Where.
        installation: Whose objects are ours.
        places: Where they are.
    """

    def __init__(self, server: ApiServer, installation: str, places: PlaceIndex) -> None:
        """Look for nothing yet."""
        self._server = server
        self._installation = installation
        self._places = places
        self.lookup = Lookup(server)
        """Looks for objects by their names."""
        self._waiting: dict[str, tuple[Place, tuple[int, int, int]]] = {}
        self._repaired_s: dict[str, float] = {}  # within the last _PAUSE_S, the oldest first
        self._worker: asyncio.Task[None] | None = None

    async def find(self, resource: Resource, uids: Sequence[bytes]) -> dict[bytes, Any]:
        """Return those of some objects of ours that are there still, as they are now; none if their kind is not.

        Args:
            resource: Their kind; pods come whole, others as their metadata.
            uids: Which; those whose place is not known are left out.

        Raises:
            ApiFailure: It is not known of all whether they are there.
        """
        places = [place for uid in uids if (place := self._places.find(uid)) is not None]
        try:
            found = await self.lookup.find(resource, [(place.namespace, place.name) for place in places])
        except ApiFailure as failure:
            if failure.code == MISSING and resource != PODS:
                return {}
            raise
        wanted = set(uids)
        return {uid: document for document in found if (uid := uid_bytes(document.metadata.uid)) in wanted}

    async def find_strays(self) -> list[FoundPod]:
        """Return the pods of ours that have ended and do not match our selector, as their annotations tell.

        Nobody looks for them by name, since their runs may be over, and our finalizer would keep them for ever. They
        are known from now on, as any other. Costs a list of the others' pods that have ended.

        Raises:
            ApiFailure: They cannot be listed.
        """
        strays: list[FoundPod] = []
        selector = quote(f"{INSTALLATION_LABEL}!={self._installation}", safe="")
        for phase in ("Succeeded", "Failed"):
            found: list[FoundPod] = []
            query = f"labelSelector={selector}&fieldSelector={quote(f'status.phase={phase}', safe='')}"
            for path in PODS.paths(self._server.settings.namespaces):
                await read_list(self._server, path, LIST_OF_FOUND_PODS, begin=partial(self._begin, found), query=query)
                strays += found
        for pod in strays:
            run = read_mark(pod.metadata, self._installation)
            assert run is not None
            self._places.add(uid_bytes(pod.metadata.uid), PODS, pod.metadata, run)
        return strays

    def _begin(self, found: list[FoundPod]) -> Callable[[list[FoundPod]], None]:
        found.clear()
        return lambda page: found.extend(pod for pod in page if read_mark(pod.metadata, self._installation))

    def restore(self, uid: bytes, run: tuple[int, int, int]) -> None:
        """Give an object its labels back, meanwhile, one after the other; a later list tries again if that fails.

        Args:
            uid: Of the object.
            run: (handle, ordinal, position) of what it is.
        """
        text, place = str(UUID(bytes=uid)), self._places.find(uid)
        if place is None or text in self._waiting or len(self._waiting) >= _MOST_WAITING:
            return
        self._waiting[text] = place, run
        if self._worker is None:
            self._worker = asyncio.get_running_loop().create_task(self._work(), name="restore labels")

    async def _work(self) -> None:
        """Repair what waits, one after the other."""
        clock = asyncio.get_running_loop().time
        try:
            while self._waiting:
                uid, (place, run) = next(iter(self._waiting.items()))
                await asyncio.sleep(max(0.0, self._repaired_s.get(uid, -math.inf) + _PAUSE_S - clock()))
                del self._waiting[uid]  # what is seen from now on may ask again
                while self._repaired_s and next(iter(self._repaired_s.values())) + _PAUSE_S <= clock():
                    del self._repaired_s[next(iter(self._repaired_s))]
                self._repaired_s[uid] = clock()
                await self._restore(place, uid, run)
        finally:
            self._worker = None

    async def _restore(self, place: Place, uid: str, run: tuple[int, int, int]) -> None:
        labels = {
            INSTALLATION_LABEL: self._installation,
            RUN_LABEL: run_label(run[0], run[1]),
            OBJECT_LABEL: str(run[2]),
        }
        with contextlib.suppress(ApiFailure):
            await self._server.call(
                "PATCH",
                place.resource.path(place.namespace, place.name),
                priority=Priority.UPKEEP,
                body=msgspec.json.encode({"metadata": {"uid": uid, "labels": labels}}),
                content_type=_MERGE_PATCH,
                retry_conflict=False,
            )

    async def close(self) -> None:
        """Begin no repair any more, and give up the one under way."""
        self._waiting.clear()
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)
