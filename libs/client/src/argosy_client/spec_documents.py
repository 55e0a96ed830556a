"""The spec of a submission as people write it: its manifests, groups of pods, and what follows when runs fail.

Source: `argosy_client.documents`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from argosy_client.field_reading import FieldReader, kind_text, manifest_text, parsed
from argosy_client.yaml_nodes import Value
from argosy_core.job.failure_kind import FailureKind
from argosy_core.job.reading.pod_groups import MAX_MEMBER_COUNT, PodGroup
from argosy_core.job.reading.retry_rules import MAX_FAILED_RUNS, ReplacedMembers, RetryRules

__all__ = ["MEMBER_FAILURES", "read_spec"]


def _spellings(*names: str) -> dict[str, str]:
    """Return fields by how they may be spelled: as `maxHops`, and as `max_hops`."""
    camels = {name.split("_")[0] + "".join(map(str.capitalize, name.split("_")[1:])): name for name in names}
    return camels | {name: name for name in names}


_SPEC_FIELDS: Final = _spellings("manifests", "groups", "retry", "node_lost", "executor_lost", "member_failure")
_GROUP_FIELDS: Final = _spellings("name", "min", "max", "max_hops", "shares_nodes", "after", "template")
_RETRY_FIELDS: Final = _spellings("max_failed_runs", "by_kind", "first_back_off", "back_off_factor", "max_back_off")
_FAILURE_KINDS: Final = {kind.name.lower(): kind.name.lower() for kind in FailureKind if kind}
MEMBER_FAILURES: Final = {
    "endRun": ReplacedMembers.NONE,
    "replaceLost": ReplacedMembers.LOST,
    "replace": ReplacedMembers.ALL,
}
"""What documents say of members that fail or are lost."""
_MAX_HOPS: Final = 100


def read_spec(reader: FieldReader, spec: Value) -> tuple[tuple[str, ...], tuple[PodGroup, ...], RetryRules | None]:
    """Return the manifests, the groups and the rules for retries of a spec; mistakes are noted at the reader."""
    if not isinstance(spec, dict):
        reader.fault("spec", "must hold manifests: a list of Kubernetes objects, at least one of them a Pod")
        return (), (), None
    fields = reader.named(spec, _SPEC_FIELDS, "a spec", "spec.")
    groups = _read_groups(reader, fields["groups"]) if "groups" in fields else ()
    manifests = _read_manifests(reader, fields.get("manifests", [] if groups else None), has_groups=bool(groups))
    rules = _read_retry(reader, fields["retry"]) if "retry" in fields else None
    if "node_lost" in fields:
        lost_s = _read_lost(reader, fields["node_lost"], "nodeLost", "replace_after")
        rules = replace(rules or RetryRules(), replace_after_s=lost_s)
    if "executor_lost" in fields:
        lost_s = _read_lost(reader, fields["executor_lost"], "executorLost", "stop_after")
        rules = replace(rules or RetryRules(), stop_after_s=lost_s)
    if "member_failure" in fields:
        replaced = _read_member_failure(reader, fields["member_failure"], has_groups=bool(groups))
        rules = replace(rules or RetryRules(), replaced_members=replaced) if replaced or rules else None
    return manifests, groups, rules


def _read_member_failure(reader: FieldReader, value: Value, *, has_groups: bool) -> ReplacedMembers:
    """Return which members are replaced while the others run."""
    if not has_groups:
        reader.fault("spec.memberFailure", "is about the members of groups; a job without groups has one")
    if not isinstance(value, str) or value not in MEMBER_FAILURES:
        reader.fault("spec.memberFailure", f"must be one of {', '.join(MEMBER_FAILURES)}")
        return ReplacedMembers.NONE
    return MEMBER_FAILURES[value]


def _read_manifests(reader: FieldReader, given: Value, *, has_groups: bool) -> tuple[str, ...]:
    if not isinstance(given, list):
        reader.fault("spec", "must hold manifests: a list of Kubernetes objects, at least one of them a Pod")
        return ()
    manifests = [parsed(manifest) if isinstance(manifest, str) else manifest for manifest in given]
    kinds = []
    for index, manifest in enumerate(manifests):
        path = f"spec.manifests[{index}]"
        if not isinstance(manifest, dict):
            reader.fault(path, f"must be a Kubernetes object, not {kind_text(manifest)}")
        elif not isinstance(manifest.get("kind"), str):
            reader.fault(f"{path}.kind", "is missing: the kind of the Kubernetes object, as in Pod")
        else:
            kinds.append(manifest["kind"])
    if len(kinds) == len(manifests) and "Pod" not in kinds and not has_groups:
        reader.fault("spec.manifests", "hold no Pod")
    return tuple(manifest_text(manifest) for manifest in manifests)


def _read_groups(reader: FieldReader, value: Value) -> tuple[PodGroup, ...]:
    if not isinstance(value, list) or not value:
        reader.fault("spec.groups", "must be a list of groups of pods")
        return ()
    return tuple(_read_group(reader, group, f"spec.groups[{index}]") for index, group in enumerate(value))


def _read_group(reader: FieldReader, value: Value, path: str) -> PodGroup:
    if not isinstance(value, dict):
        reader.fault(path, f"must be a mapping with name, min and template, not {kind_text(value)}")
        value = {}
    fields, path = reader.named(value, _GROUP_FIELDS, "a group", f"{path}."), f"{path}."
    template = fields.get("template")
    template = parsed(template) if isinstance(template, str) else template
    if not isinstance(template, dict):
        reader.fault(f"{path}template", "must be a pod: a mapping with spec, and with metadata if it has any")
        template = {}
    minimum = reader.number(fields, "min", default=1, least=1, most=MAX_MEMBER_COUNT, path=path)
    if "min" not in fields:
        reader.fault(f"{path}min", "is missing: how many pods the job cannot begin without")
    return PodGroup(
        name=reader.text(fields, "name", path=path),
        minimum=minimum,
        maximum=reader.number(fields, "max", default=minimum, least=1, most=MAX_MEMBER_COUNT, path=path),
        template=manifest_text({"apiVersion": "v1", "kind": "Pod", **template}),
        max_hops=reader.number(fields, "max_hops", default=-1, least=0, most=_MAX_HOPS, path=path),
        whole_nodes=not reader.flag(fields, "shares_nodes", path=path),
        after=reader.text(fields, "after", path=path),
    )


def _read_retry(reader: FieldReader, value: Value) -> RetryRules | None:
    path = "spec.retry."
    if not isinstance(value, dict):
        reader.fault("spec.retry", f"must be a mapping, as {{maxFailedRuns: 5}}, not {kind_text(value)}")
        return None
    fields = reader.named(value, _RETRY_FIELDS, "retry", path)
    factor = fields.get("back_off_factor", 0)
    if isinstance(factor, bool) or not isinstance(factor, int | float):
        reader.fault(f"{path}backOffFactor", f"must be a number, not {kind_text(factor)}")
        factor = 0
    return RetryRules(
        max_failed_runs=reader.number(fields, "max_failed_runs", default=0, least=1, most=MAX_FAILED_RUNS, path=path),
        by_kind=_read_limits(reader, fields.get("by_kind", {})),
        first_back_off_s=float(reader.duration(fields, "first_back_off", None, path=path) or 0),
        back_off_factor=float(factor),
        max_back_off_s=float(reader.duration(fields, "max_back_off", None, path=path) or 0),
    )


def _read_lost(reader: FieldReader, value: Value, name: str, field: str) -> float:
    """Return after how long a run is given up whose node or executor is not heard of, seconds; 0 for never."""
    spellings = _spellings(field)
    if not isinstance(value, dict):
        reader.fault(f"spec.{name}", f"must be a mapping, as {{{next(iter(spellings))}: 5m}}, not {kind_text(value)}")
        return 0.0
    path = f"spec.{name}."
    fields = reader.named(value, spellings, name, path)
    return float(reader.duration(fields, field, None, path=path) or 0)


def _read_limits(reader: FieldReader, value: Value) -> tuple[tuple[FailureKind, int], ...]:
    """Return limits by kind of failure."""
    if not isinstance(value, Mapping):
        reader.fault("spec.retry.byKind", f"must be a mapping, as {{exit_code: 3}}, not {kind_text(value)}")
        return ()
    path = "spec.retry.byKind."
    given = reader.named(value, _FAILURE_KINDS, "byKind", path)
    return tuple(
        (kind, reader.number(given, kind.name.lower(), default=1, least=1, most=MAX_FAILED_RUNS, path=path))
        for kind in FailureKind
        if kind.name.lower() in given
    )
