import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JobState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_STATE_UNSPECIFIED: _ClassVar[JobState]
    JOB_STATE_QUEUED: _ClassVar[JobState]
    JOB_STATE_LEASED: _ClassVar[JobState]
    JOB_STATE_RUNNING: _ClassVar[JobState]
    JOB_STATE_SUCCEEDED: _ClassVar[JobState]
    JOB_STATE_FAILED: _ClassVar[JobState]
    JOB_STATE_CANCELLED: _ClassVar[JobState]

class RunState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RUN_STATE_UNSPECIFIED: _ClassVar[RunState]
    RUN_STATE_LEASED: _ClassVar[RunState]
    RUN_STATE_CREATED: _ClassVar[RunState]
    RUN_STATE_RUNNING: _ClassVar[RunState]
    RUN_STATE_SUCCEEDED: _ClassVar[RunState]
    RUN_STATE_FAILED: _ClassVar[RunState]
    RUN_STATE_CANCELLED: _ClassVar[RunState]
    RUN_STATE_LOST: _ClassVar[RunState]
    RUN_STATE_UNKNOWN: _ClassVar[RunState]
    RUN_STATE_RETURNED: _ClassVar[RunState]
    RUN_STATE_PREEMPTED: _ClassVar[RunState]

class FailureKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FAILURE_KIND_UNSPECIFIED: _ClassVar[FailureKind]
    FAILURE_KIND_EXIT_CODE: _ClassVar[FailureKind]
    FAILURE_KIND_OUT_OF_MEMORY: _ClassVar[FailureKind]
    FAILURE_KIND_EVICTED: _ClassVar[FailureKind]
    FAILURE_KIND_IMAGE: _ClassVar[FailureKind]
    FAILURE_KIND_INFRASTRUCTURE: _ClassVar[FailureKind]
    FAILURE_KIND_REJECTED: _ClassVar[FailureKind]
    FAILURE_KIND_TIME_LIMIT: _ClassVar[FailureKind]
    FAILURE_KIND_RETURNED: _ClassVar[FailureKind]

