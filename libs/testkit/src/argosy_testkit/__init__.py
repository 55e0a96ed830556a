"""Builders, contract suites and fakes for the tests of Argosy."""
