"""Who calls, and what they may do: values, and the rules over them.

A *principal* is who calls. It holds *roles* over the whole installation and *verbs* on single queues; both are granted
to *subjects*, which are `user:NAME` or `group:NAME`. Each method has a `Rule`, which says what of that it takes to be
called at all; which queue it is about is checked where that is known.

Source: design section 5, "Who is who"; section 7, invariant 10.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from argosy_core.errors import NotFound, NotPermitted, Resource

__all__ = [
    "ANYBODY",
    "ANYONE",
    "EVERYTHING",
    "ClusterPart",
    "Grant",
    "Permissions",
    "Principal",
    "Role",
    "Rule",
    "Verb",
    "is_subject",
    "permissions_of",
]

_SUBJECT: Final = re.compile(r"(user|group):[^\s,\x00-\x1f\x7f]{1,253}")


class Role(StrEnum):
    """What somebody is to the whole installation."""

    ADMIN = "admin"
    """May do everything."""
    OPERATOR = "operator"
    """Keeps clusters and queues running: sees all, cordons, and ends or moves any job; submits and grants nothing."""
    AUDITOR = "auditor"
    """Sees all, changes nothing."""
    IMPERSONATOR = "impersonator"
    """May act as users, as facades of other systems do, with what is granted to those users on queues."""


class Verb(StrEnum):
    """What somebody may do with a queue."""

    SUBMIT = "submit"
    CANCEL = "cancel"
    PREEMPT = "preempt"
    REPRIORITIZE = "reprioritize"
    WATCH = "watch"
    """See its jobs, their events and their logs."""
    EDIT = "edit"
    """Change and cordon the queue itself."""


class ClusterPart(StrEnum):
    """Which process of a cluster calls."""

    EXECUTOR = "executor"
    SAMPLER = "sampler"
    AGENT = "agent"


_ROLE_VERBS: Final[Mapping[Role, frozenset[Verb]]] = {
    Role.ADMIN: frozenset(Verb),
    Role.OPERATOR: frozenset(Verb) - {Verb.SUBMIT, Verb.EDIT},
    Role.AUDITOR: frozenset({Verb.WATCH}),
    Role.IMPERSONATOR: frozenset(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who calls."""

    name: str
    """Name, as the authenticator knows it; empty where nobody is asked."""
    groups: tuple[str, ...] = ()
    """Groups it belongs to."""
    cluster: str = ""
    """Cluster it speaks for; empty for people, programs and servers."""
    part: ClusterPart | None = None
    """Which part of the cluster it is; None for a process that is all of them."""
    certificate: str = ""
    """SHA-256 of the certificate that proved it, in small hexadecimal digits; empty for one known by a token."""
    invitation: str = ""
    """SHA-256 of the invitation that was sent; its holder may join as the cluster's process, and nothing else."""
    is_server: bool = False
    """Whether it is a server of this installation, which forwards what others ask of it."""
    acted_by: str = ""
    """Who acts as this principal; empty where it calls itself."""

    @property
    def subjects(self) -> tuple[str, ...]:
        """What grants can name it by; those that speak for clusters or servers hold no grants."""
        if self.cluster or self.is_server or not self.name:
            return ()
        return (f"user:{self.name}", *(f"group:{group}" for group in self.groups))


