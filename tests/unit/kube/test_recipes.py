"""Recipes: what the simulated cluster reads of a bag."""

from __future__ import annotations

from argosy_kube.port import POD_KIND
from argosy_kube.simulated.recipes import RecipeCache
from argosy_kube.tables import RequestTable, TextTable
from argosy_testkit.cluster_batches import make_bag, make_pod


def test_sidecar_of_a_simulated_pod_counts_beside_its_containers() -> None:
    """A simulated pod asks for what it would on a real cluster: its sidecars go on while its containers run."""
    requests = RequestTable()
    recipes = RecipeCache(requests, TextTable((POD_KIND,)), TextTable())
    pod = make_pod(cpu="1")
    resources = {"requests": {"cpu": "500m"}}
    pod["spec"]["initContainers"] = [{"name": "log", "restartPolicy": "Always", "resources": resources}]
    recipe = recipes.find(make_bag(pod), 0, b"")
    assert isinstance(recipe, int)
    assert requests.matrix[recipes.columns[recipe, 1], requests.axis.names.index("cpu")] == 1500
