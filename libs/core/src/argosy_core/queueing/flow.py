"""Flow: what a queue has used, with a memory that halves.

`flow = usage + max(flow - usage, 0) * 0.5 ^ (dt / half_time)`: never below the usage, and falling to it. While usage
stays the same, one step over dt equals any number of steps that add up to dt, so the tick does not matter; whoever
changes a usage brings the flow up to that moment first.

Source: 003 "Flow".
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from argosy_core.queueing.usage import to_cores

__all__ = ["advance_flow", "flow_keys", "time_to_level_s"]

Floats = npt.NDArray[np.float64]


def advance_flow(
    flow_cores: npt.NDArray[np.float64], usage_cores: npt.NDArray[np.float64], *, elapsed_s: float, half_time_s: float
) -> npt.NDArray[np.float64]:
    """Return the flows after some time of unchanged usage.

    Args:
        flow_cores: float64[q], flows before, cores.
        usage_cores: float64[q], weighted usage during the time, cores.
        elapsed_s: Time since the flows were right, seconds; negative counts as 0 (a clock that was set back).
        half_time_s: Time in which the excess over usage halves, seconds.

    Source: 003 "Flow".
    """
    beta = 0.5 ** (max(elapsed_s, 0.0) / half_time_s)
    flow: npt.NDArray[np.float64] = usage_cores + np.maximum(flow_cores - usage_cores, 0.0) * beta
    return flow


def time_to_level_s(flow_cores: float, usage_cores: float, level_cores: float, *, half_time_s: float) -> float:
    """Return after how long a flow has fallen to a level if usage stays as it is, seconds.

    It is 0 where the flow is no higher, and infinite where usage alone is as high.

    Args:
        flow_cores: Flow now, cores.
        usage_cores: Usage, cores; at most the flow.
        level_cores: The level, cores.
        half_time_s: Time in which the excess over usage halves, seconds.
    """
    if flow_cores <= level_cores:
        return 0.0
    if level_cores <= usage_cores:
        return math.inf
    return half_time_s * math.log2((flow_cores - usage_cores) / (level_cores - usage_cores))


def flow_keys(flow: Floats | float, usage_after: npt.NDArray[np.int64], weight: Floats | float) -> Floats:
    """Return flow divided by weight if scheduled; for weight 0, the flow itself.

    Args:
        flow: Flow of the queue now, cores.
        usage_after: Usage of the queue with the job, micro-cores.
        weight: Weight of the queue.
    """
    flow_after = np.maximum(flow, to_cores(usage_after))
    divisor = np.where(np.asarray(weight) > 0, weight, 1.0)
    return np.asarray(flow_after / divisor, dtype=np.float64)
