"""Which versions of the tables a version of Argosy works with: a range, so that upgrades need no stop.

Tables are migrated first, then processes are replaced one by one; a version that is put back finds newer tables than
its own. Those say themselves which oldest version still works with them (`schema_support`), and a migration that ends
the work of older versions raises that.

Source: design section 4, "Migrations with alembic as a step of their own".
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from argosy_store.postgres.connection import sqlalchemy_engine, translated

__all__ = ["SchemaVersion", "migration_config", "read_version"]


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
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    return config


@translated
def read_version(url: str) -> SchemaVersion:
    """Return the version of a database's tables and the one that this Argosy makes.

    Raises:
        BackendUnavailable: Postgres cannot be reached.
    """
    wanted = ScriptDirectory.from_config(migration_config()).get_current_head()
    assert wanted is not None
    engine = sqlalchemy_engine(url)
    with engine.connect() as connection:
        present = MigrationContext.configure(connection).get_current_revision()
        oldest = None
        if connection.exec_driver_sql("SELECT to_regclass('schema_support')").scalar_one() is not None:
            oldest = connection.exec_driver_sql("SELECT oldest_version FROM schema_support").scalar_one_or_none()
    engine.dispose()
    return SchemaVersion(present=present, wanted=wanted, oldest=oldest)
