"""Asks every call who makes it and whether that may be, before its message is read.

The edge calls `Guard.admit`; who was admitted is in `CALLER` from then on, for handlers to ask what concerns single
queues. `Caller.require` notes what it was asked, and `Guard.admit_again` asks all of it anew for a call that lasts, so
whoever loses a token or a grant loses the streams that were opened with it.

Source: design section 5, "Who is who"; section 7, invariant 10.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

from argosy.channel_credentials import INVITATION_PREFIX, hash_token
from argosy_core.access import ANYBODY, EVERYTHING, Permissions, Principal, Rule, Verb, is_subject
from argosy_core.errors import InvalidRequest, NotAuthenticated, NotFound, NotPermitted
from argosy_runtime.access.certificates import certificate_principal
from argosy_runtime.access.quotas import QuotaSettings, UserQuotas
from argosy_runtime.access.tokens import TokenFile

__all__ = [
    "ACTING_AS_GROUP_KEY",
    "ACTING_AS_KEY",
    "AUTHORIZATION_KEY",
    "CALLER",
    "AccessSettings",
    "Authenticator",
    "Caller",
    "CallerSettings",
    "Guard",
    "OidcSettings",
    "ServiceAccountSettings",
    "cluster_guard",
]

AUTHORIZATION_KEY: Final = "authorization"
"""Metadata key of `Bearer TOKEN`."""
ACTING_AS_KEY: Final = "argosy-acting-as"
"""Metadata key of the name of the user that a facade, or a server that forwards, acts as."""
ACTING_AS_GROUP_KEY: Final = "argosy-acting-as-group"
"""Metadata key of a group of that user; may stand many times."""
_BEARER: Final = "bearer "
_MAX_TOKEN_CHARACTERS: Final = 8192
_MAX_GROUP_COUNT: Final = 100
_ALGORITHMS: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
_SILENT: Final = "who calls is not known: send a token, or a client certificate"
_UNKNOWN: Final = "the token is not known here; it may have been replaced or revoked"


Authenticator: TypeAlias = Callable[[str], Awaitable[Principal | None]]
"""Says whose token one is; None if it is of a kind that it knows nothing of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerSettings:
    """How it is known who calls."""

    tokens_file: str = ""
    """YAML file of static tokens' hashes, made by `argosy admin token`; read again when it changes. Empty for none."""
    installation: str = "argosy"
    """Trust domain of SPIFFE identities in client certificates."""
    check_again_s: float = 2.0
    """How often a stream's caller is asked for again; who was revoked keeps a stream so long at most."""
    quotas: QuotaSettings = field(default_factory=QuotaSettings)
    """How much one user may ask."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    """Which issuer's OpenID Connect tokens count, and whom they name."""

    issuer: str = ""
    """URL of the issuer, https, exactly as its tokens say it. Empty takes no such tokens."""
    audiences: tuple[str, ...] = ()
    """Whom tokens must be for, one of these: the id of the client that people log in with, as a rule."""
    authority_file: str = "system"
    """PEM file of the authorities that sign the issuer's certificate; `system` for those that the machine trusts."""
    username_claim: str = "sub"
    """Claim that names the user; `email` needs to be verified by the issuer."""
    groups_claim: str = "groups"
    """Claim that lists the user's groups, 100 at most; names that have spaces are passed over."""
    prefix: str = ""
    """What is put before the names of users and groups, as in `oidc:`, so that they are nobody else's."""
    algorithms: tuple[str, ...] = ("RS256", "ES256")
    """How tokens may be signed; with keys that the issuer publishes, never with a shared secret."""
    leeway_s: float = field(default=30.0, metadata={"may_be_zero": True})
    """By how much the issuer's clock and ours may differ."""
    keys_keep_s: float = 300.0
    """How long published keys are used before they are fetched anew; a token of one that was withdrawn counts so much
    longer."""

    def __post_init__(self) -> None:
        """Refuse an issuer that could not be trusted, and one whose every token would be.

        Raises:
            InvalidRequest: The issuer is no https URL, an algorithm is not allowed, or no audience is named.
        """
        if not self.issuer:
            return
        if not self.issuer.startswith("https://"):
            raise InvalidRequest(f"access.oidc.issuer is {self.issuer!r}, but must be an https URL")
        if not self.audiences:
            raise InvalidRequest("access.oidc.audiences must name whom tokens are for, as the id of your client")
        if not self.algorithms or not _ALGORITHMS.issuperset(self.algorithms):
            raise InvalidRequest(f"access.oidc.algorithms may have {', '.join(sorted(_ALGORITHMS))}, one at least")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAccountSettings:
    """Which Kubernetes' service accounts may call."""

    cluster: str = ""
    """The Kubernetes whose service accounts count: `kubernetes:in-cluster`, `kubernetes:PATH` or
    `kubernetes:PATH#CONTEXT` of a kubeconfig, whose user needs the cluster role `system:auth-delegator`. Empty for
    none."""
    audiences: tuple[str, ...] = ("argosy",)
    """Whom tokens must be for, one of these; never the API server itself, whose tokens every pod may have."""
    prefix: str = ""
    """What is put before names, as in `west:system:serviceaccount:science:notebook`, and before groups."""
    keep_s: float = 30.0
    """How long an answer of the cluster is remembered; a token whose pod is gone counts so much longer."""

    def __post_init__(self) -> None:
        """Refuse an empty list of audiences.

        Raises:
            InvalidRequest: No audience is named.
        """
        if not self.audiences:
            raise InvalidRequest("access.service_accounts.audiences must name whom tokens are for")


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSettings(CallerSettings):
    """How it is known who calls, and who may do everything from the beginning."""

    admins: tuple[str, ...] = ()
    """Who has the role admin whatever is granted, as in `user:alice,group:operations`; they grant the rest."""
    grants_keep_s: float = 2.0
    """How long a caller's grants are remembered; a changed grant counts so much later at other replicas."""
    oidc: OidcSettings = field(default_factory=OidcSettings)
    """Which tokens of an OpenID Connect issuer count."""
    service_accounts: ServiceAccountSettings = field(default_factory=ServiceAccountSettings)
    """Which Kubernetes' service accounts may call."""
    audit_retention_days: int = 90
    """Full days that it is kept who changed what."""
    authority_file: str = ""
    """PEM file of the authority that signs certificates of invited clusters; it must be among those of
    `grpc.client_authority_file`. Empty invites nobody."""
    authority_key_file: str = ""
    """PEM file of its key: whoever has it is everybody. API replicas that invite need it, and nothing else does."""
    certificate_days: int = 30
    """How long a certificate is good that a cluster's process fetched; it is renewed when a third is left."""

    def __post_init__(self) -> None:
        """Refuse subjects that are none, and half of an authority.

        Raises:
            InvalidRequest: One of `admins` is none, or an authority stands without its key, or the reverse.
        """
        for subject in self.admins:
            if not is_subject(subject):
                raise InvalidRequest(f"access.admins has {subject!r}, but must name user:NAME or group:NAME")
        if bool(self.authority_file) != bool(self.authority_key_file):
            raise InvalidRequest("signing needs both access.authority_file and access.authority_key_file")


