"""A tenant who makes pods in a namespace of its own, and writes another's run on them, on a real API server."""

from __future__ import annotations

import json

from argosy_core.job.reading.naming import run_suffix
from argosy_core.reconcile.rendering import (
    INSTALLATION_LABEL,
    OBJECT_LABEL,
    RUN_ANNOTATION,
    RUN_LABEL,
    run_label,
    run_mark,
)

from .conftest import Bench, make_bag

NEXT_HANDLE = 9_000_001


async def forge(bench: Bench, namespace: str, handle: int, *, name: str, run_time: str) -> None:
    """Make a pod that has a run's name, labels and annotation, in another namespace."""
    installation = bench.leader.installation
    (pod,) = json.loads(make_bag(run_time=run_time, namespace=namespace))
    pod["metadata"] |= {
        "name": name + run_suffix(handle, 1),
        "labels": {INSTALLATION_LABEL: installation, RUN_LABEL: run_label(handle, 1), OBJECT_LABEL: "0"},
    }
    pod["metadata"]["annotations"][RUN_ANNOTATION] = run_mark(installation, handle, 1, 0)
    pod["spec"] |= {"nodeName": bench.node, "restartPolicy": "Never", "automountServiceAccountToken": False}

    async def is_made() -> bool:
        accounts = await bench.kubectl("-n", namespace, "get", "serviceaccounts", "-o", "name")
        return "default" in accounts

    await bench.eventually(is_made)
    await bench.kubectl("create", "-f", "-", stdin=json.dumps(pod))


async def phases(bench: Bench, namespace: str) -> list[str]:
    """Return the phases of the pods in a namespace, in the order of their names."""
    text = await bench.kubectl("-n", namespace, "get", "pods", "-o", "json")
    return [pod["status"]["phase"] for pod in json.loads(text)["items"]]


async def test_pod_that_another_tenant_forges_is_never_taken_for_the_runs(bench: Bench) -> None:
    """Not before the run's own is made, not beside it, not by an executor that begins and lists it first."""
    other = f"a-{bench.namespace}"  # lists have it before the run's namespace
    await bench.kubectl("create", "namespace", other)
    await forge(bench, other, NEXT_HANDLE, name="early", run_time="1s")

    async def forged_has_ended() -> bool:
        return set(await phases(bench, other)) == {"Succeeded"}

    await bench.eventually(forged_has_ended)
    handle = await bench.leader.lease(make_bag(namespace=bench.namespace), handle=NEXT_HANDLE)
    process = await bench.start_executor()
    await bench.leader.until(lambda: bench.leader.newest(handle).is_whole)
    own = await bench.pod_names()
    assert own == ["pod0" + run_suffix(handle, 1)]
    await forge(bench, other, handle, name="pod0", run_time="1s")
    await bench.eventually(forged_has_ended)
    await bench.kill(process)
    process = await bench.start_executor()
    welcomed = bench.leader.welcomed_count
    await bench.leader.until(lambda: bench.leader.welcomed_count > welcomed)
    probe = await bench.leader.lease(make_bag(namespace=bench.namespace))
    await bench.leader.until(lambda: bench.leader.newest(probe).is_whole)
    assert bench.leader.newest(handle).is_whole
    await bench.leader.stop(handle)
    await bench.leader.until(lambda: bench.leader.newest(handle).has_ended)
    assert await bench.pod_names() == ["pod0" + run_suffix(probe, 1)]
    assert bench.leader.newest(handle).end == "CANCELLED"
    assert "SUCCEEDED" not in bench.leader.newest(handle).history[0]
    assert len(await phases(bench, other)) == 2, "whose they are nobody here knows while the run is not over"
    assert set(bench.leader.runs) == {(handle, 1), (probe, 1)}
