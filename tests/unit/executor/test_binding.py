"""Bind plugins of an executor: what they make themselves, what they fail on, and what is left to the executor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.unit.executor.conftest import NODE, FakeLeader, running_executor

from argosy_core.errors import InvalidRequest
from argosy_core.framework import BINDING, BindBatch, Framework, Point, Registration
from argosy_executor.config import ExecutorConfig
from argosy_kube.simulated.host import ClusterHost
from argosy_runtime.metrics import METRICS
from argosy_testkit.cluster_contract import make_create_batch
from argosy_testkit.in_process_cluster import InProcessCluster
from argosy_testkit.plugins import install_plugins


class Outside:
    """A bind plugin that makes job 1 in its own way, and fails on job 2 once."""

    cluster: ClassVar[InProcessCluster]
    loop: ClassVar[asyncio.AbstractEventLoop]
    bag: ClassVar[bytes]
    manifests: ClassVar[list[dict[str, Any]]]
    is_broken: ClassVar[bool]

    def bind(self, batch: BindBatch) -> np.ndarray:
        """Make what is for it."""
        if 2 in batch.handle and Outside.is_broken:
            Outside.is_broken = len(batch) > 1
            raise ConnectionError("away")
        for line in np.flatnonzero(batch.handle == 1).tolist():
            Outside.manifests.append(batch.manifest(line))
            create = Outside.cluster.create_objects(make_create_batch([(1, 1)], bag=Outside.bag))
            asyncio.run_coroutine_threadsafe(create, Outside.loop).result(10)
        return batch.handle == 1


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_plugins(tmp_path, {"outside": f"{__name__}:Outside"})
    monkeypatch.syspath_prepend(str(tmp_path))


async def test_executor_creates_what_no_plugin_has_made_and_puts_off_what_one_fails_on(
    host: ClusterHost, leader: FakeLeader, make_bag: Callable[..., bytes]
) -> None:
    """What a plugin made is the run's own once the cluster shows it, and is not created beside it."""
    Outside.cluster, Outside.loop = InProcessCluster(host, "one"), asyncio.get_running_loop()
    Outside.bag, Outside.manifests, Outside.is_broken = make_bag(), [], True
    created = METRICS.created_objects.labels("lab")
    before = created._value.get()
    async with running_executor(host, leader.address, bind_plugins=("outside",)):
        session = await leader.next_session()
        await session.give([(1, 1), (2, 1), (3, 1)], Outside.bag)
        for handle in (1, 2, 3):
            await session.wait_for(lambda handle=handle: "RUNNING" in session.states.get((handle, 1, 0), []))
    assert not Outside.is_broken
    assert created._value.get() - before == 2
    (manifest,) = Outside.manifests
    assert manifest["spec"]["nodeName"] == NODE
    assert manifest["metadata"]["labels"]["argosy.dev/run"] == "1-1"
    assert manifest["metadata"]["name"].startswith("o0-")


def test_first_plugin_that_has_made_an_object_is_the_last_to_be_asked_of_it() -> None:
    """One that fails on an object keeps it from all others, too; an answer of another shape is a failure."""
    asked: list[tuple[str, list[int]]] = []

    def at(name: str, *made: int, broken: int = 0) -> Registration:
        def bind(batch: BindBatch) -> np.ndarray | None:
            if broken in batch.handle:
                raise KeyError(broken)
            asked.append((name, batch.handle.tolist()))
            return np.isin(batch.handle, made) if made else None

        return Registration(point=Point.BIND, name=name, function=bind)

    count = np.arange(1, 5)
    batch = BindBatch(
        handle=count,
        attempt=count.astype(np.int32),
        member=np.zeros(4, dtype=np.int16),
        position=count.astype(np.int16),
        node=count.astype(object),
        queue=count.astype(object),
        job_set=count.astype(object),
        line=count,
        render=dict,
    )
    framework = Framework([at("a"), at("b", 1, broken=4), at("c", 2, 1, 4)], BINDING)
    made, failed = framework.bind(batch)
    assert (made.tolist(), failed) == ([True, True, False, False], {3: "b: 4"})
    assert asked == [("a", [1, 2, 3, 4]), ("b", [1, 2]), ("b", [3]), ("c", [2, 3])]


def test_plugin_that_cannot_bind_is_refused_at_the_start() -> None:
    """The message says what it would need."""
    with pytest.raises(InvalidRequest, match=r"no plugin 'inside'; installed are: .*outside"):
        ExecutorConfig(cluster="c", cluster_address="x", server_addresses=("y",), bind_plugins=("inside",))
