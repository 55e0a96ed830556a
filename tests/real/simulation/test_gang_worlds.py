"""Random worlds with gangs and faults, of which `make test` runs one and `make nightly` a thousand."""

from __future__ import annotations

import pytest

from argosy_core.errors import ArgosyError
from argosy_simulation import draw_world

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("first", range(0, 20, 10))
def test_every_invariant_holds_in_worlds_with_gangs_and_faults(first: int) -> None:
    """All members of a gang are placed or none, and all of them end, whatever goes wrong."""
    for seed in range(first, first + 10):
        try:
            draw_world(seed, gangs=True, wide=seed % 3 == 0, waiting=seed % 2 == 0, check_steps=25).run()
        except (ArgosyError, AssertionError, LookupError, TypeError, ValueError) as error:
            pytest.fail(f"draw_world({seed}, gangs=True): {type(error).__name__}: {error}")
