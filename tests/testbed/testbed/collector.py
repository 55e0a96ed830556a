"""The OpenTelemetry collector, built from the Go modules named in `collector/go.mod` where its image cannot be pulled.

It has the components that our configuration names, and the exporter to a backend of one's own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from testbed import go_programs
from testbed.cache import Tell

__all__ = ["BINARY_VARIABLE", "SOURCE", "build", "version"]

BINARY_VARIABLE: Final = "ARGOSY_TESTBED_COLLECTOR"
"""Variable that names a collector that is used as it is."""

SOURCE: Final = Path(__file__).resolve().parent.parent / "collector"
"""Folder of the program's source."""


def _quiet(_: str) -> None:
    """Tell nobody."""


def version() -> str:
    """Return the release that the source names, as the tag of upstream's image."""
    return go_programs.module_version(SOURCE, "go.opentelemetry.io/collector/otelcol").removeprefix("v")


def build(tell: Tell = _quiet) -> Path:
    """Return the path of the program, built first if it is not there.

    From nothing that takes two minutes of CPU and 1 GB of disk for Go's own caches.

    Raises:
        NotAllowedNow: There is no Go, or the named binary does not exist.
        BackendUnavailable: It cannot be built; the message ends with what the compiler said.
    """
    return go_programs.build(
        SOURCE,
        f"collector-{version()}",
        binary_variable=BINARY_VARIABLE,
        linked={"main.version": version()},
        tell=tell,
    )
