"""Settings that every test shares."""

import gc
import os
from collections.abc import Generator, Iterator

import pytest
from hypothesis import settings

# No deadline: two workers share the machine, so the time of one example says nothing. Continuous integration draws the
# same examples each time, so that a red run is a change's own doing; on a developer's machine new ones are looked for.
settings.register_profile("argosy", deadline=None, derandomize="CI" in os.environ, print_blob=True)
settings.load_profile("argosy")

# gRPC's own library reads this when it is first imported; its notes on connections would stand amid what tests capture.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

pytest_plugins = ["argosy_testkit.postgres"]


LONGEST_FIRST = ("tests/e2e/", "tests/property/", "tests/unit/simulation/", "tests/integration/", "tests/")
"""Folders in the order in which modules are given to processes, so that none is left with a long one at the end."""


@pytest.fixture(autouse=True, scope="session")
def own_configuration(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the contexts of whoever runs the tests apart from those that tests write (`up --secure`, `login`)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        yield


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no cycles while tests are collected, nor ever again in what collecting them made, all of which stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the folders whose modules take longest."""
    items.sort(key=lambda item: next(place for place, name in enumerate(LONGEST_FIRST) if item.nodeid.startswith(name)))
