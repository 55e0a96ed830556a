"""Jobs of a workload as submissions: pod manifests, and requests that carry many jobs and each spec once.

The values here know nothing of the wire: whoever submits turns a `Submission` into a request. A pod's run time travels
as an annotation in trace seconds; a simulated cluster divides it by its speed. Run times are rounded to three digits,
so that jobs which are the same for every purpose share a spec.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from argosy_core.errors import InvalidRequest
from argosy_core.resources import format_amount
from argosy_workload.model import GPU_MODEL_LABEL, Shape, Workload

__all__ = ["MAX_BATCH_SIZE", "RUN_TIME_ANNOTATION", "Submission", "Submitter", "format_run_time", "pod_manifest"]

Int32Array = npt.NDArray[np.int32]

RUN_TIME_ANNOTATION: Final = "argosy.dev/simulated-run-time"
"""Annotation with the run time of a simulated pod: `37.5s`, or `20s-40s` to be drawn by the cluster."""
MAX_BATCH_SIZE: Final = 1000
"""Most jobs of one submission: a request carries no more items."""
IMAGE: Final = "busybox:stable"
"""Image of the pods; simulated clusters run none."""
_NOBODY: Final = 65534
_DIGITS: Final = 3
_SHORTEST_S: Final = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One request: specs, and jobs that point to them. The job columns have one length."""

    specs: tuple[bytes, ...]
    """Distinct pod manifests as JSON."""
    spec: tuple[int, ...]
    """Per job: index into `specs`."""
    queue: tuple[str, ...]
    """Per job: queue name."""
    job_set: tuple[str, ...]
    """Per job: job set."""
    priority: tuple[int, ...]
    """Per job: priority."""
    client_id: tuple[str, ...]
    """Per job: client id; makes a repeated submit harmless."""
    rows: tuple[int, ...]
    """Per job: its row in the workload (or its number, where there is none)."""

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self.spec)


def format_run_time(run_s: float) -> str:
    """Return a run time as an annotation has it: three significant digits, at least a millisecond."""
    rounded = float(f"{max(run_s, _SHORTEST_S):.{_DIGITS}g}")
    return f"{rounded:f}".rstrip("0").rstrip(".") + "s"


def pod_manifest(
    shape: Shape, run_time: str, *, environment: Mapping[str, str] | None = None, image: str = IMAGE
) -> dict[str, Any]:
    """Return the manifest of a pod of a shape.

    Requests equal limits, GPU models become required node affinity, a platform a node selector. It keeps to the level
    restricted, so that any queue takes it.

    Args:
        shape: What it asks for.
        run_time: Value of the run-time annotation.
        environment: Variables of its container.
        image: Image of its container.
    """
    # A pod must say what it needs of cpu and memory, also when that is nothing: traces have such jobs.
    wanted = {"cpu": 0, "memory": 0, **dict(shape.requests)}
    amounts = {name: format_amount(name, amount) for name, amount in wanted.items()}
    container: dict[str, Any] = {
        "name": "main",
        "image": image,
        "resources": {"requests": amounts, "limits": amounts},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    if environment:
        container["env"] = [{"name": name, "value": value} for name, value in environment.items()]
    of_pod = {"runAsNonRoot": True, "runAsUser": _NOBODY, "seccompProfile": {"type": "RuntimeDefault"}}
    spec: dict[str, Any] = {"restartPolicy": "Never", "securityContext": of_pod, "containers": [container]}
    if selector := shape.node_selector():
        spec["nodeSelector"] = selector
    if shape.gpu_models:
        expression = {"key": GPU_MODEL_LABEL, "operator": "In", "values": list(shape.gpu_models)}
        terms = [{"matchExpressions": [expression]}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        spec["affinity"] = {"nodeAffinity": required}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"annotations": {RUN_TIME_ANNOTATION: run_time}},
        "spec": spec,
    }


class Submitter:
    """Turns rows of a workload into submissions; each distinct (shape, rounded run time) is one spec, made once.

    Args:
        workload: The jobs.
        prefix: Put before every client id, so that a second replay makes jobs of its own; empty repeats the first.
        job_set: Job set of all jobs; empty keeps the workload's.
    """

    def __init__(self, workload: Workload, *, prefix: str = "", job_set: str = "") -> None:
        """Number the distinct specs; no manifest is made yet."""
        self._workload = workload
        self._prefix = prefix
        self._job_set = job_set
        rounded = np.array([float(f"{max(run_s, _SHORTEST_S):.{_DIGITS}g}") for run_s in workload.run_s.tolist()])
        pairs = np.stack([workload.shape.astype(np.float64), rounded])
        distinct, inverse = np.unique(pairs, axis=1, return_inverse=True)
        self._pairs = [(int(shape), run_s) for shape, run_s in distinct.T.tolist()]
        self._spec_of_job: Int32Array = inverse.reshape(-1).astype(np.int32)
        self._manifests: dict[int, bytes] = {}

    def spec_count(self) -> int:
        """Return the number of distinct specs of the whole workload."""
        return len(self._pairs)

    def manifest(self, spec: int) -> bytes:
        """Return the JSON manifest of a spec; equal specs give equal bytes."""
        made = self._manifests.get(spec)
        if made is None:
            shape, run_s = self._pairs[spec]
            manifest = pod_manifest(self._workload.shapes[shape], format_run_time(run_s))
            made = self._manifests[spec] = json.dumps(manifest, separators=(",", ":")).encode()
        return made

    def submission(self, first: int, last: int) -> Submission:
        """Return jobs `first` (included) to `last` (not included) of the workload as one request.

        Raises:
            InvalidRequest: There are none, or more than a request carries.
        """
        if not 0 < last - first <= MAX_BATCH_SIZE:
            raise InvalidRequest(f"a request carries 1 to {MAX_BATCH_SIZE} jobs, not {last - first}")
        workload = self._workload
        used, local = np.unique(self._spec_of_job[first:last], return_inverse=True)
        sets = (
            [self._job_set] * (last - first)
            if self._job_set
            else [workload.job_sets[i] for i in workload.job_set[first:last].tolist()]
        )
        return Submission(
            specs=tuple(self.manifest(spec) for spec in used.tolist()),
            spec=tuple(local.reshape(-1).tolist()),
            queue=tuple(workload.queues[i].name for i in workload.queue[first:last].tolist()),
            job_set=tuple(sets),
            priority=tuple(workload.priority[first:last].tolist()),
            client_id=tuple(self._prefix + name for name in workload.client_ids[first:last]),
            rows=tuple(range(first, last)),
        )

    def due(self, first: int, until_s: float, *, batch_size: int = 100) -> Iterator[Submission]:
        """Yield the jobs from row `first` on whose submit time has come, in requests of at most `batch_size`.

        Args:
            first: First row not yet submitted.
            until_s: Trace time that has been reached.
            batch_size: Most jobs of one request, 1 to 1,000.
        """
        last = int(np.searchsorted(self._workload.submit_s, until_s, side="right"))
        for start in range(first, last, batch_size):
            yield self.submission(start, min(start + batch_size, last))
