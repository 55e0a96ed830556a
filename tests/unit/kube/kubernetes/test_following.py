"""Lists beside a watch: what happens meanwhile is told at once, and no list undoes what was told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial

import pytest

from argosy_core.errors import BackendUnavailable
from argosy_kube.following import Follower
from argosy_kube.kubernetes.api.answers import FORBIDDEN, ApiFailure
from argosy_kube.kubernetes.api.resources import BUILT_IN
from argosy_kube.kubernetes.ours import kinds, objects
from argosy_kube.port import Change, Cluster, ObjectEvents, PodPhase, Selector
from argosy_testkit.cluster_batches import SeenObject, make_bag, make_create_batch, make_pod, read_events
from argosy_testkit.cluster_contract import watch_until
from argosy_testkit.fake_kube_api import ApiFault
from argosy_testkit.fake_kube_api.lab import FakeKubeLab
from argosy_testkit.fake_kube_api.store import Document

TIMEOUT_S = 50.0


class NoWait:
    """Waits that tests can afford."""

    def next_wait_s(self) -> float:
        """See Waits."""
        return 0.01

    def reset(self) -> None:
        """See Waits."""


class Reader:
    """Takes what a follower brings, in the order in which it comes."""

    def __init__(self, cluster: Cluster) -> None:
        """Have been told nothing."""
        self.lists: list[list[SeenObject]] = []
        self.told: list[SeenObject] = []
        self.failures: list[str] = []
        self.news = asyncio.Event()
        self.follower = Follower(
            partial(cluster.list_objects, Selector.OURS),
            partial(cluster.watch_objects, Selector.OURS),
            take_list=self._take_list,
            take=self._take,
            tell=self._tell,
            waits=NoWait(),
        )

    def _take_list(self, events: ObjectEvents) -> None:
        self.lists.append(read_events(events))
        self._take(events)

    def _take(self, events: ObjectEvents) -> None:
        self.told += read_events(events)
        self.news.set()

    def _tell(self, error: BackendUnavailable, wait_s: float) -> None:
        self.failures.append(error.message)
        self.news.set()

    def phases(self, handle: int) -> list[PodPhase | None]:
        """Return what was told of a job, None for its deletion."""
        items = [item for item in self.told if item.run[0] == handle]
        return [None if item.change == Change.DELETED else item.phase for item in items]

    async def until_list(self, count: int) -> None:
        """Return once so many lists were taken."""
        await self.until(lambda: len(self.lists) >= count)

    async def until(self, condition: object) -> None:
        """Return once something is so."""
        async with asyncio.timeout(TIMEOUT_S):
            while not condition():  # type: ignore[operator]
                self.news.clear()
                await self.news.wait()


@asynccontextmanager
async def following(cluster: Cluster) -> AsyncGenerator[Reader, None]:
    """Follow our objects until the end of the block."""
    reader = Reader(cluster)
    task = asyncio.ensure_future(reader.follower.run())
    try:
        await reader.until_list(1)
        yield reader
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def set_status(lab: FakeKubeLab, phase: str) -> None:
    """Let the only pod have a phase."""
    (pod,) = lab.api.store.all("pods")
    lab.api.store.replace("pods", {**pod, "status": {"phase": phase}})


def set_ready(lab: FakeKubeLab, name: str, ready: str) -> None:
    """Say whether a node is heard of."""
    node: Document = lab.api.store.objects["nodes"]["", name]
    status = {**node["status"], "conditions": [{"type": "Ready", "status": ready}]}
    lab.api.store.replace("nodes", {**node, "status": status})


def calls(lab: FakeKubeLab, part: str) -> int:
    """Return how many calls had something in their path."""
    return sum(part in path for _, path in lab.api.faults.seen)


@pytest.mark.parametrize("shares_pods", [False, True])
async def test_watch_goes_on_beside_a_list_that_does_not_undo_it(lab: FakeKubeLab, *, shares_pods: bool) -> None:
    """The list began before the pod ended and is answered after it: the end is told at once, and stays."""
    cluster = lab.open("one", shares_pods=shares_pods, discover=False)
    bag = make_bag(make_pod(run_time="1h"))
    await cluster.create_objects(make_create_batch([(11, 1)], bag=bag, nodes=("nowhere",)))
    async with following(cluster) as reader:
        lab.api.faults.add(ApiFault(method="GET", path="/pods?limit", kind="slow", delay_s=0.3))
        before = calls(lab, "/pods?limit")
        reader.follower.relist()
        async with asyncio.timeout(TIMEOUT_S):
            while calls(lab, "/pods?limit") == before:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        set_status(lab, "Succeeded")
        await reader.until(lambda: PodPhase.SUCCEEDED in reader.phases(11))
        assert len(reader.lists) == 1
        await reader.until_list(2)
        assert [item.phase for item in reader.lists[1]][-1] == PodPhase.SUCCEEDED
        await cluster.create_objects(make_create_batch([(12, 1)], bag=bag, nodes=("nowhere",)))
        await reader.until(lambda: bool(reader.phases(12)))
        assert reader.phases(11)[-1] == PodPhase.SUCCEEDED
        assert reader.failures == []


async def test_pod_deleted_while_it_is_listed_is_gone_behind_the_list(lab: FakeKubeLab) -> None:
    """The list shows it; what the watch brought meanwhile is told with the list."""
    cluster = lab.open("one", discover=False, finalizer=False)
    await cluster.create_objects(make_create_batch([(11, 1)], nodes=("nowhere",)))
    async with following(cluster) as reader:
        lab.api.faults.add(ApiFault(method="GET", path="/pods?limit", kind="slow", delay_s=0.2))
        before = calls(lab, "/pods?limit")
        reader.follower.relist()
        async with asyncio.timeout(TIMEOUT_S):
            while calls(lab, "/pods?limit") == before:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        (pod,) = lab.api.store.all("pods")
        lab.api.store.delete("pods", "default", pod["metadata"]["name"], {"gracePeriodSeconds": 0})
        await reader.until_list(2)
        assert [item.change for item in reader.lists[1]] == [Change.ADDED, Change.DELETED]


async def test_list_that_fails_beside_a_watch_is_made_again_and_the_watch_goes_on(lab: FakeKubeLab) -> None:
    """Whoever follows is told why, and loses nothing."""
    cluster = lab.open("one", discover=False)
    async with following(cluster) as reader:
        lab.api.faults.add(ApiFault(method="GET", path="/pods?limit", status=500, count=4))
        reader.follower.relist()
        await reader.until(lambda: bool(reader.failures))
        assert calls(lab, "/pods?watch") == 1
        await reader.until_list(2)


async def test_watch_that_fails_again_and_again_is_resumed_without_a_list(lab: FakeKubeLab) -> None:
    """A version is as good after a minute without the API server as before."""
    cluster = lab.open("one", discover=False)
    async with following(cluster) as reader:
        lab.api.faults.add(ApiFault(method="GET", path="watch=true", status=503, count=40))
        lab.api.drop_watches()
        await reader.until(lambda: bool(reader.failures))
        await cluster.create_objects(make_create_batch([(11, 1)]))
        await reader.until(lambda: bool(reader.phases(11)))
        assert len(reader.lists) == 1


async def test_kind_without_rights_is_asked_for_ever_more_seldom(
    lab: FakeKubeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A right that nobody gave costs no call at each list, until a bag uses the kind; it is told as unlistable."""
    now_s = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now_s)
    own_kinds = kinds.OwnKinds(NoResources(), names=(), discover=False, monotonic=lambda: now_s)  # type: ignore[arg-type]
    secrets = BUILT_IN["Secret"]
    asked: list[float] = []
    for now_s in range(0, 7200, 15):
        if secrets in await own_kinds.to_list():
            asked.append(now_s)
            assert own_kinds.pass_over(secrets, Refused())
        assert own_kinds.unlistable_names == ("Secret",)
    assert asked[:5] == [0, 15, 45, 105, 225]
    assert len(asked) <= 10
    assert secrets not in await own_kinds.to_list()
    own_kinds.use(secrets)
    assert secrets in await own_kinds.to_list()
    assert own_kinds.pass_over(secrets, Refused())
    own_kinds.saw(secrets)
    assert secrets in await own_kinds.to_list()


