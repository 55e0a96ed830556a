"""Tokens of an OpenID Connect issuer: which count, whom they name, and what they cost."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from argosy_core.access import Principal
from argosy_core.errors import BackendUnavailable, InvalidRequest, NotAuthenticated
from argosy_runtime.access.cache import BoundedCache
from argosy_runtime.access.guard import OidcSettings
from argosy_runtime.access.oidc import OidcTokens
from argosy_testkit.fake_issuer import CLIENT_ID, FakeIssuer

CERTIFICATES = Path(__file__).parents[2] / "certificates"
ALICE = Principal(name="alice", groups=("research",))


@pytest.fixture
def issuer() -> Iterator[FakeIssuer]:
    """Give an issuer with one key."""
    with FakeIssuer(CERTIFICATES / "server.pem", CERTIFICATES / "server.key") as running:
        yield running


class Clocks:
    """Wall clock and monotonic clock of one door, which a test sets forward."""

    def __init__(self, issuer: FakeIssuer, **settings: Any) -> None:
        """Begin now."""
        self.now_s = time.time()
        trusted = str(CERTIFICATES / "authority.pem")
        chosen = {"audiences": (CLIENT_ID,), "authority_file": trusted} | settings
        self.tokens = OidcTokens(
            OidcSettings(issuer=issuer.url, **chosen), clock_s=lambda: self.now_s, monotonic_s=lambda: self.now_s
        )

    async def refusal(self, token: str) -> str:
        """Return why a token is refused."""
        with pytest.raises(NotAuthenticated) as caught:
            await self.tokens.find(token)
        assert token not in caught.value.message
        return caught.value.message


async def test_token_names_user_and_groups_and_is_verified_once(issuer: FakeIssuer) -> None:
    """The claims that are configured name the caller; the issuer is asked once for however many calls and tokens."""
    door, named = Clocks(issuer), Clocks(issuer, username_claim="email", groups_claim="roles", prefix="oidc:")
    token = issuer.token()
    assert [await door.tokens.find(token) for _ in range(3)] == [ALICE] * 3
    mixed = issuer.token(email="a@x.example", email_verified=True, roles=["ops", "Domain Users", 3])
    assert await door.tokens.find(mixed) == ALICE
    assert await named.tokens.find(mixed) == Principal(name="oidc:a@x.example", groups=("oidc:ops",))
    assert issuer.asked["/keys"] == 2


async def test_known_token_costs_no_signature_check(issuer: FakeIssuer, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was verified once is known by its hash: no thread verifies it again."""
    door, token = Clocks(issuer), issuer.token()
    assert await door.tokens.find(token) == ALICE
    monkeypatch.setattr(asyncio, "to_thread", None)
    assert await door.tokens.find(token) == ALICE


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"aud": "others"}, "audience"),
        ({"aud": None}, "no signed token"),
        ({"exp": 1_000_000}, "expired"),
        ({"exp": None}, "no signed token"),
        ({"exp": 1e308 * 10}, "no signed token"),
        ({"nbf": 99_999_999_999}, "no signed token"),
        ({"sub": "a b"}, "no name"),
        ({"sub": None}, "no name"),
        ({"groups": [f"g{number}" for number in range(101)]}, "more than 100 groups"),
    ],
)
async def test_token_is_refused_for_what_it_claims(issuer: FakeIssuer, claims: dict[str, Any], why: str) -> None:
    """Audience, times and names must be those of a token for us; the answer says which is not, and never the token."""
    assert why in await Clocks(issuer).refusal(issuer.token(**claims))


async def test_unverified_address_is_no_name(issuer: FakeIssuer) -> None:
    """Who may type any address at the issuer is not taken for its holder."""
    door = Clocks(issuer, username_claim="email")
    assert "not verified" in await door.refusal(issuer.token(email="root@x.example", email_verified=False))


async def test_algorithms_that_prove_nothing_are_refused(issuer: FakeIssuer) -> None:
    """No signature, and a shared secret, are refused, though all claims are right."""
    door = Clocks(issuer)
    claims = jwt.decode(issuer.token(), options={"verify_signature": False})
    unsigned = jwt.encode(claims, "", algorithm="none", headers={"kid": issuer.key_id})
    assert "not allowed" in await door.refusal(unsigned)
    confused = jwt.encode(claims, "secret" * 8, algorithm="HS256", headers={"kid": issuer.key_id})
    assert "not allowed" in await door.refusal(confused)
    stranger = jwt.encode(claims, ec.generate_private_key(ec.SECP256R1()), "ES256", headers={"kid": issuer.key_id})
    assert "no signed token" in await door.refusal(stranger)


async def test_published_secret_is_no_key(issuer: FakeIssuer) -> None:
    """A symmetric key among those published verifies nothing, and keys for encryption neither."""
    secret = base64.urlsafe_b64encode(b"x" * 32).rstrip(b"=").decode()
    odd: list[Any] = [
        {"kty": "oct", "k": secret, "kid": "s"},
        {**issuer.published[0], "use": "enc"},
        {"kty": "EC"},
        3,
    ]
    issuer.published = odd
    door = Clocks(issuer)
    assert "does not publish" in await door.refusal(issuer.token())


@pytest.mark.parametrize(
    "token",
    [
        "argosy_static",
        "a.b.c",
        "..",
        ".".join(["e" * 2700] * 3),
        base64.urlsafe_b64encode(b'{"alg":"ES256"}').decode()
        + "."
        + base64.urlsafe_b64encode(b"[" * 5000).decode()
        + ".",
    ],
)
async def test_what_is_no_token_of_the_issuer_is_left_to_others(issuer: FakeIssuer, token: str) -> None:
    """Anything may be sent: it is passed on to whoever else knows tokens, without an exception."""
    assert await Clocks(issuer).tokens.find(token) is None


