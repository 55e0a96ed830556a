"""The leader of a pool as a machine without I/O: events in, instructions out; see `machine`.

`machine` dispatches; `takeover` begins a term; `cycle` runs it, with `intake` (what arrived), `rounds` (requests to
samplers), `throttle` (how often), `permits` (placements that plugins hold back), `records` (pieces of a plan) and
`line` (transactions and what follows them); `sessions` knows the clusters. `events`, `instructions` and `transaction`
are what it speaks. It may import the scheduler and what lies below. Shells are `argosy_server.leader` and
`argosy_simulation`.

Source: design section 5.
"""

from argosy_core.leader.machine import Budget, LeaderMachine
from argosy_core.leader.settings import MachineSettings
from argosy_core.leader.term import Phase

__all__ = ["Budget", "LeaderMachine", "MachineSettings", "Phase"]
