"""The executor's part for one pool: acts on the cluster as its leader wants and the core decides.

::

    Executor --what was seen of the pool's runs--> Reconciler <--rows, stops, stored-- leader
                                                        |
       cluster <---------creates, deletes, looks--------+-------------states---------> leader

Everything that touches the reconciler runs on one event loop and never across an await, so the core sees one thing
happen at a time.

Source: design section 5, "Sync".
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable

import numpy as np

from argosy_core.arrays import Bools, true_places
from argosy_core.errors import ArgosyError, BackendUnavailable
from argosy_core.framework import Point
from argosy_core.job.tables.members import Members
from argosy_core.reconcile import (
    CreateResponses,
    Creates,
    Deletes,
    Fence,
    Observations,
    PoolClaims,
    Reconciler,
    StartTimeouts,
)
from argosy_executor.binding import bind_batch, create_others
from argosy_executor.cluster_codec import (
    create_responses,
    delete_responses,
    observations,
)
from argosy_executor.config import ExecutorConfig
from argosy_executor.create_traces import create_traces
from argosy_executor.placing import Placer, place_nowhere
from argosy_executor.session import LeaderSession, SessionPorts, read_clock
from argosy_kube.port import Cluster
from argosy_runtime.channel import Caller
from argosy_runtime.log_archives.archive import LogArchive
from argosy_runtime.logs import get_logger
from argosy_runtime.metrics import METRICS
from argosy_runtime.plugins import FaultReporter

__all__ = ["PoolPart"]

_FIRST_GATHER_S = 0.005
"""How long the first news after a pause gathers."""
_IDLE_S = 1.0
"""Longest wait of the acting loop; a fence that closes must show in the metrics."""


class PoolPart:
    """What an executor does for one pool.

    Args:
        config: The executor's configuration.
        cluster: The cluster.
        pool: Number of the pool in the configuration.
        claims: Whose each run is.
        identity: Uid of the cluster, and this process.
        relist: Called when something can be concluded only from a full listing.
        show: Called when what gauges show may have changed.
        archive: Where logs of pods that are gone are, if any are kept.
        placer: Asks the cluster's sampler for nodes.
    """

    def __init__(  # noqa: PLR0913 - each is needed, and made once
        self,
        config: ExecutorConfig,
        cluster: Cluster,
        pool: int,
        *,
        claims: PoolClaims,
        identity: tuple[str, Caller],
        relist: Callable[[], None],
        show: Callable[[], None],
        archive: LogArchive | None = None,
        placer: Placer = place_nowhere,
    ) -> None:
        """Know nothing yet."""
        self._config = config
        self._cluster = cluster
        self._number = pool
        self._claims = claims
        self._relist = relist
        self._show = show
        self._log = get_logger(cluster=config.cluster, pool=config.pools[pool])
        timeouts = StartTimeouts(
            image_s=config.image_timeout_s, pending_s=config.pending_timeout_s, quota_s=config.quota_timeout_s
        )
        self.reconciler = Reconciler(call_timeout_s=config.call_timeout_s, settled_at_s=math.inf, timeouts=timeouts)
        """What is known; others read it only."""
        self.is_fenced = True
        """Whether it may not act now."""
        self._fence = Fence(read_clock().monotonic_s)
        self._framework = config.make_framework()
        self._faults = FaultReporter(self._framework, config.cluster, log=self._log, monotonic=time.monotonic)
        self._news = asyncio.Event()
        self._draining = False
        self._last_step_s = -np.inf
        self._calls = asyncio.Semaphore(config.call_count), asyncio.Semaphore(config.call_count)
        self._looks = asyncio.Semaphore(1)
        self._placer = placer
        self._traces = create_traces(config.cluster)
        self._ports = SessionPorts(
            reconciler=self.reconciler,
            fence=self._fence,
            cluster=cluster,
            pool=config.pools[pool],
            claims=claims,
            wake=self._news.set,
            traces=self._traces,
            archive=archive,
        )
        self._clock = self._ports.clock
        self._created = METRICS.created_objects.labels(config.cluster)
        self._deleted = METRICS.deleted_objects.labels(config.cluster)
        self.session = LeaderSession(config, self._ports, cluster_uid=identity[0], caller=identity[1])
        """The stream to the leader."""

    # --- what is seen ------------------------------------------------------------------------------------------------

    def take_observed(self, observed: Observations) -> None:
        """Take what changed of the pool's objects."""
        self.reconciler.take_observed(observed, self._clock())
        self.tell()

    def take_listing(self, observed: Observations, *, started_s: float) -> None:
        """Take all of the pool's objects that exist, listed from a moment on."""
        self.reconciler.take_listing(observed, started_s=started_s, now=self._clock())
        self.tell()

    def tell(self) -> None:
        """Let the next step and the next report come: something was seen."""
        self._news.set()
        self._ports.observed.set()

    # --- acting ------------------------------------------------------------------------------------------------------

    async def act(self) -> None:
        """Do what the core says until cancelled."""
        async with asyncio.TaskGroup() as calls:
            while True:
                await self._wait_for_news()
                now = self._clock()
                may_act = not self._draining and self._fence.may_act(now.monotonic_s)
                self.is_fenced = not may_act
                self._show()
                if self._calls[0].locked() or self._calls[1].locked():
                    continue
                silent_s = self._fence.silent_s(now.monotonic_s)
                actions = self.reconciler.next_actions(now, may_act=may_act, silent_s=silent_s)
                self._ports.observed.set()
                if actions.creates is not None:
                    await self._calls[0].acquire()
                    calls.create_task(self._create(actions.creates), name="executor: create")
                if actions.deletes is not None:
                    await self._calls[1].acquire()
                    calls.create_task(self._delete(actions.deletes), name="executor: delete")
                unclaimed = self._claims.take_due(now.monotonic_s, may_act=may_act, silent_s=silent_s)
                if unclaimed is not None:
                    await self._calls[1].acquire()
                    calls.create_task(self._delete(unclaimed), name="executor: delete")
                if actions.lookups is not None:
                    calls.create_task(self._look(actions.lookups), name="executor: look")
                if actions.places is not None:
                    calls.create_task(self._place(actions.places), name="executor: place")
                if self.reconciler.wants_listing:
                    self._relist()

    async def _wait_for_news(self) -> None:
        """Return when there may be something to do, at the latest after a second."""
        if not self._news.is_set():
            wake_s = self.reconciler.next_wake_s()
            wait_s = _IDLE_S if wake_s is None else min(max(wake_s - self._clock().monotonic_s, 0.0), _IDLE_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._news.wait()
        # A step costs the same for one piece of news as for a hundred: the first after a pause is taken soon, then they
        # gather.
        since_s = self._clock().monotonic_s - self._last_step_s
        gather_s = self._config.gather_ms / 1000
        await asyncio.sleep(max(gather_s - since_s, min(_FIRST_GATHER_S, gather_s)))
        self._news.clear()
        self._last_step_s = self._clock().monotonic_s

    async def _create(self, creates: Creates) -> None:
        """Create objects and take the answers."""
        span = self._traces.begin(creates) if self._traces is not None else None
        try:
            if self._framework.has(Point.BIND):
                answers = await create_others(creates, await self._bind(creates), self._create_objects)
            else:
                answers = await self._create_objects(creates)
            self._note_held_back(answers)
            self.reconciler.take_create_responses(creates, answers, self._clock())
            self._created.inc(int(answers.exists_column.sum()))
            if self._traces is not None and span is not None:
                self._traces.end(span, creates, answers.exists_column)
        finally:
            self._calls[0].release()
            self.tell()

    async def _create_objects(self, creates: Creates) -> CreateResponses:
        """Have the cluster create objects; return what became of them."""
        result = None
        try:
            async with asyncio.timeout(self._config.call_timeout_s):
                result = await self._cluster.create_objects(creates)
        except (BackendUnavailable, TimeoutError) as error:
            self._log.warning("creates without an answer", object_count=len(creates), reason=str(error))
        return create_responses(creates, result)

    async def _bind(self, creates: Creates) -> tuple[Bools, dict[int, str]]:
        """Ask the plugins, on a thread; what they have not answered in time is put off."""
        try:
            async with asyncio.timeout(self._config.call_timeout_s):
                batch = bind_batch(creates, self._config.installation)
                return await asyncio.to_thread(self._framework.bind, batch)
        except TimeoutError:
            late = "bind plugins have not answered in time"
            return np.zeros(len(creates), np.bool_), dict.fromkeys(range(len(creates)), late)
        finally:
            self._faults.report()

    def _note_held_back(self, answers: CreateResponses) -> None:
        """Say why objects are not made now, and tried again until the timeout."""
        held_back = true_places(answers.later_column)
        if held_back.size:
            text = int(answers.message_column[held_back[0]])
            reason = answers.messages[text] if text >= 0 else ""
            self._log.warning("the cluster takes no such objects now", object_count=held_back.size, reason=reason)
            METRICS.held_back_creates.labels(self._config.cluster).inc(held_back.size)

    async def _delete(self, deletes: Deletes) -> None:
        """Delete objects and take the answers."""
        try:
            result = None
            try:
                async with asyncio.timeout(self._config.call_timeout_s):
                    result = await self._cluster.delete_objects(deletes)
            except (BackendUnavailable, TimeoutError) as error:
                self._log.warning("deletes without an answer", object_count=len(deletes), reason=str(error))
            answers = delete_responses(deletes, result)
            if deletes.slot_column.size:
                self.reconciler.take_delete_responses(deletes, answers, self._clock())
            self._deleted.inc(int(answers.accepted_column.sum()))
        finally:
            self._calls[1].release()
            self.tell()

    async def _look(self, lookups: Creates) -> None:
        """Look for objects by name, one call at a time, and take what is there."""
        async with self._looks:
            started_s, found = self._clock().monotonic_s, None
            try:
                async with asyncio.timeout(self._config.call_timeout_s):
                    found = observations(await self._cluster.find_objects(lookups))
            except (BackendUnavailable, TimeoutError) as error:
                self._log.warning("looking without an answer", object_count=len(lookups), reason=str(error))
            if found is not None and len(found):
                count = len(found)
                self._log.warning("found objects that no list shows; their labels are given back", object_count=count)
            self.reconciler.take_found(lookups, found, started_s=started_s, now=self._clock())
        self.tell()

    async def _place(self, members: Members) -> None:
        """Ask the cluster's sampler for nodes, and take what it says."""
        reply = None
        try:
            async with asyncio.timeout(self._config.call_timeout_s):
                reply = await self._placer(self._config.pools[self._number], members)
        except (ArgosyError, TimeoutError) as error:
            reason = str(error) or "no answer in time"
            self._log.warning("the sampler does not place", run_count=len(members), reason=reason)
        self.reconciler.take_place_response(members, reply, self._clock())
        self.tell()

    # --- leaving -----------------------------------------------------------------------------------------------------

    async def drain(self) -> None:
        """Give out no more actions, and return once every call is answered and every state stored; pods go on."""
        self._draining = True
        for calls in self._calls:
            for _ in range(self._config.call_count):
                await calls.acquire()
        while not self.reconciler.all_stored:
            self._ports.stored.clear()
            await self._ports.stored.wait()
