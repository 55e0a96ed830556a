"""Pods of ours whose labels somebody changed: they are ours as before, and get their labels back.

Whose a pod is stands in its labels, and anybody with the right to patch may change those. A server that watches with a
label selector then says that the pod is gone, and leaves it out of lists, while it runs on: whoever believed that would
have the job run a second time beside it. So a pod that was seen with our labels is known by its uid from then on, and
one that seems to be gone without having been deleted is looked for.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final
from uuid import UUID

import msgspec

from argosy_core.reconcile.rendering import INSTALLATION_LABEL, OBJECT_LABEL, RUN_LABEL, run_label
from argosy_kube.kubernetes.answers import ApiFailure, decode
from argosy_kube.kubernetes.columns import uid_bytes
from argosy_kube.kubernetes.documents import LIST_OF_PODS, POD, PodDocument
from argosy_kube.kubernetes.listing import read_list
from argosy_kube.kubernetes.pacing import Priority
from argosy_kube.kubernetes.places import Place, PlaceBook
from argosy_kube.kubernetes.pods import ENDED, phase_of
from argosy_kube.kubernetes.resources import PODS
from argosy_kube.kubernetes.transport import ApiServer

__all__ = ["Relabeller", "tells_deletion"]

_STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
_MISSING: Final = 404
_MOST_READS: Final = 500
"""Pods that are looked for one by one; a list of all pods costs less than more of them."""
_PAUSE_S: Final = 1.0
"""Least time between two repairs of one pod: whoever takes labels away again and again is not met at full speed."""
_MOST_REMEMBERED: Final = 1000


def tells_deletion(pod: PodDocument) -> bool:
    """Return whether the last state of a pod shows that it was deleted and that nothing of it runs any more.

    A pod that only lost its labels shows no deletion; one that lost them while it was being deleted still runs.
    """
    metadata = pod.metadata
    if metadata.deletion_timestamp is None:
        return False
    return metadata.deletion_grace_period_seconds == 0 or phase_of(pod.status) in ENDED


class Relabeller:
    """Looks for pods that seem to be gone, and gives labels back.

    Args:
        server: Where.
        installation: Whose pods are ours.
        places: Where they are.
        concurrency: Pods looked for at once.
        page_count: Pods per page of a list.
    """

    def __init__(
        self, server: ApiServer, installation: str, places: PlaceBook, *, concurrency: int, page_count: int
    ) -> None:
        """Look for nothing yet."""
        self._server = server
        self._installation = installation
        self._places = places
        self._limit = asyncio.Semaphore(concurrency)
        self._page_count = page_count
        self._waiting: set[str] = set()
        self._repaired_s: dict[str, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def find(self, uids: Sequence[bytes]) -> dict[bytes, PodDocument]:
        """Return those of some pods of ours that are there still, as they are now.

        Args:
            uids: Which; those whose place is not known are left out.

        Raises:
            ApiFailure: It is not known of all whether they are there.
        """
        if len(uids) > _MOST_READS:
            return await self._find_in_list(set(uids))
        places = [(uid, place) for uid in uids if (place := self._places.find(uid)) is not None]
        pods = await asyncio.gather(*(self._read(uid, place) for uid, place in places))
        return {uid: pod for (uid, _), pod in zip(places, pods, strict=True) if pod is not None}

    async def _read(self, uid: bytes, place: Place) -> PodDocument | None:
        async with self._limit:
            try:
                body = await self._server.call("GET", PODS.path(place.namespace, place.name), priority=Priority.READ)
            except ApiFailure as failure:
                if failure.code == _MISSING:
                    return None
                raise
        pod = decode(POD, body)
        return pod if uid_bytes(pod.metadata.uid) == uid else None

    async def _find_in_list(self, uids: set[bytes]) -> dict[bytes, PodDocument]:
        found: dict[bytes, PodDocument] = {}

        def take(page: list[PodDocument]) -> None:
            for pod in page:
                uid = uid_bytes(pod.metadata.uid)
                if uid in uids:
                    found[uid] = pod

        await read_list(self._server, PODS.path(), LIST_OF_PODS, begin=lambda: take, page_count=self._page_count)
        return found

    def restore(self, uid: bytes, run: tuple[int, int, int]) -> None:
        """Give a pod its labels back, meanwhile; a later list tries again if that fails.

        Args:
            uid: Of the pod.
            run: (handle, attempt, position) of what it is.
        """
        text, place = str(UUID(bytes=uid)), self._places.find(uid)
        if text in self._waiting or place is None:
            return
        self._waiting.add(text)
        task = asyncio.get_running_loop().create_task(self._restore(place, text, run), name="restore labels")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _restore(self, place: Place, uid: str, run: tuple[int, int, int]) -> None:
        clock = asyncio.get_running_loop().time
        await asyncio.sleep(max(0.0, self._repaired_s.get(uid, 0.0) + _PAUSE_S - clock()))
        self._waiting.discard(uid)  # what is seen from now on may ask again
        if len(self._repaired_s) >= _MOST_REMEMBERED:
            self._repaired_s.clear()
        self._repaired_s[uid] = clock()
        labels = {
            INSTALLATION_LABEL: self._installation,
            RUN_LABEL: run_label(run[0], run[1]),
            OBJECT_LABEL: str(run[2]),
        }
        with contextlib.suppress(ApiFailure):
            await self._server.call(
                "PATCH",
                place.resource.path(place.namespace, place.name),
                priority=Priority.READ,
                body=msgspec.json.encode({"metadata": {"uid": uid, "labels": labels}}),
                content_type=_STRATEGIC_PATCH,
                retry_conflict=False,
            )

    async def close(self) -> None:
        """Begin no repair any more, and give up those under way."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
