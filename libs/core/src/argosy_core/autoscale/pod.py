"""One pod under an agent: what it should have, may have, and has; and the next step from there.

Three amounts bound each other. `held` is the most of what the specification desires, the node has allocated and the
containers run with; a resize whose end is not known counts as desired. It is never booked below that.
`permit` is what the sampler has booked it at, lowered by the pod itself before it asks for less, so at every time
`permit` is at most the booking. What the specification is set to is at most `permit`. Hence: shrink first, tell after;
ask first, grow after; and no node holds more than its ledger says.

A permit is a lease. While it holds, an agent that is cut off may shrink a pod, and grow it back to the permit. After
it, and for the time that a resize may take before its end, the pod can only shrink: the sampler may have given the
difference away.

Source: design section 5, "Resize"; 001 "Deep dive into resource management"; docs/autoscale.md "One pod".
"""

from __future__ import annotations

from dataclasses import dataclass, field

from argosy_core.autoscale.amounts import NOTHING, Amounts
from argosy_core.autoscale.contract import Contract
from argosy_core.autoscale.events import (
    ContractAnswered,
    ContractQuestion,
    Directive,
    Pending,
    Permit,
    PermitRequest,
    PodSeen,
    Refused,
    Resize,
    ResizeEnded,
    ResizeOutcome,
)
from argosy_core.autoscale.settings import AgentSettings

__all__ = ["AgentSettings", "PodScaling"]


