"""What the parts of a leader machine share: the pool's memory, the moment, and the instructions given so far.

Source: design section 5.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import Protocol

import numpy as np

from argosy_core.arrays import Int64s
from argosy_core.job.tables.members import MemberSet
from argosy_core.leader.events import ChangedSettings, Moment, Origin
from argosy_core.leader.instructions import Instruction
from argosy_core.leader.settings import MachineSettings
from argosy_core.leader.story import Stories
from argosy_core.leader.suspects import Blame
from argosy_core.placement import DecisionProfile
from argosy_core.scheduler import PoolState, change_settings

__all__ = ["Observer", "Phase", "Term"]


class Phase(StrEnum):
    """What a leader is about; the values are what people read."""

    LOADING = "load"
    REPLAYING = "replay"
    IDLE = "idle"
    TAKING = "take changes"
    PRIORITISING = "prioritise"
    SAMPLING = "sample"
    DECIDING = "decide"
    COMMITTING = "commit"
    PUBLISHING = "publish"
    INGESTING = "ingest"
    WAITING = "wait for the database"


class Observer(Protocol):
    """Is told what a term does, for gauges; answers nothing and changes nothing."""

    def enter(self, phase: Phase) -> None:
        """Take note that a phase begins."""

    def reach(self, stage: str, submit_time_us: Int64s, now_us: int) -> None:
        """Take note that jobs reached a stage.

        Args:
            stage: `considered`, `leased`, `running` or `finished`.
            submit_time_us: When each was accepted.
            now_us: When they reached it.
        """


class Term:
    """One epoch of a pool's leader: memory, moment and voice.

    Args:
        pool: Pool.
        epoch: Epoch.
        settings: When rounds begin, and limits.
        rng: The term's chance.
        observer: Is told what happens.
        decision_profile: Filters and scores of the decision phase; those that the settings name if None.
    """

    def __init__(
        self,
        pool: str,
        epoch: int,
        settings: MachineSettings,
        *,
        rng: np.random.Generator,
        observer: Observer | None,
        decision_profile: DecisionProfile | None = None,
    ) -> None:
        """Start with nothing known."""
        self.pool = pool
        self.epoch = epoch
        self.settings = settings
        self.rng = rng
        self.observer = observer
        self.state = PoolState(settings.round, decision_profile=decision_profile)
        self.now = Moment(0.0, 0)
        self.totals: Counter[str] = Counter()
        """Counts since the term began."""
        self.stories = Stories()
        self.blame = Blame()
        self.suspects: frozenset[Origin] = frozenset()
        """What ended a term before."""
        self.phase = Phase.LOADING
        self.unstored_members = MemberSet()
        """Members that runs got, whose rows are not stored yet."""
        self.unstored: set[int] = set()
        """Jobs whose lease is taken in here and not stored yet: no executor may hear of it."""
        self.settings_version = 0
        """Version of the settings in effect; 0 for those of the configuration."""
        self._said: list[Instruction] = []

    def change_settings(self, changed: ChangedSettings) -> None:
        """Go by other settings of rounds, between rounds, unless later ones hold already."""
        if changed.version > self.settings_version:
            self.settings_version = changed.version
            change_settings(self.state, changed.round, self.now.db_s, decision_profile=changed.decision_profile)

    def say(self, instruction: Instruction) -> None:
        """Give an instruction."""
        self._said.append(instruction)

    def take_instructions(self) -> list[Instruction]:
        """Return the instructions given since the last time, in order."""
        said, self._said = self._said, []
        return said

    def enter(self, phase: Phase) -> None:
        """Begin a phase."""
        self.phase = phase
        if self.observer is not None:
            self.observer.enter(phase)

    def reach(self, stage: str, handles: Int64s) -> None:
        """Tell the observer of jobs held here that reached a stage."""
        if self.observer is not None and handles.size:
            live = self.state.live
            slots = live.slots(handles)
            self.observer.reach(stage, live.submit_time_us[slots[slots >= 0]], self.now.db_us)
