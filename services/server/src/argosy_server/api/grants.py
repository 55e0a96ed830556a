"""What callers may do: the settings' administrators, and the rows of grants, remembered for seconds.

Source: design section 5, "Who is who".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from argosy_core.access import Grant, Permissions, Principal, Role, permissions_of
from argosy_core.errors import NotAuthenticated
from argosy_runtime.access.guard import AccessSettings
from argosy_server.api.store_threads import StoreThreads

__all__ = ["GrantedPermissions"]

_MAX_REMEMBERED: Final = 10_000


class GrantStore(Protocol):
    """What is needed of the store; calls block."""

    def grants_of(self, subjects: Sequence[str]) -> Sequence[Grant]:
        """Return what was granted to some subjects."""

    def counted_certificates(self, cluster: str) -> frozenset[str] | None:
        """Return the certificates that speak for a cluster; None if whatever is configured does."""


class GrantedPermissions:
    """Says what principals may do.

    Args:
        store: Where grants are.
        threads: Where blocking calls run.
        settings: Administrators of the settings, and how long grants are remembered.
        clock_s: Monotonic clock.
    """

    def __init__(
        self,
        store: GrantStore,
        threads: StoreThreads,
        settings: AccessSettings,
        *,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Remember nothing yet."""
        self._store = store
        self._threads = threads
        self._keep_s = settings.grants_keep_s
        self._clock_s = clock_s
        self._always = [Grant(subject=subject, queue="", verb=Role.ADMIN) for subject in settings.admins]
        self._known: dict[Principal, tuple[Permissions, float]] = {}
        self._clusters: dict[str, tuple[frozenset[str] | None, float]] = {}

    async def of(self, principal: Principal) -> Permissions:
        """Return what a principal may do.

        Raises:
            NotAuthenticated: It speaks for a cluster by what does not count, or no more.
            BackendUnavailable: The database cannot be reached.
        """
        if principal.cluster and not principal.invitation:
            await self._require_counted(principal)
        if not principal.subjects:
            return Permissions()
        known = self._known.get(principal)
        now_s = self._clock_s()
        if known is not None and now_s < known[1]:
            return known[0]
        grants = await self._threads.look_up(self._store.grants_of, principal.subjects)
        permissions = permissions_of(principal, [*self._always, *grants])
        if len(self._known) >= _MAX_REMEMBERED:
            self._known.clear()
        self._known[principal] = (permissions, now_s + self._keep_s)
        return permissions

    async def _require_counted(self, principal: Principal) -> None:
        now_s = self._clock_s()
        counted, until_s = self._clusters.get(principal.cluster, (None, 0.0))
        if now_s >= until_s:
            counted = await self._threads.look_up(self._store.counted_certificates, principal.cluster)
            if len(self._clusters) >= _MAX_REMEMBERED:
                self._clusters.clear()
            self._clusters[principal.cluster] = counted, now_s + self._keep_s
        if counted is not None and principal.certificate not in counted:
            raise NotAuthenticated(
                f"for cluster {principal.cluster} only certificates speak that were fetched with an invitation; this is"
                " none, or was revoked; ask an administrator for an invitation"
            )

    def forget(self) -> None:
        """Read everything again at its next use, because grants or identities were changed here."""
        self._known.clear()
        self._clusters.clear()
