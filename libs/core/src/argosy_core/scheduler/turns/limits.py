"""What the limits of queues hold back: which jobs may be tried, and why others wait.

Besides what is set for a queue, its fair share limits it, by a cap for its jobs without a lifetime and a budget for the
others, see `fair_caps`. Of either kind a queue may always hold one. What could only begin alone is not passed by its
kind.

Source: 003 "Scheduling constraints"; design section 5, "Round" 5: a constraint is a reason to wait.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

import numpy as np

from argosy_core.arrays import Bools, Int32s, Int64s, are_among, true_places
from argosy_core.job.tables.live import ON_HOLD
from argosy_core.placement import WaitReason
from argosy_core.queueing import MICRO, Excess, heads_of_all, keep_within, percent_text, to_cores
from argosy_core.resources import format_amount
from argosy_core.scheduler.memory.caps import MOST, Caps
from argosy_core.scheduler.memory.flows import left_slots, non_preemptible_flow
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.turns.fair_caps import charges_core_s, find_caps
from argosy_core.scheduler.turns.lease_rates import lease_count_left, next_lease_s

__all__ = [
    "Beyond",
    "claims_within",
    "find_limit",
    "heads_of_each",
    "heads_within",
    "held_back",
]

_NOBODY: Final = np.zeros(0, dtype=np.int32)
_MOST_LOOKED_AT: Final = 1 << 14
"""Jobs of a limited queue that are looked at, in its order, for some that fit below its limits."""
_FEWEST_LOOKED_AT: Final = 32
_MOST_TRIES: Final = 4
"""How often other jobs of a job set are tried in place of those that their queue's own limits hold back."""


class Beyond(Enum):
    """Whose jobs may be tried though a cap holds them back."""

    NOBODY = "nobody"
    FOLLOWERS = "followers"
    """The followers of heads, see `prioritise`."""
    EVERYBODY = "everybody"


