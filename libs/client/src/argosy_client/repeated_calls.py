"""Calls of one channel, repeated while the server cannot be reached, does not answer in time, or says how long to wait.

Source: design section 2 ("client"); section 5 ("Submit").
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, Self, TypeVar

import grpc

from argosy.channel_credentials import ChannelCredentials, UnusableCredentialsError, open_aio_channel
from argosy_client.backoff import RetryPolicy
from argosy_client.propagation import trace_metadata
from argosy_client.rpc_errors import is_repeatable, to_error
from argosy_core.errors import ArgosyError, InvalidRequest

if TYPE_CHECKING:
    from argosy_client.login import Login

__all__ = ["RepeatedCalls"]

_Request_contra = TypeVar("_Request_contra", contravariant=True)
_Response_co = TypeVar("_Response_co", covariant=True)

_CHANNEL_OPTIONS: Final[list[tuple[str, int | str]]] = [
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.max_send_message_length", 64 << 20),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 15_000),
    ("grpc.http2.ping_timeout_ms", 15_000),  # else a minute, whatever the line above says
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.use_local_subchannel_pool", 1),  # channels of one process are connections of their own
    ("grpc.enable_retries", 0),  # repetition is decided here, where it is known what is idempotent
]


class _Method(Protocol[_Request_contra, _Response_co]):
    def __call__(
        self, request: _Request_contra, *, timeout: float, metadata: tuple[tuple[str, str], ...]
    ) -> Awaitable[_Response_co]: ...


class _Stream(Protocol[_Response_co]):
    def __aiter__(self) -> AsyncIterator[_Response_co]: ...

    def cancel(self) -> bool: ...


class _StreamMethod(Protocol[_Request_contra, _Response_co]):
    def __call__(self, request: _Request_contra, *, metadata: tuple[tuple[str, str], ...]) -> _Stream[_Response_co]: ...


class RepeatedCalls:
    """A channel to one server.

    Args:
        address: host:port of the server.
        timeout_s: Deadline of each attempt of a call.
        retries: How long and how often calls are repeated.
        random: Where jitter comes from.
        credentials: How the server is known, and who calls.
        login: What the user logged in for, whose token is sent instead of the credentials'; refreshed in time.

    Raises:
        InvalidRequest: A file of the credentials cannot be read, or a token would travel in the clear.
    """

    def __init__(
        self,
        address: str,
        *,
        timeout_s: float,
        retries: RetryPolicy | None,
        random: Random | None,
        credentials: ChannelCredentials | None,
        login: Login | None,
    ) -> None:
        """Prepare the channel; nothing is dialled before the first call."""
        self.address = address
        """host:port of the server."""
        self._timeout_s = timeout_s
        self._retries = retries or RetryPolicy()
        self._random = random or Random()
        self._credentials = credentials or ChannelCredentials()
        self._login = login
        try:
            self._identity = () if login is not None else self._credentials.metadata(address)
            self._channel = open_aio_channel(address, self._credentials, _CHANNEL_OPTIONS)
        except UnusableCredentialsError as cause:
            raise InvalidRequest(str(cause)) from cause
        self.retry_count = 0
        """Attempts repeated since the client was made."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the channel; calls under way end with an error."""
        await self._channel.close()

    async def identity(self) -> tuple[tuple[str, str], ...]:
        """Return what each call carries to say who calls; the token of a login is refreshed if it ends soon.

        Raises:
            NotAuthenticated: Nobody is logged in, or the login has ended.
            BackendUnavailable: The token has ended, and the issuer cannot be asked for another.
            InvalidRequest: The token would travel in the clear.
        """
        if self._login is not None and self._login.is_due:
            token = await asyncio.to_thread(self._login.token)
            try:
                self._identity = self._credentials.metadata(self.address, token)
            except UnusableCredentialsError as cause:
                raise InvalidRequest(str(cause)) from cause
        return self._identity

    def can_identify_anew(self) -> bool:
        """Return whether a call that was refused for its token would carry another one now."""
        return self._login is not None and self._login.is_due

    async def stream(
        self, method: _StreamMethod[_Request_contra, _Response_co], request: _Request_contra
    ) -> AsyncGenerator[_Response_co]:
        """Give what a stream answers, once."""
        stream = method(request, metadata=await self.identity())
        try:
            async for response in stream:
                yield response
        except grpc.RpcError as error:
            raise to_error(error) from None
        finally:
            stream.cancel()

    async def call(
        self, method: _Method[_Request_contra, _Response_co], request: _Request_contra, *, repeat: bool = True
    ) -> _Response_co:
        """Make a call; repeat it while it fails for want of the server and `repeat` allows it."""
        started_s = time.monotonic()
        failed_count = 0
        metadata = (*await self.identity(), *trace_metadata())
        while True:
            try:
                return await method(request, timeout=self._timeout_s, metadata=metadata)
            except grpc.RpcError as error:
                failure = to_error(error)
                if not repeat or not is_repeatable(error):
                    raise failure from None
                failed_count += 1
                if not await self.pause(failed_count, time.monotonic() - started_s, failure):
                    raise failure from None

    async def pause(self, failed_count: int, elapsed_s: float, failure: ArgosyError | None) -> bool:
        """Wait before the next attempt, at least as long as the server asked; return False if there shall be none."""
        delay_s = self._retries.delay_s(failed_count, self._random)
        asked_s = (failure.retry_delay_s if failure is not None else None) or 0.0
        if elapsed_s >= self._retries.total_s or elapsed_s + asked_s > self._retries.total_s:
            return False
        self.retry_count += 1
        await asyncio.sleep(max(delay_s, asked_s))
        return True
