"""Service accounts of a real cluster at the door: their tokens count for us alone, and no longer than they live."""

from __future__ import annotations

import asyncio
import time

import pytest
from testbed.cluster import KubeApi

from argosy_core.errors import NotAuthenticated
from argosy_kube.opening import open_token_reviews
from argosy_runtime.access.guard import ServiceAccountSettings
from argosy_server.service_accounts import ServiceAccountTokens

NAMESPACE = "door"


async def test_token_counts_for_its_audience_and_until_its_account_is_gone(kube_api: KubeApi) -> None:
    """A token that was asked for us names its account; one for others or of a lost account does not."""
    kube_api.kubectl("create", "namespace", NAMESPACE)
    kube_api.kubectl("create", "serviceaccount", "notebook", "-n", NAMESPACE)
    asked = ("create", "token", "notebook", "-n", NAMESPACE)
    ours, apis = kube_api.kubectl(*asked, "--audience", "argosy").strip(), kube_api.kubectl(*asked).strip()
    reviews = open_token_reviews(f"kubernetes:{kube_api.kubeconfig}", timeout_s=20.0)
    now_s = time.time()
    door = ServiceAccountTokens(ServiceAccountSettings(cluster="kubernetes"), reviews, clock_s=lambda: now_s)
    try:
        found = await door.find(ours)
        assert found is not None
        assert found.name == f"system:serviceaccount:{NAMESPACE}:notebook"
        assert f"system:serviceaccounts:{NAMESPACE}" in found.groups
        forged = ours[:-4] + ("AAAA" if ours[-4:] != "AAAA" else "BBBB")
        for token in (apis, forged):
            with pytest.raises(NotAuthenticated):
                await door.find(token)
        kube_api.kubectl("delete", "serviceaccount", "notebook", "-n", NAMESPACE)
        assert await door.find(ours) == found
        async with asyncio.timeout(60):
            while True:  # the API server remembers what it said, too, for ten seconds
                now_s += 31
                try:
                    await door.find(ours)
                except NotAuthenticated:
                    break
                await asyncio.sleep(0.2)
    finally:
        await reviews.close()