@dataclass(slots=True, kw_only=True)
class PodScaling:
    """The state of one pod. Methods return what is worth telling, empty if nothing is."""

    settings: AgentSettings
    """How patient to be."""
    seen: PodSeen
    """The pod as it was seen last, or as a resize that was accepted has made it."""
    goal_units: int = 1
    """What it should have, compute units; means nothing before the unit is known."""
    used_bytes: int = 0
    """Memory that it used at the last sample, bytes."""
    unit: Amounts | None = None
    """Compute unit, as the sampler told it last; None before it has."""
    permit: Amounts | None = None
    """What it is permitted; None before the first."""
    lease_s: float = float("-inf")
    """Until when the permit holds, seconds."""
    sequence: int = 0
    """Number of the last request."""
    requested: Amounts = NOTHING
    """What it asked for."""
    requested_s: float = 0.0
    """When, seconds."""
    is_waiting: bool = False
    """The last request has no answer."""
    is_announced: bool = False
    """It was announced in this session."""
    is_leased: bool = False
    """Its permit is of this session, whose lease is its own."""
    ask_from_s: float = 0.0
    """Not to ask before, seconds, after a refusal."""
    directive: Directive = Directive.NONE
    """What the sampler wants."""
    resize_number: int = 0
    """Number of the last resize."""
    asking: Amounts = NOTHING
    """What the last resize asked for."""
    unsettled: Amounts | None = None
    """The most that the specification may come to say by resizes whose end is not known; None without any."""
    unsettled_before: Amounts | None = None
    """The same, but for the last resize."""
    unsettled_version: int = 0
    """Version of the pod that they were asked for at: once it has another they are done, or never will be."""
    resize_ends_s: float | None = None
    """When the resize under way is given up, seconds; None if none is."""
    resize_from_s: float = 0.0
    """Not to resize before, seconds."""
    confirm_by_s: float = 0.0
    """When the node should have taken up what is desired, seconds."""
    deferred_s: float | None = None
    """Since when the node says that it has no room; None if it does not."""
    grow_from_s: float = 0.0
    """Not to grow before, seconds."""
    floor_until_s: float | None = None
    """Until when the floor of a pod that ran out of memory holds, seconds."""
    contract: Contract = field(default_factory=Contract)
    """What it says itself, if its policy names a port."""
    contract_units: int = 0
    """Least that it should have because it says so, compute units."""

    @property
    def held(self) -> Amounts:
        """What it must be booked at."""
        held = self.seen.desired.join(self.seen.allocated).join(self.seen.actual)
        return held if self.unsettled is None else held.join(self.unsettled)

    @property
    def goal(self) -> Amounts:
        """What it should have, whatever is permitted."""
        if self.unit is None:
            return self.seen.desired
        return self.seen.policy.size(max(self.goal_units, self.contract_units), self.unit)

    @property
    def is_fixed(self) -> bool:
        """Return whether it keeps the size that it has, whatever it should have."""
        is_left_alone = self.directive in {Directive.MIGRATE, Directive.STOP}
        return bool(self.seen.refusal) or not self.seen.policy.is_on or is_left_alone

    @property
    def has_contract(self) -> bool:
        """Return whether the pod is asked what it needs."""
        return self.seen.policy.contract_port > 0 and not self.is_fixed

    def is_confirmed(self) -> bool:
        """Return whether the containers run with what is desired."""
        return self.seen.desired == self.seen.allocated == self.seen.actual

    # --- what is learnt -------------------------------------------------------------------------------------------

    def see(self, seen: PodSeen, now_s: float) -> str:
        """Take in the pod as the cluster has it."""
        before = self.seen
        if seen.version < before.version:
            return ""
        self.seen = seen
        is_ours = seen.desired == before.desired or (self.unsettled is not None and seen.desired.fits(self.unsettled))
        if self.resize_ends_s is None:
            self._settle()
        if seen.pending is not Pending.DEFERRED:
            self.deferred_s = None
        elif self.deferred_s is None or seen.desired != before.desired:
            self.deferred_s = now_s
        if not is_ours:
            self.resize_from_s = self.grow_from_s = now_s + self.settings.hold_s
            return f"resized by another actor from {_text(before.desired)} to {_text(seen.desired)}"
        if seen.pending is not before.pending and seen.pending is not Pending.NO:
            return f"the node does not take {_text(seen.desired)} up: {seen.pending}"
        if not (before.desired == before.allocated == before.actual) and self.is_confirmed():
            return f"runs with {_text(seen.actual)}"
        return ""

    def end_resize(self, ended: ResizeEnded, now_s: float) -> str:
        """Take in how a resize ended."""
        if self.resize_ends_s is None or ended.number != self.resize_number:
            return ""
        self.resize_ends_s = None
        if ended.outcome is ResizeOutcome.ACCEPTED:
            self.confirm_by_s = now_s + self.settings.confirm_timeout_s
            self.unsettled = None
            if ended.version > self.seen.version:
                self.seen, self.deferred_s = _desiring(self.seen, self.asking, ended.version), None
            return ""
        self.resize_from_s = now_s + self.settings.resize_retry_s
        if ended.outcome is ResizeOutcome.UNKNOWN:
            self._settle()
            return f"no answer to a resize to {_text(self.asking)}"
        self.unsettled = self.unsettled_before
        self._settle()
        if ended.outcome is ResizeOutcome.REFUSED:
            self.resize_from_s = self.grow_from_s = now_s + self.settings.hold_s
            return f"a resize to {_text(self.asking)} was refused: {ended.reason or 'no reason given'}"
        return ""

    def _settle(self) -> None:
        """Forget resizes that were asked for at a version which the pod has no more."""
        if self.seen.version > self.unsettled_version:
            self.unsettled = None

    def take_permit(self, permit: Permit) -> str:
        """Take in a permit; one that is not for the last request, or came before, changes nothing."""
        if permit.sequence != self.sequence or not self.is_announced:
            return ""
        if min(permit.amounts) < 1 or min(permit.unit) < 1 or not permit.amounts.fits(self.requested):
            return f"a permit for {_text(permit.amounts)} was ignored: {_text(self.requested)} was asked for"
        # What comes after the answer is pushed because there is room: it only ever adds.
        amounts = permit.amounts if self.is_waiting or self.permit is None else permit.amounts.join(self.permit)
        before, self.permit, self.unit, self.is_waiting = self.permit, amounts, permit.unit, False
        self.is_leased = True
        if before == amounts:
            return ""
        missing = "" if amounts == self.requested else f" of {_text(self.requested)}"
        return f"permitted {_text(amounts)}{missing}"

    def take_refusal(self, refused: Refused, now_s: float) -> str:
        """Take in that a request is not taken: the permit stays; later the pod is announced again."""
        if refused.sequence != self.sequence or not self.is_waiting:
            return ""
        self.is_waiting = self.is_announced = self.is_leased = False
        self.ask_from_s = now_s + (refused.retry_after_s or self.settings.refused_retry_s)
        return f"a request for {_text(self.requested)} was refused: {refused.reason}"

    def lapse(self) -> None:
        """Give up what it was permitted and does not have: the lease had run out before it was renewed."""
        if self.permit is not None:
            self.permit = self.permit.meet(self.held)
        self.is_waiting = self.is_announced = self.is_leased = False

    def lose_session(self) -> None:
        """Forget what was asked; the permit stays, as long as its lease."""
        self.is_waiting = self.is_announced = self.is_leased = False
        self.ask_from_s, self.directive = 0.0, Directive.NONE

    def take_answer(self, answered: ContractAnswered, now_s: float) -> str:
        """Take in what the pod says of itself."""
        return self.contract.answer(answered.number, answered.needs, self.settings, now_s)

    def hear(self, now_s: float) -> str:
        """Let what the pod said count, as far and as long as it does."""
        units, silent = 0, self.contract.give_up(self.settings, now_s)
        if self.unit is not None and self.has_contract:
            proposed = self.seen.policy.size(self.goal_units, self.unit)
            floor = self.contract.floor(proposed, self.seen.policy.most, self.settings, now_s)
            units = min(floor.units(self.unit), self.settings.max_units)
        before, self.contract_units = self.contract_units, units
        if units == before:
            return silent
        return f"says that it needs {units} units" if units else "is sized by its use again, not by what it says"

    # --- what is next ---------------------------------------------------------------------------------------------

    def next_resize(self, now_s: float) -> Resize | None:
        """Return a resize to send now; it counts as under way from then on."""
        if self.resize_ends_s is not None and now_s >= self.resize_ends_s:
            unknown = ResizeEnded(uid=self.seen.uid, number=self.resize_number, outcome=ResizeOutcome.UNKNOWN)
            self.end_resize(unknown, now_s)
        if self.resize_ends_s is not None or now_s < self.resize_from_s:
            return None
        amounts = self._size(now_s)
        if amounts == self.seen.desired and self.unsettled is None:
            return None
        self.asking, self.unsettled_version = amounts, self.seen.version
        self.resize_number += 1
        self.unsettled_before = self.unsettled
        self.unsettled = amounts if self.unsettled is None else self.unsettled.join(amounts)
        self.resize_ends_s = now_s + self.settings.resize_timeout_s
        return Resize(uid=self.seen.uid, number=self.resize_number, version=self.seen.version, amounts=amounts)

    def _size(self, now_s: float) -> Amounts:
        """Return what the specification should say now: the goal, as far as it may be had."""
        seen = self.seen
        if self.is_fixed or self.unit is None:
            return seen.desired
        if self._is_stuck(now_s):
            # A size that never fits is not tried again soon.
            hold_s = self.settings.hold_s * (10.0 if seen.pending is Pending.INFEASIBLE else 1.0)
            self.grow_from_s = max(self.grow_from_s, now_s + hold_s)
            return seen.allocated.meet(seen.desired)
        if not self.is_confirmed() and now_s < self.confirm_by_s:
            return seen.desired
        size = self.goal.meet(self._largest(now_s))
        # A limit below what is used would end the container.
        used_units = -(-self.used_bytes // self.unit.memory_bytes)
        used_bytes = min(used_units * self.unit.memory_bytes, seen.desired.memory_bytes)
        size = Amounts(size.cpu_millicores, max(size.memory_bytes, used_bytes))
        if self.has_contract and not seen.desired.fits(size) and not self.contract.agrees(size, now_s):
            size = size.join(seen.desired.meet(self.permit or seen.desired))  # it is asked first
        return size

    def next_question(self, now_s: float) -> ContractQuestion | None:
        """Return a question to put to the pod now; it counts as put from then on."""
        if self.unit is None or not self.has_contract:
            return None
        proposed = self.seen.policy.size(self.goal_units, self.unit)
        is_to_shrink = not self.seen.desired.fits(proposed)
        if not self.contract.is_due(proposed, self.settings, now_s, is_to_shrink=is_to_shrink):
            return None
        return ContractQuestion(
            uid=self.seen.uid,
            number=self.contract.ask(proposed, now_s),
            port=self.seen.policy.contract_port,
            size=self.seen.actual,
            proposed=proposed,
        )

    def _is_stuck(self, now_s: float) -> bool:
        """Return whether the node has refused what is desired for long enough to take it back."""
        if self.seen.pending is Pending.INFEASIBLE:
            return True
        return self.deferred_s is not None and now_s >= self.deferred_s + self.settings.deferred_timeout_s

    def _largest(self, now_s: float) -> Amounts:
        """Return how large the pod may be made now."""
        if self.permit is None:
            return self.seen.desired
        is_leased = now_s + self.settings.resize_timeout_s < self.lease_s
        may_grow = is_leased and now_s >= self.grow_from_s and self.directive is Directive.NONE
        return self.permit if may_grow else self.permit.meet(self.seen.desired)

    def next_request(self, now_s: float) -> PermitRequest | None:
        """Return a request to send now; it counts as sent from then on."""
        if now_s < self.ask_from_s or (self.is_waiting and now_s < self.requested_s + self.settings.request_timeout_s):
            return None
        wanted = self._wanted(now_s)
        is_first = not self.is_announced
        if not is_first and not self.is_waiting and wanted == self.requested:
            return None
        permitted = self.permit or NOTHING
        if now_s >= self.lease_s:
            permitted = permitted.meet(self.held)
        was_permitted = self.permit is not None and now_s < self.lease_s
        if is_first:
            wanted = self.held.join(permitted)
        if self.permit is not None:
            self.permit = permitted.meet(wanted)  # from here on the sampler may take the difference away
        self.sequence += 1
        self.requested, self.requested_s = wanted, now_s
        self.is_waiting = self.is_announced = True
        return PermitRequest(
            uid=self.seen.uid,
            sequence=self.sequence,
            wanted=wanted,
            held=self.held,
            is_bundle=self.seen.policy.is_bundle,
            is_first=is_first,
            was_permitted=was_permitted,
            is_permit=is_first and was_permitted and wanted == permitted,
        )

    def _wanted(self, now_s: float) -> Amounts:
        """Return what to be booked at: the goal if the pod may grow, and never less than what it holds."""
        if self.is_fixed:
            return self.held
        grows = self.directive is Directive.NONE and now_s >= self.grow_from_s and not self._is_stuck(now_s)
        return (self.goal if grows else self.goal.meet(self.held)).join(self.held)

    def wake_s(self, now_s: float) -> float:
        """Return when time alone makes another step possible, seconds."""
        times = [self.ask_from_s, self.resize_from_s, self.grow_from_s]
        if self.is_waiting:
            times.append(self.requested_s + self.settings.request_timeout_s)
        if self.resize_ends_s is not None:
            times.append(self.resize_ends_s)
        if not self.is_confirmed():
            times.append(self.confirm_by_s)
        if self.deferred_s is not None:
            times.append(self.deferred_s + self.settings.deferred_timeout_s)
        if self.floor_until_s is not None:
            times.append(self.floor_until_s)
        if self.unit is not None and self.has_contract:
            times += self.contract.wakes_s(self.settings)
        return min((one for one in times if one > now_s), default=float("inf"))


def _desiring(seen: PodSeen, desired: Amounts, version: int) -> PodSeen:
    """Return a pod with another desired size, which its node has said nothing of."""
    return PodSeen(
        uid=seen.uid,
        version=version,
        policy=seen.policy,
        desired=desired,
        allocated=seen.allocated,
        actual=seen.actual,
        refusal=seen.refusal,
    )


def _text(amounts: Amounts) -> str:
    """Return amounts as people read them."""
    return f"{amounts.cpu_millicores / 1000:g} cores, {amounts.memory_bytes / 2**20:.0f} MiB"
