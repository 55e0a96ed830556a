"""The caller's trace goes with its calls, if the caller traces.

This library neither needs nor loads OpenTelemetry: it looks whether the program has.
"""

from __future__ import annotations

import sys

__all__ = ["trace_metadata"]


def trace_metadata() -> tuple[tuple[str, str], ...]:
    """Return the metadata that carries the present trace context, empty if the program does not use OpenTelemetry."""
    if "opentelemetry.trace" not in sys.modules:
        return ()
    from opentelemetry.propagate import inject

    carrier: dict[str, str] = {}
    inject(carrier)
    return tuple(carrier.items())
