"""Columns and rows as messages of the public API, and what callers write as values."""
