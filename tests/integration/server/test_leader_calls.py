"""Tests of calls that need the leader's memory: answered by it, forwarded to it, never further than one hop."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from typing import Any

import grpc
import numpy as np
import pytest

from argosy.api.v1 import cluster_pb2, job_pb2, queue_pb2, scheduling_pb2
from argosy.debug.v1 import debug_pb2
from argosy.lease.v1 import lease_pb2, outlook_pb2
from argosy_core.job.identity import parse_id
from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.states import JobStage
from argosy_core.nodes import NodeColumns, NodeGroup
from argosy_core.placement import WaitReason
from argosy_core.scheduler import (
    ClusterReason,
    Explanation,
    FilterCount,
    PoolShares,
    QueueShares,
    ResourceCapacity,
    ResourceShares,
)
from argosy_server.api.leadership.leader_view import (
    ClusterGauges,
    NodeGauges,
    RoundGauges,
)

_CORE = {"cpu": 1, "memory": "1Gi"}
SHARE = QueueShares(
    queue="red", parent="all", weight=2.0, fair_share_ratio=0.5, usage_cores=1.0, flow_cores=1.5, demand_cores=3.0,
    entitled_cores=2.0, queued_count=1, pending_count=2, leased_count=3,
    non_preemptible_flow_cores=0.5, non_preemptible_cap_cores=4.0, charged_core_min=6.0, budget_core_min=7.0,
    limited_count=5, rate_limited_count=6, max_running_count=7, lease_rate_per_s=0.5,
    resources=(ResourceShares(resource="memory", requested=3, running=1, entitled=2),),
)  # fmt: skip


class FixedView:
    """A leader's memory that a test has filled."""

    def __init__(self) -> None:
        """Start with two clusters, of which one is connected."""
        self.explained: dict[int, Explanation] = {}
        self.knows_capacity = True
        self.disk = "hdd"

    def explain(self, handle: int) -> Explanation | None:
        """Answer what the test put in."""
        return self.explained.get(handle)

    def standings(self, handles: Sequence[int]) -> dict[int, tuple[JobStage, WaitReason]]:
        """Answer the same of what the test put in."""
        return {
            handle: (found.stage, found.reason)
            for handle in handles
            if (found := self.explained.get(handle)) is not None
        }

    def definitions(self, handles: Sequence[int]) -> list[bytes]:
        """Answer a class that only nodes with fast disks can hold."""
        kind = SchedulingClass(requests=(("cpu", 2000),), node_selector=(("disk", "ssd"),))
        return [kind.definition()] * len(handles)

    def pending(self) -> list[int]:
        """Answer what the test put in as pending."""
        return sorted(handle for handle, one in self.explained.items() if one.stage == JobStage.PENDING)

    def node_columns(self) -> dict[str, NodeColumns]:
        """Answer one node, in a cluster that is not heard."""
        return {
            "west": NodeColumns(
                names=["n0"],
                groups=[NodeGroup(labels=(("disk", self.disk),))],
                group=np.zeros(1, np.int32),
                flags=np.ones(1, np.uint8),
                resources=("cpu", "pods"),
                allocatable=np.array([[4000, 110]]),
                free=np.array([[1000, 110]]),
            )
        }

    def shares(self) -> PoolShares:
        """Answer one share."""
        memory = ResourceCapacity(resource="memory", capacity=4, unit_cores=0.5)
        return PoolShares(queues=(SHARE,), capacity_cores=64.0, resources=(memory,), is_known=self.knows_capacity)

    def last_round(self) -> RoundGauges:
        """Answer one round."""
        return RoundGauges(
            round=9, epoch=4, queued_count=1, pending_count=2, leased_count=3, conflict_count=0, class_count=5,
            phases=(("sample", 1.5),), totals={"leases": 7},
        )  # fmt: skip

    def dump(self) -> Iterator[str]:
        """Answer in two chunks."""
        yield '{"jobs": '
        yield "[]}"

    def clusters(self) -> Sequence[ClusterGauges]:
        """Answer two clusters."""
        return (
            ClusterGauges(
                name="east", sampler_connected=True, executor_connected=True, node_count=2, run_count=5,
                total={"cpu": 8000}, free={"cpu": 3000},
            ),
            ClusterGauges(name="west", sampler_connected=False, executor_connected=False, run_count=4),
        )  # fmt: skip

    def nodes(self, cluster: str) -> Sequence[NodeGauges]:
        """Answer three nodes."""
        return tuple(
            NodeGauges(
                name=f"n{number}", allocatable={"cpu": 4000}, free={"cpu": -1}, ready=True, cordoned=False,
                labels={"disk": "ssd" if number else "hdd"},
            )
            for number in range(3)
        )  # fmt: skip


