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

class LatencyStage(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LATENCY_STAGE_UNSPECIFIED: _ClassVar[LatencyStage]
    LATENCY_STAGE_CONSIDERED: _ClassVar[LatencyStage]
    LATENCY_STAGE_LEASED: _ClassVar[LatencyStage]
    LATENCY_STAGE_RUNNING: _ClassVar[LatencyStage]
    LATENCY_STAGE_FINISHED: _ClassVar[LatencyStage]
LATENCY_STAGE_UNSPECIFIED: LatencyStage
LATENCY_STAGE_CONSIDERED: LatencyStage
LATENCY_STAGE_LEASED: LatencyStage
LATENCY_STAGE_RUNNING: LatencyStage
LATENCY_STAGE_FINISHED: LatencyStage

class QueueShare(_message.Message):
    __slots__ = ("queue", "weight", "fair_share_ratio", "usage_cores", "flow_cores", "demand_cores", "entitled_cores", "queued_count", "pending_count", "leased_count", "resources", "parent", "non_preemptible_flow_cores", "non_preemptible_cap_cores", "charged_core_min", "budget_core_min", "limited_count", "rate_limited_count", "max_running_count", "lease_rate_per_s")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    FAIR_SHARE_RATIO_FIELD_NUMBER: _ClassVar[int]
    USAGE_CORES_FIELD_NUMBER: _ClassVar[int]
    FLOW_CORES_FIELD_NUMBER: _ClassVar[int]
    DEMAND_CORES_FIELD_NUMBER: _ClassVar[int]
    ENTITLED_CORES_FIELD_NUMBER: _ClassVar[int]
    QUEUED_COUNT_FIELD_NUMBER: _ClassVar[int]
    PENDING_COUNT_FIELD_NUMBER: _ClassVar[int]
    LEASED_COUNT_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    NON_PREEMPTIBLE_FLOW_CORES_FIELD_NUMBER: _ClassVar[int]
    NON_PREEMPTIBLE_CAP_CORES_FIELD_NUMBER: _ClassVar[int]
    CHARGED_CORE_MIN_FIELD_NUMBER: _ClassVar[int]
    BUDGET_CORE_MIN_FIELD_NUMBER: _ClassVar[int]
    LIMITED_COUNT_FIELD_NUMBER: _ClassVar[int]
    RATE_LIMITED_COUNT_FIELD_NUMBER: _ClassVar[int]
    MAX_RUNNING_COUNT_FIELD_NUMBER: _ClassVar[int]
    LEASE_RATE_PER_S_FIELD_NUMBER: _ClassVar[int]
    queue: str
    weight: float
    fair_share_ratio: float
    usage_cores: float
    flow_cores: float
    demand_cores: float
    entitled_cores: float
    queued_count: int
    pending_count: int
    leased_count: int
    resources: _containers.RepeatedCompositeFieldContainer[ResourceShare]
    parent: str
    non_preemptible_flow_cores: float
    non_preemptible_cap_cores: float
    charged_core_min: float
    budget_core_min: float
    limited_count: int
    rate_limited_count: int
    max_running_count: int
    lease_rate_per_s: float
    def __init__(self, queue: _Optional[str] = ..., weight: _Optional[float] = ..., fair_share_ratio: _Optional[float] = ..., usage_cores: _Optional[float] = ..., flow_cores: _Optional[float] = ..., demand_cores: _Optional[float] = ..., entitled_cores: _Optional[float] = ..., queued_count: _Optional[int] = ..., pending_count: _Optional[int] = ..., leased_count: _Optional[int] = ..., resources: _Optional[_Iterable[_Union[ResourceShare, _Mapping]]] = ..., parent: _Optional[str] = ..., non_preemptible_flow_cores: _Optional[float] = ..., non_preemptible_cap_cores: _Optional[float] = ..., charged_core_min: _Optional[float] = ..., budget_core_min: _Optional[float] = ..., limited_count: _Optional[int] = ..., rate_limited_count: _Optional[int] = ..., max_running_count: _Optional[int] = ..., lease_rate_per_s: _Optional[float] = ...) -> None: ...

class ResourceShare(_message.Message):
    __slots__ = ("resource", "requested", "running", "entitled")
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    ENTITLED_FIELD_NUMBER: _ClassVar[int]
    resource: str
    requested: int
    running: int
    entitled: int
    def __init__(self, resource: _Optional[str] = ..., requested: _Optional[int] = ..., running: _Optional[int] = ..., entitled: _Optional[int] = ...) -> None: ...

class ResourceCapacity(_message.Message):
    __slots__ = ("resource", "capacity", "unit_cores")
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    UNIT_CORES_FIELD_NUMBER: _ClassVar[int]
    resource: str
    capacity: int
    unit_cores: float
    def __init__(self, resource: _Optional[str] = ..., capacity: _Optional[int] = ..., unit_cores: _Optional[float] = ...) -> None: ...

class GetSharesRequest(_message.Message):
    __slots__ = ("pool",)
    POOL_FIELD_NUMBER: _ClassVar[int]
    pool: str
    def __init__(self, pool: _Optional[str] = ...) -> None: ...

class GetSharesResponse(_message.Message):
    __slots__ = ("shares", "capacity_cores", "resources", "capacity_unknown")
    SHARES_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_CORES_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    shares: _containers.RepeatedCompositeFieldContainer[QueueShare]
    capacity_cores: float
    resources: _containers.RepeatedCompositeFieldContainer[ResourceCapacity]
    capacity_unknown: bool
    def __init__(self, shares: _Optional[_Iterable[_Union[QueueShare, _Mapping]]] = ..., capacity_cores: _Optional[float] = ..., resources: _Optional[_Iterable[_Union[ResourceCapacity, _Mapping]]] = ..., capacity_unknown: bool = ...) -> None: ...

class GetLastRoundRequest(_message.Message):
    __slots__ = ("pool",)
    POOL_FIELD_NUMBER: _ClassVar[int]
    pool: str
    def __init__(self, pool: _Optional[str] = ...) -> None: ...

class PhaseDuration(_message.Message):
    __slots__ = ("phase", "duration")
    PHASE_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    phase: str
    duration: _duration_pb2.Duration
    def __init__(self, phase: _Optional[str] = ..., duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class StageLatency(_message.Message):
    __slots__ = ("stage", "job_count", "bucket_counts", "p50", "p90", "p99", "bucket_bounds")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    JOB_COUNT_FIELD_NUMBER: _ClassVar[int]
    BUCKET_COUNTS_FIELD_NUMBER: _ClassVar[int]
    P50_FIELD_NUMBER: _ClassVar[int]
    P90_FIELD_NUMBER: _ClassVar[int]
    P99_FIELD_NUMBER: _ClassVar[int]
    BUCKET_BOUNDS_FIELD_NUMBER: _ClassVar[int]
    stage: LatencyStage
    job_count: int
    bucket_counts: _containers.RepeatedScalarFieldContainer[int]
    p50: _duration_pb2.Duration
    p90: _duration_pb2.Duration
    p99: _duration_pb2.Duration
    bucket_bounds: _containers.RepeatedCompositeFieldContainer[_duration_pb2.Duration]
    def __init__(self, stage: _Optional[_Union[LatencyStage, str]] = ..., job_count: _Optional[int] = ..., bucket_counts: _Optional[_Iterable[int]] = ..., p50: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., p90: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., p99: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., bucket_bounds: _Optional[_Iterable[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]]] = ...) -> None: ...

class GetLastRoundResponse(_message.Message):
    __slots__ = ("round", "epoch", "queued_count", "pending_count", "leased_count", "conflict_count", "class_count", "phases", "totals", "latencies")
    class TotalsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    ROUND_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    QUEUED_COUNT_FIELD_NUMBER: _ClassVar[int]
    PENDING_COUNT_FIELD_NUMBER: _ClassVar[int]
    LEASED_COUNT_FIELD_NUMBER: _ClassVar[int]
    CONFLICT_COUNT_FIELD_NUMBER: _ClassVar[int]
    CLASS_COUNT_FIELD_NUMBER: _ClassVar[int]
    PHASES_FIELD_NUMBER: _ClassVar[int]
    TOTALS_FIELD_NUMBER: _ClassVar[int]
    LATENCIES_FIELD_NUMBER: _ClassVar[int]
    round: int
    epoch: int
    queued_count: int
    pending_count: int
    leased_count: int
    conflict_count: int
    class_count: int
    phases: _containers.RepeatedCompositeFieldContainer[PhaseDuration]
    totals: _containers.ScalarMap[str, int]
    latencies: _containers.RepeatedCompositeFieldContainer[StageLatency]
    def __init__(self, round: _Optional[int] = ..., epoch: _Optional[int] = ..., queued_count: _Optional[int] = ..., pending_count: _Optional[int] = ..., leased_count: _Optional[int] = ..., conflict_count: _Optional[int] = ..., class_count: _Optional[int] = ..., phases: _Optional[_Iterable[_Union[PhaseDuration, _Mapping]]] = ..., totals: _Optional[_Mapping[str, int]] = ..., latencies: _Optional[_Iterable[_Union[StageLatency, _Mapping]]] = ...) -> None: ...

class PoolSetting(_message.Message):
    __slots__ = ("key", "value", "configured_value", "is_set", "text")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    CONFIGURED_VALUE_FIELD_NUMBER: _ClassVar[int]
    IS_SET_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    configured_value: str
    is_set: bool
    text: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ..., configured_value: _Optional[str] = ..., is_set: bool = ..., text: _Optional[str] = ...) -> None: ...

