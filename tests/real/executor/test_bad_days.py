"""An executor process on a real API server: killed again and again, doubled, and with a cluster that others change."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from argosy_core.job.states import FailureKind, ObjectState
from argosy_core.reconcile.rendering import OBJECT_LABEL, RUN_LABEL

from .conftest import TIMEOUT_S, Bench, make_bag
from .nursery import running_nursery

KILL_COUNT = 60
LIVES_PER_EARLY_KILL = 6
JOBS_PER_LIFE = 8
PODS_PER_LIFE = 10
LEAST_IN_THE_MIDDLE = 20
"""Lives that must have been killed amid their writes: rows made in part, or made and not reported."""


async def is_in_the_middle(bench: Bench, handles: list[int]) -> bool:
    """Return whether an executor that was just killed had begun with some rows and was not done with all of them."""
    made = set(await bench.left_over())
    live = [(key, run) for key, run in bench.leader.runs.items() if key[0] in handles and not run.has_ended]
    begun = [key for key, run in live if key in made or run.was_there]
    unreported = [key for key, run in live if key in made and not run.was_there]
    return bool(unreported) or 0 < len(begun) < len(live)


@pytest.mark.timeout(300)
async def test_executor_killed_at_any_moment_leaves_rows_and_cluster_equal(bench: Bench) -> None:
    """Sixty kills amid starts, creates, deletes and reports: no orphan, no second pod of a run, nothing lost."""
    rng = np.random.default_rng(7)
    leader = bench.leader
    bags = (
        make_bag(namespace=bench.namespace),
        make_bag(namespace=bench.namespace, run_time="0.5s"),
        make_bag(namespace=bench.namespace, kinds=("ConfigMap", "Secret", "Pod", "Pod")),
    )
    handles: list[int] = []
    middle_count = 0
    async with running_nursery() as nursery:
        for life in range(KILL_COUNT):
            before = leader.welcomed_count
            await nursery.start(bench.executor_flags(), bench.directory / f"life-{life}.log")
            if life % LIVES_PER_EARLY_KILL == 1:  # while it lists, says hello and takes rows
                await asyncio.sleep(float(rng.uniform(0.0, 0.6)))
                await nursery.kill()
                continue
            await leader.until(lambda before=before: leader.welcomed_count > before)
            pod_count = len(bench.onlooker.keys)
            new = [await leader.lease(bags[number % len(bags)]) for number in range(JOBS_PER_LIFE)]
            handles += new
            open_handles = [handle for handle in handles if not leader.newest(handle).has_ended]
            await leader.stop(*rng.choice(open_handles, 2, replace=False).tolist())
            if life % 2:  # among creates, however fast the machine is
                await bench.onlooker.until_pods(pod_count + int(rng.integers(1, PODS_PER_LIFE)))
            else:  # whenever, deletes and reports included
                await asyncio.sleep(float(rng.uniform(0.0, 0.25)))
            await nursery.kill()
            middle_count += await is_in_the_middle(bench, new)
    assert middle_count >= LEAST_IN_THE_MIDDLE
    before = leader.welcomed_count
    await bench.start_executor()
    await leader.until(lambda: leader.welcomed_count > before)  # a busy machine takes long to start a process

    def live_runs() -> list[tuple[int, int]]:
        return sorted(key for key, run in leader.runs.items() if not run.has_ended)

    async def is_at_rest() -> bool:
        # A bag of which only one pod was made is lost, and made again as another run, once nobody can make the other.
        live = live_runs()
        runs = [leader.runs[key] for key in live]
        return await bench.left_over() == live == live_runs() and all(
            run.is_whole and not run.is_stopped for run in runs
        )

    # Sooner than what ended would go without the leader's word on how long it stays.
    try:
        await bench.eventually(is_at_rest, timeout_s=45.0)
    except TimeoutError:
        there, live = await bench.left_over(), live_runs()
        unrest = {key: leader.runs[key].history for key in live if not leader.runs[key].is_whole}
        stopped = [key for key in live if leader.runs[key].is_stopped]
        pytest.fail(
            f"not at rest: there and ended {sorted(set(there) - set(live))}, live and not there"
            f" {sorted(set(live) - set(there))}, not whole {unrest}, to be stopped {stopped}"
        )
    live = live_runs()
    assert live, "some run for an hour"
    assert all(b'"1h"' in leader.runs[key].bag for key in live)
    await leader.stop(*(handle for handle, _ in live))
    await leader.until(lambda: not live_runs())

    async def nothing_is_left() -> bool:
        return not await bench.left_over()

    await bench.eventually(nothing_is_left)
    assert {leader.newest(handle).end for handle in handles} == {"SUCCEEDED", "CANCELLED"}


async def test_onlooker_goes_on_after_a_broken_connection_and_tells_what_must_never_be(bench: Bench) -> None:
    """All tests here rely on it: a second pod of a run, and two runs of a job at once, are told whoever makes them."""
    onlooker = bench.onlooker

    async def has_looked_anew() -> bool:
        return onlooker.list_count >= 2

    async def are_seen() -> bool:
        return len(onlooker.keys) == 3

    await onlooker.until_looking()
    onlooker.break_off()
    await bench.eventually(has_looked_anew)
    for number, run in enumerate(("70-1", "70-1", "70-2")):
        labels = {RUN_LABEL: run, OBJECT_LABEL: "0"}
        manifest = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"pod{number}", "namespace": bench.namespace, "labels": labels},
            "spec": {"nodeName": bench.node, "containers": [{"name": "main", "image": "app"}]},
        }
        await bench.kubectl("create", "-f", "-", stdin=json.dumps(manifest))
    await bench.eventually(are_seen)
    await bench.stop_looking()
    told, onlooker.faults = set(onlooker.faults), []
    assert told == {"a second pod of run 70/1", "job 70 runs twice: [(1, 0), (2, 0)]"}


async def test_second_executor_of_a_name_waits_and_takes_over_once_the_first_one_is_gone(bench: Bench) -> None:
    """While the first one is heard it serves; when it dies the second one does, and no pod is made twice."""
    first = await bench.start_executor()
    await bench.leader.until(lambda: bench.leader.welcomed_count == 1)
    handles = [await bench.leader.lease(make_bag(namespace=bench.namespace)) for _ in range(20)]
    second = await bench.start_executor()

    async def was_refused() -> bool:
        return "is another process" in bench.log_of(second)

    await bench.eventually(was_refused)
    assert bench.leader.welcomed_count == 1
    first.kill()
    await bench.leader.until(lambda: bench.leader.welcomed_count >= 2)
    handles += [await bench.leader.lease(make_bag(namespace=bench.namespace)) for _ in range(20)]
    await bench.leader.until(lambda: all(bench.leader.newest(handle).end == "RUNNING" for handle in handles))
    assert second.returncode is None
    assert len(await bench.pod_names()) == 40


async def test_executor_of_a_name_on_another_cluster_is_refused(
    bench: Bench, kube_api_factory: Any, tmp_path: Path
) -> None:
    """A name belongs to a cluster's uid; whoever comes with another one ends and has touched nothing."""
    other = await asyncio.to_thread(kube_api_factory)
    await bench.start_executor()
    await bench.leader.until(lambda: bench.leader.welcomed_count == 1)
    handle = await bench.leader.lease(make_bag(namespace=bench.namespace))
    second = await bench.start_executor(kubeconfig=other.kubeconfig)
    assert await asyncio.wait_for(second.wait(), TIMEOUT_S) == 2
    assert "is bound to" in bench.log_of(second)
    await bench.leader.until(lambda: bench.leader.newest(handle).end == "RUNNING")
    assert await asyncio.to_thread(other.kubectl, "get", "pods", "-A", "-o", "name") == ""
    await asyncio.to_thread(other.stop)


