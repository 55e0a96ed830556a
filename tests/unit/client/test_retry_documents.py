"""Rules for retries as people write them."""

from dataclasses import replace

import pytest

from argosy_client.documents import DocumentOptions, parse_documents
from argosy_core.errors import InvalidRequest
from argosy_core.job.failure_kind import FailureKind
from argosy_core.job.reading.retry_rules import RetryRules

RETRY = """\
queue: tides
jobSet: march
spec:
  manifests: [{kind: Pod}]
  retry:
    maxFailedRuns: 5
    byKind: {exit_code: 3, out_of_memory: 2}
    firstBackOff: 10s
    backOffFactor: 1.5
    maxBackOff: 5m
  nodeLost: {replaceAfter: 90s}
  executorLost: {stopAfter: 30m}
"""


def test_rules_for_retries_are_read() -> None:
    """Limits in all and by kind, and back-offs as durations; specs that differ in them are two."""
    (draft,) = parse_documents(RETRY, source="f.yaml", options=DocumentOptions())
    assert draft.retry == RetryRules(
        max_failed_runs=5,
        by_kind=((FailureKind.EXIT_CODE, 3), (FailureKind.OUT_OF_MEMORY, 2)),
        first_back_off_s=10.0,
        back_off_factor=1.5,
        max_back_off_s=300.0,
        replace_after_s=90.0,
        stop_after_s=1800.0,
    )
    assert draft.spec_key != replace(draft, retry=None).spec_key


@pytest.mark.parametrize(
    ("change", "place", "what"),
    [
        (("exit_code", "exit_cod"), "f.yaml:7:", "is no field of byKind; did you mean exit_code?"),
        (("exit_code: 3", "exit_code: 251"), "f.yaml:7:", "must be a whole number from 1 to 250"),
        (("maxFailedRuns: 5", "maxRuns: 5"), "f.yaml:6:", "is no field of retry"),
        (("firstBackOff: 10s", "firstBackOff: 10"), "f.yaml:8:", "a number needs its unit"),
        (("replaceAfter: 90s", "replaceAfter: 90"), "f.yaml:11:", "a number needs its unit"),
        (("replaceAfter", "replace"), "f.yaml:11:", "is no field of nodeLost; did you mean replaceAfter?"),
        (("stopAfter: 30m", "stopAfter: soon"), "f.yaml:12:", "stopAfter"),
        (("{stopAfter: 30m}", "30m"), "f.yaml:12:", "must be a mapping, as {stopAfter: 5m}"),
        (("backOffFactor: 1.5", "backOffFactor: twice"), "f.yaml:9:", "must be a number"),
    ],
)
def test_mistake_in_rules_for_retries_is_told_with_its_place(change: tuple[str, str], place: str, what: str) -> None:
    """A fault names file, line and field, and what was probably meant."""
    with pytest.raises(InvalidRequest) as told:
        parse_documents(RETRY.replace(*change), source="f.yaml", options=DocumentOptions())
    faults = [violation.description for violation in told.value.violations]
    assert any(fault.startswith(place) and what in fault for fault in faults), faults
