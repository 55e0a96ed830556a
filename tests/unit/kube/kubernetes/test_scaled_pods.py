"""What a reader who counts pods sees of within what they are resized."""

from __future__ import annotations

from argosy_core.job.reading.scaling import PodNote, Scaling
from argosy_kube.port import Selector
from argosy_testkit.fake_kube_api.lab import FakeKubeLab

NOTES = {"argosy.dev/autoscale-min": "cpu=250m,memory=1Gi", "argosy.dev/autoscale-max": "cpu=4,memory=4Gi", "x": "y"}


async def test_bounds_of_pods_are_told_by_place_and_what_cannot_be_read_is_no_bound(lab: FakeKubeLab) -> None:
    """A pod whose annotations are wrong keeps its size; other annotations are skipped."""
    cluster = lab.open("one")
    for number, notes in enumerate(({}, NOTES, {**NOTES, "argosy.dev/autoscale": "maybe"})):
        document = {
            "metadata": {"name": f"pod-{number}", "annotations": notes},
            "spec": {"nodeName": "node-a", "containers": [{"name": "main"}]},
        }
        lab.api.store.create("pods", "default", document)
    events = await cluster.list_objects(Selector.ALL_PODS)
    assert len(events) == 3
    note = PodNote(namespace="default", name="pod-1")
    assert events.scalings == {1: Scaling(least=(250, 1 << 30), most=(4000, 4 << 30), note=note)}
