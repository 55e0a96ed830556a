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

import dataclasses
import difflib
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from argosy_client.cluster_values import Cluster
from argosy_client.places import Place
from argosy_client.queue_values import Queue
from argosy_client.yaml_nodes import Document, Value, read_json, read_yaml
from argosy_core.access import Grant, Role, Verb
from argosy_core.errors import FieldViolation, InvalidRequest

if TYPE_CHECKING:
    from argosy_client.client import ArgosyClient

__all__ = ["Change", "Declared", "Present", "compare", "read_declared"]

_GIVEN: Final = {"name", "cordoned", "cordon_reason", "etag", "create_time"}
"""Fields of a queue that are no setting."""
_PASSED_OVER: Final = frozenset({"etag", "createTime"})
"""What a printed queue says besides, which is the server's."""
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_MOST_WEIGHT: Final = 1_000_000
_MOST_LEVELS: Final = 8
_INT64_MAX: Final = 2**63 - 1


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


_DEFAULTS: Final = Queue(name="")
_SETTINGS: Final = {_camel(one.name): one for one in dataclasses.fields(Queue) if one.name not in _GIVEN}


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


def read_declared(text: str, *, source: str) -> Declared:
    """Return what a file declares.

    Args:
        text: YAML, or JSON if the source ends in .json.
        source: Name of the file, for errors.

    Raises:
        InvalidRequest: Something is wrong; the violations hold every fault, with file, line and column.
    """
    reader = read_json if source.endswith(".json") else read_yaml
    reading = _Reading(source)
    for document in reader(text, source):
        reading.take(document)
    if reading.violations:
        _raise(reading.violations)
    if not (reading.queues or reading.roles or reading.clusters):
        raise InvalidRequest(f"{source}: declares nothing; it needs queues, roles or clusters")
    return Declared(queues=tuple(reading.queues), roles=reading.roles, clusters=tuple(reading.clusters))


