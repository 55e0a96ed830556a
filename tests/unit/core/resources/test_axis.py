"""The axis fixes which resource stands in which column."""

import pytest

from argosy_core.resources import DEFAULT_AXIS, ResourceAxis


def test_vector_and_amounts_are_inverse() -> None:
    """Amounts by name become a vector in column order and come back without zeros."""
    axis = DEFAULT_AXIS.extend(["nvidia.com/gpu", "cpu"])
    assert axis.names == ("cpu", "memory", "pods", "nvidia.com/gpu")
    vector = axis.vector({"nvidia.com/gpu": 2, "cpu": 1500})
    assert vector.tolist() == [1500, 0, 0, 2]
    assert axis.amounts(vector) == {"cpu": 1500, "nvidia.com/gpu": 2}


def test_extending_by_nothing_new_keeps_the_axis() -> None:
    """Existing arrays stay valid when no column joins."""
    assert DEFAULT_AXIS.extend(["memory"]) is DEFAULT_AXIS


def test_unknown_resource_is_refused_unless_its_amount_is_zero() -> None:
    """Nothing that was asked for is dropped in silence."""
    assert DEFAULT_AXIS.vector({"x": 0}).tolist() == [0, 0, 0]
    with pytest.raises(KeyError):
        DEFAULT_AXIS.vector({"x": 1})


def test_names_may_not_repeat() -> None:
    """A column has one meaning."""
    with pytest.raises(ValueError, match="repeat"):
        ResourceAxis(("cpu", "cpu"))
