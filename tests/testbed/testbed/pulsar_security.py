"""What a Pulsar broker needs to demand TLS and tokens, and what its clients need to be let in."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from argosy_testkit.tls_endpoint import Certificates

__all__ = ["HOST", "Security"]

HOST: Final = "localhost"
"""Name that the certificate is for."""
_ROLE: Final = "admin"
_PACKAGE: Final = "org.apache.pulsar"


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """Certificates and keys of one broker that lets nobody in without a token."""

    authority: Path
    """PEM file of the authority that vouches for the broker."""
    certificate: Path
    """The broker's certificate, for `HOST`."""
    key: Path
    """Its key."""
    secret: Path
    """The key that signs tokens."""
    token: Path
    """File with a token of the role that may do everything; the broker itself uses it, too."""

    @classmethod
    def make(cls, directory: Path) -> Self:
        """Make all files in a directory of their own."""
        directory.mkdir(parents=True, exist_ok=True)
        certificates = Certificates(directory, "authority")
        certificate, key = certificates.issue(HOST)
        secret, token = directory / "token.key", directory / "admin.jwt"
        secret.write_bytes(secrets.token_bytes(32))
        made = cls(authority=certificates.authority, certificate=certificate, key=key, secret=secret, token=token)
        token.write_text(made.sign(_ROLE), encoding="ascii")
        for path in made.files:
            path.chmod(0o644)  # another account may run the broker, if it is a container
        return made

    def sign(self, role: str) -> str:
        """Return a token of a role: a JSON Web Token, signed by HMAC with SHA-256."""
        signed = f"{_packed({'alg': 'HS256', 'typ': 'JWT'})}.{_packed({'sub': role})}"
        signature = hmac.digest(self.secret.read_bytes(), signed.encode("ascii"), hashlib.sha256)
        return f"{signed}.{_base64(signature)}"

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file that the broker reads."""
        return (self.authority, self.certificate, self.key, self.secret, self.token)

    def settings(self, place: Callable[[Path], str]) -> dict[str, str]:
        """Return the broker's settings.

        Args:
            place: Says where the broker finds a file.
        """
        return {
            "tlsCertificateFilePath": place(self.certificate),
            "tlsKeyFilePath": place(self.key),
            "tlsTrustCertsFilePath": place(self.authority),
            "authenticationEnabled": "true",
            "authorizationEnabled": "true",
            "authenticationProviders": f"{_PACKAGE}.broker.authentication.AuthenticationProviderToken",
            "tokenSecretKey": f"file://{place(self.secret)}",
            "superUserRoles": _ROLE,
            "brokerClientTlsEnabled": "true",
            "brokerClientTrustCertsFilePath": place(self.authority),
            "brokerClientAuthenticationPlugin": f"{_PACKAGE}.client.impl.auth.AuthenticationToken",
            "brokerClientAuthenticationParameters": f"file://{place(self.token)}",
        }


def _packed(document: dict[str, str]) -> str:
    return _base64(json.dumps(document).encode())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")
