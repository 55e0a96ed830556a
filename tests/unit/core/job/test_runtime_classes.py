"""RuntimeClasses of a bag's pods, as far as they say how much room the pods take.

Source: design section 6, "Data layout"; Kubernetes, "Pod Overhead".
"""

from __future__ import annotations

import json
from typing import Any

from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.reading.spec import Bag, SpecLimits, read_bag


def pod(name: str = "work", **spec: Any) -> dict[str, Any]:
    """Return a pod of one core."""
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def read(*manifests: dict[str, Any]) -> Bag:
    """Read manifests given as documents."""
    return read_bag([json.dumps(manifest).encode() for manifest in manifests], SpecLimits())


def test_read_bag_counts_pods_by_runtime_class_and_not_those_that_say_their_overhead() -> None:
    """What a RuntimeClass takes only the cluster knows; the class of the job keeps whose it is."""
    pods = [
        pod(name, runtimeClassName=runtime_class, **more)
        for name, runtime_class, more in (
            ("a", "sandbox", {}),
            ("b", "sandbox", {}),
            ("c", "kata.v2", {}),
            ("d", "sandbox", {"overhead": {"cpu": "250m"}}),
        )
    ]
    bag = read(*pods)
    assert bag.violations == ()
    assert bag.scheduling_class.runtime_classes == (("kata.v2", 1), ("sandbox", 2))
    assert SchedulingClass.parse(bag.class_definition) == bag.scheduling_class
    assert b"runtime_classes" not in read(pod()).class_definition
    assert [one.field for one in read(pod(runtimeClassName="No Name")).violations] == [
        "manifests[0].spec.runtimeClassName"
    ]
