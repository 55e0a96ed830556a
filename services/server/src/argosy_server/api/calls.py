"""The type of a call's context, which grpc and its stubs leave open."""

from __future__ import annotations

from typing import Any, TypeAlias

import grpc

__all__ = ["Context"]

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
"""Context of any method."""
