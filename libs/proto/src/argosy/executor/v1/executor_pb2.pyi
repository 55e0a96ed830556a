from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ObjectState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OBJECT_STATE_UNSPECIFIED: _ClassVar[ObjectState]
    OBJECT_STATE_LEASED: _ClassVar[ObjectState]
    OBJECT_STATE_CREATED: _ClassVar[ObjectState]
    OBJECT_STATE_RUNNING: _ClassVar[ObjectState]
    OBJECT_STATE_SUCCEEDED: _ClassVar[ObjectState]
    OBJECT_STATE_FAILED: _ClassVar[ObjectState]
    OBJECT_STATE_CANCELLED: _ClassVar[ObjectState]
    OBJECT_STATE_LOST: _ClassVar[ObjectState]
    OBJECT_STATE_UNKNOWN: _ClassVar[ObjectState]

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
OBJECT_STATE_UNSPECIFIED: ObjectState
OBJECT_STATE_LEASED: ObjectState
OBJECT_STATE_CREATED: ObjectState
OBJECT_STATE_RUNNING: ObjectState
OBJECT_STATE_SUCCEEDED: ObjectState
OBJECT_STATE_FAILED: ObjectState
OBJECT_STATE_CANCELLED: ObjectState
OBJECT_STATE_LOST: ObjectState
OBJECT_STATE_UNKNOWN: ObjectState
FAILURE_KIND_UNSPECIFIED: FailureKind
FAILURE_KIND_EXIT_CODE: FailureKind
FAILURE_KIND_OUT_OF_MEMORY: FailureKind
FAILURE_KIND_EVICTED: FailureKind
FAILURE_KIND_IMAGE: FailureKind
FAILURE_KIND_INFRASTRUCTURE: FailureKind
FAILURE_KIND_REJECTED: FailureKind
FAILURE_KIND_TIME_LIMIT: FailureKind
FAILURE_KIND_RETURNED: FailureKind

