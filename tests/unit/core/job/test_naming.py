"""Names of the objects of a run."""

import numpy as np
import pytest

from argosy_core.job.reading.naming import object_label, object_name, run_suffixes
from argosy_core.job.tables.members import ordinal_of

_HANDLE = (20_000 << 40) + 77


@pytest.mark.parametrize(
    ("base", "label"),
    [
        pytest.param("work", "work", id="plain"),
        pytest.param("My.Job_1", "my-job-1", id="what-a-label-cannot-hold"),
        pytest.param("", "job", id="empty"),
        pytest.param("---", "job", id="nothing-left"),
        pytest.param("x" * 80, "x" * 47, id="cut"),
        pytest.param("x" * 46 + "-y", "x" * 46, id="cut-at-a-hyphen"),
    ],
)
def test_object_name_is_a_dns_label_with_the_run_behind_the_base(base: str, label: str) -> None:
    """At most 63 of a-z, 0-9 and hyphen, beginning and ending with a letter or digit."""
    name = object_name(base, _HANDLE, 255)
    assert object_label(base).decode() == label
    assert name.startswith(label + "-")
    assert name.endswith("-255")
    assert len(name) <= 63
    assert name.replace("-", "a").isalnum()
    assert name == name.lower()


def test_names_of_different_runs_differ_even_if_their_bases_are_cut_alike() -> None:
    """The suffix is never cut."""
    names = {
        object_name("y" * 100, handle, attempt)
        for handle in (0, 1, 31, 32, _HANDLE, 2**55 - 1)
        for attempt in (1, 2, 9, 10, 11, 99, 100, 101, 110, 255, 256, 999, 1000, 1001, 1035, 1036, 2296, 32_767)
    }
    assert len(names) == 6 * 18
    assert {len(name) for name in names} <= {61, 62, 63}


def test_names_of_the_members_of_a_run_differ_from_each_other_and_from_other_attempts() -> None:
    """A member's number stands behind the attempt, and a long base gives way to it, too."""
    for base in ("work", "y" * 100):
        names = {
            object_name(base, _HANDLE, ordinal_of(attempt, member))
            for attempt in (1, 11, 111, 32_767)
            for member in (0, 1, 9, 10, 35, 36, 1_295, 1_296, 32_767)
        }
        assert len(names) == 4 * 9
        assert max(map(len, names)) <= 63
    assert object_name("work", _HANDLE, ordinal_of(2, 36)) == object_name("work", _HANDLE, 2) + "-10"


def test_suffixes_in_bulk_equal_those_one_by_one() -> None:
    """The arrays hide nothing."""
    handles = np.array([0, 5, _HANDLE], dtype=np.int64)
    ordinals = np.array([1, ordinal_of(10, 37), 32_000], dtype=np.int64)
    names = [f"a{suffix.decode()}" for suffix in run_suffixes(handles, ordinals)]
    assert names == [object_name("a", int(h), int(n)) for h, n in zip(handles, ordinals, strict=True)]
