"""Postgres tables, migrations, transactions and event log of Argosy."""