class PoolSettingsVersion(_message.Message):
    __slots__ = ("version", "settings", "create_time", "principal", "comment")
    class SettingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    COMMENT_FIELD_NUMBER: _ClassVar[int]
    version: int
    settings: _containers.ScalarMap[str, str]
    create_time: _timestamp_pb2.Timestamp
    principal: str
    comment: str
    def __init__(self, version: _Optional[int] = ..., settings: _Optional[_Mapping[str, str]] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., principal: _Optional[str] = ..., comment: _Optional[str] = ...) -> None: ...

class GetPoolSettingsRequest(_message.Message):
    __slots__ = ("pool",)
    POOL_FIELD_NUMBER: _ClassVar[int]
    pool: str
    def __init__(self, pool: _Optional[str] = ...) -> None: ...

class GetPoolSettingsResponse(_message.Message):
    __slots__ = ("newest", "version_in_effect", "fault", "settings")
    NEWEST_FIELD_NUMBER: _ClassVar[int]
    VERSION_IN_EFFECT_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    newest: PoolSettingsVersion
    version_in_effect: int
    fault: str
    settings: _containers.RepeatedCompositeFieldContainer[PoolSetting]
    def __init__(self, newest: _Optional[_Union[PoolSettingsVersion, _Mapping]] = ..., version_in_effect: _Optional[int] = ..., fault: _Optional[str] = ..., settings: _Optional[_Iterable[_Union[PoolSetting, _Mapping]]] = ...) -> None: ...

