"""Python client library of Argosy."""
