"""Keys, requests and certificates, made by the program `openssl`, so that nobody needs a library of cryptography.

Source: docs/decisions/0019-who-calls-is-asked-at-the-edge.md.
"""

import os
import ssl
import subprocess
import tempfile
from pathlib import Path

__all__ = [
    "OpensslError",
    "certificate_times",
    "make_authority_certificate",
    "make_request",
    "public_key",
    "sign_request",
]

_TIMEOUT_S = 60.0
_MAX_NAME = 64  # of a common name; the whole one stands in the URI
_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


class OpensslError(RuntimeError):
    """The program is not installed, or did not do what it was told to."""


def make_authority_certificate(name: str, certificate: Path, key: Path, *, days: int) -> None:
    """Make an authority: its key, mode 0600, and the certificate with which it speaks for itself.

    Raises:
        OpensslError: The program fails; there is no key then.
        OSError: A file cannot be written.
    """
    limits = ("-addext", "basicConstraints=critical,CA:TRUE,pathlen:0", "-addext", "keyUsage=critical,keyCertSign")
    os.close(os.open(key, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        validity = ("-days", str(days), "-subj", _subject(name), *limits)
        _openssl("req", "-x509", *_NEW_KEY, *validity, "-keyout", key, "-out", certificate)
    except OpensslError:
        key.unlink()
        raise


def make_request(name: str, key: Path) -> bytes:
    """Return a certificate request, PEM, for the key of a file; the key is made if the file is not there, mode 0600.

    Args:
        name: Common name, for people.
        key: The file.

    Raises:
        OpensslError: The program fails.
        OSError: The file cannot be written.
    """
    if not key.exists():
        with tempfile.TemporaryDirectory(dir=key.parent) as scratch:
            fresh = Path(scratch, "key")
            os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            _openssl("req", "-new", *_NEW_KEY, "-subj", _subject(name), "-keyout", fresh)
            fresh.replace(key)
    return _openssl("req", "-new", "-key", key, "-subj", _subject(name))


def public_key(request: bytes) -> bytes:
    """Return the public key, PEM, of a request that was signed with the private one.

    Raises:
        OpensslError: It is no such request, or the key is not of the curve P-256.
    """
    key = _openssl("req", "-noout", "-pubkey", stdin=request)
    if b"prime256v1" not in _openssl("pkey", "-pubin", "-text_pub", "-noout", stdin=key):
        raise OpensslError("the key must be of the curve P-256")
    return key


def sign_request(request: bytes, extensions: str, *, authority: Path, key: Path, subject: str, days: int) -> bytes:
    """Return a certificate, PEM, for the key of a request; nothing else is taken from it.

    Args:
        request: The request, PEM.
        extensions: Lines of openssl's own form.
        authority: File of the authority's certificate.
        key: File of its key.
        subject: Common name, for people.
        days: How long it is good for.

    Raises:
        OpensslError: The program fails.
    """
    with tempfile.TemporaryDirectory() as scratch:
        lines = Path(scratch, "extensions")
        lines.write_text(extensions, encoding="utf-8")
        who = ("-CA", authority, "-CAkey", key, "-subj", _subject(subject), "-days", str(days), "-extfile", lines)
        return _openssl("x509", "-req", *who, stdin=request)


def certificate_times(certificate: bytes) -> tuple[int, int]:
    """Return from when and until when a certificate, PEM, is good, seconds since the Unix epoch.

    Raises:
        OpensslError: It is none.
    """
    said = _openssl("x509", "-noout", "-startdate", "-enddate", stdin=certificate).decode()
    begin, end = (ssl.cert_time_to_seconds(line.partition("=")[2]) for line in said.splitlines())
    return begin, end


def _subject(name: str) -> str:
    return "/CN=" + name[:_MAX_NAME].replace("/", "\\/").replace("+", "\\+")


def _openssl(*arguments: str | Path, stdin: bytes = b"") -> bytes:
    """Return what the program prints.

    Raises:
        OpensslError: It is not installed, fails or takes too long; the text ends with its own last line.
    """
    try:
        command = ["openssl", *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=_TIMEOUT_S)
    except FileNotFoundError as cause:
        raise OpensslError("the program openssl is not installed, and certificates are made by it") from cause
    except subprocess.TimeoutExpired as cause:
        raise OpensslError(f"openssl {arguments[0]} took longer than {_TIMEOUT_S:g} s") from cause
    if done.returncode:
        said = (done.stderr.decode("utf-8", "replace").strip().splitlines() or ["nothing"])[-1]
        raise OpensslError(f"openssl {arguments[0]} failed: {said}")
    return done.stdout