@dataclass(slots=True, eq=False)
class Caller:
    """Who makes the call that is being served, and what that may do."""

    principal: Principal = ANYBODY
    """Who calls."""
    permissions: Permissions = EVERYTHING
    """What it may do, as known when it was asked last."""
    method: str = ""
    """Method that it calls."""
    asked: list[tuple[Verb, str]] = field(default_factory=list)
    """What was required of it, verb and queue; asked again while the call lasts."""

    def require(self, verb: Verb, queue: str) -> None:
        """Return if the caller may do something with a queue, now and as long as the call lasts.

        Raises:
            NotFound: The caller may not know of the queue.
            NotPermitted: The caller may not do it.
        """
        self.permissions.require(verb, queue)
        self._note(verb, queue)

    def may(self, verb: Verb, queue: str) -> bool:
        """Return whether the caller may do something with a queue; if so, it must as long as the call lasts."""
        allowed = self.permissions.may(verb, queue)
        if allowed:
            self._note(verb, queue)
        return allowed

    def _note(self, verb: Verb, queue: str) -> None:
        if self.principal is not ANYBODY:
            self.asked.append((verb, queue))

    def acting_metadata(self) -> tuple[tuple[str, str], ...]:
        """Return what a server that forwards the call adds, so that its leader asks the same questions.

        Nothing where nobody is asked, and for a call of a server, which is passed on as one of our own.
        """
        if self.principal is ANYBODY or self.principal.is_server:
            return ()
        groups = ((ACTING_AS_GROUP_KEY, group) for group in self.principal.groups)
        return ((ACTING_AS_KEY, self.principal.name), *groups)


