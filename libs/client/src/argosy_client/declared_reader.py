"""Reading what an operator declares in a file, with the place of everything that is wrong.

The form of such files is told in `declared`.

Source: design section 9.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from argosy_client.declared import Declared, DeclaredCluster, DeclaredQueue, fault_at, json_name, refuse
from argosy_client.places import Place
from argosy_client.queue_values import Queue
from argosy_client.yaml_nodes import Document, Value, read_json, read_yaml
from argosy_core.access import Grant, Role, Verb
from argosy_core.errors import FieldViolation, InvalidRequest

__all__ = ["read_declared"]

_GIVEN: Final = {"name", "cordoned", "cordon_reason", "etag", "create_time"}
"""Fields of a queue that are no setting."""
_PASSED_OVER: Final = frozenset({"etag", "createTime"})
"""What a printed queue says besides, which is the server's."""
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_MOST_WEIGHT: Final = 1_000_000
_INT64_MAX: Final = 2**63 - 1


_DEFAULTS: Final = Queue(name="")
_SETTINGS: Final = {json_name(one.name): one for one in dataclasses.fields(Queue) if one.name not in _GIVEN}


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
        refuse(reading.violations)
    if not (reading.queues or reading.roles or reading.clusters):
        raise InvalidRequest(f"{source}: declares nothing; it needs queues, roles or clusters")
    return Declared(queues=tuple(reading.queues), roles=reading.roles, clusters=tuple(reading.clusters))


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
        self.violations.append(fault_at(self._place, path.removeprefix("."), what))
