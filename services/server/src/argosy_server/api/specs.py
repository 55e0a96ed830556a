"""Specs that were read: each distinct spec is read once, and of pods that are nearly alike most only once for all.

Source: design section 3, "hash to scheduling class is cached"; section 8.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from argosy_core.errors import FieldViolation
from argosy_core.job.group_spec import read_group_bag
from argosy_core.job.options import UNSET
from argosy_core.job.pod_groups import PodGroup
from argosy_core.job.spec import SpecLimits, spec_hash
from argosy_core.job.spec_reader import SpecReader
from argosy_store.submits import SpecRow

__all__ = ["ReadSpec", "SpecCache", "unreadable"]

_ENTRY_BYTES: Final = 1500  # Python objects around a body, measured


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSpec:
    """What a submit needs of a spec."""

    row: SpecRow
    """Hash, body and layout as stored."""
    definition: bytes
    """Definition of its scheduling class."""
    namespaces: tuple[str, ...]
    """Namespaces its objects are made in."""
    violations: tuple[FieldViolation, ...] = ()
    """What is wrong with it; then nothing else may be used."""
    field_faults: tuple[FieldViolation, ...] = ()
    """Fields that their objects do not have, or that are of another type."""
    warnings: tuple[FieldViolation, ...] = ()
    """What is allowed and probably not meant."""
    deadline_s: int = UNSET
    """Seconds after which its pods end by themselves; `UNSET` for never."""
    pod_labels: tuple[tuple[str, str], ...] = ()
    """Labels of its pods, sorted, which are labels of its jobs, too."""


def unreadable(key: bytes, violations: tuple[FieldViolation, ...]) -> ReadSpec:
    """Return a spec of which nothing can be read.

    Args:
        key: Its `spec_hash`.
        violations: What is wrong with it.
    """
    row = SpecRow(hash=key, body=b"[]", layout=b"[]")
    return ReadSpec(row=row, definition=b"", namespaces=(), violations=violations)


class SpecCache:
    """Read specs by hash, the least recently used forgotten first. For one thread.

    Args:
        limits: Bounds of what is accepted as a spec.
        max_count: Most specs remembered.
        max_bytes: Most bytes remembered, bodies and what is around them.
    """

    def __init__(self, limits: SpecLimits, *, max_count: int, max_bytes: int = 256 << 20) -> None:
        """Start empty."""
        self._reader = SpecReader(limits)
        self._limits = limits
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._bytes = 0
        self._read: OrderedDict[bytes, ReadSpec] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of specs remembered."""
        return len(self._read)

    def find(self, manifests: Sequence[bytes], key: bytes | None = None) -> ReadSpec | None:
        """Return a spec that was read before, or None.

        Args:
            manifests: The spec.
            key: Its `spec_hash`, if it is known.
        """
        key = key or spec_hash(manifests)
        found = self._read.get(key)
        if found is not None:
            self._read.move_to_end(key)
        return found

    def read(self, manifests: Sequence[bytes], key: bytes | None = None, groups: Sequence[PodGroup] = ()) -> ReadSpec:
        """Return a spec after reading it; remembered unless something is wrong with it.

        Args:
            manifests: The spec, JSON.
            key: `spec_hash` of the manifests as received, or `group_hash` with groups, if it is known.
            groups: Its groups, their templates JSON.
        """
        bag = read_group_bag(manifests, groups, self._limits) if groups else self._reader.read(manifests, key)
        spec = ReadSpec(
            row=SpecRow(hash=key or bag.hash, body=bag.body, layout=bag.layout_definition()),
            definition=bag.class_definition,
            namespaces=bag.namespaces,
            violations=bag.violations,
            field_faults=bag.field_faults,
            warnings=bag.warnings,
            deadline_s=bag.deadline_s,
            pod_labels=bag.pod_labels,
        )
        if not bag.violations and spec.row.hash not in self._read:
            self._read[spec.row.hash] = spec
            self._bytes += len(bag.body) + _ENTRY_BYTES
            while len(self._read) > self._max_count or (self._bytes > self._max_bytes and len(self._read) > 1):
                _, forgotten = self._read.popitem(last=False)
                self._bytes -= len(forgotten.row.body) + _ENTRY_BYTES
        return spec