CALLER: Final[ContextVar[Caller]] = ContextVar("CALLER", default=Caller())  # noqa: B039 - nothing is noted of it
"""Who makes the call that is being served; may do everything where nobody is asked."""


class CallContext(Protocol):
    """What the guard needs of a call's context."""

    def invocation_metadata(self) -> Any:  # noqa: ANN401 - pairs, which grpc leaves open
        """Return the call's metadata as pairs."""

    def auth_context(self) -> Mapping[str, Any]:
        """Return what TLS knows of the peer."""


class Guard:
    """Admits calls.

    Args:
        settings: How callers are known.
        rules: What each method takes, by its path; one that is not there is nobody's.
        permissions_of: Says what a principal may do.
        invited_by: Says which cluster an invitation is for, by the hash of its token; None where nobody is invited.
        authenticators: Asked in order whose token one is that is none of the file's; None passes it on to the next.
        on_refused: Told of each call that was refused for who makes it: method, its caller, and the code's name.

    Raises:
        InvalidRequest: A file of the settings cannot be used.
    """

    def __init__(
        self,
        settings: CallerSettings,
        *,
        rules: Mapping[str, Rule],
        permissions_of: Callable[[Principal], Awaitable[Permissions]],
        invited_by: Callable[[str], Awaitable[str]] | None = None,
        authenticators: Sequence[Authenticator] = (),
        on_refused: Callable[[str, Principal, str], None] | None = None,
    ) -> None:
        """Read the files."""
        self.on_refused = on_refused or _forget
        """Told of each call that was refused for who makes it: method, its caller, and the code's name."""
        self.quotas = UserQuotas(settings.quotas)
        """What users have taken of their quotas."""
        self._invited_by = invited_by
        self._tokens = TokenFile(settings.tokens_file) if settings.tokens_file else None
        self._authenticators = authenticators
        self._installation = settings.installation
        self._rules = rules
        self._permissions_of = permissions_of
        self.check_again_s = settings.check_again_s
        """How often a stream is to be admitted again, seconds."""

    async def admit(self, method: str, context: CallContext) -> Caller:
        """Let a call in and note who makes it.

        Raises:
            NotAuthenticated: It is not known who calls.
            NotPermitted: The caller may not call the method, or act as another.
            QuotaExceeded: The caller has made too many calls.
            BackendUnavailable: What is granted cannot be read.
        """
        caller = await self._identify(context)
        CALLER.set(caller)
        self.quotas.take_call(caller.principal)
        rule = self._rules.get(method)
        if rule is None:
            raise NotPermitted("nobody may call this method here")
        rule.require(caller.principal, caller.permissions)
        caller.method = method
        return caller

    def note_answer(self, answer: object) -> object:
        """Return what the present call's caller gets, counted among its bytes."""
        self.quotas.charge_answer(CALLER.get().principal, answer)
        return answer

    async def admit_again(self, method: str, context: CallContext, caller: Caller) -> None:
        """Ask everything anew that a call was asked when it came and since.

        Raises:
            NotAuthenticated: The caller's token or certificate counts no more.
            NotPermitted: The caller may not do any more what the call is about.
            BackendUnavailable: What is granted cannot be read.
        """
        again = await self._identify(context)
        self._rules[method].require(again.principal, again.permissions)
        caller.permissions = again.permissions
        for verb, queue in caller.asked:
            try:
                again.permissions.require(verb, queue)
            except NotFound as cause:
                raise NotPermitted(f"{verb} on the queue of this stream was revoked") from cause

    async def _identify(self, context: CallContext) -> Caller:
        metadata = [(key, value) for key, value in context.invocation_metadata() or () if isinstance(value, str)]
        principal = await self._authenticate(metadata, context)
        acting_as = next((value for key, value in metadata if key == ACTING_AS_KEY), None)
        if acting_as is not None:
            groups = tuple(value for key, value in metadata if key == ACTING_AS_GROUP_KEY)
            principal = await self._act_as(principal, acting_as, groups)
        return Caller(principal, await self._permissions_of(principal))

    async def _authenticate(self, metadata: list[tuple[str, str]], context: CallContext) -> Principal:
        sent = [value for key, value in metadata if key == AUTHORIZATION_KEY]
        if sent:
            token = sent[0][len(_BEARER) :] if sent[0][: len(_BEARER)].lower() == _BEARER else ""
            if len(sent) > 1 or not 0 < len(token) <= _MAX_TOKEN_CHARACTERS:
                raise NotAuthenticated("authorization must be sent once, as Bearer and a token")
            if self._invited_by is not None and token.startswith(INVITATION_PREFIX):
                return await self._invited(token)
            found = self._tokens.find(token) if self._tokens is not None else None
            if found is not None:
                return found
            for authenticate in self._authenticators:
                found = await authenticate(token)
                if found is not None:
                    return found
            raise NotAuthenticated(_UNKNOWN)
        principal = certificate_principal(context.auth_context(), installation=self._installation)
        if principal is None:
            raise NotAuthenticated(_SILENT)
        return principal

    async def _invited(self, token: str) -> Principal:
        assert self._invited_by is not None
        invitation = hash_token(token)
        cluster = await self._invited_by(invitation)
        if not cluster:
            raise NotAuthenticated("the invitation has ended, or was never made; ask an administrator for another")
        return Principal(name=cluster, cluster=cluster, invitation=invitation)

    async def _act_as(self, principal: Principal, name: str, groups: tuple[str, ...]) -> Principal:
        """Return whom a caller acts as.

        Raises:
            NotPermitted: It may act as nobody.
            NotAuthenticated: The name or a group is none.
        """
        subjects = (f"user:{name}", *(f"group:{group}" for group in groups))
        if len(groups) > _MAX_GROUP_COUNT or not all(map(is_subject, subjects)):
            raise NotAuthenticated(
                f"{ACTING_AS_KEY} must be a user's name, and {ACTING_AS_GROUP_KEY} at most 100 groups"
            )
        if principal.is_server:  # it only forwards what it has admitted itself
            return Principal(name=name, groups=groups)
        if not (await self._permissions_of(principal)).may_act_as_others:
            raise NotPermitted("acting as another user needs the role impersonator; an administrator can grant it")
        return Principal(name=name, groups=groups, acted_by=principal.name)


def _forget(method: str, principal: Principal, code: str) -> None:
    """Note nothing of a refused call."""
    del method, principal, code


def cluster_guard(settings: CallerSettings, *, cluster: str, rules: Mapping[str, Rule]) -> Guard:
    """Return the guard of a process of a cluster, which serves the parts of that cluster and nobody else.

    Raises:
        InvalidRequest: A file of the settings cannot be used.
    """

    async def refuse_others(principal: Principal) -> Permissions:
        if principal.cluster != cluster:
            raise NotPermitted(f"this serves cluster {cluster!r} alone, for which who calls does not speak")
        return Permissions()

    return Guard(settings, rules=rules, permissions_of=refuse_others)
