"""The parts of Kubernetes documents that are read; everything else is skipped while decoding.

Names are those of Kubernetes; see its API reference.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

import msgspec

from argosy_core.job.reading.scaling import (
    MAXIMUM_ANNOTATION,
    MINIMUM_ANNOTATION,
    MOVABLE_ANNOTATION,
    PERMIT_ANNOTATION,
    QUEUE_ANNOTATION,
    SWITCH_ANNOTATION,
    UNIT_ANNOTATION,
)
from argosy_core.job.reading.stop_note import STOP_AFTER_ANNOTATION

__all__ = [
    "FOUND_KEY",
    "FOUND_POD",
    "KEYS",
    "LIST_OF_FOUND_KEYS",
    "LIST_OF_FOUND_PODS",
    "LIST_OF_KEYS",
    "LIST_OF_NODES",
    "LIST_OF_PODS",
    "LIST_OF_RUNTIME_CLASSES",
    "NODE",
    "POD",
    "WATCH_OF_KEYS",
    "WATCH_OF_NODES",
    "WATCH_OF_PODS",
    "Condition",
    "Container",
    "ContainerStatus",
    "FoundKey",
    "FoundMetadata",
    "FoundPod",
    "KeyDocument",
    "ListDocument",
    "Metadata",
    "NodeDocument",
    "PodDocument",
    "PodSpec",
    "PodStatus",
    "Quantities",
    "Resources",
    "RuntimeClassDocument",
    "WatchEvent",
]

Quantities = dict[str, str | int | float]
"""Quantities by resource name, as written."""


class _Part(msgspec.Struct, rename="camel", gc=False):
    pass


class PodNotes(_Part):
    """Annotations of a pod that are read of every pod; the others are skipped where they stand."""

    minimum: str | None = msgspec.field(default=None, name=MINIMUM_ANNOTATION)
    maximum: str | None = msgspec.field(default=None, name=MAXIMUM_ANNOTATION)
    switch: str | None = msgspec.field(default=None, name=SWITCH_ANNOTATION)
    movable: str | None = msgspec.field(default=None, name=MOVABLE_ANNOTATION)
    unit: str | None = msgspec.field(default=None, name=UNIT_ANNOTATION)
    queue: str | None = msgspec.field(default=None, name=QUEUE_ANNOTATION)
    stop_after: str | None = msgspec.field(default=None, name=STOP_AFTER_ANNOTATION)
    permit: str | None = msgspec.field(default=None, name=PERMIT_ANNOTATION)


class Metadata(_Part):
    """What is read of the metadata of any object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int | None = None
    labels: dict[str, str] | None = None
    finalizers: list[str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    annotations: PodNotes | None = None


class KeyDocument(_Part):
    """Any object, as its metadata."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)


class Resources(_Part):
    """Resources of a container or pod."""

    requests: Quantities | None = None
    limits: Quantities | None = None


class ContainerPort(_Part):
    """Element of ports[]."""

    host_port: int | None = None
    protocol: str | None = None
    host_ip: str | None = msgspec.field(default=None, name="hostIP")


class Container(_Part):
    """What is read of a container in the spec of a pod."""

    name: str = ""
    resources: Resources | None = None
    restart_policy: str | None = None
    ports: list[ContainerPort] | None = None


class PodSpec(_Part):
    """What is read of the spec of a pod."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: Quantities | None = None
    resources: Resources | None = None
    node_name: str | None = None


class Terminated(_Part):
    """A container that has ended."""

    exit_code: int = 0
    reason: str | None = None
    message: str | None = None
    finished_at: str | None = None


class Waiting(_Part):
    """A container that waits."""

    reason: str | None = None
    message: str | None = None


class Running(_Part):
    """A container that runs."""


class ContainerState(_Part):
    """One of three: it waits, it runs, or it has ended."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(_Part):
    """Element of containerStatuses[]."""

    name: str = ""
    state: ContainerState | None = None
    allocated_resources: Quantities | None = None
    resources: Resources | None = None


class Condition(_Part):
    """Element of conditions[]."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class PodStatus(_Part):
    """What is read of the status of a pod."""

    phase: str | None = None
    observed_generation: int | None = None
    reason: str | None = None
    message: str | None = None
    start_time: str | None = None
    nominated_node_name: str | None = None
    conditions: list[Condition] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    container_statuses: list[ContainerStatus] | None = None


class PodDocument(_Part):
    """What is read of a pod."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


class FoundMetadata(Metadata):
    """Metadata of an object that was looked for by name; lists of all pods need not read annotations."""

    annotations: dict[str, str] | None = None  # type: ignore[assignment]


class FoundKey(KeyDocument):
    """Any object, as its metadata with annotations."""

    metadata: FoundMetadata = msgspec.field(default_factory=FoundMetadata)


class FoundPod(PodDocument):
    """A pod with all its annotations."""

    metadata: FoundMetadata = msgspec.field(default_factory=FoundMetadata)


class NodeTaint(_Part):
    """Element of taints[]."""

    key: str = ""
    value: str | None = None
    effect: str = "NoSchedule"


class NodeSpec(_Part):
    """What is read of the spec of a node."""

    unschedulable: bool | None = None
    taints: list[NodeTaint] | None = None


class NodeStatus(_Part):
    """What is read of the status of a node."""

    allocatable: Quantities | None = None
    conditions: list[Condition] | None = None


class NodeDocument(_Part):
    """What is read of a node."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


class Overhead(_Part):
    """What a sandbox takes."""

    pod_fixed: Quantities | None = None


class RuntimeClassDocument(_Part):
    """What is read of a RuntimeClass."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)
    overhead: Overhead | None = None


class ListMetadata(_Part, rename={"resource_version": "resourceVersion", "next_page": "continue"}):
    """Where a list stands in the history of its kind, and where its next page begins."""

    resource_version: str = ""
    next_page: str = ""


T = TypeVar("T")


class ListDocument(_Part, Generic[T]):
    """A page of a list."""

    metadata: ListMetadata = msgspec.field(default_factory=ListMetadata)
    items: list[T] | None = None


class WatchEvent(_Part, Generic[T]):
    """A line of a watch whose object is what was asked for."""

    object: T
    type: str = ""


KEYS: Final = msgspec.json.Decoder(KeyDocument)
POD: Final = msgspec.json.Decoder(PodDocument)
NODE: Final = msgspec.json.Decoder(NodeDocument)
FOUND_KEY: Final = msgspec.json.Decoder(FoundKey)
FOUND_POD: Final = msgspec.json.Decoder(FoundPod)
LIST_OF_FOUND_KEYS: Final = msgspec.json.Decoder(ListDocument[FoundKey])
LIST_OF_FOUND_PODS: Final = msgspec.json.Decoder(ListDocument[FoundPod])
LIST_OF_KEYS: Final = msgspec.json.Decoder(ListDocument[KeyDocument])
LIST_OF_PODS: Final = msgspec.json.Decoder(ListDocument[PodDocument])
LIST_OF_NODES: Final = msgspec.json.Decoder(ListDocument[NodeDocument])
LIST_OF_RUNTIME_CLASSES: Final = msgspec.json.Decoder(ListDocument[RuntimeClassDocument])
WATCH_OF_KEYS: Final = msgspec.json.Decoder(WatchEvent[KeyDocument])
WATCH_OF_PODS: Final = msgspec.json.Decoder(WatchEvent[PodDocument])
WATCH_OF_NODES: Final = msgspec.json.Decoder(WatchEvent[NodeDocument])
