"""The sampler against a leader that speaks the wire: what it says, answers, refuses and survives."""

from __future__ import annotations

import asyncio
import socket

import numpy as np
import pytest
from tests.unit.sampler.conftest import (
    INCARNATION,
    TIMEOUT_S,
    FakeLeader,
    int32,
    int64,
    placement_list,
    running_sampler,
    serving_leader,
)

from argosy.sampler.v1 import sampler_pb2
from argosy_core.errors import InvalidRequest
from argosy_kube.port import NodeDescription, PodPhase, Selector
from argosy_kube.simulated.faults import Fault
from argosy_kube.simulated.host import ClusterHost
from argosy_sampler.config import SamplerConfig
from argosy_testkit.cluster_contract import make_bag, make_create_batch, make_delete_batch, make_pod, read_events
from argosy_testkit.in_process_cluster import InProcessCluster

PLACED, CONFLICT, NODE_UNAVAILABLE = 1, 2, 3


async def test_hello_names_cluster_uid_pool_and_process(host: ClusterHost, leader: FakeLeader) -> None:
    """A session begins with who speaks, then all nodes with labels and totals."""
    async with running_sampler(host, leader.address):
        session = await leader.next_session()
        assert (session.hello.cluster, session.hello.pool) == ("lab", "default")
        assert session.hello.cluster_uid == host.engine.uid
        assert (len(session.hello.process_id), session.hello.host) == (16, socket.gethostname())
        await session.wait_free(node_a=4000, node_b=4000, node_c=4000)
        assert session.capacity is not None
        assert session.capacity.node_count == 3
        assert np.frombuffer(session.capacity.total_column, dtype="<i8")[0] == 12_000


async def test_commit_places_until_the_node_is_full(host: ClusterHost, leader: FakeLeader) -> None:
    """MultiBind keeps what fits and answers the rest as conflicts; best candidate first."""
    async with running_sampler(host, leader.address):
        session = await leader.ready_session()
        a, b = session.index("node-a"), session.index("node-b")
        runs = [(handle, 1) for handle in range(1, 7)]
        nodes, outcomes = await session.commit(runs, [[a], [a], [a], [a], [a, b], [a]])
        assert nodes == [a, a, a, a, b, -1]
        assert outcomes == [PLACED] * 5 + [CONFLICT]
        await session.wait_free(node_a=0, node_b=3000)


async def test_commit_repeated_answers_the_same_node(host: ClusterHost, leader: FakeLeader) -> None:
    """A placement is keyed by run: a repeated commit takes nothing more."""
    async with running_sampler(host, leader.address):
        session = await leader.ready_session()
        a, b = session.index("node-a"), session.index("node-b")
        assert await session.commit([(1, 1)], [[a]]) == ([a], [PLACED])
        assert await session.commit([(1, 1)], [[b]]) == ([a], [PLACED])
        await session.wait_free(node_a=3000, node_b=4000)


async def test_sample_answers_candidates_with_what_is_free(host: ClusterHost, leader: FakeLeader) -> None:
    """Candidates carry free amounts; a class that fits nowhere gets counts per filter and the nearest miss."""
    async with running_sampler(host, leader.address):
        session = await leader.ready_session()
        await session.sample([1])
        a = session.index("node-a")
        await session.commit([(1, 1)], [[a]])
        answer = await session.sample([1, 2], complete_column=b"\1\1")
        assert (answer.round, answer.incarnation) == (7, INCARNATION)
        nodes = np.frombuffer(answer.node_column, dtype="<i4").tolist()
        free = np.frombuffer(answer.free_column, dtype="<i8").reshape(-1, 2)[:, 0].tolist()
        assert dict(zip(nodes, free, strict=True))[a] == 3000
        offsets = np.frombuffer(answer.offset_column, dtype="<i4").tolist()
        assert offsets[0] == 0
        assert offsets[1] == offsets[2] > 0
        rejections = np.frombuffer(answer.rejection_column, dtype="<i4").reshape(2, -1)
        assert rejections[1].sum() == 3
        assert answer.nearest_misses[1] != ""
        texts = dict(zip(answer.filters, answer.filter_texts, strict=True))
        assert texts["resources"] == "insufficient resources on {nodes}"
        assert np.frombuffer(answer.total_free_column, dtype="<i8")[0] == 11_000


