"""The nodes of a fake kubelet at the API server: registered, removed, ready or not, and with their heartbeats."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec
import numpy as np

from argosy_core.errors import AlreadyExists, ArgosyError, BackendUnavailable, NotFound
from argosy_testkit.fake_kubelet.api import MERGE_PATCH, STRATEGIC_PATCH, TAKEN, Api
from argosy_testkit.fake_kubelet.nodes import (
    LEASE_NAMESPACE,
    OWNER_ANNOTATION,
    FakeNode,
    allocatable_of,
    lease_document,
    node_document,
    ready_conditions,
)

__all__ = ["NodeRegistry"]

_LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{LEASE_NAMESPACE}/leases"
_CALLS_AT_ONCE: Final = 48
_HEARTBEATS_AT_ONCE: Final = 8
_LONGEST_PAUSE_S: Final = 0.5
_MISSING: Final = 404
_CONFLICT: Final = 409


class NodeRegistry:
    """Nodes by name.

    Args:
        api: The API server.
        heartbeat_s: Time between a node's heartbeats, seconds.
        random: Keeps the heartbeats of nodes that were added together apart.
    """

    def __init__(self, api: Api, heartbeat_s: float, random: np.random.Generator) -> None:
        """Start without nodes."""
        self.nodes: dict[str, FakeNode] = {}
        """Nodes by name."""
        self.log_port = 0
        """Port at which the API server finds the logs of every node, 0 for none."""
        self._api = api
        self._heartbeat_s = heartbeat_s
        self._random = random

    def get(self, name: str) -> FakeNode:
        """Return a node.

        Raises:
            NotFound: It is none of ours.
        """
        try:
            return self.nodes[name]
        except KeyError:
            raise NotFound(f"node {name} is none of this kubelet") from None

    async def adopt(self) -> None:
        """Take on the nodes that a fake kubelet played before."""
        for document in msgspec.json.decode(await self._api.get("/api/v1/nodes"))["items"]:
            if OWNER_ANNOTATION not in document["metadata"].get("annotations", {}):
                continue
            name = document["metadata"]["name"]
            self.nodes[name] = FakeNode(name, document["metadata"]["uid"], allocatable_of(document))
            if self.log_port:
                endpoints = {"daemonEndpoints": {"kubeletEndpoint": {"Port": self.log_port}}}
                await self._call("PATCH", f"/api/v1/nodes/{name}/status", {"status": endpoints}, MERGE_PATCH)

    async def add(
        self,
        names: Iterable[str],
        *,
        resources: Mapping[str, str],
        labels: Mapping[str, str],
        taints: list[dict[str, str]],
    ) -> None:
        """Register nodes, ready and without taints of the cluster's own.

        Raises:
            AlreadyExists: A node of such a name exists.
            BackendUnavailable: The API server does not answer, or refuses.
        """

        async def add_one(name: str) -> None:
            document = node_document(name, resources=resources, labels=labels, taints=taints, log_port=self.log_port)
            body = await self._call("POST", "/api/v1/nodes", document)
            node = FakeNode(name, msgspec.json.decode(body)["metadata"]["uid"], allocatable_of(document))
            node.next_heartbeat_s = time.monotonic()
            self.nodes[name] = node
            # Admission marks every new node as not ready; the controller manager would take that away, in its time.
            await self._call("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": taints}}, MERGE_PATCH)

        await _each(names, add_one)

    async def remove(self, names: Iterable[str], forget: Callable[[FakeNode], None]) -> None:
        """Remove nodes; `forget` is told of each."""

        async def remove_one(name: str) -> None:
            node = self.get(name)
            await self._call("DELETE", f"/api/v1/nodes/{name}")
            del self.nodes[name]
            forget(node)

        await _each(names, remove_one)

    async def set_ready(self, names: Iterable[str], *, is_ready: bool) -> None:
        """Have nodes say that they are ready, or not."""

        async def tell(name: str) -> None:
            self.get(name)
            body = {"status": {"conditions": ready_conditions(time.time(), is_ready=is_ready)}}
            await self._call("PATCH", f"/api/v1/nodes/{name}/status", body, STRATEGIC_PATCH)

        await _each(names, tell)

    async def beat_forever(self) -> None:
        """Renew the lease of every node in its time."""
        gates = asyncio.Semaphore(_HEARTBEATS_AT_ONCE)
        while True:
            now_s = time.monotonic()
            due = [node for node in self.nodes.values() if not node.is_partitioned and node.next_heartbeat_s <= now_s]
            await asyncio.gather(*(self._beat(node, gates) for node in due))
            await asyncio.sleep(min(_LONGEST_PAUSE_S, self._heartbeat_s / 10))

    async def _beat(self, node: FakeNode, gates: asyncio.Semaphore) -> None:
        async with gates:
            node.next_heartbeat_s = time.monotonic() + self._heartbeat_s * float(self._random.uniform(0.7, 1.0))
            document = lease_document(node, time.time())
            with suppress(ArgosyError):  # the next beat tries again
                if not node.has_lease:
                    status, _ = await self._api.request("POST", _LEASES, document)
                    node.has_lease = status in {*TAKEN, _CONFLICT}
                    if status in TAKEN:
                        return
                body = {"spec": document["spec"]}
                status, _ = await self._api.request("PATCH", f"{_LEASES}/{node.name}", body, content_type=MERGE_PATCH)
                node.has_lease = status != _MISSING

    async def _call(self, method: str, path: str, body: object = None, content_type: str = "application/json") -> bytes:
        status, answer = await self._api.request(method, path, body, content_type=content_type)
        words = f"{method} {path}: {status} {answer[:300].decode(errors='replace')}"
        if status == _CONFLICT and method == "POST":
            raise AlreadyExists(words)
        if status == _MISSING:
            raise NotFound(words)
        if status not in TAKEN:
            raise BackendUnavailable(words)
        return answer


async def _each(names: Iterable[str], act: Callable[[str], Awaitable[Any]]) -> None:
    """Do something for every name, some at once; raise the first error when all are done."""
    gates = asyncio.Semaphore(_CALLS_AT_ONCE)

    async def one(name: str) -> None:
        async with gates:
            await act(name)

    for result in await asyncio.gather(*map(one, names), return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