class FixedRole:
    """A leader role that leads pool default while it has a view."""

    def __init__(self) -> None:
        """Start leading."""
        self.present: FixedView | None = FixedView()

    def servicers(self) -> Sequence[Any]:
        """Serve no clusters."""
        return ()

    async def start(self, life: Any, *, address: str) -> None:
        """Need nothing."""

    def view(self, pool: str) -> FixedView | None:
        """Answer for pool default."""
        return self.present if pool == "default" else None

    async def stop(self) -> None:
        """Stop leading."""
        self.present = None


@pytest.fixture
def role() -> FixedRole:
    """Give a role that leads."""
    return FixedRole()


@pytest.fixture(params=["the leader itself", "a replica", "a replica of a process that leads only"])
async def either(
    *, request: Any, database_url: str, leader_store: Any, serve: Any, role: FixedRole
) -> AsyncIterator[Any]:
    """Give a server that leads, and replicas that forward."""
    leader_role = "leader" if request.param.endswith("only") else "both"
    async with serve(database_url, leader=role, role=leader_role) as leader:
        leader_store.try_lead("leader", leader.app.server.address, 600.0)
        for cluster in ("east", "west"):
            keep_s = 600.0 if cluster == "east" else 0.0
            leader_store.bind_cluster(1, cluster, uid="u", role="executor", process=bytes(16), keep_s=keep_s)
        if request.param == "the leader itself":
            await leader.make_queue("red")
            yield leader
        else:
            async with serve(database_url) as replica:
                await replica.make_queue("red")
                yield replica


async def test_shares_round_and_dump_come_from_leader(either: Any) -> None:
    """All figures of the leader's view arrive, wherever the call was made."""
    shares = await either.scheduling.GetShares(scheduling_pb2.GetSharesRequest())
    assert (shares.capacity_cores, shares.capacity_unknown) == (64.0, False)
    told = {field.name: value for field, value in shares.shares[0].ListFields()}
    (memory,) = told.pop("resources")
    assert told == {name: getattr(SHARE, name) for name in SHARE.__dataclass_fields__ if name != "resources"}
    assert (memory.resource, memory.requested, memory.running, memory.entitled) == ("memory", 3, 1, 2)
    (capacity,) = shares.resources
    assert (capacity.resource, capacity.capacity, capacity.unit_cores) == ("memory", 4, 0.5)
    last = await either.scheduling.GetLastRound(scheduling_pb2.GetLastRoundRequest(pool="default"))
    assert (last.round, last.epoch, last.class_count, dict(last.totals)) == (9, 4, 5, {"leases": 7})
    assert [(phase.phase, phase.duration.ToNanoseconds()) for phase in last.phases] == [("sample", 1_500_000)]
    dump = [part.chunk async for part in either.debug.DumpState(debug_pb2.DumpStateRequest())]
    assert "".join(dump) == '{"jobs": []}'


async def test_what_follows_from_a_capacity_that_is_not_known_is_absent(either: Any, role: FixedRole) -> None:
    """No number stands for what the leader does not know; what its runs hold it does know."""
    assert role.present is not None
    role.present.knows_capacity = False
    told = await either.scheduling.GetShares(scheduling_pb2.GetSharesRequest())
    (share,) = told.shares
    assert (told.capacity_unknown, len(told.resources), share.usage_cores) == (True, 0, SHARE.usage_cores)
    derived = {"entitled_cores", "non_preemptible_cap_cores", "budget_core_min"}
    assert derived.isdisjoint(field.name for field, _ in share.ListFields())
    assert {field.name for one in (told, *share.resources) for field, _ in one.ListFields()} == {
        "capacity_unknown", "shares", "resource", "requested", "running",
    }  # fmt: skip


