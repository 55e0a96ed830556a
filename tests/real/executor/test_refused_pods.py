"""Pods that a real API server refuses: by quota, for want of a namespace, by policy, and by webhooks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from argosy_core.errors import BackendUnavailable
from argosy_core.job.states import FailureKind

from .conftest import Bench, make_bag
from .webhooks import PODS_CREATED, refusing_port, serving_webhook, webhook_configuration


async def test_quota_is_waited_for_and_then_given_back(bench: Bench) -> None:
    """A run that a quota keeps out is tried again; in time it runs, too late it is tried as another run."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "one", "namespace": bench.namespace},
        "spec": {"hard": {"pods": "1"}},
    }
    await bench.kubectl("apply", "-f", "-", stdin=json.dumps(quota))

    async def quota_counts() -> bool:
        text = await bench.kubectl(
            "-n", bench.namespace, "get", "resourcequota", "one", "-o", "jsonpath={.status.used.pods}"
        )
        return text == "0"

    await bench.eventually(quota_counts)
    await bench.start_executor("--quota-timeout-s", "4")
    bag = make_bag(namespace=bench.namespace)
    first = await bench.leader.lease(bag)
    await bench.leader.until(lambda: bench.leader.newest(first).end == "RUNNING")
    second = await bench.leader.lease(bag)
    await bench.leader.until(lambda: (second, 2) in bench.leader.runs)
    run = bench.leader.runs[second, 1]
    assert (run.end, run.failure) == ("FAILED", FailureKind.INFRASTRUCTURE)
    assert "exceeded quota" in run.text
    await bench.leader.stop(first)
    await bench.leader.until(lambda: bench.leader.newest(second).end == "RUNNING")


async def test_namespace_that_is_not_there_or_goes(bench: Bench) -> None:
    """No namespace: rejected, with a reason. One that is deleted under the pods: they are lost, and none is left."""
    bench.leader.retries = False
    await bench.start_executor()
    nowhere = await bench.leader.lease(make_bag(namespace="no-such-namespace"))
    await bench.leader.until(lambda: bench.leader.newest(nowhere).end == "FAILED")
    assert bench.leader.newest(nowhere).failure == FailureKind.REJECTED
    assert "no-such-namespace" in bench.leader.newest(nowhere).text
    here = await bench.leader.lease(make_bag(namespace=bench.namespace))
    await bench.leader.until(lambda: bench.leader.newest(here).end == "RUNNING")
    await bench.kubectl("delete", "namespace", bench.namespace, "--wait=false")
    await bench.leader.until(lambda: bench.leader.newest(here).has_ended)
    late = await bench.leader.lease(make_bag(namespace=bench.namespace))
    await bench.leader.until(lambda: bench.leader.newest(late).has_ended)

    async def is_gone() -> bool:
        return bench.namespace not in (await bench.kubectl("get", "namespaces", "-o", "name")).split("namespace/")

    await bench.eventually(is_gone)
    assert bench.leader.newest(late).end == "FAILED"


async def refuses(bench: Bench, text: str) -> bool:
    """Return whether the API server refuses a pod of the test's namespace with some words."""
    probe = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe", "namespace": bench.namespace, "annotations": {"argosy.dev/refuse": "1"}},
        "spec": {"containers": [{"name": "main", "image": "app"}]},
    }
    try:
        await bench.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(probe))
    except BackendUnavailable as error:
        return text in error.message
    return False


async def test_admission_that_refuses_is_final_and_tells_why(bench: Bench) -> None:
    """The run is rejected with the words of the policy; what the policy does not mean goes on."""
    name = f"refuse-{bench.namespace}"
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [PODS_CREATED],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": bench.namespace}},
            },
            "validations": [
                {
                    "expression": "!('argosy.dev/refuse' in object.metadata.annotations)",
                    "message": "pods that ask for it are refused here",
                }
            ],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    for document in (policy, binding):
        await bench.kubectl("apply", "-f", "-", stdin=json.dumps(document))
    await bench.eventually(lambda: refuses(bench, "refused here"))
    await bench.start_executor()
    refused = await bench.leader.lease(make_bag(namespace=bench.namespace, refuse="1"))
    taken = await bench.leader.lease(make_bag(namespace=bench.namespace))
    await bench.leader.until(lambda: bench.leader.newest(refused).end == "FAILED")
    await bench.leader.until(lambda: bench.leader.newest(taken).end == "RUNNING")
    assert bench.leader.newest(refused).failure == FailureKind.REJECTED
    assert "pods that ask for it are refused here" in bench.leader.newest(refused).text


async def test_webhook_that_is_down_delays_and_rejects_nothing(bench: Bench) -> None:
    """Nobody said no; the pod is tried again and again, and made once the webhook is gone."""
    name = f"down-{bench.namespace}"
    async with refusing_port() as port:
        webhook = webhook_configuration(name, bench.namespace, {"url": f"https://127.0.0.1:{port.number}/"})
        await bench.kubectl("apply", "-f", "-", stdin=json.dumps(webhook))
        try:
            await bench.eventually(lambda: refuses(bench, "webhook"))
            await bench.start_executor()
            await bench.leader.until(lambda: bench.leader.welcomed_count == 1)
            before = port.try_count
            delayed = await bench.leader.lease(make_bag(namespace=bench.namespace))
            await port.until(before + 3)
            assert bench.leader.newest(delayed).end == "LEASED"
        finally:
            await bench.kubectl("delete", "validatingwebhookconfiguration", name)
    await bench.leader.until(lambda: bench.leader.newest(delayed).end == "RUNNING")


async def test_webhook_that_denies_is_final_whatever_it_answers(bench: Bench, tmp_path: Path) -> None:
    """Its denial may look like a missing right, like haste or like a failure of the API server; it is a denial."""
    name = f"deny-{bench.namespace}"
    statuses: list[dict[str, Any]] = [
        {"code": 403, "reason": "Forbidden", "message": "team has no budget"},
        {"code": 429, "reason": "TooManyRequests", "message": "slowly", "details": {"retryAfterSeconds": 60}},
        {"code": 500, "reason": "InternalError", "message": "the rule could not be read"},
        {"code": 409, "reason": "AlreadyExists", "message": "one is enough"},
        {},
    ]
    async with serving_webhook(tmp_path) as webhook:
        document = webhook_configuration(name, bench.namespace, webhook.client_config)
        await bench.kubectl("apply", "-f", "-", stdin=json.dumps(document))
        try:
            await bench.eventually(lambda: refuses(bench, "one.argosy.test"))
            await bench.start_executor()
            await bench.leader.until(lambda: bench.leader.welcomed_count == 1)
            for status in statuses:
                webhook.status, before = status, webhook.review_count
                denied = await bench.leader.lease(make_bag(namespace=bench.namespace))
                await bench.leader.until(lambda denied=denied: bench.leader.newest(denied).end == "FAILED")
                run = bench.leader.newest(denied)
                assert run.failure == FailureKind.REJECTED
                assert 'admission webhook "one.argosy.test" denied the request' in run.text
                assert status.get("message", "") in run.text
                assert webhook.review_count == before + 1
        finally:
            await bench.kubectl("delete", "validatingwebhookconfiguration", name)
    assert await bench.pod_names() == []
