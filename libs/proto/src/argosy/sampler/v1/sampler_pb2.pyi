from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WaitReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WAIT_REASON_UNSPECIFIED: _ClassVar[WaitReason]
    WAIT_REASON_MISMATCH: _ClassVar[WaitReason]
    WAIT_REASON_NO_ROOM: _ClassVar[WaitReason]
    WAIT_REASON_PLUGIN: _ClassVar[WaitReason]
    WAIT_REASON_FAULT: _ClassVar[WaitReason]

class CommitOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COMMIT_OUTCOME_UNSPECIFIED: _ClassVar[CommitOutcome]
    COMMIT_OUTCOME_PLACED: _ClassVar[CommitOutcome]
    COMMIT_OUTCOME_CONFLICT: _ClassVar[CommitOutcome]
    COMMIT_OUTCOME_NODE_UNAVAILABLE: _ClassVar[CommitOutcome]
    COMMIT_OUTCOME_UNKNOWN_CLASS: _ClassVar[CommitOutcome]
    COMMIT_OUTCOME_REFUSED: _ClassVar[CommitOutcome]
WAIT_REASON_UNSPECIFIED: WaitReason
WAIT_REASON_MISMATCH: WaitReason
WAIT_REASON_NO_ROOM: WaitReason
WAIT_REASON_PLUGIN: WaitReason
WAIT_REASON_FAULT: WaitReason
COMMIT_OUTCOME_UNSPECIFIED: CommitOutcome
COMMIT_OUTCOME_PLACED: CommitOutcome
COMMIT_OUTCOME_CONFLICT: CommitOutcome
COMMIT_OUTCOME_NODE_UNAVAILABLE: CommitOutcome
COMMIT_OUTCOME_UNKNOWN_CLASS: CommitOutcome
COMMIT_OUTCOME_REFUSED: CommitOutcome

class PlaceRunsRequest(_message.Message):
    __slots__ = ("pool", "handle_column", "attempt_column", "member_column")
    POOL_FIELD_NUMBER: _ClassVar[int]
    HANDLE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_COLUMN_FIELD_NUMBER: _ClassVar[int]
    MEMBER_COLUMN_FIELD_NUMBER: _ClassVar[int]
    pool: str
    handle_column: bytes
    attempt_column: bytes
    member_column: bytes
    def __init__(self, pool: _Optional[str] = ..., handle_column: _Optional[bytes] = ..., attempt_column: _Optional[bytes] = ..., member_column: _Optional[bytes] = ...) -> None: ...

class PlaceRunsResponse(_message.Message):
    __slots__ = ("node_column", "nodes", "reason_column", "reasons")
    NODE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    REASON_COLUMN_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    node_column: bytes
    nodes: _containers.RepeatedScalarFieldContainer[str]
    reason_column: bytes
    reasons: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, node_column: _Optional[bytes] = ..., nodes: _Optional[_Iterable[str]] = ..., reason_column: _Optional[bytes] = ..., reasons: _Optional[_Iterable[str]] = ...) -> None: ...

