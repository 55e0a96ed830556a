"""A TLS end in front of a Postgres: it answers a client's request for encryption and passes on what was encrypted.

The embedded server is built without TLS; a client sees no difference, since Postgres' own protocol begins the same way.
"""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

_REQUEST: Final = bytes.fromhex("0000000804d2162f")


class Certificates:
    """An authority of our own and certificates of it, in a directory.

    Args:
        directory: Where they are put.
        name: Name of the authority.
    """

    def __init__(self, directory: Path, name: str) -> None:
        """Make the authority."""
        self._directory = directory
        self.authority = directory / f"{name}.crt"
        self._key = directory / f"{name}.key"
        self._run("req", "-x509", *self._new(self._key), "-subj", f"/CN={name}", "-days", "2", "-out", self.authority)

    def issue(self, subject: str) -> tuple[Path, Path]:
        """Return certificate and key for a host or a client."""
        base = self._directory / f"{self.authority.stem}-{subject}"
        certificate, key, request = (base.with_suffix(ending) for ending in (".crt", ".key", ".csr"))
        extensions = base.with_suffix(".ext")
        extensions.write_text(f"subjectAltName=DNS:{subject}\n")
        self._run("req", *self._new(key), "-subj", f"/CN={subject}", "-out", request)
        signing = ("-CA", self.authority, "-CAkey", self._key, "-CAcreateserial", "-days", "2")
        self._run("x509", "-req", "-in", request, *signing, "-extfile", extensions, "-out", certificate)
        key.chmod(0o600)
        return certificate, key

    @staticmethod
    def _new(key: Path) -> tuple[str | Path, ...]:
        return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key)

    @staticmethod
    def _run(*arguments: str | Path) -> None:
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)  # noqa: S607 - whichever openssl there is


class TlsEndpoint:
    """A TLS end on a port of its own.

    Args:
        target: Path of the server's Unix socket.
        certificate: Certificate and key of this end.
        client_authority: Whose certificates clients must show; None asks for none.
    """

    def __init__(self, target: Path, certificate: tuple[Path, Path], *, client_authority: Path | None = None) -> None:
        """Listen."""
        self._target = target
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(*certificate)
        if client_authority is not None:
            self._context.load_verify_locations(client_authority)
            self._context.verify_mode = ssl.CERT_REQUIRED
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                plain, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=[plain], daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        with suppress(OSError), plain:
            if plain.recv(8, socket.MSG_WAITALL) != _REQUEST:
                return  # whoever does not ask for encryption is not served
            plain.sendall(b"S")
            with (
                self._context.wrap_socket(plain, server_side=True) as near,
                socket.socket(socket.AF_UNIX) as far,
            ):
                far.connect(str(self._target))
                answers = threading.Thread(target=_pass_on, args=[far, near], daemon=True)
                answers.start()
                _pass_on(near, far)
                answers.join(10)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Take no more clients."""
        self._listener.close()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
