"""What an operator declares in a file: queues with their limits, cordons and grants, roles, and cordons of machines.

::

    queues:
      - name: science
        weight: 2
        parent: research                       # every field of a queue may stand here, in the names of the API's JSON
        maxRunningAmounts: {cpu: "64", memory: 1Ti}
        cordon: {reason: audit}                # null uncordons
        grants:                                # the whole list: who is not in it loses what it had
          - {subject: "group:tides", verbs: [submit, watch]}
    roles:
      - {subject: "user:ada", roles: [operator]}   # the whole list of that subject
    clusters:
      - name: c1
        cordon: null
        cordonedNodes: [{name: n7, reason: disk}]  # the whole list of that cluster

What a file does not name stays as it is, and nothing is ever deleted by it. Reading and comparing is done before
anything is changed, so a file that is wrong anywhere changes nothing.

Source: design section 9.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from argosy_client.cluster_values import Cluster
from argosy_client.places import Place
from argosy_client.queue_values import Queue
from argosy_core.access import Grant
from argosy_core.errors import FieldViolation, InvalidRequest

if TYPE_CHECKING:
    from argosy_client.client import ArgosyClient

__all__ = [
    "Change",
    "Declared",
    "DeclaredCluster",
    "DeclaredQueue",
    "Present",
    "compare",
    "fault_at",
    "json_name",
    "refuse",
]

_MOST_LEVELS: Final = 8


def json_name(name: str) -> str:
    """Return the name that a field has in the API's JSON."""
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredQueue:
    """What is said of one queue."""

    name: str
    """Name."""
    settings: Mapping[str, Any]
    """New values by field of `Queue`."""
    cordon: str | None = None
    """Reason of its cordon, None if it is not cordoned; counts only if `says_cordon`."""
    says_cordon: bool = False
    """Whether anything is said of its cordon."""
    grants: frozenset[Grant] | None = None
    """Everything granted on it; None if nothing is said of that."""
    place: Place | None = field(default=None, compare=False)
    """Where it stands."""
    path: str = ""
    """Its path there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredCluster:
    """What is said of one cluster."""

    name: str
    """Name."""
    cordon: str | None = None
    """As of a queue."""
    says_cordon: bool = False
    """As of a queue."""
    nodes: Mapping[str, str] | None = None
    """Reasons of all cordoned nodes by name; None if nothing is said of nodes."""
    place: Place | None = field(default=None, compare=False)
    """Where it stands."""
    path: str = ""
    """Its path there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What files declare."""

    queues: tuple[DeclaredQueue, ...]
    """Queues."""
    roles: Mapping[str, frozenset[Grant]]
    """Roles by subject."""
    clusters: tuple[DeclaredCluster, ...]
    """Clusters."""

    @property
    def says_grants(self) -> bool:
        """Whether anything is said of what is granted to whom."""
        return bool(self.roles) or any(one.grants is not None for one in self.queues)


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """What there is now."""

    queues: Mapping[str, Queue]
    """Queues by name."""
    grants: frozenset[Grant]
    """All grants; none if nothing is declared of them."""
    clusters: Mapping[str, Cluster]
    """Clusters by name."""
    nodes: Mapping[str, frozenset[str]]
    """Names of nodes by cluster, of those that are connected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One call that brings what there is nearer to what is declared."""

    lines: tuple[str, ...]
    """What it does, for people; each begins with +, - or ~."""
    make: Callable[[ArgosyClient], Awaitable[object]]
    """Makes the call."""


def compare(declared: Declared, present: Present) -> list[Change]:
    """Return the changes that make what there is as it is declared, in an order in which they can be made.

    Raises:
        InvalidRequest: Something cannot be: a parent that does not exist, a circle, another pool, an unknown cluster or
            node. Every fault is in the violations.
    """
    violations = [*_queue_faults(declared.queues, present.queues), *_cluster_faults(declared.clusters, present)]
    if violations:
        refuse(violations)
    changes: list[Change] = []
    for queue in _parents_first(declared.queues, present.queues):
        changes += _queue_changes(queue, present.queues.get(queue.name))
    granted: list[Grant] = []
    taken: list[Grant] = []
    for queue in declared.queues:
        if queue.grants is not None:
            now = {grant for grant in present.grants if grant.queue == queue.name}
            granted += queue.grants - now
            taken += now - queue.grants
    for subject, roles in declared.roles.items():
        now = {grant for grant in present.grants if grant.subject == subject and not grant.queue}
        granted += roles - now
        taken += now - roles
    changes += _grant_changes(granted, taken)
    for cluster in declared.clusters:
        changes += _cluster_changes(cluster, present.clusters[cluster.name])
    return changes


def _queue_changes(wanted: DeclaredQueue, now: Queue | None) -> list[Change]:
    """Return what makes one queue as it is declared."""
    changes: list[Change] = []
    if now is None:
        made = Queue(name=wanted.name, **wanted.settings)
        lines = (f"+ queue {wanted.name}", *(f"    {json_name(n)}: {_shown(v)}" for n, v in wanted.settings.items()))
        changes.append(Change(lines=lines, make=lambda client: client.create_queue(made)))
    else:
        differing = {name: value for name, value in wanted.settings.items() if getattr(now, name) != value}
        if differing:
            new = replace(now, **differing)
            lines = (
                f"~ queue {wanted.name}",
                *(f"    {json_name(n)}: {_shown(getattr(now, n))} -> {_shown(v)}" for n, v in differing.items()),
            )
            changes.append(Change(lines=lines, make=lambda client: client.update_queue(new, tuple(differing))))
    was = now.cordon_reason if now is not None and now.cordoned else None
    if wanted.says_cordon and wanted.cordon != was:
        reason = wanted.cordon
        if reason is None:
            changes.append(
                Change(lines=(f"~ uncordon queue {wanted.name}",), make=lambda c: c.uncordon_queue(wanted.name))
            )
        else:
            line = f"~ cordon queue {wanted.name}: {reason or 'no reason given'}"
            changes.append(Change(lines=(line,), make=lambda c: c.cordon_queue(wanted.name, reason)))
    return changes


def _grant_changes(granted: Iterable[Grant], taken: Iterable[Grant]) -> list[Change]:
    """Return what gives grants, and then takes others."""
    changes: list[Change] = []
    given, lost = sorted(granted, key=_grant_key), sorted(taken, key=_grant_key)
    if given:
        changes.append(
            Change(lines=tuple(f"+ {_grant_text(one)}" for one in given), make=lambda c: c.add_grants(given))
        )
    if lost:
        changes.append(
            Change(lines=tuple(f"- {_grant_text(one)}" for one in lost), make=lambda c: c.remove_grants(lost))
        )
    return changes


def _cluster_changes(wanted: DeclaredCluster, now: Cluster) -> list[Change]:
    """Return what cordons and uncordons a cluster and its nodes."""
    changes: list[Change] = []
    was = now.cordon_reason if now.cordoned else None
    if wanted.says_cordon and wanted.cordon != was:
        reason = wanted.cordon
        if reason is None:
            line = f"~ uncordon cluster {wanted.name}"
            changes.append(Change(lines=(line,), make=lambda client: client.uncordon_cluster(wanted.name)))
        else:
            line = f"~ cordon cluster {wanted.name}: {reason or 'no reason given'}"
            changes.append(Change(lines=(line,), make=lambda client: client.cordon_cluster(wanted.name, reason)))
    if wanted.nodes is not None:
        for node, why in wanted.nodes.items():
            if now.cordoned_nodes.get(node) != why:
                changes.append(_node_cordon(wanted.name, node, why))
        changes += [_node_uncordon(wanted.name, node) for node in now.cordoned_nodes if node not in wanted.nodes]
    return changes


def _node_cordon(cluster: str, node: str, why: str) -> Change:
    line = f"~ cordon node {cluster}/{node}: {why or 'no reason given'}"
    return Change(lines=(line,), make=lambda client: client.cordon_node(cluster, node, why))


def _node_uncordon(cluster: str, node: str) -> Change:
    return Change(lines=(f"~ uncordon node {cluster}/{node}",), make=lambda client: client.uncordon_node(cluster, node))


def _queue_faults(wanted: Sequence[DeclaredQueue], now: Mapping[str, Queue]) -> list[FieldViolation]:
    """Return what cannot be of the tree of queues that would result."""
    parents = {name: queue.parent for name, queue in now.items()}
    parents |= {queue.name: queue.settings.get("parent", parents.get(queue.name, "")) for queue in wanted}
    found: list[FieldViolation] = []
    for queue in wanted:
        present, pool = now.get(queue.name), queue.settings.get("pool")
        if present is not None and pool and pool != present.pool:
            found.append(_fault(queue, "pool", f"is {pool}, but the queue is of pool {present.pool}, and stays there"))
        above, chain = parents[queue.name], [queue.name]
        while above:
            if above in chain:
                found.append(_fault(queue, "parent", f"makes a circle: {' below '.join([*chain, above])}"))
                break
            if above not in parents:
                found.append(_fault(queue, "parent", f"is {above}, a queue that neither exists nor is declared"))
                break
            chain.append(above)
            above = parents[above]
        if len(chain) > _MOST_LEVELS:
            found.append(_fault(queue, "parent", f"puts it at level {len(chain)}; at most {_MOST_LEVELS} are allowed"))
    return found


def _cluster_faults(wanted: Sequence[DeclaredCluster], present: Present) -> list[FieldViolation]:
    """Return clusters and nodes that do not exist."""
    found = []
    for cluster in wanted:
        if cluster.name not in present.clusters:
            found.append(_fault(cluster, "name", f"is {cluster.name}, a cluster that has never connected"))
            continue
        known = present.nodes.get(cluster.name)
        cordoned = present.clusters[cluster.name].cordoned_nodes
        found += [
            _fault(cluster, "cordonedNodes", f"names {node}, which cluster {cluster.name} does not have")
            for node in cluster.nodes or ()
            if known is not None and node not in known and node not in cordoned
        ]
    return found


def _parents_first(wanted: Sequence[DeclaredQueue], now: Mapping[str, Queue]) -> list[DeclaredQueue]:
    """Return queues so that each comes after the one that it stands below."""
    by_name = {queue.name: queue for queue in wanted}
    ordered: dict[str, DeclaredQueue] = {}

    def add(queue: DeclaredQueue) -> None:
        present = now.get(queue.name)
        above = by_name.get(queue.settings.get("parent", present.parent if present is not None else ""))
        if queue.name not in ordered:
            if above is not None:
                add(above)
            ordered[queue.name] = queue

    for queue in wanted:
        add(queue)
    return list(ordered.values())


def _fault(owner: DeclaredQueue | DeclaredCluster, name: str, what: str) -> FieldViolation:
    """Return a fault of a field, with its place."""
    path = f"{owner.path}.{name}" if owner.path else name
    assert owner.place is not None
    return fault_at(owner.place, path, what)


def fault_at(place: Place, path: str, what: str) -> FieldViolation:
    """Return a fault of a file, told with its place."""
    where = place.of(path)
    return FieldViolation(field=path, description=f"{where}: {path}: {what}" if path else f"{where}: {what}")


def refuse(violations: Sequence[FieldViolation]) -> None:
    """Raise what is wrong with a file.

    Raises:
        InvalidRequest: Always; its message has a line for each fault.
    """
    raise InvalidRequest("\n".join(one.description for one in violations), violations=tuple(violations))


def _grant_key(grant: Grant) -> tuple[str, str, str]:
    return grant.queue, grant.subject, grant.verb


def _grant_text(grant: Grant) -> str:
    return f"grant {grant.subject} {grant.verb}" + (f" on {grant.queue}" if grant.queue else "")


def _shown(value: object) -> str:
    """Return a value for a line of a comparison; mappings hold amounts."""
    from argosy_core.resources import format_amount  # late: it brings NumPy, which loads slowly

    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {format_amount(key, inner)}" for key, inner in sorted(value.items())) + "}"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(str, value)) + "]"
    return f"{value:g}" if isinstance(value, float) else str(value) or "none"
