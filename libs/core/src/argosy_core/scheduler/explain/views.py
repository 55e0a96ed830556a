"""Views for people: where a job stands and why; `shares` says who has what, `dump` everything.

Source: design section 9; seed 004 (explanations).
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Final

import numpy as np

from argosy_core.arrays import Int64s
from argosy_core.backfill import PromiseKind
from argosy_core.job.reading.after import AfterUntil
from argosy_core.job.states import JobStage, JobState
from argosy_core.job.tables.live import AWAITING, BACKING_OFF, HELD, IN_FLIGHT, PENDING
from argosy_core.job.tables.members import place_of
from argosy_core.nodes import ANY_NODE
from argosy_core.placement import WaitReason
from argosy_core.scheduler.explain.explanation import (
    ClusterReason,
    Explanation,
    FilterCount,
    ToldPromise,
    filter_counts,
)
from argosy_core.scheduler.explain.outlook import (
    payback_texts,
    queue_standing,
    start_band,
    turn_texts,
)
from argosy_core.scheduler.memory.flows import advance_flows
from argosy_core.scheduler.memory.promised import BrokenBy, GatheredNodes
from argosy_core.scheduler.memory.replacing import vacant_members
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.turns.asking import reasons_at
from argosy_core.scheduler.turns.limits import find_limit, held_back
from argosy_core.scheduler.turns.shares import is_capacity_known

__all__ = [
    "count_waiting",
    "explain",
    "last_choice_job_sets",
    "pending_handles",
    "stage_of",
    "stage_text",
    "standings",
]

_NAMED_MEMBERS: Final = 8
_TELLING: Final = (
    WaitReason.PROMISED,
    WaitReason.NO_ROOM,
    WaitReason.RETURNED,
    WaitReason.FAULT,
    WaitReason.PLUGIN,
    WaitReason.MISMATCH,
    WaitReason.CORDONED,
)
"""Which of several clusters' reasons is told for the job: the one that is nearest to its end, first."""
_REASONS: Final = {
    WaitReason.MISMATCH: "no node of any cluster can ever hold it",
    WaitReason.NO_ROOM: "every node that could hold it is full now",
    WaitReason.PLUGIN: "a plugin objects",
    WaitReason.PROMISED: "what is free is promised to jobs that come first",
    WaitReason.FAULT: "a filter failed and is asked again soon",
    WaitReason.HELD: "it is held until it is released",
    WaitReason.CORDONED: "every cluster is cordoned",
    WaitReason.AWAY: "no cluster is heard",
    WaitReason.RETURNED: "every cluster that might hold it has returned it",
}
_BROKEN: Final = {
    BrokenBy.CAPACITY: "the node is gone, or too small by now",
    BrokenBy.LATE: "what ran on the node took longer than was known",
    BrokenBy.SHARE: "a queue below its share got the node",
}


def explain(state: PoolState, handle: int, now_s: float) -> Explanation | None:
    """Return where a live job stands; None if it is not live here.

    If it waits, the next round asks every usable cluster for complete counts of its class: ask again after it for
    the freshest answer.

    Args:
        state: The pool.
        handle: Job handle.
        now_s: Now.

    Complexity: O(jobs of its queue) in NumPy.
    """
    live, queues = state.live, state.queues
    slot = int(state.live.slots(np.array([handle], dtype=np.int64))[0])
    if slot < 0:
        return None
    one = np.array([slot], dtype=np.int32)
    advance_flows(state, now_s)
    stage = stage_of(state, slot)
    queue, class_index = int(live.queue[slot]), int(live.class_index[slot])
    waits = stage <= JobStage.PENDING
    if waits:
        state.explained.add(class_index)
    filters, examined, nearest = _reasons(state, class_index)
    position = queues.orders[queue].position(state.entries(one)) if waits else 0
    objection = state.objections.get(handle, "")
    reason = _reason(state, slot) if waits or objection else WaitReason.NONE
    cluster_reasons = _cluster_reasons(state, class_index) if waits else ()
    standing = queue_standing(state, queue)
    least = min([standing.flow_per_weight, *(one.flow_per_weight for one in standing.first_before)])
    start = start_band(state, slot, position=position, reason=reason, now_s=now_s) if waits else None
    constraint = "its queue is cordoned" if queues.cordoned[queue] else find_limit(state, slot)[1]
    causes = _wait_texts(reason, objection, cluster_reasons, constraint=constraint) if waits else []
    is_known = is_capacity_known(state)
    if waits and is_known and reason == WaitReason.NONE:
        causes += turn_texts(standing)
    if waits and reason in {WaitReason.NONE, WaitReason.NO_ROOM, WaitReason.PROMISED}:
        causes += payback_texts(standing)
    why = "; ".join(causes)
    return Explanation(
        stage=stage,
        summary="; ".join(
            [
                f"{stage_text(stage)} with {position:,} job{'' if position == 1 else 's'} of its queue before it",
                *([why] if why else []),
                *_dependency_texts(state, handle),
                *(["runs are stopped to make room for it"] if handle in state.room.nominated else []),
                *_back_off_texts(state, slot, now_s),
                *_promise_texts(state, handle, now_s),
                *_gathered_texts(state, handle),
            ]
        )
        if waits
        else _place_text(state, slot, stage)
        + (f"; held back by {objection}" if objection else "")
        + _vacancy_text(state, slot, now_s)
        + (f"; preempted: {state.room.preempted[handle]}" if handle in state.room.preempted else ""),
        why=why,
        queue_position=position,
        reason=reason,
        cluster_reasons=cluster_reasons,
        objection=objection,
        filters=filters,
        examined_node_count=examined,
        nearest_miss=nearest,
        failed_attempt_count=int(live.failed_attempts[slot]),
        queue_flow_per_weight=standing.flow_per_weight,
        least_flow_per_weight=least,
        last_choice_nodes=_last_choice_nodes(state, slot, now_s),
        promise=_told_promise(state, handle) if waits else None,
        standing=standing if waits and is_known else None,
        start=start,
    )


