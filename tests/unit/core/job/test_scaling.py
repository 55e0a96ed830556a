"""Annotations that say within what a pod is resized."""

import json

import pytest

from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.scaling import Scaling, Targets, read_scaling
from argosy_core.job.reading.spec import SpecLimits, read_bag
from argosy_server.api.codecs.names import metadata_faults

BOTH = {
    "argosy.dev/autoscale-min": "cpu=250m,memory=1Gi",
    "argosy.dev/autoscale-max": "memory=16Gi, cpu=4",
}


def test_both_bounds_make_a_pod_scaled() -> None:
    """In any order, as Kubernetes quantities."""
    assert read_scaling(BOTH) == Scaling(least=(250, 1 << 30), most=(4000, 16 << 30))


def test_queue_and_movable_are_read() -> None:
    """Both may be left out."""
    scaling = read_scaling({**BOTH, "argosy.dev/queue": "team-a", "argosy.dev/autoscale-movable": "true"})
    assert scaling is not None
    assert (scaling.queue, scaling.is_movable) == ("team-a", True)


@pytest.mark.parametrize("notes", [{}, {"other": "x"}, {**BOTH, "argosy.dev/autoscale": "off"}])
def test_a_pod_without_bounds_or_switched_off_is_not_scaled(notes: dict[str, str]) -> None:
    """It keeps its size."""
    assert read_scaling(notes) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"argosy.dev/autoscale-max": "cpu=4"},
        {"argosy.dev/autoscale-max": "cpu=4,cpu=4"},
        {"argosy.dev/autoscale-max": "cpu=4,memory"},
        {"argosy.dev/autoscale-max": "cpu=4,memory=-1"},
        {"argosy.dev/autoscale-max": "cpu=4,example.com/gpu=1"},
        {"argosy.dev/autoscale-max": "cpu=100m,memory=1Gi"},
        {"argosy.dev/autoscale": "yes"},
        {"argosy.dev/autoscale-movable": "1"},
    ],
)
def test_annotations_that_cannot_be_read_are_refused_by_name(wrong: dict[str, str]) -> None:
    """The error says which annotation is wrong."""
    with pytest.raises(InvalidRequest, match=next(iter(wrong))):
        read_scaling({**BOTH, **wrong})


def test_one_bound_alone_is_refused() -> None:
    """Nobody can say what the other would be."""
    with pytest.raises(InvalidRequest, match="go together"):
        read_scaling({"argosy.dev/autoscale-min": "cpu=250m,memory=1Gi"})


def test_targets_unit_and_bundle_are_read() -> None:
    """What is left out has its default."""
    words = {"argosy.dev/autoscale-targets": "load=0.5, memory=1", "argosy.dev/autoscale-unit": "cpu=1,memory=1Gi"}
    scaling = read_scaling({**BOTH, **words, "argosy.dev/autoscale-bundle": "true"})
    assert scaling is not None
    assert scaling.targets == Targets(load_ratio=0.5, memory_ratio=1.0)
    assert (scaling.unit, scaling.is_bundle) == ((1000, 1 << 30), True)


def test_users_may_write_what_scales_and_nothing_else_of_the_prefix() -> None:
    """A mistake is told when the job is submitted, by the annotation's name; so it is for annotations of a job."""
    amounts = {"cpu": "1", "memory": "1Gi"}
    containers = [{"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}]

    def faults(notes: dict[str, str]) -> tuple[str, str]:
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"annotations": notes},
            "spec": {"containers": containers},
        }
        return str(read_bag([json.dumps(pod).encode()], SpecLimits()).violations), str([*metadata_faults({}, notes)])

    assert faults(BOTH) == ("()", "[]")
    for notes, fault in [
        ({**BOTH, "argosy.dev/autoscale-targets": "load=2"}, "autoscale-targets"),
        ({**BOTH, "argosy.dev/queue": "other"}, "reserved"),
        ({**BOTH, "argosy.dev/autoscale-maximum": "1"}, "reserved"),
    ]:
        assert all(fault in told for told in faults(notes))