async def test_pods_deleted_and_edited_by_hand(bench: Bench) -> None:
    """A pod that somebody deletes is killed, which is no failure of its job; notes of others change nothing."""
    bench.leader.retries = False
    await bench.start_executor()
    handles = [await bench.leader.lease(make_bag(namespace=bench.namespace)) for _ in range(2)]
    await bench.leader.until(lambda: all(bench.leader.newest(handle).end == "RUNNING" for handle in handles))
    deleted, edited = await bench.pod_names()
    await bench.kubectl("-n", bench.namespace, "annotate", "pod", edited, "somebody=was-here")
    await bench.kubectl("-n", bench.namespace, "label", "pod", edited, "more=labels")
    await bench.kubectl("-n", bench.namespace, "delete", "pod", deleted, "--wait=false")
    await bench.leader.until(lambda: any(run.has_ended for run in bench.leader.runs.values()))
    killed, other = sorted((bench.leader.newest(handle) for handle in handles), key=lambda run: run.end)
    assert (killed.end, killed.failure, other.end) == ("FAILED", FailureKind.INFRASTRUCTURE, "RUNNING")
    assert "Deleted" in killed.text

    async def only_the_other_is_left() -> bool:
        return await bench.pod_names() == [edited]

    await bench.eventually(only_the_other_is_left)


