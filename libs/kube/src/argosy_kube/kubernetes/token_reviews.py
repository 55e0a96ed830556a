"""Whose token a service account's is, as its cluster's API server says.

Source: Kubernetes API reference; `docs/security.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from argosy_core.errors import BackendUnavailable
from argosy_kube.kubernetes.api.answers import ApiFailure
from argosy_kube.kubernetes.api.credentials import Credentials, CredentialSource
from argosy_kube.kubernetes.api.rate_limiter import Priority
from argosy_kube.kubernetes.api.transport import ApiServer, unavailable
from argosy_kube.kubernetes.settings import KubernetesSettings

__all__ = ["ReviewedAccount", "TokenReviews"]

_PATH: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_SETTINGS: Final = KubernetesSettings(requests_per_s=50.0, burst_count=50, concurrency=8)


class _User(msgspec.Struct):
    username: str = ""
    groups: list[str] = []


class _Status(msgspec.Struct):
    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)
    audiences: list[str] = []


class _Review(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewedAccount:
    """Whom a token names."""

    name: str
    """Name, as in `system:serviceaccount:NAMESPACE:NAME`."""
    groups: tuple[str, ...]
    """Groups."""


class TokenReviews:
    """Reviews tokens at one API server; 50 in a second at most. Needs the right to create TokenReviews.

    Args:
        source: Who we are, and where it is.
        timeout_s: How long a review may take with all tries.
    """

    def __init__(self, source: CredentialSource, *, timeout_s: float) -> None:
        """Connect to nothing yet."""
        # A call takes at most 45 % of what the adapter is given.
        self._server = ApiServer(Credentials(source), settings=_SETTINGS, call_timeout_s=timeout_s / 0.45)

    async def review(self, token: str, audiences: Sequence[str]) -> ReviewedAccount | None:
        """Return whom a token names; None if it does not count, or is for others than these audiences.

        Raises:
            BackendUnavailable: The API server cannot be asked, or does not let us ask.
        """
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": list(audiences)},
        }
        try:
            answer = await self._server.call("POST", _PATH, priority=Priority.READ, body=msgspec.json.encode(body))
            status = msgspec.json.decode(answer, type=_Review).status
        except ApiFailure as failure:
            raise unavailable(failure, "reviewing a token") from failure
        except msgspec.MsgspecError as cause:
            raise BackendUnavailable("the API server answered no review of a token") from cause
        # An API server that knows no audiences answers none, and the token could be anybody's.
        if not status.authenticated or not set(status.audiences) & set(audiences):
            return None
        return ReviewedAccount(name=status.user.username, groups=tuple(status.user.groups))

    async def close(self) -> None:
        """Close every connection."""
        await self._server.close()