async def test_release_frees_what_has_no_pod(host: ClusterHost, leader: FakeLeader) -> None:
    """A released placement without a pod is free again; released twice frees once."""
    async with running_sampler(host, leader.address):
        session = await leader.ready_session()
        a = session.index("node-a")
        await session.commit([(1, 1), (2, 1)], [[a], [a]])
        await session.wait_free(node_a=2000)
        release = sampler_pb2.Release(epoch=1, handle_column=int64([1]), attempt_column=int32([1]))
        await session.send(release=release)
        await session.send(release=release)
        await session.wait_free(node_a=3000)


async def test_commit_that_comes_late_holds_nothing_after_its_release(host: ClusterHost, leader: FakeLeader) -> None:
    """A leader that waited in vain releases: the commit before it on the stream ends with it, and so does one of a
    stream that broke, because the next list lacks it.
    """
    async with running_sampler(host, leader.address):
        session = await leader.ready_session()
        a, b = session.index("node-a"), session.index("node-b")
        await session.send_commit([(1, 1), (2, 1)], [[a], [b]])
        await session.send(release=sampler_pb2.Release(epoch=1, handle_column=int64([1]), attempt_column=int32([1])))
        await session.next_answer("commit")
        await session.wait_free(node_a=4000, node_b=3000)
        await session.send_commit([(3, 1)], [[a]])
        session.ended.set()
        again = await leader.ready_session({(2, 1): "node-b"})
        await again.wait_free(node_a=4000, node_b=3000)
        assert await again.commit([(n, 1) for n in range(4, 9)], [[again.index("node-a")]] * 5) == (
            [again.index("node-a")] * 4 + [-1],
            [PLACED] * 4 + [CONFLICT],
        )


async def test_members_of_a_run_are_placed_listed_and_released_apart(host: ClusterHost, leader: FakeLeader) -> None:
    """Two members of one run stand on two nodes; each is committed, kept by a list and let go by its own key."""
    async with running_sampler(host, leader.address):
        session = await leader.ready_session()
        a, b = session.index("node-a"), session.index("node-b")
        both = np.array([0, 1], dtype="<i2").tobytes()
        assert await session.commit([(1, 1)] * 2, [[a], [b]], members=both) == ([a, b], [PLACED] * 2)
        assert await session.commit([(1, 1)] * 2, [[b], [a]], members=both) == ([a, b], [PLACED] * 2)
        await session.wait_free(node_a=3000, node_b=3000)
        session.ended.set()
        again = await leader.next_session()
        listed = placement_list({(1, 1): "node-b"})
        listed.member_column = both[2:]
        await again.send(placements=listed)
        await again.next_answer("ready")
        await again.wait_free(node_a=4000, node_b=3000)
        release = sampler_pb2.Release(epoch=1, handle_column=int64([1]), attempt_column=int32([1]))
        await again.send(release=release)
        release.member_column = both[2:]
        await again.send(release=release)
        await again.wait_free(node_a=4000, node_b=4000)


async def test_observed_pod_replaces_its_placement_and_its_end_frees_it(host: ClusterHost, leader: FakeLeader) -> None:
    """Commit, create and run count once; the pod's end frees the node without a word of the leader."""
    async with running_sampler(host, leader.address):
        session = await leader.ready_session()
        a = session.index("node-a")
        await session.commit([(1, 1)], [[a]])
        cluster = InProcessCluster(host, "one")
        await cluster.create_objects(make_create_batch([(1, 1), (2, 1)]))
        await session.wait_free(node_a=2000)  # run 2 shows that the events were taken in
        seen = read_events(await cluster.list_objects(Selector.OURS))
        await cluster.delete_objects(make_delete_batch(*seen))
        await session.wait_free(node_a=4000)