async def test_unmanaged_pod_with_our_name_is_left_alone(bench: Bench) -> None:
    """A name that somebody else has is refused; his pod stays."""
    bag = make_bag(namespace=bench.namespace)
    await bench.start_executor()
    first = await bench.leader.lease(bag)
    await bench.leader.until(lambda: bench.leader.newest(first).end == "RUNNING")
    (name,) = await bench.pod_names()
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": bench.namespace},
        "spec": {"nodeName": bench.node, "containers": [{"name": "main", "image": "app"}]},
    }
    await bench.leader.stop(first)
    await bench.leader.until(lambda: bench.leader.newest(first).end == "CANCELLED")

    async def is_empty() -> bool:
        return not await bench.pod_names()

    await bench.eventually(is_empty)
    await bench.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    # The same run again, as after a leader's mistake: its name is taken.
    bench.leader.runs.clear()
    await bench.leader.lease(bag, handle=first)
    await bench.leader.until(lambda: bench.leader.newest(first).end == "FAILED")
    run = bench.leader.newest(first)
    assert (run.failure, "somebody else" in run.text) == (FailureKind.REJECTED, True)
    assert await bench.pod_names() == [name]


@pytest.mark.parametrize(
    "edit",
    [
        ("argosy.dev/installation-",),
        ("argosy.dev/installation=somebody",),
        ("argosy.dev/run=99-1",),
        ("argosy.dev/installation-", "argosy.dev/run-", "argosy.dev/object-"),
    ],
    ids=["installation-taken-away", "installation-changed", "another-run", "all-taken-away"],
)
async def test_pod_whose_labels_are_edited_runs_on_as_the_only_one(bench: Bench, edit: tuple[str, ...]) -> None:
    """To a watch with a selector it is gone, but it runs: it gets its labels back, and its run goes on to its end."""
    await bench.start_executor()
    handle = await bench.leader.lease(make_bag(namespace=bench.namespace, run_time="6s"))
    await bench.leader.until(lambda: bench.leader.newest(handle).end == "RUNNING")
    (name,) = await bench.pod_names()
    await bench.kubectl("-n", bench.namespace, "label", "pod", name, *edit, "--overwrite")
    await bench.leader.until(lambda: bench.leader.newest(handle).has_ended)
    assert set(bench.leader.runs) == {(handle, 1)}
    run = bench.leader.newest(handle)
    assert (run.end, run.history[0][-2:]) == ("SUCCEEDED", ["RUNNING", "SUCCEEDED"])


async def test_pod_that_never_starts_tells_the_last_warning_about_it(bench: Bench) -> None:
    """A volume that cannot be mounted stands in no pod's status, only in events; the run's message has it."""
    bench.leader.retries = False
    await bench.start_executor("--pending-timeout-s", "8", "--kubernetes-warnings-after-s", "1")
    handle = await bench.leader.lease(make_bag(namespace=bench.namespace, simulated_start_delay="1h"))
    await bench.leader.until(lambda: bench.leader.newest(handle).end == "CREATED")
    (name,) = await bench.pod_names()
    uid = await bench.kubectl("-n", bench.namespace, "get", "pod", name, "-o", "jsonpath={.metadata.uid}")
    for number, (reason, text) in enumerate([("Scheduled", "assigned"), ("FailedMount", "no such volume: data")]):
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{name}.{number}", "namespace": bench.namespace},
            "involvedObject": {"kind": "Pod", "name": name, "namespace": bench.namespace, "uid": uid},
            "type": "Normal" if reason == "Scheduled" else "Warning",
            "reason": reason,
            "message": text,
            "lastTimestamp": f"2026-01-01T00:00:0{number}Z",
        }
        await bench.kubectl("create", "-f", "-", stdin=json.dumps(event))
    await bench.leader.until(lambda: bench.leader.newest(handle).has_ended)
    run = bench.leader.newest(handle)
    assert (run.end, run.failure) == ("FAILED", FailureKind.INFRASTRUCTURE)
    assert "did not start for 8 s: FailedMount: no such volume: data" in run.text


