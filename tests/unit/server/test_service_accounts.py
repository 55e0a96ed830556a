"""Tokens of service accounts: what the cluster says of them counts, for a while, and it is asked sparingly."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from argosy_core.access import Principal
from argosy_core.errors import BackendUnavailable, InvalidRequest, NotAuthenticated
from argosy_kube.kubernetes.token_reviews import TokenReviews
from argosy_kube.opening import open_token_reviews
from argosy_runtime.access.guard import ServiceAccountSettings
from argosy_server.service_accounts import ServiceAccountTokens
from argosy_testkit.fake_kube_api import ApiFault, FakeKubeApi

ACCOUNT = "system:serviceaccount:science:notebook"
NOTEBOOK = Principal(name=ACCOUNT, groups=("system:serviceaccounts", "system:serviceaccounts:science"))


def make_token(**claims: Any) -> str:
    """Return what looks like a token that says something."""
    body = base64.urlsafe_b64encode(json.dumps({"sub": ACCOUNT, **claims}).encode()).rstrip(b"=").decode()
    return f"e30.{body}.signature"


class Door:
    """What asks a cluster for whose a token is, with a clock that a test sets forward."""

    def __init__(self, api: FakeKubeApi, reviews: TokenReviews, **settings: Any) -> None:
        """Begin at second 1000."""
        self.api = api
        self.now_s = 1000.0
        chosen = ServiceAccountSettings(cluster="kubernetes", **settings)
        self.find = ServiceAccountTokens(chosen, reviews, clock_s=lambda: self.now_s).find


@asynccontextmanager
async def open_door(folder: Path, **settings: Any) -> AsyncIterator[Door]:
    """Run an API server and what asks it."""
    async with FakeKubeApi() as api:
        kubeconfig = api.write_kubeconfig(folder / "kubeconfig")
        reviews = open_token_reviews(f"kubernetes:{kubeconfig}")
        try:
            yield Door(api, reviews, **settings)
        finally:
            await reviews.close()


async def test_account_is_who_its_cluster_says_and_is_asked_for_once_in_a_while(tmp_path: Path) -> None:
    """Name and groups are the cluster's; within half a minute it is not asked again, but when the token ends."""
    token, short = make_token(), make_token(exp=1010)
    async with open_door(tmp_path) as door:
        door.api.accounts = {token: (ACCOUNT, "argosy"), short: (ACCOUNT, "argosy")}
        assert [await door.find(token) for _ in range(3)] == [NOTEBOOK] * 3
        assert await door.find(short) == NOTEBOOK
        assert door.api.reviewed == [token, short]
        door.api.accounts.clear()
        door.now_s += 11
        assert await door.find(token) == NOTEBOOK
        for one in (short, token):
            door.now_s += 20 * (one == token)
            with pytest.raises(NotAuthenticated):
                await door.find(one)


@pytest.mark.parametrize("audience", ["https://kubernetes.default.svc", ""])
async def test_token_for_others_is_refused(tmp_path: Path, audience: str) -> None:
    """Every pod may have a token for the API server; only one that was asked for us counts, where that can be told."""
    token = make_token()
    async with open_door(tmp_path) as door:
        door.api.accounts = {token: (ACCOUNT, audience)}
        for _ in range(3):
            with pytest.raises(NotAuthenticated) as caught:
                await door.find(token)
        assert token not in caught.value.message
        assert door.api.reviewed == [token]


@pytest.mark.parametrize("token", ["static", "a.b.c", "..", make_token(sub="alice"), make_token(sub=None)])
async def test_other_tokens_are_not_shown_to_the_cluster(tmp_path: Path, token: str) -> None:
    """What does not say that it is a service account's is another's secret: it is passed on, unseen."""
    async with open_door(tmp_path) as door:
        assert await door.find(token) is None
        assert door.api.reviewed == []


async def test_person_that_the_cluster_knows_is_no_service_account(tmp_path: Path) -> None:
    """A token that says it is an account's, and is a person's, lets nobody in as that person."""
    token = make_token()
    async with open_door(tmp_path) as door:
        door.api.accounts = {token: ("user:x:root", "argosy")}
        with pytest.raises(NotAuthenticated):
            await door.find(token)


async def test_cluster_that_cannot_be_asked_is_told_without_its_words(tmp_path: Path) -> None:
    """The answer is UNAVAILABLE and says nothing of the cluster; what was reviewed goes on to count."""
    known, other = make_token(), make_token(jti="2")
    async with open_door(tmp_path, prefix="west:") as door:
        door.api.accounts = {known: (ACCOUNT, "argosy"), other: (ACCOUNT, "argosy")}
        found = await door.find(known)
        assert found is not None
        assert (found.name, found.groups[0]) == (f"west:{ACCOUNT}", "west:system:serviceaccounts")
        door.api.token = "changed"
        door.api.faults.add(ApiFault(kind="status", status=403, reason="Forbidden", message="secret of the cluster"))
        with pytest.raises(BackendUnavailable) as caught:
            await door.find(other)
        assert "secret" not in caught.value.message
        assert await door.find(known) == found


async def test_flood_of_new_tokens_is_bounded(tmp_path: Path) -> None:
    """Of many tokens at once some wait and the rest are told to come again; those that are known are not slowed."""
    tokens = [make_token(jti=str(number)) for number in range(100)]
    async with open_door(tmp_path) as door:
        door.api.accounts = dict.fromkeys(tokens, (ACCOUNT, "argosy"))
        answers = await asyncio.gather(*map(door.find, tokens), return_exceptions=True)
    assert [type(answer) for answer in answers] == [Principal] * 64 + [BackendUnavailable] * 36


def test_no_audience_is_refused() -> None:
    """Without one the token of every pod in the cluster would count."""
    with pytest.raises(InvalidRequest, match="audiences"):
        ServiceAccountSettings(cluster="kubernetes", audiences=())
