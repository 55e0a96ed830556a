from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FindMissingRequest(_message.Message):
    __slots__ = ("pool", "definitions")
    POOL_FIELD_NUMBER: _ClassVar[int]
    DEFINITIONS_FIELD_NUMBER: _ClassVar[int]
    pool: str
    definitions: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, pool: _Optional[str] = ..., definitions: _Optional[_Iterable[bytes]] = ...) -> None: ...

class MissingOfClass(_message.Message):
    __slots__ = ("texts",)
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    texts: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, texts: _Optional[_Iterable[str]] = ...) -> None: ...

class FindMissingResponse(_message.Message):
    __slots__ = ("classes",)
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    classes: _containers.RepeatedCompositeFieldContainer[MissingOfClass]
    def __init__(self, classes: _Optional[_Iterable[_Union[MissingOfClass, _Mapping]]] = ...) -> None: ...
