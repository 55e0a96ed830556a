"""What the limits of queues hold back: which jobs may be tried, and why others wait.

Besides what is set for a queue, its fair share limits it. The flow of its jobs without a lifetime stays below a cap;
a job with a lifetime that begins beyond the share is charged to the queue's excess flow budget until it leaves. Of
either kind a queue may always hold one. What could only begin alone is not passed by its kind.

Source: 003 "Scheduling constraints"; design section 5, "Round" 5: a constraint is a reason to wait.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

import numpy as np

from argosy_core.arrays import Bools, Float64s, Int32s, Int64s, are_among, has_true, true_places
from argosy_core.job.tables.live import ON_HOLD
from argosy_core.placement import WaitReason
from argosy_core.queueing import MICRO, Excess, keep_within, percent_text, to_cores, weigh_vector
from argosy_core.resources import format_amount
from argosy_core.scheduler.memory.caps import MOST, Caps
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.turns.lease_rates import lease_count_left, next_lease_s

__all__ = [
    "Beyond",
    "caps_due_s",
    "charge_starts",
    "charges_core_s",
    "claims_within",
    "fair_ratios",
    "find_caps",
    "find_limit",
    "heads_within",
    "held_back",
]

_NOBODY: Final = np.zeros(0, dtype=np.int32)
_MOST_LOOKED_AT: Final = 1 << 14
"""Jobs of a limited queue that are looked at, in its order, for some that fit below its limits."""
_FEWEST_LOOKED_AT: Final = 32
_MOST_TRIES: Final = 4
"""How often other jobs of a job set are tried in place of those that their queue's own limits hold back."""
_LEAST_DELAY_S: Final = 1.0
"""How soon at the earliest it is looked again whether a flow has fallen."""


class Beyond(Enum):
    """Whose jobs may be tried though a cap holds them back."""

    NOBODY = "nobody"
    FOLLOWERS = "followers"
    """The followers of heads, see `prioritise`."""
    EVERYBODY = "everybody"


def fair_ratios(state: PoolState) -> Float64s:
    """Return the fair share of each queue, of 1, with all that stands below it; all queues that there are count."""
    queues, branches = state.queues, state.queues.branches
    weight_sum = float(queues.weight.sum())
    if not branches:
        return queues.weight / weight_sum if weight_sum else queues.weight
    ratio = np.zeros(queues.weight.size)
    beside = np.bincount(branches.above + 1, queues.weight, queues.weight.size + 1)
    beside[1:] += branches.is_parent()  # the queue's own jobs
    for rows in [true_places(branches.above < 0), *branches.levels()]:
        above = branches.above[rows]
        share = np.where(above >= 0, ratio[above], 1.0) * queues.weight[rows]
        ratio[rows] = np.divide(share, beside[above + 1], out=np.zeros(rows.size), where=beside[above + 1] > 0)
    return ratio


def find_caps(state: PoolState) -> Caps:
    """Return the caps of all queues as the capacity and the weights are now.

    Complexity: O(queues) in NumPy; most of it only where the capacity, weights or the queues have changed.
    """
    queues = state.queues
    basis = _find_basis(state)
    lasting = queues.usage - queues.preemptible_usage + queues.queued_usage
    # Nobody holds more than there is: where that alone is in the way, jobs wait for room, and may be promised some.
    most = basis.most_non_preemptible
    binds = (np.maximum(state.non_preemptible_flow() * MICRO, lasting) > most) & (most < basis.capacity)
    if state.room.has_lifetimes:
        binds |= np.maximum(queues.flow * MICRO, queues.usage + queues.queued_usage) > basis.share
    reserved = _NOBODY
    if state.room.nominated or state.promises.keep_nodes:
        reserved = state.live.slots(np.array([*state.room.nominated, *state.promises.handles], dtype=np.int64))
        reserved = np.unique(reserved[reserved >= 0])
        reserved = reserved[state.stage_is_queued(reserved)]
    least_usage = _least_usage(state) if has_true(binds) else 0
    return replace(basis, least_usage=least_usage, binds=binds, reserved=reserved, due_s=math.inf)


def _find_basis(state: PoolState) -> Caps:
    """Return caps of which that is right which follows from capacity, weights and queues; the last ones if they do."""
    queues, settings, clusters = state.queues, state.settings, state.clusters
    names, weights, branches = state.classes.axis.names, state.weights.values, state.queues.branches
    key = (
        queues.weight.tobytes(),
        branches.above.tobytes() if branches else b"",
        clusters.total.tobytes(),
        tuple(clusters.forgotten),
        names,
        tuple(weights.items()),
        settings.non_preemptible_excess_ratio,
        settings.excess_budget_min,
    )
    if state.caps.key == key:
        return state.caps
    ratio = fair_ratios(state)
    if branches:
        own = branches.is_parent()  # its own jobs stand beside its children, with weight 1
        beside = 1.0 + np.bincount(branches.above + 1, queues.weight, queues.weight.size + 1)[1:]
        ratio = np.where(own, ratio / beside, ratio)
    # Clusters to which nothing is given now count, since their runs do.
    total: Int64s = np.delete(clusters.total, list(clusters.forgotten), axis=0).sum(axis=0)
    capacity = weigh_vector(total, names, weights)
    share = ratio * capacity
    return Caps(
        key=key,
        share=share,
        most_non_preemptible=share * (1.0 + settings.non_preemptible_excess_ratio),
        capacity=capacity,
        budget_core_s=to_cores(share.astype(np.int64)) * settings.excess_budget_min * 60.0,
    )