def standings(state: PoolState, handles: Int64s) -> dict[int, tuple[JobStage, WaitReason]]:
    """Return where live jobs stand and what they wait for, by handle; those that are not live here are left out.

    Complexity: O(jobs asked for); the reason is found once for those that wait alike.
    """
    live = state.live
    found: dict[int, tuple[JobStage, WaitReason]] = {}
    alike: dict[tuple[int, ...], WaitReason] = {}
    for handle, slot in zip(handles.tolist(), live.slots(handles).tolist(), strict=True):
        if slot < 0:
            continue
        stage, reason = stage_of(state, slot), WaitReason.NONE
        if stage <= JobStage.PENDING:
            kind: tuple[int, ...] = (int(live.flags[slot]), int(live.queue[slot]), int(live.class_index[slot]))
            if kind[1] in state.job_set_limits.queues:
                kind += (int(live.job_set[slot]), int(live.job_set_limit[slot]))
            if handle in state.objections:
                reason = _reason(state, slot)
            else:
                reason = alike[kind] if kind in alike else alike.setdefault(kind, _reason(state, slot))
        found[handle] = (stage, reason)
    return found


def pending_handles(state: PoolState) -> list[int]:
    """Return the pending jobs, ascending.

    Complexity: O(pending jobs) in NumPy.
    """
    live, slots = state.live, np.unique(state.pending_slots())
    flags = live.flags[slots]
    handles: list[int] = np.sort(live.handle[slots[(flags & PENDING != 0) & (flags & IN_FLIGHT == 0)]]).tolist()
    return handles


def _gathered_texts(state: PoolState, handle: int) -> list[str]:
    gathered = state.promises.gathered.get(handle)
    if gathered is None:
        return []
    where = f"{len(gathered.nodes)} nodes of {state.clusters.names[gathered.cluster]}"
    return [f"{where} are kept for it until all its pods fit"]


def _told_promise(state: PoolState, handle: int) -> ToldPromise | None:
    """Return what a job was promised."""
    promise = state.promises.given_to(handle)
    if promise is None:
        return None
    cluster, names = state.clusters.names[promise.cluster], state.clusters.nodes[promise.cluster].names
    node = promise.nodes[0] if isinstance(promise, GatheredNodes) else names[promise.node]
    is_firm = promise.kind == PromiseKind.FIRM
    return ToldPromise(moment_s=promise.moment_s, is_firm=is_firm, node=f"{cluster}/{node}")


def _promise_texts(state: PoolState, handle: int, now_s: float) -> list[str]:
    """Return what a job was promised, and why an earlier promise was broken."""
    promise, broken = _told_promise(state, handle), state.promises.broken.get(handle)
    texts = [f"a promise to it was broken: {_BROKEN[broken]}"] if broken is not None else []
    if promise is not None:
        how = "by the time limits of" if promise.is_firm else "as far as is known of"
        left_s = max(0.0, promise.moment_s - now_s)
        texts.append(f"promised a start on {promise.node} in {left_s:.0f} s at the latest, {how} what runs there")
    return texts


def _last_choice_nodes(state: PoolState, slot: int, now_s: float) -> tuple[str, ...]:
    """Return the nodes that are the last choice for a job."""
    live, failures = state.live, state.node_failures
    failures.expire(now_s)
    job_set_id = int(state.job_sets.job_set_id[live.job_set[slot]])
    found = failures.nodes(job_set_id, int(state.classes.class_id[live.class_index[slot]]))
    return tuple(sorted(f"{state.clusters.names[at]}/{state.clusters.nodes[at].names[node]}" for at, node in found))