async def test_run_of_several_pods_counts_their_sum_until_the_last_ends(host: ClusterHost, leader: FakeLeader) -> None:
    """All pods of a bag share one placement; it ends with the last of them."""
    async with running_sampler(host, leader.address):
        session = await leader.ready_session()
        cluster = InProcessCluster(host, "one")
        bag = make_bag(make_pod(), make_pod(cpu="2"))
        await cluster.create_objects(make_create_batch([(1, 1)], bag=bag, objects=2))
        await session.wait_free(node_a=1000)
        first, second = read_events(await cluster.list_objects(Selector.OURS))
        await cluster.delete_objects(make_delete_batch(first))
        await session.wait_free(node_a=2000)
        await cluster.delete_objects(make_delete_batch(second))
        await session.wait_free(node_a=4000)


async def test_unmanaged_pods_count_from_the_start_and_while_watching(host: ClusterHost, leader: FakeLeader) -> None:
    """Pods that are not ours take their requests from their node."""
    host.add_unmanaged_pods("node-a", {"cpu": 500}, 2)
    async with running_sampler(host, leader.address):
        session = await leader.ready_session()
        await session.wait_free(node_a=3000)
        host.add_unmanaged_pods("node-b", {"cpu": 500}, 1)
        await session.wait_free(node_b=3500)
        nodes, outcomes = await session.commit([(n, 1) for n in range(4)], [[session.index("node-a")]] * 4)
        assert outcomes == [PLACED, PLACED, PLACED, CONFLICT], nodes


async def test_restart_between_commit_and_creation_keeps_the_placement(host: ClusterHost, leader: FakeLeader) -> None:
    """What was committed and has no pod yet comes back with the leader's list, so the node is not given twice."""
    async with running_sampler(host, leader.address):
        session = await leader.ready_session()
        a = session.index("node-a")
        await session.commit([(n, 1) for n in range(1, 4)], [[a]] * 3)
    cluster = InProcessCluster(host, "one")
    await cluster.create_objects(make_create_batch([(1, 1)]))  # one of the three is observed after the restart
    async with running_sampler(host, leader.address):
        again = await leader.ready_session({(1, 1): "node-a", (2, 1): "node-a", (3, 1): "node-a"})
        assert again.hello.process_id != session.hello.process_id
        await again.wait_free(node_a=1000, node_b=4000)
        a = again.index("node-a")
        assert (await again.commit([(4, 1), (5, 1)], [[a], [a]]))[1] == [PLACED, CONFLICT]


async def test_list_of_a_new_leader_drops_what_it_lacks_unless_a_pod_is_there(
    host: ClusterHost, leader: FakeLeader
) -> None:
    """Placements absent from a new leader's list end, but a pod that was observed goes on counting."""
    async with running_sampler(host, leader.address):
        session = await leader.ready_session()
        a = session.index("node-a")
        await session.commit([(1, 1), (2, 1)], [[a], [a]])
        await InProcessCluster(host, "one").create_objects(make_create_batch([(2, 1), (3, 1)]))
        await session.wait_free(node_a=1000)
        leader.epoch = 2
        session.ended.set()
        session = await leader.ready_session({})
        await session.wait_free(node_a=2000)


async def test_leader_of_a_lower_epoch_is_left(host: ClusterHost, leader: FakeLeader) -> None:
    """After epoch 5 was seen, a leader of epoch 4 gets no ready; one of epoch 6 does."""
    leader.epoch = 5
    async with running_sampler(host, leader.address):
        session = await leader.ready_session()
        leader.epoch = 4
        session.ended.set()
        stale = await leader.next_session()
        leader.epoch = 6
        newer = await leader.ready_session()
        assert stale.answers.empty()
        assert newer.hello.process_id == session.hello.process_id