class SetPoolSettingsRequest(_message.Message):
    __slots__ = ("pool", "settings", "unset_keys", "expected_version", "comment", "validate_only")
    class SettingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    POOL_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    UNSET_KEYS_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    COMMENT_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    pool: str
    settings: _containers.ScalarMap[str, str]
    unset_keys: _containers.RepeatedScalarFieldContainer[str]
    expected_version: int
    comment: str
    validate_only: bool
    def __init__(self, pool: _Optional[str] = ..., settings: _Optional[_Mapping[str, str]] = ..., unset_keys: _Optional[_Iterable[str]] = ..., expected_version: _Optional[int] = ..., comment: _Optional[str] = ..., validate_only: bool = ...) -> None: ...

class SetPoolSettingsResponse(_message.Message):
    __slots__ = ("version",)
    VERSION_FIELD_NUMBER: _ClassVar[int]
    version: PoolSettingsVersion
    def __init__(self, version: _Optional[_Union[PoolSettingsVersion, _Mapping]] = ...) -> None: ...

class ListPoolSettingsRequest(_message.Message):
    __slots__ = ("pool", "page_size", "page_token")
    POOL_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    pool: str
    page_size: int
    page_token: str
    def __init__(self, pool: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListPoolSettingsResponse(_message.Message):
    __slots__ = ("versions", "next_page_token")
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    versions: _containers.RepeatedCompositeFieldContainer[PoolSettingsVersion]
    next_page_token: str
    def __init__(self, versions: _Optional[_Iterable[_Union[PoolSettingsVersion, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...