async def test_token_of_another_issuer_is_left_to_others(issuer: FakeIssuer) -> None:
    """The issuer is compared to the letter."""
    assert await Clocks(issuer).tokens.find(issuer.token(iss=issuer.url + "/")) is None


async def test_token_counts_no_longer_than_it_says(issuer: FakeIssuer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token that was verified is known by its hash until its end and the leeway, and verified again then."""
    door, token = Clocks(issuer), issuer.token()
    assert await door.tokens.find(token) == ALICE
    issuer.close()
    monkeypatch.setattr(asyncio, "to_thread", None)
    door.now_s += issuer.lifetime_s + 28.0
    assert await door.tokens.find(token) == ALICE
    door.now_s += 3.0
    with pytest.raises(TypeError):
        await door.tokens.find(token)


async def test_rotated_key_counts_at_once_and_what_it_replaced_no_more(issuer: FakeIssuer) -> None:
    """A token of a new key is let in at once; those of the key that was withdrawn are out when keys are read anew."""
    door, old = Clocks(issuer), issuer.token()
    assert await door.tokens.find(old) == ALICE
    issuer.rotate("second")
    door.now_s += 3.0
    assert await door.tokens.find(issuer.token()) == ALICE
    door.now_s += 3.0
    assert "does not publish" in await door.refusal(old)


async def test_invented_keys_cost_the_issuer_two_requests_in_two_seconds(issuer: FakeIssuer) -> None:
    """Whoever names keys that do not exist does not make us flood the issuer, and is told to come again."""
    door = Clocks(issuer)
    assert await door.tokens.find(issuer.token()) == ALICE
    door.now_s += 3.0
    tokens = [issuer.token(headers={"kid": f"invented-{number}"}) for number in range(20)]
    answers = await asyncio.gather(*map(door.tokens.find, tokens), return_exceptions=True)
    assert {type(answer) for answer in answers} <= {NotAuthenticated, BackendUnavailable}
    for number in range(3):
        with pytest.raises(BackendUnavailable, match="just now"):
            await door.tokens.find(issuer.token(headers={"kid": f"later-{number}"}))
    assert issuer.asked["/keys"] == 2


async def test_known_keys_count_while_the_issuer_is_down(issuer: FakeIssuer) -> None:
    """Without the issuer its keys go on to count, for new tokens, too; without keys the answer is UNAVAILABLE."""
    door, fresh = Clocks(issuer), Clocks(issuer)
    assert await door.tokens.find(issuer.token()) == ALICE
    issuer.close()
    door.now_s += 400.0
    assert await door.tokens.find(issuer.token(exp=int(door.now_s + 60))) == ALICE
    with pytest.raises(BackendUnavailable) as caught:
        await fresh.tokens.find(issuer.token())
    assert issuer.url not in caught.value.message


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/.well-known/openid-configuration", 200, b'{"issuer": "https://elsewhere.example"}'),
        ("/.well-known/openid-configuration", 302, b""),
        ("/keys", 200, b"x" * (1 << 20 | 1)),
        ("/keys", 200, b'{"keys": 3}'),
        ("/keys", 200, b"[" * 100_000),
    ],
)
async def test_issuer_that_answers_wrong_is_no_issuer(issuer: FakeIssuer, path: str, status: int, body: bytes) -> None:
    """Other names, redirects, and answers too large or too deep leave the keys unknown, and nothing else happens."""
    issuer.answers[path] = status, body
    with pytest.raises(BackendUnavailable):
        await Clocks(issuer).tokens.find(issuer.token())


async def test_keys_of_whoever_has_another_name_are_not_taken(issuer: FakeIssuer) -> None:
    """What is published must say that it is the issuer's; a server that stands in its place is not enough."""
    other = {"issuer": "https://elsewhere.example", "jwks_uri": f"{issuer.url}/keys"}
    issuer.answers["/.well-known/openid-configuration"] = 200, json.dumps(other).encode()
    with pytest.raises(BackendUnavailable):
        await Clocks(issuer).tokens.find(issuer.token())
    assert issuer.asked["/keys"] == 0


async def test_issuer_with_a_strange_certificate_is_not_asked(issuer: FakeIssuer) -> None:
    """Keys come over TLS from whom the authority named."""
    with pytest.raises(BackendUnavailable):
        await Clocks(issuer, authority_file="system").tokens.find(issuer.token())
    assert not issuer.asked


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ({"issuer": "http://x.example", "audiences": ("a",)}, "https"),
        ({"issuer": "https://x.example"}, "audiences"),
        ({"issuer": "https://x.example", "audiences": ("a",), "algorithms": ("HS256",)}, "algorithms"),
        ({"issuer": "https://x.example", "audiences": ("a",), "algorithms": ("none",)}, "algorithms"),
    ],
)
def test_settings_that_would_let_anybody_in_are_refused(settings: dict[str, Any], wrong: str) -> None:
    """No TLS, no audience and shared secrets are errors at the start."""
    with pytest.raises(InvalidRequest, match=wrong):
        OidcSettings(**settings)


def test_cache_holds_so_many_and_no_longer_than_told() -> None:
    """Of more than there is room for, the oldest go; none outlives its time."""
    cache: BoundedCache[int] = BoundedCache(2)
    for number in range(3):
        cache.put(str(number), number, until_s=10.0)
    assert [cache.get(str(number), 9.0) for number in range(3)] == [None, 1, 2]
    assert cache.get("2", 10.0) is None