@pytest.mark.parametrize("kind", ["sample", "commit", "release"])
async def test_message_of_a_lower_epoch_changes_nothing(host: ClusterHost, leader: FakeLeader, kind: str) -> None:
    """Invariant 9: a stale message ends the session and leaves the ledger as it was."""
    leader.epoch = 3
    async with running_sampler(host, leader.address):
        session = await leader.ready_session({(1, 1): "node-a"})
        await session.wait_free(node_a=3000)
        a = session.index("node-a")
        if kind == "sample":
            await session.send(sample=sampler_pb2.SampleRequest(epoch=2))
        elif kind == "commit":
            request = sampler_pb2.CommitRequest(
                epoch=2,
                handle_column=int64([2]),
                attempt_column=int32([1]),
                class_column=int32([1]),
                offset_column=int32([0, 1]),
                candidate_column=int32([a]),
            )
            await session.send(commit=request)
        else:
            release = sampler_pb2.Release(epoch=2, handle_column=int64([1]), attempt_column=int32([1]))
            await session.send(release=release)
        again = await leader.next_session()
        await again.wait_free(node_a=3000)
        assert session.answers.empty()


async def test_questions_before_the_full_list_end_the_session(host: ClusterHost, leader: FakeLeader) -> None:
    """Nothing is sampled or committed before all placements are known."""
    async with running_sampler(host, leader.address):
        session = await leader.next_session()
        await session.send(placements=placement_list({(1, 1): "node-a"}, last=False))
        await session.send(sample=sampler_pb2.SampleRequest(epoch=1, strategy="random"))
        again = await leader.ready_session({(1, 1): "node-a"})
        assert session.answers.empty()
        await again.wait_free(node_a=3000)


async def test_list_in_several_parts_counts_as_one(host: ClusterHost, leader: FakeLeader) -> None:
    """The list is complete with its last part only."""
    async with running_sampler(host, leader.address):
        session = await leader.next_session()
        await session.send(placements=placement_list({(1, 1): "node-a"}, last=False))
        await session.send(placements=placement_list({(2, 1): "node-b", (3, 1): "node-a"}))
        ready = await session.next_answer("ready")
        assert ready.placement_count == 3
        await session.wait_free(node_a=2000, node_b=3000)


async def test_redirect_is_followed_to_the_leader(host: ClusterHost, leader: FakeLeader) -> None:
    """A replica that does not lead sends the sampler on."""
    async with serving_leader() as replica:
        replica.redirect = leader.address
        async with running_sampler(host, replica.address):
            await leader.ready_session()
            assert replica.dialled == 1


async def test_other_servers_are_tried_when_one_is_dead_or_knows_no_leader(
    host: ClusterHost, leader: FakeLeader
) -> None:
    """With one server gone and one without a leader the third is found."""
    async with serving_leader() as replica:
        replica.redirect = ""
        async with running_sampler(host, "127.0.0.1:1", replica.address, leader.address):
            await leader.ready_session()


async def test_silent_leader_is_left_and_dialled_again(host: ClusterHost, leader: FakeLeader) -> None:
    """Heartbeats are sent in silence; a leader that answers none of three is taken for dead."""
    leader.heartbeat_s = 0.3
    async with running_sampler(host, leader.address):
        session = await leader.ready_session()
        async with asyncio.timeout(TIMEOUT_S):
            while session.heartbeats < 3:
                session.news.clear()
                await session.news.wait()
        confirming, session.send = session.send, _swallow  # type: ignore[method-assign]
        again = await leader.ready_session()
        assert again is not session
        session.send = confirming  # type: ignore[method-assign]


async def _swallow(**message: object) -> None:
    """Send nothing."""


