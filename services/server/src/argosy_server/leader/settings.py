"""Settings of the leader role."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from argosy_core.errors import FieldViolation, InvalidRequest
from argosy_core.leader import MachineSettings
from argosy_core.placement import DecisionProfile
from argosy_core.scheduler.settings import RoundSettings
from argosy_runtime.plugins import load_plugins

__all__ = ["LeaderSettings", "changes_profile", "is_hot", "require_hot", "whole_key"]

_READ_WAIT_S = 0.05
"""How long a round waits for the changes that can be seen; where the database takes longer, they wait for the next."""
_CONTACT_PERIOD_S = 5.0
"""How often it is stored who was heard; oftener where that would be too late for the fence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderSettings:
    """How a pool's leader keeps its epoch and paces its rounds. Units are in the names."""

    lease_s: float = 10.0
    """How long the epoch is held without renewal; a dead leader is replaced after at most this plus a tenth."""
    heartbeat_s: float = 2.0
    """How often sessions must be heard; three missed ones end a session."""
    fence_s: float = 15.0
    """How long an executor may act on its cluster after the last confirmation; for as long a process keeps its session,
    and a cluster gets work, without being heard."""
    executor_lost_margin_s: float = 120.0
    """How much later than its executor a leader ends a run whose job says `executorLost`: as long as an executor takes
    to be started again and to find no leader for 30 s, and the grace of pods."""
    keep_finished_s: float = field(default=60.0, metadata={"may_be_zero": True})
    """How long finished pods stay on their cluster, for logs."""
    keep_failed_s: float = field(default=600.0, metadata={"may_be_zero": True})
    """How long failed ones do, whose logs somebody will want; never shorter than `keep_finished_s`."""
    installation: str = "argosy"
    """Name that labels every object this installation makes."""
    window_idle_ms: float = field(default=5.0, metadata={"may_be_zero": True})
    """A round starts once nothing arrived for this long (design: 5 ms)."""
    window_max_ms: float = field(default=50.0, metadata={"may_be_zero": True})
    """A round starts at the latest this long after the first arrival (design: 50 ms)."""
    window_busy_ms: float = field(default=200.0, metadata={"may_be_zero": True})
    """Least time between the beginnings of two rounds at `busy_jobs_per_s` and above; at lower rates less, by the root
    of the rate, so that a lone job never waits for it."""
    busy_jobs_per_s: float = 7500.0
    """Jobs per second at which rounds are rarest."""
    poll_ms: float = 20.0
    """How often `changes` is looked at while a round may begin and none does; a round that begins looks by itself.
    After 2 s without a change less often, after 10 s a fifth as often."""
    changes_per_round: int = 2000
    """Most rows of `changes` taken by one round."""
    answer_timeout_s: float = 2.0
    """How long the leader waits for a sampler's answer before it goes on without."""
    kept_log_count: int = field(default=1_000, metadata={"may_be_zero": True})
    """Applied records of the event log that are kept, to be looked at."""
    log_trim_s: float = 60.0
    """How often older ones are deleted."""
    max_record_bytes: int = 4_000_000
    """Largest record of the event log; a round that decided more publishes several. Below what the log takes."""
    permit_timeout_max_s: float = 900.0
    """Longest time for which permit plugins may hold a placement back, whatever they ask for."""
    pre_bind_timeout_s: float = 30.0
    """How long a call of pre-bind plugins may take before its placements are given up."""
    seed: int = 0
    """Seed of the leader's random choices; 0 takes the epoch, so that a repeated run repeats."""
    round: RoundSettings = field(default_factory=RoundSettings)
    """How rounds order, sample, decide and retry."""
    plugins: tuple[str, ...] = ()
    """Installed plugins of the leader, called in this order; see docs/plugins.md."""
    plugin_settings: Mapping[str, str] = field(default_factory=dict)
    """What plugins are made with: values by `plugin.keyword`."""
    plugin_weights: Mapping[str, float] = field(default_factory=dict)
    """Weights of plugins' scores, by name; 1 for those not named. Samplers' scores are 0 to 100."""

    def machine(self) -> MachineSettings:
        """Return the settings of the leader machine."""
        return MachineSettings(
            round=self.round,
            window_idle_s=self.window_idle_ms / 1000,
            window_max_s=self.window_max_ms / 1000,
            retry_s=self.window_max_ms / 1000,
            busy_s=self.window_busy_ms / 1000,
            busy_jobs_per_s=self.busy_jobs_per_s,
            read_wait_s=_READ_WAIT_S,
            response_timeout_s=self.answer_timeout_s,
            permit_timeout_max_s=self.permit_timeout_max_s,
            pre_bind_timeout_s=self.pre_bind_timeout_s,
            contact_period_s=min(self.fence_s / 3, _CONTACT_PERIOD_S),
            fence_s=self.fence_s,
            executor_lost_margin_s=self.executor_lost_margin_s,
            changes_per_round=self.changes_per_round,
            max_record_bytes=self.max_record_bytes,
        )

    def __post_init__(self) -> None:
        """Refuse paces with which no leader or session could last.

        Raises:
            InvalidRequest: Two of them do not go together, or there is no plugin by a name, or it cannot be made.
        """
        self.make_profile()
        if self.fence_s < 3 * self.heartbeat_s:
            raise InvalidRequest(
                f"leader.fence_s is {self.fence_s}, but must be at least three times leader.heartbeat_s, which is "
                f"{self.heartbeat_s}"
            )
        if self.window_max_ms < self.window_idle_ms:
            raise InvalidRequest(
                f"leader.window_max_ms is {self.window_max_ms}, but must be at least leader.window_idle_ms, which is "
                f"{self.window_idle_ms}"
            )

    def make_profile(self) -> DecisionProfile:
        """Return the profile of the decision phase, with plugins made anew."""
        return self.round.make_profile(load_plugins(self.plugins, self.plugin_settings), self.plugin_weights)


def is_hot(key: str) -> bool:
    """Return whether a setting of the server, by its key, may be changed while a pool is led."""
    return key.startswith("leader.round.") or key in {"leader.plugin_settings", "leader.plugin_weights"}


def whole_key(key: str, hot: Iterable[str]) -> str:
    """Return the whole key of a setting that may be changed while a pool is led, of which `key` is the only ending.

    Args:
        key: A whole key or the last words of one, as half_time_s of leader.round.half_time_s.
        hot: All whole keys.

    Returns:
        The whole key; `key` itself if there is none or more than one.
    """
    found = [one for one in hot if one == key or one.endswith(f".{key}")]
    return found[0] if len(found) == 1 else key


def require_hot(keys: Iterable[str]) -> None:
    """Refuse settings that hold as long as a process.

    Raises:
        InvalidRequest: There is one among them; each is listed.
    """
    cold = [key for key in keys if not is_hot(key)]
    if cold:
        text = (
            "is no setting, the end of several, or does not change while a pool is led; `argosy config get` lists those"
            " that do"
        )
        raise InvalidRequest(
            f"not every setting changes while a pool is led: {', '.join(cold)}",
            violations=tuple(FieldViolation(field=key, description=text) for key in cold),
        )


def changes_profile(before: LeaderSettings, after: LeaderSettings) -> bool:
    """Return whether the plugins of the decision phase have to be made anew."""
    return _profile_key(before) != _profile_key(after)


def _profile_key(settings: LeaderSettings) -> tuple[object, ...]:
    spread = settings.round.spread, settings.round.node_score, settings.round.cluster_spread_weight
    return settings.plugins, dict(settings.plugin_settings), dict(settings.plugin_weights), spread
