"""Tokens of a Kubernetes' service accounts: who they name, as their cluster says.

What was reviewed is known by its hash for some seconds. A token that does not even say that it is a service account's
is not shown to the cluster.

Source: `docs/security.md`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from argosy.channel_credentials import hash_token
from argosy.issuer import unverified_claims
from argosy_core.access import Principal, is_subject
from argosy_core.errors import BackendUnavailable, NotAuthenticated
from argosy_kube.kubernetes.token_reviews import ReviewedAccount
from argosy_runtime.access.cache import BoundedCache
from argosy_runtime.access.guard import ServiceAccountSettings
from argosy_runtime.logs import get_logger

__all__ = ["Reviews", "ServiceAccountTokens"]

_ACCOUNT: Final = "system:serviceaccount:"
_MAX_KNOWN: Final = 10_000
_MAX_WAITING: Final = 64
_REFUSED_KEEP_S: Final = 2.0


class Reviews(Protocol):
    """What is needed of a cluster."""

    async def review(self, token: str, audiences: Sequence[str]) -> ReviewedAccount | None:
        """Return whom a token names; None if it does not count."""


class ServiceAccountTokens:
    """Says whose token one of a service account is.

    Args:
        settings: What is expected of tokens.
        reviews: Asks the cluster.
        clock_s: Seconds since the Unix epoch.
    """

    def __init__(
        self, settings: ServiceAccountSettings, reviews: Reviews, *, clock_s: Callable[[], float] = time.time
    ) -> None:
        """Ask nobody yet."""
        self._settings = settings
        self._reviews = reviews
        self._clock_s = clock_s
        self._known: BoundedCache[Principal] = BoundedCache(_MAX_KNOWN)
        self._refused: BoundedCache[bool] = BoundedCache(_MAX_KNOWN)
        self._waiting = 0
        self._failed = False

    async def find(self, token: str) -> Principal | None:
        """Return whose token it is; None if it does not say that it is a service account's.

        Raises:
            NotAuthenticated: The cluster does not know it, or it is for others.
            BackendUnavailable: The cluster cannot be asked, or too many tokens wait.
        """
        name, now_s = hash_token(token), self._clock_s()
        found = self._known.get(name, now_s)
        if found is not None:
            return found
        claims = unverified_claims(token)
        if not str(claims.get("sub")).startswith(_ACCOUNT):
            return None
        if not self._refused.get(name, now_s):
            account = await self._review(token)
            if account is not None and account.name.startswith(_ACCOUNT):
                principal = self._principal(account)
                end_s = claims.get("exp")
                kept_s = now_s + self._settings.keep_s
                self._known.put(name, principal, min(kept_s, end_s) if isinstance(end_s, (int, float)) else kept_s)
                return principal
            self._refused.put(name, True, now_s + _REFUSED_KEEP_S)
        raise NotAuthenticated("the cluster of the service account does not let the token count for this installation")

    async def _review(self, token: str) -> ReviewedAccount | None:
        if self._waiting >= _MAX_WAITING:
            raise BackendUnavailable("too many new tokens wait to be reviewed; try again")
        self._waiting += 1
        try:
            account = await self._reviews.review(token, self._settings.audiences)
        except BackendUnavailable as cause:
            if not self._failed:
                get_logger().error("tokens of service accounts cannot be reviewed", reason=cause.message)
            self._failed = True
            raise BackendUnavailable("tokens of service accounts cannot be reviewed now; try again") from cause
        finally:
            self._waiting -= 1
        self._failed = False
        return account

    def _principal(self, account: ReviewedAccount) -> Principal:
        prefix = self._settings.prefix
        groups = tuple(prefix + group for group in account.groups if is_subject(f"group:{prefix}{group}"))
        return Principal(name=prefix + account.name, groups=groups)