async def test_nodes_that_change_are_told_and_kept_from_commits(host: ClusterHost, leader: FakeLeader) -> None:
    """Cordons of the leader and of Kubernetes, lost and new nodes reach the ledger and the leader."""
    async with running_sampler(host, leader.address):
        session = await leader.ready_session()
        a, b = session.index("node-a"), session.index("node-b")
        await session.send(cordons=sampler_pb2.Cordons(nodes=["node-a"]))
        assert (await session.commit([(1, 1)], [[a]]))[1] == [NODE_UNAVAILABLE]
        await session.send(cordons=sampler_pb2.Cordons(nodes=[]))
        assert (await session.commit([(1, 1)], [[a]]))[1] == [PLACED]
        host.put_nodes((NodeDescription(name="node-d", allocatable={"cpu": 9000, "g": 3}, labels={"rack": "r1"}),))
        await session.wait_free(node_d=9000)
        host.inject(Fault(kind="node-lost", node="node-b"))
        async with asyncio.timeout(TIMEOUT_S):
            while session.nodes[b].flag != 4:
                session.news.clear()
                await session.news.wait()
        assert (await session.commit([(2, 1)], [[b]]))[1] == [NODE_UNAVAILABLE]


async def test_dropped_and_stale_watches_lose_nothing(host: ClusterHost, leader: FakeLeader) -> None:
    """A watch that ends is resumed, one whose version is gone starts from a list; ends in between are seen."""
    cluster = InProcessCluster(host, "one")
    async with running_sampler(host, leader.address):
        session = await leader.ready_session()
        await cluster.create_objects(make_create_batch([(1, 1)]))
        await session.wait_free(node_a=3000)
        host.inject(Fault(kind="watch-dropped"))
        await cluster.create_objects(make_create_batch([(2, 1)]))
        await session.wait_free(node_a=2000)
        (first, _) = read_events(await cluster.list_objects(Selector.OURS))
        await cluster.delete_objects(make_delete_batch(first))
        host.inject(Fault(kind="watch-stale"))
        await session.wait_free(node_a=3000)
        host.inject(Fault(kind="unavailable", count=3))
        host.inject(Fault(kind="watch-dropped"))
        host.add_unmanaged_pods("node-c", {"cpu": 1}, 1)
        await session.wait_free(node_c=3999)


async def test_pod_that_the_kubelet_refuses_frees_its_placement(host: ClusterHost, leader: FakeLeader) -> None:
    """A pod that failed at once takes nothing."""
    cluster = InProcessCluster(host, "one")
    async with running_sampler(host, leader.address):
        session = await leader.ready_session()
        a = session.index("node-a")
        await session.commit([(1, 1)], [[a]])
        await session.wait_free(node_a=3000)
        await cluster.create_objects(make_create_batch([(1, 1)], bag=make_bag(make_pod(cpu="9"))))
        (pod,) = read_events(await cluster.list_objects(Selector.OURS))
        assert pod.phase == PodPhase.FAILED
        await session.wait_free(node_a=4000)


@pytest.mark.parametrize(("score", "sign"), [("least-allocated", -1), ("most-allocated", 1)])
async def test_scores_of_the_configuration_are_used(
    host: ClusterHost, leader: FakeLeader, score: str, sign: int
) -> None:
    """An operator spreads or packs by naming scores: a node that was given a run loses or gains points."""
    async with running_sampler(host, leader.address, scores={score: 1.0}):
        session = await leader.ready_session()
        a = session.index("node-a")

        async def points() -> float:
            answer = await session.sample([1], complete_column=b"\1")
            nodes = np.frombuffer(answer.node_column, dtype="<i4")[np.frombuffer(answer.candidate_column, dtype="<i4")]
            return float(np.frombuffer(answer.score_column, dtype="<f4")[nodes.tolist().index(a)])

        before = await points()
        await session.commit([(1, 1)], [[a]])
        after = await points()
        assert np.sign(after - before) == sign, (before, after)


def test_scores_that_do_not_exist_are_refused() -> None:
    """A wrong name is a mistake in the configuration, told before anything starts."""
    with pytest.raises(InvalidRequest, match="least-alocated"):
        SamplerConfig(cluster="c", cluster_address="x", server_addresses=("y",), scores={"least-alocated": 1.0})