def _least_usage(state: PoolState) -> int:
    """Return what each waiting job counts at least, micro-cores; 0 where that is not known without a look at each."""
    waiting = state.classes.usage[: state.classes.ids.end][state.classes.waiting_count[: state.classes.ids.end] > 0]
    return 0 if len(state.demands) else int(waiting.min(initial=MOST))


def caps_due_s(state: PoolState, now_s: float) -> float:
    """Return when the flow of a queue that is above what it may be has fallen to that; infinite if none will.

    Args:
        state: The pool; its flows are right for `now_s`.
        now_s: Now.
    """
    queues, caps = state.queues, state.caps
    if not has_true(caps.binds):
        return math.inf
    end = min(queues.ids.end, caps.share.size)
    waits = queues.queued_count[:end] > queues.on_hold_count[:end]
    kinds = [(state.non_preemptible_flow(), queues.usage - queues.preemptible_usage, caps.most_non_preemptible)]
    if state.room.has_lifetimes:
        kinds.append((queues.flow, queues.usage, caps.share))
    due_s = math.inf
    for flow, usage, most in kinds:
        held, bound = to_cores(usage[:end]), most[:end] / MICRO
        rows = true_places(waits & (flow[:end] * MICRO > most[:end] + 1) & (held < bound))
        if rows.size:
            halvings = np.log2((flow[rows] - held[rows]) / (bound[rows] - held[rows]))
            due_s = min(due_s, float(halvings.min()) * state.settings.half_time_s)
    return now_s + max(due_s, _LEAST_DELAY_S)


def charges_core_s(state: PoolState, slots: Int32s) -> Int64s:
    """Return what jobs cost if they begin beyond the shares of their queues, core-seconds; 0 without a lifetime."""
    live = state.live
    lifetime_s = live.lifetime_s[slots].astype(np.float64)
    safe_s = np.maximum(lifetime_s, state.settings.minimum_run_s)
    limit_s = live.time_limit_s[slots]
    safe_s = np.where(limit_s >= 0, np.minimum(safe_s, limit_s), safe_s)
    core_s = np.ceil(to_cores(state.job_usage(slots)) * safe_s)
    return np.where(lifetime_s >= 0, np.minimum(core_s, MOST), 0).astype(np.int64)


def charge_starts(state: PoolState, slots: Int32s, flow: Float64s) -> None:
    """Charge the runs that a round begins to the budgets of their queues, as far as they begin beyond the shares.

    Args:
        state: The pool, in which they count already.
        slots: Their jobs, each once, in the order of their turns.
        flow: Flow of each queue before the round, cores.
    """
    charges = charges_core_s(state, slots) if state.room.has_lifetimes else np.zeros(0, dtype=np.int64)
    if not has_true(charges):
        return
    live, caps = state.live, state.caps
    by_queue = np.argsort(live.queue[slots], kind="stable")
    slots, charges = slots[by_queue], charges[by_queue]
    rows, usage = live.queue[slots], state.job_usage(slots)
    begun = np.zeros(state.queues.usage.size, dtype=np.int64)
    np.add.at(begun, rows, usage)
    running = np.cumsum(usage)
    before = np.concatenate([[0], running])[np.searchsorted(rows, rows)]
    after = (state.queues.usage - begun)[rows] + running - before
    known = rows < min(caps.share.size, flow.size)
    at = np.where(known, rows, 0)
    beyond = known & (np.maximum(flow[at] * MICRO, after) > caps.share[at] + 1)
    state.charge(slots[beyond], charges[beyond])


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
        gone = state.left_slots()
        gone = gone[(state.live.queue[gone] == row) & (state.live.lifetime_s[gone] < 0)]
        lasting, count = lasting - int(state.job_usage(gone).sum()), count - gone.size
    is_over = state.non_preemptible_flow()[row] * MICRO > cap + 1
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


def _plainly_left(state: PoolState, row: int) -> int:
    """Return what a queue may begin below its cap where nothing else binds it, micro-cores; 0 if that is not so."""
    caps = state.caps
    if state.room.has_lifetimes or caps.reserved.size or state.promises.followers:
        return 0
    cap = float(caps.most_non_preemptible[row])
    return 0 if state.queues.flow[row] * MICRO > cap + 1 else max(int(min(cap, MOST)) - int(state.queues.usage[row]), 0)


def _plain_heads(
    state: PoolState, row: int, count: int, wanted: Bools | None, *, view: int
) -> tuple[Int32s, bool] | None:
    """As `heads_within` where the cap alone binds, and sums tell who may begin; None where they do not."""
    left = _plainly_left(state, row)
    if not left:
        return None
    slots, all_of_them = state.queues.orders[row].heads(count, wanted, view)
    running = np.cumsum(state.job_usage(slots))
    end = int(np.searchsorted(running, left, side="right"))
    if end == slots.size:
        return slots, all_of_them
    return (slots[:end], True) if end and left - int(running[end - 1]) < state.caps.least_usage else None


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
    if row not in state.queues.limits and row not in state.job_set_limits.queues:
        if row >= state.caps.binds.size or not state.caps.binds[row]:
            return order.heads(count, wanted, view)
        found = None if beyond_cap is Beyond.EVERYBODY else _plain_heads(state, row, count, wanted, view=view)
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
            state.non_preemptible_flow()[row],
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
