"""Evicting a pod: deleting it only if its disruption budgets allow that, which a plain deletion does not ask.

Nothing calls this yet: runs that are stopped are deleted, since their owner asked it. It is what making room for other
jobs will call, and needs the right to create `pods/eviction`, which the manifests do not give before that.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from uuid import UUID

import msgspec

from argosy_kube.kubernetes.acting.presence import is_there
from argosy_kube.kubernetes.api.answers import CONFLICT, MISSING, ApiFailure
from argosy_kube.kubernetes.api.rate_limiter import Priority
from argosy_kube.kubernetes.api.resources import PODS
from argosy_kube.kubernetes.api.transport import ApiServer
from argosy_kube.kubernetes.ours.places import PlaceBook

__all__ = ["EvictionCode", "EvictionResponse", "Evictor"]


class EvictionCode(IntEnum):
    """What became of an eviction."""

    EVICTED = 1
    """The pod is being deleted, with its grace; its end is told as of any pod."""
    GONE = 2
    """There is no such pod of ours."""
    BUDGETED = 3
    """A disruption budget does not allow it now."""


@dataclass(frozen=True, slots=True)
class EvictionResponse:
    """What became of an eviction, and why."""

    code: EvictionCode
    """What became of it."""
    message: str = ""
    """What the API server says of a budget."""
    retry_after_s: float = 0.0
    """How long it asks to wait before the next try; 0 if it does not say."""


class Evictor:
    """Evicts pods of one installation.

    Args:
        server: Where.
        places: Where they are.
    """

    def __init__(self, server: ApiServer, places: PlaceBook) -> None:
        """Evict nothing yet."""
        self._server = server
        self._places = places

    async def evict(self, uid: bytes) -> EvictionResponse:
        """Evict a pod that was seen, only if it still has its uid.

        Args:
            uid: Its 16 bytes.

        Raises:
            ApiFailure: It is not known whether it was done, or it is refused for another reason than a budget.
        """
        place = self._places.find(uid)
        if place is None or place.resource != PODS:
            return EvictionResponse(EvictionCode.GONE)
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": place.name, "namespace": place.namespace},
            "deleteOptions": {"preconditions": {"uid": str(UUID(bytes=uid))}},
        }
        try:
            await self._server.call(
                "POST",
                PODS.path(place.namespace, place.name, "eviction"),
                priority=Priority.DELETE,
                body=msgspec.json.encode(body),
                retry_conflict=False,
            )
        except ApiFailure as failure:
            if failure.is_budgeted:
                return EvictionResponse(EvictionCode.BUDGETED, failure.message, failure.retry_after_s)
            if failure.code == MISSING:
                return EvictionResponse(EvictionCode.GONE)
            if failure.code == CONFLICT and not await is_there(self._server, place, str(UUID(bytes=uid))):
                return EvictionResponse(EvictionCode.GONE)
            raise
        return EvictionResponse(EvictionCode.EVICTED)
