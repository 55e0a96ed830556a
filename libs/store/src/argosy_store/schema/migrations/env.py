"""Runs the migrations on the connection that `argosy_store.schema.migrate` hands over."""

from __future__ import annotations

from alembic import context

from argosy_store.schema.tables import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, transaction_per_migration=True)
with context.begin_transaction():
    context.run_migrations()
