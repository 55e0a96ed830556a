"""Tests of policies: what annotations say, and what they may not."""

import pytest

from argosy_core.autoscale import Amounts
from argosy_core.autoscale.events import ScalingPolicy
from argosy_core.autoscale.policies import read_policy
from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.scaling import BUNDLE_ANNOTATION, CONTRACT_PORT_ANNOTATION, TARGETS_ANNOTATION

BOUNDS = {"argosy.dev/autoscale-min": "cpu=250m,memory=1Gi", "argosy.dev/autoscale-max": "cpu=4,memory=16Gi"}
LEAST, MOST = Amounts(250, 1 << 30), Amounts(4000, 16 << 30)


def test_a_policy_is_what_the_annotations_say() -> None:
    """What is not said is as by default; without bounds, or switched off, there is none."""
    assert read_policy(BOUNDS) == ScalingPolicy(least=LEAST, most=MOST)
    told = {TARGETS_ANNOTATION: "load=0.5, working-set=1", BUNDLE_ANNOTATION: "true", CONTRACT_PORT_ANNOTATION: "8321"}
    wanted = ScalingPolicy(
        least=LEAST, most=MOST, load_ratio=0.5, working_set_ratio=1.0, is_bundle=True, contract_port=8321
    )
    assert read_policy(BOUNDS | told) == wanted
    assert read_policy({}) is None
    assert read_policy(BOUNDS | {"argosy.dev/autoscale": "off"}) is None


@pytest.mark.parametrize(
    ("annotation", "text", "why"),
    [
        (TARGETS_ANNOTATION, "speed=1", "write load="),
        (TARGETS_ANNOTATION, "load=fast", "write load="),
        (TARGETS_ANNOTATION, "load", "write load="),
        (TARGETS_ANNOTATION, "load=0", "above 0 and at most 1"),
        (TARGETS_ANNOTATION, "memory=nan", "above 0 and at most 1"),
        (BUNDLE_ANNOTATION, "yes", "write false or true"),
        (CONTRACT_PORT_ANNOTATION, "http", "write a port"),
        (CONTRACT_PORT_ANNOTATION, "65536", "write a port"),
        (CONTRACT_PORT_ANNOTATION, "-1", "write a port"),
        ("argosy.dev/autoscale-min", "cpu=0,memory=1Gi", "some of each"),
    ],
)
def test_an_annotation_that_cannot_be_read_is_refused_by_its_name(annotation: str, text: str, why: str) -> None:
    """The pod is then left alone, and the reason kept."""
    with pytest.raises(InvalidRequest, match=why):
        read_policy(BOUNDS | {annotation: text})
