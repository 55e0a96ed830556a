"""The policy of a pod, as its annotations say it; `argosy_core.job.reading.scaling` has their names and forms.

Source: design section 5, "Resize"; docs/autoscale.md "The agent".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from argosy_core.autoscale.amounts import Amounts
from argosy_core.autoscale.events import ScalingPolicy
from argosy_core.job.reading.scaling import read_scaling

__all__ = ["read_policy"]


def read_policy(annotations: Mapping[str, str]) -> ScalingPolicy | None:
    """Return the policy of a pod; None if it is not resized.

    Raises:
        InvalidRequest: An annotation cannot be read; the text names it.
    """
    scaling = read_scaling(annotations)
    if scaling is None:
        return None
    least, most = Amounts(*scaling.least), Amounts(*scaling.most)
    return ScalingPolicy(
        least=least,
        most=most,
        is_bundle=scaling.is_bundle,
        contract_port=scaling.contract_port,
        **asdict(scaling.targets),
    )