async def test_explain_comes_from_leader_for_open_jobs(either: Any, role: FixedRole) -> None:
    """An open job is explained by the leader; one it has not taken in yet, by what is known."""
    known, fresh = await either.submit({}, {})
    assert role.present is not None
    role.present.explained[parse_id(known)[1]] = Explanation(
        stage=JobStage.PENDING,
        summary="No node has room.",
        reason=WaitReason.FAULT,
        cluster_reasons=(ClusterReason(cluster="c1", reason=WaitReason.PLUGIN, text="not now"),),
        filters=(FilterCount(filter="resources", node_count=12, text="insufficient resources on 12 nodes"),),
        examined_node_count=12,
    )
    answer = await either.jobs.ExplainJob(job_pb2.ExplainJobRequest(id=known))
    assert (answer.stage, answer.wait_reason) == (job_pb2.JOB_STAGE_PENDING, job_pb2.WAIT_REASON_FAULT)
    assert answer.filters[0].node_count == 12
    told = answer.cluster_reasons[0]
    assert (told.cluster, told.reason, told.text) == ("c1", job_pb2.WAIT_REASON_PLUGIN, "not now")
    assert answer.job.id == known
    answer = await either.jobs.ExplainJob(job_pb2.ExplainJobRequest(id=fresh))
    assert (answer.stage, "next round" in answer.summary) == (job_pb2.JOB_STAGE_QUEUED, True)


async def test_stages_of_many_jobs_come_from_the_leader_in_one_call(either: Any, role: FixedRole) -> None:
    """Each open job that the leader has is told with what it waits for; unknown ones and news are left out."""
    known, fresh = await either.submit({}, {})
    assert role.present is not None
    role.present.explained[parse_id(known)[1]] = Explanation(
        stage=JobStage.PENDING, summary="", reason=WaitReason.PLUGIN
    )
    answer = await either.jobs.BatchGetJobStages(job_pb2.BatchGetJobStagesRequest(ids=[known, fresh]))
    assert [(job.id, job.stage, job.wait_reason) for job in answer.jobs] == [
        (known, job_pb2.JOB_STAGE_PENDING, job_pb2.WAIT_REASON_PLUGIN)
    ]
    assert not answer.pools_without_leader
    (listed, _) = (await either.jobs.ListJobs(job_pb2.ListJobsRequest())).jobs
    assert set(listed.requests) >= {"cpu"}


_EXPLAINED_BY_NODES = (WaitReason.LIMIT, WaitReason.RATE, WaitReason.BACK_OFF, WaitReason.CORDONED, WaitReason.NO_ROOM)


@pytest.mark.parametrize("disk", ["hdd", "ssd"])
async def test_lists_give_the_reason_of_the_explanation(either: Any, role: FixedRole, disk: str) -> None:
    """A limit comes second to that no node can ever hold it; else the cluster that is away keeps it waiting."""
    assert role.present is not None
    role.present.disk = disk  # before the submit, which has the server look at the nodes
    ids = await either.submit(*({} for _ in _EXPLAINED_BY_NODES), {})
    for job_id, reason in zip(ids, (*_EXPLAINED_BY_NODES, WaitReason.HELD), strict=True):
        waiting = Explanation(stage=JobStage.QUEUED, summary="", reason=reason)
        role.present.explained[parse_id(job_id)[1]] = waiting
    answer = await either.jobs.BatchGetJobStages(job_pb2.BatchGetJobStagesRequest(ids=ids))
    listed = {job.id: job.wait_reason for job in answer.jobs}
    told = {job_id: (await either.jobs.ExplainJob(job_pb2.ExplainJobRequest(id=job_id))).wait_reason for job_id in ids}
    assert listed == told
    never, held = job_pb2.WAIT_REASON_MISMATCH, job_pb2.WAIT_REASON_HELD
    assert [listed[one] == never for one in ids] == [disk == "hdd"] * len(_EXPLAINED_BY_NODES) + [False]
    assert listed[ids[-1]] == held


