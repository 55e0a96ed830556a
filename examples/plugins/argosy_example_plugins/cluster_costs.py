"""A plugin of the decision: clusters that cost less come first, and some are not for every job."""

import numpy as np

from argosy_core.framework import CandidateCycle


class ClusterCosts:
    """Filter and score `cluster-costs` at the leader, by the price of a cluster's core hour."""

    def __init__(self, *, most_gpu_price: str = "inf", **prices: str) -> None:
        """Take the price of a cluster from the setting `cluster-costs.NAME`; one without a price costs nothing."""
        self._most_gpu_price = float(most_gpu_price)
        self._prices = {name: float(price) for name, price in prices.items()}

    def filter_candidates(self, cycle: CandidateCycle) -> np.ndarray:
        """Return (k,): jobs that ask for GPUs do not go where these cost too much."""
        asks = {one: "nvidia.com/gpu" in dict(cycle.definition(one).requests) for one in set(cycle.class_ids.tolist())}
        wants_gpu = np.array([asks[class_id] for class_id in cycle.class_ids.tolist()], np.bool_)
        return ~wants_gpu | (self._price(cycle) <= self._most_gpu_price)

    def score_candidates(self, cycle: CandidateCycle) -> np.ndarray:
        """Return (k,): 0 points for the dearest cluster, 100 for one that is free."""
        return 100.0 - 100.0 * self._price(cycle) / max(1e-9, *self._prices.values())

    def _price(self, cycle: CandidateCycle) -> np.ndarray:
        """Return (k,): the price at each candidate."""
        prices = np.array([self._prices.get(name, 0.0) for name in cycle.entries.cluster_names])
        return prices[cycle.entries.cluster[cycle.entry]]
