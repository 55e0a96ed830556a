"""The control plane of the testbed is a real one, and comes back after its death."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from testbed.cluster import KubeApi
from testbed.kubernetes import ControlPlane

from argosy_core.errors import BackendUnavailable
from argosy_local.processes import ProcessId, await_true, is_alive

ORPHANING = """
import os, signal, sys
from pathlib import Path
from testbed.kubernetes import ControlPlane, ControlPlaneOptions
plane = ControlPlane(Path(sys.argv[1]), ControlPlaneOptions(has_controllers=False))
plane.start()
print(*(f"{program.process.pid}:{program.process.start_ticks}" for program in plane.programs[:2]), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_control_plane_is_a_real_one(kube_api: KubeApi) -> None:
    """The API server tells a release that is new enough for what we rely on."""
    major, minor = kube_api.version.removeprefix("v").split(".")[:2]
    assert (int(major), int(minor)) >= (1, 33)


def test_authorization_is_on(kube_api: KubeApi) -> None:
    """The administrator may do everything, an account without a role nothing."""
    assert kube_api.kubectl("auth", "can-i", "delete", "nodes").strip() == "yes"
    with pytest.raises(BackendUnavailable, match="forbidden"):
        kube_api.kubectl("get", "pods", "--as=system:serviceaccount:default:default")


def test_controllers_count_what_a_quota_limits(kube_api: KubeApi) -> None:
    """A quota is worked out, and the pod beyond it refused: admission, controllers and API server play together."""
    kube_api.kubectl("create", "namespace", "bed-quota")
    kube_api.kubectl("create", "quota", "small", "--hard=pods=1", "--namespace=bed-quota")
    path = "/api/v1/namespaces/bed-quota/resourcequotas/small"

    def is_counted() -> bool:
        found = kube_api.control_plane.get(path)
        return bool(found and found.get("status", {}).get("used", {}).get("pods") == "0")

    await_true(is_counted, "the quota to be counted", timeout_s=30.0)
    run = ("run", "--image=none", "--restart=Never", "--namespace=bed-quota")
    await_true(lambda: has_service_account(kube_api, "bed-quota"), "the service account", timeout_s=30.0)
    kube_api.kubectl(*run, "first")
    with pytest.raises(BackendUnavailable, match="exceeded quota"):
        kube_api.kubectl(*run, "second")
    kube_api.kubectl("delete", "namespace", "bed-quota")
    assert kube_api.control_plane.get(path) is None


def has_service_account(cluster: KubeApi, namespace: str) -> bool:
    """Return whether the controllers have made a namespace's account, without which no pod is taken."""
    return cluster.control_plane.get(f"/api/v1/namespaces/{namespace}/serviceaccounts/default") is not None


def test_restarted_api_server_has_kept_its_objects_and_its_address(kube_api: KubeApi) -> None:
    """What was acknowledged is there after a kill, under the same URL, and while it is away calls fail."""
    kube_api.kubectl("create", "configmap", "bed-kept", "--from-literal=n=7")
    url = kube_api.url
    kube_api.kill()
    with pytest.raises(BackendUnavailable):
        kube_api.kubectl("get", "configmap", "bed-kept")
    kube_api.restart()
    assert kube_api.url == url
    assert kube_api.kubectl("get", "configmap", "bed-kept", "--output=jsonpath={.data.n}") == "7"
    kube_api.kubectl("delete", "configmap", "bed-kept")


def test_control_plane_ends_with_a_killed_owner(kube_api: KubeApi, tmp_path: Path) -> None:
    """A test run that is killed leaves no etcd and no API server behind."""
    bed = Path(sys.modules[ControlPlane.__module__].__file__ or "").parent.parent
    done = subprocess.run(
        [sys.executable, "-c", ORPHANING, str(tmp_path / "plane")],
        check=False, capture_output=True, text=True, cwd=bed, timeout=120,
    )  # fmt: skip
    pairs = [pair.split(":") for pair in done.stdout.split()]
    assert len(pairs) == 2, done.stderr
    processes = [ProcessId(pid=int(pid), start_ticks=int(ticks)) for pid, ticks in pairs]
    await_true(lambda: not any(map(is_alive, processes)), "the orphans to end", timeout_s=30.0)
