"""Whom to preempt so that a job has room: a pure choice by shares, and never in turn.

Imports only NumPy and types. Start with `victims.choose_victims`.

Source: 003 "Preemption"; design section 5, "Round" 7.
"""

from __future__ import annotations

from argosy_core.preemption.victims import Candidates, Excess, Victims, choose_victims, choose_victims_of_nodes

__all__ = ["Candidates", "Excess", "Victims", "choose_victims", "choose_victims_of_nodes"]
