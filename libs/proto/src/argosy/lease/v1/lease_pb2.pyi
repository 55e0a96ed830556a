from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ChangeRequestKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CHANGE_REQUEST_KIND_UNSPECIFIED: _ClassVar[ChangeRequestKind]
    CHANGE_REQUEST_KIND_CANCEL: _ClassVar[ChangeRequestKind]
    CHANGE_REQUEST_KIND_REPRIORITIZE: _ClassVar[ChangeRequestKind]
    CHANGE_REQUEST_KIND_HOLD: _ClassVar[ChangeRequestKind]
    CHANGE_REQUEST_KIND_RELEASE: _ClassVar[ChangeRequestKind]
    CHANGE_REQUEST_KIND_PREEMPT: _ClassVar[ChangeRequestKind]
CHANGE_REQUEST_KIND_UNSPECIFIED: ChangeRequestKind
CHANGE_REQUEST_KIND_CANCEL: ChangeRequestKind
CHANGE_REQUEST_KIND_REPRIORITIZE: ChangeRequestKind
CHANGE_REQUEST_KIND_HOLD: ChangeRequestKind
CHANGE_REQUEST_KIND_RELEASE: ChangeRequestKind
CHANGE_REQUEST_KIND_PREEMPT: ChangeRequestKind

class LeaseBatch(_message.Message):
    __slots__ = ("pool", "epoch", "sequence", "create_time_us", "leader_marker", "leases", "stops", "failed_jobs", "round_state", "grow", "traceparent")
    POOL_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_US_FIELD_NUMBER: _ClassVar[int]
    LEADER_MARKER_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    STOPS_FIELD_NUMBER: _ClassVar[int]
    FAILED_JOBS_FIELD_NUMBER: _ClassVar[int]
    ROUND_STATE_FIELD_NUMBER: _ClassVar[int]
    GROW_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    pool: str
    epoch: int
    sequence: int
    create_time_us: int
    leader_marker: bool
    leases: Leases
    stops: Stops
    failed_jobs: FailedJobs
    round_state: RoundState
    grow: Leases
    traceparent: str
    def __init__(self, pool: _Optional[str] = ..., epoch: _Optional[int] = ..., sequence: _Optional[int] = ..., create_time_us: _Optional[int] = ..., leader_marker: bool = ..., leases: _Optional[_Union[Leases, _Mapping]] = ..., stops: _Optional[_Union[Stops, _Mapping]] = ..., failed_jobs: _Optional[_Union[FailedJobs, _Mapping]] = ..., round_state: _Optional[_Union[RoundState, _Mapping]] = ..., grow: _Optional[_Union[Leases, _Mapping]] = ..., traceparent: _Optional[str] = ...) -> None: ...

class Leases(_message.Message):
    __slots__ = ("handle_column", "attempt_column", "cluster_column", "node_column", "clusters", "nodes", "member_column", "charge_core_s_column")
    HANDLE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_COLUMN_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_COLUMN_FIELD_NUMBER: _ClassVar[int]
    NODE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    CLUSTERS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    MEMBER_COLUMN_FIELD_NUMBER: _ClassVar[int]
    CHARGE_CORE_S_COLUMN_FIELD_NUMBER: _ClassVar[int]
    handle_column: bytes
    attempt_column: bytes
    cluster_column: bytes
    node_column: bytes
    clusters: _containers.RepeatedScalarFieldContainer[str]
    nodes: _containers.RepeatedScalarFieldContainer[str]
    member_column: bytes
    charge_core_s_column: bytes
    def __init__(self, handle_column: _Optional[bytes] = ..., attempt_column: _Optional[bytes] = ..., cluster_column: _Optional[bytes] = ..., node_column: _Optional[bytes] = ..., clusters: _Optional[_Iterable[str]] = ..., nodes: _Optional[_Iterable[str]] = ..., member_column: _Optional[bytes] = ..., charge_core_s_column: _Optional[bytes] = ...) -> None: ...

class Stops(_message.Message):
    __slots__ = ("handle_column", "attempt_column", "member_column")
    HANDLE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_COLUMN_FIELD_NUMBER: _ClassVar[int]
    MEMBER_COLUMN_FIELD_NUMBER: _ClassVar[int]
    handle_column: bytes
    attempt_column: bytes
    member_column: bytes
    def __init__(self, handle_column: _Optional[bytes] = ..., attempt_column: _Optional[bytes] = ..., member_column: _Optional[bytes] = ...) -> None: ...

