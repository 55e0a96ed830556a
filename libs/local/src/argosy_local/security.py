"""What makes a mesh of this machine a secured one: an authority of its own, certificates, and an administrator's token.

Everything lies in `secrets` below the mesh's directory, for its owner alone, and goes with it. Servers and clusters
know each other by certificates, people are known by tokens; health is asked at ports of its own.

Source: `docs/security.md`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from argosy.channel_credentials import ChannelCredentials, hash_token, new_token
from argosy.openssl import OpensslError, make_authority_certificate, make_request, sign_request
from argosy_core.errors import BackendUnavailable

__all__ = ["ADMINISTRATOR", "MeshSecrets", "make_secrets"]

ADMINISTRATOR: Final = "admin"
"""Who may do everything in a secured mesh of this machine."""
_INSTALLATION: Final = "argosy"
_DAYS: Final = 365
_FIRST_LINES: Final = (
    "# Who may call; servers read changes within seconds. `argosy admin token` draws tokens.\ntokens:\n"
)
_SERVED: Final = frozenset({"api", "relay", "leader", "sampler", "combined"})


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshSecrets:
    """Where the secrets of a mesh are."""

    folder: Path
    """Folder that holds them."""

    @property
    def tokens_file(self) -> Path:
        """The servers' file of tokens; who may call can be added to it while they run."""
        return self.folder / "tokens.yaml"

    @property
    def credentials(self) -> ChannelCredentials:
        """What the administrator calls with."""
        return ChannelCredentials(
            authority_file=str(self.folder / "authority.pem"), token_file=str(self.folder / "admin-token")
        )

    def flags(self, kind: str, *, cluster: str = "", health: str = "") -> tuple[str, ...]:
        """Return the flags by which a process proves who it is, and asks others.

        Args:
            kind: api, leader, relay, sampler, executor, combined or agent.
            cluster: Whose process it is; empty for servers.
            health: host:port at which its health is asked, of those whose port asks for certificates.
        """
        own, authority = f"cluster-{cluster}" if cluster else "server", str(self.folder / "authority.pem")
        certificate, key = str(self.folder / f"{own}.pem"), str(self.folder / f"{own}.key")
        flags = [
            *("--credentials-authority-file", authority),
            *("--credentials-certificate-file", certificate),
            *("--credentials-key-file", key),
        ]
        if kind in _SERVED:
            flags += ["--grpc-certificate-file", certificate, "--grpc-key-file", key, "--grpc-health-listen", health]
        if kind in {"leader", "sampler", "combined"}:  # people call API replicas, which have no certificates
            flags += ["--grpc-client-authority-file", authority]
        if not cluster:
            flags += ["--access-tokens-file", str(self.tokens_file), "--access-admins", f"user:{ADMINISTRATOR}"]
            flags += ["--api-default-namespace", "shared"]
        if kind == "api":  # as in any secured installation: queues begin restricted, and further clusters are invited
            flags += ["--api-pod-security-level", "restricted"]
            flags += ["--access-authority-file", authority]
            flags += ["--access-authority-key-file", str(self.folder / "authority.key")]
        return tuple(flags)

    def add_token(self, name: str, *groups: str) -> Path:
        """Draw a token for a user, and return the file that holds it, mode 0600.

        Servers take it within seconds.
        """
        token, path = new_token(), self.folder / f"{name}-token"
        _write(path, token)
        text = self.tokens_file.read_text(encoding="utf-8") if self.tokens_file.exists() else _FIRST_LINES
        if text.startswith("{"):  # one line of JSON, as earlier versions wrote it, which nobody can add a line to
            text = _FIRST_LINES + "".join(f"- {json.dumps(entry)}\n" for entry in json.loads(text)["tokens"])
        entry = {"name": name, "groups": list(groups), "sha256": hash_token(token)}
        _write(self.tokens_file, f"{text}- {json.dumps(entry)}\n")
        return path


def make_secrets(folder: Path, clusters: Sequence[str]) -> MeshSecrets:
    """Make what is not there yet of the secrets of a mesh; certificates are always made anew, for a year.

    Raises:
        BackendUnavailable: The program openssl is not there, or fails.
    """
    secrets = MeshSecrets(folder=folder)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    authority, key = folder / "authority.pem", folder / "authority.key"
    try:
        if not key.exists():
            make_authority_certificate(f"{_INSTALLATION} on this machine", authority, key, days=10 * _DAYS)
        for name, uri in (("server", "server"), *((f"cluster-{one}", f"cluster/{one}") for one in clusters)):
            extensions = (
                f"subjectAltName=URI:spiffe://{_INSTALLATION}/{uri},IP:127.0.0.1,DNS:localhost\n"
                "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n"
                "extendedKeyUsage=serverAuth,clientAuth\n"
            )
            request = make_request(name, folder / f"{name}.key")
            signed = sign_request(request, extensions, authority=authority, key=key, subject=name, days=_DAYS)
            _write(folder / f"{name}.pem", signed.decode())
    except OpensslError as cause:
        raise BackendUnavailable(str(cause)) from cause
    if not secrets.tokens_file.exists():
        secrets.add_token(ADMINISTRATOR)
    return secrets


def _write(path: Path, text: str) -> None:
    """Write a file for its owner alone, in one step."""
    fresh = path.with_name(f"{path.name}.new")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    fresh.replace(path)