class SessionRequest(_message.Message):
    __slots__ = ("hello", "capacity", "ready", "sample", "commit", "heartbeat", "held_amounts", "moves", "pod_sizes", "placed_runs")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    HELD_AMOUNTS_FIELD_NUMBER: _ClassVar[int]
    MOVES_FIELD_NUMBER: _ClassVar[int]
    POD_SIZES_FIELD_NUMBER: _ClassVar[int]
    PLACED_RUNS_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    capacity: Capacity
    ready: Ready
    sample: SampleResponse
    commit: CommitResponse
    heartbeat: Heartbeat
    held_amounts: HeldAmounts
    moves: Moves
    pod_sizes: PodSizes
    placed_runs: PlacedRuns
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., capacity: _Optional[_Union[Capacity, _Mapping]] = ..., ready: _Optional[_Union[Ready, _Mapping]] = ..., sample: _Optional[_Union[SampleResponse, _Mapping]] = ..., commit: _Optional[_Union[CommitResponse, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., held_amounts: _Optional[_Union[HeldAmounts, _Mapping]] = ..., moves: _Optional[_Union[Moves, _Mapping]] = ..., pod_sizes: _Optional[_Union[PodSizes, _Mapping]] = ..., placed_runs: _Optional[_Union[PlacedRuns, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("cluster", "cluster_uid", "process_id", "host", "pool", "joins_releases", "delegated")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_UID_FIELD_NUMBER: _ClassVar[int]
    PROCESS_ID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    JOINS_RELEASES_FIELD_NUMBER: _ClassVar[int]
    DELEGATED_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    cluster_uid: str
    process_id: bytes
    host: str
    pool: str
    joins_releases: bool
    delegated: bool
    def __init__(self, cluster: _Optional[str] = ..., cluster_uid: _Optional[str] = ..., process_id: _Optional[bytes] = ..., host: _Optional[str] = ..., pool: _Optional[str] = ..., joins_releases: bool = ..., delegated: bool = ...) -> None: ...

class Capacity(_message.Message):
    __slots__ = ("resources", "node_column", "names", "allocatable_column", "free_column", "flag_column", "groups", "group_column", "total_column", "total_free_column", "node_count", "placement_count", "fitting_class_column", "fitting_room_column")
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    NODE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    ALLOCATABLE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    FREE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    FLAG_COLUMN_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    GROUP_COLUMN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_COLUMN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FREE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    NODE_COUNT_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_COUNT_FIELD_NUMBER: _ClassVar[int]
    FITTING_CLASS_COLUMN_FIELD_NUMBER: _ClassVar[int]
    FITTING_ROOM_COLUMN_FIELD_NUMBER: _ClassVar[int]
    resources: _containers.RepeatedScalarFieldContainer[str]
    node_column: bytes
    names: _containers.RepeatedScalarFieldContainer[str]
    allocatable_column: bytes
    free_column: bytes
    flag_column: bytes
    groups: _containers.RepeatedScalarFieldContainer[bytes]
    group_column: bytes
    total_column: bytes
    total_free_column: bytes
    node_count: int
    placement_count: int
    fitting_class_column: bytes
    fitting_room_column: bytes
    def __init__(self, resources: _Optional[_Iterable[str]] = ..., node_column: _Optional[bytes] = ..., names: _Optional[_Iterable[str]] = ..., allocatable_column: _Optional[bytes] = ..., free_column: _Optional[bytes] = ..., flag_column: _Optional[bytes] = ..., groups: _Optional[_Iterable[bytes]] = ..., group_column: _Optional[bytes] = ..., total_column: _Optional[bytes] = ..., total_free_column: _Optional[bytes] = ..., node_count: _Optional[int] = ..., placement_count: _Optional[int] = ..., fitting_class_column: _Optional[bytes] = ..., fitting_room_column: _Optional[bytes] = ...) -> None: ...

class PlacedRuns(_message.Message):
    __slots__ = ("handle_column", "attempt_column", "member_column", "node_column", "nodes")
    HANDLE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_COLUMN_FIELD_NUMBER: _ClassVar[int]
    MEMBER_COLUMN_FIELD_NUMBER: _ClassVar[int]
    NODE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    handle_column: bytes
    attempt_column: bytes
    member_column: bytes
    node_column: bytes
    nodes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, handle_column: _Optional[bytes] = ..., attempt_column: _Optional[bytes] = ..., member_column: _Optional[bytes] = ..., node_column: _Optional[bytes] = ..., nodes: _Optional[_Iterable[str]] = ...) -> None: ...

class HeldAmounts(_message.Message):
    __slots__ = ("handle_column", "attempt_column", "member_column", "resources", "amount_column")
    HANDLE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_COLUMN_FIELD_NUMBER: _ClassVar[int]
    MEMBER_COLUMN_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_COLUMN_FIELD_NUMBER: _ClassVar[int]
    handle_column: bytes
    attempt_column: bytes
    member_column: bytes
    resources: _containers.RepeatedScalarFieldContainer[str]
    amount_column: bytes
    def __init__(self, handle_column: _Optional[bytes] = ..., attempt_column: _Optional[bytes] = ..., member_column: _Optional[bytes] = ..., resources: _Optional[_Iterable[str]] = ..., amount_column: _Optional[bytes] = ...) -> None: ...

class Moves(_message.Message):
    __slots__ = ("handle_column", "attempt_column", "member_column")
    HANDLE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_COLUMN_FIELD_NUMBER: _ClassVar[int]
    MEMBER_COLUMN_FIELD_NUMBER: _ClassVar[int]
    handle_column: bytes
    attempt_column: bytes
    member_column: bytes
    def __init__(self, handle_column: _Optional[bytes] = ..., attempt_column: _Optional[bytes] = ..., member_column: _Optional[bytes] = ...) -> None: ...

class PodSizes(_message.Message):
    __slots__ = ("handle_column", "attempt_column", "member_column", "resources", "requested_column", "approved_column", "actual_column", "state_column")
    HANDLE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_COLUMN_FIELD_NUMBER: _ClassVar[int]
    MEMBER_COLUMN_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_COLUMN_FIELD_NUMBER: _ClassVar[int]
    APPROVED_COLUMN_FIELD_NUMBER: _ClassVar[int]
    ACTUAL_COLUMN_FIELD_NUMBER: _ClassVar[int]
    STATE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    handle_column: bytes
    attempt_column: bytes
    member_column: bytes
    resources: _containers.RepeatedScalarFieldContainer[str]
    requested_column: bytes
    approved_column: bytes
    actual_column: bytes
    state_column: bytes
    def __init__(self, handle_column: _Optional[bytes] = ..., attempt_column: _Optional[bytes] = ..., member_column: _Optional[bytes] = ..., resources: _Optional[_Iterable[str]] = ..., requested_column: _Optional[bytes] = ..., approved_column: _Optional[bytes] = ..., actual_column: _Optional[bytes] = ..., state_column: _Optional[bytes] = ...) -> None: ...

class Ready(_message.Message):
    __slots__ = ("placement_count",)
    PLACEMENT_COUNT_FIELD_NUMBER: _ClassVar[int]
    placement_count: int
    def __init__(self, placement_count: _Optional[int] = ...) -> None: ...

class SampleResponse(_message.Message):
    __slots__ = ("round", "incarnation", "node_column", "free_column", "offset_column", "candidate_column", "score_column", "examined_column", "eligible_column", "filters", "rejection_column", "total_free_column", "complete_column", "nearest_misses", "reason_column", "texts", "retry_after_column", "filter_texts", "node_kinds_column", "could_hold_offset_column", "could_hold_column")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    NODE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    FREE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    OFFSET_COLUMN_FIELD_NUMBER: _ClassVar[int]
    CANDIDATE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    SCORE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    EXAMINED_COLUMN_FIELD_NUMBER: _ClassVar[int]
    ELIGIBLE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    REJECTION_COLUMN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FREE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    NEAREST_MISSES_FIELD_NUMBER: _ClassVar[int]
    REASON_COLUMN_FIELD_NUMBER: _ClassVar[int]
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_COLUMN_FIELD_NUMBER: _ClassVar[int]
    FILTER_TEXTS_FIELD_NUMBER: _ClassVar[int]
    NODE_KINDS_COLUMN_FIELD_NUMBER: _ClassVar[int]
    COULD_HOLD_OFFSET_COLUMN_FIELD_NUMBER: _ClassVar[int]
    COULD_HOLD_COLUMN_FIELD_NUMBER: _ClassVar[int]
    round: int
    incarnation: int
    node_column: bytes
    free_column: bytes
    offset_column: bytes
    candidate_column: bytes
    score_column: bytes
    examined_column: bytes
    eligible_column: bytes
    filters: _containers.RepeatedScalarFieldContainer[str]
    rejection_column: bytes
    total_free_column: bytes
    complete_column: bytes
    nearest_misses: _containers.RepeatedScalarFieldContainer[str]
    reason_column: bytes
    texts: _containers.RepeatedScalarFieldContainer[str]
    retry_after_column: bytes
    filter_texts: _containers.RepeatedScalarFieldContainer[str]
    node_kinds_column: bytes
    could_hold_offset_column: bytes
    could_hold_column: bytes
    def __init__(self, round: _Optional[int] = ..., incarnation: _Optional[int] = ..., node_column: _Optional[bytes] = ..., free_column: _Optional[bytes] = ..., offset_column: _Optional[bytes] = ..., candidate_column: _Optional[bytes] = ..., score_column: _Optional[bytes] = ..., examined_column: _Optional[bytes] = ..., eligible_column: _Optional[bytes] = ..., filters: _Optional[_Iterable[str]] = ..., rejection_column: _Optional[bytes] = ..., total_free_column: _Optional[bytes] = ..., complete_column: _Optional[bytes] = ..., nearest_misses: _Optional[_Iterable[str]] = ..., reason_column: _Optional[bytes] = ..., texts: _Optional[_Iterable[str]] = ..., retry_after_column: _Optional[bytes] = ..., filter_texts: _Optional[_Iterable[str]] = ..., node_kinds_column: _Optional[bytes] = ..., could_hold_offset_column: _Optional[bytes] = ..., could_hold_column: _Optional[bytes] = ...) -> None: ...

class CommitResponse(_message.Message):
    __slots__ = ("round", "stage", "incarnation", "node_column", "outcome_column")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    NODE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_COLUMN_FIELD_NUMBER: _ClassVar[int]
    round: int
    stage: int
    incarnation: int
    node_column: bytes
    outcome_column: bytes
    def __init__(self, round: _Optional[int] = ..., stage: _Optional[int] = ..., incarnation: _Optional[int] = ..., node_column: _Optional[bytes] = ..., outcome_column: _Optional[bytes] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SessionResponse(_message.Message):
    __slots__ = ("welcome", "redirect", "placements", "sample", "commit", "release", "cordons", "confirmed", "queue_weights")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    REDIRECT_FIELD_NUMBER: _ClassVar[int]
    PLACEMENTS_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    CORDONS_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    QUEUE_WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    redirect: Redirect
    placements: PlacementList
    sample: SampleRequest
    commit: CommitRequest
    release: Release
    cordons: Cordons
    confirmed: Confirmed
    queue_weights: QueueWeights
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., redirect: _Optional[_Union[Redirect, _Mapping]] = ..., placements: _Optional[_Union[PlacementList, _Mapping]] = ..., sample: _Optional[_Union[SampleRequest, _Mapping]] = ..., commit: _Optional[_Union[CommitRequest, _Mapping]] = ..., release: _Optional[_Union[Release, _Mapping]] = ..., cordons: _Optional[_Union[Cordons, _Mapping]] = ..., confirmed: _Optional[_Union[Confirmed, _Mapping]] = ..., queue_weights: _Optional[_Union[QueueWeights, _Mapping]] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("epoch", "heartbeat_s", "incarnation")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_S_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    heartbeat_s: float
    incarnation: int
    def __init__(self, epoch: _Optional[int] = ..., heartbeat_s: _Optional[float] = ..., incarnation: _Optional[int] = ...) -> None: ...

class Redirect(_message.Message):
    __slots__ = ("address",)
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    address: str
    def __init__(self, address: _Optional[str] = ...) -> None: ...

class ClassDefinition(_message.Message):
    __slots__ = ("class_id", "definition")
    CLASS_ID_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_FIELD_NUMBER: _ClassVar[int]
    class_id: int
    definition: bytes
    def __init__(self, class_id: _Optional[int] = ..., definition: _Optional[bytes] = ...) -> None: ...

class PlacementList(_message.Message):
    __slots__ = ("handle_column", "attempt_column", "class_column", "node_column", "nodes", "classes", "last", "member_column")
    HANDLE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_COLUMN_FIELD_NUMBER: _ClassVar[int]
    CLASS_COLUMN_FIELD_NUMBER: _ClassVar[int]
    NODE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    MEMBER_COLUMN_FIELD_NUMBER: _ClassVar[int]
    handle_column: bytes
    attempt_column: bytes
    class_column: bytes
    node_column: bytes
    nodes: _containers.RepeatedScalarFieldContainer[str]
    classes: _containers.RepeatedCompositeFieldContainer[ClassDefinition]
    last: bool
    member_column: bytes
    def __init__(self, handle_column: _Optional[bytes] = ..., attempt_column: _Optional[bytes] = ..., class_column: _Optional[bytes] = ..., node_column: _Optional[bytes] = ..., nodes: _Optional[_Iterable[str]] = ..., classes: _Optional[_Iterable[_Union[ClassDefinition, _Mapping]]] = ..., last: bool = ..., member_column: _Optional[bytes] = ...) -> None: ...

class SampleRequest(_message.Message):
    __slots__ = ("round", "epoch", "classes", "class_column", "wanted_column", "resources", "nodes_to_sample_ratio", "deadline_ms", "complete_column", "strategy", "extra_count", "for_promise_column", "dropped_class_column", "release", "delegated", "node_score", "kept_column", "going")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    CLASS_COLUMN_FIELD_NUMBER: _ClassVar[int]
    WANTED_COLUMN_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    NODES_TO_SAMPLE_RATIO_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    EXTRA_COUNT_FIELD_NUMBER: _ClassVar[int]
    FOR_PROMISE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    DROPPED_CLASS_COLUMN_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    DELEGATED_FIELD_NUMBER: _ClassVar[int]
    NODE_SCORE_FIELD_NUMBER: _ClassVar[int]
    KEPT_COLUMN_FIELD_NUMBER: _ClassVar[int]
    GOING_FIELD_NUMBER: _ClassVar[int]
    round: int
    epoch: int
    classes: _containers.RepeatedCompositeFieldContainer[ClassDefinition]
    class_column: bytes
    wanted_column: bytes
    resources: _containers.RepeatedScalarFieldContainer[str]
    nodes_to_sample_ratio: float
    deadline_ms: int
    complete_column: bytes
    strategy: str
    extra_count: int
    for_promise_column: bytes
    dropped_class_column: bytes
    release: Release
    delegated: bool
    node_score: str
    kept_column: bytes
    going: Release
    def __init__(self, round: _Optional[int] = ..., epoch: _Optional[int] = ..., classes: _Optional[_Iterable[_Union[ClassDefinition, _Mapping]]] = ..., class_column: _Optional[bytes] = ..., wanted_column: _Optional[bytes] = ..., resources: _Optional[_Iterable[str]] = ..., nodes_to_sample_ratio: _Optional[float] = ..., deadline_ms: _Optional[int] = ..., complete_column: _Optional[bytes] = ..., strategy: _Optional[str] = ..., extra_count: _Optional[int] = ..., for_promise_column: _Optional[bytes] = ..., dropped_class_column: _Optional[bytes] = ..., release: _Optional[_Union[Release, _Mapping]] = ..., delegated: bool = ..., node_score: _Optional[str] = ..., kept_column: _Optional[bytes] = ..., going: _Optional[_Union[Release, _Mapping]] = ...) -> None: ...

class CommitRequest(_message.Message):
    __slots__ = ("round", "stage", "epoch", "handle_column", "attempt_column", "class_column", "offset_column", "candidate_column", "member_column")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    HANDLE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_COLUMN_FIELD_NUMBER: _ClassVar[int]
    CLASS_COLUMN_FIELD_NUMBER: _ClassVar[int]
    OFFSET_COLUMN_FIELD_NUMBER: _ClassVar[int]
    CANDIDATE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    MEMBER_COLUMN_FIELD_NUMBER: _ClassVar[int]
    round: int
    stage: int
    epoch: int
    handle_column: bytes
    attempt_column: bytes
    class_column: bytes
    offset_column: bytes
    candidate_column: bytes
    member_column: bytes
    def __init__(self, round: _Optional[int] = ..., stage: _Optional[int] = ..., epoch: _Optional[int] = ..., handle_column: _Optional[bytes] = ..., attempt_column: _Optional[bytes] = ..., class_column: _Optional[bytes] = ..., offset_column: _Optional[bytes] = ..., candidate_column: _Optional[bytes] = ..., member_column: _Optional[bytes] = ...) -> None: ...

class Release(_message.Message):
    __slots__ = ("epoch", "handle_column", "attempt_column", "member_column")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    HANDLE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_COLUMN_FIELD_NUMBER: _ClassVar[int]
    MEMBER_COLUMN_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    handle_column: bytes
    attempt_column: bytes
    member_column: bytes
    def __init__(self, epoch: _Optional[int] = ..., handle_column: _Optional[bytes] = ..., attempt_column: _Optional[bytes] = ..., member_column: _Optional[bytes] = ...) -> None: ...

class Cordons(_message.Message):
    __slots__ = ("nodes",)
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, nodes: _Optional[_Iterable[str]] = ...) -> None: ...

class QueueWeights(_message.Message):
    __slots__ = ("queues", "weight_column", "rules")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_COLUMN_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedScalarFieldContainer[str]
    weight_column: bytes
    rules: PermitRules
    def __init__(self, queues: _Optional[_Iterable[str]] = ..., weight_column: _Optional[bytes] = ..., rules: _Optional[_Union[PermitRules, _Mapping]] = ...) -> None: ...

class PermitRules(_message.Message):
    __slots__ = ("watermark", "unit", "node_watermarks", "node_units", "node_system", "lease_s", "margin_s", "rises_per_s")
    class NodeWatermarksEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    class NodeUnitsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class NodeSystemEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    WATERMARK_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    NODE_WATERMARKS_FIELD_NUMBER: _ClassVar[int]
    NODE_UNITS_FIELD_NUMBER: _ClassVar[int]
    NODE_SYSTEM_FIELD_NUMBER: _ClassVar[int]
    LEASE_S_FIELD_NUMBER: _ClassVar[int]
    MARGIN_S_FIELD_NUMBER: _ClassVar[int]
    RISES_PER_S_FIELD_NUMBER: _ClassVar[int]
    watermark: float
    unit: str
    node_watermarks: _containers.ScalarMap[str, float]
    node_units: _containers.ScalarMap[str, str]
    node_system: _containers.ScalarMap[str, str]
    lease_s: float
    margin_s: float
    rises_per_s: float
    def __init__(self, watermark: _Optional[float] = ..., unit: _Optional[str] = ..., node_watermarks: _Optional[_Mapping[str, float]] = ..., node_units: _Optional[_Mapping[str, str]] = ..., node_system: _Optional[_Mapping[str, str]] = ..., lease_s: _Optional[float] = ..., margin_s: _Optional[float] = ..., rises_per_s: _Optional[float] = ...) -> None: ...

class Confirmed(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