def compare(declared: Declared, present: Present) -> list[Change]:
    """Return the changes that make what there is as it is declared, in an order in which they can be made.

    Raises:
        InvalidRequest: Something cannot be: a parent that does not exist, a circle, another pool, an unknown cluster or
            node. Every fault is in the violations.
    """
    violations = [*_queue_faults(declared.queues, present.queues), *_cluster_faults(declared.clusters, present)]
    if violations:
        _raise(violations)
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
        lines = (f"+ queue {wanted.name}", *(f"    {_camel(n)}: {_shown(v)}" for n, v in wanted.settings.items()))
        changes.append(Change(lines=lines, make=lambda client: client.create_queue(made)))
    else:
        differing = {name: value for name, value in wanted.settings.items() if getattr(now, name) != value}
        if differing:
            new = replace(now, **differing)
            lines = (
                f"~ queue {wanted.name}",
                *(f"    {_camel(n)}: {_shown(getattr(now, n))} -> {_shown(v)}" for n, v in differing.items()),
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


class _Reading:
    """Reads documents and collects what is wrong with them."""

    def __init__(self, source: str) -> None:
        self.violations: list[FieldViolation] = []
        self.queues: list[DeclaredQueue] = []
        self.clusters: list[DeclaredCluster] = []
        self.roles: dict[str, frozenset[Grant]] = {}
        self._source = source
        self._place: Place = Place(source=source, number=1, positions=dict)

    def take(self, document: Document) -> None:
        self._place = Place(source=self._source, number=document.number, positions=document.positions)
        value = document.value
        if isinstance(value, dict) and "name" in value:  # a queue as `argosy queue get -o yaml` prints it
            self._queue(value, "")
            return
        readers = {"queues": self._queue, "roles": self._roles, "clusters": self._cluster}
        for key, items in self._fields(value, "", readers).items():
            if not isinstance(items, list):
                self._fault(key, "must be a list")
                continue
            for index, item in enumerate(items):
                readers[key](item, f"{key}[{index}]")

    def _fields(self, value: Value, path: str, known: Iterable[str]) -> Mapping[str, Value]:
        """Return the fields of an object as far as they are known; others are faults."""
        names = list(known)
        if not isinstance(value, dict):
            self._fault(path, f"must be a mapping with {', '.join(names)}")
            return {}
        for key in value.keys() - set(names) - _PASSED_OVER:
            near = difflib.get_close_matches(key, names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
            self._fault(f"{path}.{key}" if path else key, f"is not known here; {hint}")
        return {key: inner for key, inner in value.items() if key in names}

    def _queue(self, value: Value, path: str) -> None:
        fields = self._fields(value, path, ("name", *_SETTINGS, "cordon", "grants"))
        name = self._name(fields, path)
        if name and not _NAME.fullmatch(name):
            self._fault(f"{path}.name", "must be 1 to 63 lower-case letters, digits and hyphens, no hyphen at its ends")
        if any(queue.name == name for queue in self.queues):
            self._fault(f"{path}.name", f"declares queue {name} a second time")
        settings = {}
        for key, inner in fields.items():
            if key in _SETTINGS and inner is not None:
                settings[_SETTINGS[key].name] = self._setting(_SETTINGS[key], inner, f"{path}.{key}")
        says_cordon, cordon = self._cordon(fields, path)
        grants = None
        if fields.get("grants") is not None:
            grants = self._grants(fields["grants"], f"{path}.grants", name)
        self.queues.append(
            DeclaredQueue(
                name=name,
                settings=settings,
                cordon=cordon,
                says_cordon=says_cordon,
                grants=grants,
                place=self._place,
                path=path,
            )
        )

    def _number(self, default: float, value: Value, path: str) -> bool | float:
        """Return a number or a truth value, read by the type of its default."""
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if isinstance(default, bool):
            if isinstance(value, bool):
                return value
            self._fault(path, "must be true or false")
        elif isinstance(default, int):
            if isinstance(value, int) and is_number and 0 <= value <= _INT64_MAX:
                return value
            self._fault(path, "must be a whole number, not negative")
        else:
            if is_number and math.isfinite(value) and 0 <= value <= _MOST_WEIGHT:  # type: ignore[arg-type, operator]
                return float(value)  # type: ignore[arg-type]
            self._fault(path, f"must be a number from 0 to {_MOST_WEIGHT:,}")
        return default

    def _setting(self, setting: dataclasses.Field[Any], value: Value, path: str) -> Any:  # noqa: ANN401 - any field
        """Return the value of a field of a queue, read by the type of its default."""
        default = getattr(_DEFAULTS, setting.name)
        if isinstance(default, int | float):
            return self._number(default, value, path)
        if isinstance(default, str):
            if isinstance(value, str):
                return value
            self._fault(path, "must be a text")
        elif isinstance(default, tuple):
            if isinstance(value, list) and all(isinstance(item, str) for item in value):
                return tuple(value)
            self._fault(path, "must be a list of texts")
        elif isinstance(default, dict) and isinstance(value, dict):
            return {name: self._amount(name, amount, f"{path}.{name}") for name, amount in value.items()}
        else:
            self._fault(path, "must be a mapping of amounts by resource, as {cpu: 64, memory: 1Ti}")
        return default

    def _amount(self, name: str, value: Value, path: str) -> int:
        """Return an amount in base units; a whole number stands for these themselves only as printed values do."""
        from argosy_core.resources import parse_quantity

        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _INT64_MAX:
            return value
        try:
            return parse_quantity(name, value if isinstance(value, str) else "")
        except InvalidRequest:
            self._fault(path, "must be a quantity as text, as '64' or 1Ti, or a whole number of base units")
            return 0

    def _grants(self, value: Value, path: str, queue: str) -> frozenset[Grant]:
        found: set[Grant] = set()
        for index, item in enumerate(self._list(value, path)):
            at = f"{path}[{index}]"
            fields = self._fields(item, at, ("subject", "verbs"))
            subject = self._subject(fields, at)
            found |= {
                Grant(subject=subject, queue=queue, verb=verb)
                for verb in self._words(fields, "verbs", at, [*map(str, Verb)])
            }
        return frozenset(found)

    def _roles(self, value: Value, path: str) -> None:
        fields = self._fields(value, path, ("subject", "roles"))
        subject = self._subject(fields, path)
        if subject in self.roles:
            self._fault(f"{path}.subject", f"is declared a second time: {subject}")
        self.roles[subject] = frozenset(
            Grant(subject=subject, queue="", verb=role)
            for role in self._words(fields, "roles", path, [*map(str, Role)])
        )

    def _cluster(self, value: Value, path: str) -> None:
        fields = self._fields(value, path, ("name", "cordon", "cordonedNodes"))
        says_cordon, cordon = self._cordon(fields, path)
        nodes: dict[str, str] | None = None
        if fields.get("cordonedNodes") is not None:
            nodes = {}
            for index, item in enumerate(self._list(fields["cordonedNodes"], f"{path}.cordonedNodes")):
                at = f"{path}.cordonedNodes[{index}]"
                inner = self._fields(item, at, ("name", "reason"))
                nodes[self._name(inner, at)] = self._text(inner, "reason", at)
        self.clusters.append(
            DeclaredCluster(
                name=self._name(fields, path),
                cordon=cordon,
                says_cordon=says_cordon,
                nodes=nodes,
                place=self._place,
                path=path,
            )
        )

    def _cordon(self, fields: Mapping[str, Value], path: str) -> tuple[bool, str | None]:
        """Return whether anything is said of a cordon, and its reason if there shall be one."""
        if "cordon" not in fields:
            return False, None
        value = fields["cordon"]
        if value is None or value is False:
            return True, None
        if value is True:
            return True, ""
        return True, self._text(self._fields(value, f"{path}.cordon", ("reason",)), "reason", f"{path}.cordon")

    def _words(self, fields: Mapping[str, Value], name: str, path: str, known: Sequence[str]) -> list[str]:
        found = []
        for word in self._list(fields.get(name), f"{path}.{name}"):
            if word in known:
                found.append(str(word))
            else:
                self._fault(f"{path}.{name}", f"holds {word!r}; there are {', '.join(known)}")
        return found

    def _subject(self, fields: Mapping[str, Value], path: str) -> str:
        subject = self._text(fields, "subject", path)
        if not re.fullmatch(r"(user|group):.+", subject):
            self._fault(f"{path}.subject", "must be user:NAME or group:NAME")
        return subject

    def _list(self, value: Value, path: str) -> list[Value]:
        if isinstance(value, list):
            return value
        self._fault(path, "must be a list")
        return []

    def _name(self, fields: Mapping[str, Value], path: str) -> str:
        name = self._text(fields, "name", path)
        if not name:
            self._fault(f"{path}.name", "is missing")
        return name

    def _text(self, fields: Mapping[str, Value], name: str, path: str) -> str:
        value = fields.get(name)
        if value is None or isinstance(value, str):
            return value or ""
        self._fault(f"{path}.{name}", "must be a text; quote it if it looks like a number")
        return ""

    def _fault(self, path: str, what: str) -> None:
        self.violations.append(_violation(self._place, path.removeprefix("."), what))


def _fault(owner: DeclaredQueue | DeclaredCluster, name: str, what: str) -> FieldViolation:
    """Return a fault of a field, with its place."""
    path = f"{owner.path}.{name}" if owner.path else name
    assert owner.place is not None
    return _violation(owner.place, path, what)


def _violation(place: Place, path: str, what: str) -> FieldViolation:
    where = place.of(path)
    return FieldViolation(field=path, description=f"{where}: {path}: {what}" if path else f"{where}: {what}")


def _raise(violations: Sequence[FieldViolation]) -> None:
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
