"""The leader's memory as the API shows it.

Source: design section 3, "Replicas forward calls that need the leader's memory"; section 9.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from argosy_core.errors import BackendUnavailable
from argosy_core.job.identity import compose_id
from argosy_core.job.states import JobStage
from argosy_core.leader.events import Explained
from argosy_core.placement import WaitReason
from argosy_core.scheduler import (
    Explanation,
    PoolShares,
    PoolState,
    dump,
    explain,
    last_choice_job_sets,
    last_round,
    pending_handles,
    shares,
    standings,
)
from argosy_server.api.leadership.leader_view import (
    ClusterGauges,
    NodeGauges,
    RoundGauges,
    ScaledPod,
    StageLatencies,
)
from argosy_server.leader.show.latency import BOUNDS_MS, quantile_ms

if TYPE_CHECKING:
    from argosy_core.nodes import NodeColumns
    from argosy_server.api.leadership.leader_view import LogRequest
    from argosy_server.leader.cycle.driver import LeaderDriver
    from argosy_server.leader.hot import HotSettings
    from argosy_server.leader.sessions.executors import SyncSession
    from argosy_server.leader.sessions.outbox import SessionTable
    from argosy_server.leader.sessions.samplers import SamplerSession
    from argosy_server.leader.show.notes import LeaderNotes

__all__ = ["LeaderMemoryView"]

READY, CORDONED = 1, 2
_FORK_WAIT_S: Final = 2.0
_FORK_POLL_S: Final = 0.002
"""How often it is looked whether a round is over: rounds are some milliseconds apart."""


class LeaderMemoryView:
    """Implements `argosy_server.api.leadership.leader_view.LeaderView` on one leadership's memory."""

    def __init__(
        self,
        driver: LeaderDriver,
        notes: LeaderNotes,
        hot: HotSettings,
        *,
        seed: int,
        samplers: SessionTable[SamplerSession],
        executors: SessionTable[SyncSession],
    ) -> None:
        """View a term."""
        self._driver = driver
        self._machine = driver.machine
        self._notes = notes
        self._hot = hot
        self._seed = seed
        self._samplers = samplers
        self._executors = executors

    def explain(self, handle: int) -> Explanation | None:
        """Return where a job stands, or None for a job that is not in memory."""
        found = explain(self._machine.state, handle, self._driver.clock.now().db_s)
        if found is not None:
            self._driver.feed(Explained())  # the next round asks for counts
        return found

    def standings(self, handles: Sequence[int]) -> dict[int, tuple[JobStage, WaitReason]]:
        """Return where jobs stand and what they wait for, by handle, of those that are in memory."""
        return standings(self._machine.state, np.array(handles, dtype=np.int64))

    def now_s(self) -> float:
        """Return the time by which the memory goes, seconds since the Unix epoch; no machine's own clock says it."""
        return self._driver.clock.now().db_s

    async def fork(self) -> PoolState:
        """Return a copy of the memory as it is between two rounds, to try rounds on.

        Raises:
            BackendUnavailable: One round follows the other.
        """
        until_s = time.monotonic() + _FORK_WAIT_S
        while self._machine.state.round is not None:
            if time.monotonic() > until_s:
                raise BackendUnavailable("the leader does one round after the other; try again in a few seconds")
            await asyncio.sleep(_FORK_POLL_S)
        return self._machine.state.fork()

    def definitions(self, handles: Sequence[int]) -> list[bytes]:
        """Return the definitions of the classes of jobs; empty for those that are not in memory."""
        state = self._machine.state
        slots = state.live.slots(np.array(handles, dtype=np.int64))
        known, classes = state.classes.definitions, state.live.class_index[slots]
        return [known[at] if slot >= 0 else b"" for at, slot in zip(classes.tolist(), slots.tolist(), strict=True)]

    def pending(self) -> list[int]:
        """Return the pending jobs."""
        return pending_handles(self._machine.state)

    def node_columns(self) -> Mapping[str, NodeColumns]:
        """Return the nodes of each cluster as its sampler has told them last."""
        return {name: notes.nodes.columns() for name, notes in self._notes.clusters.items() if notes.capacity}

    def shares(self) -> PoolShares:
        """Return the shares of the pool's queues."""
        return shares(self._machine.state, self._driver.clock.now().db_s)

    def settings(self) -> tuple[HotSettings, int]:
        """Return the settings of rounds, and the version by which the last round was decided."""
        return self._hot, self._machine.settings_version

    def last_round(self) -> RoundGauges:
        """Return what the last round did."""
        machine, clock = self._machine, self._notes.clock
        gauges = last_round(machine.state)
        return RoundGauges(
            round=gauges.round_number,
            epoch=machine.epoch,
            queued_count=gauges.queued_count,
            pending_count=gauges.pending_count,
            leased_count=gauges.leased_count,
            conflict_count=gauges.conflict_count,
            class_count=gauges.class_count,
            phases=tuple(clock.phases_ms.items()),
            totals={**machine.totals, **gauges.totals},
            latencies=tuple(
                StageLatencies(
                    stage=stage,
                    job_count=int(histogram.counts.sum()),
                    p50_ms=quantile_ms(histogram.counts, 0.5),
                    p90_ms=quantile_ms(histogram.counts, 0.9),
                    p99_ms=quantile_ms(histogram.counts, 0.99),
                    bound_ms=tuple(BOUNDS_MS.tolist()),
                    bucket_count=tuple(histogram.counts.tolist()),
                )
                for stage, histogram in clock.latencies.items()
            ),
        )

    def dump(self) -> Iterator[str]:
        """Yield the state as JSON text in chunks to be joined."""
        return dump(self._machine.state, self._driver.clock.now().db_s, seed=self._seed)

    def clusters(self) -> Sequence[ClusterGauges]:
        """Return the clusters the leader knows, in order of their names."""
        gauges = []
        for name, notes in sorted(self._notes.clusters.items()):
            sampler = self._samplers.find(name)
            capacity = notes.capacity
            resources = capacity.resources if capacity is not None else ()
            totals = capacity.total.tolist() if capacity is not None else []
            free = capacity.total_free.tolist() if capacity is not None else []
            uncounted = self._machine.state.clusters.uncounted(name)
            most = {resource: counted for resource, (_, counted) in uncounted.items()}
            gauges.append(
                ClusterGauges(
                    name=name,
                    sampler_connected=sampler is not None and sampler.ready,
                    executor_connected=self._executors.find(name) is not None,
                    node_count=capacity.node_count if capacity is not None else 0,
                    run_count=capacity.placement_count if capacity is not None else 0,
                    total=_at_most(dict(zip(resources, totals, strict=True)), most),
                    free=_at_most(dict(zip(resources, free, strict=True)), most),
                    told={resource: told for resource, (told, _) in uncounted.items()},
                )
            )
        return gauges

    def scaled_pods(self, cluster: str, *, with_history: bool = False) -> Sequence[ScaledPod]:
        """Return a cluster's scaled pods by job, attempt and member; or, oldest first, what they were before.

        Pods of jobs that are not in memory are left out.
        """
        notes = self._notes.clusters.get(cluster)
        if notes is None:
            return ()
        found, live, names = [], self._machine.state.live, self._machine.state.queues.names
        for size, since_s in notes.sizes.history() if with_history else notes.sizes.pods():
            (slot,) = live.slots(np.array(size.key[:1])).tolist()
            if slot >= 0:
                requested, approved, actual = (
                    dict(zip(notes.sizes.resources, one, strict=True))
                    for one in (size.requested, size.approved, size.actual)
                )
                found.append(
                    ScaledPod(
                        job_id=compose_id(int(live.id_high[slot]), size.key[0]),
                        attempt=size.key[1],
                        member=size.key[2],
                        queue=names.get(int(live.queue[slot]), ""),
                        requested=requested,
                        approved=approved,
                        actual=actual,
                        state=size.state,
                        since_s=since_s,
                    )
                )
        return found

    def read_log(self, cluster: str, request: LogRequest) -> AsyncGenerator[bytes, None]:
        """Give a log of a cluster's pod, read by its executor.

        Raises:
            BackendUnavailable: The cluster's executor is not connected.
        """
        return self._executors.require(cluster).logs.read(request)

    def nodes(self, cluster: str) -> Sequence[NodeGauges]:
        """Return a cluster's nodes in order of their names; none if the leader does not know the cluster."""
        notes = self._notes.clusters.get(cluster)
        if notes is None:
            return ()
        cordoned = set(notes.cordoned_nodes)
        last_choice = last_choice_job_sets(self._machine.state, cluster, self._driver.clock.now().db_s)
        return [
            NodeGauges(
                name=node.name,
                allocatable=node.allocatable,
                free=node.free,
                ready=bool(node.flag & READY),
                cordoned=bool(node.flag & CORDONED) or node.name in cordoned,
                labels=node.labels,
                last_choice_for=last_choice.get(node.name, ()),
            )
            for node in notes.nodes.rows()
        ]


def _at_most(amounts: Mapping[str, int], most: Mapping[str, int]) -> dict[str, int]:
    """Return amounts, those that have a bound by it at most."""
    return {name: min(amount, most.get(name, amount)) for name, amount in amounts.items()}
