from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RefusalReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REFUSAL_REASON_UNSPECIFIED: _ClassVar[RefusalReason]
    REFUSAL_REASON_UNKNOWN_POD: _ClassVar[RefusalReason]
    REFUSAL_REASON_NOT_SCALED: _ClassVar[RefusalReason]
    REFUSAL_REASON_HELD_BY_ANOTHER: _ClassVar[RefusalReason]
    REFUSAL_REASON_NOT_IN_INVENTORY: _ClassVar[RefusalReason]
    REFUSAL_REASON_BELOW_MINIMUM: _ClassVar[RefusalReason]
    REFUSAL_REASON_ABOVE_MAXIMUM: _ClassVar[RefusalReason]
    REFUSAL_REASON_NOT_IN_UNITS: _ClassVar[RefusalReason]
    REFUSAL_REASON_MOVING: _ClassVar[RefusalReason]
    REFUSAL_REASON_TOO_OFTEN: _ClassVar[RefusalReason]

class Directive(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DIRECTIVE_UNSPECIFIED: _ClassVar[Directive]
    DIRECTIVE_MIGRATE: _ClassVar[Directive]
    DIRECTIVE_RESUME: _ClassVar[Directive]
    DIRECTIVE_DRAIN: _ClassVar[Directive]
    DIRECTIVE_STOP: _ClassVar[Directive]
REFUSAL_REASON_UNSPECIFIED: RefusalReason
REFUSAL_REASON_UNKNOWN_POD: RefusalReason
REFUSAL_REASON_NOT_SCALED: RefusalReason
REFUSAL_REASON_HELD_BY_ANOTHER: RefusalReason
REFUSAL_REASON_NOT_IN_INVENTORY: RefusalReason
REFUSAL_REASON_BELOW_MINIMUM: RefusalReason
REFUSAL_REASON_ABOVE_MAXIMUM: RefusalReason
REFUSAL_REASON_NOT_IN_UNITS: RefusalReason
REFUSAL_REASON_MOVING: RefusalReason
REFUSAL_REASON_TOO_OFTEN: RefusalReason
DIRECTIVE_UNSPECIFIED: Directive
DIRECTIVE_MIGRATE: Directive
DIRECTIVE_RESUME: Directive
DIRECTIVE_DRAIN: Directive
DIRECTIVE_STOP: Directive

class SessionRequest(_message.Message):
    __slots__ = ("sequence", "hello", "inventory", "request", "heartbeat", "goodbye")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    INVENTORY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    hello: Hello
    inventory: Inventory
    request: PermitRequest
    heartbeat: Heartbeat
    goodbye: Goodbye
    def __init__(self, sequence: _Optional[int] = ..., hello: _Optional[_Union[Hello, _Mapping]] = ..., inventory: _Optional[_Union[Inventory, _Mapping]] = ..., request: _Optional[_Union[PermitRequest, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., goodbye: _Optional[_Union[Goodbye, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("cluster", "cluster_uid", "process_id", "host")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_UID_FIELD_NUMBER: _ClassVar[int]
    PROCESS_ID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    cluster_uid: str
    process_id: bytes
    host: str
    def __init__(self, cluster: _Optional[str] = ..., cluster_uid: _Optional[str] = ..., process_id: _Optional[bytes] = ..., host: _Optional[str] = ...) -> None: ...

class Inventory(_message.Message):
    __slots__ = ("uid_column", "ceiling_column", "held_column", "number_column", "permitted_column")
    UID_COLUMN_FIELD_NUMBER: _ClassVar[int]
    CEILING_COLUMN_FIELD_NUMBER: _ClassVar[int]
    HELD_COLUMN_FIELD_NUMBER: _ClassVar[int]
    NUMBER_COLUMN_FIELD_NUMBER: _ClassVar[int]
    PERMITTED_COLUMN_FIELD_NUMBER: _ClassVar[int]
    uid_column: bytes
    ceiling_column: bytes
    held_column: bytes
    number_column: bytes
    permitted_column: bytes
    def __init__(self, uid_column: _Optional[bytes] = ..., ceiling_column: _Optional[bytes] = ..., held_column: _Optional[bytes] = ..., number_column: _Optional[bytes] = ..., permitted_column: _Optional[bytes] = ...) -> None: ...

class PermitRequest(_message.Message):
    __slots__ = ("uid_column", "wanted_column", "bundle_column", "number_column")
    UID_COLUMN_FIELD_NUMBER: _ClassVar[int]
    WANTED_COLUMN_FIELD_NUMBER: _ClassVar[int]
    BUNDLE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    NUMBER_COLUMN_FIELD_NUMBER: _ClassVar[int]
    uid_column: bytes
    wanted_column: bytes
    bundle_column: bytes
    number_column: bytes
    def __init__(self, uid_column: _Optional[bytes] = ..., wanted_column: _Optional[bytes] = ..., bundle_column: _Optional[bytes] = ..., number_column: _Optional[bytes] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Goodbye(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SessionResponse(_message.Message):
    __slots__ = ("confirmed_sequence", "welcome", "permits", "refusals", "directives", "confirmed")
    CONFIRMED_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    PERMITS_FIELD_NUMBER: _ClassVar[int]
    REFUSALS_FIELD_NUMBER: _ClassVar[int]
    DIRECTIVES_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    confirmed_sequence: int
    welcome: Welcome
    permits: Permits
    refusals: Refusals
    directives: Directives
    confirmed: Confirmed
    def __init__(self, confirmed_sequence: _Optional[int] = ..., welcome: _Optional[_Union[Welcome, _Mapping]] = ..., permits: _Optional[_Union[Permits, _Mapping]] = ..., refusals: _Optional[_Union[Refusals, _Mapping]] = ..., directives: _Optional[_Union[Directives, _Mapping]] = ..., confirmed: _Optional[_Union[Confirmed, _Mapping]] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("lease_s", "heartbeat_s", "process_id", "resources", "max_pod_count")
    LEASE_S_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_S_FIELD_NUMBER: _ClassVar[int]
    PROCESS_ID_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    MAX_POD_COUNT_FIELD_NUMBER: _ClassVar[int]
    lease_s: float
    heartbeat_s: float
    process_id: bytes
    resources: _containers.RepeatedScalarFieldContainer[str]
    max_pod_count: int
    def __init__(self, lease_s: _Optional[float] = ..., heartbeat_s: _Optional[float] = ..., process_id: _Optional[bytes] = ..., resources: _Optional[_Iterable[str]] = ..., max_pod_count: _Optional[int] = ...) -> None: ...

class Permits(_message.Message):
    __slots__ = ("uid_column", "number_column", "permit_column", "deferred_column", "units", "unit_column")
    UID_COLUMN_FIELD_NUMBER: _ClassVar[int]
    NUMBER_COLUMN_FIELD_NUMBER: _ClassVar[int]
    PERMIT_COLUMN_FIELD_NUMBER: _ClassVar[int]
    DEFERRED_COLUMN_FIELD_NUMBER: _ClassVar[int]
    UNITS_FIELD_NUMBER: _ClassVar[int]
    UNIT_COLUMN_FIELD_NUMBER: _ClassVar[int]
    uid_column: bytes
    number_column: bytes
    permit_column: bytes
    deferred_column: bytes
    units: bytes
    unit_column: bytes
    def __init__(self, uid_column: _Optional[bytes] = ..., number_column: _Optional[bytes] = ..., permit_column: _Optional[bytes] = ..., deferred_column: _Optional[bytes] = ..., units: _Optional[bytes] = ..., unit_column: _Optional[bytes] = ...) -> None: ...

class Refusals(_message.Message):
    __slots__ = ("uid_column", "number_column", "reason_column", "retry_after_column")
    UID_COLUMN_FIELD_NUMBER: _ClassVar[int]
    NUMBER_COLUMN_FIELD_NUMBER: _ClassVar[int]
    REASON_COLUMN_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_COLUMN_FIELD_NUMBER: _ClassVar[int]
    uid_column: bytes
    number_column: bytes
    reason_column: bytes
    retry_after_column: bytes
    def __init__(self, uid_column: _Optional[bytes] = ..., number_column: _Optional[bytes] = ..., reason_column: _Optional[bytes] = ..., retry_after_column: _Optional[bytes] = ...) -> None: ...

class Directives(_message.Message):
    __slots__ = ("uid_column", "directive_column")
    UID_COLUMN_FIELD_NUMBER: _ClassVar[int]
    DIRECTIVE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    uid_column: bytes
    directive_column: bytes
    def __init__(self, uid_column: _Optional[bytes] = ..., directive_column: _Optional[bytes] = ...) -> None: ...

class Confirmed(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