async def test_bags_of_many_kinds_are_made_whole_and_deleted_whole(bench: Bench) -> None:
    """Everything beside the pods goes with them: when they end, when one fails, and when the job is cancelled."""
    kinds = ("ConfigMap", "Secret", "Service", "Ingress", "PersistentVolumeClaim", "Pod", "Pod")
    await bench.start_executor()
    ends = {
        await bench.leader.lease(make_bag(namespace=bench.namespace, kinds=kinds, run_time="1s")): "SUCCEEDED",
        await bench.leader.lease(
            make_bag(namespace=bench.namespace, kinds=kinds, run_time="1s", simulated_exit_code="3")
        ): "FAILED",
        await bench.leader.lease(make_bag(namespace=bench.namespace, kinds=kinds)): "CANCELLED",
    }
    cancelled = next(handle for handle, end in ends.items() if end == "CANCELLED")
    await bench.leader.until(
        lambda: all(state == ObjectState.RUNNING for state in bench.leader.newest(cancelled).states)
    )
    await bench.leader.stop(cancelled)
    await bench.leader.until(lambda: all(bench.leader.newest(handle).has_ended for handle in ends))
    assert {handle: bench.leader.newest(handle).end for handle in ends} == ends

    async def nothing_is_left() -> bool:
        return not await bench.left_over()

    await bench.eventually(nothing_is_left)


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("OOMKilled", FailureKind.OUT_OF_MEMORY),
        ("Evicted", FailureKind.EVICTED),
        ("ErrImagePull", FailureKind.IMAGE),
        ("CreateContainerConfigError", FailureKind.REJECTED),
        ("OutOfcpu", FailureKind.INFRASTRUCTURE),
        ("NodeAffinity", FailureKind.INFRASTRUCTURE),
        ("UnexpectedAdmissionError", FailureKind.INFRASTRUCTURE),
    ],
)
async def test_what_kubelets_say_is_told_as_a_kind_of_failure(bench: Bench, reason: str, kind: FailureKind) -> None:
    """The kind decides whether the job is tried again; the words of Kubernetes stand in the message."""
    bench.leader.retries = False
    await bench.start_executor("--image-timeout-s", "2")
    handle = await bench.leader.lease(make_bag(namespace=bench.namespace, run_time="0.5s", simulated_reason=reason))
    await bench.leader.until(lambda: bench.leader.newest(handle).end == "FAILED")
    run = bench.leader.newest(handle)
    assert run.failure == kind
    assert reason in run.text or (reason == "ErrImagePull" and "Image" in run.text)
    assert len(run.text) <= 256


async def test_pod_that_ended_while_the_executor_was_down_still_tells_its_end(bench: Bench) -> None:
    """The finalizer keeps a pod that was collected until its end is stored."""
    process = await bench.start_executor()
    handle = await bench.leader.lease(make_bag(namespace=bench.namespace, run_time="3s", simulated_exit_code="5"))
    await bench.leader.until(lambda: bench.leader.newest(handle).end == "RUNNING")
    await bench.kill(process)
    (name,) = await bench.pod_names()

    async def has_failed() -> bool:
        phase = await bench.kubectl("-n", bench.namespace, "get", "pod", name, "-o", "jsonpath={.status.phase}")
        return phase == "Failed"

    await bench.eventually(has_failed)
    await bench.kubectl("-n", bench.namespace, "delete", "pod", name, "--wait=false")
    await bench.start_executor()
    await bench.leader.until(lambda: bench.leader.newest(handle).has_ended)
    assert (bench.leader.newest(handle).end, bench.leader.newest(handle).failure) == ("FAILED", FailureKind.EXIT_CODE)

    async def nothing_is_left() -> bool:
        return not await bench.pod_names()

    await bench.eventually(nothing_is_left)
