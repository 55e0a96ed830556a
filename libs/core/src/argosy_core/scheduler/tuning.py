"""Settings of rounds that change while a pool is led.

Source: design section 9, "Settings"; 003 "Resource usage", "Fair share".
"""

from __future__ import annotations

from argosy_core.errors import NotAllowedNow
from argosy_core.framework import Point
from argosy_core.placement import DecisionProfile
from argosy_core.scheduler.memory.flows import advance_flows
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.memory.weighing import weigh_again
from argosy_core.scheduler.settings import RoundSettings

__all__ = ["change_settings"]


def change_settings(
    state: PoolState, settings: RoundSettings, now_s: float, *, decision_profile: DecisionProfile | None = None
) -> None:
    """Have the next rounds work by other settings; what was decided by the earlier ones stays.

    Flows are right for the moment first, so that a half time holds for the time after it alone. What is explained by
    an earlier setting (reasons to wait, back-offs under way) ends as it was noted.

    Args:
        state: The pool.
        settings: All settings.
        now_s: Now.
        decision_profile: Plugins made for them; the present ones stay if None.

    Raises:
        NotAllowedNow: A round is under way.

    Complexity: next to nothing; as `weigh_again` if the weights of resources change, and a push of every queued job if
    a plugin orders queues.
    """
    if state.round is not None:
        raise NotAllowedNow("a round is under way; settings change between rounds")
    if state.flow_time_s:
        advance_flows(state, now_s)
    state.settings = settings
    if decision_profile is not None:
        state.decision_profile = decision_profile
        if decision_profile.framework.has(Point.QUEUE_SORT):
            for row in state.queues.orders:
                state.queues.orders[row] = state.make_order()
            slots = state.live.live_slots()
            state.push_queued(slots[state.stage_is_queued(slots)])
    state.waits.expiry_s = settings.wait_expiry_s
    state.run_history.set_prior(settings.assumed_run_time_s)
    if state.weights.configure(settings.resource_weights, settings.weight_half_time_s):
        weigh_again(state)
    state.change_count += 1