class SyncRequest(_message.Message):
    __slots__ = ("hello", "states", "heartbeat", "log_chunk", "log_end", "seen")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    LOG_CHUNK_FIELD_NUMBER: _ClassVar[int]
    LOG_END_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    states: StateBatch
    heartbeat: Heartbeat
    log_chunk: LogChunk
    log_end: LogEnd
    seen: SeenRuns
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., states: _Optional[_Union[StateBatch, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., log_chunk: _Optional[_Union[LogChunk, _Mapping]] = ..., log_end: _Optional[_Union[LogEnd, _Mapping]] = ..., seen: _Optional[_Union[SeenRuns, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("cluster", "cluster_uid", "process_id", "host", "handle_column", "attempt_column", "pool", "member_column")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_UID_FIELD_NUMBER: _ClassVar[int]
    PROCESS_ID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    HANDLE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_COLUMN_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    MEMBER_COLUMN_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    cluster_uid: str
    process_id: bytes
    host: str
    handle_column: bytes
    attempt_column: bytes
    pool: str
    member_column: bytes
    def __init__(self, cluster: _Optional[str] = ..., cluster_uid: _Optional[str] = ..., process_id: _Optional[bytes] = ..., host: _Optional[str] = ..., handle_column: _Optional[bytes] = ..., attempt_column: _Optional[bytes] = ..., pool: _Optional[str] = ..., member_column: _Optional[bytes] = ...) -> None: ...

class SeenRuns(_message.Message):
    __slots__ = ("handle_column", "attempt_column", "member_column")
    HANDLE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_COLUMN_FIELD_NUMBER: _ClassVar[int]
    MEMBER_COLUMN_FIELD_NUMBER: _ClassVar[int]
    handle_column: bytes
    attempt_column: bytes
    member_column: bytes
    def __init__(self, handle_column: _Optional[bytes] = ..., attempt_column: _Optional[bytes] = ..., member_column: _Optional[bytes] = ...) -> None: ...

class StateBatch(_message.Message):
    __slots__ = ("batch", "handle_column", "attempt_column", "object_column", "state_column", "time_us_column", "exit_code_column", "failure_column", "message_column", "uid_column", "texts", "member_column", "sent_time_us")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    HANDLE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_COLUMN_FIELD_NUMBER: _ClassVar[int]
    OBJECT_COLUMN_FIELD_NUMBER: _ClassVar[int]
    STATE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    TIME_US_COLUMN_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    FAILURE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    UID_COLUMN_FIELD_NUMBER: _ClassVar[int]
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    MEMBER_COLUMN_FIELD_NUMBER: _ClassVar[int]
    SENT_TIME_US_FIELD_NUMBER: _ClassVar[int]
    batch: int
    handle_column: bytes
    attempt_column: bytes
    object_column: bytes
    state_column: bytes
    time_us_column: bytes
    exit_code_column: bytes
    failure_column: bytes
    message_column: bytes
    uid_column: bytes
    texts: _containers.RepeatedScalarFieldContainer[str]
    member_column: bytes
    sent_time_us: int
    def __init__(self, batch: _Optional[int] = ..., handle_column: _Optional[bytes] = ..., attempt_column: _Optional[bytes] = ..., object_column: _Optional[bytes] = ..., state_column: _Optional[bytes] = ..., time_us_column: _Optional[bytes] = ..., exit_code_column: _Optional[bytes] = ..., failure_column: _Optional[bytes] = ..., message_column: _Optional[bytes] = ..., uid_column: _Optional[bytes] = ..., texts: _Optional[_Iterable[str]] = ..., member_column: _Optional[bytes] = ..., sent_time_us: _Optional[int] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SyncResponse(_message.Message):
    __slots__ = ("welcome", "redirect", "rows", "stops", "stored", "confirmed", "log_request", "log_credit")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    REDIRECT_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    STOPS_FIELD_NUMBER: _ClassVar[int]
    STORED_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    LOG_REQUEST_FIELD_NUMBER: _ClassVar[int]
    LOG_CREDIT_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    redirect: Redirect
    rows: ObjectRows
    stops: StopRuns
    stored: StatesStored
    confirmed: Confirmed
    log_request: LogRequest
    log_credit: LogCredit
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., redirect: _Optional[_Union[Redirect, _Mapping]] = ..., rows: _Optional[_Union[ObjectRows, _Mapping]] = ..., stops: _Optional[_Union[StopRuns, _Mapping]] = ..., stored: _Optional[_Union[StatesStored, _Mapping]] = ..., confirmed: _Optional[_Union[Confirmed, _Mapping]] = ..., log_request: _Optional[_Union[LogRequest, _Mapping]] = ..., log_credit: _Optional[_Union[LogCredit, _Mapping]] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("epoch", "heartbeat_s", "fence_s", "installation", "keep_finished_s", "first", "keep_failed_s", "incarnation")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_S_FIELD_NUMBER: _ClassVar[int]
    FENCE_S_FIELD_NUMBER: _ClassVar[int]
    INSTALLATION_FIELD_NUMBER: _ClassVar[int]
    KEEP_FINISHED_S_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    KEEP_FAILED_S_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    heartbeat_s: float
    fence_s: float
    installation: str
    keep_finished_s: float
    first: bool
    keep_failed_s: float
    incarnation: int
    def __init__(self, epoch: _Optional[int] = ..., heartbeat_s: _Optional[float] = ..., fence_s: _Optional[float] = ..., installation: _Optional[str] = ..., keep_finished_s: _Optional[float] = ..., first: bool = ..., keep_failed_s: _Optional[float] = ..., incarnation: _Optional[int] = ...) -> None: ...

class Redirect(_message.Message):
    __slots__ = ("address",)
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    address: str
    def __init__(self, address: _Optional[str] = ...) -> None: ...

class ObjectRows(_message.Message):
    __slots__ = ("handle_column", "attempt_column", "id_high_column", "spec_column", "node_column", "metadata_column", "owner_column", "spec_hashes", "spec_bodies", "nodes", "metadata", "owners", "seen_column", "traceparent", "traced", "member_column")
    HANDLE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_COLUMN_FIELD_NUMBER: _ClassVar[int]
    ID_HIGH_COLUMN_FIELD_NUMBER: _ClassVar[int]
    SPEC_COLUMN_FIELD_NUMBER: _ClassVar[int]
    NODE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    METADATA_COLUMN_FIELD_NUMBER: _ClassVar[int]
    OWNER_COLUMN_FIELD_NUMBER: _ClassVar[int]
    SPEC_HASHES_FIELD_NUMBER: _ClassVar[int]
    SPEC_BODIES_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    OWNERS_FIELD_NUMBER: _ClassVar[int]
    SEEN_COLUMN_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    TRACED_FIELD_NUMBER: _ClassVar[int]
    MEMBER_COLUMN_FIELD_NUMBER: _ClassVar[int]
    handle_column: bytes
    attempt_column: bytes
    id_high_column: bytes
    spec_column: bytes
    node_column: bytes
    metadata_column: bytes
    owner_column: bytes
    spec_hashes: _containers.RepeatedScalarFieldContainer[bytes]
    spec_bodies: _containers.RepeatedScalarFieldContainer[bytes]
    nodes: _containers.RepeatedScalarFieldContainer[str]
    metadata: _containers.RepeatedScalarFieldContainer[bytes]
    owners: _containers.RepeatedCompositeFieldContainer[Owner]
    seen_column: bytes
    traceparent: str
    traced: TracedRuns
    member_column: bytes
    def __init__(self, handle_column: _Optional[bytes] = ..., attempt_column: _Optional[bytes] = ..., id_high_column: _Optional[bytes] = ..., spec_column: _Optional[bytes] = ..., node_column: _Optional[bytes] = ..., metadata_column: _Optional[bytes] = ..., owner_column: _Optional[bytes] = ..., spec_hashes: _Optional[_Iterable[bytes]] = ..., spec_bodies: _Optional[_Iterable[bytes]] = ..., nodes: _Optional[_Iterable[str]] = ..., metadata: _Optional[_Iterable[bytes]] = ..., owners: _Optional[_Iterable[_Union[Owner, _Mapping]]] = ..., seen_column: _Optional[bytes] = ..., traceparent: _Optional[str] = ..., traced: _Optional[_Union[TracedRuns, _Mapping]] = ..., member_column: _Optional[bytes] = ...) -> None: ...

class TracedRuns(_message.Message):
    __slots__ = ("handle_column", "traceparents")
    HANDLE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENTS_FIELD_NUMBER: _ClassVar[int]
    handle_column: bytes
    traceparents: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, handle_column: _Optional[bytes] = ..., traceparents: _Optional[_Iterable[str]] = ...) -> None: ...

class Owner(_message.Message):
    __slots__ = ("queue", "job_set")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    JOB_SET_FIELD_NUMBER: _ClassVar[int]
    queue: str
    job_set: str
    def __init__(self, queue: _Optional[str] = ..., job_set: _Optional[str] = ...) -> None: ...

class StopRuns(_message.Message):
    __slots__ = ("handle_column", "attempt_column", "member_column", "unknown")
    HANDLE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_COLUMN_FIELD_NUMBER: _ClassVar[int]
    MEMBER_COLUMN_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    handle_column: bytes
    attempt_column: bytes
    member_column: bytes
    unknown: bool
    def __init__(self, handle_column: _Optional[bytes] = ..., attempt_column: _Optional[bytes] = ..., member_column: _Optional[bytes] = ..., unknown: bool = ...) -> None: ...

class StatesStored(_message.Message):
    __slots__ = ("batch",)
    BATCH_FIELD_NUMBER: _ClassVar[int]
    batch: int
    def __init__(self, batch: _Optional[int] = ...) -> None: ...

class Confirmed(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LogRequest(_message.Message):
    __slots__ = ("request", "handle", "attempt", "object", "container", "follow", "tail_line_count", "credit_bytes", "member", "timestamps", "since_s")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    TAIL_LINE_COUNT_FIELD_NUMBER: _ClassVar[int]
    CREDIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMPS_FIELD_NUMBER: _ClassVar[int]
    SINCE_S_FIELD_NUMBER: _ClassVar[int]
    request: int
    handle: int
    attempt: int
    object: int
    container: str
    follow: bool
    tail_line_count: int
    credit_bytes: int
    member: int
    timestamps: bool
    since_s: int
    def __init__(self, request: _Optional[int] = ..., handle: _Optional[int] = ..., attempt: _Optional[int] = ..., object: _Optional[int] = ..., container: _Optional[str] = ..., follow: bool = ..., tail_line_count: _Optional[int] = ..., credit_bytes: _Optional[int] = ..., member: _Optional[int] = ..., timestamps: bool = ..., since_s: _Optional[int] = ...) -> None: ...

class LogChunk(_message.Message):
    __slots__ = ("request", "data")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    request: int
    data: bytes
    def __init__(self, request: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class LogEnd(_message.Message):
    __slots__ = ("request", "code", "message")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    request: int
    code: int
    message: str
    def __init__(self, request: _Optional[int] = ..., code: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class LogCredit(_message.Message):
    __slots__ = ("request", "credit_bytes", "cancelled")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    CREDIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    request: int
    credit_bytes: int
    cancelled: bool
    def __init__(self, request: _Optional[int] = ..., credit_bytes: _Optional[int] = ..., cancelled: bool = ...) -> None: ...