async def test_pending_jobs_are_listed_without_a_look_at_those_that_wait(either: Any, role: FixedRole) -> None:
    """The leader names them; the selector narrows them, and who is pending no more by the rows is left out."""
    first, second, queued = await either.submit({}, {}, {})
    await either.make_queue("blue")
    assert role.present is not None
    for job_id in (first, second):
        pending = Explanation(stage=JobStage.PENDING, summary="")
        role.present.explained[parse_id(job_id)[1]] = pending
    role.present.explained[parse_id(queued)[1]] = Explanation(stage=JobStage.QUEUED, summary="")

    async def listed(**selector: Any) -> list[str]:
        request = job_pb2.ListPendingJobsRequest(selector=job_pb2.JobSelector(**selector))
        answer = await either.jobs.ListPendingJobs(request)
        assert not answer.pools_without_leader
        return [job.id for job in answer.jobs]

    assert await listed() == [second, first]
    assert await listed(queue="red", states=[job_pb2.JOB_STATE_QUEUED, job_pb2.JOB_STATE_LEASED]) == [second, first]
    assert await listed(queue="blue") == await listed(states=[job_pb2.JOB_STATE_RUNNING]) == []
    assert await listed(label_selector="team=none") == []


async def test_pending_jobs_of_a_pool_without_leader_are_unknown_and_said_to_be(api: Any) -> None:
    """No list is complete that says nothing of them."""
    await api.make_queue("red")
    selector = job_pb2.JobSelector(queue="red")
    answer = await api.jobs.ListPendingJobs(job_pb2.ListPendingJobsRequest(selector=selector))
    assert (list(answer.jobs), list(answer.pools_without_leader)) == ([], ["default"])


async def test_stages_name_the_pools_that_nobody_leads(api: Any) -> None:
    """A list of jobs is shown all the same, and says why it does not say what they wait for."""
    await api.make_queue("red")
    (job_id,) = await api.submit({})
    answer = await api.jobs.BatchGetJobStages(job_pb2.BatchGetJobStagesRequest(ids=[job_id]))
    assert (list(answer.jobs), list(answer.pools_without_leader)) == ([], ["default"])


async def test_explanation_tells_what_is_missing_who_is_away_and_what_is_cordoned(either: Any, role: FixedRole) -> None:
    """Beyond what the leader's memory knows: nodes as they were told, contacts, and cordons with their reasons."""
    (job,) = await either.submit({})
    assert role.present is not None
    waiting = Explanation(stage=JobStage.PENDING, summary="pending", reason=WaitReason.NO_ROOM)
    role.present.explained[parse_id(job)[1]] = waiting
    request = job_pb2.ExplainJobRequest(id=job)
    never = await either.jobs.ExplainJob(request)
    assert never.wait_reason == job_pb2.WAIT_REASON_MISMATCH
    assert list(never.missing) == ["no node has disk=ssd; nodes have disk=hdd"]
    assert never.summary == f"pending; no node of any cluster can ever hold it: {never.missing[0]}"
    role.present.disk = "ssd"
    away = await either.jobs.ExplainJob(request)
    assert away.wait_reason == job_pb2.WAIT_REASON_AWAY
    assert away.why.startswith("cluster west is not heard since 20")
    assert away.largest_node == "west/n0 (4 cpu)"
    assert [(one.cluster, one.able_node_count, one.filters[0].filter) for one in away.cluster_reasons] == [
        ("west", 1, "resources")
    ]
    await either.clusters.CordonCluster(cluster_pb2.CordonClusterRequest(name="west", reason="cables"))
    cordoned = await either.jobs.ExplainJob(request)
    assert (cordoned.wait_reason, cordoned.why) == (job_pb2.WAIT_REASON_CORDONED, "cluster west is cordoned: cables")
    await either.queues.CordonQueue(queue_pb2.CordonQueueRequest(name="red", reason="audit"))
    role.present.explained[parse_id(job)[1]] = replace(waiting, reason=WaitReason.CORDONED, why="its queue is cordoned")
    assert (await either.jobs.ExplainJob(request)).why == "its queue is cordoned: audit"


