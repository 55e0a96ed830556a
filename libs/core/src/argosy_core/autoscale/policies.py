"""The policy of a pod, as its annotations say it.

::

    argosy.dev/autoscale-targets: load=0.9,memory=0.75,working-set=0.9   # how full it should be
    argosy.dev/autoscale-bundle: "true"    # permits are equal units of processors and memory, or none

besides the bounds and the switch of `annotations`.

Source: design section 5, "Resize"; docs/autoscale.md "The agent".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from argosy_core.autoscale.amounts import Amounts
from argosy_core.autoscale.annotations import read_scaling
from argosy_core.autoscale.events import ScalingPolicy
from argosy_core.errors import InvalidRequest

__all__ = ["BUNDLE_ANNOTATION", "TARGETS_ANNOTATION", "read_policy"]

TARGETS_ANNOTATION: Final = "argosy.dev/autoscale-targets"
"""Parts of what a pod has that it should use at most, as `load=0.9,memory=0.75`; each may be left out."""
BUNDLE_ANNOTATION: Final = "argosy.dev/autoscale-bundle"
"""`true` if a permit of unequal units is worth nothing."""
_FIELDS: Final = {"load": "load_ratio", "memory": "memory_ratio", "working-set": "working_set_ratio"}


def read_policy(annotations: Mapping[str, str]) -> ScalingPolicy | None:
    """Return the policy of a pod; None if it is not resized.

    Raises:
        InvalidRequest: An annotation cannot be read; the text names it.
    """
    scaling = read_scaling(annotations)
    if scaling is None:
        return None
    bundle = annotations.get(BUNDLE_ANNOTATION, "false")
    if bundle not in {"true", "false"}:
        raise InvalidRequest(f"{BUNDLE_ANNOTATION} is {bundle[:40]!r}; write true or false")
    ratios = _read_targets(annotations.get(TARGETS_ANNOTATION, ""))
    least, most = Amounts(*scaling.least), Amounts(*scaling.most)
    try:
        return ScalingPolicy(least=least, most=most, is_bundle=bundle == "true", **ratios)
    except ValueError as cause:
        raise InvalidRequest(f"annotations of autoscaling: {cause}") from cause


def _read_targets(text: str) -> dict[str, Any]:
    """Return fields of a policy."""
    targets: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        name, _, number = (word.strip() for word in part.partition("="))
        try:
            targets[_FIELDS[name]] = float(number)
        except (KeyError, ValueError) as cause:
            wanted = ", ".join(f"{one}=..." for one in _FIELDS)
            raise InvalidRequest(f"{TARGETS_ANNOTATION} is {text[:80]!r}; write {wanted} with parts of 1") from cause
    return targets
