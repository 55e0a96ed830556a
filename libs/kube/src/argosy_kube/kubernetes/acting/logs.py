"""Reading what a container wrote, through the API server and the node's kubelet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from argosy_core.errors import BackendUnavailable, NotFound
from argosy_kube.kubernetes.acting.deletion import run_selector
from argosy_kube.kubernetes.api.answers import MISSING, ApiFailure, decode
from argosy_kube.kubernetes.api.documents import LIST_OF_PODS, POD, PodDocument
from argosy_kube.kubernetes.api.rate_limiter import Priority
from argosy_kube.kubernetes.api.resources import PODS
from argosy_kube.kubernetes.api.transport import BROKEN, ApiServer, unavailable
from argosy_kube.kubernetes.reading.pods import ENDED, phase_of

__all__ = ["container_names", "read_pod_log"]

_FIRST_POLL_S: Final = 1.0
_LONGEST_POLL_S: Final = 8.0
_BAD_REQUEST: Final = 400


async def container_names(server: ApiServer, installation: str, run: tuple[int, int, int]) -> tuple[str, ...]:
    """Return the names of containers of one of our pods; see Cluster.container_names.

    Args:
        server: Where.
        installation: Whose objects are ours.
        run: Handle, ordinal, object index.

    Raises:
        NotFound: There is no such pod.
        BackendUnavailable: The API server does not answer.
    """
    try:
        return tuple(_names(await _find(server, installation, run)))
    except ApiFailure as failure:
        raise unavailable(failure, "reading a pod") from failure
    except BROKEN as cause:
        raise BackendUnavailable(f"reading a pod: {str(cause) or type(cause).__name__}") from cause


async def read_pod_log(  # noqa: PLR0913 - what can be said of a log
    server: ApiServer,
    installation: str,
    run: tuple[int, int, int],
    *,
    container: str,
    follow: bool,
    tail_line_count: int | None,
    timestamps: bool = False,
    since_s: int = 0,
) -> AsyncGenerator[bytes, None]:
    """Give what a container of one of our pods wrote; see Cluster.read_log.

    Args:
        server: Where.
        installation: Whose objects are ours.
        run: Handle, ordinal, object index.
        container: Its name, empty for the first.
        follow: Go on until the container has ended.
        tail_line_count: How many lines before the end to begin, None for the beginning.
        timestamps: Begin each line with its time.
        since_s: Only lines of this time or later, seconds since the Unix epoch; 0 for all.

    Raises:
        NotFound: There is no such pod or container.
        BackendUnavailable: The API server or the kubelet does not answer.
    """
    try:
        pod = await _find(server, installation, run)
        uid, name = pod.metadata.uid, _container(pod, container)
        place = pod.metadata.namespace, pod.metadata.name
        wait_s = _FIRST_POLL_S
        while not _has_begun(pod, name):
            if not follow:
                return
            await asyncio.sleep(wait_s)
            wait_s = min(2.0 * wait_s, _LONGEST_POLL_S)
            # One object by name costs an API server next to nothing; a list by labels looks at all of them.
            pod = decode(POD, await server.call("GET", PODS.path(*place), priority=Priority.READ))
            if pod.metadata.uid != uid:
                raise NotFound("the pod went, and another one has its name")
        path = PODS.path(*place, "log")
        query = f"container={quote(name, safe='')}"
        query += "&follow=true" if follow else ""
        query += "&timestamps=true" if timestamps else ""
        since = datetime.fromtimestamp(since_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        query += f"&sinceTime={since}" if since_s else ""
        query += "" if tail_line_count is None else f"&tailLines={tail_line_count}"
        async with server.stream(f"{path}?{query}", idle_s=None, accept="*/*") as content:
            async for piece in content.iter_any():
                yield piece
    except ApiFailure as failure:
        if failure.code == MISSING:
            raise NotFound(failure.message) from failure
        if failure.code == _BAD_REQUEST:  # it was beginning, or ended before anything was written
            return
        raise unavailable(failure, "reading a log") from failure
    except BROKEN as cause:
        raise BackendUnavailable(f"reading a log: {str(cause) or type(cause).__name__}") from cause


async def _find(server: ApiServer, installation: str, run: tuple[int, int, int]) -> PodDocument:
    """Return the pod of a run.

    Raises:
        NotFound: There is none.
        ApiFailure: The API server did not answer.
    """
    query = f"limit=2&{run_selector(installation, *run)}"
    for path in PODS.paths(server.settings.namespaces):
        pods = decode(LIST_OF_PODS, await server.call("GET", f"{path}?{query}", priority=Priority.READ)).items
        if pods:
            return pods[0]
    raise NotFound("the cluster has no such pod")


def _container(pod: PodDocument, name: str) -> str:
    """Return the name of the container that is meant."""
    names = _names(pod)
    if name and name not in names:
        raise NotFound(f"the pod has no container {name[:63]!r}; it has {', '.join(names)}")
    return name or names[0]


def _names(pod: PodDocument) -> list[str]:
    """Return the names of a pod's containers, init containers last."""
    return [item.name for item in (*(pod.spec.containers or ()), *(pod.spec.init_containers or ()))]


def _has_begun(pod: PodDocument, name: str) -> bool:
    """Return whether a container has begun, and so may have written something."""
    status = pod.status
    for item in (*(status.container_statuses or ()), *(status.init_container_statuses or ())):
        if item.name == name and item.state is not None:
            return item.state.running is not None or item.state.terminated is not None or phase_of(status) in ENDED
    return phase_of(status) in ENDED