@dataclass(frozen=True, slots=True)
class _Room:
    """What one queue may begin now."""

    state: PoolState
    columns: list[int]
    """Resources that are limited."""
    left: Int64s
    """How much more of each may be held."""
    left_count: int
    """How many more jobs."""
    most: int | None
    """Cap of jobs without a lifetime, micro-cores; None if caps do not bind."""
    non_preemptible_left: int
    """How much of it is left."""
    share_left: int
    """How much usage may begin before the share is reached; below 0 if it is passed."""
    budget_core_s: int
    """Excess flow budget."""
    budget_left_core_s: int
    """How much of it is left."""
    has_non_preemptible: bool
    """It holds a job without a lifetime."""
    has_charged: bool
    """Something is charged to it."""
    reserved: Int32s
    """Waiting jobs that count as begun."""
    followers: Int32s
    """Waiting jobs that are tried though the cap holds them back, see `claims_within`."""
    is_by_set: bool
    """Some of its jobs limit how many of their job set run."""

    def narrow(self, wanted: Bools | None) -> Bools | None:
        """Return the classes wanted without those of which no job may begin, where that is so of whole classes."""
        state = self.state
        if self.most is None or not self.has_non_preemptible or state.room.has_lifetimes or len(state.demands):
            return wanted
        if self.followers.size:
            return wanted
        usage = state.classes.usage[: state.classes.ids.end]
        # What is above the cap stays, since its kind does not pass it.
        fits = np.append((usage <= self.non_preemptible_left) | (usage > self.most), True)
        return fits if wanted is None else wanted & fits[: wanted.size]

    def keep(self, slots: Int32s) -> tuple[Bools, bool]:
        """Return which of the first jobs may begin, and whether none behind them may."""
        if not self.is_by_set:
            return self._keep_of_queue(slots)
        rows, kept = np.arange(slots.size), np.zeros(slots.size, dtype=np.bool_)
        for _ in range(_MOST_TRIES):
            tried = rows[self.state.job_set_limits.keep(self.state.live, slots[rows])]
            fits, none_behind = self._keep_of_queue(slots[tried])
            if fits.all() or tried.size == rows.size:
                break
            rows = np.setdiff1d(rows, tried[~fits])  # whom the queue holds back takes no place of others of its set
        kept[tried[fits]] = True
        return kept, none_behind

    def _keep_of_queue(self, slots: Int32s) -> tuple[Bools, bool]:
        """As `keep`, however many of a job set run."""
        state = self.state
        amounts = state.job_vectors(slots)[:, self.columns]
        if self.most is None:
            return keep_within(amounts, self.left, self.left_count), False
        usage, is_reserved = state.job_usage(slots), np.isin(slots, self.reserved)
        is_capped = (state.live.lifetime_s[slots] < 0) & ~is_reserved & ~np.isin(slots, self.followers)
        lasting = np.where(is_capped, usage, 0)
        closed = self._close(lasting, self.most, self.non_preemptible_left, is_exempt=not self.has_non_preemptible)
        excess = None
        if state.room.has_lifetimes:
            charge = np.where(is_reserved, 0, charges_core_s(state, slots))
            self._close(charge, self.budget_core_s, self.budget_left_core_s, is_exempt=not self.has_charged)
            excess = Excess(
                usage=np.where(is_reserved, 0, usage),
                charge=charge,
                share_left=self.share_left,
                budget_left=self.budget_left_core_s,
            )
        left = np.append(self.left, self.non_preemptible_left)
        kept = keep_within(np.column_stack([amounts, lasting]), left, self.left_count, excess)
        return kept, closed and not state.room.has_lifetimes

    @staticmethod
    def _close(sizes: Int64s, most: int, left: int, *, is_exempt: bool) -> bool:
        """Let the first job begin if none is held, and nothing pass what could only begin alone; tell if there is such.

        Args:
            sizes: What each takes of what is left, 0 if nothing; changed.
            most: What there is if nothing is taken.
            left: What is left.
            is_exempt: Whether the first may begin in any case.
        """
        rows = true_places(sizes)
        if is_exempt and rows.size:
            sizes[rows[0]] = min(int(sizes[rows[0]]), max(left, 0))
        alone = rows[sizes[rows] > most]
        if alone.size:
            sizes[rows[rows >= alone[0]]] = MOST + 1
        return bool(alone.size)


def _room(state: PoolState, row: int, caps: Caps) -> _Room | None:
    """Return what a queue may begin; None if nothing of it can be held back."""
    queues, names = state.queues, state.classes.axis.names
    limits = queues.limits.get(row)
    binds = row < caps.binds.size and bool(caps.binds[row])
    is_by_set = row in state.job_set_limits.queues
    if limits is None and not binds and not is_by_set:
        return None
    columns, left, left_count = [], np.zeros(0, dtype=np.int64), int(np.iinfo(np.int64).max)
    if limits is not None:
        most = {names.index(name): amount for name, amount in limits.max_running_amounts if name in names}
        columns = list(most)
        left = np.array(list(most.values()), dtype=np.int64) - queues.held[row, columns]
        if limits.max_running_count:
            left_count = int(limits.max_running_count - queues.leased_count[row])
        if limits.lease_rate_per_s:
            left_count = min(left_count, lease_count_left(state, row))
    if not binds:
        return _Room(state, columns, left, left_count, None, 0, 0, 0, 0, False, False, _NOBODY, _NOBODY, is_by_set)
    reserved = caps.reserved[state.live.queue[caps.reserved] == row]
    reserved = reserved[state.stage_is_queued(reserved)]  # not what the round has placed meanwhile
    usage, ends = state.job_usage(reserved), state.live.lifetime_s[reserved] >= 0
    count = int(queues.leased_count[row] - queues.preemptible_count[row])
    most_flow = float(caps.most_non_preemptible[row])
    cap = int(min(most_flow, MOST)) if most_flow < caps.capacity else MOST
    lasting = int(queues.usage[row] - queues.preemptible_usage[row] + usage[~ends].sum())
    if state.promises.left:
        gone = left_slots(state)
        gone = gone[(state.live.queue[gone] == row) & (state.live.lifetime_s[gone] < 0)]
        lasting, count = lasting - int(state.job_usage(gone).sum()), count - gone.size
    is_over = non_preemptible_flow(state)[row] * MICRO > cap + 1
    share = int(min(caps.share[row], MOST))
    begun = int(queues.usage[row] + usage.sum())
    budget = int(min(caps.budget_core_s[row], MOST))
    charged = int(queues.charged_core_s[row] + charges_core_s(state, reserved).sum())
    return _Room(
        state,
        columns,
        left,
        left_count,
        most=cap,
        non_preemptible_left=0 if is_over else max(cap - lasting, 0),
        share_left=-1 if queues.flow[row] * MICRO > share + 1 else share + 1 - begun,
        budget_core_s=budget,
        budget_left_core_s=max(budget - charged, 0),
        has_non_preemptible=count > 0 or not ends.all(),
        has_charged=charged > 0,
        reserved=reserved,
        followers=_NOBODY,
        is_by_set=is_by_set,
    )


