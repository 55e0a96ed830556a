"""One watch of nodes for all readers of a process: each everything once, from its own version on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace

import pytest

from argosy_kube.kubernetes.api import reflector
from argosy_kube.kubernetes.api.answers import GONE, ApiFailure
from argosy_kube.kubernetes.api.credentials import Credentials, CredentialSource
from argosy_kube.kubernetes.api.documents import LIST_OF_PODS, WATCH_OF_PODS, PodDocument
from argosy_kube.kubernetes.api.kind_reflector import KindReflector
from argosy_kube.kubernetes.api.reflector import Followed, Versions
from argosy_kube.kubernetes.api.resources import PODS
from argosy_kube.kubernetes.api.transport import ApiServer
from argosy_kube.port import NodeEvents, PodPhase, Selector, WatchGone
from argosy_testkit.cluster_batches import make_create_batch
from argosy_testkit.cluster_contract import LAB_NODES, watch_until
from argosy_testkit.fake_kube_api.lab import QUICK, FakeKubeLab

TIMEOUT_S = 50.0


def node_watches(lab: FakeKubeLab) -> int:
    """Return how often nodes were watched."""
    return sum("/nodes?" in path and "watch=" in path for _, path in lab.api.faults.seen)


def streams() -> int:
    """Return how many watches of nodes are being read."""
    return sum(task.get_name() == "watch nodes" for task in asyncio.all_tasks())


async def until(condition: Callable[[], bool]) -> None:
    """Return once something is so; nothing tells it."""
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def set_labels(lab: FakeKubeLab, *numbers: int) -> None:
    """Change node-a, once for each number."""
    for number in numbers:
        await lab.put_node(replace(LAB_NODES[0], labels={"number": str(number)}))


async def take(watch: AsyncGenerator[NodeEvents, None], last: int) -> list[int]:
    """Return the numbers that a watch tells, up to one."""
    return (await take_to(watch, last))[0]


async def take_to(watch: AsyncGenerator[NodeEvents, None], last: int) -> tuple[list[int], int]:
    """Return the numbers that a watch tells, up to one, and the version behind it."""
    told: list[int] = []
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            batch = await anext(watch)
            told += [int(node.labels["number"]) for node in batch.nodes]
            if last in told:
                return told, batch.version


async def test_nodes_are_watched_once_for_capacity_and_for_health(lab: FakeKubeLab) -> None:
    """A sampler's watch of nodes and an executor's of objects share one stream, and both are told."""
    cluster = lab.open("one")
    await cluster.create_objects(make_create_batch([(11, 1)]))
    nodes, objects = await cluster.list_nodes(), await cluster.list_objects(Selector.OURS)
    watch = cluster.watch_nodes(nodes.version)
    told = asyncio.ensure_future(anext(watch))
    running = asyncio.ensure_future(
        watch_until(
            cluster.watch_objects(Selector.OURS, objects.version),
            lambda items: PodPhase.UNKNOWN in {item.phase for item in items},
        )
    )
    await until(lambda: any("/pods?" in path and "watch=" in path for _, path in lab.api.faults.seen))
    await lab.put_node(replace(LAB_NODES[0], ready=False))
    assert [node.ready for node in (await told).nodes] == [False]
    await running
    assert (node_watches(lab), streams()) == (1, 1)
    await watch.aclose()
    assert streams() == 0


async def test_reader_that_comes_later_goes_on_from_its_own_version(lab: FakeKubeLab) -> None:
    """It gets what it has not seen, though the stream had brought it before; nobody is told twice."""
    cluster = lab.open("one")
    version = (await cluster.list_nodes()).version
    first = cluster.watch_nodes(version)
    await set_labels(lab, 1)
    told, middle = await take_to(first, 1)
    listing = asyncio.ensure_future(take_to(first, 2))
    await set_labels(lab, 2)
    more, end = await listing
    assert (told, more) == ([1], [2])
    late, latest, listed = (cluster.watch_nodes(start) for start in (middle, end, (await cluster.list_nodes()).version))
    assert await take(late, 2) == [2]
    waiting = asyncio.gather(*(take(reader, 3) for reader in (first, late, latest, listed)))
    await asyncio.sleep(0)
    assert streams() == 1
    await set_labels(lab, 3)
    assert await waiting == [[3]] * 4
    assert node_watches(lab) == 2
    for watch in (late, first, listed, latest):
        assert streams() == 1
        await watch.aclose()
    assert streams() == 0


async def test_stream_that_ends_is_begun_again_once_for_all_readers(lab: FakeKubeLab) -> None:
    """Nobody notices, and what happens between is told."""
    cluster = lab.open("one")
    version = (await cluster.list_nodes()).version
    readers = [cluster.watch_nodes(version) for _ in range(2)]
    waiting = asyncio.gather(*(take(reader, 1) for reader in readers))
    await set_labels(lab, 1)
    assert await waiting == [[1], [1]]
    lab.api.drop_watches()
    waiting = asyncio.gather(*(take(reader, 2) for reader in readers))
    await set_labels(lab, 2)
    assert await waiting == [[2], [2]]
    assert node_watches(lab) == 2


async def test_version_that_is_gone_is_gone_for_all_readers(lab: FakeKubeLab) -> None:
    """Each lists again; a reader that begins after it is not told of it."""
    cluster = lab.open("one")
    version = (await cluster.list_nodes()).version
    readers = [cluster.watch_nodes(version) for _ in range(2)]
    waiting = asyncio.gather(*(anext(reader) for reader in readers), return_exceptions=True)
    await until(lambda: node_watches(lab) == 1)
    await lab.forget()
    assert [type(error) for error in await waiting] == [WatchGone, WatchGone]
    again = cluster.watch_nodes((await cluster.list_nodes()).version)
    await set_labels(lab, 7)
    assert await take(again, 7) == [7]
    assert streams() == 1


async def test_reader_that_takes_nothing_is_dropped_and_keeps_what_it_has(
    lab: FakeKubeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits for one reader is bounded; it resumes where it was, and the others do not wait for it."""
    monkeypatch.setattr(reflector, "_WAITING_COUNT", 2)
    cluster = lab.open("one")
    version = (await cluster.list_nodes()).version
    lazy, keen = cluster.watch_nodes(version), cluster.watch_nodes(version)
    waiting = asyncio.gather(take(lazy, 1), take(keen, 1))
    await set_labels(lab, 1)
    await waiting
    for number in range(2, 8):
        await set_labels(lab, number)
        assert await take(keen, number) == [number]
    async with asyncio.timeout(TIMEOUT_S):
        told = [(int(node.labels["number"]), batch.version) async for batch in lazy for node in batch.nodes]
    assert [number for number, _ in told] == [2, 3, 4]
    assert await take(cluster.watch_nodes(told[-1][1]), 7) == [5, 6, 7]


@pytest.mark.parametrize("namespaces", [(), ("one",), ("one", "two")])
async def test_version_that_stands_for_nothing_is_refused_and_nothing_is_watched(
    lab: FakeKubeLab, namespaces: tuple[str, ...]
) -> None:
    """Everywhere, in one namespace and in several alike; one that a list was given is gone on from."""
    server = ApiServer(Credentials(CredentialSource(path=str(lab.kubeconfig))), settings=QUICK, call_timeout_s=5.0)
    followed = Followed(resource=PODS, page=LIST_OF_PODS, line=WATCH_OF_PODS)
    pods: KindReflector[PodDocument] = KindReflector(server, followed, Versions(), namespaces=namespaces)
    with pytest.raises(ApiFailure, match="list again") as caught:
        pods.join(7, lambda: None)
    assert (caught.value.code, pods.join_beside(lambda: None)) == (GONE, None)
    position = (3, 5)[: len(namespaces) or 1]
    pods.note_list(7, position)
    reader = pods.join(7, lambda: None)
    try:
        assert reader.reached == position
    finally:
        await reader.stop()
        await server.close()
