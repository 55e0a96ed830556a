import datetime

from argosy.api.v1 import job_pb2 as _job_pb2
from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JobEventKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_EVENT_KIND_UNSPECIFIED: _ClassVar[JobEventKind]
    JOB_EVENT_KIND_SUBMITTED: _ClassVar[JobEventKind]
    JOB_EVENT_KIND_LEASED: _ClassVar[JobEventKind]
    JOB_EVENT_KIND_CREATED: _ClassVar[JobEventKind]
    JOB_EVENT_KIND_RUNNING: _ClassVar[JobEventKind]
    JOB_EVENT_KIND_SUCCEEDED: _ClassVar[JobEventKind]
    JOB_EVENT_KIND_FAILED: _ClassVar[JobEventKind]
    JOB_EVENT_KIND_CANCELLED: _ClassVar[JobEventKind]
    JOB_EVENT_KIND_CANCEL_REQUESTED: _ClassVar[JobEventKind]
    JOB_EVENT_KIND_REPRIORITIZED: _ClassVar[JobEventKind]
    JOB_EVENT_KIND_REQUEUED: _ClassVar[JobEventKind]
    JOB_EVENT_KIND_UNKNOWN: _ClassVar[JobEventKind]
    JOB_EVENT_KIND_HELD: _ClassVar[JobEventKind]
    JOB_EVENT_KIND_RELEASED: _ClassVar[JobEventKind]
    JOB_EVENT_KIND_MEMBER_LEASED: _ClassVar[JobEventKind]
    JOB_EVENT_KIND_MEMBER_RUNNING: _ClassVar[JobEventKind]
    JOB_EVENT_KIND_MEMBER_ENDED: _ClassVar[JobEventKind]
JOB_EVENT_KIND_UNSPECIFIED: JobEventKind
JOB_EVENT_KIND_SUBMITTED: JobEventKind
JOB_EVENT_KIND_LEASED: JobEventKind
JOB_EVENT_KIND_CREATED: JobEventKind
JOB_EVENT_KIND_RUNNING: JobEventKind
JOB_EVENT_KIND_SUCCEEDED: JobEventKind
JOB_EVENT_KIND_FAILED: JobEventKind
JOB_EVENT_KIND_CANCELLED: JobEventKind
JOB_EVENT_KIND_CANCEL_REQUESTED: JobEventKind
JOB_EVENT_KIND_REPRIORITIZED: JobEventKind
JOB_EVENT_KIND_REQUEUED: JobEventKind
JOB_EVENT_KIND_UNKNOWN: JobEventKind
JOB_EVENT_KIND_HELD: JobEventKind
JOB_EVENT_KIND_RELEASED: JobEventKind
JOB_EVENT_KIND_MEMBER_LEASED: JobEventKind
JOB_EVENT_KIND_MEMBER_RUNNING: JobEventKind
JOB_EVENT_KIND_MEMBER_ENDED: JobEventKind

class JobEvent(_message.Message):
    __slots__ = ("number", "job_id", "kind", "event_time", "attempt", "cluster", "node", "reason", "member", "replacement")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    REPLACEMENT_FIELD_NUMBER: _ClassVar[int]
    number: int
    job_id: str
    kind: JobEventKind
    event_time: _timestamp_pb2.Timestamp
    attempt: int
    cluster: str
    node: str
    reason: str
    member: int
    replacement: int
    def __init__(self, number: _Optional[int] = ..., job_id: _Optional[str] = ..., kind: _Optional[_Union[JobEventKind, str]] = ..., event_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., attempt: _Optional[int] = ..., cluster: _Optional[str] = ..., node: _Optional[str] = ..., reason: _Optional[str] = ..., member: _Optional[int] = ..., replacement: _Optional[int] = ...) -> None: ...

class WatchJobSetRequest(_message.Message):
    __slots__ = ("queue", "job_set", "cursor", "until_finished", "job_ids", "label_selector", "allow_missing")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    JOB_SET_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FINISHED_FIELD_NUMBER: _ClassVar[int]
    JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    LABEL_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    ALLOW_MISSING_FIELD_NUMBER: _ClassVar[int]
    queue: str
    job_set: str
    cursor: str
    until_finished: bool
    job_ids: _containers.RepeatedScalarFieldContainer[str]
    label_selector: str
    allow_missing: bool
    def __init__(self, queue: _Optional[str] = ..., job_set: _Optional[str] = ..., cursor: _Optional[str] = ..., until_finished: bool = ..., job_ids: _Optional[_Iterable[str]] = ..., label_selector: _Optional[str] = ..., allow_missing: bool = ...) -> None: ...

class WatchJobSetResponse(_message.Message):
    __slots__ = ("events", "cursor", "state_counts")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    STATE_COUNTS_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[JobEvent]
    cursor: str
    state_counts: _containers.RepeatedCompositeFieldContainer[_job_pb2.JobStateCount]
    def __init__(self, events: _Optional[_Iterable[_Union[JobEvent, _Mapping]]] = ..., cursor: _Optional[str] = ..., state_counts: _Optional[_Iterable[_Union[_job_pb2.JobStateCount, _Mapping]]] = ...) -> None: ...
