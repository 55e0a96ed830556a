"""Cutting drafts into requests."""

import pytest

from argosy_client import JobDraft, split_drafts


def drafts(count: int, *, copies: int = 1, spec_bytes: int = 10, distinct: bool = False) -> list[JobDraft]:
    """Return drafts in order, told apart by their client ids."""
    return [
        JobDraft(
            queue="q",
            job_set="s",
            manifests=(str(number if distinct else 0).zfill(spec_bytes),),
            count=copies,
            client_id=str(number),
        )
        for number in range(count)
    ]


@pytest.mark.parametrize(
    ("made", "sizes"),
    [
        pytest.param(drafts(3), [3], id="one request"),
        pytest.param(drafts(2500), [1000, 1000, 500], id="items"),
        pytest.param(drafts(5, copies=40_000), [2, 2, 1], id="jobs"),
        pytest.param(drafts(5, spec_bytes=1_200_000, distinct=True), [2, 2, 1], id="bytes of specs"),
        pytest.param(drafts(5, spec_bytes=1_200_000), [5], id="equal specs travel once"),
        pytest.param(drafts(2, spec_bytes=9_000_000, distinct=True), [1, 1], id="too large alone"),
        pytest.param([], [], id="nothing"),
    ],
)
def test_parts_fit_a_request_and_keep_the_order(made: list[JobDraft], sizes: list[int]) -> None:
    """At most 1,000 items, 100,000 jobs and 3 MiB a part; nothing is lost or moved."""
    parts = list(split_drafts(made))

    assert [len(part) for part in parts] == sizes
    assert [draft for part in parts for draft in part] == made