def last_choice_job_sets(state: PoolState, cluster: str, now_s: float) -> dict[str, tuple[str, ...]]:
    """Return for which job sets, as `queue/job set`, nodes of a cluster are the last choice, by name of the node."""
    state.node_failures.expire(now_s)
    sets, queues, index = state.job_sets, state.queues, state.clusters.find(cluster)
    found: dict[str, set[str]] = {}
    for job_set_id, _, (at, node) in state.node_failures.all_nodes():
        job_set = sets.ids.find(job_set_id)
        queue = queues.ids.find(int(sets.queue_id[job_set])) if job_set is not None else None
        if at == index and job_set is not None and queue is not None:
            name = f"{queues.names[queue]}/{sets.names[job_set]}"
            found.setdefault(state.clusters.nodes[at].names[node], set()).add(name)
    return {node: tuple(sorted(names)) for node, names in found.items()}


def stage_of(state: PoolState, slot: int) -> JobStage:
    """Return a job's stage."""
    flags = int(state.live.flags[slot])
    if flags & IN_FLIGHT:
        return JobStage.IN_FLIGHT
    if flags & PENDING:
        return JobStage.PENDING
    return JobStage[JobState(int(state.live.state[slot])).name]


def stage_text(stage: JobStage) -> str:
    """Return what people are told of a stage."""
    return stage.name.lower().replace("_", " ")


def _vacancy_text(state: PoolState, slot: int, now_s: float) -> str:
    """Return which members of a run wait to be placed anew, and why they wait."""
    vacancy = state.vacancies.get(int(state.live.handle[slot]))
    if vacancy is None:
        return ""
    places = sorted(place_of(vacant_members(state, slot).numbers).tolist())
    named = ", ".join(map(str, places[:_NAMED_MEMBERS])) + (" and more" if len(places) > _NAMED_MEMBERS else "")
    left_s = max(0.0, vacancy.due_s - now_s)
    why = f": {vacancy.text}" if vacancy.text else ""
    return f"; member {named} is lost and is placed anew, tried next in {left_s:.0f} s{why}"


def _place_text(state: PoolState, slot: int, stage: JobStage) -> str:
    """Return where the run of a job is."""
    cluster = int(state.live.cluster[slot])
    node = state.clusters.nodes[cluster].names[int(state.live.node[slot])]
    attempt = int(state.live.attempt[slot])
    if node == ANY_NODE:
        where = f"cluster {state.clusters.names[cluster]}, which has not chosen its node yet"
        return f"{stage_text(stage)} to {where}, attempt {attempt}"
    return f"{stage_text(stage)} on node {node} of cluster {state.clusters.names[cluster]}, attempt {attempt}"


def _wait_texts(
    reason: WaitReason, objection: str, clusters: tuple[ClusterReason, ...], *, constraint: str
) -> list[str]:
    """Return why a job waits: for all clusters, and what plugins and failed filters said at single ones."""
    told = [f"{one.cluster}: {one.text}" for one in clusters if one.text]
    if constraint and reason in {WaitReason.CORDONED, WaitReason.LIMIT, WaitReason.RATE}:
        return [constraint, *told]
    if reason == WaitReason.HELD:
        return [_REASONS[reason]]
    if reason == WaitReason.DEPENDENCY:
        return []
    if objection:
        return [f"turned away by {objection}", *told]
    return [_REASONS[reason], *told] if reason in _REASONS else told


def _dependency_texts(state: PoolState, handle: int) -> list[str]:
    """Return how many jobs a job waits for."""
    waits = state.dependencies.progress(handle)
    if waits is None:
        return []
    left, count, until = waits
    what = "succeeded" if until is AfterUntil.SUCCEEDED else "ended"
    return [f"waits for {left} of {count} jobs that have not {what} yet"]


def _back_off_texts(state: PoolState, slot: int, now_s: float) -> list[str]:
    """Return when a job that backs off is tried again."""
    if not state.live.flags[slot] & BACKING_OFF:
        return []
    handle, failed = int(state.live.handle[slot]), int(state.live.failed_attempts[slot])
    until_s = max((moment for moment, other in state.back_off if other == handle), default=0.0)
    if until_s <= now_s:
        return []
    what = f"{failed} conflicts" if failed else f"{int(state.live.failures[slot])} failed runs"
    moment = datetime.fromtimestamp(until_s, UTC)
    return [f"backs off until {moment:%H:%M:%S} UTC, for {until_s - now_s:.1f} s more, after {what}"]


