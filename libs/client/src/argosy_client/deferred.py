"""Modules that are imported once something of them is used.

Code of generated messages and of frozen values takes longer to load than most calls take, and a command makes few
calls. Names in annotations come from imports under `TYPE_CHECKING`, beside what is deferred::

    if TYPE_CHECKING:
        from argosy.api.v1 import cluster_pb2
    else:
        cluster_pb2 = DeferredModule("argosy.api.v1.cluster_pb2")

`importlib.util.LazyLoader` was rejected: it leaves half-loaded modules where other parts of a user's program find them.
"""

from __future__ import annotations

import importlib

__all__ = ["DeferredModule"]


class DeferredModule:
    """Stands for a module, which is imported at the first use of one of its names; any thread may be the first."""

    def __init__(self, name: str) -> None:
        """Import nothing yet.

        Args:
            name: Full name of the module.
        """
        self._name = name

    def __getattr__(self, name: str) -> object:
        """Return what the module calls so, and know it from now on."""
        found = getattr(importlib.import_module(self._name), name)
        self.__dict__[name] = found
        return found