class NoResources:
    """A cluster without custom kinds."""

    unserved: frozenset[str] = frozenset()

    async def find_named(self, names: object) -> list[object]:
        """See ResourceDiscovery."""
        return []


class Refused(ApiFailure):
    """The right is missing."""

    def __init__(self) -> None:
        """See ApiFailure."""
        super().__init__(FORBIDDEN, "not yours")


async def test_many_nodes_that_fall_silent_cost_one_list(lab: FakeKubeLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three hundred lists at once would be the API server's next trouble."""
    monkeypatch.setattr(objects, "_MOST_NODE_LISTS", 1)
    cluster = lab.open("one", gather_ms=100.0)
    await cluster.create_objects(make_create_batch([(11, 1), (12, 1)], nodes=("node-a", "node-b")))
    version = (await cluster.list_objects(Selector.OURS)).version
    before = calls(lab, "/pods?limit")
    for name in ("node-a", "node-c"):
        set_ready(lab, name, "Unknown")
    seen, _ = await watch_until(
        cluster.watch_objects(Selector.OURS, version),
        lambda items: any(item.phase == PodPhase.UNKNOWN for item in items),
    )
    assert {item.run[0] for item in seen if item.phase == PodPhase.UNKNOWN} == {11}
    assert calls(lab, "/pods?limit") == before + 1


async def test_calls_and_watches_are_told_to_a_meter(lab: FakeKubeLab) -> None:
    """Refusals by their code, watches by what they bring, bookmarks among it."""
    told: set[tuple[str, int | str]] = set()

    class Meter:
        def call_answered(self, method: str, code: int) -> None:
            told.add((method, code))

        def watch_heard(self, kind: str) -> None:
            told.add(("heard", kind))

    cluster = lab.open("one", meter=Meter())
    lab.api.faults.add(ApiFault(method="POST", path="/pods", status=429, retry_after="1"))
    version = (await cluster.list_objects(Selector.OURS)).version
    await cluster.create_objects(make_create_batch([(11, 1)]))
    async with asyncio.timeout(TIMEOUT_S):
        async for _ in cluster.watch_objects(Selector.OURS, version):
            if {("heard", "Pod"), ("heard", "Node")} <= told:
                break
    lab.api.faults.add(ApiFault(kind="drop", count=9))
    with pytest.raises(BackendUnavailable):
        await cluster.list_nodes()
    assert told >= {("GET", 200), ("POST", 429), ("POST", 201), ("STREAM", 200), ("GET", 0)}


@dataclass(frozen=True)
class Numbered:
    """A batch of nothing."""

    version: int


async def test_lists_are_made_in_time_though_the_watch_ends_again_and_again() -> None:
    """A watch that lasts less than the time between lists must not put them off for ever."""
    lists: list[int] = []
    news = asyncio.Event()

    async def read() -> Numbered:
        return Numbered(len(lists))

    async def watch(version: int) -> AsyncGenerator[Numbered, None]:
        yield Numbered(version)
        await asyncio.sleep(0.01)

    def take_list(batch: Numbered) -> None:
        lists.append(batch.version)
        news.set()

    follower: Follower[Numbered] = Follower(
        read, watch, take_list=take_list, take=lambda _: None, tell=lambda *_: None, waits=NoWait(), relist_s=0.1
    )
    following = asyncio.ensure_future(follower.run())
    async with asyncio.timeout(TIMEOUT_S):
        while len(lists) < 3:
            news.clear()
            await news.wait()
    following.cancel()
    with suppress(asyncio.CancelledError):
        await following
