"""What a pod says of its own size, where its annotations name a port on which it can be asked.

One question and one answer. The agent says what the pod has and what it proposes, by what the pod uses; the pod says
the least that it needs now. What is above the proposal refuses to shrink below it; what is above the pod's size asks
to grow, within its bounds and what is permitted. Silence and nonsense refuse nothing.

A pod's word lasts for a short time, and may keep it above what its use says for a bounded time at a stretch. A pod
that is silent is asked less and less often, and shrinks unasked meanwhile.

Source: docs/autoscale.md "A word of the pod's own".
"""

from __future__ import annotations

from dataclasses import dataclass

from argosy_core.autoscale.amounts import NOTHING, Amounts
from argosy_core.autoscale.events import ContractAnswered, ContractQuestion
from argosy_core.autoscale.settings import AgentSettings

__all__ = ["Contract", "word_of"]

_NEVER = float("-inf")
_MOST_SILENCES = 4
"""After how many silences the time between questions doubles no more."""


def word_of(question: ContractQuestion, answered: ContractAnswered) -> str:
    """Return what a pod's answer comes to, in one word.

    Returns:
        `silent`; `grow`, if it needs more than it has of something; `keep`, if it needs more than what is proposed; or
        `agrees`.
    """
    if answered.needs is None:
        return "silent"
    if not answered.needs.fits(question.size):
        return "grow"
    return "agrees" if answered.needs.fits(question.proposed) else "keep"


@dataclass(slots=True, kw_only=True)
class Contract:
    """What one pod was asked and has said."""

    number: int = 0
    """Number of the last question."""
    asked: Amounts | None = None
    """What the question proposed that has no answer; None if there is none."""
    asked_s: float = _NEVER
    """When the last question was put, seconds."""
    ask_from_s: float = _NEVER
    """When the next one is due, seconds."""
    silences: int = 0
    """How many of the last questions had no answer."""
    agreed: Amounts = NOTHING
    """Down to what the pod was asked; its `needs` are told for that."""
    needs: Amounts = NOTHING
    """The least that it needs."""
    until_s: float = _NEVER
    """Until when `agreed` and `needs` count, seconds."""
    held_since_s: float | None = None
    """Since when its word keeps it above what its use says; None if it does not."""
    rests_until_s: float = _NEVER
    """Until when its word counts for nothing, because it kept the pod up for long, seconds."""

    def give_up(self, settings: AgentSettings, now_s: float) -> str:
        """Count a question without an answer as silence, once it is too late for one; return what is worth telling."""
        if self.asked is None or now_s < self._given_up_s(settings):
            return ""
        return self.answer(self.number, None, settings, now_s)

    def is_due(self, proposed: Amounts, settings: AgentSettings, now_s: float, *, is_to_shrink: bool) -> bool:
        """Return whether to ask now: from time to time, and before the pod shrinks below what it was asked about."""
        if self.asked is not None:
            return False
        if now_s >= self.ask_from_s:
            return True
        is_paced = now_s >= self.asked_s + settings.contract_timeout_s
        return is_to_shrink and is_paced and not self.agrees(proposed, now_s)

    def ask(self, proposed: Amounts, now_s: float) -> int:
        """Put a question; return its number."""
        self.number += 1
        self.asked, self.asked_s = proposed, now_s
        return self.number

    def answer(self, number: int, needs: Amounts | None, settings: AgentSettings, now_s: float) -> str:
        """Take in an answer; one to an earlier question changes nothing.

        Returns:
            What is worth telling, empty if nothing is.
        """
        if self.asked is None or number != self.number:
            return ""
        asked, self.asked = self.asked, None
        if needs is None:
            wait_s = settings.contract_interval_s * 2.0 ** min(self.silences, _MOST_SILENCES)
            self.silences += 1
            self.agreed, self.needs, self.until_s = NOTHING, NOTHING, now_s + wait_s
            self.ask_from_s = now_s + wait_s
            return "does not say what it needs, though it names a port" if self.silences == 1 else ""
        self.silences = 0
        self.agreed, self.needs, self.until_s = asked, needs, now_s + settings.contract_answer_s
        self.ask_from_s = now_s + settings.contract_interval_s
        return ""

    def agrees(self, size: Amounts, now_s: float) -> bool:
        """Return whether the pod was asked about a size as small as this, and its needs are known."""
        return now_s < self.until_s and self.agreed.fits(size)

    def floor(self, proposed: Amounts, most: Amounts, settings: AgentSettings, now_s: float) -> Amounts:
        """Return what the pod may not be made smaller than because it says so.

        Args:
            proposed: What it should have by what it uses.
            most: The largest size that it may have.
            settings: For how long its word counts.
            now_s: The present, seconds.
        """
        needs = self.needs.meet(most)
        if now_s >= self.until_s or needs.fits(proposed):
            self.held_since_s = None
            return NOTHING
        if now_s < self.rests_until_s:
            return NOTHING
        if self.held_since_s is None:
            self.held_since_s = now_s
        if now_s < self.held_since_s + settings.contract_hold_s:
            return needs
        self.held_since_s, self.rests_until_s = None, now_s + settings.contract_hold_s
        return NOTHING

    def wakes_s(self, settings: AgentSettings) -> list[float]:
        """Return when time alone changes something, seconds."""
        if self.asked is not None:
            return [self._given_up_s(settings), self.until_s]
        times = [self.ask_from_s, self.asked_s + settings.contract_timeout_s, self.until_s, self.rests_until_s]
        if self.held_since_s is not None:
            times.append(self.held_since_s + settings.contract_hold_s)
        return times

    def _given_up_s(self, settings: AgentSettings) -> float:
        """Return when a question without an answer is given up, whoever should have told."""
        return self.asked_s + 2.0 * settings.contract_timeout_s
