"""Streaming replication: a primary and a standby that may take its place, of the embedded server's release.

    pair = ReplicatedPair(directory)
    pair.start()
    pair.primary.kill(); pair.fail_over()
    pair.standby.start()                         # the old primary, as whoever restarts it without a thought gets it
    pair.standby.follow(pair.primary)            # or as a standby of the new one

The primary answers a commit only once the standby has it on its disk, so that nothing acknowledged is lost.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import psycopg

from argosy_core.errors import BackendUnavailable
from testbed.cache import Tell
from testbed.postgres import Server, embedded_programs

__all__ = ["ReplicaServer", "ReplicatedPair"]

_AUTO: Final = "postgresql.auto.conf"
_SIGNAL: Final = "standby.signal"
_PATIENCE_S: Final = 60.0
_POLL_S: Final = 0.05


def _quiet(_: str) -> None:
    """Tell nobody."""


class ReplicaServer(Server):
    """A server that can be primary or standby; both roles in turn, on the same port.

    Args:
        directory: Its directory; the caller's to remove. Not below a folder that others may not enter, if we are root.
        name: By what name it follows another server.
        tell: Is told what fetching does.
    """

    def __init__(self, directory: Path, name: str, *, tell: Tell = _quiet) -> None:
        """Choose a port and a password; nothing runs yet."""
        self.name = name
        """By what name it follows another server."""
        settings = {"wal_level": "replica", "max_wal_senders": "10", "hot_standby": "on", "timezone": "UTC"}
        self._folder = embedded_programs(directory)
        super().__init__(directory, settings, programs=self._folder, tell=tell)

    def follow(self, primary: ReplicaServer) -> None:
        """Become a standby of a server that runs: drop the own data, copy its, start, and wait until it streams.

        Raises:
            BackendUnavailable: It cannot be copied, or does not come up.
        """
        self.stop()
        slot = self.name.replace("-", "_")
        with psycopg.connect(primary.url, autocommit=True) as connection:
            known = connection.execute("SELECT FROM pg_replication_slots WHERE slot_name = %s", [slot]).fetchone()
            if known is None:
                connection.execute("SELECT pg_create_physical_replication_slot(%s, true)", [slot])
        self._password = primary._password
        self._copy(primary, slot)
        self.start()
        self._await(lambda: primary.followers().get(self.name) == "streaming", f"{self.name} to stream")

    def require(self, name: str) -> None:
        """Answer no commit before a follower has it on its disk; an empty name stops that.

        Raises:
            BackendUnavailable: That follower does not count as synchronous.
        """
        with psycopg.connect(self.url, autocommit=True) as connection:
            quoted = f'"{name}"' if name else ""
            connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{quoted}'".encode())
            connection.execute("SELECT pg_reload_conf()")
        if name:
            self._await(lambda: self.synchronous() == {name}, f"{name} to be synchronous")

    def followers(self) -> dict[str, str]:
        """Return the state of each standby that follows now, by name."""
        with psycopg.connect(self.url) as connection:
            rows = connection.execute("SELECT application_name, state FROM pg_stat_replication").fetchall()
        return {str(name): str(state) for name, state in rows}

    def synchronous(self) -> set[str]:
        """Return which standbys a commit waits for now."""
        with psycopg.connect(self.url) as connection:
            rows = connection.execute("SELECT application_name FROM pg_stat_replication WHERE sync_state = 'sync'")
            return {str(name) for (name,) in rows}

    @property
    def is_standby(self) -> bool:
        """Whether it only follows."""
        with psycopg.connect(self.url) as connection:
            row = connection.execute("SELECT pg_is_in_recovery()").fetchone()
        return bool(row and row[0])

    def promote(self) -> None:
        """Make a standby a primary that waits for no standby.

        Raises:
            BackendUnavailable: It is none after a minute.
        """
        with psycopg.connect(self.url, autocommit=True) as connection:
            row = connection.execute("SELECT pg_promote(true, 60)").fetchone()
        if row is None or not row[0]:
            raise BackendUnavailable(f"{self.name} was not promoted: {self._runner.last_words()}")

    def _copy(self, primary: ReplicaServer, slot: str) -> None:
        shutil.rmtree(self._data, ignore_errors=True)
        self._data.mkdir(mode=0o700)
        user, group = self._account()
        if user:
            os.chown(self._data, user, group)
        place = f"host=127.0.0.1 port={primary.port} user=argosy password={primary._password}"
        command = self._command(self._folder / "bin" / "pg_basebackup", "-D", str(self._data), "-d", place)
        done = subprocess.run(
            [*command, "--checkpoint=fast", "--wal-method=stream", f"--slot={slot}", "--no-sync"],
            check=False,
            capture_output=True,
            text=True,
            cwd="/",
        )
        if done.returncode != 0:
            raise BackendUnavailable(f"{primary.directory} cannot be copied: {done.stderr.strip()[-800:]}")
        # What the primary waits for is its own affair: whoever takes its place has no standby yet.
        follows = f"{place} application_name={self.name}"
        (self._data / _AUTO).write_text(
            f"primary_conninfo = '{follows}'\nprimary_slot_name = '{slot}'\n", encoding="utf-8"
        )
        (self._data / _SIGNAL).touch()

    @staticmethod
    def _await(condition: Callable[[], bool], what: str) -> None:
        deadline_s = time.monotonic() + _PATIENCE_S
        while not condition():
            if time.monotonic() > deadline_s:
                raise BackendUnavailable(f"waited {_PATIENCE_S:g} s for {what}")
            time.sleep(_POLL_S)


class ReplicatedPair:
    """A primary and its synchronous standby; `fail_over` exchanges them.

    Args:
        directory: Directory of both; the caller's to remove.
        tell: Is told what fetching does.
    """

    def __init__(self, directory: Path, *, tell: Tell = _quiet) -> None:
        """Choose ports; nothing runs yet."""
        directory.mkdir(mode=0o711, parents=True, exist_ok=True)
        first, second = (ReplicaServer(directory / name, name, tell=tell) for name in ("db1", "db2"))
        self.primary = first
        """The server that takes writes."""
        self.standby = second
        """The other one."""
        self._both = (first, second)

    @property
    def url(self) -> str:
        """URL that names both, in an order that does not change, and asks for the one that takes writes."""
        hosts = ",".join(f"127.0.0.1:{server.port}" for server in self._both)
        account, _, place = self.primary.url.rpartition("@")
        return f"{account}@{hosts}/{place.partition('/')[2]}?target_session_attrs=read-write&connect_timeout=3"

    def start(self) -> None:
        """Start both, and let commits wait for the standby.

        Raises:
            BackendUnavailable: One of them does not come up.
        """
        self.primary.start()
        self.follow()

    def follow(self) -> None:
        """Let the standby follow the primary anew, and commits wait for it."""
        self.standby.follow(self.primary)
        self.primary.require(self.standby.name)

    def fail_over(self) -> None:
        """Make the standby the primary; the old one must not take writes any more.

        Raises:
            BackendUnavailable: It cannot be promoted.
        """
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary

    def remove(self) -> None:
        """End both for good."""
        for server in self._both:
            server.remove()
