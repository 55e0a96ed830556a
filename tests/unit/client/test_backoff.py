"""How long the client waits between attempts."""

from random import Random

import pytest

from argosy_client import RetryPolicy


@pytest.mark.parametrize(
    ("failed_count", "longest_s"),
    [pytest.param(1, 0.05, id="first"), pytest.param(3, 0.2, id="doubled twice"), pytest.param(50, 2.0, id="bounded")],
)
def test_delay_grows_to_a_bound_and_is_spread(failed_count: int, longest_s: float) -> None:
    """Delays double up to a bound, and callers that fail together come back apart."""
    random = Random(7)

    delays = [RetryPolicy().delay_s(failed_count, random) for _ in range(200)]

    assert longest_s / 2 <= min(delays) < longest_s * 0.6
    assert longest_s * 0.9 < max(delays) <= longest_s
