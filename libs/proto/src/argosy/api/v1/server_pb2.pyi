from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Feature(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FEATURE_UNSPECIFIED: _ClassVar[Feature]
    FEATURE_YAML_MANIFESTS: _ClassVar[Feature]
    FEATURE_FILTERED_WATCH: _ClassVar[Feature]
    FEATURE_EVENT_RELAY: _ClassVar[Feature]
FEATURE_UNSPECIFIED: Feature
FEATURE_YAML_MANIFESTS: Feature
FEATURE_FILTERED_WATCH: Feature
FEATURE_EVENT_RELAY: Feature

class ServerLimits(_message.Message):
    __slots__ = ("max_request_bytes", "max_jobs_per_request", "max_items_per_request", "max_manifests_per_spec", "max_manifest_bytes", "max_queued_count", "max_page_size")
    MAX_REQUEST_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_JOBS_PER_REQUEST_FIELD_NUMBER: _ClassVar[int]
    MAX_ITEMS_PER_REQUEST_FIELD_NUMBER: _ClassVar[int]
    MAX_MANIFESTS_PER_SPEC_FIELD_NUMBER: _ClassVar[int]
    MAX_MANIFEST_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_QUEUED_COUNT_FIELD_NUMBER: _ClassVar[int]
    MAX_PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    max_request_bytes: int
    max_jobs_per_request: int
    max_items_per_request: int
    max_manifests_per_spec: int
    max_manifest_bytes: int
    max_queued_count: int
    max_page_size: int
    def __init__(self, max_request_bytes: _Optional[int] = ..., max_jobs_per_request: _Optional[int] = ..., max_items_per_request: _Optional[int] = ..., max_manifests_per_spec: _Optional[int] = ..., max_manifest_bytes: _Optional[int] = ..., max_queued_count: _Optional[int] = ..., max_page_size: _Optional[int] = ...) -> None: ...

class GetServerInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetServerInfoResponse(_message.Message):
    __slots__ = ("version", "default_pool", "limits", "features", "kubernetes_version")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_POOL_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    KUBERNETES_VERSION_FIELD_NUMBER: _ClassVar[int]
    version: str
    default_pool: str
    limits: ServerLimits
    features: _containers.RepeatedScalarFieldContainer[Feature]
    kubernetes_version: str
    def __init__(self, version: _Optional[str] = ..., default_pool: _Optional[str] = ..., limits: _Optional[_Union[ServerLimits, _Mapping]] = ..., features: _Optional[_Iterable[_Union[Feature, str]]] = ..., kubernetes_version: _Optional[str] = ...) -> None: ...
