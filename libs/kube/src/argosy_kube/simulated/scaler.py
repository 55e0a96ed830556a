"""A simulated cluster, as an agent uses it; see `argosy_kube.scaler_port`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from uuid import UUID

import numpy as np

from argosy_core.autoscale import Amounts
from argosy_core.autoscale.events import (
    MetricsSeen,
    PodGone,
    PodSeen,
    Resize,
    ResizeEnded,
    ResizeOutcome,
    ScalingPolicy,
)
from argosy_core.errors import ArgosyError, BackendUnavailable, InvalidRequest
from argosy_core.job.reading.scaling import SCALED
from argosy_kube.port import Change, ObjectEvents, PodPhase, Selector
from argosy_kube.scaler_port import PodEvent
from argosy_kube.simulated.client import SimulatedCluster

__all__ = ["SimulatedScaler"]

_MILLICORES = 1000.0


class SimulatedScaler:
    """Pods of one installation in a simulated cluster; a size is taken up at once, or refused.

    Args:
        address: `unix:/path` or `host:port`.
        installation: Whose pods.
        read_policy: Returns the policy that annotations say, None if they scale nothing.
    """

    def __init__(
        self, address: str, *, installation: str, read_policy: Callable[[Mapping[str, str]], ScalingPolicy | None]
    ) -> None:
        """Connect to nothing yet."""
        self._cluster = SimulatedCluster(address, installation=installation)
        self._read_policy = read_policy
        self._known: dict[str, PodSeen] = {}

    async def cluster_uid(self) -> str:
        """See Scaler."""
        return await self._cluster.cluster_uid()

    async def follow(self) -> AsyncGenerator[list[PodEvent], None]:
        """See Scaler."""
        listed = await self._cluster.list_objects(Selector.OURS)
        before = set(self._known)
        events = self._read(listed)
        here = {event.uid for event in events if isinstance(event, PodSeen)}
        yield [self._forget(uid) for uid in sorted(before - here)] + events
        async with aclosing(self._cluster.watch_objects(Selector.OURS, listed.version)) as batches:
            async for batch in batches:
                if found := self._read(batch):
                    yield found

    def _read(self, batch: ObjectEvents) -> list[PodEvent]:
        """Return what a batch tells of scaled pods."""
        found: list[PodEvent] = []
        columns = [batch.resources.index(name) for name in SCALED] if batch.scalings else []
        for place in np.flatnonzero(batch.kind_column == 0).tolist():
            uid = str(UUID(bytes=batch.uid_column[place].tobytes()))
            is_there = batch.change_column[place] != Change.DELETED and batch.phase_column[place] == PodPhase.RUNNING
            if not is_there or place not in batch.scalings:
                found += [self._forget(uid)] if uid in self._known else []
                continue
            row = int(batch.request_column[place])
            policy = self._read_policy(dict(batch.scaling_notes[row]))
            if policy is None:
                continue
            size = Amounts(*batch.requests[row, columns].tolist())
            version = int(batch.version_column[place])
            self._known[uid] = PodSeen(
                uid=uid, version=version, policy=policy, desired=size, allocated=size, actual=size
            )
            found.append(self._known[uid])
        return found

    def _forget(self, uid: str) -> PodGone:
        self._known.pop(uid, None)
        return PodGone(uid)

    async def resize(self, resize: Resize, timeout_s: float) -> ResizeEnded:
        """See Scaler."""
        version, reason, outcome = 0, "", ResizeOutcome.UNKNOWN
        try:
            async with asyncio.timeout(timeout_s):
                version = await self._cluster.resize(resize.uid, resize.version, tuple(resize.amounts))
            outcome = ResizeOutcome.ACCEPTED if version else ResizeOutcome.CONFLICT
        except InvalidRequest as error:
            outcome, reason = ResizeOutcome.REFUSED, error.message
        except (ArgosyError, TimeoutError) as error:
            reason = str(error)
        return ResizeEnded(uid=resize.uid, number=resize.number, outcome=outcome, version=version, reason=reason)

    def contract_host(self, uid: str) -> str:  # noqa: ARG002 - simulated pods listen nowhere
        """See Scaler."""
        return ""

    async def read_usage(self) -> MetricsSeen:
        """See Scaler."""
        uids = tuple(self._known)
        try:
            used = await self._cluster.read_usage(uids)
        except InvalidRequest as error:
            raise BackendUnavailable(f"the simulated cluster has no metrics: {error.message}") from error
        return MetricsSeen(uids=uids, load_cores=used[:, 0] / _MILLICORES, memory_bytes=used[:, 1].copy())

    async def close(self) -> None:
        """See Scaler."""
        await self._cluster.close()
