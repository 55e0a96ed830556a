"""The executor at work: watches the cluster, and acts on it for the leader of each pool.

::

    cluster --events, listings--> claims --> a part per pool <--rows, stops, stored-- its leader
       ^                                           |
       +-------------creates, deletes, looks-------+----------------states----------> its leader

There is one watch of the cluster. Which pool a run is of, and in which namespace it lives, its row says; what was seen
of runs without a row is held back. Everything runs on one event loop and never across an await, so the core sees one
thing happen at a time.

Source: design section 5, "Sync"; seed 000, several leaders on one cluster.
"""

from __future__ import annotations

import asyncio
import math
from functools import partial

import numpy as np

from argosy_core.errors import BackendUnavailable
from argosy_core.reconcile import PoolClaims
from argosy_executor.cluster_codec import observations
from argosy_executor.config import ExecutorConfig
from argosy_executor.log_shipping import LogShipper
from argosy_executor.placing import Placer, open_sampler, place_nowhere
from argosy_executor.pool_part import PoolPart
from argosy_executor.session import read_clock
from argosy_kube.following import Follower
from argosy_kube.port import Cluster, ObjectEvents, Selector
from argosy_runtime.channel import Backoff, Caller
from argosy_runtime.log_archives.opening import open_archive
from argosy_runtime.logs import get_logger
from argosy_runtime.metrics import METRICS

__all__ = ["Executor"]

_MOST_NAMES = 10
"""Kinds that a line of the log names."""


class Executor:
    """One cluster's executor.

    Args:
        config: Its configuration.
        cluster: The cluster.
        cluster_uid: Uid of the cluster.
        placer: Asks the cluster's sampler for nodes; the configured one if not given.
    """

    def __init__(
        self, config: ExecutorConfig, cluster: Cluster, *, cluster_uid: str, placer: Placer | None = None
    ) -> None:
        """Know nothing yet."""
        self._cluster = cluster
        self._pools = config.pools
        self._log = get_logger(cluster=config.cluster)
        self._listed = asyncio.Event()
        self._asked_s = -math.inf
        self._fenced, self._known = METRICS.fenced.labels(config.cluster), METRICS.known_runs.labels(config.cluster)
        self._hidden = METRICS.unlistable_objects.labels(config.cluster)
        self._unlistable_kinds: tuple[str, ...] = ()
        self._unlistable_count = 0
        self._shown: tuple[bool, int, int] | None = None
        self._follower = Follower(
            self._list,
            partial(cluster.watch_objects, Selector.OURS),
            take_list=self._take_listing,
            take=self._take_observed,
            tell=self._tell_unavailable,
            waits=Backoff(rng=np.random.default_rng()),
            relist_s=config.relist_s,
        )
        self._archive = open_archive(config.log_archive, cluster=config.cluster)
        self._shipper = (
            LogShipper(cluster, self._archive, config.log_archive, name=config.cluster)
            if self._archive is not None
            else None
        )
        self._claims = PoolClaims()
        identity = cluster_uid, Caller()
        self._sampler = open_sampler(config) if placer is None else None
        placer = placer or (self._sampler.place if self._sampler is not None else place_nowhere)
        self.parts = tuple(
            PoolPart(
                config,
                cluster,
                number,
                claims=self._claims,
                identity=identity,
                relist=self._follower.relist,
                show=self._show,
                archive=self._archive,
                placer=placer,
            )
            for number in range(len(config.pools))
        )
        """What it does for each pool, in the order of the configuration."""
        self._have_rows = [part.reconciler.have_rows for part in self.parts]

    async def wait_until_listed(self) -> None:
        """Return once the cluster was listed for the first time."""
        await self._listed.wait()

    async def check(self) -> None:
        """Return if it can do its work now: each pool's leader hears it, and the cluster answers.

        Raises:
            BackendUnavailable: It cannot; which of both it lacks.
        """
        for part, pool in zip(self.parts, self._pools, strict=True):
            if not part.session.is_connected:
                raise BackendUnavailable(f"there is no session with the leader of pool {pool}")
        await self._cluster.cluster_uid()

    async def act(self) -> None:
        """Act for all pools, and talk to their leaders, until cancelled."""
        await self._listed.wait()
        async with asyncio.TaskGroup() as tasks:
            for part in self.parts:
                tasks.create_task(part.act(), name="executor: act")
                tasks.create_task(part.session.run(), name="executor: session")
            if self._shipper is not None:
                tasks.create_task(self._shipper.run(), name="executor: ship logs")

    async def drain(self) -> None:
        """Give out no more actions, and return once every call is answered and every state stored; pods go on."""
        await asyncio.gather(*(part.drain() for part in self.parts))

    async def close(self) -> None:
        """End what is open of its own."""
        if self._archive is not None:
            await self._archive.close()
        if self._sampler is not None:
            await self._sampler.close()

    # --- watching ----------------------------------------------------------------------------------------------------

    async def watch(self) -> None:
        """List and watch the cluster until cancelled; list again now and then, and where the core wants it."""
        await self._follower.run()

    async def _list(self) -> ObjectEvents:
        """List; there is no time for all of it: a list of many pages takes as long as it takes."""
        self._asked_s = read_clock().monotonic_s
        return await self._cluster.list_objects(Selector.OURS)

    def _take_listing(self, listing: ObjectEvents) -> None:
        observed = self._claims.split_listing(observations(listing), self._have_rows)
        for part, its in zip(self.parts, observed, strict=True):
            part.take_listing(its, started_s=self._asked_s)
        self._unlistable_kinds = listing.unlistable_kinds
        self._note_ended(listing)
        self._listed.set()

    def _take_observed(self, batch: ObjectEvents) -> None:
        if len(batch) or batch.unlistable_kinds != self._unlistable_kinds:
            self._unlistable_kinds = batch.unlistable_kinds
            for part, its in zip(self.parts, self._claims.split(observations(batch), self._have_rows), strict=True):
                part.take_observed(its)
            self._note_ended(batch)

    def _note_ended(self, events: ObjectEvents) -> None:
        """Have the logs of pods kept that have ended."""
        if self._shipper is not None:
            self._shipper.note(events)

    def _tell_unavailable(self, error: BackendUnavailable, wait_s: float) -> None:
        self._log.warning("the cluster cannot be reached", reason=error.message, wait_s=round(wait_s, 3))

    # --- showing -----------------------------------------------------------------------------------------------------

    def _show(self) -> None:
        """Set the gauges, and say when objects can no longer be looked at, and when they can again."""
        reconcilers = [part.reconciler for part in self.parts]
        count = sum(one.unlistable_count for one in reconcilers)
        gauges = max(part.is_fenced for part in self.parts), sum(one.object_count for one in reconcilers), count
        if gauges == self._shown:
            return
        self._shown = gauges
        self._fenced.set(gauges[0])
        self._known.set(gauges[1])
        if count and not self._unlistable_count:
            kinds = ", ".join(self._unlistable_kinds[:_MOST_NAMES])
            self._log.warning("the cluster hides objects of jobs; they count as there", object_count=count, kinds=kinds)
        elif self._unlistable_count and not count:
            self._log.info("the cluster hides no object of a job any more")
        self._unlistable_count = count
        self._hidden.set(count)
