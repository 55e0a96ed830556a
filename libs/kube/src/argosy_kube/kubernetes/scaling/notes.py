"""Notes on pods of what they may have, through an API server.

Source: docs/autoscale.md "Durable permits"; `argosy_kube.notes_port`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from argosy_core.errors import BackendUnavailable
from argosy_core.job.reading.scaling import PERMIT_ANNOTATION
from argosy_kube.kubernetes.api.answers import ApiFailure, decode
from argosy_kube.kubernetes.api.credentials import Credentials, CredentialSource
from argosy_kube.kubernetes.api.rate_limiter import Priority
from argosy_kube.kubernetes.api.resources import PODS
from argosy_kube.kubernetes.api.transport import ApiServer, unavailable
from argosy_kube.kubernetes.scaling.sizes import SCALED_POD
from argosy_kube.kubernetes.settings import KubernetesSettings
from argosy_kube.meter import NO_METER, ApiMeter

__all__ = ["KubernetesNotes"]

_JSON_PATCH: Final = "application/json-patch+json"
_PATH: Final = f"/metadata/annotations/{PERMIT_ANNOTATION.replace('/', '~1')}"
_REJECTED: Final = 422
"""A test of the patch failed."""


class KubernetesNotes:
    """Notes at one API server. Needs the right to get and patch pods.

    Args:
        source: Where credentials are.
        settings: How the API server is used.
        timeout_s: How long a call may take, seconds.
        meter: Whom calls are told to.
    """

    def __init__(
        self,
        source: CredentialSource,
        *,
        settings: KubernetesSettings | None = None,
        timeout_s: float = 5.0,
        meter: ApiMeter = NO_METER,
    ) -> None:
        """Connect to nothing yet."""
        self._server = ApiServer(
            Credentials(source), settings=settings or KubernetesSettings(), call_timeout_s=timeout_s, meter=meter
        )

    async def write(self, place: tuple[str, str], uid: str, *, before: str, after: str) -> str:
        """See PodNotes."""
        path = PODS.path(*place)
        tests = [{"op": "test", "path": "/metadata/uid", "value": uid}]
        tests.append({"op": "test", "path": _PATH, "value": before or None})  # type: ignore[dict-item]  # null: absent
        body = msgspec.json.encode([*tests, {"op": "add", "path": _PATH, "value": after}])
        try:
            await self._server.call(
                "PATCH", path, priority=Priority.UPKEEP, body=body, content_type=_JSON_PATCH, retry_conflict=False
            )
        except ApiFailure as failure:
            if failure.code != _REJECTED:
                raise unavailable(failure, "noting a permit") from failure
            return await self._read(path, uid)
        return after

    async def _read(self, path: str, uid: str) -> str:
        try:
            pod = decode(SCALED_POD, await self._server.call("GET", path, priority=Priority.UPKEEP))
        except ApiFailure as failure:
            raise unavailable(failure, "reading a noted permit") from failure
        if pod.metadata.uid != uid:
            raise BackendUnavailable("the pod is gone; another one has its name")
        return (pod.metadata.annotations or {}).get(PERMIT_ANNOTATION, "")

    async def close(self) -> None:
        """Close every connection."""
        await self._server.close()
