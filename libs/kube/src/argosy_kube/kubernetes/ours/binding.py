"""Binding pods through the binding subresource, and finishing what was begun.

Whoever makes such a pod may die before it is bound, or bind it in vain, and the pod waits with a scheduler's name that
nobody answers to. So the node stands in an annotation, and a pod that is seen without one for a while is bound to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from dataclasses import dataclass
from typing import Final

import msgspec

from argosy_kube.kubernetes.api.answers import CONFLICT, MISSING, ApiFailure, decode
from argosy_kube.kubernetes.api.documents import FOUND_POD, Metadata, PodDocument
from argosy_kube.kubernetes.api.rate_limiter import Priority
from argosy_kube.kubernetes.api.resources import PODS, Resource
from argosy_kube.kubernetes.api.transport import JSON, ApiServer

__all__ = ["NODE_ANNOTATION", "PodBinder"]

NODE_ANNOTATION: Final = "argosy.dev/node"
"""Annotation of a pod that is bound after it was made: to which node."""
FIRST_S: Final = 5.0
"""How long a pod may be without a node before that is looked into: whoever made it is about to bind it."""
_LONGEST_S: Final = 60.0
"""Longest pause between two tries."""
_MOST_WAITING: Final = 10_000
"""Pods that are remembered; what is beyond them a later list tells again."""


@dataclass(slots=True)
class _Unbound:
    """A pod that has no node."""

    namespace: str
    name: str
    pause_s: float


class PodBinder:
    """Binds pods of one installation.

    Args:
        server: Where.
    """

    def __init__(self, server: ApiServer) -> None:
        """Know no pod."""
        self._server = server
        self._is_ours = server.settings.binding == "subresource"
        """Binding is our affair."""
        self._unbound: dict[str, _Unbound] = {}
        self._due: list[tuple[float, str]] = []
        self._worker: asyncio.Task[None] | None = None

    async def bind(self, metadata: Metadata, node: str, resource: Resource = PODS) -> None:
        """Bind an object that was made without a node, if it is a pod and that is how it is done.

        Raises:
            ApiFailure: It is not known whether the pod is bound; asking to create it again tells and tries again.
        """
        if not self._is_ours or resource != PODS or not node:
            return
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = PODS.path(metadata.namespace, metadata.name, "binding")
        try:
            await self._server.call(
                "POST", path, priority=Priority.CREATE, body=msgspec.json.encode(binding), retry_conflict=False
            )
        except ApiFailure as failure:
            if failure.code == CONFLICT:  # bound already, by the call whose answer was lost
                return
            if failure.code == MISSING:
                raise ApiFailure(0, "the pod went before it was bound") from failure
            raise

    def note(self, pod: PodDocument, *, is_there: bool) -> None:
        """Take note of how a pod of ours is: one that stays without a node is bound."""
        if not self._is_ours:
            return
        metadata = pod.metadata
        if not is_there or pod.spec.node_name or metadata.deletion_timestamp is not None:
            self._unbound.pop(metadata.uid, None)
        elif metadata.uid not in self._unbound and len(self._unbound) < _MOST_WAITING:
            self._unbound[metadata.uid] = _Unbound(metadata.namespace, metadata.name, FIRST_S)
            self._put_off(metadata.uid, FIRST_S)
            if self._worker is None:
                self._worker = asyncio.get_running_loop().create_task(self._work(), name="bind pods")

    def _put_off(self, uid: str, pause_s: float) -> None:
        heapq.heappush(self._due, (asyncio.get_running_loop().time() + pause_s, uid))

    async def _work(self) -> None:
        """Look at what is due, one after the other, while there is something."""
        clock = asyncio.get_running_loop().time
        try:
            while self._due:
                due_s, uid = self._due[0]
                await asyncio.sleep(max(0.0, due_s - clock()))
                heapq.heappop(self._due)
                pod = self._unbound.get(uid)
                if pod is None:
                    continue
                try:
                    await self._finish(pod, uid)
                except ApiFailure:
                    pod.pause_s = min(2 * pod.pause_s, _LONGEST_S)
                    self._put_off(uid, pod.pause_s)
                else:
                    self._unbound.pop(uid, None)
        finally:
            self._worker = None

    async def _finish(self, pod: _Unbound, uid: str) -> None:
        """Bind a pod to the node that its annotation names, if it is there and still has none.

        Raises:
            ApiFailure: It is not known whether it is bound.
        """
        try:
            path = PODS.path(pod.namespace, pod.name)
            body = await self._server.call("GET", path, priority=Priority.UPKEEP, accept=JSON)
        except ApiFailure as failure:
            if failure.code == MISSING:
                return
            raise
        found = decode(FOUND_POD, body)
        node = (found.metadata.annotations or {}).get(NODE_ANNOTATION, "")
        is_it = found.metadata.uid == uid and found.metadata.deletion_timestamp is None
        if is_it and not found.spec.node_name:
            await self.bind(found.metadata, node)

    async def close(self) -> None:
        """Bind nothing any more, and give up the call under way."""
        self._unbound.clear()
        self._due.clear()
        if self._worker is not None:
            self._worker.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._worker
