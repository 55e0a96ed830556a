"""Rules for resizes as annotations, and pods that can never be resized."""

import json
from typing import Any

import pytest

from argosy_core.job.reading.scaling import read_scaling
from argosy_core.job.reading.scaling_rules import ScalingRules
from argosy_core.job.reading.scaling_texts import annotations_of, read_rules, spec_scaling_fault

RULES = ScalingRules(least=("500m", "1Gi"), most=("4", "8Gi"))


@pytest.mark.parametrize(
    "rules",
    [
        RULES,
        ScalingRules(is_off=True),
        ScalingRules(
            least=("1", "1Gi"), most=("1", "1Gi"), unit=("1", "1Gi"), load_ratio=0.5, memory_ratio=1.0,
            working_set_ratio=0.25, is_bundle=True, is_movable=True,
        ),
    ],
)  # fmt: skip
def test_rules_are_read_back_from_the_annotations_that_they_become(rules: ScalingRules) -> None:
    """Nothing is lost or made up, and what agents and samplers read is the same."""
    notes = annotations_of(rules)
    assert read_rules(notes) == rules
    assert (read_scaling(notes) is None) == rules.is_off


def test_annotations_that_say_nothing_or_cannot_be_read_are_no_rules() -> None:
    """Jobs are shown without them then."""
    assert read_rules({"other": "x"}) is None
    assert read_rules({"argosy.dev/autoscale-min": "cpu=1"}) is None
    assert read_rules({"argosy.dev/autoscale-contract-port": "8321"}) is None


def pod(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return a pod."""
    named = [{"name": f"c{number}", "image": "i", **one} for number, one in enumerate(containers)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": named, **spec}}


def asks(cpu: str = "1", memory: str = "1Gi") -> dict[str, Any]:
    """Return what a container requests."""
    return {"resources": {"requests": {"cpu": cpu, "memory": memory}}}


@pytest.mark.parametrize(
    ("objects", "said"),
    [
        ([pod(asks())], ""),
        ([pod({"resources": {"limits": {"cpu": "4", "memory": "8Gi"}}})], ""),
        ([pod(asks()), {"kind": "ConfigMap"}], ""),
        ([pod(asks()), pod(asks())], "a job of one pod"),
        ([pod(asks("3"), asks("2"))], "its pod requests 5 of cpu, its max is 4"),
        ([pod(asks(), {})], "container c1 requests no cpu"),
        ([pod(asks(), resources={"requests": {"cpu": "1"}})], "for the pod as a whole"),
        (
            [pod({**asks(), "resizePolicy": [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]})],
            "is restarted when its memory is resized",
        ),
    ],
)
def test_pod_that_can_never_be_resized_is_told_from_one_that_can(objects: list[dict[str, Any]], said: str) -> None:
    """Its agent would refuse it for ever, or its first size is above the largest."""
    fault = spec_scaling_fault(json.dumps(objects).encode(), annotations_of(RULES), is_gang=False)
    assert bool(fault) == bool(said)
    assert said in fault
    assert "a job of one pod" in spec_scaling_fault(json.dumps(objects).encode(), annotations_of(RULES), is_gang=True)
    assert not spec_scaling_fault(
        json.dumps(objects).encode(), annotations_of(ScalingRules(is_off=True)), is_gang=False
    )