class JobOrder(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_ORDER_UNSPECIFIED: _ClassVar[JobOrder]
    JOB_ORDER_OLDEST_FIRST: _ClassVar[JobOrder]
    JOB_ORDER_NEWEST_FIRST: _ClassVar[JobOrder]

class ManifestValidation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MANIFEST_VALIDATION_UNSPECIFIED: _ClassVar[ManifestValidation]
    MANIFEST_VALIDATION_STRICT: _ClassVar[ManifestValidation]
    MANIFEST_VALIDATION_WARN: _ClassVar[ManifestValidation]
    MANIFEST_VALIDATION_IGNORE: _ClassVar[ManifestValidation]

class MemberFailure(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MEMBER_FAILURE_UNSPECIFIED: _ClassVar[MemberFailure]
    MEMBER_FAILURE_END_RUN: _ClassVar[MemberFailure]
    MEMBER_FAILURE_REPLACE_LOST: _ClassVar[MemberFailure]
    MEMBER_FAILURE_REPLACE: _ClassVar[MemberFailure]

class AfterUntil(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    AFTER_UNTIL_UNSPECIFIED: _ClassVar[AfterUntil]
    AFTER_UNTIL_SUCCEEDED: _ClassVar[AfterUntil]
    AFTER_UNTIL_ENDED: _ClassVar[AfterUntil]

class JobStage(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_STAGE_UNSPECIFIED: _ClassVar[JobStage]
    JOB_STAGE_QUEUED: _ClassVar[JobStage]
    JOB_STAGE_PENDING: _ClassVar[JobStage]
    JOB_STAGE_IN_FLIGHT: _ClassVar[JobStage]
    JOB_STAGE_LEASED: _ClassVar[JobStage]
    JOB_STAGE_RUNNING: _ClassVar[JobStage]
    JOB_STAGE_SUCCEEDED: _ClassVar[JobStage]
    JOB_STAGE_FAILED: _ClassVar[JobStage]
    JOB_STAGE_CANCELLED: _ClassVar[JobStage]

class WaitReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WAIT_REASON_UNSPECIFIED: _ClassVar[WaitReason]
    WAIT_REASON_MISMATCH: _ClassVar[WaitReason]
    WAIT_REASON_NO_ROOM: _ClassVar[WaitReason]
    WAIT_REASON_CONFLICT: _ClassVar[WaitReason]
    WAIT_REASON_PLUGIN: _ClassVar[WaitReason]
    WAIT_REASON_FAULT: _ClassVar[WaitReason]
    WAIT_REASON_HELD: _ClassVar[WaitReason]
    WAIT_REASON_DEPENDENCY: _ClassVar[WaitReason]
    WAIT_REASON_PROMISED: _ClassVar[WaitReason]
    WAIT_REASON_LIMIT: _ClassVar[WaitReason]
    WAIT_REASON_CORDONED: _ClassVar[WaitReason]
    WAIT_REASON_AWAY: _ClassVar[WaitReason]
    WAIT_REASON_NO_LEADER: _ClassVar[WaitReason]
    WAIT_REASON_BACK_OFF: _ClassVar[WaitReason]
    WAIT_REASON_RATE: _ClassVar[WaitReason]
    WAIT_REASON_RETURNED: _ClassVar[WaitReason]
JOB_STATE_UNSPECIFIED: JobState
JOB_STATE_QUEUED: JobState
JOB_STATE_LEASED: JobState
JOB_STATE_RUNNING: JobState
JOB_STATE_SUCCEEDED: JobState
JOB_STATE_FAILED: JobState
JOB_STATE_CANCELLED: JobState
RUN_STATE_UNSPECIFIED: RunState
RUN_STATE_LEASED: RunState
RUN_STATE_CREATED: RunState
RUN_STATE_RUNNING: RunState
RUN_STATE_SUCCEEDED: RunState
RUN_STATE_FAILED: RunState
RUN_STATE_CANCELLED: RunState
RUN_STATE_LOST: RunState
RUN_STATE_UNKNOWN: RunState
RUN_STATE_RETURNED: RunState
RUN_STATE_PREEMPTED: RunState
FAILURE_KIND_UNSPECIFIED: FailureKind
FAILURE_KIND_EXIT_CODE: FailureKind
FAILURE_KIND_OUT_OF_MEMORY: FailureKind
FAILURE_KIND_EVICTED: FailureKind
FAILURE_KIND_IMAGE: FailureKind
FAILURE_KIND_INFRASTRUCTURE: FailureKind
FAILURE_KIND_REJECTED: FailureKind
FAILURE_KIND_TIME_LIMIT: FailureKind
FAILURE_KIND_RETURNED: FailureKind
JOB_ORDER_UNSPECIFIED: JobOrder
JOB_ORDER_OLDEST_FIRST: JobOrder
JOB_ORDER_NEWEST_FIRST: JobOrder
MANIFEST_VALIDATION_UNSPECIFIED: ManifestValidation
MANIFEST_VALIDATION_STRICT: ManifestValidation
MANIFEST_VALIDATION_WARN: ManifestValidation
MANIFEST_VALIDATION_IGNORE: ManifestValidation
MEMBER_FAILURE_UNSPECIFIED: MemberFailure
MEMBER_FAILURE_END_RUN: MemberFailure
MEMBER_FAILURE_REPLACE_LOST: MemberFailure
MEMBER_FAILURE_REPLACE: MemberFailure
AFTER_UNTIL_UNSPECIFIED: AfterUntil
AFTER_UNTIL_SUCCEEDED: AfterUntil
AFTER_UNTIL_ENDED: AfterUntil
JOB_STAGE_UNSPECIFIED: JobStage
JOB_STAGE_QUEUED: JobStage
JOB_STAGE_PENDING: JobStage
JOB_STAGE_IN_FLIGHT: JobStage
JOB_STAGE_LEASED: JobStage
JOB_STAGE_RUNNING: JobStage
JOB_STAGE_SUCCEEDED: JobStage
JOB_STAGE_FAILED: JobStage
JOB_STAGE_CANCELLED: JobStage
WAIT_REASON_UNSPECIFIED: WaitReason
WAIT_REASON_MISMATCH: WaitReason
WAIT_REASON_NO_ROOM: WaitReason
WAIT_REASON_CONFLICT: WaitReason
WAIT_REASON_PLUGIN: WaitReason
WAIT_REASON_FAULT: WaitReason
WAIT_REASON_HELD: WaitReason
WAIT_REASON_DEPENDENCY: WaitReason
WAIT_REASON_PROMISED: WaitReason
WAIT_REASON_LIMIT: WaitReason
WAIT_REASON_CORDONED: WaitReason
WAIT_REASON_AWAY: WaitReason
WAIT_REASON_NO_LEADER: WaitReason
WAIT_REASON_BACK_OFF: WaitReason
WAIT_REASON_RATE: WaitReason
WAIT_REASON_RETURNED: WaitReason

class PodGroup(_message.Message):
    __slots__ = ("name", "min", "max", "template", "max_hops", "shares_nodes", "after")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MIN_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    MAX_HOPS_FIELD_NUMBER: _ClassVar[int]
    SHARES_NODES_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    name: str
    min: int
    max: int
    template: str
    max_hops: int
    shares_nodes: bool
    after: str
    def __init__(self, name: _Optional[str] = ..., min: _Optional[int] = ..., max: _Optional[int] = ..., template: _Optional[str] = ..., max_hops: _Optional[int] = ..., shares_nodes: bool = ..., after: _Optional[str] = ...) -> None: ...

class FailureLimit(_message.Message):
    __slots__ = ("kind", "max_failed_runs")
    KIND_FIELD_NUMBER: _ClassVar[int]
    MAX_FAILED_RUNS_FIELD_NUMBER: _ClassVar[int]
    kind: FailureKind
    max_failed_runs: int
    def __init__(self, kind: _Optional[_Union[FailureKind, str]] = ..., max_failed_runs: _Optional[int] = ...) -> None: ...

class RetryRules(_message.Message):
    __slots__ = ("max_failed_runs", "by_kind", "first_back_off", "back_off_factor", "max_back_off")
    MAX_FAILED_RUNS_FIELD_NUMBER: _ClassVar[int]
    BY_KIND_FIELD_NUMBER: _ClassVar[int]
    FIRST_BACK_OFF_FIELD_NUMBER: _ClassVar[int]
    BACK_OFF_FACTOR_FIELD_NUMBER: _ClassVar[int]
    MAX_BACK_OFF_FIELD_NUMBER: _ClassVar[int]
    max_failed_runs: int
    by_kind: _containers.RepeatedCompositeFieldContainer[FailureLimit]
    first_back_off: _duration_pb2.Duration
    back_off_factor: float
    max_back_off: _duration_pb2.Duration
    def __init__(self, max_failed_runs: _Optional[int] = ..., by_kind: _Optional[_Iterable[_Union[FailureLimit, _Mapping]]] = ..., first_back_off: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., back_off_factor: _Optional[float] = ..., max_back_off: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class NodeLost(_message.Message):
    __slots__ = ("replace_after",)
    REPLACE_AFTER_FIELD_NUMBER: _ClassVar[int]
    replace_after: _duration_pb2.Duration
    def __init__(self, replace_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ExecutorLost(_message.Message):
    __slots__ = ("stop_after",)
    STOP_AFTER_FIELD_NUMBER: _ClassVar[int]
    stop_after: _duration_pb2.Duration
    def __init__(self, stop_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class JobSpec(_message.Message):
    __slots__ = ("manifests", "groups", "retry", "node_lost", "executor_lost", "member_failure")
    MANIFESTS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    NODE_LOST_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_LOST_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FAILURE_FIELD_NUMBER: _ClassVar[int]
    manifests: _containers.RepeatedScalarFieldContainer[str]
    groups: _containers.RepeatedCompositeFieldContainer[PodGroup]
    retry: RetryRules
    node_lost: NodeLost
    executor_lost: ExecutorLost
    member_failure: MemberFailure
    def __init__(self, manifests: _Optional[_Iterable[str]] = ..., groups: _Optional[_Iterable[_Union[PodGroup, _Mapping]]] = ..., retry: _Optional[_Union[RetryRules, _Mapping]] = ..., node_lost: _Optional[_Union[NodeLost, _Mapping]] = ..., executor_lost: _Optional[_Union[ExecutorLost, _Mapping]] = ..., member_failure: _Optional[_Union[MemberFailure, str]] = ...) -> None: ...

class RunAfter(_message.Message):
    __slots__ = ("job_ids", "until")
    JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    job_ids: _containers.RepeatedScalarFieldContainer[str]
    until: AfterUntil
    def __init__(self, job_ids: _Optional[_Iterable[str]] = ..., until: _Optional[_Union[AfterUntil, str]] = ...) -> None: ...

class ScaledAmounts(_message.Message):
    __slots__ = ("cpu", "memory")
    CPU_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    cpu: str
    memory: str
    def __init__(self, cpu: _Optional[str] = ..., memory: _Optional[str] = ...) -> None: ...

class ScalingTargets(_message.Message):
    __slots__ = ("load", "memory", "working_set")
    LOAD_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    WORKING_SET_FIELD_NUMBER: _ClassVar[int]
    load: float
    memory: float
    working_set: float
    def __init__(self, load: _Optional[float] = ..., memory: _Optional[float] = ..., working_set: _Optional[float] = ...) -> None: ...

class ScalingPolicy(_message.Message):
    __slots__ = ("min", "max", "unit", "targets", "off", "bundle", "movable")
    MIN_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    OFF_FIELD_NUMBER: _ClassVar[int]
    BUNDLE_FIELD_NUMBER: _ClassVar[int]
    MOVABLE_FIELD_NUMBER: _ClassVar[int]
    min: ScaledAmounts
    max: ScaledAmounts
    unit: ScaledAmounts
    targets: ScalingTargets
    off: bool
    bundle: bool
    movable: bool
    def __init__(self, min: _Optional[_Union[ScaledAmounts, _Mapping]] = ..., max: _Optional[_Union[ScaledAmounts, _Mapping]] = ..., unit: _Optional[_Union[ScaledAmounts, _Mapping]] = ..., targets: _Optional[_Union[ScalingTargets, _Mapping]] = ..., off: bool = ..., bundle: bool = ..., movable: bool = ...) -> None: ...

class ParentJob(_message.Message):
    __slots__ = ("job_id", "outlives")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    OUTLIVES_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    outlives: bool
    def __init__(self, job_id: _Optional[str] = ..., outlives: bool = ...) -> None: ...

class JobItem(_message.Message):
    __slots__ = ("spec", "queue", "job_set", "priority", "client_id", "count", "labels", "annotations", "lifetime", "time_limit", "estimate", "hold", "after", "job_set_limit", "scaling", "operator", "parent")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class AnnotationsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SPEC_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    JOB_SET_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_FIELD_NUMBER: _ClassVar[int]
    ESTIMATE_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    JOB_SET_LIMIT_FIELD_NUMBER: _ClassVar[int]
    SCALING_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    spec: int
    queue: str
    job_set: str
    priority: int
    client_id: str
    count: int
    labels: _containers.ScalarMap[str, str]
    annotations: _containers.ScalarMap[str, str]
    lifetime: _duration_pb2.Duration
    time_limit: _duration_pb2.Duration
    estimate: _duration_pb2.Duration
    hold: bool
    after: RunAfter
    job_set_limit: int
    scaling: ScalingPolicy
    operator: bool
    parent: ParentJob
    def __init__(self, spec: _Optional[int] = ..., queue: _Optional[str] = ..., job_set: _Optional[str] = ..., priority: _Optional[int] = ..., client_id: _Optional[str] = ..., count: _Optional[int] = ..., labels: _Optional[_Mapping[str, str]] = ..., annotations: _Optional[_Mapping[str, str]] = ..., lifetime: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., time_limit: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., estimate: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., hold: bool = ..., after: _Optional[_Union[RunAfter, _Mapping]] = ..., job_set_limit: _Optional[int] = ..., scaling: _Optional[_Union[ScalingPolicy, _Mapping]] = ..., operator: bool = ..., parent: _Optional[_Union[ParentJob, _Mapping]] = ...) -> None: ...

class SubmitJobsRequest(_message.Message):
    __slots__ = ("specs", "items", "validate_only", "validation")
    SPECS_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_FIELD_NUMBER: _ClassVar[int]
    specs: _containers.RepeatedCompositeFieldContainer[JobSpec]
    items: _containers.RepeatedCompositeFieldContainer[JobItem]
    validate_only: bool
    validation: ManifestValidation
    def __init__(self, specs: _Optional[_Iterable[_Union[JobSpec, _Mapping]]] = ..., items: _Optional[_Iterable[_Union[JobItem, _Mapping]]] = ..., validate_only: bool = ..., validation: _Optional[_Union[ManifestValidation, str]] = ...) -> None: ...

class SubmitWarning(_message.Message):
    __slots__ = ("field", "description")
    FIELD_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    field: str
    description: str
    def __init__(self, field: _Optional[str] = ..., description: _Optional[str] = ...) -> None: ...

class SubmitJobsResponse(_message.Message):
    __slots__ = ("job_ids", "warnings", "existing_jobs")
    JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    EXISTING_JOBS_FIELD_NUMBER: _ClassVar[int]
    job_ids: _containers.RepeatedScalarFieldContainer[str]
    warnings: _containers.RepeatedCompositeFieldContainer[SubmitWarning]
    existing_jobs: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, job_ids: _Optional[_Iterable[str]] = ..., warnings: _Optional[_Iterable[_Union[SubmitWarning, _Mapping]]] = ..., existing_jobs: _Optional[_Iterable[int]] = ...) -> None: ...

class Run(_message.Message):
    __slots__ = ("attempt", "state", "cluster", "node", "lease_time", "start_time", "end_time", "exit_code", "reason", "failure", "member", "replacement")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    LEASE_TIME_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    REPLACEMENT_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    state: RunState
    cluster: str
    node: str
    lease_time: _timestamp_pb2.Timestamp
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    exit_code: int
    reason: str
    failure: FailureKind
    member: int
    replacement: int
    def __init__(self, attempt: _Optional[int] = ..., state: _Optional[_Union[RunState, str]] = ..., cluster: _Optional[str] = ..., node: _Optional[str] = ..., lease_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., exit_code: _Optional[int] = ..., reason: _Optional[str] = ..., failure: _Optional[_Union[FailureKind, str]] = ..., member: _Optional[int] = ..., replacement: _Optional[int] = ...) -> None: ...

class Job(_message.Message):
    __slots__ = ("id", "queue", "job_set", "state", "priority", "create_time", "end_time", "reason", "cancel_requested", "client_id", "labels", "annotations", "runs", "spec", "lifetime", "time_limit", "estimate", "held", "submitter", "after", "requests", "job_set_limit", "scaling", "operator", "parent")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class AnnotationsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class RequestsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    JOB_SET_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CANCEL_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_FIELD_NUMBER: _ClassVar[int]
    ESTIMATE_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    SUBMITTER_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    JOB_SET_LIMIT_FIELD_NUMBER: _ClassVar[int]
    SCALING_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    id: str
    queue: str
    job_set: str
    state: JobState
    priority: int
    create_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    reason: str
    cancel_requested: bool
    client_id: str
    labels: _containers.ScalarMap[str, str]
    annotations: _containers.ScalarMap[str, str]
    runs: _containers.RepeatedCompositeFieldContainer[Run]
    spec: JobSpec
    lifetime: _duration_pb2.Duration
    time_limit: _duration_pb2.Duration
    estimate: _duration_pb2.Duration
    held: bool
    submitter: str
    after: RunAfter
    requests: _containers.ScalarMap[str, int]
    job_set_limit: int
    scaling: ScalingPolicy
    operator: bool
    parent: ParentJob
    def __init__(self, id: _Optional[str] = ..., queue: _Optional[str] = ..., job_set: _Optional[str] = ..., state: _Optional[_Union[JobState, str]] = ..., priority: _Optional[int] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., reason: _Optional[str] = ..., cancel_requested: bool = ..., client_id: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., annotations: _Optional[_Mapping[str, str]] = ..., runs: _Optional[_Iterable[_Union[Run, _Mapping]]] = ..., spec: _Optional[_Union[JobSpec, _Mapping]] = ..., lifetime: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., time_limit: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., estimate: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., held: bool = ..., submitter: _Optional[str] = ..., after: _Optional[_Union[RunAfter, _Mapping]] = ..., requests: _Optional[_Mapping[str, int]] = ..., job_set_limit: _Optional[int] = ..., scaling: _Optional[_Union[ScalingPolicy, _Mapping]] = ..., operator: bool = ..., parent: _Optional[_Union[ParentJob, _Mapping]] = ...) -> None: ...

class JobStateCount(_message.Message):
    __slots__ = ("state", "job_count")
    STATE_FIELD_NUMBER: _ClassVar[int]
    JOB_COUNT_FIELD_NUMBER: _ClassVar[int]
    state: JobState
    job_count: int
    def __init__(self, state: _Optional[_Union[JobState, str]] = ..., job_count: _Optional[int] = ...) -> None: ...

class JobSet(_message.Message):
    __slots__ = ("queue", "name", "last_event_number", "state_counts")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    LAST_EVENT_NUMBER_FIELD_NUMBER: _ClassVar[int]
    STATE_COUNTS_FIELD_NUMBER: _ClassVar[int]
    queue: str
    name: str
    last_event_number: int
    state_counts: _containers.RepeatedCompositeFieldContainer[JobStateCount]
    def __init__(self, queue: _Optional[str] = ..., name: _Optional[str] = ..., last_event_number: _Optional[int] = ..., state_counts: _Optional[_Iterable[_Union[JobStateCount, _Mapping]]] = ...) -> None: ...

class JobSelector(_message.Message):
    __slots__ = ("queue", "job_set", "states", "label_selector")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    JOB_SET_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    LABEL_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    queue: str
    job_set: str
    states: _containers.RepeatedScalarFieldContainer[JobState]
    label_selector: str
    def __init__(self, queue: _Optional[str] = ..., job_set: _Optional[str] = ..., states: _Optional[_Iterable[_Union[JobState, str]]] = ..., label_selector: _Optional[str] = ...) -> None: ...

class GetJobRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class GetJobResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: Job
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ...) -> None: ...

class BatchGetJobsRequest(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, ids: _Optional[_Iterable[str]] = ...) -> None: ...

class BatchGetJobsResponse(_message.Message):
    __slots__ = ("jobs", "unknown_ids")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_IDS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[Job]
    unknown_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, jobs: _Optional[_Iterable[_Union[Job, _Mapping]]] = ..., unknown_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class ListJobSetsRequest(_message.Message):
    __slots__ = ("queue", "page_size", "page_token", "count_states")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    COUNT_STATES_FIELD_NUMBER: _ClassVar[int]
    queue: str
    page_size: int
    page_token: str
    count_states: bool
    def __init__(self, queue: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., count_states: bool = ...) -> None: ...

class ListJobSetsResponse(_message.Message):
    __slots__ = ("job_sets", "next_page_token")
    JOB_SETS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    job_sets: _containers.RepeatedCompositeFieldContainer[JobSet]
    next_page_token: str
    def __init__(self, job_sets: _Optional[_Iterable[_Union[JobSet, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ListJobsRequest(_message.Message):
    __slots__ = ("selector", "page_size", "page_token", "order", "create_time_from", "create_time_before")
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FROM_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_BEFORE_FIELD_NUMBER: _ClassVar[int]
    selector: JobSelector
    page_size: int
    page_token: str
    order: JobOrder
    create_time_from: _timestamp_pb2.Timestamp
    create_time_before: _timestamp_pb2.Timestamp
    def __init__(self, selector: _Optional[_Union[JobSelector, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., order: _Optional[_Union[JobOrder, str]] = ..., create_time_from: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., create_time_before: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ListJobsResponse(_message.Message):
    __slots__ = ("jobs", "next_page_token")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[Job]
    next_page_token: str
    def __init__(self, jobs: _Optional[_Iterable[_Union[Job, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class JobIds(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, ids: _Optional[_Iterable[str]] = ...) -> None: ...

class CancelJobsRequest(_message.Message):
    __slots__ = ("jobs", "selector", "validate_only", "reason")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    jobs: JobIds
    selector: JobSelector
    validate_only: bool
    reason: str
    def __init__(self, jobs: _Optional[_Union[JobIds, _Mapping]] = ..., selector: _Optional[_Union[JobSelector, _Mapping]] = ..., validate_only: bool = ..., reason: _Optional[str] = ...) -> None: ...

class CancelJobsResponse(_message.Message):
    __slots__ = ("job_count", "unknown_ids", "sample")
    JOB_COUNT_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_IDS_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    job_count: int
    unknown_ids: _containers.RepeatedScalarFieldContainer[str]
    sample: _containers.RepeatedCompositeFieldContainer[Job]
    def __init__(self, job_count: _Optional[int] = ..., unknown_ids: _Optional[_Iterable[str]] = ..., sample: _Optional[_Iterable[_Union[Job, _Mapping]]] = ...) -> None: ...

class ReprioritizeJobsRequest(_message.Message):
    __slots__ = ("jobs", "selector", "priority", "validate_only")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    jobs: JobIds
    selector: JobSelector
    priority: int
    validate_only: bool
    def __init__(self, jobs: _Optional[_Union[JobIds, _Mapping]] = ..., selector: _Optional[_Union[JobSelector, _Mapping]] = ..., priority: _Optional[int] = ..., validate_only: bool = ...) -> None: ...

class ReprioritizeJobsResponse(_message.Message):
    __slots__ = ("job_count", "unknown_ids", "sample")
    JOB_COUNT_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_IDS_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    job_count: int
    unknown_ids: _containers.RepeatedScalarFieldContainer[str]
    sample: _containers.RepeatedCompositeFieldContainer[Job]
    def __init__(self, job_count: _Optional[int] = ..., unknown_ids: _Optional[_Iterable[str]] = ..., sample: _Optional[_Iterable[_Union[Job, _Mapping]]] = ...) -> None: ...

class PreemptJobsRequest(_message.Message):
    __slots__ = ("jobs", "selector", "validate_only", "reason")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    jobs: JobIds
    selector: JobSelector
    validate_only: bool
    reason: str
    def __init__(self, jobs: _Optional[_Union[JobIds, _Mapping]] = ..., selector: _Optional[_Union[JobSelector, _Mapping]] = ..., validate_only: bool = ..., reason: _Optional[str] = ...) -> None: ...

class PreemptJobsResponse(_message.Message):
    __slots__ = ("job_count", "unknown_ids", "sample")
    JOB_COUNT_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_IDS_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    job_count: int
    unknown_ids: _containers.RepeatedScalarFieldContainer[str]
    sample: _containers.RepeatedCompositeFieldContainer[Job]
    def __init__(self, job_count: _Optional[int] = ..., unknown_ids: _Optional[_Iterable[str]] = ..., sample: _Optional[_Iterable[_Union[Job, _Mapping]]] = ...) -> None: ...

class HoldJobsRequest(_message.Message):
    __slots__ = ("jobs", "selector", "validate_only", "reason")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    jobs: JobIds
    selector: JobSelector
    validate_only: bool
    reason: str
    def __init__(self, jobs: _Optional[_Union[JobIds, _Mapping]] = ..., selector: _Optional[_Union[JobSelector, _Mapping]] = ..., validate_only: bool = ..., reason: _Optional[str] = ...) -> None: ...

class HoldJobsResponse(_message.Message):
    __slots__ = ("job_count", "unknown_ids", "sample")
    JOB_COUNT_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_IDS_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    job_count: int
    unknown_ids: _containers.RepeatedScalarFieldContainer[str]
    sample: _containers.RepeatedCompositeFieldContainer[Job]
    def __init__(self, job_count: _Optional[int] = ..., unknown_ids: _Optional[_Iterable[str]] = ..., sample: _Optional[_Iterable[_Union[Job, _Mapping]]] = ...) -> None: ...

class ReleaseJobsRequest(_message.Message):
    __slots__ = ("jobs", "selector", "validate_only")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    jobs: JobIds
    selector: JobSelector
    validate_only: bool
    def __init__(self, jobs: _Optional[_Union[JobIds, _Mapping]] = ..., selector: _Optional[_Union[JobSelector, _Mapping]] = ..., validate_only: bool = ...) -> None: ...

class ReleaseJobsResponse(_message.Message):
    __slots__ = ("job_count", "unknown_ids", "sample")
    JOB_COUNT_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_IDS_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    job_count: int
    unknown_ids: _containers.RepeatedScalarFieldContainer[str]
    sample: _containers.RepeatedCompositeFieldContainer[Job]
    def __init__(self, job_count: _Optional[int] = ..., unknown_ids: _Optional[_Iterable[str]] = ..., sample: _Optional[_Iterable[_Union[Job, _Mapping]]] = ...) -> None: ...

class ExplainJobRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class FilterCount(_message.Message):
    __slots__ = ("filter", "node_count", "text")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    NODE_COUNT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    filter: str
    node_count: int
    text: str
    def __init__(self, filter: _Optional[str] = ..., node_count: _Optional[int] = ..., text: _Optional[str] = ...) -> None: ...

class ExplainJobResponse(_message.Message):
    __slots__ = ("job", "stage", "summary", "queue_position", "filters", "examined_node_count", "nearest_miss", "failed_attempt_count", "queue_flow_per_weight", "least_flow_per_weight", "wait_reason", "cluster_reasons", "last_choice_nodes", "promised_start", "why", "queue_standing", "expected_start", "largest_node", "missing")
    JOB_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    QUEUE_POSITION_FIELD_NUMBER: _ClassVar[int]
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    EXAMINED_NODE_COUNT_FIELD_NUMBER: _ClassVar[int]
    NEAREST_MISS_FIELD_NUMBER: _ClassVar[int]
    FAILED_ATTEMPT_COUNT_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FLOW_PER_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    LEAST_FLOW_PER_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    WAIT_REASON_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_REASONS_FIELD_NUMBER: _ClassVar[int]
    LAST_CHOICE_NODES_FIELD_NUMBER: _ClassVar[int]
    PROMISED_START_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    QUEUE_STANDING_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_START_FIELD_NUMBER: _ClassVar[int]
    LARGEST_NODE_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    job: Job
    stage: JobStage
    summary: str
    queue_position: int
    filters: _containers.RepeatedCompositeFieldContainer[FilterCount]
    examined_node_count: int
    nearest_miss: str
    failed_attempt_count: int
    queue_flow_per_weight: float
    least_flow_per_weight: float
    wait_reason: WaitReason
    cluster_reasons: _containers.RepeatedCompositeFieldContainer[ClusterWaitReason]
    last_choice_nodes: _containers.RepeatedScalarFieldContainer[str]
    promised_start: PromisedStart
    why: str
    queue_standing: QueueStanding
    expected_start: StartBand
    largest_node: str
    missing: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ..., stage: _Optional[_Union[JobStage, str]] = ..., summary: _Optional[str] = ..., queue_position: _Optional[int] = ..., filters: _Optional[_Iterable[_Union[FilterCount, _Mapping]]] = ..., examined_node_count: _Optional[int] = ..., nearest_miss: _Optional[str] = ..., failed_attempt_count: _Optional[int] = ..., queue_flow_per_weight: _Optional[float] = ..., least_flow_per_weight: _Optional[float] = ..., wait_reason: _Optional[_Union[WaitReason, str]] = ..., cluster_reasons: _Optional[_Iterable[_Union[ClusterWaitReason, _Mapping]]] = ..., last_choice_nodes: _Optional[_Iterable[str]] = ..., promised_start: _Optional[_Union[PromisedStart, _Mapping]] = ..., why: _Optional[str] = ..., queue_standing: _Optional[_Union[QueueStanding, _Mapping]] = ..., expected_start: _Optional[_Union[StartBand, _Mapping]] = ..., largest_node: _Optional[str] = ..., missing: _Optional[_Iterable[str]] = ...) -> None: ...

class QueueStanding(_message.Message):
    __slots__ = ("usage_cores", "share_cores", "flow_per_weight", "before_count", "first_before", "usage_ratio", "share_ratio", "dominant_resource", "dominant_ratio", "weightless_resources")
    USAGE_CORES_FIELD_NUMBER: _ClassVar[int]
    SHARE_CORES_FIELD_NUMBER: _ClassVar[int]
    FLOW_PER_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    BEFORE_COUNT_FIELD_NUMBER: _ClassVar[int]
    FIRST_BEFORE_FIELD_NUMBER: _ClassVar[int]
    USAGE_RATIO_FIELD_NUMBER: _ClassVar[int]
    SHARE_RATIO_FIELD_NUMBER: _ClassVar[int]
    DOMINANT_RESOURCE_FIELD_NUMBER: _ClassVar[int]
    DOMINANT_RATIO_FIELD_NUMBER: _ClassVar[int]
    WEIGHTLESS_RESOURCES_FIELD_NUMBER: _ClassVar[int]
    usage_cores: float
    share_cores: float
    flow_per_weight: float
    before_count: int
    first_before: _containers.RepeatedCompositeFieldContainer[QueueBefore]
    usage_ratio: float
    share_ratio: float
    dominant_resource: str
    dominant_ratio: float
    weightless_resources: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, usage_cores: _Optional[float] = ..., share_cores: _Optional[float] = ..., flow_per_weight: _Optional[float] = ..., before_count: _Optional[int] = ..., first_before: _Optional[_Iterable[_Union[QueueBefore, _Mapping]]] = ..., usage_ratio: _Optional[float] = ..., share_ratio: _Optional[float] = ..., dominant_resource: _Optional[str] = ..., dominant_ratio: _Optional[float] = ..., weightless_resources: _Optional[_Iterable[str]] = ...) -> None: ...

class QueueBefore(_message.Message):
    __slots__ = ("queue", "flow_per_weight")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    FLOW_PER_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    queue: str
    flow_per_weight: float
    def __init__(self, queue: _Optional[str] = ..., flow_per_weight: _Optional[float] = ...) -> None: ...

class StartBand(_message.Message):
    __slots__ = ("earliest", "latest", "likely")
    EARLIEST_FIELD_NUMBER: _ClassVar[int]
    LATEST_FIELD_NUMBER: _ClassVar[int]
    LIKELY_FIELD_NUMBER: _ClassVar[int]
    earliest: _timestamp_pb2.Timestamp
    latest: _timestamp_pb2.Timestamp
    likely: _timestamp_pb2.Timestamp
    def __init__(self, earliest: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., latest: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., likely: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class PromisedStart(_message.Message):
    __slots__ = ("time", "firm", "node")
    TIME_FIELD_NUMBER: _ClassVar[int]
    FIRM_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    time: _timestamp_pb2.Timestamp
    firm: bool
    node: str
    def __init__(self, time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., firm: bool = ..., node: _Optional[str] = ...) -> None: ...

class ClusterWaitReason(_message.Message):
    __slots__ = ("cluster", "reason", "text", "filters", "examined_node_count", "able_node_count")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    EXAMINED_NODE_COUNT_FIELD_NUMBER: _ClassVar[int]
    ABLE_NODE_COUNT_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    reason: WaitReason
    text: str
    filters: _containers.RepeatedCompositeFieldContainer[FilterCount]
    examined_node_count: int
    able_node_count: int
    def __init__(self, cluster: _Optional[str] = ..., reason: _Optional[_Union[WaitReason, str]] = ..., text: _Optional[str] = ..., filters: _Optional[_Iterable[_Union[FilterCount, _Mapping]]] = ..., examined_node_count: _Optional[int] = ..., able_node_count: _Optional[int] = ...) -> None: ...

class BatchGetJobStagesRequest(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, ids: _Optional[_Iterable[str]] = ...) -> None: ...

class JobStanding(_message.Message):
    __slots__ = ("id", "stage", "wait_reason")
    ID_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    WAIT_REASON_FIELD_NUMBER: _ClassVar[int]
    id: str
    stage: JobStage
    wait_reason: WaitReason
    def __init__(self, id: _Optional[str] = ..., stage: _Optional[_Union[JobStage, str]] = ..., wait_reason: _Optional[_Union[WaitReason, str]] = ...) -> None: ...

class BatchGetJobStagesResponse(_message.Message):
    __slots__ = ("jobs", "pools_without_leader")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    POOLS_WITHOUT_LEADER_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[JobStanding]
    pools_without_leader: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, jobs: _Optional[_Iterable[_Union[JobStanding, _Mapping]]] = ..., pools_without_leader: _Optional[_Iterable[str]] = ...) -> None: ...

class ListPendingJobsRequest(_message.Message):
    __slots__ = ("selector", "pool")
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    selector: JobSelector
    pool: str
    def __init__(self, selector: _Optional[_Union[JobSelector, _Mapping]] = ..., pool: _Optional[str] = ...) -> None: ...

class ListPendingJobsResponse(_message.Message):
    __slots__ = ("jobs", "pools_without_leader")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    POOLS_WITHOUT_LEADER_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[Job]
    pools_without_leader: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, jobs: _Optional[_Iterable[_Union[Job, _Mapping]]] = ..., pools_without_leader: _Optional[_Iterable[str]] = ...) -> None: ...

class GetJobLogRequest(_message.Message):
    __slots__ = ("id", "attempt", "pod", "container", "follow", "tail_line_count", "member", "timestamps", "since_time")
    ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    TAIL_LINE_COUNT_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMPS_FIELD_NUMBER: _ClassVar[int]
    SINCE_TIME_FIELD_NUMBER: _ClassVar[int]
    id: str
    attempt: int
    pod: int
    container: str
    follow: bool
    tail_line_count: int
    member: int
    timestamps: bool
    since_time: _timestamp_pb2.Timestamp
    def __init__(self, id: _Optional[str] = ..., attempt: _Optional[int] = ..., pod: _Optional[int] = ..., container: _Optional[str] = ..., follow: bool = ..., tail_line_count: _Optional[int] = ..., member: _Optional[int] = ..., timestamps: bool = ..., since_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class GetJobLogResponse(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class PlanJobsRequest(_message.Message):
    __slots__ = ("submission",)
    SUBMISSION_FIELD_NUMBER: _ClassVar[int]
    submission: SubmitJobsRequest
    def __init__(self, submission: _Optional[_Union[SubmitJobsRequest, _Mapping]] = ...) -> None: ...

class PlannedPlace(_message.Message):
    __slots__ = ("cluster", "node", "job_count", "member_count")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    JOB_COUNT_FIELD_NUMBER: _ClassVar[int]
    MEMBER_COUNT_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    node: str
    job_count: int
    member_count: int
    def __init__(self, cluster: _Optional[str] = ..., node: _Optional[str] = ..., job_count: _Optional[int] = ..., member_count: _Optional[int] = ...) -> None: ...

class ItemPlan(_message.Message):
    __slots__ = ("placed_count", "places", "waiting_count", "first_waiting")
    PLACED_COUNT_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    WAITING_COUNT_FIELD_NUMBER: _ClassVar[int]
    FIRST_WAITING_FIELD_NUMBER: _ClassVar[int]
    placed_count: int
    places: _containers.RepeatedCompositeFieldContainer[PlannedPlace]
    waiting_count: int
    first_waiting: ExplainJobResponse
    def __init__(self, placed_count: _Optional[int] = ..., places: _Optional[_Iterable[_Union[PlannedPlace, _Mapping]]] = ..., waiting_count: _Optional[int] = ..., first_waiting: _Optional[_Union[ExplainJobResponse, _Mapping]] = ...) -> None: ...

class PlannedPreemption(_message.Message):
    __slots__ = ("job_id", "queue", "cluster", "node", "reason")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    queue: str
    cluster: str
    node: str
    reason: str
    def __init__(self, job_id: _Optional[str] = ..., queue: _Optional[str] = ..., cluster: _Optional[str] = ..., node: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ShareChange(_message.Message):
    __slots__ = ("queue", "usage_before_cores", "usage_after_cores", "entitled_before_cores", "entitled_after_cores")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    USAGE_BEFORE_CORES_FIELD_NUMBER: _ClassVar[int]
    USAGE_AFTER_CORES_FIELD_NUMBER: _ClassVar[int]
    ENTITLED_BEFORE_CORES_FIELD_NUMBER: _ClassVar[int]
    ENTITLED_AFTER_CORES_FIELD_NUMBER: _ClassVar[int]
    queue: str
    usage_before_cores: float
    usage_after_cores: float
    entitled_before_cores: float
    entitled_after_cores: float
    def __init__(self, queue: _Optional[str] = ..., usage_before_cores: _Optional[float] = ..., usage_after_cores: _Optional[float] = ..., entitled_before_cores: _Optional[float] = ..., entitled_after_cores: _Optional[float] = ...) -> None: ...

class PlanJobsResponse(_message.Message):
    __slots__ = ("items", "preemptions", "share_changes", "other_started_count", "complete", "warnings", "capacity_cores", "weightless_resources")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    PREEMPTIONS_FIELD_NUMBER: _ClassVar[int]
    SHARE_CHANGES_FIELD_NUMBER: _ClassVar[int]
    OTHER_STARTED_COUNT_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_CORES_FIELD_NUMBER: _ClassVar[int]
    WEIGHTLESS_RESOURCES_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[ItemPlan]
    preemptions: _containers.RepeatedCompositeFieldContainer[PlannedPreemption]
    share_changes: _containers.RepeatedCompositeFieldContainer[ShareChange]
    other_started_count: int
    complete: bool
    warnings: _containers.RepeatedCompositeFieldContainer[SubmitWarning]
    capacity_cores: float
    weightless_resources: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, items: _Optional[_Iterable[_Union[ItemPlan, _Mapping]]] = ..., preemptions: _Optional[_Iterable[_Union[PlannedPreemption, _Mapping]]] = ..., share_changes: _Optional[_Iterable[_Union[ShareChange, _Mapping]]] = ..., other_started_count: _Optional[int] = ..., complete: bool = ..., warnings: _Optional[_Iterable[_Union[SubmitWarning, _Mapping]]] = ..., capacity_cores: _Optional[float] = ..., weightless_resources: _Optional[_Iterable[str]] = ...) -> None: ...
