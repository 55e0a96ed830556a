"""Argosy's own workload format: YAML that a person can write.

::

    version: argosy.dev/workload/v1
    source: two queues on four nodes       # optional
    queues:                                # optional; weight 1 otherwise
      - {name: research, weight: 2}
    nodes:                                 # optional
      - count: 4                           # default 1
        model: small                       # default: node-<position>
        cluster: west                      # default: cluster-0
        allocatable: {cpu: "32", memory: 128Gi, nvidia.com/gpu-milli: "4000"}
        labels: {nvidia.com/gpu.product: T4}
    shapes:
      train:
        requests: {cpu: "4", memory: 16Gi, nvidia.com/gpu-milli: "1000"}
        gpu_models: [T4, V100]             # optional: any of them
        platform: linux/amd64              # optional
        member_count: 8                    # default 1; so many pods that begin together, each with these requests
    jobs:
      - {shape: train, queue: research, submit: 0s, run: 10m}
      - shape: train
        queue: research
        submit: 1m30s                      # after the start of the trace
        run: 45s
        count: 20                          # default 1; that many equal jobs
        job_set: sweep                     # default: workload
        priority: 5                        # default 0
        estimate: 1m                       # default none
        lifetime: 5m                       # default none: after it a run may be preempted
        client_id: sweep-a                 # default job-<position>; copies get /1, /2, ...

Durations are `ms`, `s`, `m`, `h`, `d`, joined largest first (`1h30m`), or plain seconds. Amounts are Kubernetes
quantities. Unknown keys are errors.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np

from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.pod_groups import MAX_MEMBER_COUNT
from argosy_core.resources import parse_quantity
from argosy_workload.model import MAX_TIME_S, JobColumns, NodeModel, NodeSet, Shape, Workload, build_workload
from argosy_workload.tracefile import MAX_ROW_COUNT, read_text, refuse
from argosy_workload.yamltree import YamlNode, parse_yaml

__all__ = ["NATIVE_VERSION", "parse_duration_s", "read_native", "read_native_nodes"]

NATIVE_VERSION: Final = "argosy.dev/workload/v1"
"""Value of `version` in a native file."""

_UNITS_S: Final = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_DURATION = re.compile(r"^(?:\d{1,15}(?:\.\d{0,9})?(?:d|h|ms|m|s))+$")
_PART = re.compile(r"(\d{1,15}(?:\.\d{0,9})?)(d|h|ms|m|s)")
_NAME = re.compile(r"^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$")
_PLATFORM = re.compile(r"^[a-z0-9]+/[a-z0-9_]+$")
_MAX_PRIORITY: Final = 2**31 - 1


def parse_duration_s(text: str) -> float:
    """Return a duration such as `1h30m`, `37.5s`, `500ms` or plain seconds, in seconds.

    Raises:
        InvalidRequest: The text is no duration, or too long a one.
    """
    try:
        if _DURATION.match(text):
            seconds = sum(float(number) * _UNITS_S[unit] for number, unit in _PART.findall(text))
        else:
            seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= MAX_TIME_S:
        raise InvalidRequest(f"{text[:40]!r} is not a duration; write for example 90s, 1m30s, 1.5h or seconds")
    return seconds


def read_native(path: Path, *, text: str | None = None) -> Workload:
    """Return the jobs of a native file.

    Raises:
        InvalidRequest: The file is not there, or damaged; the message names line and column.
    """
    root = _root(path, text)
    shapes = {name: _shape(node) for name, node in _required(root, "shapes").mapping("shapes").items()}
    weights = _weights(root.mapping("the document").get("queues"))
    rows: dict[str, list[object]] = {
        key: [] for key in ("submit", "run", "queue", "shape", "id", "set", "priority", "estimate", "lifetime")
    }
    listed = _required(root, "jobs").sequence("jobs")
    if not listed:
        _required(root, "jobs").refuse("the list of jobs is empty")
    seen: set[object] = set()
    for position, node in enumerate(listed):
        count = len(rows["id"])
        _add_job(rows, node, position, shapes)
        if twice := next((name for name in rows["id"][count:] if name in seen), None):
            node.refuse(f"the client id {twice!r} stands twice; ids must be unique")
        seen.update(rows["id"][count:])
    source = root.mapping("the document").get("source")
    columns = JobColumns(
        submit_s=np.array(rows["submit"], dtype=np.float64),
        run_s=np.array(rows["run"], dtype=np.float64),
        queue=[str(name) for name in rows["queue"]],
        shape=[shape for shape in rows["shape"] if isinstance(shape, Shape)],
        client_ids=[str(name) for name in rows["id"]],
        job_set=[str(name) for name in rows["set"]],
        priority=np.array(rows["priority"], dtype=np.int32),
        estimate_s=np.array(rows["estimate"], dtype=np.float64),
        lifetime_s=np.array(rows["lifetime"], dtype=np.float64),
        weights=weights,
    )
    return build_workload(columns, source=source.text("source") if source else path.name)


def read_native_nodes(path: Path, *, text: str | None = None) -> NodeSet | None:
    """Return the nodes of a native file, None if it names none.

    Raises:
        InvalidRequest: The file is not there, or damaged; the message names line and column.
    """
    listed = _root(path, text).mapping("the document").get("nodes")
    if listed is None:
        return None
    models: list[NodeModel] = []
    counts: list[int] = []
    clusters: list[str] = []
    for position, node in enumerate(listed.sequence("nodes")):
        fields = _fields(node, {"allocatable"}, {"count", "model", "cluster", "labels"}, "a node")
        labels = (
            {key: value.text("a label") for key, value in fields["labels"].mapping("labels").items()}
            if "labels" in fields
            else {}
        )
        name = fields["model"].text("model") if "model" in fields else f"node-{position}"
        models.append(NodeModel.of(name, _amounts(fields["allocatable"]), labels=labels))
        counts.append(_whole(fields.get("count"), default=1, low=1, high=1_000_000))
        clusters.append(_name(fields["cluster"], "cluster") if "cluster" in fields else "cluster-0")
    if not models:
        listed.refuse("the list of nodes is empty")
    row = np.repeat(np.arange(len(models)), counts)
    distinct = list(dict.fromkeys(clusters))
    within = np.concatenate([np.arange(count) for count in counts])
    return NodeSet(
        source=path.name,
        models=tuple(models),
        clusters=tuple(distinct),
        names=tuple(
            f"{models[model].name}-{model}-{index:05d}"
            for model, index in zip(row.tolist(), within.tolist(), strict=True)
        ),
        model=row.astype(np.int32),
        cluster=np.array([distinct.index(name) for name in clusters], dtype=np.int32)[row],
    )


def _root(path: Path, text: str | None) -> YamlNode:
    """Return the document, checked for its version and keys."""
    root = parse_yaml(path, read_text(path) if text is None else text)
    fields = _fields(root, {"version"}, {"source", "queues", "nodes", "shapes", "jobs"}, "the document")
    if fields["version"].text("version") != NATIVE_VERSION:
        fields["version"].refuse(f"this is not a version that can be read; {NATIVE_VERSION} expected")
    return root


def _fields(node: YamlNode, required: set[str], optional: set[str], what: str) -> dict[str, YamlNode]:
    """Return a mapping whose keys are checked."""
    fields = node.mapping(what)
    for name, value in fields.items():
        if name not in required | optional:
            value.refuse(f"{what} has no key {name[:40]!r}; known are {', '.join(sorted(required | optional))}")
    if missing := sorted(required - set(fields)):
        node.refuse(f"{what} lacks {', '.join(missing)}")
    return fields


def _required(root: YamlNode, name: str) -> YamlNode:
    """Return a key of the document that must be there."""
    fields = root.mapping("the document")
    if name not in fields:
        root.refuse(f"the document lacks {name}")
    return fields[name]


def _amounts(node: YamlNode) -> dict[str, int]:
    """Return a mapping of quantities as base units."""
    amounts = {}
    for name, value in node.mapping("amounts").items():
        text = value.text("an amount")
        try:
            amounts[name] = parse_quantity(name, text)
        except InvalidRequest as cause:
            value.refuse(cause.message)
    return amounts


def _shape(node: YamlNode) -> Shape:
    fields = _fields(node, {"requests"}, {"gpu_models", "platform", "member_count"}, "a shape")
    models = (
        [model.text("a GPU model") for model in fields["gpu_models"].sequence("gpu_models")]
        if "gpu_models" in fields
        else []
    )
    platform = fields["platform"].text("platform") if "platform" in fields else ""
    if platform and not _PLATFORM.match(platform):
        fields["platform"].refuse("a platform is os/architecture, as linux/amd64")
    members = _whole(fields.get("member_count"), default=1, low=1, high=MAX_MEMBER_COUNT)
    return Shape.of(_amounts(fields["requests"]), gpu_models=models, platform=platform, member_count=members)


def _weights(node: YamlNode | None) -> dict[str, float]:
    """Return the weight by queue name."""
    weights: dict[str, float] = {}
    for queue in node.sequence("queues") if node else []:
        fields = _fields(queue, {"name"}, {"weight"}, "a queue")
        weight = 1.0
        if "weight" in fields:
            weight = _number(fields["weight"], low=1e-6, high=1e6)
        weights[_name(fields["name"], "queue")] = weight
    return weights


def _name(node: YamlNode, what: str) -> str:
    """Return a name that must already be a legal one."""
    text = node.text(what)
    if not _NAME.match(text):
        node.refuse(f"{text[:70]!r} is no legal name; lower-case letters, digits and dashes, at most 63")
    return text


def _number(node: YamlNode, *, low: float, high: float) -> float:
    """Return a number in a range."""
    text = node.text("a number")
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        node.refuse(f"{text[:40]!r} is not a number from {low:g} to {high:g}")
    return value


def _whole(node: YamlNode | None, *, default: int, low: int, high: int) -> int:
    """Return a whole number in a range."""
    if node is None:
        return default
    value = _number(node, low=low, high=high)
    if value != int(value):
        node.refuse(f"{value:g} is not a whole number")
    return int(value)


def _seconds(node: YamlNode) -> float:
    """Return a duration."""
    text = node.text("a duration")
    try:
        return parse_duration_s(text)
    except InvalidRequest as cause:
        node.refuse(cause.message)


def _add_job(rows: dict[str, list[object]], node: YamlNode, position: int, shapes: Mapping[str, Shape]) -> None:
    """Add one element of `jobs`, as often as its count says."""
    optional = {"submit", "count", "job_set", "priority", "estimate", "lifetime", "client_id"}
    fields = _fields(node, {"shape", "queue", "run"}, optional, "a job")
    shape = fields["shape"].text("shape")
    if shape not in shapes:
        fields["shape"].refuse(f"there is no shape {shape[:60]!r}; known are {', '.join(list(shapes)[:20])}")
    count = _whole(fields.get("count"), default=1, low=1, high=MAX_ROW_COUNT)
    if len(rows["id"]) + count > MAX_ROW_COUNT:
        refuse(node.path, f"more than {MAX_ROW_COUNT} jobs", line=node.line)
    identity = fields["client_id"].text("client_id") if "client_id" in fields else f"job-{position}"
    rows["id"] += [identity, *(f"{identity}/{copy}" for copy in range(1, count))]
    rows["submit"] += [_seconds(fields["submit"]) if "submit" in fields else 0.0] * count
    rows["run"] += [_seconds(fields["run"])] * count
    rows["queue"] += [_name(fields["queue"], "queue")] * count
    rows["shape"] += [shapes[shape]] * count
    rows["set"] += [fields["job_set"].text("job_set") if "job_set" in fields else "workload"] * count
    rows["priority"] += [_whole(fields.get("priority"), default=0, low=-_MAX_PRIORITY, high=_MAX_PRIORITY)] * count
    rows["estimate"] += [_seconds(fields["estimate"]) if "estimate" in fields else math.nan] * count
    rows["lifetime"] += [_seconds(fields["lifetime"]) if "lifetime" in fields else math.nan] * count
