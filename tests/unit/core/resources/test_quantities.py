"""Kubernetes quantities become int64 base units, rounded up, and come back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy_core.errors import InvalidRequest
from argosy_core.resources import MAX_AMOUNT, format_amount, parse_quantity


@pytest.mark.parametrize(
    ("name", "text", "amount"),
    [
        ("cpu", "500m", 500),
        ("cpu", "2", 2000),
        ("cpu", "1.5", 1500),
        ("cpu", "0.1m", 1),
        ("cpu", "0", 0),
        ("memory", "1.5Gi", 1_610_612_736),
        ("memory", "1e3", 1000),
        ("memory", "128974848", 128_974_848),
        ("memory", "129M", 129_000_000),
        ("memory", "100m", 1),
        ("nvidia.com/gpu", "1", 1),
        ("memory", ".5Ki", 512),
    ],
)
def test_quantity_is_read_in_base_units(name: str, text: str, amount: int) -> None:
    """Millicores for cpu, bytes for memory, whole units for others; fractions round up."""
    assert parse_quantity(name, text) == amount


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "not a quantity"),
        ("1 Gi", "not a quantity"),
        ("1GiB", "not a quantity"),
        ("NaN", "not a quantity"),
        ("inf", "not a quantity"),
        ("1e400", "not a quantity"),
        ("0x10", "not a quantity"),
        ("-1", "negative"),
        ("8Ei", "too large"),
        ("1e30", "too large"),
        ("9" * 31, "not a quantity"),
    ],
)
def test_bad_quantity_is_refused_with_the_reason(text: str, what: str) -> None:
    """The message says what is wrong with which resource."""
    with pytest.raises(InvalidRequest, match=what) as caught:
        parse_quantity("memory", text)
    assert "memory" in caught.value.message


@given(st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.integers(min_value=0, max_value=MAX_AMOUNT))
def test_formatted_amount_reads_back_to_itself(name: str, amount: int) -> None:
    """Formatting loses nothing."""
    assert parse_quantity(name, format_amount(name, amount)) == amount
