"""The pods that an installation leaves behind: its finalizer would keep them, and their namespaces, for ever."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

from argosy_core.reconcile.rendering import INSTALLATION_LABEL
from argosy_kube.kubernetes.api.answers import KEYS_LIST
from argosy_kube.kubernetes.api.documents import LIST_OF_KEYS, KeyDocument
from argosy_kube.kubernetes.api.listing import read_list
from argosy_kube.kubernetes.api.resources import PODS
from argosy_kube.kubernetes.api.transport import ApiServer
from argosy_kube.kubernetes.ours.ownership import STORED_FINALIZER

__all__ = ["list_kept"]


async def list_kept(server: ApiServer, installation: str) -> list[KeyDocument]:
    """Return the pods of an installation that its finalizer keeps.

    Raises:
        ApiFailure: They cannot be listed.
    """
    pods: list[KeyDocument] = []
    found: list[KeyDocument] = []

    def begin() -> Callable[[list[KeyDocument]], None]:
        found.clear()
        return found.extend

    query = f"labelSelector={quote(f'{INSTALLATION_LABEL}={installation}', safe='')}"
    for path in PODS.paths(server.settings.namespaces):
        await read_list(server, path, LIST_OF_KEYS, begin=begin, query=query, accept=KEYS_LIST)
        pods += found
    return [pod for pod in pods if STORED_FINALIZER in (pod.metadata.finalizers or ())]
