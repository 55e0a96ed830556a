"""A world with nothing in it."""

from __future__ import annotations

import pytest

from argosy_testkit.reconcile_world import World


@pytest.fixture
def world() -> World:
    """Return a world with nothing in it, its cluster listed."""
    world = World()
    world.list_all()
    return world
