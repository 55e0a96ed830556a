"""Who a client's certificate names, once TLS has verified it.

Processes of this installation carry a URI `spiffe://INSTALLATION/server` or `spiffe://INSTALLATION/cluster/NAME/PART`,
the part left out for a process that is all of them. Anybody else is known by a URI `spiffe://INSTALLATION/user/NAME`,
or by the certificate's common name.

Source: design section 5, "Who is who".
"""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from argosy_core.access import ClusterPart, Principal, is_subject
from argosy_core.errors import NotAuthenticated
from argosy_core.job.reading.findings import is_dns_name

__all__ = ["certificate_fingerprint", "certificate_principal"]

_SCHEME: Final = "spiffe://"


def certificate_principal(auth_context: Mapping[str, Iterable[bytes]], *, installation: str) -> Principal | None:
    """Return whom a peer's certificate names; None if the peer showed none.

    Args:
        auth_context: What gRPC says of the peer.
        installation: Name of this installation: identities of others are nobody here.

    Raises:
        NotAuthenticated: It names nobody, or somebody of another installation.
    """
    shown = next(iter(auth_context.get("x509_pem_cert", ())), None)
    if shown is None:
        return None
    identities = [text for text in _texts(auth_context, "peer_spiffe_id") if text] or [
        text for text in _texts(auth_context, "x509_subject_alternative_name") if text.startswith(_SCHEME)
    ]
    if identities:
        principal = _process(identities[0], installation)
        return replace(principal, certificate=certificate_fingerprint(shown)) if principal.cluster else principal
    for name in _texts(auth_context, "x509_common_name"):
        if is_subject(f"user:{name}"):
            return Principal(name=name)
    raise NotAuthenticated("the client's certificate has neither a SPIFFE identity nor a common name that is a name")


def certificate_fingerprint(pem: bytes) -> str:
    """Return the SHA-256 of a certificate, PEM, in small hexadecimal digits.

    Raises:
        NotAuthenticated: It is none.
    """
    try:
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem.decode("ascii").strip())).hexdigest()
    except ValueError as cause:
        raise NotAuthenticated("the client's certificate cannot be read") from cause


def _process(identity: str, installation: str) -> Principal:
    match identity.removeprefix(_SCHEME).split("/"):
        case [trust_domain, *_] if trust_domain != installation:
            raise NotAuthenticated(f"the client's certificate is of another installation than {installation}")
        case [_, "server"]:
            return Principal(name="server", is_server=True)
        case [_, "cluster", cluster, *parts] if is_dns_name(cluster) and (
            len(parts) < 2 and {*parts} <= {*ClusterPart}
        ):
            return Principal(name=cluster, cluster=cluster, part=ClusterPart(parts[0]) if parts else None)
        case [_, "user", name] if is_subject(f"user:{name}"):
            return Principal(name=name)
    raise NotAuthenticated("the SPIFFE identity of the client's certificate is none of this installation's")


def _texts(auth_context: Mapping[str, Iterable[bytes]], key: str) -> list[str]:
    return [value.decode("utf-8", "replace") for value in auth_context.get(key, ())]
