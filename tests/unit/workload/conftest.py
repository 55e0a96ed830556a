"""Hand-written samples of every format, and small workloads, as one fixture."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from argosy_core.resources import CPU, MEMORY
from argosy_workload.model import JobColumns, NodeSet, Shape, Workload, build_workload, uniform_nodes

SWF = """\
; Version: 2.2
; MaxProcs: 16
1  10 5  100 4 -1 -1 4 200 -1 1 7 1 -1 -1 1 -1 -1
2   0 0   50 8 -1 -1 -1 -1 -1 1 8 1 -1 -1 1 -1 -1
3  30 0   -1 2 -1 -1 2 60 -1 0 7 1 -1 -1 1 -1 -1
4  40 0 12.5 -1 -1 2048 2 60 -1 1 7 1 -1 -1 1 -1 -1
"""
PODS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
pod-0,12000,16384,1,460,,LS,Running,100,700,110
pod-1,4000,8192,2,1000,T4|V100,BE,Pending,90,190,
pod-2,1000,1024,0,0,,Burstable,Running,95,96,95
"""
NODES = """\
sn,cpu_milli,memory_mib,gpu,model
node-a,96000,393216,8,G2
node-b,32000,262144,0,
node-c,96000,393216,8,G2
"""
PHILLY = """\
timestamp,duration,num_gpus,gpu_time,cluster
2017-09-04 10:30:41,100.5,8,804.0,7f04ca
2017-09-04 10:31:41,20,1,20,6214e9
"""
SURF = """\
id,submission_time,duration,cpu_count,cpu_capacity,mem_capacity
21,1665093660000,27930000,16,33600.0,100000
20,1665093600000,1500,8,33600.0,100000
"""
MACHINES = "0\tseth\t3\t2\t1\t1048576\n"
NATIVE = """\
version: argosy.dev/workload/v1
source: two queues
queues:
  - {name: research, weight: 2}
nodes:
  - {count: 2, model: small, cluster: west, allocatable: {cpu: "8", memory: 32Gi}}
shapes:
  train:
    requests: {cpu: "4", memory: 16Gi, nvidia.com/gpu-milli: "1000"}
    gpu_models: [V100, T4]
    platform: linux/amd64
jobs:
  - {shape: train, queue: research, run: 10m}
  - shape: train
    queue: prod
    submit: 1m30s
    run: 45
    count: 3
    job_set: sweep
    priority: 5
    estimate: 1m
    client_id: s
"""


class Samples:
    """Samples by name, and makers of small workloads."""

    swf = SWF
    pods = PODS
    nodes = NODES
    philly = PHILLY
    surf = SURF
    machines = MACHINES
    native = NATIVE

    @staticmethod
    def write(folder: Path, text: str | bytes, name: str = "trace", *, packed: bool = False) -> Path:
        """Write a sample and return its path."""
        data = text.encode() if isinstance(text, str) else text
        path = folder / name
        path.write_bytes(gzip.compress(data) if packed else data)
        return path

    @staticmethod
    def make_workload(*jobs: tuple[float, float, int] | tuple[float, float, int, str]) -> Workload:
        """Return a workload of (submit s, run s, cores[, queue]) jobs, 1 GiB a core."""
        return build_workload(
            JobColumns(
                submit_s=np.array([job[0] for job in jobs], dtype=np.float64),
                run_s=np.array([job[1] for job in jobs], dtype=np.float64),
                queue=[job[3] if len(job) > 3 else "a" for job in jobs],
                shape=[Shape.of({CPU: job[2] * 1000, MEMORY: job[2] * 2**30}) for job in jobs],
                client_ids=[f"job-{number}" for number in range(len(jobs))],
            ),
            source="sample",
        )

    @staticmethod
    def make_nodes(text: str = "1x4cpu,16Gi") -> NodeSet:
        """Return nodes from a short text."""
        return uniform_nodes(text)


@pytest.fixture(scope="session")
def samples() -> type[Samples]:
    """Give the samples."""
    return Samples
