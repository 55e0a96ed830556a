"""Which versions of the tables a version of Argosy works with: a range, so that upgrades need no stop.

Tables are migrated first, then processes are replaced one by one; a version that is put back finds newer tables than
its own. Those say themselves which oldest version still works with them (`schema_support`), and a migration that ends
the work of older versions raises that.

Source: design section 4, "Migrations with alembic as a step of their own".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from psycopg.sql import SQL, Identifier

from argosy_store.postgres.connection import MAINTENANCE_SETTINGS, connect, translated

if TYPE_CHECKING:
    from alembic.config import Config

__all__ = ["SchemaVersion", "migration_config", "newest_version", "read_version"]

_MIGRATIONS: Final = Path(__file__).parent / "migrations"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaVersion:
    """The version of a database's tables beside ours."""

    present: str | None
    """Version of the tables, None before the first migration."""
    wanted: str
    """Version that this Argosy makes."""
    oldest: str | None
    """Oldest version of Argosy that works with these tables; None if they do not say."""

    @property
    def works(self) -> bool:
        """Whether this Argosy works with these tables: its own, or newer ones that say so."""
        if self.present is None or self.present < self.wanted:
            return False
        return self.present == self.wanted or (self.oldest is not None and self.oldest <= self.wanted)

    @property
    def advice(self) -> str:
        """What to do if it does not."""
        if self.present is not None and self.present > self.wanted:
            return "use the version of argosy that migrated it, or a newer one"
        return "run `argosy admin migrate`"

    def __str__(self) -> str:
        """Return both versions in words."""
        return f"version {self.present or 'none'}, needed is {self.wanted}"


def migration_config() -> Config:
    """Return alembic's configuration; there is no file for it."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    return config


@cache
def newest_version() -> str:
    """Return the version that this Argosy makes: that of the last migration, as its file's name begins.

    Services ask it at every start, so it does without alembic, which would load every migration.
    """
    return max(path.name.partition("_")[0] for path in _MIGRATIONS.glob("versions/[0-9]*.py"))


@translated
def read_version(url: str) -> SchemaVersion:
    """Return the version of a database's tables and the one that this Argosy makes.

    Raises:
        BackendUnavailable: Postgres cannot be reached.
    """
    with connect(url, MAINTENANCE_SETTINGS) as connection:

        def read(table: str, column: str) -> str | None:
            there = connection.execute("SELECT to_regclass(%s)", [table]).fetchone()
            if there is None or there[0] is None:
                return None
            row = connection.execute(SQL("SELECT {} FROM {}").format(Identifier(column), Identifier(table))).fetchone()
            return None if row is None else str(row[0])

        return SchemaVersion(
            present=read("alembic_version", "version_num"),
            wanted=newest_version(),
            oldest=read("schema_support", "oldest_version"),
        )
