"""Event log port of Argosy and its in-memory implementation."""