def _followers_of(state: PoolState, row: int) -> Int32s:
    """Return the waiting jobs of a queue that are tried in every round beside the heads, see `prioritise`."""
    slots = state.live.slots(np.array(state.promises.followers, dtype=np.int64))
    slots = slots[slots >= 0]
    followers: Int32s = slots[(state.live.queue[slots] == row) & state.stage_is_queued(slots)]
    return followers


def claims_within(state: PoolState, slots: Int32s) -> Bools:
    """Return which of the jobs of a round may begin as things are now, with the caps of their queues.

    A follower that only its queue's cap holds back is tried, so that it has its turn for what a run of its queue gives
    back just then; that may be seen only after it was chosen, see `freed`.

    Args:
        state: The pool.
        slots: The jobs, of each queue in its order.
    """
    may = np.ones(slots.size, dtype=np.bool_)
    rows = state.live.queue[slots]
    followers = state.live.slots(np.array(state.promises.followers, dtype=np.int64))
    for row in np.unique(rows[are_among(slots, followers)]).tolist():
        room, own = _room(state, row, state.caps), true_places(rows == row)
        if room is not None and room.most is not None:
            may[own] = room.keep(slots[own])[0]
    return may


def _plain_bound(state: PoolState, row: int, beyond_cap: Beyond) -> int:
    """Return how much a queue may begin where at most its cap binds it, micro-cores; `MOST` where nothing does.

    0 says that more binds it, or that it may begin nothing: then its jobs are to be looked at one by one.
    """
    caps = state.caps
    if row in state.queues.limits or row in state.job_set_limits.queues:
        return 0
    if row >= caps.binds.size or not caps.binds[row]:
        return MOST
    if beyond_cap is Beyond.EVERYBODY or state.room.has_lifetimes or caps.reserved.size or state.promises.followers:
        return 0
    cap = float(caps.most_non_preemptible[row])
    return 0 if state.queues.flow[row] * MICRO > cap + 1 else max(int(min(cap, MOST)) - int(state.queues.usage[row]), 0)


def _below_bound(state: PoolState, found: tuple[Int32s, bool], usage: Int64s, bound: int) -> tuple[Int32s, bool] | None:
    """Return which of the first jobs of a queue a bound lets begin; None if sums of their usages do not tell.

    Args:
        state: The pool.
        found: The first jobs, and whether these are all, as `Backlog.heads` returns them.
        usage: Usage of each.
        bound: See `_plain_bound`.
    """
    slots, running = found[0], usage.cumsum()
    end = int(running.searchsorted(bound, side="right"))
    if end == slots.size:
        return found
    return (slots[:end], True) if end and bound - int(running[end - 1]) < state.caps.least_usage else None


