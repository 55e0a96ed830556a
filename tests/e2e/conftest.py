"""The tests of one module share a mesh, which takes seconds to start: they run on one worker, one after the other."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Make a group of each module of this folder, for `--dist loadgroup`."""
    here = Path(__file__).parent
    for item in items:
        if item.path.parent == here:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
