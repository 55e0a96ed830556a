"""How a channel to a server is made: in the clear on one machine, else over TLS, with a token or a certificate; and how
tokens are made."""

import hashlib
import ipaddress
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc

__all__ = [
    "INVITATION_PREFIX",
    "ChannelCredentials",
    "UnusableCredentialsError",
    "hash_token",
    "new_token",
    "open_aio_channel",
]

_PREFIX = "argosy_"  # so that scanners of sources find tokens that were left there
INVITATION_PREFIX = "argosy_invitation_"
"""How tokens begin that invite a cluster."""


def new_token(prefix: str = _PREFIX) -> str:
    """Return a fresh token of 256 random bits."""
    return prefix + secrets.token_urlsafe(32)


def hash_token(token: str) -> str:
    """Return what a file of tokens holds of a token: its SHA-256 in small hexadecimal digits."""
    return hashlib.sha256(token.encode()).hexdigest()


class UnusableCredentialsError(ValueError):
    """A file cannot be read, or a token would travel in the clear."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelCredentials:
    """How a server is known, and how the caller proves who it is. Files are read when a channel is opened."""

    authority_file: str = ""
    """PEM file of the authorities that sign servers' certificates; `system` for those that the machine trusts. Empty
    calls without TLS."""
    server_name: str = ""
    """Name that the server's certificate must have; empty for the name dialled."""
    certificate_file: str = ""
    """PEM file of the caller's own certificate, where the server asks for one."""
    key_file: str = ""
    """PEM file of its key."""
    token_file: str = ""
    """File that holds the token that the caller sends; read for each stream or client. Empty sends none."""

    def metadata(self, address: str, token: str = "") -> tuple[tuple[str, str], ...]:
        """Return what each call to a server carries: the token.

        Args:
            address: host:port of the server: a token travels over TLS, or stays on this machine.
            token: What is sent; else what the file holds.

        Raises:
            UnusableCredentialsError: The file cannot be read, or the token would travel in the clear.
        """
        if not self.token_file and not token:
            return ()
        if not self.authority_file and not _is_loopback(address):
            raise UnusableCredentialsError(
                f"a token would travel to {address} in the clear; name the authority that signs its certificate"
            )
        token = token or _read(self.token_file).decode("ascii", "replace").strip()
        if not token.isascii() or not token.isprintable() or not token:
            raise UnusableCredentialsError(f"file {self.token_file!r} holds no token")
        return (("authorization", f"Bearer {token}"),)


def open_aio_channel(
    address: str, credentials: ChannelCredentials, options: Sequence[tuple[str, int | str]]
) -> grpc.aio.Channel:
    """Return a channel to `host:port`; connecting happens with the first call.

    Raises:
        UnusableCredentialsError: A file cannot be read.
    """
    if not credentials.authority_file:
        return grpc.aio.insecure_channel(address, options=options)
    roots = None if credentials.authority_file == "system" else _read(credentials.authority_file)
    key = _read(credentials.key_file) if credentials.key_file else None
    chain = _read(credentials.certificate_file) if credentials.certificate_file else None
    if credentials.server_name:
        options = [*options, ("grpc.ssl_target_name_override", credentials.server_name)]
    return grpc.aio.secure_channel(
        address, grpc.ssl_channel_credentials(roots, private_key=key, certificate_chain=chain), options=options
    )


def _read(path: str) -> bytes:
    try:
        return Path(path).expanduser().read_bytes()
    except OSError as cause:
        raise UnusableCredentialsError(f"file {path!r} cannot be read: {cause.strerror}") from cause


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    if address.startswith("unix:") or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