class FailedJobs(_message.Message):
    __slots__ = ("handle_column", "reasons")
    HANDLE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    handle_column: bytes
    reasons: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, handle_column: _Optional[bytes] = ..., reasons: _Optional[_Iterable[str]] = ...) -> None: ...

class RoundState(_message.Message):
    __slots__ = ("queue_column", "flow_column", "flow_time_us", "attempted_handle_column", "failed_attempt_column", "promises", "branch_flow_column", "weights", "weight_time_us", "non_preemptible_flow_column", "shrinks")
    QUEUE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    FLOW_COLUMN_FIELD_NUMBER: _ClassVar[int]
    FLOW_TIME_US_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTED_HANDLE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    FAILED_ATTEMPT_COLUMN_FIELD_NUMBER: _ClassVar[int]
    PROMISES_FIELD_NUMBER: _ClassVar[int]
    BRANCH_FLOW_COLUMN_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_TIME_US_FIELD_NUMBER: _ClassVar[int]
    NON_PREEMPTIBLE_FLOW_COLUMN_FIELD_NUMBER: _ClassVar[int]
    SHRINKS_FIELD_NUMBER: _ClassVar[int]
    queue_column: bytes
    flow_column: bytes
    flow_time_us: int
    attempted_handle_column: bytes
    failed_attempt_column: bytes
    promises: Promises
    branch_flow_column: bytes
    weights: _containers.RepeatedCompositeFieldContainer[ResourceWeight]
    weight_time_us: int
    non_preemptible_flow_column: bytes
    shrinks: Shrinks
    def __init__(self, queue_column: _Optional[bytes] = ..., flow_column: _Optional[bytes] = ..., flow_time_us: _Optional[int] = ..., attempted_handle_column: _Optional[bytes] = ..., failed_attempt_column: _Optional[bytes] = ..., promises: _Optional[_Union[Promises, _Mapping]] = ..., branch_flow_column: _Optional[bytes] = ..., weights: _Optional[_Iterable[_Union[ResourceWeight, _Mapping]]] = ..., weight_time_us: _Optional[int] = ..., non_preemptible_flow_column: _Optional[bytes] = ..., shrinks: _Optional[_Union[Shrinks, _Mapping]] = ...) -> None: ...

class Shrinks(_message.Message):
    __slots__ = ("handle_column", "attempt_column", "member_column", "quiet_handle_column", "quiet_until_us_column", "quiet_pause_us_column")
    HANDLE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_COLUMN_FIELD_NUMBER: _ClassVar[int]
    MEMBER_COLUMN_FIELD_NUMBER: _ClassVar[int]
    QUIET_HANDLE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    QUIET_UNTIL_US_COLUMN_FIELD_NUMBER: _ClassVar[int]
    QUIET_PAUSE_US_COLUMN_FIELD_NUMBER: _ClassVar[int]
    handle_column: bytes
    attempt_column: bytes
    member_column: bytes
    quiet_handle_column: bytes
    quiet_until_us_column: bytes
    quiet_pause_us_column: bytes
    def __init__(self, handle_column: _Optional[bytes] = ..., attempt_column: _Optional[bytes] = ..., member_column: _Optional[bytes] = ..., quiet_handle_column: _Optional[bytes] = ..., quiet_until_us_column: _Optional[bytes] = ..., quiet_pause_us_column: _Optional[bytes] = ...) -> None: ...

class ResourceWeight(_message.Message):
    __slots__ = ("resource", "cores", "target_cores")
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    CORES_FIELD_NUMBER: _ClassVar[int]
    TARGET_CORES_FIELD_NUMBER: _ClassVar[int]
    resource: str
    cores: float
    target_cores: float
    def __init__(self, resource: _Optional[str] = ..., cores: _Optional[float] = ..., target_cores: _Optional[float] = ...) -> None: ...

