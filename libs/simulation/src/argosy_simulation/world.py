"""A world in virtual time: leader, samplers, executors and clusters on the core, with no network, from one seed.

::

    submits, change requests --> store <-- writer -- leader <== streams ==> samplers, executors
                                                                        |         |
                                                                   watches      calls
                                                                        +-- clusters --+

Time jumps from event to event. Everything that is drawn comes from the seed, so a world can be repeated bit for bit:
its fingerprint says whether it was. While faults are on, processes die, streams break, nodes go; afterwards the world
must come to rest, and then everything must agree.

Source: design section 2, `simulation`; section 7.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from argosy_core.errors import InvariantViolation
from argosy_simulation.checks import check_memory, check_rest
from argosy_simulation.faults import FaultInjector
from argosy_simulation.parts import WorldParts
from argosy_simulation.plan import WorldPlan
from argosy_simulation.results import WorldResult
from argosy_simulation.settings import FaultSettings, WorldSettings

__all__ = ["World"]


class World(WorldParts):
    """A whole mesh in virtual time: leaders, samplers, executors and clusters, driven by one agenda.

    Args:
        plan: Clusters, queues and jobs.
        seed: Source of all chance, 0 or more.
        settings: Delays and periods; the defaults if None.
        faults: What goes wrong; nothing if None.
    """

    def __init__(
        self,
        plan: WorldPlan,
        *,
        seed: int,
        settings: WorldSettings | None = None,
        faults: FaultSettings | None = None,
    ) -> None:
        """Put the first events on the agenda; nothing happens before `run`."""
        super().__init__(plan, seed=seed, settings=settings, with_api=faults is not None and bool(faults.api_crashes))
        if faults is not None:
            FaultInjector(self, faults, np.random.default_rng([seed, 3]), np.random.default_rng([seed, 4]))

    def run(self, *, tell: Callable[[World], None] | None = None, tell_steps: int = 10_000) -> WorldResult:
        """Let everything happen until nothing is left to do, check that all agrees, and return what happened.

        Args:
            tell: Called now and then with the world, which it must not change.
            tell_steps: After how many events.

        Raises:
            InvariantViolation: Something happened that must not, the world does not come to rest, or it does and its
                parts do not agree.
        """
        agenda, settings = self.context.agenda, self.context.settings
        every = settings.check_steps
        while agenda.step():
            if every and agenda.step_count % every == 0:
                check_memory(agenda.last_owner)
            if tell is not None and agenda.step_count % tell_steps == 0:
                tell(self)
            if agenda.step_count > settings.max_steps:
                raise InvariantViolation(f"the world does not come to rest within {settings.max_steps} events")
        for process in (*self.leaders, *self.samplers):
            check_memory(process)
        check_rest(self)
        return self.result()

    def result(self) -> WorldResult:
        """Return what has happened so far."""
        agenda, counters = self.context.agenda, self.context.counters
        for leader in self.leaders:
            counters.update(leader.machine.totals)
            counters["conflicts"] += leader.state.totals["conflicts"]
            counters["retries"] += leader.state.totals["retries"]
        counters["refused"] = self.context.store.refused_count
        counters["pods made"] = self.context.audit.pod_count
        return WorldResult(
            fingerprint=agenda.fingerprint.hexdigest(),
            elapsed_s=agenda.elapsed_s,
            step_count=agenda.step_count,
            times=self.times,
            counters={name: counters[name] for name in sorted(counters)},
        )
