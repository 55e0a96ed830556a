"""`python -m argosy_cluster_agent` as a process, on an API server that counts."""

from __future__ import annotations

import asyncio
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from argosy_core.job.reading.naming import object_name
from argosy_core.reconcile.rendering import INSTALLATION_LABEL, OBJECT_LABEL, RUN_LABEL, run_label
from argosy_local.processes import end_process, free_ports, spawn
from argosy_testkit.cluster_contract import LAB_NODES
from argosy_testkit.fake_kube_api import FakeKubeApi
from argosy_testkit.fake_kube_api.lab import node_document

LONGEST_S = 150.0  # a guard against what hangs, not a measure
WATCH = re.compile(r"/([a-z]+)\?.*\bwatch=")
WATCHED = {"nodes", "pods", "configmaps"}
"""The sampler's kinds and the executor's, which watches config maps once there is one of ours."""
OURS = {INSTALLATION_LABEL: "argosy", RUN_LABEL: run_label(11, 1), OBJECT_LABEL: "0"}


async def test_process_watches_pods_and_nodes_once_for_sampler_and_executor(tmp_path: Path) -> None:
    """Each lists for itself, and health says SERVING when both have; what both follow is watched once for both."""
    (port, nobody) = free_ports(2)
    async with FakeKubeApi() as api:
        for node in LAB_NODES:
            api.store.create("nodes", "", node_document(node))
        api.store.create("configmaps", "default", {"metadata": {"name": object_name("ours", 11, 1), "labels": OURS}})
        address = f"127.0.0.1:{port}"
        arguments = [
            *(sys.executable, "-m", "argosy_cluster_agent"),
            *("--cluster", "lab"),
            *("--cluster-address", f"kubernetes:{api.write_kubeconfig(tmp_path / 'kubeconfig')}"),
            *("--server-addresses", f"127.0.0.1:{nobody}"),
            *("--grpc-listen", address, "--drain-s", "0.1"),
        ]
        agent = spawn(arguments, log=tmp_path / "log")
        try:
            await asyncio.wait_for(serving(address), LONGEST_S)
            async with asyncio.timeout(LONGEST_S):
                while not watches(api).keys() >= WATCHED:  # noqa: ASYNC110 - only its requests tell
                    await asyncio.sleep(0.02)
            listed = [path for _, path in api.faults.seen if "/pods?" in path and "watch=" not in path]
            # Beside these, ended pods that lost their labels are looked for once.
            listed = [path for path in listed if "fieldSelector=" not in path]
            assert len(listed) == 2
            assert {kind: watches(api)[kind] for kind in WATCHED} == dict.fromkeys(WATCHED, 1)
        finally:
            await asyncio.to_thread(end_process, agent)


def watches(api: FakeKubeApi) -> Counter[str]:
    """Return how often each kind was watched."""
    return Counter(found[1] for _, path in api.faults.seen if (found := WATCH.search(path)))


async def serving(address: str) -> None:
    """Return once health says SERVING."""
    async with grpc.aio.insecure_channel(address) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        watch = stub.Watch(health_pb2.HealthCheckRequest(), wait_for_ready=True)
        async for answer in watch:
            if answer.status == health_pb2.HealthCheckResponse.SERVING:
                return