class Promises(_message.Message):
    __slots__ = ("handle_column", "kind_column", "time_us_column", "clusters", "nodes")
    HANDLE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    KIND_COLUMN_FIELD_NUMBER: _ClassVar[int]
    TIME_US_COLUMN_FIELD_NUMBER: _ClassVar[int]
    CLUSTERS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    handle_column: bytes
    kind_column: bytes
    time_us_column: bytes
    clusters: _containers.RepeatedScalarFieldContainer[str]
    nodes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, handle_column: _Optional[bytes] = ..., kind_column: _Optional[bytes] = ..., time_us_column: _Optional[bytes] = ..., clusters: _Optional[_Iterable[str]] = ..., nodes: _Optional[_Iterable[str]] = ...) -> None: ...

class Changes(_message.Message):
    __slots__ = ("submitted", "change_requests", "changed_queue_ids", "changed_clusters", "traced", "changed_settings")
    SUBMITTED_FIELD_NUMBER: _ClassVar[int]
    CHANGE_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    CHANGED_QUEUE_IDS_FIELD_NUMBER: _ClassVar[int]
    CHANGED_CLUSTERS_FIELD_NUMBER: _ClassVar[int]
    TRACED_FIELD_NUMBER: _ClassVar[int]
    CHANGED_SETTINGS_FIELD_NUMBER: _ClassVar[int]
    submitted: SubmittedJobs
    change_requests: ChangeRequests
    changed_queue_ids: _containers.RepeatedScalarFieldContainer[int]
    changed_clusters: _containers.RepeatedScalarFieldContainer[str]
    traced: TracedJobs
    changed_settings: bool
    def __init__(self, submitted: _Optional[_Union[SubmittedJobs, _Mapping]] = ..., change_requests: _Optional[_Union[ChangeRequests, _Mapping]] = ..., changed_queue_ids: _Optional[_Iterable[int]] = ..., changed_clusters: _Optional[_Iterable[str]] = ..., traced: _Optional[_Union[TracedJobs, _Mapping]] = ..., changed_settings: bool = ...) -> None: ...

class TracedJobs(_message.Message):
    __slots__ = ("handle_column", "context_column", "traceparents")
    HANDLE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_COLUMN_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENTS_FIELD_NUMBER: _ClassVar[int]
    handle_column: bytes
    context_column: bytes
    traceparents: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, handle_column: _Optional[bytes] = ..., context_column: _Optional[bytes] = ..., traceparents: _Optional[_Iterable[str]] = ...) -> None: ...

class SubmittedJobs(_message.Message):
    __slots__ = ("handle_column", "id_high_column", "queue_column", "job_set_column", "class_column", "priority_column", "submit_time_us_column", "spec_column", "metadata_column", "specs", "metadata", "lifetime_s_column", "time_limit_s_column", "estimate_s_column", "held_column", "after_handle_column", "after_other_high_column", "after_other_column", "after_until_column", "job_set_limit_column", "submitter_column")
    HANDLE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    ID_HIGH_COLUMN_FIELD_NUMBER: _ClassVar[int]
    QUEUE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    JOB_SET_COLUMN_FIELD_NUMBER: _ClassVar[int]
    CLASS_COLUMN_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_COLUMN_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_TIME_US_COLUMN_FIELD_NUMBER: _ClassVar[int]
    SPEC_COLUMN_FIELD_NUMBER: _ClassVar[int]
    METADATA_COLUMN_FIELD_NUMBER: _ClassVar[int]
    SPECS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_S_COLUMN_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_S_COLUMN_FIELD_NUMBER: _ClassVar[int]
    ESTIMATE_S_COLUMN_FIELD_NUMBER: _ClassVar[int]
    HELD_COLUMN_FIELD_NUMBER: _ClassVar[int]
    AFTER_HANDLE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    AFTER_OTHER_HIGH_COLUMN_FIELD_NUMBER: _ClassVar[int]
    AFTER_OTHER_COLUMN_FIELD_NUMBER: _ClassVar[int]
    AFTER_UNTIL_COLUMN_FIELD_NUMBER: _ClassVar[int]
    JOB_SET_LIMIT_COLUMN_FIELD_NUMBER: _ClassVar[int]
    SUBMITTER_COLUMN_FIELD_NUMBER: _ClassVar[int]
    handle_column: bytes
    id_high_column: bytes
    queue_column: bytes
    job_set_column: bytes
    class_column: bytes
    priority_column: bytes
    submit_time_us_column: bytes
    spec_column: bytes
    metadata_column: bytes
    specs: _containers.RepeatedCompositeFieldContainer[SpecReference]
    metadata: _containers.RepeatedScalarFieldContainer[bytes]
    lifetime_s_column: bytes
    time_limit_s_column: bytes
    estimate_s_column: bytes
    held_column: bytes
    after_handle_column: bytes
    after_other_high_column: bytes
    after_other_column: bytes
    after_until_column: bytes
    job_set_limit_column: bytes
    submitter_column: bytes
    def __init__(self, handle_column: _Optional[bytes] = ..., id_high_column: _Optional[bytes] = ..., queue_column: _Optional[bytes] = ..., job_set_column: _Optional[bytes] = ..., class_column: _Optional[bytes] = ..., priority_column: _Optional[bytes] = ..., submit_time_us_column: _Optional[bytes] = ..., spec_column: _Optional[bytes] = ..., metadata_column: _Optional[bytes] = ..., specs: _Optional[_Iterable[_Union[SpecReference, _Mapping]]] = ..., metadata: _Optional[_Iterable[bytes]] = ..., lifetime_s_column: _Optional[bytes] = ..., time_limit_s_column: _Optional[bytes] = ..., estimate_s_column: _Optional[bytes] = ..., held_column: _Optional[bytes] = ..., after_handle_column: _Optional[bytes] = ..., after_other_high_column: _Optional[bytes] = ..., after_other_column: _Optional[bytes] = ..., after_until_column: _Optional[bytes] = ..., job_set_limit_column: _Optional[bytes] = ..., submitter_column: _Optional[bytes] = ...) -> None: ...

