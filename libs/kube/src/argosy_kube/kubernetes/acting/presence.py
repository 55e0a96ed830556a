"""Whether an object is still the one that has its name."""

from __future__ import annotations

from argosy_kube.kubernetes.api.answers import KEYS_ONLY, MISSING, ApiFailure, decode
from argosy_kube.kubernetes.api.documents import KEYS
from argosy_kube.kubernetes.api.rate_limiter import Priority
from argosy_kube.kubernetes.api.transport import ApiServer
from argosy_kube.kubernetes.ours.places import Place

__all__ = ["is_there"]


async def is_there(server: ApiServer, place: Place, uid: str) -> bool:
    """Return whether an object still has its name; a conflict alone does not say whether another has it.

    Args:
        server: Where.
        place: Where it was.
        uid: Its uid.

    Raises:
        ApiFailure: The API server did not answer.
    """
    path = place.resource.path(place.namespace, place.name)
    try:
        body = await server.call("GET", path, priority=Priority.DELETE, accept=KEYS_ONLY)
    except ApiFailure as failure:
        if failure.code == MISSING:
            return False
        raise
    return decode(KEYS, body).metadata.uid == uid
