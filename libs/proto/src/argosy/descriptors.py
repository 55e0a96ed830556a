"""All messages and services of Argosy as descriptors: for dynamic clients, and as input to other languages' generators.

This module and `error_details` are written by hand, the others generated.
"""

from importlib.resources import files
from typing import Final

from google.protobuf.descriptor_pb2 import FileDescriptorSet

__all__ = ["IMAGE_NAME", "descriptor_bytes", "descriptor_set"]

IMAGE_NAME: Final = "argosy.binpb"
"""File of the set within this package; `make proto` writes it."""


def descriptor_bytes() -> bytes:
    """Return the serialised FileDescriptorSet of all our .proto files and everything they import.

    It is what `protoc --descriptor_set_in`, `buf` and `grpcurl -protoset` read.
    """
    return files("argosy").joinpath(IMAGE_NAME).read_bytes()


def descriptor_set() -> FileDescriptorSet:
    """Return the FileDescriptorSet of all our .proto files and everything they import, each after its imports."""
    return FileDescriptorSet.FromString(descriptor_bytes())
