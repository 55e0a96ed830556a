"""Objects that lose their labels while no executor runs, on a real API server."""

from __future__ import annotations

import asyncio
import json

from argosy_core.job.states import ObjectState

from .conftest import Bench, make_bag

OWN = ("argosy.dev/installation", "argosy.dev/run", "argosy.dev/object")


async def read_objects(bench: Bench) -> dict[str, tuple[str, bool]]:
    """Return uid, and whether our labels are there, of the pods and config maps of the test's namespace by name."""
    text = await bench.kubectl("-n", bench.namespace, "get", "pods,configmaps", "-o", "json")
    return {
        f"{item['kind']}/{item['metadata']['name']}": (
            item["metadata"]["uid"],
            all(key in item["metadata"].get("labels", {}) for key in OWN),
        )
        for item in json.loads(text)["items"]
        if item["metadata"]["name"] != "kube-root-ca.crt"
    }


async def test_objects_that_lose_their_labels_while_no_executor_runs_stay_those_of_their_runs(bench: Bench) -> None:
    """No list shows them to the next executor, and they run: it finds them, and there is no second run beside them."""
    process = await bench.start_executor()
    single = await bench.leader.lease(make_bag(namespace=bench.namespace, run_time="25s"))
    bag = await bench.leader.lease(make_bag(namespace=bench.namespace, kinds=("ConfigMap", "Pod")))
    await bench.leader.until(lambda: all(bench.leader.newest(handle).is_whole for handle in (single, bag)))
    await bench.stop_looking()  # whoever has seen a pod knows it, and would give its labels back
    await bench.kill(process)
    before = await read_objects(bench)
    assert [name.split("/")[0] for name in sorted(before)] == ["ConfigMap", "Pod", "Pod"]
    edit = [f"{key}-" for key in (*OWN, "argosy.dev/job-id", "argosy.dev/queue", "argosy.dev/job-set")]
    await bench.kubectl("-n", bench.namespace, "label", *before, *edit)
    assert not any(is_labelled for _, is_labelled in (await read_objects(bench)).values())
    await bench.start_executor()
    restored: set[str] = set()

    async def all_have_labels() -> bool:
        restored.update(name for name, (_, is_labelled) in (await read_objects(bench)).items() if is_labelled)
        return restored == set(before)

    looking = asyncio.ensure_future(bench.eventually(all_have_labels))
    try:
        await bench.leader.until(lambda: bench.leader.newest(single).has_ended)
        await looking
    finally:
        looking.cancel()
    after = await read_objects(bench)
    assert {name: uid for name, (uid, _) in after.items()}.items() <= {n: uid for n, (uid, _) in before.items()}.items()
    assert set(bench.leader.runs) == {(single, 1), (bag, 1)}
    assert bench.leader.newest(single).history[0][-2:] == ["RUNNING", "SUCCEEDED"]
    assert bench.leader.newest(bag).is_whole
    await bench.leader.stop(bag)
    await bench.leader.until(lambda: bench.leader.newest(bag).has_ended)

    async def nothing_is_left() -> bool:
        return not await read_objects(bench)

    await bench.eventually(nothing_is_left)
    assert bench.leader.newest(bag).end == "CANCELLED"


async def test_ended_pod_that_loses_its_labels_while_no_executor_runs_is_let_go(bench: Bench) -> None:
    """Its end is stored and its run over, so nobody asks for it; its finalizer would keep it for ever."""
    process = await bench.start_executor()
    handle = await bench.leader.lease(make_bag(namespace=bench.namespace, run_time="6s"))
    await bench.leader.until(lambda: bench.leader.newest(handle).is_whole)
    await bench.stop_looking()
    await bench.kill(process)

    async def has_ended() -> bool:
        text = await bench.kubectl("-n", bench.namespace, "get", "pods", "-o", "json")
        return [pod["status"]["phase"] for pod in json.loads(text)["items"]] == ["Succeeded"]

    await bench.eventually(has_ended)
    (name,) = [name for name in await read_objects(bench) if name.startswith("Pod/")]
    await bench.kubectl("-n", bench.namespace, "label", name, *(f"{key}-" for key in OWN))
    run = bench.leader.newest(handle)
    run.states = [int(ObjectState.SUCCEEDED)]  # as if its end had been reported, and the executor killed then
    await bench.start_executor()

    async def nothing_is_left() -> bool:
        return not await read_objects(bench)

    await bench.eventually(nothing_is_left)
    assert set(bench.leader.runs) == {(handle, 1)}


async def test_config_map_that_loses_its_labels_under_a_living_executor_goes_with_its_pod(bench: Bench) -> None:
    """It is not told as lost, which would end the bag; it gets its labels back, and nothing is left in the end."""
    await bench.start_executor()
    bag = await bench.leader.lease(make_bag(namespace=bench.namespace, kinds=("ConfigMap", "Pod")))
    await bench.leader.until(lambda: bench.leader.newest(bag).is_whole)
    await bench.stop_looking()
    (name,) = [name for name in await read_objects(bench) if name.startswith("ConfigMap/")]
    await bench.kubectl("-n", bench.namespace, "label", name, f"{OWN[0]}-")

    async def has_labels() -> bool:
        return (await read_objects(bench))[name][1]

    await bench.eventually(has_labels)
    assert bench.leader.newest(bag).is_whole
    await bench.leader.stop(bag)

    async def nothing_is_left() -> bool:
        return not await read_objects(bench)

    await bench.eventually(nothing_is_left)
    await bench.leader.until(lambda: bench.leader.newest(bag).has_ended)
    assert {run.end for run in bench.leader.runs.values()} == {"CANCELLED"}
