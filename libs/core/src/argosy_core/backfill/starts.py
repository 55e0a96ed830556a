"""Which waiting jobs start now, where, and who is promised what.

::

    promised jobs that have room -> jobs in turn until one has no room -> a promise -> jobs that delay no promise

A promise stands until its job starts, leaves, or turns out to have been wrong: whoever was promised a start is not put
off by jobs that come later. One node carries one promise at a time.

Without slack, the promised moment is the earliest there was, and the promised job the next to start. With slack it is
later, and until then the promised job takes its turn like all others: at each decision the job whose turn it is holds a
reservation of its own, as long as that decision.

Source: 003 "Scheduler architecture"; design section 5, "Round" 5; section 7, invariant 13.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from argosy_core.arrays import Bools, Float64s, Int32s, Int64s
from argosy_core.backfill.order import SUBMIT_ORDER, OrderPolicy, choose_head
from argosy_core.backfill.profile import Releases, find_earliest
from argosy_core.backfill.promises import Promise, PromiseKind, Reservations
from argosy_core.errors import InvalidRequest

__all__ = ["BackfillPolicy", "RunningWork", "Starts", "WaitingWork", "choose_starts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillPolicy:
    """How jobs stand in order, who is promised a start, and who fills what is left."""

    turns: OrderPolicy = SUBMIT_ORDER
    """Whose turn it is, and so who is promised a start."""
    passing: OrderPolicy = SUBMIT_ORDER
    """In which order jobs fill what promises leave."""
    head_choice: int = 1
    """Among so many jobs whose turn it is the largest is promised a start; 1 is strict order."""
    promise_count: int = 1
    """Promises that stand at once, at most; 0 gives none."""
    slack_ratio: float = 0.0
    """A firm promise's moment is later than the earliest by so many times what is left until then. Above 0, who comes
    later and has its turn earlier goes first as long as no promise is broken."""

    def __post_init__(self) -> None:
        """Refuse what means nothing.

        Raises:
            InvalidRequest: A value is out of its range.
        """
        if self.head_choice < 1 or self.promise_count < 0 or not 0 <= self.slack_ratio < np.inf:
            raise InvalidRequest("head_choice must be 1 or more, promise_count and slack_ratio 0 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningWork:
    """What runs; n pieces, r resources."""

    node: Int32s
    """(n,) row of the node of each."""
    demand: Int64s
    """(n, r) what each holds, base units."""
    firm_end_s: Float64s
    """(n,) when each is over at the latest: its time limit, or when it may be preempted; infinite without."""
    expected_end_s: Float64s
    """(n,) when each is expected to end; infinite if nothing is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingWork:
    """What waits; n jobs, each for one node, r resources."""

    job: Int64s
    """(n,) handles, each once."""
    demand: Int64s
    """(n, r) what each needs, base units; whole nodes need all that a node has."""
    size: Float64s
    """(n,) what each needs as one number above 0: what its order goes by."""
    submit_s: Float64s
    """(n,) submission, seconds since the Unix epoch."""
    limit_s: Float64s
    """(n,) after how long each is over at the latest, or may be preempted, seconds; infinite without."""
    estimate_s: Float64s
    """(n,) how long each is expected to run, seconds; infinite if nothing is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Starts:
    """A decision; s jobs start."""

    rows: Int32s
    """(s,) which of the waiting jobs start, in the order in which they were chosen."""
    nodes: Int32s
    """(s,) row of the node of each."""
    promises: tuple[Promise, ...]
    """Promises that stand now."""
    broken: tuple[Promise, ...]
    """Promises that could not be kept any more, as they were; each was given anew where that is possible."""


@dataclass(slots=True)
class _Pool:
    """A table of nodes while jobs are being started."""

    now_s: float
    free: Int64s
    running: RunningWork
    waiting: WaitingWork
    policy: BackfillPolicy
    is_waiting: Bools
    rows: list[int] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)
    begun: int = 0
    """How many of those started are among the running."""
    standing: list[Promise] = field(default_factory=list)
    reserved: Reservations = field(default_factory=lambda: Reservations([], 0))
    """What the standing promises leave."""
    turn: Reservations = field(default_factory=lambda: Reservations([], 0))
    """What the job whose turn it is leaves in this decision, beside what is promised."""

    def ends(self, rows: Int64s) -> tuple[Float64s, Float64s]:
        """Return when jobs would end at the latest, and when they are expected to, if they start now."""
        firm = self.now_s + self.waiting.limit_s[rows]
        return firm, np.minimum(firm, self.now_s + self.waiting.estimate_s[rows])

    def start(self, row: int, node: int) -> None:
        """Start a job; a promise to it has been kept then."""
        demand, job = self.waiting.demand[row], int(self.waiting.job[row])
        firm, expected = self.ends(np.array([row]))
        self.free[node] -= demand
        self.is_waiting[row] = False
        self.rows.append(row)
        self.nodes.append(node)
        if any(promise.job == job for promise in self.standing):
            self.standing = [promise for promise in self.standing if promise.job != job]
            self.reserve()
            return
        for reserved in (self.reserved, self.turn):
            reserved.take(demand, float(firm[0]), float(expected[0]), node=node)

    def reserve(self) -> None:
        """Reserve what the standing promises name."""
        self.reserved = self.reservations(self.standing)

    def reservations(self, promises: list[Promise]) -> Reservations:
        """Return what promises leave."""
        places = [(promise, int(promise.nodes[0]), self.spare(promise)) for promise in promises]
        return Reservations(places, self.free.shape[1])

    def may_pass(self, rows: Int64s, node: int) -> Bools:
        """Return which jobs may start on a node as far as others have reserved it."""
        demand, (firm, expected) = self.waiting.demand[rows], self.ends(rows)
        passing = np.ones(rows.size, dtype=np.bool_)
        for reserved in (self.reserved, self.turn):
            passing &= reserved.may_pass(demand, firm, expected, node=node)
        # With one promise a node, what is reserved on a job's own node is its own, or gives way to it.
        own = [promise.job for promise in self.standing if promise.nodes[0] == node]
        return np.asarray(passing | np.isin(self.waiting.job[rows], own))

    def reserved_nodes(self) -> list[int]:
        """Return the rows of nodes on which anything is reserved."""
        return sorted({*self.reserved.node.tolist(), *self.turn.node.tolist()})

    def find_node(self, row: int) -> int:
        """Return the node on which a job may start now and leaves least, -1 if there is none."""
        demand = self.waiting.demand[row]
        fits = (self.free >= demand).all(axis=1)
        for node in self.reserved_nodes():
            fits[node] = fits[node] and self.may_pass(np.array([row]), node)[0]
        found = np.flatnonzero(fits)
        if found.size < 2:
            return int(found[0]) if found.size else -1
        left = (self.free[found] - demand) / np.maximum(self.free.max(axis=0), 1)
        return int(found[np.argmin(left.sum(axis=1))])

    def may_start(self, rows: Int64s) -> Bools:
        """Return which jobs may have room; False is certain."""
        demand, nodes = self.waiting.demand[rows], self.reserved_nodes()
        others = np.ones(len(self.free), dtype=np.bool_)
        others[nodes] = False
        fits = np.zeros(rows.size, dtype=np.bool_)
        if others.any():
            fits = (demand <= self.free[others].max(axis=0)).all(axis=1)
        for node in nodes:
            fits |= (demand <= self.free[node]).all(axis=1) & self.may_pass(rows, node)
        return fits

    def releases(self, kind: PromiseKind) -> Releases:
        """Return what comes free, of what started just now, too."""
        if self.begun < len(self.rows):
            rows = np.array(self.rows[self.begun :], dtype=np.int64)
            firm, expected = self.ends(rows)
            self.running = RunningWork(
                node=np.append(self.running.node, np.array(self.nodes[self.begun :], dtype=np.int32)),
                demand=np.concatenate([self.running.demand, self.waiting.demand[rows]]),
                firm_end_s=np.append(self.running.firm_end_s, firm),
                expected_end_s=np.append(self.running.expected_end_s, expected),
            )
            self.begun = len(self.rows)
        is_firm = kind == PromiseKind.FIRM
        end_s = self.running.firm_end_s if is_firm else self.running.expected_end_s
        return Releases(node=self.running.node, amount=self.running.demand, end_s=end_s)

    def promise(self, row: int, others: list[Promise]) -> Promise | None:
        """Return the earliest promise for a job on nodes that carry no other: firm if it can be, else expected."""
        free, demand = self.free, self.waiting.demand[row]
        if others:
            free = free.copy()
            free[[int(promise.nodes[0]) for promise in others]] = np.iinfo(np.int64).min // 2
        for kind in PromiseKind:
            found = find_earliest(free, self.releases(kind), demand, now_s=self.now_s)
            if found is not None:
                job, moment_s = int(self.waiting.job[row]), found.moment_s
                return Promise(job=job, kind=kind, moment_s=moment_s, nodes=found.nodes, demand=demand)
        return None

    def late(self, promise: Promise) -> Promise:
        """Return a promise with the slack that firm ones have."""
        if promise.kind != PromiseKind.FIRM:
            return promise
        return replace(promise, moment_s=promise.moment_s + self.policy.slack_ratio * (promise.moment_s - self.now_s))

    def spare(self, promise: Promise) -> Int64s:
        """Return (r,) what is left at the promised moment on the promised node; below 0 if it cannot be kept."""
        node = int(promise.nodes[0])
        coming = self.releases(promise.kind).free_at(node, promise.moment_s)
        spare: Int64s = self.free[node] + coming - promise.demand
        return spare

    def in_order(self, order: OrderPolicy) -> Int64s:
        """Return the jobs that wait, in an order."""
        waiting, rows = self.waiting, np.flatnonzero(self.is_waiting)
        ordered = order.order(self.now_s - waiting.submit_s[rows], waiting.estimate_s[rows], waiting.size[rows])
        return np.asarray(rows[ordered], dtype=np.int64)


def choose_starts(
    now_s: float,
    *,
    free: Int64s,
    running: RunningWork,
    waiting: WaitingWork,
    promises: tuple[Promise, ...] = (),
    policy: BackfillPolicy | None = None,
) -> Starts:
    """Return which jobs start now, and the promises that stand then.

    No job that starts delays what is promised: at a firm promise's moment its node has room if all work ends by its
    limit and no capacity is lost, whatever starts until then.

    Args:
        now_s: Now, seconds since the Unix epoch.
        free: (m, r) what is free on each node, base units; not changed.
        running: What runs on them. Work past its end is to be given a later one, or counts as just ending.
        waiting: What waits, in submit order.
        promises: Those of the last decision.
        policy: Order and promises; by default submit order and one promise.

    Complexity: O(n log n) in NumPy for n jobs and pieces of work, and O(nodes) for each job that may have room.
    """
    is_waiting = np.ones(waiting.job.size, dtype=np.bool_)
    pool = _Pool(now_s, free.copy(), running, waiting, policy or BackfillPolicy(), is_waiting)
    broken = _keep(pool, promises)
    if pool.policy.slack_ratio or not pool.standing or len(pool.standing) < pool.policy.promise_count:
        _take_turns(pool)
    rows = pool.in_order(pool.policy.passing)
    for row in rows[pool.may_start(rows)].tolist():
        node = pool.find_node(row)
        if node >= 0:
            pool.start(row, node)
    return Starts(
        rows=np.array(pool.rows, dtype=np.int32),
        nodes=np.array(pool.nodes, dtype=np.int32),
        promises=tuple(pool.standing),
        broken=tuple(broken),
    )


def _keep(pool: _Pool, promises: tuple[Promise, ...]) -> list[Promise]:
    """Start the promised jobs that are due and have room, keep what can be kept, and return the promises that cannot.

    What is only expected is promised anew where it has become earlier.
    """
    broken: list[Promise] = []
    row_of = {promise.job: np.flatnonzero(pool.waiting.job == promise.job).tolist() for promise in promises}
    promises = tuple(promise for promise in promises if row_of[promise.job])
    for promise in promises:
        row, node = row_of[promise.job][0], int(promise.nodes[0])
        is_due = not pool.policy.slack_ratio or promise.moment_s <= pool.now_s
        if is_due and (pool.free[node] >= promise.demand).all():
            pool.start(row, node)
            continue
        is_kept = bool((pool.spare(promise) >= 0).all()) and promise.moment_s > pool.now_s
        again = None
        if not is_kept or promise.kind == PromiseKind.EXPECTED:
            again = pool.promise(row, [one for one in promises if one is not promise])
        if not is_kept:
            broken.append(promise)
            pool.standing += [pool.late(again)] if again is not None else []
        else:
            is_earlier = again is not None and again.moment_s < promise.moment_s
            pool.standing.append(again if again is not None and is_earlier else promise)
    pool.reserve()
    return broken


def _take_turns(pool: _Pool) -> None:
    """Start jobs in turn until one has no room, and promise starts to the largest of those whose turn it then is."""
    policy = pool.policy
    rows = pool.in_order(policy.turns)
    stopped = rows.size
    for position, row in enumerate(rows.tolist()):
        node = pool.find_node(row)
        if node < 0:
            stopped = position
            break
        pool.start(row, node)
    left = rows[stopped : stopped + policy.head_choice + policy.promise_count]
    left = left[[not (pool.free >= pool.waiting.demand[row]).all(axis=1).any() for row in left.tolist()]]
    if policy.slack_ratio and left.size:
        turn = pool.promise(int(left[choose_head(pool.waiting.size[left], policy.head_choice)]), [])
        pool.turn = pool.reservations([turn] if turn is not None else [])
    left = left[~np.isin(pool.waiting.job[left], [promise.job for promise in pool.standing])]
    while left.size and len(pool.standing) < policy.promise_count:
        chosen = choose_head(pool.waiting.size[left], policy.head_choice)
        promise = pool.promise(int(left[chosen]), pool.standing)
        left = np.delete(left, chosen)
        if promise is not None:
            pool.standing.append(pool.late(promise))
            pool.reserve()
