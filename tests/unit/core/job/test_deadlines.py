"""When bags end by the deadlines of their own pods."""

from __future__ import annotations

import json

import pytest

from argosy_core.job.reading.spec import SpecLimits, read_bag


def pod(name: str, deadline: object) -> bytes:
    """Return a pod with a deadline, or with none."""
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    spec = {"containers": [container], **({} if deadline is None else {"activeDeadlineSeconds": deadline})}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}).encode()


@pytest.mark.parametrize(
    ("deadlines", "expected"),
    [
        ((60,), 60),
        ((None,), -1),
        ((60, 90), 90),
        ((60, None), -1),
        ((0,), -1),
        (("60",), -1),
        ((1 << 40,), -1),
    ],
    ids=str,
)
def test_bag_ends_by_itself_when_the_last_of_its_pods_does(deadlines: tuple[object, ...], expected: int) -> None:
    """The pods' own deadlines bound a run only if each has one; what the API server would refuse is none."""
    pods = [pod(f"pod-{number}", deadline) for number, deadline in enumerate(deadlines)]
    bag = read_bag(pods, SpecLimits())
    assert not bag.violations
    assert bag.deadline_s == expected