def _room_beyond(state: PoolState, row: int, beyond_cap: Beyond) -> _Room | None:
    """As `_room`, as the cap holds back some only."""
    room = _room(state, row, state.caps)
    if room is None or beyond_cap is Beyond.NOBODY or not (state.promises.followers or beyond_cap is Beyond.EVERYBODY):
        return room
    if beyond_cap is Beyond.EVERYBODY:
        return replace(room, most=None)
    return replace(room, followers=_followers_of(state, row))


def heads_within(
    state: PoolState, row: int, count: int, wanted: Bools | None, *, view: int, beyond_cap: Beyond = Beyond.NOBODY
) -> tuple[Int32s, bool]:
    """Return the first jobs of a queue that may be tried, at most `count`, and whether these are all.

    As `Backlog.heads`, less the jobs that the limits of the queue hold back; what fits below them passes those.

    Args:
        state: The pool.
        row: Index of the queue.
        count: At least 1.
        wanted: Classes asked for.
        view: As of `Backlog.heads`.
        beyond_cap: Who is returned though a cap holds it back.
    """
    order = state.queues.orders[row]
    if bound := _plain_bound(state, row, beyond_cap):
        plain = order.heads(count, wanted, view)
        found = plain if bound == MOST else _below_bound(state, plain, state.job_usage(plain[0]), bound)
        if found is not None:
            return found
    room = _room_beyond(state, row, beyond_cap)
    if room is None:
        return order.heads(count, wanted, view)
    wanted = room.narrow(wanted)
    if room.is_by_set:
        wanted = state.job_set_limits.narrow(wanted, state.classes.ids.end)
    look = max(count, _FEWEST_LOOKED_AT)
    while room.left_count > 0:
        slots, all_of_them = order.heads(look, wanted, view)
        is_kept, none_behind = room.keep(slots)
        kept = slots[is_kept]
        is_all = all_of_them or none_behind or kept.size >= room.left_count or look >= _MOST_LOOKED_AT
        if is_all or kept.size > count:
            return kept[:count], is_all and kept.size <= count
        look *= 2
    return np.zeros(0, dtype=np.int32), True


def heads_of_each(
    state: PoolState, rows: list[int], count: int, wanted: Bools | None, *, view: int, beyond_cap: Beyond
) -> list[tuple[Int32s, bool]]:
    """As `heads_within` for each of several queues; those that nothing holds back are looked at together."""
    found: dict[int, tuple[Int32s, bool] | None] = {}
    if wanted is None:
        bounds = {row: bound for row in rows if (bound := _plain_bound(state, row, beyond_cap))}
        heads = heads_of_all([state.queues.orders[row] for row in bounds], count)
        usage, end = state.job_usage(np.concatenate([_NOBODY, *(slots for slots, _ in heads)])), 0
        for (row, bound), head in zip(bounds.items(), heads, strict=True):
            begin, end = end, end + head[0].size
            found[row] = head if bound == MOST else _below_bound(state, head, usage[begin:end], bound)
    return [found.get(row) or heads_within(state, row, count, wanted, view=view, beyond_cap=beyond_cap) for row in rows]


def find_limit(state: PoolState, slot: int) -> tuple[WaitReason, str]:
    """Return which limit of its queue or job set holds a waiting job back, with the numbers; NONE if none does."""
    queues, row = state.queues, int(state.live.queue[slot])
    text, limits = _limit_text(state, slot), queues.limits.get(row)
    if text or limits is None or not limits.lease_rate_per_s or lease_count_left(state, row):
        return (WaitReason.LIMIT if text else WaitReason.NONE), text
    wait_s = max(next_lease_s(state, row) - state.flow_time_s, 0.0)
    often = f"its queue begins at most {limits.lease_rate_per_s:.6g} jobs a second"
    return WaitReason.RATE, f"{often}, and the next in {wait_s:,.3g} s"


