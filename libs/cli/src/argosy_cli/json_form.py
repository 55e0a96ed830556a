"""Values as JSON: in the names of the API's own JSON, so that what a command prints is what files and stubs say.

A field is called as in the protocol's JSON mapping (`jobSet`, `createTime`), durations are `90s`, times RFC 3339; words
of enumerations stand without their prefix, as files and options take them. A job that was printed can be submitted
again (`argosy_client.documents`).

Source: design section 9; `proto/argosy/api/v1/`.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from argosy_client import PodGroup, RetryRules, ScalingRules

__all__ = ["to_plain"]

_SECONDS: Final = ("lifetime_s", "time_limit_s", "estimate_s")
_MEMBER_FAILURES: Final = {1: "replaceLost", 2: "replace"}
_LEFT_OUT: Final = ("after_until", "cordon_reason", "groups", "place", "retry")
"""Fields that stand within others, or nowhere."""
_UNDERSCORE: Final = re.compile(r"_([a-z0-9])")


def to_plain(value: object) -> Any:  # noqa: ANN401 - a JSON value
    """Return a value as JSON can say it: dataclasses as objects, times as RFC 3339, manifests as what they hold."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dict(_member(value, field.name) for field in dataclasses.fields(value) if field.name not in _LEFT_OUT)
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_plain(item) for item in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if hasattr(value, "tolist"):  # NumPy arrays and scalars
        return value.tolist()
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _member(owner: Any, name: str) -> tuple[str, Any]:  # noqa: ANN401 - any dataclass
    """Return the name and value that a field has in JSON."""
    value = getattr(owner, name)
    if name in _SECONDS:
        return _camel(name.removesuffix("_s")), None if value is None else f"{value}s"
    if name == "manifests":
        groups = [_group(group) for group in owner.groups]
        spec = {"manifests": [_parsed(manifest) for manifest in value]} | ({"groups": groups} if groups else {})
        if owner.retry is not None:
            spec |= {"retry": said} if (said := _retry(owner.retry)) else {}
            lost_s = owner.retry.replace_after_s
            spec |= {"nodeLost": {"replaceAfter": f"{lost_s:g}s"}} if lost_s else {}
            stop_s = owner.retry.stop_after_s
            spec |= {"executorLost": {"stopAfter": f"{stop_s:g}s"}} if stop_s else {}
            replaced = owner.retry.replaced_members
            spec |= {"memberFailure": _MEMBER_FAILURES[replaced]} if replaced else {}
        return "spec", spec if value or groups else None
    if name == "after":
        return "after", {"jobIds": list(value), "until": owner.after_until} if value else None
    if name == "cordoned" and hasattr(owner, "cordon_reason"):
        return "cordon", {"reason": owner.cordon_reason} if value else None
    if name == "scaling":
        return name, None if value is None else _scaling(value)
    if name == "parent" and value is not None and hasattr(owner, "after_until"):
        return name, {"jobId": value.job_id, "outlives": value.outlives}
    if name == "time_s":
        return "eventTime", to_plain(datetime.fromtimestamp(value, UTC))
    return _camel(name), to_plain(value)


def _group(group: PodGroup) -> dict[str, Any]:
    """Return a group of pods as documents have it."""
    said: dict[str, Any] = {"maxHops": group.max_hops} if group.max_hops >= 0 else {}
    said |= {"after": group.after} if group.after else {}
    plain = {"name": group.name, "min": group.minimum, "max": group.maximum, "sharesNodes": not group.whole_nodes}
    return {**plain, **said, "template": _parsed(group.template)}


def _retry(rules: RetryRules) -> dict[str, Any]:
    """Return rules for retries as documents have them."""
    said = {
        "maxFailedRuns": rules.max_failed_runs,
        "byKind": {kind.name.lower(): count for kind, count in rules.by_kind},
        "firstBackOff": f"{rules.first_back_off_s:g}s" if rules.first_back_off_s else "",
        "backOffFactor": rules.back_off_factor,
        "maxBackOff": f"{rules.max_back_off_s:g}s" if rules.max_back_off_s else "",
    }
    return {name: value for name, value in said.items() if value}


def _scaling(rules: ScalingRules) -> dict[str, Any]:
    """Return rules for resizes as documents have them."""
    amounts = {"min": rules.least, "max": rules.most, "unit": rules.unit}
    said: dict[str, Any] = {
        name: dict(zip(("cpu", "memory"), held, strict=True)) for name, held in amounts.items() if held
    }
    ratios = (rules.load_ratio, rules.memory_ratio, rules.working_set_ratio)
    targets = {name: ratio for name, ratio in zip(("load", "memory", "workingSet"), ratios, strict=True) if ratio}
    flags = {"off": rules.is_off, "bundle": rules.is_bundle, "movable": rules.is_movable}
    return said | ({"targets": targets} if targets else {}) | {name: True for name, is_set in flags.items() if is_set}


def _camel(name: str) -> str:
    """Return the name of a field as the protocol's JSON mapping makes it."""
    return _UNDERSCORE.sub(lambda found: found[1].upper(), name)


def _parsed(manifest: str) -> Any:  # noqa: ANN401 - a JSON value
    try:
        return json.loads(manifest)
    except ValueError:
        return manifest
