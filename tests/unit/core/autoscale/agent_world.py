"""An agent with one pod, and what a test tells it and sees it do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from argosy_core.autoscale import Agent, AgentSettings, Amounts, Horizon, PodScaling, PredictorSettings, next_actions
from argosy_core.autoscale.events import (
    Actions,
    Event,
    Leased,
    MetricsSeen,
    Permit,
    PermitsTold,
    PodSeen,
    ResizeEnded,
    ResizeOutcome,
    ScalingPolicy,
    SessionUp,
)

UNIT = Amounts(1000, 1 << 30)
SETTINGS = AgentSettings(max_units=8)
FORGETFUL = PredictorSettings(
    horizons=(Horizon(0.1, 1.0),), prior_s=0.0, width_units=1e-9, width_ratio=0.0, equal_ratio=0.0,
    grow_gain_units=0.0, shrink_gain_units=0.0,
)  # fmt: skip
"""The goal is what the last sample needs, so that it can be said in a test."""


def units(count: int) -> Amounts:
    """Return so many units."""
    return UNIT.times(count)


class World:
    """An agent with one pod of two units, between one and six; it holds a permit for them and a session."""

    def __init__(self, *, has_session: bool = True, refusal: str = "", **policy: object) -> None:
        """Announce the pod, and permit it what it has."""
        self.agent = Agent(SETTINGS, FORGETFUL)
        self.now_s = 1000.0
        fields = {"least": units(1), "most": units(6), **policy}
        self.pod = PodSeen(
            uid="pod", version=1, policy=ScalingPolicy(**fields), desired=units(2), allocated=units(2), actual=units(2),
            refusal=refusal,
        )  # fmt: skip
        self.tell(self.pod)
        if has_session:
            self.tell(SessionUp(1))
            self.permit(units(2))

    @property
    def scaling(self) -> PodScaling:
        """Return the state of the pod."""
        return self.agent.pods["pod"]

    def tell(self, *events: Event, after_s: float = 0.0) -> Actions:
        """Tell events, after some time, and return what is to be done."""
        self.now_s += after_s
        for event in events:
            self.agent.take(event, self.now_s)
        return next_actions(self.agent, self.now_s)

    def use(self, cores: float, memory_bytes: float = 0.6e9, after_s: float = 5.0) -> Actions:
        """Tell what the pod uses."""
        metrics = MetricsSeen(uids=("pod",), load_cores=np.array([cores]), memory_bytes=np.array([memory_bytes]))
        return self.tell(metrics, after_s=after_s)

    def permit(self, amounts: Amounts, *, sequence: int = 0, session: int = 1, lease_s: float = 60.0) -> Actions:
        """Permit amounts, in answer to the last request if no other is named."""
        one = Permit(uid="pod", sequence=sequence or self.scaling.sequence, amounts=amounts, unit=UNIT)
        return self.tell(PermitsTold(session, (one,)), Leased(session, self.now_s + lease_s))

    def see(self, **changes: object) -> Actions:
        """Show the pod with changes, and a version more."""
        seen = self.scaling.seen
        return self.tell(replace(seen, version=seen.version + 1, **changes))

    def ended(self, outcome: ResizeOutcome, version: int = 0, reason: str = "") -> ResizeEnded:
        """Return the end of the last resize."""
        number = self.scaling.resize_number if "pod" in self.agent.pods else 1
        return ResizeEnded(uid="pod", number=number, outcome=outcome, version=version, reason=reason)

    def resized(self, amounts: Amounts) -> Actions:
        """The API server accepts, the node allocates, the containers run with it."""
        accepted = self.ended(ResizeOutcome.ACCEPTED, version=self.scaling.seen.version + 1)
        self.tell(accepted)
        return self.see(desired=amounts, allocated=amounts, actual=amounts)

    def grown(self, count: int) -> None:
        """Let it grow to a size, with all that this takes."""
        self.use(count * 0.9 - 0.01)
        self.permit(units(count))
        self.resized(units(count))

    def told(self) -> str:
        """Return the pod's story as one text."""
        return "; ".join(entry.what for entry in self.agent.story("pod"))