ANYBODY: Final = Principal(name="")
"""Who calls where nobody is asked who they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """One thing that one subject may do."""

    subject: str
    """`user:NAME` or `group:NAME`."""
    queue: str
    """Queue; empty for a role."""
    verb: str
    """A `Verb` of the queue, or a `Role` of the installation."""


@dataclass(frozen=True, slots=True)
class Permissions:
    """What a principal may do."""

    roles: frozenset[Role] = frozenset()
    """Roles it holds."""
    queues: Mapping[str, frozenset[Verb]] = field(default_factory=dict)
    """Verbs granted on single queues."""

    def may(self, verb: Verb, queue: str) -> bool:
        """Return whether something may be done with a queue."""
        return verb in self.queues.get(queue, ()) or self.may_everywhere(verb)

    def may_everywhere(self, verb: Verb) -> bool:
        """Return whether something may be done with all queues, those that are to come included."""
        return any(verb in _ROLE_VERBS[role] for role in self.roles)

    @property
    def may_act_as_others(self) -> bool:
        """Whether it may act as users."""
        return Role.IMPERSONATOR in self.roles

    def sees(self, queue: str) -> bool:
        """Return whether it may know that a queue exists."""
        return queue in self.queues or self.may_everywhere(Verb.WATCH)

    @property
    def seen_queues(self) -> frozenset[str] | None:
        """The queues that it may know of; None for all."""
        return None if self.may_everywhere(Verb.WATCH) else frozenset(self.queues)

    def require_sight(self, queue: str) -> None:
        """Return if it may know that a queue exists.

        Raises:
            NotFound: It may not; the answer is that of a queue that is not there.
        """
        if not self.sees(queue):
            raise NotFound(f"there is no queue {queue}", resource=Resource(kind="Queue", name=queue))

    def queues_for(self, verb: Verb) -> frozenset[str] | None:
        """Return the queues that something may be done with; None for all."""
        if self.may_everywhere(verb):
            return None
        return frozenset(queue for queue, verbs in self.queues.items() if verb in verbs)

    def require(self, verb: Verb, queue: str) -> None:
        """Return if something may be done with a queue.

        Raises:
            NotFound: It may not even be seen; the answer is that of a queue that is not there.
            NotPermitted: It may be seen.
        """
        if self.may(verb, queue):
            return
        self.require_sight(queue)
        raise NotPermitted(
            f"this needs {verb} on queue {queue}; an administrator can grant it",
            resource=Resource(kind="Queue", name=queue),
        )


EVERYTHING: Final = Permissions(frozenset({Role.ADMIN}))
"""What whoever calls may do where nobody is asked who they are."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What it takes to call a method at all; with nothing set, to be somebody."""

    roles: frozenset[Role] = frozenset()
    """One of these roles."""
    verb: Verb | None = None
    """Or this verb, on any queue."""
    part: ClusterPart | None = None
    """To be this part of a cluster."""
    joins: bool = False
    """To be any process of a cluster, or invited to become one."""
    is_for_servers: bool = False
    """To be a server of this installation that asks for itself, not for one of its callers."""

    def require(self, principal: Principal, permissions: Permissions) -> None:
        """Return if a principal may call.

        Raises:
            NotPermitted: It may not.
        """
        if self.joins:
            if not principal.cluster:
                raise NotPermitted("only a process of a cluster, or one that was invited, may call this")
            return
        if principal.invitation:
            raise NotPermitted("an invitation lets a cluster's processes fetch their certificates, and nothing else")
        if self.part is not None or self.is_for_servers:
            self._require_process(principal)
            return
        if not self.roles and self.verb is None:
            return
        if permissions.roles & self.roles:
            return
        if self.verb is not None and permissions.queues_for(self.verb) != frozenset():
            return
        needed = [f"the role {role}" for role in sorted(self.roles)]
        if self.verb is not None:
            needed.append(f"{self.verb} on a queue")
        raise NotPermitted(f"this needs {' or '.join(needed)}; an administrator can grant it")

    def _require_process(self, principal: Principal) -> None:
        """Return if a principal is the process of ours that it takes.

        Raises:
            NotPermitted: It is not.
        """
        if self.is_for_servers:
            if not principal.is_server:
                raise NotPermitted("only a server of this installation may call this, and for itself alone")
        elif not principal.cluster or principal.part not in {None, self.part}:
            raise NotPermitted(f"only the {self.part} of a cluster may call this")


ANYONE: Final = Rule()
"""Whoever has proved who they are."""


def is_subject(text: str) -> bool:
    """Return whether a text is `user:NAME` or `group:NAME`."""
    return _SUBJECT.fullmatch(text) is not None


def permissions_of(principal: Principal, grants: Iterable[Grant]) -> Permissions:
    """Return what a principal may do by some grants, those of others among them.

    Somebody who acts as another has what the other has on queues, and none of the other's roles: a facade that is
    trusted to submit for users is not trusted to administer. Servers alone pass on all, for they only forward.
    """
    subjects = set(principal.subjects)
    roles: set[Role] = set()
    queues: dict[str, set[Verb]] = {}
    for grant in grants:
        if grant.subject not in subjects:
            continue
        if grant.queue:
            queues.setdefault(grant.queue, set()).add(Verb(grant.verb))
        elif not principal.acted_by:
            roles.add(Role(grant.verb))
    return Permissions(frozenset(roles), {queue: frozenset(verbs) for queue, verbs in queues.items()})
