"""A plugin of the leader that writes down what it is asked and told."""

from __future__ import annotations

from pathlib import Path

from argosy_core.framework import PermitBatch


class Recording:
    """Pre-bind and post-bind: one line for each run, in a file."""

    def __init__(self, path: str) -> None:
        """Take the file from the settings."""
        self._path = Path(path)

    def pre_bind(self, batch: PermitBatch) -> None:
        """Note what is to be bound."""
        self._write("pre-bind", batch)

    def post_bind(self, batch: PermitBatch) -> None:
        """Note what is bound."""
        self._write("post-bind", batch)

    def _write(self, point: str, batch: PermitBatch) -> None:
        with self._path.open("a") as file:
            for handle, cluster, node in zip(batch.handle.tolist(), batch.cluster, batch.node, strict=True):
                file.write(f"{point} {handle} {cluster}/{node}\n")
