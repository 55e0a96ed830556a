"""A world in virtual time: leader, samplers, executors and clusters on the core, replayable bit for bit from one seed.

::

    result = World(plan, seed=1).run()          # InvariantViolation if anything happened that must not
    result.fingerprint                          # equal for equal plan, settings, faults and seed
    draw_world(seed).run()                      # a small random world with faults

Owns: worlds: their time, network, store, clusters and faults; and what must hold of them.
May import: argosy_core; as pure as it.
Start: `world`, then `leader_actor`, which drives the leader machine.

Source: design section 2, `simulation`; section 7.
"""

from argosy_simulation.drawing import draw_plan, draw_world
from argosy_simulation.plan import START_US, ChangeRequestPlan, ScalingPlan, WorldPlan
from argosy_simulation.results import JobTimes, WorldResult
from argosy_simulation.settings import FaultSettings, WorldSettings
from argosy_simulation.world import World

__all__ = [
    "START_US",
    "ChangeRequestPlan",
    "FaultSettings",
    "JobTimes",
    "ScalingPlan",
    "World",
    "WorldPlan",
    "WorldResult",
    "WorldSettings",
    "draw_plan",
    "draw_world",
]
