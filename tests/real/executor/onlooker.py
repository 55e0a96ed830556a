"""Who sees what happens to pods without taking part: a plain list and watch by the administrator, with no code of ours.

Of installations, labels and finalizers it knows no more than that a new pod says in two labels whose it is. So it
changes nothing, and sees what an executor would not look at.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
from testbed.cluster import KubeApi

from argosy_core.reconcile.rendering import OBJECT_LABEL, RUN_LABEL, parse_run_label

__all__ = ["Onlooker", "PodKey"]

PodKey = tuple[int, int, int]
"""Handle, attempt and place in the bag."""
_KINDS: Final = (
    "api/v1/namespaces/{}/pods",
    "api/v1/namespaces/{}/configmaps",
    "api/v1/namespaces/{}/secrets",
    "api/v1/namespaces/{}/services",
    "api/v1/namespaces/{}/persistentvolumeclaims",
    "apis/networking.k8s.io/v1/namespaces/{}/ingresses",
)
_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=5.0)
_PAUSE_S: Final = 0.1
_LONGEST_LINE_BYTES: Final = 1 << 20


@dataclass
class Onlooker:
    """Watches all pods of a namespace and remembers what must never be.

    Args:
        api: Where.
        namespace: Which.
    """

    api: KubeApi
    namespace: str
    keys: dict[str, PodKey] = field(default_factory=dict)
    """What each pod, by uid, was when it was first seen, whatever its labels say later."""
    working: dict[int, set[tuple[int, int]]] = field(default_factory=dict)
    """Attempts and places of the pods of each job that may have processes now."""
    faults: list[str] = field(default_factory=list)
    list_count: int = 0
    """How often it had to look anew."""

    def __post_init__(self) -> None:
        """Make the connections, which open when they are used."""
        self._news = asyncio.Event()
        self._is_following = False
        self._session = aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {self.api.token}"},
            connector=aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=str(self.api.ca))),
            timeout=_TIMEOUT,
            read_bufsize=_LONGEST_LINE_BYTES,
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    def break_off(self) -> None:
        """Lose all connections, as if the server had gone for a moment."""
        assert self._session.connector is not None
        for protocol in self._session.connector._acquired:
            assert protocol.transport is not None
            protocol.transport.abort()

    async def watch(self) -> None:
        """Look until cancelled; whatever breaks, list again."""
        while True:
            try:
                await self._follow(await self._list_pods())
            except (aiohttp.ClientError, TimeoutError):
                await asyncio.sleep(_PAUSE_S)

    async def until_looking(self) -> None:
        """Return once it watches."""
        while not self._is_following:
            self._news.clear()
            await self._news.wait()

    async def until_pods(self, count: int) -> None:
        """Return once so many pods were seen, those that are gone included."""
        while len(self.keys) < count:
            self._news.clear()
            await self._news.wait()

    async def left_over(self) -> list[tuple[int, int]]:
        """Return the runs of which objects are there."""
        answers = await asyncio.gather(*(self._list(path) for path in _KINDS))
        labels = [one["metadata"].get("labels", {}).get(RUN_LABEL, "") for answer in answers for one in answer["items"]]
        return sorted({run for run in map(parse_run_label, labels) if run is not None})

    async def _list(self, path: str) -> Any:
        async with self._session.get(f"{self.api.url}/{path.format(self.namespace)}") as answer:
            answer.raise_for_status()
            return await answer.json()

    async def _list_pods(self) -> str:
        """Take the pods that are there; return the version at which they were."""
        listing = await self._list(_KINDS[0])
        self.list_count += 1
        self.working.clear()
        for pod in listing["items"]:
            self._take(pod, is_there=True)
        return str(listing["metadata"]["resourceVersion"])

    async def _follow(self, version: str) -> None:
        """Take changes until the server ends the watch, as it does now and then."""
        request = {"watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true"}
        url = f"{self.api.url}/{_KINDS[0].format(self.namespace)}"
        async with self._session.get(url, params=request) as answer:
            answer.raise_for_status()
            self._is_following = True
            self._news.set()
            async for line in answer.content:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                if event["type"] != "BOOKMARK":
                    self._take(event["object"], is_there=event["type"] != "DELETED")

    def _take(self, pod: dict[str, Any], *, is_there: bool) -> None:
        metadata = pod["metadata"]
        key = self.keys.get(metadata["uid"]) or _key_of(metadata.get("labels", {}))
        if key is None:
            return  # an unmanaged pod
        if metadata["uid"] not in self.keys and key in self.keys.values():
            self.faults.append(f"a second pod of run {key[0]}/{key[1]}")
        self.keys[metadata["uid"]] = key
        self._news.set()
        handle, attempt, place = key
        has_left = metadata.get("deletionTimestamp") and metadata.get("deletionGracePeriodSeconds") == 0
        works = is_there and not has_left and pod["status"].get("phase", "Pending") in {"Pending", "Running"}
        attempts = self.working.setdefault(handle, set())
        (attempts.add if works else attempts.discard)((attempt, place))
        if len({one for one, _ in attempts}) > 1:
            self.faults.append(f"job {handle} runs twice: {sorted(attempts)}")


def _key_of(labels: dict[str, str]) -> PodKey | None:
    run = parse_run_label(labels.get(RUN_LABEL, ""))
    return None if run is None else (*run, int(labels[OBJECT_LABEL]))
