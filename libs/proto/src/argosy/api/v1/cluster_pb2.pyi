import datetime

from argosy.api.v1 import queue_pb2 as _queue_pb2
from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ScaledPodState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SCALED_POD_STATE_UNSPECIFIED: _ClassVar[ScaledPodState]
    SCALED_POD_STATE_AS_ASKED: _ClassVar[ScaledPodState]
    SCALED_POD_STATE_WAITS_FOR_ROOM: _ClassVar[ScaledPodState]
    SCALED_POD_STATE_NODE_DRAINS: _ClassVar[ScaledPodState]
    SCALED_POD_STATE_IS_MOVED: _ClassVar[ScaledPodState]
    SCALED_POD_STATE_NO_AGENT: _ClassVar[ScaledPodState]
    SCALED_POD_STATE_UNCERTAIN: _ClassVar[ScaledPodState]
SCALED_POD_STATE_UNSPECIFIED: ScaledPodState
SCALED_POD_STATE_AS_ASKED: ScaledPodState
SCALED_POD_STATE_WAITS_FOR_ROOM: ScaledPodState
SCALED_POD_STATE_NODE_DRAINS: ScaledPodState
SCALED_POD_STATE_IS_MOVED: ScaledPodState
SCALED_POD_STATE_NO_AGENT: ScaledPodState
SCALED_POD_STATE_UNCERTAIN: ScaledPodState

class ResourceAmounts(_message.Message):
    __slots__ = ("amounts",)
    class AmountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    AMOUNTS_FIELD_NUMBER: _ClassVar[int]
    amounts: _containers.ScalarMap[str, int]
    def __init__(self, amounts: _Optional[_Mapping[str, int]] = ...) -> None: ...

class Cluster(_message.Message):
    __slots__ = ("name", "sampler_connected", "executor_connected", "cordon", "node_count", "run_count", "total", "free", "contact_time", "cordoned_nodes", "pools", "max_capacity", "told", "delegated")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SAMPLER_CONNECTED_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_CONNECTED_FIELD_NUMBER: _ClassVar[int]
    CORDON_FIELD_NUMBER: _ClassVar[int]
    NODE_COUNT_FIELD_NUMBER: _ClassVar[int]
    RUN_COUNT_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    FREE_FIELD_NUMBER: _ClassVar[int]
    CONTACT_TIME_FIELD_NUMBER: _ClassVar[int]
    CORDONED_NODES_FIELD_NUMBER: _ClassVar[int]
    POOLS_FIELD_NUMBER: _ClassVar[int]
    MAX_CAPACITY_FIELD_NUMBER: _ClassVar[int]
    TOLD_FIELD_NUMBER: _ClassVar[int]
    DELEGATED_FIELD_NUMBER: _ClassVar[int]
    name: str
    sampler_connected: bool
    executor_connected: bool
    cordon: _queue_pb2.Cordon
    node_count: int
    run_count: int
    total: ResourceAmounts
    free: ResourceAmounts
    contact_time: _timestamp_pb2.Timestamp
    cordoned_nodes: _containers.RepeatedCompositeFieldContainer[CordonedNode]
    pools: _containers.RepeatedScalarFieldContainer[str]
    max_capacity: ResourceAmounts
    told: ResourceAmounts
    delegated: bool
    def __init__(self, name: _Optional[str] = ..., sampler_connected: bool = ..., executor_connected: bool = ..., cordon: _Optional[_Union[_queue_pb2.Cordon, _Mapping]] = ..., node_count: _Optional[int] = ..., run_count: _Optional[int] = ..., total: _Optional[_Union[ResourceAmounts, _Mapping]] = ..., free: _Optional[_Union[ResourceAmounts, _Mapping]] = ..., contact_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., cordoned_nodes: _Optional[_Iterable[_Union[CordonedNode, _Mapping]]] = ..., pools: _Optional[_Iterable[str]] = ..., max_capacity: _Optional[_Union[ResourceAmounts, _Mapping]] = ..., told: _Optional[_Union[ResourceAmounts, _Mapping]] = ..., delegated: bool = ...) -> None: ...

class CordonedNode(_message.Message):
    __slots__ = ("name", "cordon")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CORDON_FIELD_NUMBER: _ClassVar[int]
    name: str
    cordon: _queue_pb2.Cordon
    def __init__(self, name: _Optional[str] = ..., cordon: _Optional[_Union[_queue_pb2.Cordon, _Mapping]] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ("name", "allocatable", "free", "ready", "cordon", "labels", "last_choice_for")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    ALLOCATABLE_FIELD_NUMBER: _ClassVar[int]
    FREE_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    CORDON_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    LAST_CHOICE_FOR_FIELD_NUMBER: _ClassVar[int]
    name: str
    allocatable: ResourceAmounts
    free: ResourceAmounts
    ready: bool
    cordon: _queue_pb2.Cordon
    labels: _containers.ScalarMap[str, str]
    last_choice_for: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., allocatable: _Optional[_Union[ResourceAmounts, _Mapping]] = ..., free: _Optional[_Union[ResourceAmounts, _Mapping]] = ..., ready: bool = ..., cordon: _Optional[_Union[_queue_pb2.Cordon, _Mapping]] = ..., labels: _Optional[_Mapping[str, str]] = ..., last_choice_for: _Optional[_Iterable[str]] = ...) -> None: ...

class ListClustersRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListClustersResponse(_message.Message):
    __slots__ = ("clusters", "next_page_token")
    CLUSTERS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    clusters: _containers.RepeatedCompositeFieldContainer[Cluster]
    next_page_token: str
    def __init__(self, clusters: _Optional[_Iterable[_Union[Cluster, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GetClusterRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetClusterResponse(_message.Message):
    __slots__ = ("cluster",)
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    cluster: Cluster
    def __init__(self, cluster: _Optional[_Union[Cluster, _Mapping]] = ...) -> None: ...

class ListNodesRequest(_message.Message):
    __slots__ = ("cluster", "page_size", "page_token", "label_selector", "node")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    LABEL_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    page_size: int
    page_token: str
    label_selector: str
    node: str
    def __init__(self, cluster: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., label_selector: _Optional[str] = ..., node: _Optional[str] = ...) -> None: ...

class ListNodesResponse(_message.Message):
    __slots__ = ("nodes", "next_page_token")
    NODES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    next_page_token: str
    def __init__(self, nodes: _Optional[_Iterable[_Union[Node, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ScaledPod(_message.Message):
    __slots__ = ("job_id", "attempt", "member", "queue", "requested", "approved", "actual", "state", "since")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_FIELD_NUMBER: _ClassVar[int]
    APPROVED_FIELD_NUMBER: _ClassVar[int]
    ACTUAL_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    attempt: int
    member: int
    queue: str
    requested: ResourceAmounts
    approved: ResourceAmounts
    actual: ResourceAmounts
    state: ScaledPodState
    since: _timestamp_pb2.Timestamp
    def __init__(self, job_id: _Optional[str] = ..., attempt: _Optional[int] = ..., member: _Optional[int] = ..., queue: _Optional[str] = ..., requested: _Optional[_Union[ResourceAmounts, _Mapping]] = ..., approved: _Optional[_Union[ResourceAmounts, _Mapping]] = ..., actual: _Optional[_Union[ResourceAmounts, _Mapping]] = ..., state: _Optional[_Union[ScaledPodState, str]] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ListScaledPodsRequest(_message.Message):
    __slots__ = ("cluster", "job_id", "with_history", "page_size", "page_token")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    WITH_HISTORY_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    job_id: str
    with_history: bool
    page_size: int
    page_token: str
    def __init__(self, cluster: _Optional[str] = ..., job_id: _Optional[str] = ..., with_history: bool = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListScaledPodsResponse(_message.Message):
    __slots__ = ("pods", "history", "next_page_token")
    PODS_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    pods: _containers.RepeatedCompositeFieldContainer[ScaledPod]
    history: _containers.RepeatedCompositeFieldContainer[ScaledPod]
    next_page_token: str
    def __init__(self, pods: _Optional[_Iterable[_Union[ScaledPod, _Mapping]]] = ..., history: _Optional[_Iterable[_Union[ScaledPod, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class CordonClusterRequest(_message.Message):
    __slots__ = ("name", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    reason: str
    def __init__(self, name: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class CordonClusterResponse(_message.Message):
    __slots__ = ("cluster",)
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    cluster: Cluster
    def __init__(self, cluster: _Optional[_Union[Cluster, _Mapping]] = ...) -> None: ...

class UncordonClusterRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class UncordonClusterResponse(_message.Message):
    __slots__ = ("cluster",)
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    cluster: Cluster
    def __init__(self, cluster: _Optional[_Union[Cluster, _Mapping]] = ...) -> None: ...

class DelegateClusterRequest(_message.Message):
    __slots__ = ("name", "delegated", "as_installed")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DELEGATED_FIELD_NUMBER: _ClassVar[int]
    AS_INSTALLED_FIELD_NUMBER: _ClassVar[int]
    name: str
    delegated: bool
    as_installed: bool
    def __init__(self, name: _Optional[str] = ..., delegated: bool = ..., as_installed: bool = ...) -> None: ...

class DelegateClusterResponse(_message.Message):
    __slots__ = ("cluster",)
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    cluster: Cluster
    def __init__(self, cluster: _Optional[_Union[Cluster, _Mapping]] = ...) -> None: ...

class CordonNodeRequest(_message.Message):
    __slots__ = ("cluster", "node", "reason", "allow_missing")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ALLOW_MISSING_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    node: str
    reason: str
    allow_missing: bool
    def __init__(self, cluster: _Optional[str] = ..., node: _Optional[str] = ..., reason: _Optional[str] = ..., allow_missing: bool = ...) -> None: ...

class CordonNodeResponse(_message.Message):
    __slots__ = ("cluster",)
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    cluster: Cluster
    def __init__(self, cluster: _Optional[_Union[Cluster, _Mapping]] = ...) -> None: ...

class UncordonNodeRequest(_message.Message):
    __slots__ = ("cluster", "node")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    node: str
    def __init__(self, cluster: _Optional[str] = ..., node: _Optional[str] = ...) -> None: ...

class UncordonNodeResponse(_message.Message):
    __slots__ = ("cluster",)
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    cluster: Cluster
    def __init__(self, cluster: _Optional[_Union[Cluster, _Mapping]] = ...) -> None: ...

class SetMaxCapacityRequest(_message.Message):
    __slots__ = ("name", "amounts")
    class AmountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    AMOUNTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    amounts: _containers.ScalarMap[str, int]
    def __init__(self, name: _Optional[str] = ..., amounts: _Optional[_Mapping[str, int]] = ...) -> None: ...

class SetMaxCapacityResponse(_message.Message):
    __slots__ = ("cluster",)
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    cluster: Cluster
    def __init__(self, cluster: _Optional[_Union[Cluster, _Mapping]] = ...) -> None: ...

class ForgetClusterRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ForgetClusterResponse(_message.Message):
    __slots__ = ("lost_run_count",)
    LOST_RUN_COUNT_FIELD_NUMBER: _ClassVar[int]
    lost_run_count: int
    def __init__(self, lost_run_count: _Optional[int] = ...) -> None: ...