def held_back(state: PoolState) -> dict[WaitReason, Int32s]:
    """Return the waiting jobs that limits of how many run at once and begin in a second hold back, by reason.

    What caps and amounts of resources hold back is not among them: that would take a look at each job in its order.

    Complexity: O(queues with limits), and O(jobs) in NumPy if one of them is reached or some job limits its job set.
    """
    queues, live, sets = state.queues, state.live, state.job_set_limits
    full, empty = [], []
    for row, limits in queues.limits.items():
        if limits.max_running_count and queues.leased_count[row] >= limits.max_running_count:
            full.append(row)
        elif limits.lease_rate_per_s and not lease_count_left(state, row):
            empty.append(row)
    if not (full or empty or sets.queues):
        return {}
    slots = live.live_slots()
    slots = slots[state.stage_is_queued(slots) & ((live.flags[slots] & ON_HOLD) == 0)]
    is_limited = np.isin(live.queue[slots], full)
    by_set = true_places(np.isin(live.queue[slots], [*sets.queues]))
    is_limited[by_set] |= sets.are_full(live, slots[by_set])
    is_late = np.isin(live.queue[slots], empty) & ~is_limited
    return {WaitReason.LIMIT: slots[is_limited], WaitReason.RATE: slots[is_late]}


def _limit_text(state: PoolState, slot: int) -> str:
    """Return which limit of what is held at once holds a waiting job back, with the numbers; empty if none does."""
    queues, row = state.queues, int(state.live.queue[slot])
    one = np.array([slot], dtype=np.int32)
    if row in state.job_set_limits.queues and state.job_set_limits.are_full(state.live, one)[0]:
        count, most = int(state.job_set_limits.taken(state.live, one)[0]), int(state.live.job_set_limit[slot])
        return f"its job set runs {count:,} of at most {most:,} jobs"
    room = _room(state, row, caps := find_caps(state))
    if room is None:
        return ""
    most = queues.limits[row].max_running_count if row in queues.limits else 0
    if most and queues.leased_count[row] >= most:
        return f"its queue runs {int(queues.leased_count[row]):,} of at most {most:,} jobs"
    room = replace(room, left_count=1)  # that none may begin now says nothing of what may be held
    asked = state.job_vectors(one)[0, room.columns]
    over = true_places(asked > np.maximum(room.left, 0))
    if over.size:
        at = int(over[0])
        name, held = state.classes.axis.names[room.columns[at]], int(queues.held[row, room.columns[at]])
        texts = [format_amount(name, amount) for amount in (int(asked[at]), held, held + int(room.left[at]))]
        return f"it asks for {texts[0]} of {name}, and its queue holds {texts[1]} of at most {texts[2]}"
    if room.most is None or room.keep(one)[0][0]:
        return ""
    capacity = max(caps.capacity, 1.0) / MICRO
    size, share, flow, most_flow = (
        percent_text(float(value) / capacity)
        for value in (
            to_cores(state.job_usage(one))[0],
            caps.share[row] / MICRO,
            non_preemptible_flow(state)[row],
            room.most / MICRO,
        )
    )
    if state.live.lifetime_s[slot] < 0:
        return (
            f"it counts {size} of the pool and has no lifetime; the flow of such jobs of its queue is {flow} of at most"
            f" {most_flow}, for a fair share of {share}"
        )
    minutes = [
        core_s / 60
        for core_s in (int(charges_core_s(state, one)[0]), int(queues.charged_core_s[row]), room.budget_core_s)
    ]
    return (
        f"it counts {size} of the pool and would begin beyond the fair share of its queue, which is {share}; there it"
        f" costs {minutes[0]:,.4g} core-minutes, and {minutes[1]:,.4g} of {minutes[2]:,.4g} are taken"
    )
