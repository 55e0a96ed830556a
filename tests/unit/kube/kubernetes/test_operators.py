"""What pods of jobs that submit others are told."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from argosy_core.job.identity import compose_id
from argosy_core.job.reading.families import family_marks
from argosy_kube.kubernetes.acting.rendering import TemplateCache
from argosy_kube.kubernetes.api.resources import ResourceDiscovery
from argosy_kube.kubernetes.settings import KubernetesSettings
from argosy_testkit.cluster_batches import make_bag, make_create_batch, make_pod


async def rendered(*, is_operator: bool = True, **settings: Any) -> dict[str, Any]:
    """Return the pod of run 5-1 of a job with an init container and a variable of its own."""
    pod = make_pod()
    (main,) = pod["spec"]["containers"]
    main["env"] = [{"name": "ARGOSY_SERVER", "value": "mine:1"}]
    pod["spec"]["initContainers"] = [{"name": "init", "image": "busybox"}]
    labels, annotations = family_marks(None, 0, may_have_children=is_operator)
    metadata = json.dumps({"labels": labels, "annotations": annotations}).encode()
    templates = TemplateCache(
        "inst",
        KubernetesSettings(**settings),
        ResourceDiscovery(None),  # type: ignore[arg-type]
        rng=np.random.default_rng(3),
    )
    template = await templates.find(make_create_batch([(5, 1)], bag=make_bag(pod), metadata=metadata), 0)
    return json.loads(template.body(5, 1, 7, "node-x"))["spec"]  # type: ignore[no-any-return]


async def test_containers_of_an_operator_are_told_whom_to_call_and_whose_children_those_are() -> None:
    """The id is the job's own; what a container says of itself comes later, and so counts."""
    spec = await rendered(operator_server="argosy.example:443", operator_audience="argosy")
    for container in (*spec["initContainers"], *spec["containers"]):
        told = [(one["name"], one["value"]) for one in container["env"]]
        assert told[:4] == [
            ("ARGOSY_PARENT_ID", compose_id(7, 5)),
            ("ARGOSY_QUEUE", "queue"),
            ("ARGOSY_SERVER", "argosy.example:443"),
            ("ARGOSY_TOKEN_FILE", "/var/run/secrets/argosy.dev/token"),
        ]
        (mount,) = container["volumeMounts"]
        assert (mount["name"], mount["mountPath"], mount["readOnly"]) == (
            spec["volumes"][0]["name"],
            "/var/run/secrets/argosy.dev",
            True,
        )
    assert spec["containers"][0]["env"][-1] == {"name": "ARGOSY_SERVER", "value": "mine:1"}
    token = spec["volumes"][0]["projected"]["sources"][0]["serviceAccountToken"]
    assert (token["audience"], token["path"]) == ("argosy", "token")


@pytest.mark.parametrize(("is_operator", "names"), [(True, ["ARGOSY_PARENT_ID", "ARGOSY_QUEUE"]), (False, [])])
async def test_nothing_is_told_that_nobody_set_and_no_other_job_is_told_anything(
    is_operator: bool,  # noqa: FBT001 - a parameter of the test
    names: list[str],
) -> None:
    """Without an address and an audience there is neither, and no volume."""
    spec = await rendered(is_operator=is_operator)
    assert [one["name"] for one in spec["initContainers"][0].get("env", [])] == names
    assert "volumes" not in spec
