"""Custom resources under the account that our manifests give: refused until granted, then with names of their run."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import yaml
from testbed.lab import RealLab

from argosy_core.job.reading.naming import object_name
from argosy_kube import KubernetesSettings, open_cluster
from argosy_kube.port import CreateCode, DeleteCode, Selector
from argosy_testkit.cluster_batches import make_bag, make_create_batch, make_delete_batch, make_pod, read_events
from argosy_testkit.cluster_contract import codes

ROOT = Path(__file__).resolve().parents[3]
GRANT = """
- op: add
  path: /rules/-
  value: {apiGroups: [parts.test], resources: [bolts], verbs: [get, list, watch, create, delete]}
"""
BOLTS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "bolts.parts.test"},
    "spec": {
        "group": "parts.test",
        "scope": "Namespaced",
        "names": {"plural": "bolts", "singular": "bolt", "kind": "Bolt"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "thread"}, "data": {"pitch": "1.25"}}
BOLT = {
    "apiVersion": "parts.test/v1",
    "kind": "Bolt",
    "metadata": {
        "name": "m8",
        "annotations": {
            "argosy.dev/references": '["/spec/threadFrom", "/spec/nuts/*/configMapName"]',
            "argosy.dev/pod-templates": '["/spec/template"]',
        },
    },
    "spec": {
        "threadFrom": "thread",
        "label": "thread",
        "nuts": [{"size": 8}, {"configMapName": "thread"}],
        "template": {"spec": {"containers": [{"name": "thread", "envFrom": [{"configMapRef": {"name": "thread"}}]}]}},
    },
}


def apply(lab: RealLab, directory: Path, *, grants: bool) -> None:
    """Apply the account and rights of our base, in an overlay as an operator writes it."""
    base = os.path.relpath(ROOT / "deploy" / "kustomize" / "cluster", directory)
    overlay: dict[str, object] = {"resources": [base]}
    if grants:
        overlay["patches"] = [{"target": {"kind": "ClusterRole", "name": "argosy-executor"}, "patch": GRANT}]
    (directory / "kustomization.yaml").write_text(yaml.safe_dump(overlay), encoding="utf-8")
    text = lab.api.kubectl("kustomize", str(directory))
    wanted = [document for document in yaml.safe_load_all(text) if document["kind"] != "Deployment"]
    lab.api.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(wanted))


def check_references(lab: RealLab) -> None:
    """Check the bolt that the API server has: its references are to a config map that it has, too."""
    (bolt,) = json.loads(lab.api.kubectl("get", "bolts.parts.test", "-A", "-o", "json"))["items"]
    thread = object_name("thread", 12, 1)
    assert bolt["metadata"]["name"] == object_name("m8", 12, 1)
    assert bolt["spec"]["threadFrom"] == thread
    assert bolt["spec"]["label"] == "thread"
    assert bolt["spec"]["nuts"] == [{"size": 8}, {"configMapName": thread}]
    (container,) = bolt["spec"]["template"]["spec"]["containers"]
    assert container == {"name": "thread", "envFrom": [{"configMapRef": {"name": thread}}]}
    found = lab.api.kubectl("get", "configmap", thread, "-n", bolt["metadata"]["namespace"], "-o", "json")
    assert json.loads(found)["data"] == CONFIG["data"]


async def test_custom_resource_is_refused_until_it_is_granted(lab: RealLab, tmp_path: Path) -> None:
    """Without the right the job's object is rejected, and says so; with it, it is made, found and deleted.

    What it declares as references names the config map of its own run then, which is there.
    """
    await asyncio.to_thread(lab.api.kubectl, "apply", "-f", "-", stdin=yaml.safe_dump(BOLTS))
    await asyncio.to_thread(lab.api.kubectl, "wait", "--for=condition=Established", "crd", "bolts.parts.test")
    await asyncio.to_thread(apply, lab, tmp_path, grants=False)
    token = await asyncio.to_thread(
        lab.api.kubectl, "create", "token", "argosy-executor", "-n", "argosy", "--duration=1h"
    )
    config = yaml.safe_load(lab.api.kubeconfig.read_text(encoding="utf-8"))
    for user in config["users"]:
        user["user"] = {"token": token.strip()}
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    cluster = open_cluster(f"kubernetes:{path}", installation="one", settings=KubernetesSettings())
    try:
        bag = make_bag(BOLT, CONFIG, make_pod())
        refused = await cluster.create_objects(make_create_batch([(11, 1)], bag=bag, objects=3))
        assert codes(refused) == [CreateCode.REJECTED, CreateCode.CREATED, CreateCode.CREATED]
        assert "has not the rights to bolts of parts.test" in refused.messages[refused.message_column[0]]
        kinds = {item.kind for item in read_events(await cluster.list_objects(Selector.OURS))}
        assert kinds == {"ConfigMap", "Pod"}
        await asyncio.to_thread(apply, lab, tmp_path, grants=True)
        code = CreateCode.REJECTED
        async with asyncio.timeout(50):
            while code == CreateCode.REJECTED:  # the API server learns of rights in a moment
                made = await cluster.create_objects(make_create_batch([(12, 1)], bag=bag, objects=3))
                code = codes(made)[0]
        assert code == CreateCode.CREATED
        listed = read_events(await cluster.list_objects(Selector.OURS))
        bolts = [item for item in listed if item.kind == "Bolt.parts.test"]
        assert [item.run for item in bolts] == [(12, 1, 0)]
        await asyncio.to_thread(check_references, lab)
        result = await cluster.delete_objects(make_delete_batch(*bolts))
        assert result.code_column.tolist() == [DeleteCode.DELETED]
    finally:
        await cluster.close()


def test_documented_patch_is_the_one_that_was_tried() -> None:
    """What docs/deploy.md tells operators differs in the group and plural only."""
    text = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    told = GRANT.replace("parts.test", "batch.example.com").replace("bolts", "widgets")
    assert all(line.strip() in text for line in told.strip().splitlines())
