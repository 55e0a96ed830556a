"""The contract of the cluster port, as tests that every adapter's own test module inherits.

A subclass gives a `lab` fixture: a cluster with three nodes `node-a`, `node-b`, `node-c` of 4 cores, 8 GiB and 10 pods.
`fault_contract` is for clusters that fail on order.

Source: `argosy_kube.port`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from typing import Protocol

import numpy as np
import pytest

from argosy_core.errors import NotFound
from argosy_core.job.reading.stop_note import with_stop_note
from argosy_core.job.tables.members import ordinal_of
from argosy_kube.port import (
    Change,
    Cluster,
    CreateCode,
    CreateResult,
    DeleteCode,
    NodeDescription,
    NodeEvents,
    ObjectEvents,
    PodPhase,
    Selector,
    WatchGone,
)
from argosy_testkit.cluster_batches import (
    SeenObject,
    make_bag,
    make_create_batch,
    make_delete_batch,
    make_pod,
    read_events,
)

__all__ = [
    "LAB_NODES",
    "TIMEOUT_S",
    "ClusterContract",
    "ClusterLab",
    "SeenObject",
    "changed",
    "codes",
    "ended",
    "make_bag",
    "make_create_batch",
    "make_delete_batch",
    "make_pod",
    "read_events",
    "read_whole_log",
    "watch_until",
]

LAB_NODES = tuple(
    NodeDescription(
        name=name,
        allocatable={"cpu": 4000, "memory": 8 << 30, "pods": 10},
        labels={"kubernetes.io/hostname": name},
        uid=f"uid-{name}",
    )
    for name in ("node-a", "node-b", "node-c")
)
"""Nodes of the lab."""
TIMEOUT_S = 50.0
"""How long a test waits for a watch."""


class ClusterLab(Protocol):
    """What the contract needs beside the port."""

    def open(self, installation: str) -> Cluster:
        """Return the cluster as one installation sees it."""
        ...

    async def put_node(self, node: NodeDescription) -> None:
        """Add or change a node."""
        ...

    async def remove_node(self, name: str) -> None:
        """Remove a node and its pods."""
        ...

    async def add_unmanaged_pod(self, node: str, amounts: dict[str, int]) -> None:
        """Put a pod of nobody we know on a node."""
        ...

    async def take_labels(self, run: tuple[int, int, int]) -> None:
        """Take all labels from the object of a run, (handle, attempt, position), where objects have labels."""
        ...

    async def forget(self) -> None:
        """Let the cluster forget how it came to be as it is, if it still knows."""
        ...


def codes(result: CreateResult) -> list[CreateCode]:
    """Return the codes of a create answer."""
    return [CreateCode(code) for code in result.code_column.tolist()]


async def watch_until(
    watch: AsyncGenerator[ObjectEvents, None], enough: Callable[[list[SeenObject]], bool]
) -> tuple[list[SeenObject], int]:
    """Collect from a watch until it is enough; return what was seen and the version to resume from."""
    seen: list[SeenObject] = []
    async with asyncio.timeout(TIMEOUT_S), aclosing(watch):
        async for events in watch:
            seen += read_events(events)
            if enough(seen):
                return seen, events.version
    pytest.fail("the watch ended before enough was seen")


async def read_whole_log(
    cluster: Cluster, run: tuple[int, int, int], *, container: str = "", follow: bool = False, tail: int | None = None
) -> bytes:
    """Return the log of a pod (handle, attempt, object index) in one piece."""
    pieces = cluster.read_log(*run, container=container, follow=follow, tail_line_count=tail)
    async with asyncio.timeout(TIMEOUT_S), aclosing(pieces):
        return b"".join([piece async for piece in pieces])


def ended(count: int) -> Callable[[list[SeenObject]], bool]:
    """Return a condition: this many pods have ended."""
    return lambda seen: sum(item.phase in {PodPhase.SUCCEEDED, PodPhase.FAILED} for item in seen) >= count


def changed(change: Change, count: int = 1) -> Callable[[list[SeenObject]], bool]:
    """Return a condition: this many changes of a kind were seen."""
    return lambda seen: sum(item.change == change for item in seen) >= count


class ClusterContract:
    """What every cluster does."""

    async def test_cluster_uid_is_the_same_for_every_installation(self, lab: ClusterLab) -> None:
        """The uid belongs to the cluster, not to who asks."""
        assert await lab.open("one").cluster_uid() == await lab.open("two").cluster_uid() != ""

    async def test_list_nodes_gives_every_node_as_added(self, lab: ClusterLab) -> None:
        """A list is complete and holds amounts in base units."""
        listed = await lab.open("one").list_nodes()
        assert listed.change_column.tolist() == [Change.ADDED] * 3
        # A cluster may offer more resources than the lab asks for.
        assert {
            node.name: {name: node.allocatable.get(name) for name in LAB_NODES[0].allocatable} for node in listed.nodes
        } == {node.name: dict(node.allocatable) for node in LAB_NODES}

    async def test_watch_nodes_tells_changes_after_the_list(self, lab: ClusterLab) -> None:
        """Changed, added and removed nodes are told, in order; clusters may change them for reasons of their own."""
        cluster = lab.open("one")
        listed = await cluster.list_nodes()
        cordoned = NodeDescription(name="node-a", allocatable={"cpu": 1000}, labels={}, unschedulable=True)
        await lab.put_node(cordoned)
        await lab.put_node(NodeDescription(name="node-d", allocatable={"cpu": 1000}, labels={}))
        await lab.remove_node("node-b")
        expected = [
            (Change.MODIFIED, "node-a", True),
            (Change.ADDED, "node-d", False),
            (Change.DELETED, "node-b", False),
        ]
        told: dict[tuple[int, str, bool], None] = {}
        batch: NodeEvents
        async with asyncio.timeout(TIMEOUT_S), aclosing(cluster.watch_nodes(listed.version)) as watch:
            async for batch in watch:
                for change, node in zip(batch.change_column.tolist(), batch.nodes, strict=True):
                    told[change, node.name, node.unschedulable] = None
                if all(entry in told for entry in expected):
                    break
        assert [entry for entry in told if entry in expected] == expected

    async def test_create_makes_pods_that_lists_show_with_their_run_and_node(self, lab: ClusterLab) -> None:
        """A created pod is listed with run, node, requests and the uid of the answer."""
        cluster = lab.open("one")
        result = await cluster.create_objects(make_create_batch([(11, 1), (12, 3)], nodes=("node-a", "node-b")))
        assert codes(result) == [CreateCode.CREATED] * 2
        listed = read_events(await cluster.list_objects(Selector.OURS))
        assert [(item.run, item.node, item.ours) for item in listed] == [
            ((11, 1, 0), "node-a", True),
            ((12, 3, 0), "node-b", True),
        ]
        assert [item.uid for item in listed] == [uid.tobytes() for uid in result.uid_column]
        assert listed[0].requests == {"cpu": 1000, "memory": 1 << 30, "pods": 1}

    async def test_create_responses_exists_with_the_run_when_repeated(self, lab: ClusterLab) -> None:
        """Repeating a create is safe: the answer names the object that exists and whose it is."""
        cluster = lab.open("one")
        first = await cluster.create_objects(make_create_batch([(11, 2)]))
        second = await cluster.create_objects(make_create_batch([(11, 2), (13, 1)]))
        assert codes(second) == [CreateCode.EXISTS, CreateCode.CREATED]
        assert second.uid_column[0].tobytes() == first.uid_column[0].tobytes()
        assert bool(second.existing_ours_column[0])
        assert (second.existing_handle_column[0], second.existing_ordinal_column[0]) == (11, 2)
        assert len(await cluster.list_objects(Selector.OURS)) == 2

    async def test_pods_tell_how_long_they_may_stay_without_a_leader(self, lab: ClusterLab) -> None:
        """An annotation of the job's; whoever lists knows it of pods that it has not made."""
        cluster = lab.open("one")
        batch = replace(make_create_batch([(11, 1)]), metadata=(with_stop_note(b"", 90.0),))
        batch = replace(batch, metadata_column=np.zeros_like(batch.metadata_column))
        await cluster.create_objects(batch)
        await cluster.create_objects(make_create_batch([(12, 1)]))
        listed = await cluster.list_objects(Selector.OURS)
        runs = [item.run for item in read_events(listed)]
        assert listed.stop_after_s == {runs.index((11, 1, 0)): 90.0}

    async def test_create_takes_another_attempt_beside_the_first(self, lab: ClusterLab) -> None:
        """Attempts have names of their own, so a retry does not meet the pod it replaces."""
        cluster = lab.open("one")
        await cluster.create_objects(make_create_batch([(11, 1)]))
        again = await cluster.create_objects(make_create_batch([(11, 2)]))
        assert codes(again) == [CreateCode.CREATED]
        listed = read_events(await cluster.list_objects(Selector.OURS))
        assert [item.run for item in listed] == [(11, 1, 0), (11, 2, 0)]

    async def test_members_of_a_run_are_objects_of_their_own(self, lab: ClusterLab) -> None:
        """Members have names and labels of their own: one is made, repeated, found and deleted without the others."""
        cluster = lab.open("one")
        both = make_create_batch([(11, 1), (11, ordinal_of(1, 1))], nodes=("node-a", "node-b"))
        result = await cluster.create_objects(both)
        assert codes(result) == [CreateCode.CREATED] * 2
        listed = read_events(await cluster.list_objects(Selector.OURS))
        assert sorted((item.run, item.node) for item in listed) == [
            ((11, 1, 0), "node-a"),
            ((11, ordinal_of(1, 1), 0), "node-b"),
        ]
        again = await cluster.create_objects(make_create_batch([(11, ordinal_of(1, 1))]))
        assert codes(again) == [CreateCode.EXISTS]
        assert again.uid_column[0].tobytes() == result.uid_column[1].tobytes()
        assert again.existing_ordinal_column.tolist() == [ordinal_of(1, 1)]
        found = read_events(await cluster.find_objects(make_create_batch([(11, ordinal_of(1, 1))])))
        assert [item.uid for item in found] == [result.uid_column[1].tobytes()]
        version = (await cluster.list_objects(Selector.OURS)).version
        await cluster.delete_objects(make_delete_batch(*found))
        seen, _ = await watch_until(cluster.watch_objects(Selector.OURS, version), changed(Change.DELETED))
        assert [item.run for item in seen if item.change == Change.DELETED] == [(11, ordinal_of(1, 1), 0)]
        assert [item.run for item in read_events(await cluster.list_objects(Selector.OURS))] == [(11, 1, 0)]

    async def test_create_rejects_a_bad_object_and_makes_the_others(self, lab: ClusterLab) -> None:
        """Each object is taken for itself; the bad one is answered with a message."""
        cluster = lab.open("one")
        bag = make_bag({"kind": "ConfigMap", "metadata": {"name": "settings"}}, make_pod(cpu="much"))
        result = await cluster.create_objects(make_create_batch([(11, 1)], bag=bag, objects=2))
        assert codes(result) == [CreateCode.CREATED, CreateCode.REJECTED]
        assert result.messages[result.message_column[1]]

    async def test_objects_of_a_bag_are_told_with_kind_position_and_namespace(self, lab: ClusterLab) -> None:
        """Objects other than pods are there: phase running, no node; only OURS selects them. Lists, watches, looks."""
        cluster = lab.open("one")
        service = {"kind": "Service", "metadata": {"name": "front"}, "spec": {"ports": [{"port": 80}]}}
        asked = make_create_batch([(11, 1)], bag=make_bag(service, make_pod()), objects=2)
        version = (await cluster.list_objects(Selector.OURS)).version
        await cluster.create_objects(asked)
        seen, _ = await watch_until(cluster.watch_objects(Selector.OURS, version), lambda seen: len(seen) > 1)
        listed = read_events(await cluster.list_objects(Selector.OURS))
        for told in (listed, seen, read_events(await cluster.find_objects(asked))):
            assert sorted({(item.run, item.kind, item.namespace, item.node) for item in told}) == [
                ((11, 1, 0), "Service", "default", None),
                ((11, 1, 1), "Pod", "default", "node-a"),
            ]
        pods = read_events(await cluster.list_objects(Selector.ALL_PODS))
        assert [item.kind for item in pods] == ["Pod"]

    @pytest.mark.parametrize(
        ("exit_code", "phase"),
        [(0, PodPhase.SUCCEEDED), (3, PodPhase.FAILED)],
        ids=["success", "failure"],
    )
    async def test_watch_tells_the_life_of_a_pod_in_order(
        self, lab: ClusterLab, exit_code: int, phase: PodPhase
    ) -> None:
        """Added, then running, then ended with its exit code; versions grow."""
        cluster = lab.open("one")
        version = (await cluster.list_objects(Selector.OURS)).version
        bag = make_bag(make_pod(run_time="1s", exit_code=exit_code))
        await cluster.create_objects(make_create_batch([(11, 1)], bag=bag))
        seen, _ = await watch_until(cluster.watch_objects(Selector.OURS, version), ended(1))
        assert seen[0].change == Change.ADDED
        phases = [item.phase for item in seen]
        assert phases == sorted(phases)
        assert PodPhase.RUNNING in phases
        assert (seen[-1].phase, seen[-1].exit_code) == (phase, exit_code)
        versions = [item.version for item in seen]
        assert versions == sorted(set(versions))

    async def test_watch_resumes_without_gap_or_repeat(self, lab: ClusterLab) -> None:
        """Two watches, the second from where the first ended, tell the same as one."""
        cluster = lab.open("one")
        start = (await cluster.list_objects(Selector.OURS)).version
        bag = make_bag(make_pod(run_time="1s"))
        await cluster.create_objects(make_create_batch([(11, 1)], bag=bag))
        first, version = await watch_until(cluster.watch_objects(Selector.OURS, start), ended(1))
        await cluster.create_objects(make_create_batch([(12, 1)], bag=bag))
        second, _ = await watch_until(cluster.watch_objects(Selector.OURS, version), ended(1))
        whole, _ = await watch_until(cluster.watch_objects(Selector.OURS, start), ended(2))
        assert first + second == whole

    async def test_watch_is_gone_for_a_version_of_long_ago(self, lab: ClusterLab) -> None:
        """A version that is not kept raises WatchGone, for objects and for nodes."""
        await lab.forget()
        cluster = lab.open("one")
        with pytest.raises(WatchGone):
            await watch_until(cluster.watch_objects(Selector.OURS, 1), ended(1))
        with pytest.raises(WatchGone):
            async with aclosing(cluster.watch_nodes(1)) as watch:
                await anext(watch)

    async def test_delete_removes_by_uid_and_is_told(self, lab: ClusterLab) -> None:
        """A deletion takes the object with that uid and no other; repeating it answers GONE."""
        cluster = lab.open("one")
        await cluster.create_objects(make_create_batch([(11, 1), (12, 1)]))
        listing = await cluster.list_objects(Selector.OURS)
        first, second = read_events(listing)
        result = await cluster.delete_objects(make_delete_batch(first))
        assert result.code_column.tolist() == [DeleteCode.DELETED]
        deleted = changed(Change.DELETED)
        seen, _ = await watch_until(cluster.watch_objects(Selector.OURS, listing.version), deleted)
        assert [item.uid for item in seen if item.change == Change.DELETED] == [first.uid]
        again = await cluster.delete_objects(make_delete_batch(first))
        assert again.code_column.tolist() == [DeleteCode.GONE]
        assert [item.uid for item in read_events(await cluster.list_objects(Selector.OURS))] == [second.uid]

    async def test_delete_spares_an_object_that_took_the_name(self, lab: ClusterLab) -> None:
        """A uid from before does not delete the object that has the name now."""
        cluster = lab.open("one")
        await cluster.create_objects(make_create_batch([(11, 1)]))
        (old,) = read_events(await cluster.list_objects(Selector.OURS))
        await cluster.delete_objects(make_delete_batch(old))
        version = (await cluster.list_objects(Selector.OURS)).version
        await cluster.create_objects(make_create_batch([(11, 1)]))
        added = changed(Change.ADDED)
        await watch_until(cluster.watch_objects(Selector.OURS, version), added)
        result = await cluster.delete_objects(make_delete_batch(old))
        assert result.code_column.tolist() == [DeleteCode.GONE]
        assert len(await cluster.list_objects(Selector.OURS)) == 1

    async def test_all_pods_shows_unmanaged_pods_with_their_requests(self, lab: ClusterLab) -> None:
        """Unmanaged pods, and pods of another installation, are told with node and requests but without a run."""
        ours, theirs = lab.open("one"), lab.open("two")
        await lab.add_unmanaged_pod("node-c", {"cpu": 500})
        await theirs.create_objects(make_create_batch([(11, 1)], nodes=("node-b",)))
        seen = read_events(await ours.list_objects(Selector.ALL_PODS))
        assert sorted((item.node or "", item.ours, item.run, (item.requests or {}).get("cpu")) for item in seen) == [
            ("node-b", False, (0, 0, 0), 1000),
            ("node-c", False, (0, 0, 0), 500),
        ]
        assert len(await ours.list_objects(Selector.OURS)) == 0
        assert len(await theirs.list_objects(Selector.OURS)) == 1

    async def test_find_gives_of_the_objects_asked_for_those_that_are_there_and_ours(self, lab: ClusterLab) -> None:
        """By name, with uid, node and phase as a list has them; what is not there, or somebody else's, is left out."""
        ours, theirs = lab.open("one"), lab.open("two")
        await ours.create_objects(make_create_batch([(11, 1), (12, 2), (14, 1)], nodes=("node-a", "node-b", "node-c")))
        asked = make_create_batch([(11, 1), (12, 1), (12, 2), (13, 1)])
        listed = {item.run: item for item in read_events(await ours.list_objects(Selector.OURS))}
        found = read_events(await ours.find_objects(asked))
        assert sorted((item.run, item.uid, item.node, item.change) for item in found) == [
            (run, listed[run].uid, listed[run].node, Change.ADDED) for run in ((11, 1, 0), (12, 2, 0))
        ]
        assert len(await theirs.find_objects(asked)) == 0

    async def test_objects_without_labels_are_found_by_name_known_by_uid_and_get_their_labels_back(
        self, lab: ClusterLab
    ) -> None:
        """They lost them while nobody looked; a new adapter finds pod and config map, lists and deletes both."""
        bag = make_bag({"kind": "ConfigMap", "metadata": {"name": "settings"}}, make_pod())
        asked = make_create_batch([(11, 1)], bag=bag, objects=2)
        uids = sorted(uid.tobytes() for uid in (await lab.open("one").create_objects(asked)).uid_column)
        for position in range(2):
            await lab.take_labels((11, 1, position))
        successor = lab.open("one")
        await successor.list_objects(Selector.OURS)
        found = read_events(await successor.find_objects(asked))
        assert sorted((item.run, item.kind) for item in found) == [((11, 1, 0), "ConfigMap"), ((11, 1, 1), "Pod")]
        assert sorted(item.uid for item in found) == uids
        listed = read_events(await successor.list_objects(Selector.OURS))
        assert sorted(item.uid for item in listed) == uids, "known from then on, whatever the labels"
        async with asyncio.timeout(TIMEOUT_S):
            # Of the pod at least: not everybody who makes config maps may change them.
            while "Pod" not in await self._listed_kinds(lab):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.05)
        result = await successor.delete_objects(make_delete_batch(*found))
        assert result.code_column.tolist() == [DeleteCode.DELETED] * 2

    async def _listed_kinds(self, lab: ClusterLab) -> set[str]:
        """Return of which kinds somebody who knows nothing yet finds objects."""
        return {item.kind for item in read_events(await lab.open("one").list_objects(Selector.OURS))}

    async def test_create_adopts_the_object_of_its_own_run_that_has_no_labels(self, lab: ClusterLab) -> None:
        """A predecessor made it and told nobody; it is the run's own, and nobody else's."""
        first = await lab.open("one").create_objects(make_create_batch([(11, 2)]))
        await lab.take_labels((11, 2, 0))
        successor = lab.open("one")
        again = await successor.create_objects(make_create_batch([(11, 2)]))
        assert codes(again) == [CreateCode.EXISTS]
        assert again.uid_column.tobytes() == first.uid_column.tobytes()
        assert bool(again.existing_ours_column[0])
        assert (again.existing_handle_column[0], again.existing_ordinal_column[0]) == (11, 2)
        assert [item.run for item in read_events(await successor.list_objects(Selector.OURS))] == [(11, 2, 0)]

    async def test_create_meets_the_name_of_another_installation(self, lab: ClusterLab) -> None:
        """A name that somebody else has is answered EXISTS, and not as ours."""
        await lab.open("two").create_objects(make_create_batch([(11, 1)]))
        result = await lab.open("one").create_objects(make_create_batch([(11, 1)]))
        assert codes(result) == [CreateCode.EXISTS]
        assert not result.existing_ours_column[0]
        assert result.existing_handle_column[0] == 0

    async def test_pod_fails_when_its_node_is_full(self, lab: ClusterLab) -> None:
        """Of more pods than a node has room for, one fails as a kubelet would fail it."""
        cluster = lab.open("one")
        version = (await cluster.list_objects(Selector.OURS)).version
        await cluster.create_objects(make_create_batch([(number, 1) for number in range(1, 6)]))
        seen, _ = await watch_until(cluster.watch_objects(Selector.OURS, version), ended(1))
        failed = [item for item in seen if item.phase == PodPhase.FAILED]
        assert [item.reason for item in failed] == ["OutOfcpu"]

    async def test_log_of_an_ended_pod_is_whole_and_its_tail_is_its_end(self, lab: ClusterLab) -> None:
        """Following ends with the pod; what there is can be read again, wholly or from near its end."""
        cluster = lab.open("one")
        await cluster.create_objects(make_create_batch([(11, 1)], bag=make_bag(make_pod(run_time="1s"))))
        followed = await read_whole_log(cluster, (11, 1, 0), follow=True)
        assert len(followed.splitlines()) >= 2
        assert await read_whole_log(cluster, (11, 1, 0)) == followed
        last = followed.splitlines(keepends=True)[-1]
        assert await read_whole_log(cluster, (11, 1, 0), tail=1) == last
        assert await read_whole_log(cluster, (11, 1, 0), tail=0) == b""

    async def test_lines_begin_with_their_times_where_that_is_asked_for(self, lab: ClusterLab) -> None:
        """A time as RFC 3339, a space, and the line as it is without."""
        cluster = lab.open("one")
        await cluster.create_objects(make_create_batch([(11, 1)], bag=make_bag(make_pod(run_time="1s"))))
        plain = await read_whole_log(cluster, (11, 1, 0), follow=True)
        pieces = cluster.read_log(11, 1, 0, follow=False, tail_line_count=None, timestamps=True)
        async with asyncio.timeout(TIMEOUT_S), aclosing(pieces):
            stamped = b"".join([piece async for piece in pieces])
        lines = [line.partition(b" ") for line in stamped.splitlines(keepends=True)]
        assert b"".join(line for _, _, line in lines) == plain
        assert all(datetime.fromisoformat(stamp.decode()).tzinfo is not None for stamp, _, _ in lines)

    async def test_lines_from_before_a_time_are_left_out(self, lab: ClusterLab) -> None:
        """Whoever wants the last minute of a long log is not sent all of it."""
        cluster = lab.open("one")
        await cluster.create_objects(make_create_batch([(11, 1)], bag=make_bag(make_pod(run_time="0s"))))
        plain = await read_whole_log(cluster, (11, 1, 0), follow=True)
        assert plain
        for since_s, meant in ((1_000_000_000, plain), (4_000_000_000, b"")):
            pieces = cluster.read_log(11, 1, 0, follow=False, tail_line_count=None, since_s=since_s)
            async with asyncio.timeout(TIMEOUT_S), aclosing(pieces):
                assert b"".join([piece async for piece in pieces]) == meant

    async def test_every_container_that_is_named_has_a_log_and_the_first_is_the_one_without_a_name(
        self, lab: ClusterLab
    ) -> None:
        """Whoever keeps logs asks for the names and reads one after another."""
        cluster = lab.open("one")
        await cluster.create_objects(make_create_batch([(11, 1)], bag=make_bag(make_pod(run_time="1s"))))
        whole = await read_whole_log(cluster, (11, 1, 0), follow=True)
        logs = [
            await read_whole_log(cluster, (11, 1, 0), container=name)
            for name in await cluster.container_names(11, 1, 0)
        ]
        assert logs == [whole]

    async def test_log_is_not_found_without_pod_or_container(self, lab: ClusterLab) -> None:
        """Another run, attempt, object, container or installation has no log."""
        cluster = lab.open("one")
        await cluster.create_objects(make_create_batch([(11, 1)]))
        for run in ((12, 1, 0), (11, 2, 0), (11, 1, 1)):
            with pytest.raises(NotFound):
                await read_whole_log(cluster, run)
        with pytest.raises(NotFound):
            await read_whole_log(cluster, (11, 1, 0), container="other")
        with pytest.raises(NotFound):
            await read_whole_log(lab.open("two"), (11, 1, 0))

    async def test_removed_node_takes_its_pods_along(self, lab: ClusterLab) -> None:
        """Pods of a node that went are told as deleted."""
        cluster = lab.open("one")
        await cluster.create_objects(make_create_batch([(11, 1), (12, 1)], nodes=("node-a", "node-b")))
        version = (await cluster.list_objects(Selector.OURS)).version
        await lab.remove_node("node-a")
        deleted = changed(Change.DELETED)
        seen, _ = await watch_until(cluster.watch_objects(Selector.OURS, version), deleted)
        assert [item.run[0] for item in seen if item.change == Change.DELETED] == [11]
