"""HTTP to an API server: one call, a call that is repeated until it is answered, and a stream.

What this module promises: nothing of aiohttp leaves it, every wait has an end, and a call that may have been applied is
repeated only if repeating it is harmless, which is true of all calls that are made here: creates have names, deletes
uids, patches are absolute.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Final

import aiohttp
import numpy as np

from argosy_core.errors import ArgosyError, BackendUnavailable
from argosy_kube.kubernetes.api.answers import CONFLICT, UNAUTHORIZED, ApiFailure, read_failure
from argosy_kube.kubernetes.api.credentials import Credentials
from argosy_kube.kubernetes.api.rate_limiter import Priority, RateLimiter
from argosy_kube.kubernetes.settings import KubernetesSettings
from argosy_kube.meter import NO_METER, ApiMeter

__all__ = ["BROKEN", "JSON", "ApiServer", "unavailable"]

JSON: Final = "application/json"
BROKEN: Final = (aiohttp.ClientError, OSError, TimeoutError, ValueError, RuntimeError)  # the last: closed meanwhile
"""What a broken connection raises; nothing of it leaves the adapter."""
_OK: Final = 300
_THROTTLED: Final = frozenset({429, 503})
_CONNECT_S: Final = 10.0
_CREDENTIALS_S: Final = 60.0
_TRY_RATIO: Final = 0.33
_LIMIT_RATIO: Final = 0.45
_BUFFER_BYTES: Final = 1 << 20


@dataclass(slots=True)
class _Call:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes | None
    priority: Priority
    retry_conflict: bool


class ApiServer:
    """One API server, reached with one set of credentials.

    Args:
        credentials: Who we are, and where it is.
        settings: How it is used.
        call_timeout_s: How long a call of the port may take; one call to the API server takes at most 45 % of it with
            all its tries, and one try a third.
        rng: Spreads retries.
        meter: Whom calls are told to.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        settings: KubernetesSettings,
        call_timeout_s: float,
        rng: np.random.Generator | None = None,
        meter: ApiMeter = NO_METER,
    ) -> None:
        """Connect to nothing yet."""
        self._credentials = credentials
        self.settings = settings
        """How it is used."""
        self.meter = meter
        """Whom calls are told to."""
        self._limit_s = call_timeout_s * _LIMIT_RATIO
        self._timeout = aiohttp.ClientTimeout(total=call_timeout_s * _TRY_RATIO, sock_connect=_CONNECT_S)
        self._rng = rng if rng is not None else np.random.default_rng()
        self._session: aiohttp.ClientSession | None = None
        self._generation = -1
        self._prefix = ""
        self._proxy: str | None = None
        self._server_name: str | None = None
        self._headers: dict[str, str] = {}
        self._authorization: str | None = None
        self.limiter = RateLimiter(
            per_s=settings.requests_per_s,
            burst_count=settings.burst_count,
            concurrency=settings.concurrency,
            monotonic=time.monotonic,
        )
        """Gives calls leave to begin."""

    async def close(self) -> None:
        """Close every connection; a later call opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
            await asyncio.sleep(0)  # transports close in the loop's next turn

    async def call(
        self,
        method: str,
        path: str,
        *,
        priority: Priority,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        retry_conflict: bool = True,
    ) -> bytes:
        """Make a call, again while it is not answered or the failure may pass, and return the body of the answer.

        Args:
            method: HTTP method.
            path: Path and query.
            priority: Which calls go first.
            body: Body to send.
            content_type: Its type.
            accept: Type of the answer.
            retry_conflict: Make the call again if somebody changed the object meanwhile; not where a conflict tells
                that the object is another.

        Raises:
            ApiFailure: The answer is another than success, or there was none in all tries.
        """
        headers = {"Accept": accept}
        if body is not None:
            headers["Content-Type"] = content_type
        await self._prepare()
        try:
            async with asyncio.timeout(self._limit_s):
                return await self._repeat(_Call(method, path, headers, body, priority, retry_conflict))
        except TimeoutError as cause:
            raise ApiFailure(0, f"the API server did not answer within {self._limit_s:.1f} s") from cause

    async def _prepare(self) -> None:
        """Read credentials before the first call; that may take longer than a call."""
        if self._session is not None:
            return
        try:
            async with asyncio.timeout(_CREDENTIALS_S):
                await self._connect()
        except TimeoutError as cause:
            raise ApiFailure(0, f"credentials were not had within {_CREDENTIALS_S:.0f} s") from cause

    async def _repeat(self, call: _Call) -> bytes:
        settings, tries = self.settings, 0
        while True:
            tries += 1
            try:
                async with self.limiter.turn(call.priority):
                    return await self._try(call)
            except ApiFailure as failure:
                if failure.code == UNAUTHORIZED and tries == 1:
                    await self._renew()
                    continue
                if failure.code == CONFLICT and not call.retry_conflict:
                    raise
                if not failure.may_pass or tries >= settings.try_count:
                    raise
                wait_s = self.retry_wait_s(tries, failure)
            await asyncio.sleep(wait_s)

    @contextlib.asynccontextmanager
    async def stream(
        self, path: str, *, idle_s: float | None, accept: str = JSON
    ) -> AsyncGenerator[aiohttp.StreamReader, None]:
        """Open a stream of bytes; the place among the calls under way is given back once it has begun.

        Args:
            path: Path and query.
            idle_s: Silence after which reading fails, None for never.
            accept: Type of the answer.

        Raises:
            ApiFailure: The answer is another than success, or there was none. Reading may raise what aiohttp raises;
                see BROKEN.
        """
        response = await self._open(path, idle_s=idle_s, accept=accept)
        try:
            yield response.content
        finally:
            transport = response.connection.transport if response.connection is not None else None
            response.close()
            if transport is not None:
                transport.abort()  # nobody waits for the other end of a stream that is not wanted any more

    async def _open(self, path: str, *, idle_s: float | None, accept: str) -> aiohttp.ClientResponse:
        for is_last in (False, True):
            async with self.limiter.turn(Priority.READ):
                session = await self._connect()
                try:
                    async with asyncio.timeout(self._timeout.total):
                        response = await session.get(
                            self._prefix + path,
                            headers={**self._headers, "Accept": accept},
                            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=idle_s),
                            proxy=self._proxy,
                            server_hostname=self._server_name,
                            read_bufsize=_BUFFER_BYTES,
                        )
                    self.meter.call_answered("STREAM", response.status)
                    if response.status < _OK:
                        return response
                    async with response:
                        failure = _failure(response, await response.read())
                except BROKEN as cause:
                    self.meter.call_answered("STREAM", 0)
                    await self._doubt(cause)
                    raise _unanswered(cause) from cause
            self._obey(failure)
            if failure.code != UNAUTHORIZED or is_last:
                raise failure
            await self._renew()
        raise AssertionError("unreachable")

    async def _try(self, call: _Call) -> bytes:
        session = await self._connect()
        if self._authorization is not None:
            call.headers["Authorization"] = self._authorization
        try:
            async with session.request(
                call.method,
                self._prefix + call.path,
                data=call.body,
                headers=call.headers,
                proxy=self._proxy,
                server_hostname=self._server_name,
            ) as response:
                answer = await response.read()
                self.meter.call_answered(call.method, response.status)
                if response.status < _OK:
                    return answer
                failure = _failure(response, answer)
        except BROKEN as cause:
            self.meter.call_answered(call.method, 0)
            await self._doubt(cause)
            raise _unanswered(cause) from cause
        self._obey(failure)
        raise failure

    def _obey(self, failure: ApiFailure) -> None:
        """Let no call begin for as long as the API server asks."""
        if failure.code in _THROTTLED and failure.retry_after_s > 0:
            self.limiter.pause(min(failure.retry_after_s, self.settings.retry_most_s))

    def retry_wait_s(self, failure_count: int, failure: ApiFailure) -> float:
        """Return how long to wait after so many failures in a row, seconds: doubling with chance, or as was asked."""
        settings = self.settings
        grown_s = min(settings.retry_first_s * 2.0 ** (failure_count - 1), settings.retry_most_s)
        return max(grown_s * float(self._rng.uniform(0.5, 1.0)), min(failure.retry_after_s, settings.retry_most_s))

    async def _connect(self) -> aiohttp.ClientSession:
        """Return a session with the credentials of now."""
        try:
            self._authorization = await self._credentials.authorization()
            if self._session is None or self._generation != self._credentials.generation:
                endpoint = await self._credentials.endpoint()
                old, self._session = self._session, None
                self._prefix, self._proxy, self._server_name = endpoint.url, endpoint.proxy, endpoint.server_name
                self._generation = self._credentials.generation
                self._session = aiohttp.ClientSession(
                    connector=aiohttp.TCPConnector(
                        limit=0, ssl=endpoint.ssl_context if endpoint.ssl_context is not None else True
                    ),
                    timeout=self._timeout,
                    headers={"User-Agent": "argosy", "Accept-Encoding": "identity"},
                    cookie_jar=aiohttp.DummyCookieJar(),
                    auto_decompress=True,
                    trust_env=False,
                )
                if old is not None:
                    await old.close()
        except ArgosyError as error:
            raise ApiFailure(0, error.message) from error
        self._headers = {} if self._authorization is None else {"Authorization": self._authorization}
        return self._session

    async def _doubt(self, cause: Exception) -> None:
        """Read the credentials anew if the API server's certificate is not trusted: its authority may have changed."""
        if isinstance(cause, aiohttp.ClientConnectorCertificateError):
            await self._renew()

    async def _renew(self) -> None:
        try:
            await self._credentials.renew(self._generation)
        except ArgosyError as error:
            raise ApiFailure(0, error.message) from error


def _failure(response: aiohttp.ClientResponse, body: bytes) -> ApiFailure:
    headers: Mapping[str, str] = response.headers
    return read_failure(response.status, body, retry_after=headers.get("Retry-After"))


def _unanswered(cause: Exception) -> ApiFailure:
    text = str(cause) or type(cause).__name__
    return ApiFailure(0, f"the API server did not answer: {text}")


def unavailable(failure: ApiFailure, what: str) -> BackendUnavailable:
    """Return what a port's call raises when it could not do its work.

    Args:
        failure: What was answered.
        what: What was being done, as `listing pods`.
    """
    return BackendUnavailable(f"{what}: {failure.message}")
