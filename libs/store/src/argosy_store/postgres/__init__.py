"""Postgres itself: connections, bulk forms, partitions, and reads of one moment."""
