"""Settings that every test shares."""

import os

import pytest
from hypothesis import settings

# No deadline: two workers share the machine, so the time of one example says nothing. Continuous integration draws the
# same examples each time, so that a red run is a change's own doing; at a desk new ones are looked for.
settings.register_profile("argosy", deadline=None, derandomize="CI" in os.environ, print_blob=True)
settings.load_profile("argosy")

# gRPC's own library reads this when it is first imported; its notes on connections would stand amid what tests capture.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

pytest_plugins = ["argosy_testkit.postgres"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, so that no worker is left with it at the end."""
    items.sort(key=lambda item: not item.nodeid.startswith(("tests/e2e/", "tests/unit/simulation/", "tests/property/")))
