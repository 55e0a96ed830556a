"""What tests of a whole mesh on a real API server work with: nodes of their own, jobs that run there, and waiting."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from testbed.cluster import KubeApi

from argosy_client import ArgosyClient, Job, JobDraft, JobEvent
from argosy_core.reconcile.rendering import JOB_LABEL
from argosy_local.mesh import Mesh

LONGEST_S = 120.0
CORES = 4
"""Of each node; every job asks for one."""
QUEUE = "science"


@dataclass(slots=True)
class Bed:
    """What a test works with: a mesh, the cluster below it, and nodes of the test's own."""

    api: KubeApi
    mesh: Mesh
    client: ArgosyClient
    name: str
    nodes: tuple[str, ...] = ()
    job_ids: list[str] = field(default_factory=list)

    async def submit(self, job_set: str, count: int, *, run_time: str = "1h") -> list[str]:
        """Submit jobs of a core each that run on the test's own nodes."""
        document = pod_document(run_time=run_time, labels={"bed": self.name})
        draft = JobDraft(queue=QUEUE, job_set=job_set, manifests=(document,))
        ids = await self.client.submit([draft] * count)
        self.job_ids += ids
        return list(ids)

    async def follow(self, job_set: str) -> list[JobEvent]:
        """Return all events of a job set once all its jobs have ended."""
        events: list[JobEvent] = []
        async with asyncio.timeout(LONGEST_S):
            async for batch in self.client.watch(QUEUE, job_set, until_finished=True):
                events.extend(batch.events)
        return events

    async def events(self, job_set: str, kind: str, *, count: int) -> list[JobEvent]:
        """Return a job set's events once so many of a kind have come and all its jobs were told to run after that."""
        events: list[JobEvent] = []
        async with asyncio.timeout(LONGEST_S):
            async for batch in self.client.watch(QUEUE, job_set):
                events.extend(batch.events)
                last = {event.job_id: event.kind for event in events}
                if set(last.values()) == {"running"} and sum(event.kind == kind for event in events) >= count:
                    break
        return events

    async def await_counts(self, job_set: str, **wanted: int) -> None:
        """Return once so many jobs of a set are in each state."""
        async with asyncio.timeout(LONGEST_S):
            async for batch in self.client.watch(QUEUE, job_set):
                if {state: count for state, count in batch.state_counts.items() if count} == wanted:
                    return

    async def jobs(self, ids: list[str]) -> list[Job]:
        """Return jobs with their runs."""
        return [await self.client.get_job(job_id) for job_id in ids]

    async def places(self, ids: list[str]) -> Counter[str]:
        """Return how many jobs' last runs are on each node."""
        return Counter(job.runs[-1].node for job in await self.jobs(ids))

    def pods(self, job_id: str) -> list[tuple[str, str]]:
        """Return node and phase of each pod that a job has in the cluster."""
        items = json.loads(self.api.kubectl("get", "pods", "-A", "-o", "json", "-l", f"{JOB_LABEL}={job_id}"))["items"]
        return [(item["spec"].get("nodeName", ""), item["status"].get("phase", "")) for item in items]


def pod_document(*, run_time: str, labels: dict[str, str]) -> str:
    """Return a pod of one core on nodes of some labels."""
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "1", "memory": "64Mi"}}}
    metadata = {"name": "work", "annotations": {"argosy.dev/simulated-run-time": run_time}}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "nodeSelector": labels}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**spec, "containers": [container]}}
    return json.dumps(manifest)


async def until(condition: Callable[[], Awaitable[bool]], tell: Callable[[], object] = str) -> None:
    """Return once a condition holds that nobody tells of."""
    try:
        async with asyncio.timeout(LONGEST_S):
            while not await condition():  # noqa: ASYNC110 - only asking tells
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(tell()) from None


def unmanaged_pod(name: str, *, node: str, namespace: str, run_time: str) -> dict[str, object]:
    """Return a pod of one core that somebody else has bound to a node."""
    pod: dict[str, Any] = json.loads(pod_document(run_time=run_time, labels={}))
    pod["metadata"] |= {"name": name, "namespace": namespace}
    pod["spec"]["nodeName"] = node
    return pod
