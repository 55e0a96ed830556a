"""A cluster's process fetches its own certificate with an invitation, and renews it before it ends.

The key is made here and never leaves its folder. The certificate is one file, replaced in one step, so whoever opens a
channel reads a pair that fits; what was opened before goes on.

Source: docs/security.md.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

import grpc
import numpy as np

from argosy.api.v1 import access_pb2, access_pb2_grpc
from argosy.channel_credentials import INVITATION_PREFIX, hash_token
from argosy.openssl import OpensslError, certificate_times, make_request
from argosy_core.access import ClusterPart
from argosy_core.errors import ArgosyError, BackendUnavailable, InvalidRequest
from argosy_runtime.channel import Backoff, ChannelCredentials, call_metadata, open_channel
from argosy_runtime.errors import from_rpc_error
from argosy_runtime.lifecycle import Lifecycle
from argosy_runtime.logs import get_logger

__all__ = ["JoinSettings", "JoiningConfig", "Membership", "join_cluster"]

_LEFT: Final = 1 / 3
_LOOK_S: Final = 3600.0
_CALL_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSettings:
    """How a cluster's process gets its own certificate."""

    folder: str = ""
    """Folder in which the process keeps its key and its certificate; it must outlive the process, because an invitation
    is good once. Empty fetches none, and `credentials` are used as they are."""
    token_file: str = ""
    """File with the invitation of `argosy cluster invite`; read when there is no certificate, or the file's token is
    another than the last one."""
    address: str = ""
    """host:port of an API replica that asks for no client certificate, where the invitation is shown."""


class JoiningConfig(Protocol):
    """What is needed of the configuration of a cluster's process."""

    @property
    def cluster(self) -> str:
        """Name of the cluster."""

    @property
    def server_addresses(self) -> tuple[str, ...]:
        """Where certificates are renewed."""

    @property
    def join(self) -> JoinSettings:
        """How a certificate is fetched."""

    @property
    def credentials(self) -> ChannelCredentials:
        """How servers are known, and who calls if no certificate is fetched."""


class Membership:
    """The certificate of one process of a cluster.

    Args:
        settings: Where it is kept and fetched.
        credentials: How servers are known.
        cluster: Name of the cluster.
        part: Which of its processes this is.
        server_addresses: Where certificates are renewed.
        clock_s: Seconds since the Unix epoch.
    """

    def __init__(
        self,
        settings: JoinSettings,
        credentials: ChannelCredentials,
        *,
        cluster: str,
        part: ClusterPart,
        server_addresses: Sequence[str],
        clock_s: Callable[[], float] = time.time,
    ) -> None:
        """Do nothing yet."""
        folder = Path(settings.folder).expanduser()
        self._settings = settings
        self._cluster = cluster
        self._part = part
        self._addresses = server_addresses
        self._clock_s = clock_s
        self._key, self._certificate = folder / f"{part}.key", folder / f"{part}.pem"
        self._used = folder / f"{part}.invitation"
        self._servers = replace(credentials, certificate_file="", key_file="", token_file="")
        self._log = get_logger(cluster=cluster)

    @property
    def credentials(self) -> ChannelCredentials:
        """How servers are known, and how this process proves who it is once it has joined."""
        return replace(self._servers, certificate_file=str(self._certificate), key_file=str(self._key))

    async def join(self, cluster_uid: str) -> None:
        """Return once there is a certificate; servers that cannot be reached are tried again.

        Raises:
            InvalidRequest: There is neither a certificate that is good nor an invitation, or no folder to keep one.
            ArgosyError: A server refuses the invitation.
        """
        backoff = Backoff(rng=np.random.default_rng())
        while not await self._is_member():
            try:
                await self._use_invitation(cluster_uid)
            except BackendUnavailable as error:
                self._log.warning("cannot join yet", reason=error.message)
                await asyncio.sleep(backoff.next_wait_s())

    async def keep(self, cluster_uid: str) -> None:
        """Renew the certificate whenever a third of its time is left, until cancelled."""
        backoff = Backoff(rng=np.random.default_rng(), first_s=1.0, most_s=60.0)
        while True:
            await asyncio.sleep(min(await self.due_in_s(), _LOOK_S))
            if await self.due_in_s() > 0:
                continue
            try:
                await self.renew(cluster_uid)
                backoff.reset()
            except ArgosyError as error:
                self._log.error("the certificate cannot be renewed", reason=error.message)
                await asyncio.sleep(backoff.next_wait_s())

    async def due_in_s(self) -> float:
        """Return in how many seconds the certificate is to be renewed; 0 if it is due."""
        begin_s, end_s = await asyncio.to_thread(certificate_times, self._certificate.read_bytes())
        return max(0.0, end_s - (end_s - begin_s) * _LEFT - self._clock_s())

    async def renew(self, cluster_uid: str) -> None:
        """Replace the certificate by a new one for the same key, from the first server that gives one.

        Raises:
            ArgosyError: None does; the last one's answer.
        """
        failure: ArgosyError = BackendUnavailable("no server is named")
        for address in self._addresses:
            try:
                await self._fetch(address, self.credentials, cluster_uid)
            except ArgosyError as error:
                failure = error
            else:
                self._log.info("certificate renewed", peer=str(self._part))
                return
        raise failure

    async def _is_member(self) -> bool:
        """Return whether there is a certificate that is good, and no newer invitation."""
        try:
            _, end_s = await asyncio.to_thread(certificate_times, self._certificate.read_bytes())
        except (OSError, OpensslError):
            return False
        token = self._read_token()
        used = self._used.read_text().strip() if self._used.exists() else ""
        return end_s > self._clock_s() and (not token or hash_token(token) == used)

    async def _use_invitation(self, cluster_uid: str) -> None:
        token = self._read_token()
        if not token.startswith(INVITATION_PREFIX) or not self._settings.address:
            raise InvalidRequest(
                f"the {self._part} of cluster {self._cluster} has no certificate in {self._settings.folder!r} that is"
                " good; name an invitation of `argosy cluster invite` by join.token_file, and join.address"
            )
        credentials = replace(self._servers, token_file=self._settings.token_file)
        await self._fetch(self._settings.address, credentials, cluster_uid)
        self._used.write_text(hash_token(token) + "\n")
        self._log.info("joined", peer=str(self._part))

    async def _fetch(self, address: str, credentials: ChannelCredentials, cluster_uid: str) -> None:
        try:
            self._key.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            request = await asyncio.to_thread(make_request, f"{self._part} of {self._cluster}", self._key)
        except (OSError, OpensslError) as cause:
            raise InvalidRequest(f"no key can be made in {self._settings.folder!r}: {cause}") from cause
        channel = open_channel(address, credentials)
        try:
            stub = access_pb2_grpc.AccessServiceStub(channel)
            answer = await stub.JoinCluster(
                access_pb2.JoinClusterRequest(
                    certificate_request=request.decode("ascii"), part=str(self._part), cluster_uid=cluster_uid
                ),
                metadata=call_metadata(address, credentials),
                timeout=_CALL_S,
            )
        except grpc.RpcError as cause:
            raise from_rpc_error(cause) from cause
        finally:
            await channel.close()
        fresh = self._certificate.with_suffix(".new")
        fresh.write_text(answer.certificate, encoding="ascii")
        fresh.replace(self._certificate)

    def _read_token(self) -> str:
        if not self._settings.token_file:
            return ""
        try:
            return Path(self._settings.token_file).expanduser().read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            return ""  # taken away after it was used


async def join_cluster(
    life: Lifecycle, config: JoiningConfig, part: ClusterPart, cluster_uid: str
) -> ChannelCredentials:
    """Return by what a process proves who it is: what is configured, or a certificate that its life keeps from now on.

    Raises:
        ArgosyError: It cannot join.
    """
    if not config.join.folder:
        return config.credentials
    addresses = config.server_addresses
    membership = Membership(
        config.join, config.credentials, cluster=config.cluster, part=part, server_addresses=addresses
    )
    await membership.join(cluster_uid)
    life.spawn(membership.keep(cluster_uid), name="certificate")
    return membership.credentials
