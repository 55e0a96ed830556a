"""A small authority of one's own: a folder with its key, and the certificates that it signed.

The program `openssl` makes keys and signs; nothing of that is done here. What each certificate says is kept beside them
(`certificates.json`), so that all can be renewed without saying it again. A renewed certificate keeps its key: one file
is replaced, in one step, and whoever reads it meanwhile has a pair that fits.

Source: `docs/security.md`.
"""

from __future__ import annotations

import ipaddress
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from argosy.openssl import (
    OpensslError,
    certificate_times,
    make_authority_certificate,
    make_request,
    sign_request,
)
from argosy_core.errors import AlreadyExists, BackendUnavailable, InvalidRequest, NotFound

__all__ = ["Authority", "CertificateText", "make_authority", "open_authority"]

_BOOK: Final = "certificates.json"
_DAY_S: Final = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateText:
    """What a certificate says of its holder."""

    name: str
    """Name for people, and of its files."""
    uri: str
    """SPIFFE identity."""
    hosts: tuple[str, ...] = ()
    """Names and addresses under which a server is dialled."""
    days: int = 365
    """How long it is good for."""

    def extensions(self) -> str:
        """Return the lines that openssl reads."""
        names = [f"URI:{self.uri}", *(f"{_kind_of(host)}:{host}" for host in self.hosts)]
        usage = "serverAuth,clientAuth" if self.hosts else "clientAuth"
        return (
            f"subjectAltName={','.join(names)}\nbasicConstraints=critical,CA:FALSE\n"
            f"keyUsage=critical,digitalSignature\nextendedKeyUsage={usage}\n"
        )


class Authority:
    """An authority in a folder.

    Args:
        folder: The folder, which `make_authority` has made.
        installation: Installation whose processes and people it names.
        texts: What its certificates say, by name.
    """

    def __init__(self, folder: Path, installation: str, texts: Mapping[str, CertificateText]) -> None:
        """Keep what the folder says."""
        self._folder = folder
        self.installation = installation
        """Installation whose processes and people it names."""
        self.texts = dict(texts)
        """What its certificates say, by name."""

    def issue(self, text: CertificateText) -> tuple[Path, Path]:
        """Return the files of a new certificate and of its key, which is for its holder alone.

        Raises:
            AlreadyExists: There is one by that name.
            BackendUnavailable: openssl is not there, or fails.
        """
        certificate, key = self._folder / f"{text.name}.pem", self._folder / f"{text.name}.key"
        if certificate.exists() or key.exists():
            raise AlreadyExists(f"{certificate} is there already; renew it, or remove it with its key first")
        self._sign(text)
        self.texts[text.name] = text
        self._write()
        return certificate, key

    def renew(self, name: str) -> Path:
        """Return the file of a certificate that was signed again, for as long as the first time, with its old key.

        Raises:
            BackendUnavailable: openssl is not there, or fails.
        """
        self._sign(self.texts[name])
        return self._folder / f"{name}.pem"

    def ends_within(self, name: str, days: int) -> bool:
        """Return whether a certificate ends within some days, has ended, or is not there.

        Raises:
            BackendUnavailable: openssl is not there, or cannot read it.
        """
        try:
            _, end_s = certificate_times((self._folder / f"{name}.pem").read_bytes())
        except FileNotFoundError:
            return True
        except OpensslError as cause:
            raise BackendUnavailable(str(cause)) from cause
        return end_s < time.time() + days * _DAY_S

    def _sign(self, text: CertificateText) -> None:
        try:
            request = make_request(text.name, self._folder / f"{text.name}.key")
            signed = sign_request(
                request,
                text.extensions(),
                authority=self._folder / "authority.pem",
                key=self._folder / "authority.key",
                subject=text.name,
                days=text.days,
            )
        except OpensslError as cause:
            raise BackendUnavailable(str(cause)) from cause
        fresh = self._folder / f"{text.name}.new"
        fresh.write_bytes(signed)
        fresh.replace(self._folder / f"{text.name}.pem")

    def _write(self) -> None:
        book = {"installation": self.installation, "certificates": [asdict(text) for text in self.texts.values()]}
        fresh = self._folder / f"{_BOOK}.new"
        fresh.write_text(json.dumps(book, indent=2) + "\n", encoding="utf-8")
        fresh.replace(self._folder / _BOOK)


def make_authority(folder: Path, *, installation: str, days: int) -> Authority:
    """Make an authority in a folder, which need not exist.

    Raises:
        AlreadyExists: There is one.
        BackendUnavailable: openssl is not there, or fails.
    """
    if (folder / _BOOK).exists() or (folder / "authority.key").exists():
        raise AlreadyExists(f"{folder} holds an authority already")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    certificate, key = folder / "authority.pem", folder / "authority.key"
    try:
        make_authority_certificate(f"{installation} authority", certificate, key, days=days)
    except OpensslError as cause:
        raise BackendUnavailable(str(cause)) from cause
    authority = Authority(folder, installation, {})
    authority._write()  # noqa: SLF001 - of this module
    return authority


def open_authority(folder: Path) -> Authority:
    """Return the authority of a folder.

    Raises:
        NotFound: There is none.
        InvalidRequest: What it says of its certificates cannot be read.
    """
    path = folder / _BOOK
    try:
        book = json.loads(path.read_text(encoding="utf-8"))
        texts = [CertificateText(**{**entry, "hosts": tuple(entry["hosts"])}) for entry in book["certificates"]]
        return Authority(folder, str(book["installation"]), {text.name: text for text in texts})
    except FileNotFoundError as cause:
        raise NotFound(f"{folder} holds no authority; make one with `argosy certs init {folder}`") from cause
    except (ValueError, KeyError, TypeError) as cause:
        raise InvalidRequest(f"{path} is damaged") from cause


def _kind_of(host: str) -> str:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return "DNS"
    return "IP"
