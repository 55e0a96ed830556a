"""Where a pool's leader is: in this process, or one hop away.

Source: design section 3, "Replicas forward calls that need the leader's memory ... one hop".
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypedDict, TypeVar

import grpc

from argosy_core.errors import BackendUnavailable, NotFound, Resource
from argosy_runtime.access.guard import CALLER
from argosy_runtime.channel import ChannelCredentials, call_metadata, open_channel
from argosy_server.api.calls import Context
from argosy_server.api.leadership.leader_view import LeaderRoleLike, LeaderView
from argosy_server.api.store_threads import StoreThreads

__all__ = ["FORWARDED_KEY", "LeaderRouter", "PoolStore", "is_forwarded"]

Request = TypeVar("Request")
Answer = TypeVar("Answer")

FORWARDED_KEY: Final = "argosy-forwarded"
"""Metadata key of a call that came from another replica, and so goes no further."""
_KEEP_S: Final = 1.0
_MOST_NAMED: Final = 20
_RETRY_S: Final = 1.0  # a leader that resigns is followed within a second, one that dies within seconds


class PoolStore(Protocol):
    """What routing needs of the store; blocks."""

    def pool_leader(self, pool: str) -> tuple[str, int] | None:
        """Return (address, epoch) of a pool's leader, None if it has none."""

    def list_pools(self) -> list[str]:
        """Return the names of the pools that were ever led."""


class _Details(TypedDict):
    reason: str
    resource: Resource
    retry_delay_s: float


@dataclass(slots=True)
class _Route:
    address: str
    expire_s: float


class LeaderRouter:
    """Finds the leader of a pool.

    Args:
        store: Where leaders are written down.
        threads: Where blocking calls run.
        role: The leader role of this process, if it has one.
        timeout_s: How long a forwarded call may take.
        credentials: How this server proves to others who it is.
        clock_s: Monotonic clock.
    """

    def __init__(
        self,
        store: PoolStore,
        threads: StoreThreads,
        *,
        role: LeaderRoleLike | None,
        timeout_s: float,
        credentials: ChannelCredentials | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start knowing nobody."""
        self._store = store
        self._threads = threads
        self._role = role
        self._clock_s = clock_s
        self._credentials = credentials or ChannelCredentials()
        self.timeout_s = timeout_s
        """How long a forwarded call may take."""
        self._routes: dict[str, _Route] = {}
        self._channels: dict[str, grpc.aio.Channel] = {}

    def view(self, pool: str) -> LeaderView | None:
        """Return the leader's view if this process leads the pool."""
        return self._role.view(pool) if self._role is not None else None

    async def forward(
        self,
        pool: str,
        call: Callable[[grpc.aio.Channel], grpc.aio.UnaryUnaryMultiCallable[Request, Answer]],
        request: Request,
        *,
        context: Context | None,
        is_named: bool = False,
    ) -> Answer:
        """Return the leader's answer to a unary call.

        Args:
            pool: Whose leader.
            call: Makes the method out of a channel, as in `lambda c: JobServiceStub(c).ExplainJob`.
            request: The request as it came.
            context: The call's context; None for a call that this process makes of its own accord.
            is_named: Whether the caller has named the pool, and may have mistaken it.

        Raises:
            BackendUnavailable: There is no leader now, it cannot be reached, or the call was forwarded already.
            NotFound: The caller has named a pool that was never led, and there are others.
            grpc.RpcError: The leader's own answer, if it is an error.
        """
        try:
            channel = await self.channel(pool, context)
        except BackendUnavailable as error:
            known = await self._threads.run(self._store.list_pools) if is_named and error.reason == "NO_LEADER" else []
            if not known or pool in known:
                raise
            text = f"there is no pool {pool!r}; there is {', '.join(known[:_MOST_NAMED])}"
            raise NotFound(text, resource=Resource(kind="Pool", name=pool)) from error
        metadata = self.metadata(pool, is_own=context is None)
        try:
            return await call(channel)(request, timeout=self.timeout_s, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            self.lost(pool, error)
            raise

    async def channel(self, pool: str, context: Context | None) -> grpc.aio.Channel:
        """Return a channel to a pool's leader; it stays the router's.

        Raises:
            BackendUnavailable: There is no leader now, or the call was forwarded already.
        """
        if is_forwarded(context):
            raise BackendUnavailable(
                f"the leader of pool {pool!r} is changing; try again in a few seconds", **_no_leader(pool)
            )
        route = self._routes.get(pool)
        if route is None or route.expire_s <= self._clock_s():
            leader = await self._threads.run(self._store.pool_leader, pool)
            if leader is None or not leader[0]:
                raise BackendUnavailable(
                    f"pool {pool!r} has no leader now; try again in a few seconds", **_no_leader(pool)
                )
            route = self._routes[pool] = _Route(leader[0], self._clock_s() + _KEEP_S)
        channel = self._channels.get(route.address)
        if channel is None:
            channel = self._channels[route.address] = open_channel(route.address, self._credentials)
        return channel

    def metadata(self, pool: str, *, is_own: bool = False) -> tuple[tuple[str, str], ...]:
        """Return what a forwarded call carries: that it is one, who forwards it, and for whom.

        Args:
            pool: Whose leader is called; its channel was asked for before.
            is_own: Whether this process calls of its own accord, though on the way of somebody's call.

        Raises:
            BackendUnavailable: This server's own token cannot be read now.
        """
        own = call_metadata(self._routes[pool].address, self._credentials)
        acting = () if is_own else CALLER.get().acting_metadata()
        return ((FORWARDED_KEY, "1"), *own, *acting)

    def lost(self, pool: str, error: grpc.aio.AioRpcError) -> None:
        """Look the leader up again at the next call if this error says that it cannot be reached.

        Raises:
            BackendUnavailable: The leader does not know this server, which is no fault of whoever called here.
        """
        if error.code() == grpc.StatusCode.UNAUTHENTICATED:
            raise BackendUnavailable(
                f"the leader of pool {pool!r} does not know this server; its operator must set credentials.token_file",
                reason="UNKNOWN_SERVER",
                resource=Resource(kind="Pool", name=pool),
            ) from error
        if error.code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}:
            self._routes.pop(pool, None)

    async def close(self) -> None:
        """Close the channels."""
        for channel in self._channels.values():
            await channel.close()
        self._channels.clear()


def is_forwarded(context: Context | None) -> bool:
    """Return whether a call came from another replica."""
    return context is not None and any(key == FORWARDED_KEY for key, _ in context.invocation_metadata() or ())


def _no_leader(pool: str) -> _Details:
    return {"reason": "NO_LEADER", "resource": Resource(kind="Pool", name=pool), "retry_delay_s": _RETRY_S}
