"""What a spec says of runs that fail: its limits, back-offs, and how they travel."""

from __future__ import annotations

import pytest

from argosy_core.job.failure_kind import FailureKind
from argosy_core.job.reading.retry_rules import RetryRules, rules_of, with_rules
from argosy_core.job.tables.interning import Layout, SpecTable

LAYOUT = b'[["Pod","work"]]'
RULES = RetryRules(
    max_failed_runs=4,
    by_kind=((FailureKind.EXIT_CODE, 3), (FailureKind.EVICTED, 1)),
    first_back_off_s=1.5,
    back_off_factor=3.0,
    max_back_off_s=30.0,
)


@pytest.mark.parametrize(
    ("rules", "kind", "expected"),
    [
        (RetryRules(), FailureKind.INFRASTRUCTURE, 10),
        (RetryRules(), FailureKind.EVICTED, 10),
        (RetryRules(), FailureKind.EXIT_CODE, 1),
        (RULES, FailureKind.INFRASTRUCTURE, 4),
        (RULES, FailureKind.EXIT_CODE, 3),
        (RULES, FailureKind.EVICTED, 1),
        (RULES, FailureKind.OUT_OF_MEMORY, 1),
    ],
)
def test_limit_is_what_is_said_of_the_kind_else_of_all_else_the_installations(
    rules: RetryRules, kind: FailureKind, expected: int
) -> None:
    """Failures that are the job's own are not tried again unless their kind is named."""
    assert rules.limit(kind, 10) == expected


@pytest.mark.parametrize(
    ("rules", "expected_s"),
    [
        (RetryRules(), [1.0, 2.0, 4.0, 8.0, 10.0]),
        (RULES, [1.5, 4.5, 13.5, 30.0, 30.0]),
        (RetryRules(first_back_off_s=60.0), [60.0] * 5),
        (RetryRules(max_back_off_s=3.0), [1.0, 2.0, 3.0, 3.0, 3.0]),
    ],
)
def test_back_off_grows_by_its_factor_up_to_its_most(rules: RetryRules, expected_s: list[float]) -> None:
    """A first back-off longer than the installation's longest is kept, and does not grow unless a longest is said."""
    found = [rules.back_off_s(failures, initial_s=1.0, max_s=10.0) for failures in range(1, 6)]
    assert found == expected_s
    assert rules.back_off_s(250, initial_s=1.0, max_s=10.0) == expected_s[-1]


def test_rules_travel_behind_a_layout() -> None:
    """They are read back as they were, and what the layout says of objects stays."""
    layout = with_rules(LAYOUT, RULES)
    assert rules_of(layout) == RULES
    assert rules_of(LAYOUT) is None
    assert with_rules(LAYOUT, None) == LAYOUT
    parsed = Layout.parse(layout)
    assert (parsed.kinds, parsed.names, parsed.pod_count, parsed.rules) == (("Pod",), ("work",), 1, RULES)


def test_table_of_specs_says_whether_any_has_rules() -> None:
    """Pools without rules look for none."""
    table = SpecTable()
    table.intern([(bytes(16), 1, LAYOUT)])
    assert not table.has_rules
    table.intern([(b"1" * 16, 1, with_rules(LAYOUT, RULES))])
    assert table.has_rules


@pytest.mark.parametrize("layout", [b'[["Pod","a"],{"by_kind":[[99,1]]}]', b'[["Pod","a"],{"other":1}]', b"[{}]"])
def test_layout_with_rules_that_nobody_writes_is_refused(layout: bytes) -> None:
    """As any other layout that is none."""
    with pytest.raises(ValueError, match=r"."):
        Layout.parse(layout)