async def test_submit_warns_of_jobs_that_no_known_node_could_hold_and_takes_them(either: Any) -> None:
    """By what samplers have told the leader, whoever takes the submit; a node may come yet."""
    text = "no node that is known now can hold it: it asks for 1Gi memory, and no node has any"
    manifest = json.dumps(
        {
            "apiVersion": "v1", "kind": "Pod", "metadata": {},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": _CORE}}]},
        }
    )  # fmt: skip
    request = job_pb2.SubmitJobsRequest(
        specs=[job_pb2.JobSpec(manifests=[manifest])],
        items=[job_pb2.JobItem(queue="red", job_set="one")],
        validate_only=True,
    )
    checked = await either.jobs.SubmitJobs(request)
    request.validate_only = False
    answer = await either.jobs.SubmitJobs(request)
    for one in (checked, answer):
        assert [(told.field, told.description) for told in one.warnings] == [("specs[0]", text)]
    assert len(answer.job_ids) == 1
    wrong = outlook_pb2.FindMissingRequest(definitions=[b"{}"])
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await either.outlook.FindMissing(wrong)
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_job_of_a_pool_that_nobody_leads_is_explained_by_that(api: Any) -> None:
    """Waiting for an answer would not help: somebody has to start a leader."""
    await api.make_queue("red")
    (job,) = await api.submit({})
    answer = await api.jobs.ExplainJob(job_pb2.ExplainJobRequest(id=job))
    assert (answer.stage, answer.wait_reason) == (job_pb2.JOB_STAGE_QUEUED, job_pb2.WAIT_REASON_NO_LEADER)
    assert "nobody leads pool 'default'" in answer.summary


async def test_clusters_join_rows_with_live_figures(either: Any) -> None:
    """Rows come from the database, figures from the leader; nodes page by name and label."""
    listed = (await either.clusters.ListClusters(cluster_pb2.ListClustersRequest())).clusters
    assert [(one.name, list(one.pools), one.executor_connected, one.run_count) for one in listed] == [
        ("east", ["default"], True, 5),
        ("west", ["default"], False, 4),
    ]
    assert dict(listed[0].total.amounts) == {"cpu": 8000}
    one = (await either.clusters.GetCluster(cluster_pb2.GetClusterRequest(name="east"))).cluster
    assert (one.node_count, dict(one.free.amounts)) == (2, {"cpu": 3000})
    page = await either.clusters.ListNodes(
        cluster_pb2.ListNodesRequest(cluster="east", label_selector="disk=ssd", page_size=1)
    )
    assert [node.name for node in page.nodes] == ["n1"]
    page = await either.clusters.ListNodes(
        cluster_pb2.ListNodesRequest(cluster="east", label_selector="disk=ssd", page_token=page.next_page_token)
    )
    assert [(node.name, node.free.amounts["cpu"]) for node in page.nodes] == [("n2", -1)]
    assert page.next_page_token == ""


async def test_cordons_are_stored_and_told_to_leader(either: Any, leader_store: Any) -> None:
    """Cordons of clusters and nodes are rows and news."""
    cordon = cluster_pb2.CordonClusterRequest(name="east", reason="audit")
    answer = (await either.clusters.CordonCluster(cordon)).cluster
    assert (answer.cordon.reason, answer.node_count) == ("audit", 2)
    cordon_node = cluster_pb2.CordonNodeRequest(cluster="west", node="n1", reason="disk \x1b[31m")
    answer = (await either.clusters.CordonNode(cordon_node)).cluster
    assert (answer.name, answer.run_count) == ("west", 4)
    row = (await either.clusters.GetCluster(cluster_pb2.GetClusterRequest(name="west"))).cluster
    assert [(node.name, node.cordon.reason) for node in row.cordoned_nodes] == [("n1", "disk  [31m")]
    freed = await either.clusters.UncordonNode(cluster_pb2.UncordonNodeRequest(cluster="west", node="n1"))
    assert list(freed.cluster.cordoned_nodes) == []
    freed = await either.clusters.UncordonCluster(cluster_pb2.UncordonClusterRequest(name="east"))
    assert not freed.cluster.HasField("cordon")
    news = [lease_pb2.Changes.FromString(payload) for _, payload in leader_store.read_changes(100)]
    told = [list(change.changed_clusters) for change in news if change.changed_clusters]
    assert told == [["east"], ["west"], ["west"], ["east"]]


async def test_delegating_a_cluster_is_stored_and_told_to_leader(either: Any, leader_store: Any) -> None:
    """It is shown with the cluster, and taken back likewise; one that is not there is NOT_FOUND."""
    request = cluster_pb2.DelegateClusterRequest(name="east", delegated=True)
    answer = (await either.clusters.DelegateCluster(request)).cluster
    assert (answer.delegated, answer.node_count) == (True, 2)
    listed = (await either.clusters.ListClusters(cluster_pb2.ListClustersRequest())).clusters
    assert [(one.name, one.delegated) for one in listed] == [("east", True), ("west", False)]
    answer = (await either.clusters.DelegateCluster(cluster_pb2.DelegateClusterRequest(name="east"))).cluster
    assert not answer.delegated
    taken_back = cluster_pb2.DelegateClusterRequest(name="east", delegated=True, as_installed=True)
    assert not (await either.clusters.DelegateCluster(taken_back)).cluster.delegated, "as it was, until its next hello"
    news = [lease_pb2.Changes.FromString(payload) for _, payload in leader_store.read_changes(100)]
    assert [list(change.changed_clusters) for change in news if change.changed_clusters] == [["east"]] * 3
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await either.clusters.DelegateCluster(cluster_pb2.DelegateClusterRequest(name="nowhere", delegated=True))
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND


