"""Custom resources in the simulated cluster: taken as they are, called as everywhere."""

from __future__ import annotations

from argosy_kube.port import DeleteCode, Selector
from argosy_kube.simulated.__main__ import make_host
from argosy_testkit.cluster_batches import make_bag, make_create_batch, make_delete_batch, make_pod, read_events
from argosy_testkit.cluster_contract import LAB_NODES
from argosy_testkit.in_process_cluster import InProcessCluster


async def test_simulated_cluster_takes_custom_resources_of_any_group() -> None:
    """They are there until they are deleted; a `Pod` of another group runs nothing and has no node."""
    host = make_host("lab", LAB_NODES, speed=50.0, flush_interval_s=0.005)
    cluster = InProcessCluster(host, "one")
    manifests = [
        {"apiVersion": "example.test/v1", "kind": kind, "metadata": {"name": "x"}, "spec": {"containers": 5}}
        for kind in ("Widget", "Pod")
    ]
    await cluster.create_objects(make_create_batch([(11, 1)], bag=make_bag(*manifests, make_pod()), objects=3))
    listed = read_events(await cluster.list_objects(Selector.OURS))
    assert [(item.kind, item.node) for item in sorted(listed, key=lambda item: item.run)] == [
        ("Widget.example.test", None),
        ("Pod.example.test", None),
        ("Pod", "node-a"),
    ]
    assert len(await cluster.list_objects(Selector.ALL_PODS)) == 1
    result = await cluster.delete_objects(make_delete_batch(*[item for item in listed if item.node is None]))
    assert result.code_column.tolist() == [DeleteCode.DELETED] * 2
