"""Specs that were read: each distinct spec is read once, and of pods that are nearly alike most only once for all.

Source: design section 3, "hash to scheduling class is cached"; section 8.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from argosy_core.errors import FieldViolation
from argosy_core.job.reading.group_spec import group_hash, read_group_bag
from argosy_core.job.reading.options import UNSET
from argosy_core.job.reading.pod_groups import PodGroup
from argosy_core.job.reading.queue_policy import NO_DEFAULTS, PodDefaults, QueuePolicy, add_defaults
from argosy_core.job.reading.retry_rules import RetryRules, with_rules
from argosy_core.job.reading.spec import SpecLimits, spec_hash
from argosy_core.job.reading.spec_reader import SpecReader
from argosy_store.replicas.submits import SpecRow

__all__ = ["NO_EXTRAS", "PolicySpecs", "ReadSpec", "SpecCache", "SpecExtras", "spec_key", "unreadable"]

_MAX_POLICIES: Final = 32
_POLICY_BYTES: Final = 8 << 20
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecExtras:
    """What a spec says beside its manifests."""

    groups: tuple[PodGroup, ...] = ()
    """Its groups of pods."""
    rules: RetryRules | None = None
    """What it says of runs that fail."""


NO_EXTRAS: Final = SpecExtras()
"""Nothing, as nearly all specs."""


def spec_key(manifests: Sequence[bytes], extras: SpecExtras) -> bytes:
    """Return 16 bytes that name a spec: `spec_hash` of its manifests if it says nothing beside them."""
    key = group_hash(manifests, extras.groups) if extras.groups else spec_hash(manifests)
    return key if extras.rules is None else spec_hash([key, with_rules(b"[]", extras.rules)])


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
        defaults: What is added to specs before they are read.
    """

    def __init__(
        self,
        limits: SpecLimits,
        *,
        max_count: int,
        max_bytes: int = 256 << 20,
        defaults: PodDefaults = NO_DEFAULTS,
    ) -> None:
        """Start empty."""
        self._reader = SpecReader(limits)
        self._limits = limits
        self._defaults = defaults or None
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

    def read(self, manifests: Sequence[bytes], key: bytes | None = None, extras: SpecExtras = NO_EXTRAS) -> ReadSpec:
        """Return a spec after reading it; remembered unless something is wrong with it.

        Args:
            manifests: The spec, JSON.
            key: `spec_key` of the spec as received, if it is known.
            extras: What it says beside them, templates of groups as JSON.
        """
        key = given = key or spec_key(manifests, extras)
        groups = extras.groups
        if self._defaults is not None:
            depth = self._limits.max_depth
            manifests = add_defaults(manifests, self._defaults, max_depth=depth)
            templates = add_defaults([one.template.encode() for one in groups], self._defaults, max_depth=depth)
            groups = tuple(replace(one, template=text.decode()) for one, text in zip(groups, templates, strict=True))
            given = spec_key(manifests, replace(extras, groups=groups))
        bag = read_group_bag(manifests, groups, self._limits) if groups else self._reader.read(manifests, given)
        spec = ReadSpec(
            row=SpecRow(hash=given, body=bag.body, layout=with_rules(bag.layout_definition(), extras.rules)),
            definition=bag.class_definition,
            namespaces=bag.namespaces,
            violations=bag.violations,
            field_faults=bag.field_faults,
            warnings=bag.warnings,
            deadline_s=bag.deadline_s,
            pod_labels=bag.pod_labels,
        )
        if not bag.violations and key not in self._read:
            self._read[key] = spec
            self._bytes += len(bag.body) + _ENTRY_BYTES
            while len(self._read) > self._max_count or (self._bytes > self._max_bytes and len(self._read) > 1):
                _, forgotten = self._read.popitem(last=False)
                self._bytes -= len(forgotten.row.body) + _ENTRY_BYTES
        return spec


class PolicySpecs:
    """Read specs by the policy that they were judged by: the installation's, and those of queues in use.

    Args:
        limits: Bounds of what is accepted, with the installation's rights.
        max_count: Most specs remembered by the installation's policy, and an eighth of it by each other one.
    """

    def __init__(self, limits: SpecLimits, *, max_count: int) -> None:
        """Start empty."""
        self._limits = limits
        self._max_count = max_count
        self._default = SpecCache(limits, max_count=max_count)
        self._others: OrderedDict[QueuePolicy, SpecCache] = OrderedDict()

    def of(self, policy: QueuePolicy | None) -> SpecCache:
        """Return the specs that were judged by a policy; the one used least recently is forgotten beyond 32."""
        if policy is None:
            return self._default
        found = self._others.get(policy)
        if found is None:
            found = self._others[policy] = SpecCache(
                replace(self._limits, rights=policy.rights),
                max_count=self._max_count // 8,
                max_bytes=_POLICY_BYTES,
                defaults=policy.defaults,
            )
            if len(self._others) > _MAX_POLICIES:
                self._others.popitem(last=False)
        self._others.move_to_end(policy)
        return found