async def test_a_node_that_has_grown_is_told_long_before_what_single_nodes_have_left(
    host: ClusterHost, leader: FakeLeader
) -> None:
    """The leader asks for a class only where some node is large enough, so it must know how large nodes are."""
    async with running_sampler(host, leader.address, node_interval_ms=1e9):
        session = await leader.ready_session()
        a, b = session.index("node-a"), session.index("node-b")
        await session.commit([(1, 1)], [[b]])
        host.put_nodes((NodeDescription(name="node-a", allocatable={"cpu": 9000}, labels={}),))
        await session.wait_free(node_a=9000)
        assert session.nodes[b].free_millicores == 4000  # of interest to people only
        host.inject(Fault(kind="node-unreachable", node="node-a"))
        async with asyncio.timeout(TIMEOUT_S):
            while session.nodes[a].flag & 1:
                session.news.clear()
                await session.news.wait()


async def test_a_rise_is_told_at_once_while_a_class_waits_for_it(host: ClusterHost, leader: FakeLeader) -> None:
    """A class without a candidate is not asked for again before the leader hears of a rise: totals cannot wait."""
    async with running_sampler(host, leader.address, capacity_interval_ms=1e9, node_interval_ms=1e9):
        session = await leader.ready_session()
        await session.commit([(1, 1)], [[session.index("node-a")]])
        answer = await session.sample([1, 2], wanted_column=int32([100, 1]))
        assert list(answer.reason_column) == [sampler_pb2.WAIT_REASON_NO_ROOM, sampler_pb2.WAIT_REASON_MISMATCH]
        release = sampler_pb2.Release(epoch=1, handle_column=int64([1]), attempt_column=int32([1]))
        await session.send(release=release)
        async with asyncio.timeout(TIMEOUT_S):
            while session.capacity is None or not session.capacity.fitting_class_column:
                session.news.clear()
                await session.news.wait()
        assert np.frombuffer(session.capacity.fitting_class_column, dtype="<i4").tolist() == [1]
        assert (np.frombuffer(session.capacity.fitting_room_column, dtype="<i4") > 0).all()
        assert np.frombuffer(session.capacity.total_free_column, dtype="<i8")[0] == 12_000


async def test_classes_that_the_leader_has_dropped_are_known_no_more(host: ClusterHost, leader: FakeLeader) -> None:
    """Told once more with the message that drops it, a class is known."""
    many = range(10_000, 13_000)
    definition = b'{"requests":{"cpu":1000}}'
    told = [sampler_pb2.ClassDefinition(class_id=class_id, definition=definition) for class_id in many]
    async with running_sampler(host, leader.address):
        session = await leader.ready_session()
        asked = [many[0], many[-1]]
        answer = await session.sample(asked, classes=told)
        assert np.diff(np.frombuffer(answer.offset_column, dtype="<i4")).all()
        answer = await session.sample(asked, classes=told[-1:], dropped_class_column=int32([*many]))
        assert np.diff(np.frombuffer(answer.offset_column, dtype="<i4")).astype(bool).tolist() == [False, True]


async def test_releases_that_come_with_a_request_count_before_it(host: ClusterHost, leader: FakeLeader) -> None:
    """What ended is free for those who ask in the same message."""
    async with running_sampler(host, leader.address):
        session = await leader.ready_session()
        assert session.hello.joins_releases
        a = session.index("node-a")
        await session.commit([(1, 1)], [[a]])
        answer = await session.sample([1])
        assert np.frombuffer(answer.total_free_column, dtype="<i8")[0] == 11_000
        release = sampler_pb2.Release(epoch=1, handle_column=int64([1]), attempt_column=int32([1]))
        answer = await session.sample([1], release=release)
        assert np.frombuffer(answer.total_free_column, dtype="<i8")[0] == 12_000


@pytest.mark.parametrize("wish", [False, True])
async def test_hello_says_whether_the_cluster_wishes_to_be_delegated(
    host: ClusterHost, leader: FakeLeader, *, wish: bool
) -> None:
    """As the setting says."""
    async with running_sampler(host, leader.address, delegated=wish):
        assert (await leader.ready_session()).hello.delegated is wish
