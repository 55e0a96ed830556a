"""How long somebody at a terminal is made to wait. Imports nothing, so that `--help` can tell.

Source: design section 9, "`demo | replay`".
"""

from __future__ import annotations

from typing import Final

__all__ = ["PATIENCE_S", "WITHIN_S"]

PATIENCE_S: Final = 600.0
"""Longest real time of a replay whose speed nobody chose; real traces last months."""
WITHIN_S: Final = 150.0
"""Real seconds within which the last job of the demo ends, and of a replay that would take longer than `PATIENCE_S`; of
three minutes, the rest is for starting the mesh."""
