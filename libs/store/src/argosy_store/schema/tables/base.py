"""What every table is made with: the metadata that holds them all, and what the server fills in."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

__all__ = ["EMPTY", "FALSE", "TODAY", "ZERO", "metadata"]

metadata: Final = sa.MetaData()
"""All tables, once `argosy_store.schema.tables` is imported."""

ZERO: Final = sa.text("0")
FALSE: Final = sa.text("false")
EMPTY: Final = sa.text("''")
TODAY: Final = sa.text("(argosy_now_us() / 86400000000)::integer")
