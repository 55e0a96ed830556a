"""The contract of the cluster port under the account that our manifests give the executor: its rights suffice."""

import gc
import importlib.util
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from testbed.cluster import KubeApi

from argosy_testkit.cluster_contract import ClusterContract

TESTS = Path(__file__).resolve().parents[1]
DEPLOY = TESTS.parents[1] / "deploy"

# The laboratory of the adapter's own tests; only the account differs.
_spec = importlib.util.spec_from_file_location("kube_laboratory", TESTS / "kube" / "conftest.py")
assert _spec is not None
assert _spec.loader is not None
_laboratory = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_laboratory)
contract_api = _laboratory.contract_api
administrator_lab = _laboratory.lab


@pytest.fixture(autouse=True)
def _connections_of_a_killed_server_are_dropped() -> Iterator[None]:
    """Drop what a connection attempt to a killed API server leaves behind; it is no fault of the rights."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="module")
def executor_kubeconfig(contract_api: KubeApi, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kubeconfig with a token of the service account argosy-executor."""
    manifests = contract_api.kubectl("kustomize", str(DEPLOY / "kustomize" / "cluster"))
    documents = [document for document in yaml.safe_load_all(manifests) if document["kind"] != "Deployment"]
    contract_api.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(documents))
    token = contract_api.kubectl("create", "token", "argosy-executor", "-n", "argosy", "--duration=1h").strip()
    config = yaml.safe_load(contract_api.kubeconfig.read_text(encoding="utf-8"))
    for user in config["users"]:
        user["user"] = {"token": token}
    path = tmp_path_factory.mktemp("account") / "kubeconfig"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


class TestExecutorAccount(ClusterContract):
    """The Kubernetes adapter with the rights of deploy/kustomize/cluster and no others."""

    @pytest.fixture
    def lab(self, administrator_lab: Any, executor_kubeconfig: Path) -> Any:
        """Give the laboratory, opened by the executor's account."""
        api = administrator_lab.api
        administrator_lab.api = SimpleNamespace(kubeconfig=executor_kubeconfig, restart=api.restart)
        return administrator_lab