class SpecReference(_message.Message):
    __slots__ = ("hash", "day", "layout")
    HASH_FIELD_NUMBER: _ClassVar[int]
    DAY_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    hash: bytes
    day: int
    layout: bytes
    def __init__(self, hash: _Optional[bytes] = ..., day: _Optional[int] = ..., layout: _Optional[bytes] = ...) -> None: ...

class ChangeRequests(_message.Message):
    __slots__ = ("handle_column", "kind_column", "priority_column", "ended_column", "reason")
    HANDLE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    KIND_COLUMN_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_COLUMN_FIELD_NUMBER: _ClassVar[int]
    ENDED_COLUMN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    handle_column: bytes
    kind_column: bytes
    priority_column: bytes
    ended_column: bytes
    reason: str
    def __init__(self, handle_column: _Optional[bytes] = ..., kind_column: _Optional[bytes] = ..., priority_column: _Optional[bytes] = ..., ended_column: _Optional[bytes] = ..., reason: _Optional[str] = ...) -> None: ...

class EventBatch(_message.Message):
    __slots__ = ("handle_column", "id_high_column", "kind_column", "attempt_column", "time_us_column", "cluster_column", "node_column", "reason_column", "texts", "from_state_column", "to_state_column", "member_column")
    HANDLE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    ID_HIGH_COLUMN_FIELD_NUMBER: _ClassVar[int]
    KIND_COLUMN_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_COLUMN_FIELD_NUMBER: _ClassVar[int]
    TIME_US_COLUMN_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_COLUMN_FIELD_NUMBER: _ClassVar[int]
    NODE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    REASON_COLUMN_FIELD_NUMBER: _ClassVar[int]
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    FROM_STATE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    TO_STATE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    MEMBER_COLUMN_FIELD_NUMBER: _ClassVar[int]
    handle_column: bytes
    id_high_column: bytes
    kind_column: bytes
    attempt_column: bytes
    time_us_column: bytes
    cluster_column: bytes
    node_column: bytes
    reason_column: bytes
    texts: _containers.RepeatedScalarFieldContainer[str]
    from_state_column: bytes
    to_state_column: bytes
    member_column: bytes
    def __init__(self, handle_column: _Optional[bytes] = ..., id_high_column: _Optional[bytes] = ..., kind_column: _Optional[bytes] = ..., attempt_column: _Optional[bytes] = ..., time_us_column: _Optional[bytes] = ..., cluster_column: _Optional[bytes] = ..., node_column: _Optional[bytes] = ..., reason_column: _Optional[bytes] = ..., texts: _Optional[_Iterable[str]] = ..., from_state_column: _Optional[bytes] = ..., to_state_column: _Optional[bytes] = ..., member_column: _Optional[bytes] = ...) -> None: ...