async def test_cordon_of_a_node_that_is_not_there_is_refused_unless_allowed(either: Any) -> None:
    """A mistyped name would cordon nothing, in silence; nobody can tell for a cluster that is not connected."""
    wrong = cluster_pb2.CordonNodeRequest(cluster="east", node="nope")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await either.clusters.CordonNode(wrong)
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND
    assert "has no node 'nope'" in caught.value.details()
    there = (await either.clusters.ListNodes(cluster_pb2.ListNodesRequest(cluster="east", page_size=1))).nodes[0].name
    for request in (
        cluster_pb2.CordonNodeRequest(cluster="east", node="nope", allow_missing=True),
        cluster_pb2.CordonNodeRequest(cluster="east", node="nope"),  # cordoned already
        cluster_pb2.CordonNodeRequest(cluster="east", node=there),
        cluster_pb2.CordonNodeRequest(cluster="west", node="nope"),
    ):
        answer = (await either.clusters.CordonNode(request)).cluster
        assert request.node in [node.name for node in answer.cordoned_nodes]


async def test_forget_cluster_only_when_it_is_not_connected(either: Any) -> None:
    """A connected cluster could still run its pods, so it cannot be forgotten."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await either.clusters.ForgetCluster(cluster_pb2.ForgetClusterRequest(name="east"))
    assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    answer = await either.clusters.ForgetCluster(cluster_pb2.ForgetClusterRequest(name="west"))
    assert answer.lost_run_count == 4
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await either.clusters.GetCluster(cluster_pb2.GetClusterRequest(name="west"))
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND


async def test_forwarded_call_goes_no_further(database_url: str, leader_store: Any, serve: Any) -> None:
    """Two replicas that take each other for the leader answer UNAVAILABLE rather than play ball."""
    async with serve(database_url) as first, serve(database_url) as second:
        leader_store.try_lead("leader", first.app.server.address, 600.0)
        for replica in (first, second):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await replica.scheduling.GetShares(scheduling_pb2.GetSharesRequest())
            assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
            assert "is changing" in str(caught.value.details())


async def test_clusters_are_listed_without_leader(api: Any, leader_store: Any) -> None:
    """Rows are answered even if nobody can say what is going on."""
    leadership = leader_store.try_lead("leader", "127.0.0.1:1", 600.0)
    leader_store.bind_cluster(leadership.epoch, "east", uid="u", role="executor", process=bytes(16), keep_s=1.0)
    listed = (await api.clusters.ListClusters(cluster_pb2.ListClustersRequest())).clusters
    assert [(one.name, one.executor_connected, one.node_count) for one in listed] == [("east", False, 0)]


async def test_clusters_are_listed_page_by_page_however_long_their_names_are(api: Any, leader_store: Any) -> None:
    """The token of a page is taken by the next call."""
    leadership = leader_store.try_lead("leader", "127.0.0.1:1", 600.0)
    names = [".".join([letter * 63] * 4)[:253] for letter in "abc"]
    for name in names:
        leader_store.bind_cluster(leadership.epoch, name, uid="u", role="executor", process=bytes(16), keep_s=1.0)
    request, listed = cluster_pb2.ListClustersRequest(page_size=1), []
    while not listed or request.page_token:
        page = await api.clusters.ListClusters(request)
        listed += [cluster.name for cluster in page.clusters]
        request.page_token = page.next_page_token
    assert listed == names


async def test_leader_only_process_serves_no_submits(database_url: str, serve: Any, role: FixedRole) -> None:
    """A process with the leader role alone answers UNIMPLEMENTED to what it does not serve."""
    async with serve(database_url, leader=role, role="leader") as leader:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await leader.submit({})
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED
