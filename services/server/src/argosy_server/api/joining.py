"""Clusters join: invitations, and certificates for those who are invited or renew theirs.

The authority's key is wherever the operator puts it, and used by the program `openssl` alone. Of what a process sends
only its public key gets into its certificate; for which cluster it speaks is known by what it was admitted with.

Source: `proto/argosy/api/v1/access.proto`; docs/security.md.
"""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Final

from argosy.api.v1 import access_pb2
from argosy.channel_credentials import INVITATION_PREFIX, hash_token, new_token
from argosy.openssl import OpensslError, certificate_times, public_key, sign_request
from argosy_core.errors import BackendUnavailable, FieldViolation, InvalidRequest, NotAllowedNow
from argosy_core.job.reading.findings import is_dns_name
from argosy_runtime.access.certificates import certificate_fingerprint
from argosy_runtime.access.guard import CALLER, AccessSettings
from argosy_server.api.codecs.job_codec import timestamp
from argosy_server.api.codecs.names import amount_texts
from argosy_server.api.store_threads import StoreThreads
from argosy_store.replicas.api import ApiStore
from argosy_store.replicas.identities import Certificate

__all__ = ["Joining"]

_LIFETIME_S: Final = 3600.0
_MAX_SIGNING: Final = 4  # programs at once; who waits has a place among the server's calls


class Joining:
    """Invites clusters, signs for their processes, and revokes them.

    Args:
        store: Where invitations and certificates are.
        threads: Where blocking calls run.
        settings: Where the authority is.
    """

    def __init__(self, store: ApiStore, threads: StoreThreads, settings: AccessSettings) -> None:
        """Keep what it needs."""
        self._store = store
        self._threads = threads
        self._settings = settings
        self._signing = asyncio.Semaphore(_MAX_SIGNING)
        self._authority, self._key = (
            Path(name).expanduser() for name in (settings.authority_file, settings.authority_key_file)
        )

    async def invite(self, request: access_pb2.InviteClusterRequest) -> access_pb2.InviteClusterResponse:
        """Answer a token, of which only the hash is kept.

        Raises:
            InvalidRequest: The name is none.
            NotAllowedNow: This server cannot sign.
        """
        _check_name(request.name)
        self._require_authority()
        token = new_token(INVITATION_PREFIX)
        lifetime_s = request.lifetime.ToTimedelta().total_seconds() if request.HasField("lifetime") else _LIFETIME_S
        expire_time_us = await self._threads.run(
            self._store.invite_cluster,
            request.name,
            hash_token(token),
            lifetime_s=lifetime_s,
            max_capacity=amount_texts(request.max_capacity, field="max_capacity"),
        )
        return access_pb2.InviteClusterResponse(token=token, expire_time=timestamp(expire_time_us))

    async def join(self, request: access_pb2.JoinClusterRequest) -> access_pb2.JoinClusterResponse:
        """Sign for the process that calls.

        Raises:
            InvalidRequest: The certificate request is none, or of another kind of key.
            NotAllowedNow: This server cannot sign, or the cluster's name is bound to another uid.
            NotAuthenticated: The invitation or the certificate has ended.
            NotPermitted: The invitation was used by another process.
        """
        self._require_authority()
        caller = CALLER.get().principal
        if not request.cluster_uid.isprintable():
            raise _wrong("cluster_uid", "must be printable")
        pem, key = await self._sign(request.certificate_request.encode(), caller.cluster, request.part)
        _, end_s = await asyncio.to_thread(certificate_times, pem)
        certificate = Certificate(
            cluster=caller.cluster,
            part=request.part,
            fingerprint=certificate_fingerprint(pem),
            key_hash=hashlib.sha256(key).hexdigest(),
            expire_time_us=end_s * 1_000_000,
        )
        await self._threads.run(
            self._store.add_certificate,
            certificate,
            cluster_uid=request.cluster_uid,
            invitation=caller.invitation,
            renewed=caller.certificate,
        )
        return access_pb2.JoinClusterResponse(
            certificate=pem.decode("ascii"), expire_time=timestamp(certificate.expire_time_us)
        )

    async def revoke(self, request: access_pb2.RevokeClusterRequest) -> access_pb2.RevokeClusterResponse:
        """End what speaks for a cluster.

        Raises:
            InvalidRequest: The name is none.
        """
        _check_name(request.name)
        await self._threads.run(self._store.revoke_cluster, request.name)
        return access_pb2.RevokeClusterResponse()

    async def _sign(self, request: bytes, cluster: str, part: str) -> tuple[bytes, bytes]:
        """Return the certificate and the public key, both PEM."""
        settings = self._settings
        names = f"URI:spiffe://{settings.installation}/cluster/{cluster}/{part}"
        extensions = (
            f"subjectAltName={names}\nbasicConstraints=critical,CA:FALSE\n"
            "keyUsage=critical,digitalSignature\nextendedKeyUsage=clientAuth\n"
        )
        async with self._signing:
            try:
                key = await asyncio.to_thread(public_key, request)
            except OpensslError as cause:
                raise _wrong("certificate_request", "must be a certificate request for a key of P-256") from cause
            try:
                pem = await asyncio.to_thread(
                    sign_request,
                    request,
                    extensions,
                    authority=self._authority,
                    key=self._key,
                    subject=f"{part} of {cluster}",
                    days=settings.certificate_days,
                )
            except OpensslError as cause:
                raise BackendUnavailable("the certificate could not be signed; try again") from cause
        return pem, key

    def _require_authority(self) -> None:
        if not self._settings.authority_file:
            raise NotAllowedNow(
                "this server signs no certificates; name an authority by access.authority_file and"
                " access.authority_key_file"
            )


def _check_name(name: str) -> None:
    if not is_dns_name(name):
        raise _wrong("name", "must be a cluster's name: a lower-case DNS name")


def _wrong(field: str, description: str) -> InvalidRequest:
    violation = FieldViolation(field=field, description=description)
    return InvalidRequest("one field is wrong in the request", violations=(violation,))
