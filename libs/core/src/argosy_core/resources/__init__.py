"""Resources: names in columns, amounts as int64 base units, Kubernetes quantities at the edge."""

from argosy_core.resources.axis import CPU, DEFAULT_AXIS, MEMORY, PODS, ResourceAxis
from argosy_core.resources.quantities import (
    MAX_AMOUNT,
    base_units_per_unit,
    format_amount,
    is_whole,
    max_job_amount,
    parse_quantity,
)

__all__ = [
    "CPU",
    "DEFAULT_AXIS",
    "MAX_AMOUNT",
    "MEMORY",
    "PODS",
    "ResourceAxis",
    "base_units_per_unit",
    "format_amount",
    "is_whole",
    "max_job_amount",
    "parse_quantity",
]
