"""Bodies of creates are what rendering gives, whatever run they are for."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.naming import object_name, run_suffix, run_suffixes
from argosy_core.job.reading.pod_groups import PodGroup, build_body, member_bags
from argosy_core.job.tables.members import ordinal_of
from argosy_core.reconcile.rendering import BagTemplate, RunIdentity
from argosy_kube.kubernetes.acting.rendering import TemplateCache
from argosy_kube.kubernetes.api.resources import ResourceDiscovery
from argosy_kube.kubernetes.ours.ownership import STORED_FINALIZER
from argosy_kube.kubernetes.settings import KubernetesSettings
from argosy_testkit.cluster_batches import make_bag, make_create_batch, make_pod

METADATA = {"labels": {"team": "ä"}, "annotations": {"note": 'with "quotes" and \n lines'}}


def make_cache() -> TemplateCache:
    """Return a cache that knows the built-in kinds."""
    resources = ResourceDiscovery(None)  # type: ignore[arg-type]
    return TemplateCache("inst", KubernetesSettings(finalizer=False), resources, rng=np.random.default_rng(3))


@pytest.mark.parametrize(("handle", "attempt"), [(1, 1), (1 << 54, 255), (7, 32_767), ((1 << 55) - 1, 17), (0, 100)])
async def test_body_equals_what_rendering_gives(handle: int, attempt: int) -> None:
    """Cutting and joining changes nothing: names, references, labels, job id, node, the job's own labels."""
    pod = make_pod()
    pod["spec"]["volumes"] = [{"name": "v", "configMap": {"name": "settings"}}]
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "annotations": {"argosy.dev/references": '["/data/pod"]'}},
        "data": {"a": "é", "pod": "work"},
    }
    bag = make_bag(config, pod)
    batch = make_create_batch(
        [(handle, attempt)], bag=bag, objects=2, metadata=json.dumps(METADATA).encode(), nodes=("node-x",)
    )
    templates = make_cache()
    for index in (0, 1):
        template = await templates.find(batch, index)
        run = RunIdentity(
            installation="inst",
            handle=handle,
            ordinal=attempt,
            id_high=7,
            queue="queue",
            job_set="set",
            node="node-x",
            **METADATA,  # type: ignore[arg-type]
        )
        expected = BagTemplate(bag).render(index, run)
        assert json.loads(template.body(handle, attempt, 7, "node-x")) == expected
        assert template.name(handle, attempt) == expected["metadata"]["name"]
        if index == 0:
            assert expected["data"] == {"a": "é", "pod": object_name("work", handle, attempt)}


@pytest.mark.parametrize(("attempt", "member"), [(1, 0), (17, 0), (3, 1), (32_767, 999), (2, 32_767)])
async def test_body_of_a_member_equals_what_rendering_gives(attempt: int, member: int) -> None:
    """Names of peers are those of other members than the one that is made, and its own number stands once."""
    pod = make_pod()
    pod["spec"]["containers"][0]["env"] = [
        {"name": "PORT", "value": "32767"},
        {"name": "PEERS", "value": "$(ARGOSY_PEERS)"},
    ]
    groups = [PodGroup(name="work", minimum=3, maximum=4, template=json.dumps(pod))]
    bag = member_bags(build_body([], groups, namespace="default")).bodies[0]
    ordinal = ordinal_of(attempt, member)
    batch = make_create_batch([(77, ordinal)], bag=bag, objects=2, nodes=("node-x",))
    templates = make_cache()
    for index in (0, 1):
        run = RunIdentity(
            installation="inst", handle=77, ordinal=ordinal, id_high=7, queue="queue", job_set="set", node="node-x"
        )
        expected = BagTemplate(bag).render(index, run)
        assert json.loads((await templates.find(batch, index)).body(77, ordinal, 7, "node-x")) == expected


@given(handle=st.integers(0, (1 << 55) - 1), attempt=st.integers(1, 32_767), member=st.integers(0, 32_767))
def test_suffix_is_that_of_names(handle: int, attempt: int, member: int) -> None:
    """The way for one run and the way for many agree."""
    ordinal = ordinal_of(attempt, member)
    assert run_suffixes(np.array([handle]), np.array([ordinal]))[0].decode() == run_suffix(handle, ordinal)


async def test_pods_carry_the_finalizer_and_others_do_not() -> None:
    """Only pods have an end to tell."""
    resources = ResourceDiscovery(None)  # type: ignore[arg-type]
    templates = TemplateCache("inst", KubernetesSettings(), resources, rng=np.random.default_rng(3))
    batch = make_create_batch([(1, 1)], bag=make_bag({"kind": "ConfigMap", "metadata": {}}, make_pod()), objects=2)
    config, pod = [json.loads((await templates.find(batch, row)).body(1, 1, 7, "n")) for row in (0, 1)]
    assert "finalizers" not in config["metadata"]
    assert config["apiVersion"] == "v1"
    assert pod["metadata"]["finalizers"] == [STORED_FINALIZER]


@pytest.mark.parametrize("bag", [b"{", b"[1]", b"[]", b'[{"kind": "Pod"}]'], ids=["cut", "number", "empty", "no-spec"])
async def test_bag_that_cannot_be_rendered_is_refused_with_its_place(bag: Any) -> None:
    """Whatever is wrong with a bag is the job's fault and said so."""
    with pytest.raises(InvalidRequest, match="object 0 of the bag"):
        await make_cache().find(make_create_batch([(1, 1)], bag=bag), 0)