def _reason(state: PoolState, slot: int) -> WaitReason:
    """Return why a job waits that is queued or held back."""
    if state.live.flags[slot] & HELD and not state.live.flags[slot] & IN_FLIGHT:
        return WaitReason.HELD
    if state.live.flags[slot] & AWAITING and not state.live.flags[slot] & IN_FLIGHT:
        return WaitReason.DEPENDENCY
    if int(state.live.handle[slot]) in state.objections:
        return WaitReason.PLUGIN
    if state.queues.cordoned[state.live.queue[slot]]:
        return WaitReason.CORDONED
    limit = find_limit(state, slot)[0]
    if limit != WaitReason.NONE:
        return limit
    if state.live.flags[slot] & BACKING_OFF:
        return WaitReason.CONFLICT if state.live.failed_attempts[slot] else WaitReason.BACK_OFF
    return WaitReason(int(_class_reasons(state, state.live.class_index[slot : slot + 1].astype(np.int64))[0]))


def _class_reasons(state: PoolState, classes: Int64s) -> Int64s:
    """Return why classes get no node of any cluster; NONE if one may be asked."""
    at = reasons_at(state, classes)
    result = np.full(classes.size, int(WaitReason.AWAY), dtype=np.int64)
    for reason in reversed(_TELLING):
        result[(at == reason).any(axis=1)] = int(reason)
    result[(at == WaitReason.NONE).any(axis=1)] = int(WaitReason.NONE)
    return result


def _cluster_reasons(state: PoolState, class_index: int) -> tuple[ClusterReason, ...]:
    """Return why clusters have no node for a class."""
    reasons = reasons_at(state, np.array([class_index]))[0].tolist()
    answers = [state.answers.get((class_index, cluster)) for cluster in range(len(reasons))]
    return tuple(
        ClusterReason(
            cluster=name,
            reason=WaitReason(reason),
            text=answer.text if answer is not None else "",
            filters=filter_counts(answer.filters, answer.filter_texts, answer.rejections) if answer is not None else (),
            examined_node_count=answer.examined_count if answer is not None else 0,
        )
        for name, reason, answer in zip(state.clusters.names, reasons, answers, strict=True)
        if reason
    )


def count_waiting(state: PoolState) -> dict[WaitReason, int]:
    """Return how many queued jobs wait for which reason; NONE are those that wait for their turn.

    Jobs in flight that plugins hold back count, too; held ones that wait for others as well count for these, and those
    that no node can ever hold for that, whatever limit is reached. Jobs that
    back off, jobs of cordoned queues, and those that caps or amounts hold back, count by their class's reason: finding
    them would mean to look at every job.

    Complexity: O(classes x clusters) in NumPy; as `held_back`.
    """
    waiting = state.classes.waiting_count[: state.classes.ids.end]
    classes = np.flatnonzero(waiting)
    reasons = _class_reasons(state, classes)
    sums = np.bincount(reasons, weights=waiting[classes], minlength=max(WaitReason) + 1)
    for reason, slots in held_back(state).items():
        counts = np.bincount(state.live.class_index[slots], minlength=waiting.size)[classes]
        counts[reasons == WaitReason.MISMATCH] = 0  # the end of the limit would not help them
        sums -= np.bincount(reasons, weights=counts, minlength=sums.size)
        sums[reason] += counts.sum()
    objected = state.live.slots(np.fromiter(state.objections, dtype=np.int64, count=len(state.objections)))
    sums[WaitReason.DEPENDENCY] = len(state.dependencies)
    sums[WaitReason.HELD] = max(int(state.queues.on_hold_count.sum()) - len(state.dependencies), 0)
    sums[WaitReason.PLUGIN] += np.count_nonzero(state.live.flags[objected] & IN_FLIGHT)
    return {reason: int(sums[reason]) for reason in WaitReason}


def _reasons(state: PoolState, class_index: int) -> tuple[tuple[FilterCount, ...], int, str]:
    """Return counts per filter over all clusters, nodes looked at, and the nearest miss."""
    counts: Counter[str] = Counter()
    texts: dict[str, str] = {}
    examined, nearest = 0, ""
    for (answered, cluster), answer in state.answers.items():
        if answered == class_index:
            counts.update(dict(zip(answer.filters, answer.rejections, strict=False)))
            texts.update(zip(answer.filters, answer.filter_texts, strict=True))
            examined += answer.examined_count
            nearest = nearest or (
                f"{state.clusters.names[cluster]}: {answer.nearest_miss}" if answer.nearest_miss else ""
            )
    found = filter_counts(tuple(counts), tuple(texts[name] for name in counts), tuple(counts.values()))
    return found, examined, nearest
